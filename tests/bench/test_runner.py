"""Many cells: in this process or in others, killed and begun again, failing and dying."""

import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from askless import Supervised
from askless.acquire import Margin, Random, Selection
from askless.base.errors import AsklessError, BusyError, InputError, OptionError
from askless.base.locks import held
from askless.bench import Benchmark, Data, Row, compute, read, run, runner
from askless.bench.cell import run_cell
from askless.bench.plan import start_positions
from askless.bench.report import write
from askless.bench.results import cell_name
from askless.cli import main
from askless.cli.bench import find
from askless.features.frozen import Frozen

TINY = Data(name="digits", items=100, test=40)
FEW = Supervised(steps=3, batch=16, lr=0.1)


def row(method="random", strategy=None, **options):
    given = {"data": TINY, "net": "small-cnn", "learner": FEW, "start": 10, "counts": (10, 12)}
    return Row(method=method, strategy=strategy or method, **given | options)


def benchmark(*rows, seeds=(0, 1), **options):
    return Benchmark(name="tiny", title="Tiny", rows=rows or (row(), row("margin")), seeds=seeds, **options)


def result_of(out, method, seed, group=""):
    return json.loads((out / "cells" / cell_name(group, method, seed) / "result.json").read_text())


@dataclasses.dataclass(frozen=True)
class Failing:
    """Fails while the file `trouble` is there, in the cell of one seed (which its start tells)."""

    trouble: str
    start: int
    name = "failing"
    needs = ()

    def select(self, view, n, rng):
        if Path(self.trouble).exists() and self.start in view.labelled:
            raise ZeroDivisionError("no such luck")
        return Selection(view.unlabelled[:n])


def first_of_start(seed):
    """An item that only this seed starts with."""
    starts = {s: set(start_positions(TINY(), 10, "balanced", s).tolist()) for s in range(4)}
    return max(starts[seed] - set().union(*(starts[s] for s in starts if s != seed)))


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setattr(runner, "cores", lambda: 1)


# --- killed and begun again -----------------------------------------------------------------------------------------

KILLED = """
from askless import Supervised
from askless.acquire import ALBL, Random
from askless.bench import Benchmark, Data, Row

common = {"data": Data(name="digits", items=100, test=40), "net": "small-cnn", "start": 10}
short = {"learner": Supervised(steps=5, batch=16, lr=0.1), "counts": (10, 12)}
long = {"learner": Supervised(steps=%d, batch=16, lr=0.1, checkpoint_every=10), "counts": (10, 12, 14, 16)}
benchmark = Benchmark(
    name="killed",
    title="Killed",
    rows=(
        Row(method="random", strategy=Random(), **common, **short),
        Row(method="albl", strategy=ALBL(), **common, **long),
    ),
    seeds=(0, 1),
    figures=(),
)
"""


def snapshot(out):
    """When and as which file each finished cell was written."""
    found = {p.parent.name: p.stat() for p in out.glob("cells/*/result.json")}
    return {name: (s.st_mtime_ns, s.st_ino) for name, s in found.items()}


def children(pid):
    """The processes that this one started, and theirs."""
    text = Path(f"/proc/{pid}/task/{pid}/children")
    mine = [int(p) for p in text.read_text().split()] if text.exists() else []
    return mine + [p for child in mine for p in children(child)]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def start_and_kill(run_script, file, out, ready):
    """Starts a run in a process of its own with two workers and kills that process, and no other, once it is ready."""
    command = file.with_name("command.py")
    command.write_text(
        "from askless.bench import runner\nfrom askless.cli import main\n\nrunner.cores = lambda: 1\n"
        "if __name__ == '__main__':  # and not in the workers\n    main()\n"
    )
    process = run_script(command, "bench", "run", file, "--out", out, "--workers", 2)
    try:
        wait_for(lambda: not process.is_alive() or ready(), 300, "some cells")
        workers = children(process.pid)
        assert process.is_alive(), "it ended before it was killed"
    finally:
        process.kill()
        process.join()
    assert len(workers) >= 2  # and what Python itself starts beside them
    wait_for(lambda: not any(map(alive, workers)), 60, "the workers to go away by themselves")
    assert len(snapshot(out)) < 4
    return snapshot(out)


