"""What a stranger calls a class stays a name in the model's card."""

from askless.models.card import card, inert

CONFIG = {
    **{"backbone": "efficientnet-lite0", "net": "linear", "labels": 7, "unlabelled": 70, "learner": "fixmatch"},
    **{"strategy": "askless", "versions": {"askless": "0.1.0", "torch": "2.8.0+cpu"}, "measure": None, "shape": [3]},
}
PREPROCESS = {"size": 224, "channels": "RGB"}


def test_ordinary_names_are_shown_as_they_are():
    text = card({**CONFIG, "classes": ["cat", "big dog", "x_ray", "Käse", "no-one", "007"]}, PREPROCESS, {"a": "12ef"})
    assert "outputs: cat, big dog, x_ray, Käse, no-one, 007." in text
    assert "frozen features of efficientnet-lite0." in text
    assert "**Made with** askless 0.1.0, torch 2.8.0+cpu." in text


def test_names_are_neither_markdown_nor_html_nor_further_lines():
    hostile = [
        *(
            "a\n\n# Heading",
            "---\nlicense: mit\n---",
            "<script>alert(1)</script>",
            "[x](javascript:alert(1))",
            "![](//x/y)",
        ),
        *(
            "**bold**",
            "__x__",
            "`code`",
            "``two``",
            "www.example.com",
            "https://example.com",
            "a | b",
            "x\x1b[31m",
            "",
            " ",
        ),
    ]
    shown = {name: inert(name) for name in hostile}
    for name, text in shown.items():
        fence = text[: len(text) - len(text.lstrip("`"))]
        assert fence, name
        assert text.endswith(fence)
        assert fence not in text[len(fence) : -len(fence)]
        assert text.isprintable()
    assert shown["`code`"] == "`` `code` ``"
    assert shown["a\n\n# Heading"] == r"`a\n\n# Heading`"
    text = card({**CONFIG, "classes": hostile, "strategy": "<b>", "learner": "[x](y)"}, PREPROCESS, {"a": "12ef"})
    assert text.count("\n# ") == 0
    assert len(text.splitlines()) == len(card({**CONFIG, "classes": ["a"]}, PREPROCESS, {"a": "12ef"}).splitlines())
    assert "by `[x](y)`" in text
    assert "label: `<b>`." in text
