"""Actors of Ray, for the cells of a benchmark: many processes on this machine, or on all nodes of a cluster.

An actor for each worker rather than a task for each cell: it keeps the data it has loaded for the next cell (Ray ends a
process that has a GPU after every task), and how often a cell is tried again is ours to say. How far a cell is, is read from
its folder, which all nodes share; so little is lost with a node: even the training it was in goes on from its checkpoint.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from askless.base import digest
from askless.base.engine import check_room, connected, in_short
from askless.base.errors import AsklessError, BusyError, InputError
from askless.base.locks import held
from askless.bench.cell import Cell, round_numbers
from askless.bench.crew import News
from askless.bench.results import ABOUT, CELLS, cell_name
from askless.bench.worker import Source, Task, Trouble, Worker, benchmark_of, cannot_be_sent, task_of

PATIENCE = 60.0  # seconds, for a shared file system to show what another node wrote, and for a lost worker to be gone


class Home(NamedTuple):
    """What a worker has in common with the process that started it: folders, where modules are found, and the benchmark's
    folder with the digest of what it must hold."""

    folder: str
    path: list[str]
    out: str
    about: str


class Hand:
    """An actor: a worker, in a process and with cores of its own."""

    def __init__(self, home: Home, source: bytes, threads: int) -> None:
        with suppress(OSError):  # names of files may be relative to it
            os.chdir(home.folder)
        sys.path.extend(p for p in home.path if p not in sys.path)
        self.home = home
        self.worker = Worker(lambda: benchmark_of(unpickled(source)), Path(home.out), threads)

    def compute(self, task: Task) -> Trouble | None:
        """Computes a cell, while nobody else does: a worker that was given up for lost may still be at it."""
        self.check_folder()
        folder = Path(self.home.out) / CELLS / cell_name(task.group, task.method, task.seed)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with held(folder / ".lock", f"another worker computes {folder} still; run it again later", PATIENCE):
                return self.worker.compute(task)
        except (BusyError, OSError) as error:
            return Trouble(str(error))

    def check_folder(self) -> None:
        until = time.monotonic() + PATIENCE
        about = Path(self.home.out) / ABOUT
        while not about.exists() or digest_of(about) != self.home.about:
            if not about.exists() or time.monotonic() > until:
                raise InputError(
                    f"expected every Ray node to see {self.home.out} with the {ABOUT} of this run, got a node "
                    f"({os.uname().nodename}) that does not; use an --out on a file system that all nodes share"
                )
            time.sleep(0.5)


class Actors:
    """So many actors as have a cell, and those that wait for one."""

    def __init__(self, source: Source, out: Path, threads: int, gpus: float) -> None:
        import ray
        from ray import cloudpickle

        try:
            content = cloudpickle.dumps(source)
        except Exception as error:
            raise cannot_be_sent(error) from error
        self.out = out.resolve()
        self.home = Home(os.getcwd(), sys.path, str(self.out), digest_of(out / ABOUT))
        self.source, self.threads = ray.put(content), threads
        given = {name: os.environ[name] for name in ("ASKLESS_DATA",) if name in os.environ}
        self.hand: Any = ray.remote(Hand).options(
            num_cpus=threads, num_gpus=gpus, max_restarts=0, runtime_env={"env_vars": given}
        )
        self.busy: dict[Any, tuple[Any, Cell]] = {}
        self.idle: list[Any] = []
        self.looked: dict[str, int] = {}  # when the progress of a cell was written that was told
        self.done: list[Cell] = []

    def give(self, cell: Cell) -> None:
        actor: Any = self.idle.pop() if self.idle else self.hand.remote(self.home, self.source, self.threads)
        self.busy[actor.compute.remote(task_of(cell))] = (actor, cell)

    def news(self) -> Iterator[News]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        ended, _ = ray.wait(list(self.busy), timeout=1.0)
        for _, cell in self.busy.values():
            yield from self.rounds(cell)
        for ref in ended:
            actor, cell = self.busy.pop(ref)
            try:
                trouble = ray.get(ref)
            except RayTaskError as error:  # what a worker does not take for a cell's own failure
                ray.kill(actor)
                raise error.cause if isinstance(error.cause, AsklessError) else error from None
            except RayError as error:
                ray.kill(actor)
                yield News(cell, "lost", f"its worker was lost: {in_short(error)}")
            else:
                self.idle.append(actor)
                if trouble is None:
                    self.done.append(cell)
                yield News(cell, "end", trouble)

    def rounds(self, cell: Cell) -> Iterator[News]:
        """The rounds that the cell's folder tells of."""
        path = self.out / CELLS / cell.name / "progress.json"
        with suppress(FileNotFoundError):  # not begun, or ended just now
            written = path.stat().st_mtime_ns
            if self.looked.get(cell.name) != written:
                state = json.loads(path.read_text(encoding="utf-8"))
                self.looked[cell.name] = written
                for k in range(state["rounds"]):
                    yield News(cell, "round", round_numbers(cell.row, k, state))

    def let_go(self) -> None:
        """Cores that are not needed any more are given back: another worker may be waiting for them."""
        import ray

        for actor in self.idle:
            ray.kill(actor)
        self.idle.clear()

    def close(self) -> None:
        import ray

        for actor, _ in self.busy.values():
            ray.kill(actor)
        self.let_go()

    def see_all(self) -> None:
        """Waits until this machine sees what the nodes have finished: a shared file system may show it late."""
        until = time.monotonic() + PATIENCE
        for cell in self.done:
            result = self.out / CELLS / cell.name / "result.json"
            while not result.exists():
                if time.monotonic() > until:
                    raise AsklessError(
                        f"expected to see {result}, which a Ray worker has written, got nothing; use an --out on a file "
                        "system that all nodes share"
                    )
                time.sleep(0.5)


@contextmanager
def actors(
    source: Source, out: Path, workers: int, threads: int, gpus: float, tell: Callable[[str], None]
) -> Iterator[Actors]:
    """Actors to give cells to, on the Ray that there is, or on one that is started for them."""
    with connected(workers * threads, tell) as own:
        check_room(threads, gpus, own, tell)
        hands = Actors(source, out, threads, gpus)
        try:
            yield hands
            hands.see_all()
        finally:
            hands.close()


def unpickled(content: bytes) -> Any:
    from ray import cloudpickle

    return cloudpickle.loads(content)


def digest_of(path: Path) -> str:
    return digest.of_text(path.read_text(encoding="utf-8"))
