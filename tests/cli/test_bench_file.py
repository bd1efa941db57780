"""`askless bench run FILE.py`: a benchmark of one's own, with one's own strategy and data, in worker processes."""

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from askless.acquire import STRATEGIES
from askless.bench import runner
from askless.cli import main
from askless.cli.bench import find

OWN = '''
import os
from functools import partial
from pathlib import Path

import numpy as np

from askless import Supervised
from askless.acquire import Selection
from askless.bench import Benchmark, Row
from askless.data import digits, subset
from beside import NET

FIRST = 100


def pool(last):
    with (Path(__file__).parent / "processes").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return subset(digits(), np.arange(FIRST, last))


class Last:
    """The unlabelled items at the end of the pool."""

    name, needs = "last", ("probs",)

    def __init__(self, step):
        self.step = step

    def select(self, view, n, rng):
        assert view.probs.shape == (view.N, 10)
        return Selection(view.unlabelled[:: -self.step][:n])


def row(method, strategy, data):
    learner = Supervised(steps=2)
    return Row(method=method, strategy=strategy, data=data, net=NET, learner=learner, start=10, counts=(10, 15))


benchmark = Benchmark(
    name="own",
    title="My own",
    rows=(
        row("last", Last(1), partial(pool, 300)),
        row("every other", Last(2), partial(pool, 300)),
        row("shorter", Last(1), partial(pool, 250)),
    ),
    seeds=(0, 1),
    baseline=None,
)
'''


def run(capsys, *arguments):
    code = 0
    try:
        main(["bench", "run", *map(str, arguments)])
    except SystemExit as done:
        code = done.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setattr(runner, "cores", lambda: 1)


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))  # which gets the file's folder
    path = tmp_path / "files" / "own.py"
    path.parent.mkdir()
    path.write_text(OWN)
    (path.parent / "beside.py").write_text('NET = "small-cnn"\n')
    return path


