"""Computes the cells of a benchmark, wherever the engine puts a worker."""

import gc
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import scipy.linalg  # noqa: F401  (these bring thread pools of their own, which have to be there to be limited)
import sklearn.cluster  # noqa: F401

from askless.base import digest
from askless.base.engine import Tell
from askless.base.errors import AsklessError, BusyError, InputError
from askless.base.locks import held
from askless.bench.cell import Cell, Stage, run_cell
from askless.bench.plan import Benchmark, Row
from askless.bench.results import ABOUT
from askless.bench.trials import trial_rows
from askless.track import due

PATIENCE = 60.0  # seconds, for a shared file system to show what another node wrote, and for a lost worker to be gone
SAY_EVERY = 1.0  # seconds, of training steps
COLLECT_EVERY = 10.0  # seconds: a collection takes a tenth of one, as long as some cells
Source = Benchmark | Callable[[], Benchmark]


class Task(NamedTuple):
    """A cell as it is sent to another process, where its row is looked up: a row itself cannot always be sent."""

    group: str
    method: str
    seed: int
    start_seed: int | None


class Trouble(NamedTuple):
    """Why a cell could not be finished."""

    reason: str
    details: str = ""


class CellWorker:
    """Computes the cells it is given in the folder `out`; the benchmark is made once, and data are kept for the next cell.

    It trains on `device`. It tells of every round, and of training steps at these `rates`. `shared`: where nodes share the
    folder, the digest of what they must see there; a cell is then computed while nobody else does.

    Learners refer to themselves in circles. Python's collector, which counts objects and not their bytes, would leave a
    gigabyte of them: the worker calls it every few seconds.
    """

    def __init__(
        self, source: Source, out: Path, rates: tuple[int, ...] = (), shared: str = "", device: str = "cpu"
    ) -> None:
        self.out, self.rates, self.shared, self.device = out, rates, shared, device
        self.stage, self.broken, self.collected = Stage(device=device), "", time.monotonic()
        self.rows: dict[tuple[str, str], Row] = {}
        try:
            plan = source if isinstance(source, Benchmark) else source()
            self.rows = {(r.group, r.method): r for r in [*trial_rows(plan.rows), *plan.rows]}
        except Exception as error:
            self.broken = f"a worker process could not make the benchmark: {type(error).__name__}: {error}"

    def __call__(self, task: Task, tell: Tell) -> Trouble | None:
        """What went wrong, or None."""
        if self.broken:
            return Trouble(self.broken)
        cell = Cell(self.rows[task.group, task.method], task.seed, task.start_seed)
        if not self.shared:
            return self.compute(cell, tell)
        check_shared(self.out, self.shared)
        folder = cell.place(self.out)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with held(folder / ".lock", f"another worker is still computing {folder}; run it again later", PATIENCE):
                return self.compute(cell, tell)
        except (BusyError, OSError) as error:  # one that was given up for lost may still be at it
            return Trouble(str(error))

    def compute(self, cell: Cell, tell: Tell) -> Trouble | None:
        def step(at: int, numbers: dict[str, float], last: bool) -> None:
            if due(self.rates, at, last):
                tell(("step", at, numbers, last))

        said = 0.0

        def within(what: str, share: float) -> None:
            nonlocal said
            if not 0 < share < 1 or time.monotonic() - said > SAY_EVERY:
                said = time.monotonic()
                tell(("now", what, share))

        try:
            run_cell(
                cell.row,
                cell.seed,
                cell.place(self.out),
                start_seed=cell.start_seed,
                stage=self.stage,
                report=lambda numbers: tell(("round", numbers)),
                steps=step if self.rates else None,
                device=self.device,
                within=within,
            )
            return None
        except Exception as error:
            reason = str(error) if isinstance(error, AsklessError) else f"{type(error).__name__}: {error}"
            return Trouble(reason or type(error).__name__, traceback.format_exc())
        finally:
            if time.monotonic() - self.collected > COLLECT_EVERY:
                gc.collect()
                self.collected = time.monotonic()


def digest_of(path: Path) -> str:
    return digest.of_text(path.read_text(encoding="utf-8"))


def check_shared(out: Path, content: str) -> None:
    """An error where this node does not see the folder with this content, after a while."""
    about = out / ABOUT
    if not about.exists() or not comes(lambda: digest_of(about) == content):
        raise InputError(
            f"expected every Ray node to see {out} with the {ABOUT} of this run, got a node ({os.uname().nodename}) "
            "that does not; use an --out on a file system that all nodes share"
        )


def await_result(path: Path) -> None:
    """An error where this machine does not see what a worker has written, after a while."""
    if not comes(path.exists):
        raise AsklessError(
            f"expected to see {path}, which a Ray worker wrote, found nothing; use an --out on a file system that "
            "all nodes share"
        )


def comes(is_there: Callable[[], bool]) -> bool:
    """Whether something is there in the end: a file system that nodes share may show late what another has written."""
    until = time.monotonic() + PATIENCE
    while not (there := is_there()) and time.monotonic() <= until:
        time.sleep(0.5)
    return there