def in_the_middle_of_a_training(out):
    """A cell is done, and another one has its first of four rounds behind it and a checkpoint of the second."""
    with contextlib.suppress(FileNotFoundError):  # a cell that ends just now
        return bool(snapshot(out)) and any(
            json.loads(p.read_text())["rounds"] == 1 and (p.parent / "training.pt").exists()
            for p in out.glob("cells/all--albl--*/progress.json")
        )
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for child processes in /proc")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_run_ends_as_one_that_was_not(tmp_path, capsys, workers, run_script):
    file = tmp_path / "killed.py"
    file.write_text(KILLED % 40)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    main_ok("bench", "run", file, "--workers", workers, "--out", whole)
    killed.mkdir()
    done = start_and_kill(run_script, file, killed, lambda: in_the_middle_of_a_training(killed))
    assert done
    assert list(killed.glob("cells/*/progress.json"))
    main_ok("bench", "run", file, "--workers", workers, "--out", killed)
    after = snapshot(killed)
    assert {name: after[name] for name in done} == done, "finished cells are not touched"
    assert set(after) == set(snapshot(whole))
    for path in sorted(whole.glob("cells/*/result.json")):
        assert (killed / path.relative_to(whole)).read_bytes() == path.read_bytes()
    for name in ("results.csv", "tables.md", "tables.tex"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert not list(killed.glob("cells/*/progress.json")) + list(killed.glob("cells/*/training.pt"))


def main_ok(*arguments):
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in arguments])
    assert not done.value.code


def test_a_second_run_finds_everything_done(tmp_path, monkeypatch):
    first = run(benchmark(), tmp_path)
    before, told = snapshot(tmp_path), []
    monkeypatch.setattr(compute, "run_cell", None)
    second = run(benchmark(), tmp_path, progress=told.append)
    assert snapshot(tmp_path) == before
    assert second.records == first.records
    assert (told[-1].rounds, told[-1].cells) == (8, 4)


# --- failing --------------------------------------------------------------------------------------------------------


def test_a_cell_that_fails_costs_itself_and_is_tried_again(tmp_path):
    trouble, out = tmp_path / "trouble", tmp_path / "out"
    trouble.touch()
    plan = benchmark(row(), row("failing", Failing(str(trouble), first_of_start(1))))
    results = run(plan, out)
    assert [f[:3] for f in results.failures] == [("", "failing", 1)]
    assert results.failures[0].reason == "ZeroDivisionError: no such luck"
    assert set(results.asked) == {("", "random", 0), ("", "random", 1), ("", "failing", 0)}
    noted = json.loads((out / "cells" / "all--failing--1" / "failure.json").read_text())
    assert "in select" in noted["details"]
    page = write(results, out).read_text()
    assert "1 of 4 cells failed" in page
    assert "failing, 1: ZeroDivisionError: no such luck" in page

    before = snapshot(out)
    assert len(run(plan, out).failures) == 1, "still so"
    trouble.unlink()
    results = run(plan, out)
    assert not results.failures
    assert {name: snapshot(out)[name] for name in before} == before
    assert set(snapshot(out)) - set(before) == {"all--failing--1"}
    assert not (out / "cells" / "all--failing--1" / "failure.json").exists()


def test_bald_needs_dropout_and_says_so_before_anything_is_trained(tmp_path, monkeypatch):
    kind = {"net": "mlp", "data": TINY}
    plan = benchmark(row("bald", **kind), row("with", "bald", net_options=(("dropout", 0.2),), **kind), seeds=(0,))

    def trained(*args, **options):
        raise RuntimeError("something was trained")

    monkeypatch.setattr("askless.learn.training.train", trained)
    reasons = {f.method: f.reason for f in run(plan, tmp_path / "out").failures}
    assert "the strategy bald: expected a network with dropout" in reasons["bald"]
    assert "something was trained" in reasons["with"]
    monkeypatch.undo()
    results = run(plan, tmp_path / "out")
    assert [f.method for f in results.failures] == ["bald"]
    assert [len(asked) for asked in results.asked["", "with", 0]] == [10, 2]


def nothing_there():
    raise FileNotFoundError("no such file: pixels")


