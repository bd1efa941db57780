import dataclasses
import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import askless as al
from askless import bench
from askless.bench import demo
from askless.cli import main

FILE = """
from askless import Supervised
from askless.bench import Benchmark, Data, Row

rows = tuple(
    Row(method=name, strategy=name, data=Data(name="digits", items=80, test=30), net="linear",
        learner=Supervised(steps=3, batch=8), start=10, counts=(10, 15))
    for name in ("random", "margin")
)
benchmark = Benchmark(name="tiny", title="Tiny", rows=rows, seeds=(0,))
"""
FEW = ("--items", 12, "--queries", 2)


def run(capsys, *arguments):
    """Exit code, standard output and standard error of the command line."""
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def benchmark_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "mine.py").write_text(FILE)
    from askless.cli.bench import find

    what = str(folder / "mine.py")
    results = bench.run(find(what, "small", None), folder / "run", what=what)
    assert not results.failures
    return folder / "run"


@pytest.fixture(scope="module")
def learner_folder(tmp_path_factory):
    pool = bench.Data(name="digits", items=80, test=30)()
    learner = al.ActiveLearner(pool, net="mlp", learner=al.Supervised(steps=3, batch=8), strategy="random")
    learner.start_balanced(1)
    learner.fit()
    return learner.save(tmp_path_factory.mktemp("saved") / "learner")


@pytest.fixture(autouse=True)
def _hundred_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def test_a_saved_learner(capsys, learner_folder):
    code, out, err = run(capsys, "theory", learner_folder, *FEW)
    assert code == 0, err
    page = learner_folder / "theory" / "theory.html"
    assert f"Page: {page}" in out
    assert "base64" in page.read_text()
    data = json.loads((learner_folder / "theory" / "theory.json").read_text())
    assert data["run"] == "learner"
    assert data["labelled"] == len(data["positions"]) == 10
    assert data["drift"] is None
    assert "Note: No discrepancy" in out


