"""A benchmark worker: computes cells, in a process of its own or in this one."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import scipy.linalg  # noqa: F401  (these bring thread pools of their own, which have to be there to be limited)
import sklearn.cluster  # noqa: F401
import torch
from threadpoolctl import threadpool_limits

from askless.base.errors import AsklessError, InputError
from askless.bench.cell import Cell, Report, Stage, Steps, run_cell
from askless.bench.plan import Benchmark
from askless.bench.results import CELLS
from askless.bench.trials import trial_rows

Source = Benchmark | Callable[[], Benchmark]


class Trouble(NamedTuple):
    """Why a cell could not be finished."""

    reason: str
    details: str = ""


class Task(NamedTuple):
    """A cell as it is sent to another process, where its row is looked up: a row itself cannot always be sent."""

    group: str
    method: str
    seed: int
    start_seed: int | None


def task_of(cell: Cell) -> Task:
    return Task(cell.row.group, cell.row.method, cell.seed, cell.start_seed)


def benchmark_of(source: Source) -> Benchmark:
    return source if isinstance(source, Benchmark) else source()


def cannot_be_sent(error: Exception) -> InputError:
    return InputError(
        f"expected a benchmark that can be sent to a worker, got {type(error).__name__}: {error}; give run() a `source`, a "
        "function that makes the benchmark again, or put it in a file for `askless bench run FILE.py`"
    )


class Worker:
    """Computes the cells it is sent; the benchmark is made once, and data are kept for the next cell."""

    def __init__(self, make: Callable[[], Benchmark], out: Path, threads: int) -> None:
        self.out, self.stage, self.threads = out, Stage(), threads
        self.broken = ""
        try:
            with limited(threads):
                plan = make()
            self.rows = {(r.group, r.method): r for r in [*trial_rows(plan), *plan.rows]}
        except Exception as error:
            self.broken = f"the benchmark could not be made in a worker process: {type(error).__name__}: {error}"

    def compute(self, task: Task, report: Report | None = None, steps: Steps | None = None) -> Trouble | None:
        if self.broken:
            return Trouble(self.broken)
        cell = Cell(self.rows[task.group, task.method], task.seed, task.start_seed)
        return attempt(cell, self.out, self.stage, self.threads, report, steps)


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Inside, torch, numpy, scipy and scikit-learn compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def attempt(
    cell: Cell, out: Path, stage: Stage, threads: int, report: Report | None, steps: Steps | None = None
) -> Trouble | None:
    """Runs a cell; what went wrong, or None."""
    folder = out / CELLS / cell.name
    try:
        with limited(threads):
            run_cell(cell.row, cell.seed, folder, start_seed=cell.start_seed, stage=stage, report=report, steps=steps)
        return None
    except Exception as error:
        reason = str(error) if isinstance(error, AsklessError) else f"{type(error).__name__}: {error}"
        return Trouble(reason or type(error).__name__, traceback.format_exc())