@pytest.mark.parametrize("net", ["small-cnn", Frozen(backbone="raw", weak=1, strong=1)])
def test_data_that_is_missing_is_said_and_the_others_finish(tmp_path, monkeypatch, net):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "data"))
    missing, own = row(group="a", data=Data(name="svhn"), net=net), row(group="b", data=nothing_there, net=net)
    results = run(benchmark(missing, own, row(group="c", net=net), seeds=(0,)), tmp_path / "out")
    reasons = {f.group: f.reason for f in results.failures}
    assert set(reasons) == {"a", "b"}
    assert reasons["a"].startswith("svhn: expected ")
    assert "askless data fetch svhn" in reasons["a"]
    assert reasons["b"] == "FileNotFoundError: no such file: pixels"
    assert set(results.asked) == {("c", "random", 0)}
    assert "2 of 3 cells failed" in write(results, tmp_path / "out").read_text()


def test_where_all_data_are_missing_nothing_is_begun(tmp_path, monkeypatch):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "data"))
    with pytest.raises(AsklessError, match="askless data fetch svhn"):
        run(benchmark(row(data=Data(name="svhn"))), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_failures_are_exit_code_3(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "data"))
    file = tmp_path / "failing.py"
    file.write_text(KILLED % 3)

    def failing(*args, **options):
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr("askless.learn.training.train", failing)
    with pytest.raises(SystemExit) as done:
        main(["bench", "run", str(file), "--seeds", "1", "--workers", "1", "--out", str(tmp_path / "out")])
    said = capsys.readouterr()
    assert done.value.code == 3
    assert "FAILED:  random, seed 0 and 1 more: RuntimeError: the disk is gone" in said.err
    assert "report.html" in said.out
    assert "2 of 2 cells failed" in (tmp_path / "out" / "report.html").read_text()


@dataclasses.dataclass(frozen=True)
class Dying:
    """Kills its process the first time, in the cell of one seed."""

    been: str
    start: int
    name = "dying"
    needs = ()

    def select(self, view, n, rng):
        if not Path(self.been).exists() and self.start in view.labelled:
            Path(self.been).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Selection(view.unlabelled[:n])


MORTAL = """
import sys
sys.path.insert(0, {folder!r})
from strategies_of_the_test import Dying
from askless import Supervised
from askless.bench import Benchmark, Data, Row

common = {{"data": Data(name="digits", items=100, test=40), "net": "small-cnn", "start": 10, "counts": (10, 12)}}
learner = Supervised(steps=3, batch=16, lr=0.1)
rows = [Row(method="random", strategy="random", learner=learner, **common)]
rows += [Row(method="dying", strategy=Dying({been!r}, {start}), learner=learner, **common)]
benchmark = Benchmark(name="tiny", title="Tiny", rows=tuple(rows), seeds=(0, 1))
"""


