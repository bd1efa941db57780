"""Locks on files, which the system gives back whatever happens to a process."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from askless.base.errors import BusyError

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
    try:
        with path.open("a") as file:
            return not _take(file)
    except OSError as error:
        return error.errno != errno.EROFS  # nobody can have taken it in an archive; another user may elsewhere


@contextmanager
def held_folder(path: Path) -> Iterator[bool | None]:
    """Holds a lock on a folder itself, in which nothing is left behind. False where another process has it, or has removed
    the folder; None where the system cannot lock folders."""
    if fcntl is None:
        yield None
        return
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        yield _is_ours(folder, path)
    finally:
        os.close(folder)


def _is_ours(folder: int, path: Path) -> bool | None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(folder), path.stat())  # removed before we had the lock?
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:  # as on some network disks
        return None


def _take(file: IO[str]) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
