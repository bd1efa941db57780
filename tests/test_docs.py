"""Every Python block in the README and in docs/ runs, top to bottom, each page in one namespace."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Benchmarks would take all cores, which other tests are using: small trainings then take many times as long."""
    monkeypatch.setattr("askless.bench.runner.cores", lambda: 1)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), namespace)


def test_the_examples_of_a_page_keep_their_line_numbers_for_the_type_checker():
    spec = importlib.util.spec_from_file_location("page_examples", ROOT / "tools" / "page_examples.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.code("# Page\n\n```sh\nls\n```\n```python\nx = 1\n```\nEnd.\n") == "\n\n\n\n\n\nx = 1\n"
    for page in PAGES:
        lines = "\n".join(line for line in tool.code(page.read_text()).splitlines() if line)
        assert lines == "\n".join(line for line in "".join(blocks(page, "python")).splitlines() if line)


def test_the_readme_has_examples():
    assert blocks(ROOT / "README.md", "python")


def label_everything(run, **options):
    """In place of the page: answers whatever the run asks, until its budget is used."""
    while not run.is_finished():
        while run.advance():
            pass
        names = (run.folder / "classes.txt").read_text().split()
        run.tell({path: names[i % len(names)] for i, path in enumerate(run.waiting())})


def test_every_command_line_in_the_docs_parses(tmp_path, monkeypatch, capsys):
    """The askless lines of shell blocks run, in an empty folder that holds the files they name."""
    import shlex

    import numpy as np
    from PIL import Image

    from askless.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("askless.label.web.serve.serve", label_everything)
    rng = np.random.default_rng(0)
    for folder, n in (("photos", 30), ("new_photos", 3)):
        Path(folder).mkdir()
        for i in range(n):
            Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(f"{folder}/{i}.png")
    Path("labels.csv").write_text("path,label\n0.png,cat\n")
    for table, n in (("reviews.csv", 40), ("new_reviews.csv", 3)):
        words = [" ".join(rng.choice(["good", "bad", "long", "short", "film", "book"], 5)) for _ in range(n)]
        Path(table).write_text("text\n" + "".join(f"{text} {i}\n" for i, text in enumerate(words)))
    arrays = {"features": rng.normal(size=(60, 8)), "probs": rng.dirichlet(np.ones(4), size=60)}
    np.save("features.npy", arrays["features"])
    np.save("probs.npy", arrays["probs"])
    np.savez("pool.npz", **arrays)
    Path("labelled.csv").write_text("index\n3\n8\n")
    lines = [
        line.removeprefix("$ ").split(" #")[0]
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.removeprefix("$ ").startswith("askless ")
    ]
    assert len(lines) >= 3
    for line in lines:
        if line.startswith("askless demo"):
            continue  # tested in test_demo.py
        assert "bench run" not in line or "--scale smoke" in line, f"hours of computing, in a block that runs: {line}"
        for name in ("predictions.csv", "picks.csv", "next.csv"):  # another page's, which would be asked about
            Path(name).unlink(missing_ok=True)
        code = 0
        try:
            main(shlex.split(line)[1:])
        except SystemExit as done:
            code = done.code or 0
        assert code == 0, f"{line}: {capsys.readouterr().err}"


def test_the_methods_page_names_every_strategy():
    from askless.acquire import STRATEGIES

    text = (ROOT / "docs" / "methods.md").read_text()
    for name, info in STRATEGIES.items():
        (row,) = (line for line in text.splitlines() if re.match(rf"\| \[?`{name}`", line))
        assert name == "albl" or all(need in row for need in info.make().needs)  # whose needs are those of its arms


def test_an_image_for_onnx_is_read_as_askless_reads_it(tmp_path, monkeypatch):
    """The example without askless in docs/models.md, on a photo that is not square and was taken upright."""
    import numpy as np
    from PIL import Image, ImageOps

    from askless.sources import read_image

    monkeypatch.chdir(tmp_path)
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (150, 220, 3), dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    photo.save("photo.jpg", exif=exif)
    lines = (ROOT / "docs" / "models.md").read_text(encoding="utf-8").splitlines()
    code = [line[4:] for line in lines if line.startswith((">>> image =", ">>> pixels ="))]
    names = {"np": np, "Image": Image, "ImageOps": ImageOps}
    exec("\n".join(code), names)
    np.testing.assert_array_equal(names["pixels"], read_image("photo.jpg", (128, 128)))