def test_the_table_fits_a_hundred_columns_with_one_line_for_each_quantity(
    capsys, learner_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr("askless.cli.theory.out", Console(width=100, soft_wrap=True))
    code, out, _ = run(capsys, "theory", learner_folder, "--out", tmp_path, *FEW)
    assert code == 0
    table = out[: out.index("Note:")].splitlines()
    assert max(map(len, table)) <= 100
    head = next(i for i, line in enumerate(table) if "quantity" in line)  # above it: the run's name, on a line or two
    body = [line for line in table[head + 1 :] if line.strip()]
    assert [line for line in body if not re.match(r" {1,3}\S", line)] == []  # as a wrapped cell would be
    for word in ("condition, all layers", "bound B", "theorem 1, t = 10", "Kendall's tau", "Weyl", "assured"):
        assert word in out


def test_a_benchmark_by_its_first_cell_or_a_named_one(capsys, benchmark_folder):
    code, _, err = run(capsys, "theory", benchmark_folder, *FEW)
    assert code == 0, err
    first = json.loads((benchmark_folder / "theory" / "all--random--0" / "theory.json").read_text())
    assert first["run"] == "run, all--random--0"
    assert first["labelled"] == 15
    assert first["drift"]["start"] == 7  # of the 12 examined, what the 5 later ones leave
    code, _, err = run(capsys, "theory", benchmark_folder, "--cell", "all--margin--0", *FEW)
    assert code == 0, err
    second = json.loads((benchmark_folder / "theory" / "all--margin--0" / "theory.json").read_text())
    assert second["positions"] != first["positions"]
    assert [c["seed"] for c in bench.read(benchmark_folder).about["cells"]] == [0, 0]  # the run is as it was


@pytest.mark.parametrize("inside", ["", "learner"])
def test_a_cell_finds_its_benchmark(capsys, benchmark_folder, tmp_path, inside):
    cell = benchmark_folder / "cells" / "all--margin--0" / inside
    code, out, err = run(capsys, "theory", cell, "--out", tmp_path, *FEW)
    assert code == 0, err
    assert "all--margin--0" in out
    assert json.loads((tmp_path / "theory.json").read_text())["labelled"] == 15


def test_a_run_of_a_preset_that_noted_only_its_name(capsys, benchmark_folder, tmp_path, monkeypatch):
    """As runs of an earlier askless do."""
    from askless.bench import presets
    from askless.cli import bench as command

    made = command.find(str(benchmark_folder.parent / "mine.py"), "small", None)
    monkeypatch.setitem(presets.PRESETS, "tiny", SimpleNamespace(make=lambda scale: made))
    monkeypatch.setitem(command.PRESETS, "tiny", "a tiny one")
    copied = copy_of(benchmark_folder, tmp_path, what=None)
    code, _, err = run(capsys, "theory", copied, *FEW)
    assert code == 0, err


def test_the_rows_of_the_demo_by_gradient_descent_and_by_auto(capsys, tmp_path):
    plan = demo.benchmark(seeds=1)
    for name, learner in (("auto", demo.LEARNER), ("supervised", al.Supervised(steps=1))):
        row = dataclasses.replace(plan.rows[0], learner=learner, counts=(10, 20))
        bench.run(dataclasses.replace(plan, rows=(row,)), tmp_path / name)
    assert run(capsys, "theory", tmp_path / "supervised", "--items", 4, "--queries", 1)[0] == 0
    code, out, _ = run(capsys, "theory", tmp_path / "auto", "--items", 4, "--queries", 1)
    assert (code, "Auto computes its head without gradient descent" in out) == (0, True)
    assert re.search(r"rate of this run +– ", out)


def test_cells_side_by_side(capsys, benchmark_folder, tmp_path):
    code, out, err = run(capsys, "theory", benchmark_folder, "--cell", "*--0", "--out", tmp_path, *FEW)
    assert code == 0, err
    assert re.search(r"quantity +all--random--0 +all--margin--0", out)
    ranks = re.search(r"rank, last layer +(\d+ of 12) +(\d+ of 12)", out)
    cells = json.loads((tmp_path / "theory.json").read_text())["cells"]
    assert [f"{c['spectra']['last']['rank']} of 12" for c in cells.values()] == [*ranks.groups()]
    page = (tmp_path / "theory.html").read_text()
    assert all(f"<h2>{title}</h2>" in page for title in ("Side by side", "all--random--0", "all--margin--0"))
    assert "--cell &#x27;*--0&#x27;" in page


def test_a_labelling_run(capsys, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(40, 6)).astype("float32"))
    options = {"classes": ["a", "b"], "budget": 12, "check": 0.0, "batch": 6, "net": "linear"}
    with al.Run.create(tmp_path / "rows.npz", tmp_path / "run", **options) as made:
        code, _, err = run(capsys, "theory", tmp_path / "run", *FEW)
        assert (code, "expected a run with a trained model, got one without; label a batch first" in err) == (3, True)
        while not made.is_finished():
            while made.advance():
                pass
            made.tell({path: "ab"[i % 2] for i, path in enumerate(made.waiting())})
        while made.advance():
            pass
    code, out, err = run(capsys, "theory", tmp_path / "run", *FEW)
    assert code == 0, err
    assert "12 of 12" in out
    assert (tmp_path / "run" / "theory" / "theory.html").exists()


def copy_of(folder, tmp_path, **changes):
    """The run with other notes; None removes one."""
    place = shutil.copytree(folder, tmp_path / "copy")
    about = json.loads((place / "benchmark.json").read_text()) | changes
    (place / "benchmark.json").write_text(json.dumps({k: v for k, v in about.items() if v is not None}))
    return place


