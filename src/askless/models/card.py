"""The model card: what a model is, what it was trained on, and how good it is, as far as that was measured."""

import re
from typing import Any

from askless.base.terminal import visible

PLAIN = re.compile(r"[^\W_]+([ _/-][^\W_]+)*|\d[\d.]*(\+\w+)?")  # words and versions, which Markdown leaves as they are


def card(config: dict[str, Any], preprocess: dict[str, Any], files: dict[str, str]) -> str:
    """README.md of a model's folder; `files`: the name and the sha256 of each file of weights."""
    weights = "; ".join(f"{name}, sha256 {digest}" for name, digest in files.items())
    noun = noun_of(config)
    number = "" if config.get("round") is None else f", round {config['round']}"
    date = f", {config['date']}" if config.get("date") else ""
    lines = [
        f"- **What it is**: {architecture(config)}.",
        f"- **Classes**, in the order of its outputs: {', '.join(map(inert, config['classes']))}.",
        f"- **Trained on** {config['labels']} labelled and {config['unlabelled']} unlabelled {noun}s of one collection, by "
        f"{inert(config['learner'])}{number}. Strategy for choosing what to label: "
        f"{inert(config.get('strategy', 'not recorded'))}.",
        f"- **How good**: {quality(config)}",
        *([f"- **Confidence**: {confidence(config)}"] if config.get("sharpness", 1.0) != 1 else []),
        f"- **Input**: {expected(config, preprocess)}",
        f"- **Weights**: {weights}.",
        f"- **Made with** {', '.join(f'{inert(name)} {inert(version)}' for name, version in config['versions'].items())}"
        f"{date}.",
        f"- **Limits**: it knows only these classes and assigns one of them to any {noun}; it was measured on {noun}s of "
        "the same collection and may do worse on others.",
    ]
    kind = {"image": "An image classifier", "text": "A text classifier"}.get(noun, "A classifier")
    return f"# {kind} made with askless\n\n" + "\n".join(lines) + "\n" + usage(config)


def inert(text: str) -> str:
    """A name as Markdown shows it, whatever is in it: as code where it is more than words."""
    if PLAIN.fullmatch(text):
        return text
    text = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    room = " " if not text.strip() or text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}"


def kind_of(config: dict[str, Any]) -> str:
    """What an item of a model is: "image", "text", "features" (a row), "tokens", or "other": numbers that the network takes
    as they are."""
    if "text" in config:
        return "text"
    return "features" if config.get("features") else str(config.get("kind", "image"))


def sides(preprocess: dict[str, Any]) -> tuple[int, int]:
    """(height, width) of the images that a model sees."""
    size = preprocess["size"]
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def noun_of(config: dict[str, Any]) -> str:
    kind = kind_of(config)
    return kind if kind in ("image", "text") else "item"


def architecture(config: dict[str, Any]) -> str:
    if config["backbone"] or config["net"] == "neighbours":
        heads = {"linear": "a linear layer", "neighbours": "the nearest labelled and unlabelled items"}
        head = heads.get(config["net"], "a small network")
        of = f"frozen features of {inert(config['backbone'])}" if config["backbone"] else "features"
        return f"{head} on the {of}"
    return f"{inert(config['net'] or config.get('module', 'a module of your own'))}, trained"


def quality(config: dict[str, Any]) -> str:
    """The honest measure in words."""
    if "measure" not in config:
        return "see report.html of the run, or the card of the model that `askless export RUN --to model` writes."
    measure = config["measure"]
    if measure is None:
        return "not measured, because no labelled items were held out from training."
    return (
        f"right on {measure['correct']} of {measure['n']} {measure['on']}, accuracy {measure['accuracy']:.3f} (95 % "
        f"interval {measure['low']:.3f} to {measure['high']:.3f})."
    )


def confidence(config: dict[str, Any]) -> str:
    """What stands between the network and its probabilities."""
    times = f"{config['sharpness']:.3f}"
    return (
        f"set by check items: probabilities are the softmax of {times} (`sharpness` in config.json) times the logits."
    )


def expected(config: dict[str, Any], preprocess: dict[str, Any]) -> str:
    if not preprocess.get("size"):
        told = preprocess.get("input", "numbers")
        return f"{told}." if "text" in config else f"{told}; shape {tuple(config['shape'])}."
    height, width = sides(preprocess)
    cut = f"scaled to cover {height} x {width} pixels, centre crop"
    return f"{preprocess['channels']}, EXIF orientation applied, {cut}."


def usage(config: dict[str, Any]) -> str:
    item = {"image": '"photo.jpg"', "text": '"a text"'}.get(noun_of(config), "row")
    own = "" if config["net"] or config.get("onnx") else ", net=the_module"
    return f"""
```python
import askless
model = askless.load("this folder"{own})
model.predict([{item}]), model.predict_proba([{item}]), model.classes_
```
"""
