"""Runs the cells of a benchmark, in this process or in worker processes, and goes on where a killed run was."""

import contextlib
import itertools
import json
import math
import multiprocessing
import os
import platform
import shlex
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch

from askless import digest
from askless.bench.cell import Stage, cell_settings, check_same, finished, prepare, run_cell, settings_there, write_json
from askless.bench.plan import Benchmark, Row, text_of
from askless.bench.results import ABOUT, CELLS, Results, cell_name, read
from askless.errors import AsklessError, InputError
from askless.frozen import Frozen
from askless.locks import held
from askless.machine import cores, versions

TRIAL = "start"  # the method of trial cells, which settle what all others start from
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "matplotlib", "pillow", "safetensors")


@dataclass(frozen=True)
class Progress:
    """How a run goes: rounds and cells done and in all, the cells that failed, and the latest number in words."""

    rounds: int
    all_rounds: int
    cells: int
    all_cells: int
    failed: int
    latest: str
    cell_done: bool = False


class Cell(NamedTuple):
    """A row with a seed."""

    row: Row
    seed: int

    @property
    def name(self) -> str:
        return cell_name(self.row.group, self.row.method, self.seed)


def run(
    benchmark: Benchmark,
    out: str | Path,
    *,
    workers: int = 1,
    command: Sequence[str] = (),
    what: str = "",
    source: Callable[[], Benchmark] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Computes every cell that is not finished in `out`, and reads back all of them.

    With one worker the cells run in this process; with more, in so many processes, each with its share of the cores. The
    number of threads of a cell is settled by the first run in `out`, since it decides the last digits of a training.
    `source` makes the benchmark again in a worker, for one that cannot be sent there; `what` is how it was asked for, a
    preset or a file, and `command` the whole command: both are noted.
    """
    if workers < 1:
        raise InputError(f"workers: expected at least 1, got {workers}")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    with held(out / ".lock", f"another benchmark is running in {out}; wait for it, or use another folder"):
        about = describe(benchmark, workers, command) | {"what": what, "file": file_digest(what)}
        before = json.loads((out / ABOUT).read_text(encoding="utf-8")) if (out / ABOUT).exists() else None
        if before is not None:
            about["threads"] = before["threads"]
            now = {(c["group"], c["method"], c["seed"]) for c in about["cells"]}
            rows = {(r.group, r.method) for r in benchmark.rows}
            more = [c for c in before["cells"] if (c["group"], c["method"]) in rows]  # of seeds that ran before
            about["cells"] += [c for c in more if (c["group"], c["method"], c["seed"]) not in now]
            about["seeds"] = sorted({c["seed"] for c in about["cells"]})
        check_folder(benchmark, out, about)
        if before is None:  # the number of threads holds for the trials too
            write_json(out / ABOUT, about)
        crew = Crew(benchmark if source is None else source, out, workers, about["threads"], progress)
        trials = [Cell(row, seed) for row in trial_rows(benchmark) for seed in range(row.trials[0])]  # type: ignore[index]
        cells = [Cell(row, seed) for seed in benchmark.seeds for row in benchmark.rows]
        crew.total = sum(len(c.row.counts) for c in [*trials, *cells])
        crew.cells_in_all = len(trials) + len(cells)
        crew.work(trials, {})
        starts, lost = {}, {}
        for key in dict.fromkeys(trial_key(c.row) for c in trials):
            try:
                starts[key] = chosen_start(out, key, trials)
            except AsklessError as error:
                lost[key] = str(error)
        for cell in cells:
            finished(out / CELLS / cell.name, cell.row, cell.seed, start_of(cell.row, starts))
        write_json(out / ABOUT, about)
        startless = [c.row.trials is not None and trial_key(c.row) in lost for c in cells]
        for cell in itertools.compress(cells, startless):
            crew.give_up(cell, lost[trial_key(cell.row)])
        crew.work([c for c, no_start in zip(cells, startless, strict=True) if not no_start], starts)
    return read(out)


def check_folder(benchmark: Benchmark, out: Path, about: dict[str, Any]) -> None:
    """An error where a cell of the folder was made with other settings, before anything is computed or written."""
    rows = {(r.group, r.method): r for r in benchmark.rows}
    for c in about["cells"]:
        place = out / CELLS / cell_name(c["group"], c["method"], c["seed"])
        then = settings_there(place)
        if then is not None:  # which start the trials settled is not known yet
            then = {name: text for name, text in then.items() if name != "start_seed"}
            check_same(place, then, cell_settings(rows[c["group"], c["method"]], c["seed"], None))


def describe(benchmark: Benchmark, workers: int, command: Sequence[str]) -> dict[str, Any]:
    """What is run, as plain data: everything a report needs, and everything needed to run it again."""
    rows = benchmark.rows
    learners = [r.learner_name for r in rows] + [name for r in rows for name, _ in r.value]
    paper = {
        "source": benchmark.paper_source,
        "unit": "",
        "rows": [asdict_row(r) for r in benchmark.paper],
        "says": benchmark.claims,
    }
    return {
        **{name: getattr(benchmark, name) for name in ("name", "title", "scale", "comparable", "protocol", "baseline")},
        **{name: list(getattr(benchmark, name)) for name in ("open_points", "metrics", "figures", "seeds")},
        "paper": paper if benchmark.paper or benchmark.claims else None,
        "groups": list(dict.fromkeys(r.group for r in rows)),
        "methods": list(dict.fromkeys(r.method for r in rows)),
        "learners": list(dict.fromkeys(learners)),
        "cells": [
            {"group": r.group, "method": r.method, "seed": s, "settings": cell_settings(r, s, None)}
            for s in benchmark.seeds
            for r in rows
        ],
        "command": shlex.join(command),
        "versions": versions(PACKAGES),
        "threads": max(1, cores() // workers),
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": cores()},
    }


def asdict_row(row: Any) -> dict[str, Any]:
    return row._asdict() if hasattr(row, "_asdict") else asdict(row)


def file_digest(what: str) -> str:
    """Of the file that a benchmark came from; empty for a preset."""
    return (
        digest.of_text(Path(what).read_text(encoding="utf-8")) if what.endswith(".py") and Path(what).exists() else ""
    )


# --- trials: which start all seeds share ----------------------------------------------------------------------------


def trial_key(row: Row) -> tuple[str, int]:
    return row.group, row.start


def start_of(row: Row, starts: dict[tuple[str, int], int]) -> int | None:
    """The seed of the row's start where trials settled it."""
    return None if row.trials is None else starts.get(trial_key(row))


def trial_rows(benchmark: Benchmark) -> list[Row]:
    """One row for each start that is settled by trials: only the start's labels, trained and measured."""
    found = {
        trial_key(row): replace(
            row, method=f"{TRIAL} {row.start}", strategy="random", counts=(row.start,), measures=(), along=(), value=()
        )
        for row in reversed(benchmark.rows)
        if row.trials is not None
    }
    return list(found.values())


def chosen_start(out: Path, key: tuple[str, int], trials: list[Cell]) -> int:
    """The seed whose start came out median (or best)."""
    mine = [c for c in trials if trial_key(c.row) == key]
    accuracy = {}
    for cell in mine:
        path = out / CELLS / cell.name / "result.json"
        if not path.exists():
            why = json.loads((path.parent / "failure.json").read_text(encoding="utf-8"))["reason"]
            raise AsklessError(f"the trial {cell.name}, which settles the start, has failed: {why}")
        records = json.loads(path.read_text(encoding="utf-8"))["records"]
        accuracy[cell.seed] = next((r[4] for r in records if r[3] == "test_accuracy"), math.nan)
        if math.isnan(accuracy[cell.seed]):
            raise AsklessError(f"the trial {cell.name}, which settles the start, needs data with test items")
    order = sorted(accuracy, key=lambda s: (accuracy[s], s))
    how = mine[0].row.trials[1]  # type: ignore[index]
    return order[-1] if how == "best" else order[(len(order) - 1) // 2]


# --- work -----------------------------------------------------------------------------------------------------------


class Crew:
    """Those who compute cells, and the account of how far they are."""

    def __init__(
        self,
        benchmark: Benchmark | Callable[[], Benchmark],
        out: Path,
        workers: int,
        threads: int,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.benchmark, self.out, self.workers, self.threads, self.progress = benchmark, out, workers, threads, progress
        self.total = self.cells_in_all = self.rounds = self.cells = self.failed = 0

    def work(self, cells: list[Cell], starts: dict[tuple[str, int], int]) -> None:
        todo = []
        for cell in cells:
            start_seed = start_of(cell.row, starts)
            if finished(self.out / CELLS / cell.name, cell.row, cell.seed, start_seed):
                self.rounds += len(cell.row.counts)
                self.cells += 1
            else:
                todo.append((cell, start_seed))
        self.tell("")
        self._embed([cell for cell, _ in todo])
        if self.workers == 1 or len(todo) <= 1:
            self._here(todo)
        else:
            self._in_processes(todo)

    def tell(self, latest: str, cell_done: bool = False) -> None:
        if self.progress is not None:
            self.progress(
                Progress(self.rounds, self.total, self.cells, self.cells_in_all, self.failed, latest, cell_done)
            )

    def _embed(self, cells: list[Cell]) -> None:
        """What a frozen backbone must see once is embedded before the workers would each begin with it."""
        seen = set()
        for cell in cells:
            net = cell.row.net
            key = text_of((cell.row.data, net, cell.row.validation))
            if key not in seen and (isinstance(net, Frozen) or str(net).startswith("frozen:")):
                seen.add(key)
                try:
                    _, views, _ = prepare(
                        cell.row, lambda done, total: self.tell(f"embedding: {done} of {total} views")
                    )
                    views.test()
                except Exception:
                    continue  # the cells that need it will say what is wrong

    def _here(self, todo: list[tuple[Cell, int | None]]) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        stage = Stage()
        try:
            for cell, start_seed in todo:
                seen: list[int] = []
                reason = attempt(cell, self.out, start_seed, stage, lambda n, c=cell, s=seen: self._round(c, n, s))  # type: ignore[misc]
                self._ended(cell, reason, seen)
        finally:
            torch.set_num_threads(before)

    def _in_processes(self, todo: list[tuple[Cell, int | None]]) -> None:
        """Each worker has a pipe: a cell goes down, its rounds and its end come up. One that dies costs its cell only."""
        context = multiprocessing.get_context("spawn")
        waiting = list(reversed(todo))
        busy: dict[Connection, tuple[Any, Cell, list[int]]] = {}
        idle: list[tuple[Any, Connection]] = []
        try:
            while waiting or busy:
                while waiting and len(busy) < self.workers:
                    process, pipe = idle.pop() if idle else self._hire(context)
                    cell, start_seed = waiting.pop()
                    pipe.send((cell.row.group, cell.row.method, cell.seed, start_seed))
                    busy[pipe] = (process, cell, [])
                for pipe in [p for p in wait(list(busy), timeout=1.0) if isinstance(p, Connection)]:
                    process, cell, seen = busy[pipe]
                    try:
                        kind, content = pipe.recv()
                    except (EOFError, OSError):
                        process.join()
                        del busy[pipe]
                        reason = f"its process ended with exit code {process.exitcode} (killed, or out of memory?)"
                        self.give_up(cell, reason, seen)
                        continue
                    if kind == "round":
                        self._round(cell, content, seen)
                    else:
                        del busy[pipe]
                        idle.append((process, pipe))
                        if content is not None and not (self.out / CELLS / cell.name / "failure.json").exists():
                            note_failure(cell, self.out, content)
                        self._ended(cell, content, seen)
        finally:
            for pipe, (process, _, _) in busy.items():
                process.terminate()
                pipe.close()
            for process, pipe in idle:
                pipe.close()
                process.join(5)

    def _hire(self, context: Any) -> tuple[Any, Connection]:
        mine, theirs = context.Pipe()
        process = context.Process(
            target=worker, args=(self.benchmark, str(self.out), self.threads, theirs), daemon=True
        )
        process.start()
        theirs.close()
        return process, mine

    def give_up(self, cell: Cell, reason: str, seen: Sequence[int] = ()) -> None:
        note_failure(cell, self.out, reason)
        self._ended(cell, reason, seen)

    def _round(self, cell: Cell, numbers: dict[str, Any], seen: list[int]) -> None:
        self.rounds += 1
        seen.append(1)
        where = f"{cell.row.group}, {cell.row.method}" if cell.row.group else cell.row.method
        accuracy = f": {100 * numbers['test_accuracy']:.1f} %" if "test_accuracy" in numbers else ""
        self.tell(f"{where}, seed {cell.seed}, {numbers['labels']} labels{accuracy}")

    def _ended(self, cell: Cell, reason: str | None, seen: Sequence[int]) -> None:
        self.rounds += len(cell.row.counts) - len(seen)
        self.cells += reason is None
        self.failed += reason is not None
        name = f"{cell.row.group}, {cell.row.method}" if cell.row.group else cell.row.method
        text = "done" if reason is None else f"FAILED: {reason.splitlines()[0]}"
        self.tell(f"{name}, seed {cell.seed}: {text}", cell_done=True)


def worker(benchmark: Benchmark | Callable[[], Benchmark], out: str, threads: int, pipe: Connection) -> None:
    """A process that computes the cells it is sent, until the pipe closes or the parent is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told of Ctrl-C too, and ends its workers
    torch.set_num_threads(threads)
    broken = ""
    try:
        plan = benchmark if isinstance(benchmark, Benchmark) else benchmark()
        rows = {(r.group, r.method): r for r in [*trial_rows(plan), *plan.rows]}
    except Exception as error:
        broken = f"the benchmark could not be made in a worker process: {type(error).__name__}: {error}"
    stage = Stage()
    while True:
        try:
            group, method, seed, start_seed = pipe.recv()
        except EOFError:
            return
        if broken:
            pipe.send(("end", broken))
            continue
        cell = Cell(rows[group, method], seed)
        pipe.send(("end", attempt(cell, Path(out), start_seed, stage, lambda n: pipe.send(("round", n)))))


def end_with(parent: Any) -> None:
    """Ends this process when its parent is gone, however that went."""
    parent.join()
    os._exit(1)


def attempt(
    cell: Cell, out: Path, start_seed: int | None, stage: Stage, report: Callable[[dict[str, Any]], None]
) -> str | None:
    """Runs a cell; what went wrong, or None. A failure is noted in the cell's folder with all that is known of it."""
    try:
        run_cell(cell.row, cell.seed, out / CELLS / cell.name, start_seed=start_seed, stage=stage, report=report)
        return None
    except KeyboardInterrupt:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, AsklessError) else f"{type(error).__name__}: {error}"
        note_failure(cell, out, reason, traceback.format_exc())
        return reason or type(error).__name__


def note_failure(cell: Cell, out: Path, reason: str, details: str = "") -> None:
    with contextlib.suppress(OSError):  # where nothing can be written any more, the reason is still told
        write_json(out / CELLS / cell.name / "failure.json", {"reason": reason, "details": details})
