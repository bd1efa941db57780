"""Worker processes of this machine, for the cells of a benchmark."""

import multiprocessing
import pickle
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from askless.base.engine import stay_with_parent
from askless.bench.cell import Cell
from askless.bench.crew import News
from askless.bench.worker import Source, Worker, benchmark_of, cannot_be_sent, task_of
from askless.track import due


class Processes:
    """Each process has a pipe: a cell goes down, its rounds, its training steps at these `rates`, and its end come up."""

    def __init__(self, source: Source, out: Path, threads: int, rates: tuple[int, ...] = ()) -> None:
        self.source, self.out, self.threads, self.rates = source, out, threads, rates
        self.context = multiprocessing.get_context("spawn")
        self.busy: dict[Connection, tuple[Any, Cell]] = {}
        self.idle: list[tuple[Any, Connection]] = []

    def give(self, cell: Cell) -> None:
        while self.idle:
            process, pipe = self.idle.pop()
            if process.is_alive():
                break
            pipe.close()  # it died while it had nothing to do
        else:
            process, pipe = self.hire()
        pipe.send(task_of(cell))
        self.busy[pipe] = (process, cell)

    def hire(self) -> tuple[Any, Connection]:
        mine, theirs = self.context.Pipe()
        process = self.context.Process(
            target=serve, args=(self.source, str(self.out), self.threads, theirs, self.rates), daemon=True
        )
        try:
            process.start()
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise cannot_be_sent(error) from error
        theirs.close()
        return process, mine

    def news(self) -> Iterator[News]:
        for pipe in [p for p in wait(list(self.busy), timeout=1.0) if isinstance(p, Connection)]:
            process, cell = self.busy[pipe]
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError):
                process.join()
                del self.busy[pipe]
                pipe.close()
                why = f"its process ended with exit code {process.exitcode} (killed, or out of memory?)"
                yield News(cell, "lost", why)
                continue
            if kind == "end":
                del self.busy[pipe]
                self.idle.append((process, pipe))
            yield News(cell, kind, content)

    def let_go(self) -> None:
        for process, pipe in self.idle:
            pipe.close()
            process.join(5)
        self.idle.clear()

    def close(self) -> None:
        for pipe, (process, _) in self.busy.items():
            process.terminate()
            pipe.close()
        self.let_go()


def serve(source: Source, out: str, threads: int, pipe: Connection, rates: tuple[int, ...] = ()) -> None:
    """A process that computes the cells it is sent, until the pipe closes or the parent is gone."""
    stay_with_parent()
    worker = Worker(lambda: benchmark_of(source), Path(out), threads)

    def step(at: int, numbers: dict[str, float], last: bool) -> None:
        if due(rates, at, last):
            pipe.send(("step", (at, numbers, last)))

    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        done = worker.compute(task, lambda numbers: pipe.send(("round", numbers)), step if rates else None)
        pipe.send(("end", done))
