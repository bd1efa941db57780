"""Locks on files, which the system gives back whatever happens to a process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from askless.errors import BusyError

try:
    import fcntl
except ImportError:  # no such locks on this system: everybody gets one
    fcntl = None  # type: ignore[assignment]


@contextmanager
def held(path: Path, busy: str, seconds: float = 2.0) -> Iterator[None]:
    """Holds the lock on `path`; a BusyError that says `busy` where another process keeps it for longer than `seconds`."""
    with path.open("a") as file:
        until = time.monotonic() + seconds
        while not _take(file):
            if time.monotonic() > until:
                raise BusyError(busy)
            time.sleep(0.05)
        yield


def is_held(path: Path) -> bool:
    """Whether some process holds the lock now."""
    if fcntl is None or not path.exists():
        return False
    with path.open("a") as file:
        return not _take(file)


def _take(file: IO[str]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
