"""Worker processes of this machine."""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from askless.base.engine.worker import Employed, News, NotSent, Worker


class Processes:
    """Each process has a pipe: a task goes down, its reports and its end come up."""

    def __init__(self, make: Callable[[], Worker], threads: int | None) -> None:
        try:
            self.make = pickle.dumps(make)
        except Exception as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        self.threads, self.context = threads, get_context("spawn")
        self.busy: dict[Connection, tuple[Any, int]] = {}
        self.idle: list[tuple[Any, Connection]] = []

    def give(self, number: int, task: Any) -> None:
        while self.idle:
            process, pipe = self.idle.pop()
            if process.is_alive():
                break
            pipe.close()  # it died while it had nothing to do
        else:
            process, pipe = self.hire()
        pipe.send(task)
        self.busy[pipe] = (process, number)

    def hire(self) -> tuple[Any, Connection]:
        mine, theirs = self.context.Pipe()
        process = self.context.Process(target=serve, args=(self.make, self.threads, theirs), daemon=True)
        process.start()
        theirs.close()
        return process, mine

    def news(self) -> Iterator[News]:
        for pipe in [p for p in wait(list(self.busy), timeout=1.0) if isinstance(p, Connection)]:
            process, number = self.busy[pipe]
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError):
                process.join()
                del self.busy[pipe]
                pipe.close()
                why = f"its process ended with exit code {process.exitcode} (killed, or out of memory?)"
                yield News(number, "lost", why)
                continue
            if kind != "told":
                del self.busy[pipe]
                self.idle.append((process, pipe))
            yield News(number, kind, content)

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


def serve(make: bytes, threads: int | None, pipe: Connection) -> None:
    """A process that works at the tasks it is sent, until the pipe closes or the parent is gone."""
    stay_with_parent()
    worker = Employed(partial(pickle.loads, make), threads)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send(worker(task, lambda news: pipe.send(("told", news))))


def stay_with_parent() -> None:
    """Ends this process when its parent is gone, however that went; Ctrl-C is the parent's to act on."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