@pytest.mark.parametrize(
    "seed", [1, pytest.param(0, marks=pytest.mark.slow)]
)  # the last cell, or one that others follow
@pytest.mark.usefixtures("ready_workers")
def test_a_worker_that_dies_costs_its_cell_and_processes_change_no_number(tmp_path, monkeypatch, seed):
    """Two workers, one of which dies; then, without a death, the same numbers as by one."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    been, file = tmp_path / "been", tmp_path / "mortal.py"
    this = Path(__file__).read_text()
    head = "import dataclasses, os, signal\nfrom pathlib import Path\nfrom askless.acquire import Selection\n\n\n"
    begin = this.index("@dataclasses.dataclass(frozen=True)\nclass Dying")
    (tmp_path / "strategies_of_the_test.py").write_text(head + this[begin : this.index("MORTAL =")])
    file.write_text(MORTAL.format(folder=str(tmp_path), been=str(been), start=first_of_start(seed)))
    two, one, told = tmp_path / "two", tmp_path / "one", []
    source = partial(find, str(file), "small", None)
    plan = source()
    results = run(plan, two, workers=2, source=source, progress=told.append)
    assert [f[:3] for f in results.failures] == [("", "dying", seed)]
    assert results.failures[0].reason == "its process ended with exit code -9 (killed, or out of memory?)"
    assert len(results.asked) == 3
    assert (told[-1].rounds, told[-1].cells, told[-1].failed) == (8, 3, 1)
    assert been.exists()
    again = run(plan, two, workers=2, source=source)
    assert not again.failures
    write(again, two)
    write(run(plan, one, workers=1), one)
    assert (two / "results.csv").read_bytes() == (one / "results.csv").read_bytes()


# --- one folder -----------------------------------------------------------------------------------------------------


def test_other_settings_in_the_same_folder_are_refused_by_name(tmp_path):
    run(benchmark(), tmp_path)
    about, before = (tmp_path / "benchmark.json").read_bytes(), snapshot(tmp_path)
    for changed, words in (
        (benchmark(row(counts=(10, 13)), row("margin")), r"counts: \[10, 12\] → \[10, 13\]"),
        (benchmark(row(learner=Supervised(steps=4)), row("margin")), "learner.steps: 3 → 4"),
        (benchmark(row(), row("margin", Margin(on="logit"))), "strategy.on: 'prob' → 'logit'"),
        (benchmark(row(trials=(2, "best")), row("margin")), r"trials: None → \[2, 'best'\]"),
        (benchmark(row(counts=(10, 13)), row("margin"), seeds=(2,)), "counts"),  # seeds that ran before would be kept
    ):
        with pytest.raises(InputError, match=f"cells/all--.* was made with other settings .old → new.: {words}"):
            run(changed, tmp_path)
    assert (tmp_path / "benchmark.json").read_bytes() == about
    assert snapshot(tmp_path) == before
    assert len(list((tmp_path / "cells").iterdir())) == 4


def test_the_folder_of_another_benchmark_is_refused(tmp_path):
    run(benchmark(), tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="expected a new folder, or one of other, got one of "):
        run(dataclasses.replace(benchmark(), name="other"), tmp_path)
    assert snapshot(tmp_path) == before


def test_more_seeds_extend_a_run_and_fewer_keep_it(tmp_path):
    few = run(benchmark(seeds=(0,)), tmp_path)
    before = snapshot(tmp_path)
    more = run(benchmark(seeds=(0, 1, 2)), tmp_path)
    assert (few.about["seeds"], more.about["seeds"]) == ([0], [0, 1, 2])
    assert {name: snapshot(tmp_path)[name] for name in before} == before
    assert [r for r in more.records if r.seed == 0] == few.records
    kept = run(benchmark(seeds=(1,)), tmp_path)
    assert kept.about["seeds"] == [0, 1, 2]
    assert sorted(kept.records) == sorted(more.records)
    assert set(read(tmp_path).asked) == set(more.asked)


def test_a_method_more_joins_and_one_that_is_left_out_is_not_shown(tmp_path):
    run(benchmark(row()), tmp_path)
    before = snapshot(tmp_path)
    both = run(benchmark(row(), row("margin")), tmp_path)
    assert both.about["methods"] == ["random", "margin"]
    assert {name: snapshot(tmp_path)[name] for name in before} == before
    assert {r.method for r in run(benchmark(row("margin")), tmp_path).records} == {"margin"}


def test_a_benchmark_runs_group_by_group(tmp_path):
    made = benchmark(*(row(group=group) for group in ("a, plain", "a, turned", "b")), seeds=(0,))
    first = run(made, tmp_path, groups=["a*"])
    assert {r.group for r in first.records} == {"a, plain", "a, turned"}
    assert first.about["groups"] == ["a, plain", "a, turned", "b"]
    second = run(made, tmp_path, groups=["b"])
    assert {r.group for r in second.records} == {"a, plain", "a, turned", "b"}
    with pytest.raises(OptionError, match=r"unknown group 'c\*'; the known ones are a, plain, a, turned, b"):
        run(made, tmp_path, groups=["a*", "c*"])


def test_a_group_of_the_command_line_is_the_only_one_computed(tmp_path, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["bench", "run", "npc.table3", "--scale", "smoke", "--group", "digit", "--out", str(tmp_path / "out")])
    assert refused.value.code == 2
    assert "unknown group 'digit'" in capsys.readouterr().err


def test_two_runs_at_once_in_one_folder_are_refused(tmp_path):
    with (
        held(tmp_path / ".lock", "busy"),
        pytest.raises(BusyError, match=r"another benchmark is running in .*; wait for it, or use another folder"),
    ):
        run(benchmark(), tmp_path)
    assert not (tmp_path / "cells").exists()
    assert run(benchmark(row(), seeds=(0,)), tmp_path).records


def test_a_cell_has_one_thread_however_many_cores_there_are(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(runner, "cores", lambda: 8)
    seen = []
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    pools = []

    def look(moment):
        pools.extend(pool["num_threads"] for pool in threadpool_info())
        return []

    made = benchmark(row(measures=(look,)), seeds=(0,))
    assert run(made, tmp_path, workers=1).about["threads"] == 1
    assert seen[0] == 1
    assert len(pools) >= 2  # numpy's and scipy's
    assert set(pools) == {1}
    assert not caplog.messages


def test_the_first_run_settles_the_number_of_threads_and_later_ones_say_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(runner, "cores", lambda: 2)
    seen = []
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    run(benchmark(row(), seeds=(0,)), tmp_path, threads=2)
    assert not caplog.messages
    again = run(benchmark(row(), seeds=(0, 1)), tmp_path, threads=1)
    assert (again.about["threads"], seen[0], seen[2]) == (2, 2, 2)
    assert caplog.messages == [
        f"{tmp_path} was started with threads=2 for each cell and keeps them, because they decide the last digits; "
        "use another folder for threads=1"
    ]


def test_a_folder_of_another_version_is_gone_on_with_and_said_once(tmp_path, caplog):
    run(benchmark(row(), seeds=(0,)), tmp_path)
    about = json.loads((tmp_path / "benchmark.json").read_text())
    now = about["versions"]["askless"]
    about["versions"]["askless"] = "0.0.1"
    (tmp_path / "benchmark.json").write_text(json.dumps(about))
    for _ in range(2):
        run(benchmark(row(), seeds=(0,)), tmp_path)
    assert caplog.messages == [
        f"{tmp_path} was computed by askless 0.0.1 so far, and this is askless {now}; finished cells stay as they are: if "
        "their methods have since changed, use another folder"
    ]


def test_more_threads_than_cores_are_said(tmp_path, monkeypatch, caplog):
    """As in a folder that was begun by one worker and is resumed by two; a Ray cluster has its own cores."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(runner, "cores", lambda: 2)
    run(benchmark(row(), seeds=(0,)), tmp_path, threads=2)
    run(benchmark(row(), seeds=(0,)), tmp_path, workers=2)
    said = "2 workers x 2 threads exceed the 2 cores of this machine, so cells slow each other down; lower workers, or use "
    assert caplog.messages == [said + "another folder with threads=1"]
    assert runner.thread_notes(tmp_path, 2, None, 2, "ray") == caplog.messages
    assert [n.partition(";")[2] for n in runner.thread_notes(tmp_path, 3, None, 1, "local")] == [" lower workers"]
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert runner.thread_notes(tmp_path, 2, None, 2, "ray") == []