def asked_of(folder: Path, cell: str) -> list[list[int]]:
    return json.loads((folder / "cells" / cell / "result.json").read_text())["asked"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("ready_workers")
def test_own_strategy_and_own_data_run_and_go_on(capsys, own, tmp_path, workers):
    out = tmp_path / "out"
    code, shown, said = run(capsys, own, "--workers", workers, "--out", out)
    assert code == 0, said
    assert all(name in shown for name in ("last", "every other", "shorter", "report.html"))
    for cell in ("all--last--0", "all--shorter--1"):
        start, batch = asked_of(out, cell)
        N = 150 if "shorter" in cell else 200
        assert len(start) == 10
        assert batch == [i for i in reversed(range(N)) if i not in start][:5]
    start, batch = asked_of(out, "all--every_other--0")
    assert batch == [i for i in reversed(range(200)) if i not in start][:10:2]
    processes = set((own.parent / "processes").read_text().split())
    assert str(os.getpid()) in processes  # which looks at the data before anything is computed
    assert len(processes) == (1 if workers == 1 else 1 + workers)

    before = (out / "results.csv").read_text()
    code, _, said = run(capsys, own, "--workers", workers, "--out", out)
    assert code == 0, said
    assert (out / "results.csv").read_text() == before
    assert set((own.parent / "processes").read_text().split()) == processes, "everything was finished"


def test_other_options_of_an_own_strategy_are_not_taken_for_the_same(capsys, own, tmp_path):
    run(capsys, own, "--seeds", 1, "--workers", 1, "--out", tmp_path / "out")
    own.write_text(OWN.replace("Last(2)", "Last(3)"))
    code, _, said = run(capsys, own, "--seeds", 1, "--workers", 1, "--out", tmp_path / "out")
    assert code == 3
    assert "(old → new): strategy: Last({step: 2}) → Last({step: 3}); use another folder" in said


def test_a_benchmark_of_ones_own_is_not_held_against_a_paper(capsys, own, tmp_path):
    run(capsys, own, "--seeds", 1, "--workers", 1, "--out", tmp_path / "out")
    assert "paper" not in (tmp_path / "out" / "report.html").read_text().lower()


def test_a_function_of_the_scale_gets_it_and_the_command_says_so(capsys, own, tmp_path):
    more = (
        "made = benchmark\n\n\ndef benchmark(scale):\n    return dataclasses.replace(made, scale=scale, seeds=(7,))\n"
    )
    own.write_text(f"import dataclasses\n{OWN}\n\n{more}")
    assert run(capsys, own, "--scale", "smoke", "--workers", 1, "--out", tmp_path / "out")[0] == 0
    about = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert (about["scale"], about["seeds"]) == ("smoke", [7])
    assert about["command"] == f"askless bench run {own} --scale smoke --workers 1"


def test_an_unknown_file_is_a_matter_of_usage(capsys, tmp_path):
    code, _, said = run(capsys, tmp_path / "nothing.py")
    assert code == 2
    assert f"{tmp_path / 'nothing.py'}: expected a Python file that defines `benchmark`, got no such file" in said


@pytest.mark.parametrize(
    ("text", "got"),
    [("rows = 3\n", "none"), ("benchmark = 3\n", "int"), ("def benchmark(scale):\n    return [scale]\n", "list")],
)
def test_a_file_without_a_benchmark_is_refused(capsys, tmp_path, text, got):
    (tmp_path / "own.py").write_text(text)
    code, _, said = run(capsys, tmp_path / "own.py")
    assert code == 3
    assert "own.py: expected a variable `benchmark`, an askless.bench.Benchmark or a function of the scale" in said
    assert said.strip().endswith(f"got {got}")
    assert [p.name for p in tmp_path.iterdir()] == ["own.py"]


def test_a_folder_that_cannot_be_is_said_before_anything_runs(capsys, own, tmp_path):
    (tmp_path / "taken").write_text("")
    code, _, said = run(capsys, own, "--out", tmp_path / "taken")
    assert code == 3
    assert "taken: cannot write into this folder: File exists; choose another place" in said


def test_the_benchmark_of_fashion_mnist_is_the_one_of_the_docs():
    benchmark = find(str(Path(__file__).parents[2] / "benchmarks" / "fashion_mnist.py"), "small", None)
    assert [r.method for r in benchmark.rows] == ["random", "margin", "badge", "npc"]
    assert all(type(r.strategy) is type(STRATEGIES[r.method].make()) for r in benchmark.rows)
    assert {(r.start, r.counts, r.net) for r in benchmark.rows} == {(10, (10, 30, 50, 70), "small-cnn")}
    assert {(r.data.name, r.data.items, r.data.test) for r in benchmark.rows} == {("fashion-mnist", 10_000, None)}
    assert {(r.learner_name, r.learner.steps, r.learner.darp.every) for r in benchmark.rows} == {
        ("fixmatch+darp", 400, 20)
    }
    assert benchmark.seeds == (0, 1, 2)


def test_a_file_that_was_edited_is_named(tmp_path, capsys):
    text = (
        "from askless import Supervised\n"
        "from askless.bench import Benchmark, Data, Row\n"
        "row = Row(method='random', strategy='random', data=Data(name='digits', items=60, test=20), net='linear',\n"
        "          learner=Supervised(steps=1), start=10, counts=(10,))\n"
        "benchmark = Benchmark(name='tiny', title='tiny', rows=(row,), seeds=(0,))\n"
    )
    file = tmp_path / "mine.py"
    arguments = ["bench", "run", str(file), "--workers", "1", "--out", str(tmp_path / "out")]
    notes = []
    for content in (text, text, text + "# edited\n"):
        file.write_text(content)
        with contextlib.suppress(SystemExit):
            main(arguments)
        notes.append("changed after" in capsys.readouterr().err)
    assert notes == [False, False, True]
