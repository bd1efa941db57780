"""A worker, wherever it is: what it is called with, how many threads it has, and how its errors travel."""

import pickle
from collections.abc import Callable, Iterable
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from typing import Any, Literal, NamedTuple, Protocol

from askless.base.errors import AsklessError
from askless.base.machine import limited

Tell = Callable[[Any], None]
Worker = Callable[[Any, Tell], Any]


class NotSent(AsklessError):
    """What makes a worker cannot be sent to another process."""


class News(NamedTuple):
    """Of a task, by its number: its worker tells of it, it is done (the answer), it failed (the error), or whoever had it is
    lost (why)."""

    number: int
    kind: Literal["told", "done", "failed", "lost"]
    content: Any


class Workers(Protocol):
    """Workers elsewhere, each of which has one task at a time."""

    def give(self, number: int, task: Any) -> None:
        """Gives the task to one that has none, or to a new one."""

    def news(self) -> Iterable[News]:
        """What there is to tell, after waiting about a second for something."""

    def let_go(self) -> None:
        """No task waits: those that have none may go."""


class Employed:
    """A worker in a process of its own, made with its first task of what `load` finds was sent. What it answers is the kind
    and the content of News."""

    def __init__(self, load: Callable[[], Callable[[], Worker]], threads: int | None) -> None:
        self.load, self.threads = load, threads
        self.worker: Worker | None = None

    def __call__(self, task: Any, tell: Tell) -> tuple[str, Any]:
        try:
            if self.worker is None:
                make = self.load()  # imports what has threads to be limited
                with limited(self.threads):
                    self.worker = make()
            with limited(self.threads):
                return "done", self.worker(task, tell)
        except Exception as error:
            return "failed", sendable(error)


def sendable(error: Exception) -> Any:
    """The error with the traceback it has here, or where it cannot be sent, one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = AsklessError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    return ExceptionWithTraceback(error, error.__traceback__)