def test_threads_of_the_command_line_are_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "cores", lambda: 2)
    file = tmp_path / "mine.py"
    file.write_text(KILLED % 3)
    main_ok("bench", "run", file, "--seeds", 1, "--workers", 1, "--threads", 2, "--out", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert about["threads"] == 2
    assert about["command"].endswith("--workers 1 --threads 2")
    with pytest.raises(InputError, match="threads must be a whole number >= 1, got 0"):
        run(benchmark(), tmp_path / "none", threads=0)


def test_no_workers_are_refused(tmp_path):
    with pytest.raises(InputError, match="workers must be a whole number >= 1, got 0"):
        run(benchmark(), tmp_path, workers=0)


def test_data_that_cannot_be_sent_to_a_process_are_told(tmp_path):
    here = Data(name="digits", items=100, test=40)
    with pytest.raises(InputError, match=r"can be sent to a worker, got .*`source`"):
        run(benchmark(row(data=lambda: here()), row("margin", data=lambda: here())), tmp_path, workers=2)


def test_a_damaged_file_is_named_and_made_again(tmp_path):
    plan = benchmark(row(), seeds=(0,))
    before = run(plan, tmp_path)
    for file in (*tmp_path.glob("cells/*/result.json"), tmp_path / "benchmark.json"):
        file.write_text("{")
        for again in (partial(read, tmp_path), partial(run, plan, tmp_path)):
            with pytest.raises(InputError, match=rf"{file.name}: damaged .*; remove it, and run the benchmark again"):
                again()
        file.unlink()
        assert run(plan, tmp_path).records == before.records


# --- engines: those on Ray are in test_on_ray.py --------------------------------------------------------------------


def test_an_engine_that_nobody_knows_is_refused(tmp_path):
    with pytest.raises(OptionError, match="engine: expected local or ray, got 'dask'"):
        run(benchmark(), tmp_path / "out", engine="dask")
    with pytest.raises(OptionError, match=r"gpus: expected 0 with the engine local, .* got 0.5; use ray"):
        run(benchmark(), tmp_path / "out", gpus=0.5)
    with pytest.raises(InputError, match=r"gpus must be a number >= 0, got -1"):
        run(benchmark(), tmp_path / "out", gpus=-1, engine="ray")
    assert not (tmp_path / "out").exists()


def test_without_ray_its_engine_says_how_to_get_it_and_the_local_one_works(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    words = (
        "the engine ray needs Ray, which is not installed; run `pip install 'askless[ray]'`, or use the engine local"
    )
    with pytest.raises(OptionError, match=re.escape(words)):
        run(benchmark(), tmp_path / "out", engine="ray")
    with pytest.raises(SystemExit) as done:
        main(["bench", "run", "npc.table1", "--engine", "ray", "--out", str(tmp_path / "out")])
    assert done.value.code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert run(benchmark(row(), seeds=(0,)), tmp_path / "out", engine="local").records


# --- trials ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "place"), [("median", 1), ("best", 3)])
def test_the_median_or_best_start_is_shared_by_all_seeds(tmp_path, how, place):
    rows = (row(trials=(4, how)), row("margin", trials=(4, how)), row("own start", Random()))
    told = []
    results = run(benchmark(*rows), tmp_path / "out", progress=told.append)
    accuracy = {}
    for seed in range(4):  # what the trials are: the start alone, trained and measured
        run_cell(row("start 10", Random(), trials=(4, how), counts=(10,)), seed, tmp_path / str(seed))
        records = json.loads((tmp_path / str(seed) / "result.json").read_text())["records"]
        accuracy[seed] = next(v for *_, m, v in records if m == "test_accuracy")
    chosen = sorted(accuracy, key=lambda s: (accuracy[s], s))[place]
    start = start_positions(TINY(), 10, "balanced", chosen).tolist()
    assert {tuple(results.asked["", m, s][0]) for m in ("random", "margin") for s in (0, 1)} == {tuple(start)}
    for seed in (0, 1):
        assert results.asked["", "own start", seed][0] == start_positions(TINY(), 10, "balanced", seed).tolist()
    assert result_of(tmp_path / "out", "margin", 1)["settings"]["start_seed"] == str(chosen)
    assert "start_seed" not in result_of(tmp_path / "out", "own start", 1)["settings"]
    at_the_start = results.curve("test_accuracy", "", "random").table[:, 0]
    assert len(set(at_the_start.tolist())) <= 2, "seeds differ in the training only"
    assert {r.method for r in results.records} == {"random", "margin", "own start"}, "trials are no results"
    assert (told[-1].rounds, told[-1].cells) == (4 + 12, 4 + 6)
    assert run(benchmark(*rows), tmp_path / "out").records == results.records


def test_a_trial_that_fails_costs_those_that_wait_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path / "data"))
    lost = row(group="a", data=Data(name="svhn"), trials=(2, "best"))
    testless = row(group="b", data=without_test, trials=(1, "best"))
    told = []
    plan = benchmark(lost, testless, row(group="c"), seeds=(0,), metrics=("pool_accuracy",))
    results = run(plan, tmp_path, progress=told.append)
    reasons = {f.group: f.reason for f in results.failures}
    assert reasons["a"].startswith("the trial a--start_10--0, which settles the start, failed: svhn: expected")
    assert reasons["b"] == "the trial b--start_10--0, which settles the start, needs data with test items"
    assert set(results.asked) == {("c", "random", 0)}
    assert (told[-1].rounds, told[-1].all_rounds) == (9, 9)


