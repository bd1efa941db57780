"""The examples of every command's help run, in their order, in one folder that holds the files they name."""

import io
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from askless.bench.results import Results
from askless.cli import app, main
from askless.cli.bench import find
from askless.cli.examples import EXAMPLES
from askless.label.labelstudio.annotations import Taken
from askless.label.labelstudio.exchange import Pushed
from askless.report.table import Table

MINE = """
import askless as al
from askless.bench import Benchmark, Data, Row

rows = tuple(
    Row(method=name, strategy=al.acquire.make(name), data=Data(name="digits", items=200, test=50), net="linear",
        learner=al.Supervised(steps=5), start=10, counts=(10, 12))
    for name in ("random", "margin")
)
benchmark = Benchmark(name="mine", title="Two strategies", rows=rows, seeds=(0,))
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = ["path,label"]
    for folder, n in (("photos", 30), ("new_photos", 3)):
        Path(folder).mkdir()
        for i in range(n):
            Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(f"{folder}/{i}.png")
            truth.append(f"{i}.png,{('cat', 'dog', 'other')[i % 3]}")
    Path("truth.csv").write_text("\n".join(truth[:31]))
    Path("labels.csv").write_text("path,label\n0.png,cat\n")
    Path("gpt.csv").write_text("path,label,confidence\n" + "".join(f"{i}.png,cat,0.9\n" for i in range(30)))
    Path("reviews.csv").write_text("text\n" + "".join(f"a {w} film {i}\n" for i in range(20) for w in ("good", "bad")))
    arrays = {"features": rng.normal(size=(60, 8)), "probs": rng.dirichlet(np.ones(4), size=60)}
    np.save("features.npy", arrays["features"])
    np.savez("pool.npz", **arrays)
    Path("labelled.csv").write_text("index\n3\n8\n")
    Path("items.jsonl").write_text("".join(f'{{"features": [{i}, 1]}}\n' for i in range(20)))
    Path("mine.py").write_text(MINE)
    return tmp_path


def label_everything(run, **options):
    """In place of the page: answers what the run asks, until its budget is used."""
    while not run.is_finished():
        while run.advance():
            pass
        names = (run.folder / "classes.txt").read_text().split()
        run.tell({path: names[i % len(names)] for i, path in enumerate(run.waiting())})


def without_waiting(patch, name):
    """What would wait for a person, a network or another server, or compute for a minute, answers at once."""
    patch.setattr("askless.label.web.serve.serve", label_everything)
    if name == "oracle":
        patch.setattr("askless.label.web.serve.served_at", lambda folder: "http://127.0.0.1:8347")
        patch.setattr("askless.label.oracle.answer_all", lambda url, labels, **how: len(labels))
    if name == "demo":  # computed in tests/bench/test_demo.py
        patch.setattr(sys.modules["askless.cli.app"], "label", lambda *run: None)
        patch.setattr("askless.bench.demo.run", lambda *how: Results({}, []))
        patch.setattr("askless.bench.demo.table", lambda results: Table("", ("a",), [("b",)]))
        patch.setattr("askless.bench.demo.write_report", lambda results, to: to / "report.html")
    if name == "data fetch":
        patch.setattr("askless.data.fetch", lambda name, report: Path("here") / name)
    if name == "bench run":
        patch.setattr("askless.bench.preset", lambda name, scale: find("mine.py", scale, None))
    if name.startswith("labelstudio"):
        patch.setattr("askless.label.labelstudio.Client.alive", lambda client: None)
        patch.setattr("askless.label.labelstudio.check", lambda *how: [])
        patch.setattr("askless.label.labelstudio.push", lambda *how: Pushed(1, "photos", "here", 0, 0, [], []))
        patch.setattr("askless.label.labelstudio.pull", lambda *how, **more: Taken())
    if name == "labelstudio serve":  # for real in tests/label/test_labelstudio_server.py
        patch.setattr("askless.label.labelstudio.live.follow", lambda live, url: lambda: None)
    if name == "labelstudio pull":
        patch.setenv("LABEL_STUDIO_URL", "http://localhost:8080")


def run(line):
    """Runs a line as a shell would that knows only pipes from `cat`; the exit code."""
    first, _, rest = line.partition(" | ")
    words, given = shlex.split(rest or first), io.StringIO(Path(first.split()[1]).read_text() if rest else "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", given)
        try:
            main(words[1:])
        except SystemExit as done:
            return done.code or 0
    return 0


def test_the_examples_of_every_command_run(place, monkeypatch, capsys):
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "0123456789abcdef0123456789abcdef01234567")
    monkeypatch.setattr("askless.bench.runner.cores", lambda: 1)
    for name, lines in EXAMPLES.items():
        assert lines
        for line in lines:
            assert f"askless {name}" in line
            with pytest.MonkeyPatch.context() as patch:
                without_waiting(patch, name)
                assert run(line) == 0, f"{line}: {capsys.readouterr().err}"
    assert len(Path("picks.csv").read_text().splitlines()) == 21
    assert len(Path("predictions.csv").read_text().splitlines()) == 4


def test_help_shows_the_examples(capsys):
    for name, lines in EXAMPLES.items():
        assert run(f"askless {name} --help") == 0
        shown = re.sub(r"\s+", " ", capsys.readouterr().out)
        for line in lines:
            assert f"$ {line}" in shown


def test_every_command_has_examples():
    """`with_examples` raises where a command has none; these are of no command."""
    from typer.main import get_command

    def names(command, before=""):
        inside = getattr(command, "commands", None)
        return (
            {before}
            if inside is None
            else {n for word, c in inside.items() for n in names(c, f"{before} {word}".strip())}
        )

    assert set(EXAMPLES) == names(get_command(app))