def test_what_is_no_run_is_said_with_exit_3(capsys, benchmark_folder, tmp_path):
    expected = (
        "expected a labelling run, a folder written by ActiveLearner.save, or one of `askless bench run` or its cells"
    )
    code, _, err = run(capsys, "theory", tmp_path / "none")
    assert (code, expected in err, "no such folder" in err) == (3, True, True)
    code, _, err = run(capsys, "theory", tmp_path)
    assert (code, expected in err) == (3, True)
    code, _, err = run(capsys, "theory", benchmark_folder, "--cell", "all--npc--0")
    assert (code, "the finished ones are all--random--0, all--margin--0" in err) == (3, True)
    alone = shutil.copytree(benchmark_folder / "cells" / "all--random--0", tmp_path / "alone")
    code, _, err = run(capsys, "theory", alone)
    assert (code, "expected a cell inside its benchmark's folder" in err) == (3, True)
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "progress.json").write_text("{}")
    code, _, err = run(capsys, "theory", tmp_path / "half")
    assert (code, "got one with rounds left" in err) == (3, True)


def test_cell_is_an_option_of_benchmarks(capsys, learner_folder):
    code, _, err = run(capsys, "theory", learner_folder, "--cell", "all--npc--0")
    assert (code, "--cell is for a folder of `askless bench run`" in err) == (2, True)


def test_a_benchmark_that_is_no_longer_what_it_was(capsys, benchmark_folder, tmp_path):
    gone = copy_of(benchmark_folder, tmp_path / "a", what="elsewhere.py")
    code, _, err = run(capsys, "theory", gone)
    assert (code, "a file still at its original path" in err) == (3, True)
    (tmp_path / "other.py").write_text(FILE.replace("items=80", "items=90"))
    changed = copy_of(benchmark_folder, tmp_path / "b", what=str(tmp_path / "other.py"))
    code, _, err = run(capsys, "theory", changed)
    assert (code, "was made with other settings (old → new): data.items: 80 → 90; run the cell again" in err) == (
        3,
        True,
    )
    (tmp_path / "fewer.py").write_text(FILE.replace('"random", "margin"', '"margin",'))
    fewer = copy_of(benchmark_folder, tmp_path / "c", what=str(tmp_path / "fewer.py"))
    code, _, err = run(capsys, "theory", fewer)
    assert (code, "expected a row of tiny, which no longer has one of that name" in err) == (3, True)
    shutil.rmtree(fewer / "cells")
    code, _, err = run(capsys, "theory", fewer)
    assert (code, "with a finished cell, got none" in err) == (3, True)
    (fewer / "benchmark.json").write_text("{")
    code, _, err = run(capsys, "theory", fewer)
    assert (code, "one that cannot be read" in err) == (3, True)


def test_what_cannot_be_examined_is_said_with_exit_3(capsys, tmp_path):
    pool = bench.Data(name="digits", items=40, test=10)()
    learner = al.ActiveLearner(pool, net="linear", learner=al.Supervised(steps=2, batch=4), strategy="random")
    code, _, err = run(capsys, "theory", learner.save(tmp_path / "empty"))
    assert (code, "expected a learner with labelled items, got none" in err) == (3, True)
    learner.tell([0, 1], pool.labels[:2])
    code, _, err = run(capsys, "theory", learner.save(tmp_path / "untrained"))
    assert (code, "got one with 2 labels and no training yet" in err) == (3, True)
    features = al.data.as_pool(pool.take(range(40)).flatten(1).float().numpy(), pool.labels, classes=pool.classes)
    spread = al.ActiveLearner(features, net="linear", learner=al.LabelPropagation(), strategy="random")
    spread.tell([0, 1], pool.labels[:2])
    spread.fit()
    code, _, err = run(capsys, "theory", spread.save(tmp_path / "spread"))
    assert (code, "got LabelPropagation" in err) == (3, True)
    assert not list(tmp_path.glob("*/theory/*"))
    learner.fit()
    code, _, err = run(capsys, "theory", learner.save(tmp_path / "poolless", pool=False))
    assert (code, "in Python, pass it to askless.theory.findings.examine" in err) == (3, True)


def test_wrong_numbers_are_usage_errors(capsys, learner_folder):
    assert run(capsys, "theory", learner_folder, "--items", 3)[0] == 2
    assert run(capsys, "theory", learner_folder, "--queries", 0)[0] == 2
    assert run(capsys, "theory")[0] == 2