def without_test():
    return dataclasses.replace(TINY(), test=None)


# --- data without a test set ----------------------------------------------------------------------------------------


def arrays(path, **more):
    rng = np.random.default_rng(0)
    np.savez(path, X=rng.normal(size=(80, 4)).astype(np.float32), y=np.arange(80) % 4, **more)
    return str(path)


def a_pair():
    return np.zeros((20, 4), np.float32), np.arange(20) % 4


def test_data_without_a_test_set_are_refused_before_any_cell_runs(tmp_path):
    for data in (Data(name=arrays(tmp_path / "mine.npz")), without_test):
        with pytest.raises(InputError, match="margin: expected data with a test set") as refused:
            run(benchmark(row(), row("margin", group="b", data=data, net="linear")), tmp_path / "out")
        said = str(refused.value)
        assert all(way in said for way in ("test=300", "x_test, y_test", "as_pool((x, y), test=", "pool_accuracy"))
        assert f"{len(data())} " in said
        assert not (tmp_path / "out").exists()


def test_a_function_that_makes_no_pool_is_refused_before_any_cell_runs(tmp_path):
    with pytest.raises(
        InputError, match=r"random: expected data that return a Pool, got a tuple; return al\.data\.as_pool"
    ):
        run(benchmark(row(data=a_pair)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_own_arrays_give_a_test_accuracy(tmp_path):
    x, y = a_pair()
    own = {
        "a": Data(name=arrays(tmp_path / "a.npz"), test=30),
        "b": Data(name=arrays(tmp_path / "b.npz", X_test=x, y_test=y)),
    }
    rows = [row(group=g, data=data, net="linear", start=4, counts=(4, 6)) for g, data in own.items()]
    results = run(benchmark(*rows), tmp_path / "out")
    assert [results.curve("test_accuracy", g, "random").table.shape for g in own] == [(2, 2), (2, 2)]


def test_the_pool_alone_may_be_measured(tmp_path):
    plan = benchmark(row(data=Data(name=arrays(tmp_path / "a.npz")), net="linear"), metrics=("pool_accuracy",))
    results = run(plan, tmp_path / "out")
    assert results.curve("pool_accuracy", "", "random").table.shape == (2, 2)
    assert "Pool accuracy" in write(results, tmp_path / "out").with_name("tables.md").read_text()


def test_data_of_finished_cells_are_not_loaded(tmp_path):
    loads = []

    def counted():
        loads.append(1)
        return TINY()

    plan = benchmark(row(data=counted), row("margin", data=counted), seeds=(0,))
    run(plan, tmp_path)
    before = len(loads)
    run(plan, tmp_path)
    assert (before, len(loads)) == (2, 2), "once to look, once for the cells"


# --- progress -------------------------------------------------------------------------------------------------------


def test_progress_adds_up(tmp_path):
    told = []
    failing = row("failing", Failing(str(tmp_path), first_of_start(1)), counts=(10, 12, 14))
    run(benchmark(row(), failing), tmp_path / "out", progress=told.append)
    assert {(p.all_rounds, p.all_cells) for p in told} == {(10, 4)}
    assert [p.rounds for p in told] == sorted(p.rounds for p in told)
    assert (told[-1].rounds, told[-1].cells, told[-1].failed) == (10, 3, 1)
    assert sum(p.cell_done for p in told) == 4
    assert told[0].latest == "preparing the data of random", "an encoder may need minutes for them"
    assert "random, seed 0: done" in [p.latest for p in told]
    assert "failing, seed 1: FAILED: ZeroDivisionError: no such luck" in [p.latest for p in told]
    rounds = [p.latest for p in told if "labels" in p.latest]
    assert len(rounds) == 2 + 2 + 3 + 1
    assert rounds[0].startswith("random, seed 0, 10 labels: ")
    inside = [p for p in told if p.latest.startswith("random, seed 0, round 2 of 2, ")]
    assert [p.latest.rpartition(", ")[2] for p in inside] == ["choosing", "training", "training step 3 of 3"]
    assert [p.part for p in inside] == [0.0, 0.0, 1.0]
    assert all(p.rounds + p.part <= p.all_rounds for p in told)
    assert rounds[0].endswith(" %")


def test_what_was_run_is_noted_in_full(tmp_path):
    plan = benchmark(row(group="a"), row("margin", value=(("more", FEW),)), figures=(), metrics=("mmd",), scale="smoke")
    about = run(plan, tmp_path, command=["askless", "bench", "run", "a b"]).about
    assert json.loads((tmp_path / "benchmark.json").read_text()) == about
    assert (about["groups"], about["methods"]) == (["a", ""], ["random", "margin"])
    assert about["learners"] == ["supervised", "more"]
    assert about["command"] == "askless bench run 'a b'"
    assert about["paper"] is None
    assert {"askless", "python", "torch", "numpy"} <= set(about["versions"])
    assert len(about["cells"]) == 4
    assert about["cells"][0]["settings"]["counts"] == "[10, 12]"


@pytest.mark.parametrize("device", ["gpu", "meta"])
def test_an_unknown_device_is_refused_before_anything_is_written(tmp_path, device):
    with pytest.raises(OptionError, match=f"device: expected 'cpu', 'cuda', 'cuda:1' or the like, got '{device}'"):
        run(benchmark(row()), tmp_path / "out", device=device)
    assert not (tmp_path / "out").exists()


def test_a_gpu_that_torch_does_not_see_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(OptionError, match="expected a GPU that torch sees, got 'cuda' on a machine where it sees none"):
        run(benchmark(row()), tmp_path / "out", device="cuda")
