"""Turn the error that ended a command into one paragraph and an exit code."""

import errno
import os
import re
import sqlite3
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from askless import __version__
from askless.base.errors import AsklessError
from askless.cli.doctor import is_run

BUG, USAGE, DATA, BUSY = 1, 2, 3, 4
STOPPED, PIPE = 130, 141  # as a shell says of Ctrl-C, and of a pipe that nobody reads
KEPT = "Everything saved before is safe."
# What happened, and what to do.
BY_ERRNO = {
    errno.ENOSPC: ("the disk is full", f"Make room and run the command again. {KEPT}"),
    errno.EDQUOT: ("your disk quota is used up", f"Make room and run the command again. {KEPT}"),
    errno.EFBIG: ("the file would be too large for this disk", "Choose another place."),
    errno.EIO: ("the disk reported an error", f"Check the disk, then run the command again. {KEPT}"),
    errno.EROFS: ("the disk is read-only", "Choose another place, or make it writable."),
    errno.EACCES: ("permission denied", "Check who may read and write it, or choose another place."),
    errno.EPERM: ("the operation is not permitted", "Check who may read and write it, or choose another place."),
    errno.ENAMETOOLONG: ("the name is too long", "Use a shorter one."),
    errno.ELOOP: ("symbolic links form a loop", "Fix the link, or give the path of the file itself."),
    errno.ENOENT: ("no such file or folder", "Check the path."),
    errno.ENOTDIR: ("part of the path is a file, not a folder", "Check the path."),
    errno.EISDIR: ("expected a file, got a folder", "Check the path."),
    errno.EEXIST: ("it already exists", "Choose another name, or delete it."),
    errno.ENOTEMPTY: ("the folder is not empty", "Choose another name, or empty it."),
    errno.EMFILE: (
        "too many open files",
        "Raise the limit, for example with `ulimit -n 4096`, and run the command again.",
    ),
    errno.ENFILE: ("too many open files", "Close other programs, and run the command again."),
    errno.ENOMEM: ("not enough memory", "Close other programs, and run the command again."),
    errno.EAGAIN: (
        "the system allows no more processes or threads",
        "Close other programs, and run the command again.",
    ),
}


def ending(error: BaseException, given: Sequence[str] = ()) -> tuple[str, int]:
    """The paragraph to show ("" for none) and the exit code; `given` are the words of the command line."""
    text, code = told(error, given)
    return re.sub(r"\s*\n\s*", " ", text), code


def told(error: BaseException, given: Sequence[str]) -> tuple[str, int]:
    if isinstance(error, SystemExit):
        if isinstance(error.__context__, BrokenPipeError):  # typer and rich end so
            return "", PIPE
        return ("", error.code or 0) if not isinstance(error.code, str) else (error.code, BUG)
    if isinstance(error, KeyboardInterrupt):
        return "", STOPPED
    if isinstance(error, typer.Abort):
        asked = isinstance(error.__cause__ or error.__context__, EOFError)
        return ("expected an answer to the question, got the end of the input", USAGE) if asked else ("", STOPPED)
    if isinstance(error, AsklessError):
        return str(error), error.exit_code
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # of click, which typer may bring itself
        return wrong_use(error), error.exit_code
    if isinstance(error, BrokenPipeError):
        return "", PIPE
    if isinstance(error, sqlite3.Error):
        return of_database(error, given)
    if isinstance(error, OSError):
        return of_system(error), DATA
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error) or "out of memory" in str(error):
        return f"not enough memory. Close other programs, or process less at a time. {KEPT}", DATA
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from "):  # of pathlib before Python 3.13
        return of_system(OSError(errno.ELOOP, "", str(error).removeprefix("Symlink loop from ").strip("'"))), DATA
    if isinstance(error, RecursionError):
        return "the data is nested too deeply. Check the files for many brackets within brackets.", DATA
    return of_bug(error), BUG


def wrong_use(error: Any) -> str:
    if type(error).__name__ == "NoArgsIsHelpError":  # the help has been printed
        return ""
    path = error.ctx.command_path if getattr(error, "ctx", None) is not None else "askless"
    return f"{error.format_message()} See `{path} --help`."


def of_system(error: OSError) -> str:
    """Which file, what happened, what to do."""
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    happened, todo = BY_ERRNO.get(error.errno or 0, (error.strerror or str(error) or type(error).__name__, KEPT))
    return f"{' or '.join(names)}: {happened}. {todo}" if names else f"{happened}. {todo}"


def of_database(error: sqlite3.Error, given: Sequence[str]) -> tuple[str, int]:
    run = next(filter(is_run, map(Path, given)), None)
    where = "the database of the run" if run is None else str(run / "state.sqlite")
    said = str(error)
    if "locked" in said or "busy" in said:
        return f"{where}: another program is writing to it. Wait until it finishes, or stop it, and try again.", BUSY
    if "full" in said:
        happened, todo = BY_ERRNO[errno.ENOSPC]
    elif "I/O" in said:
        happened, todo = BY_ERRNO[errno.EIO]
    elif "readonly" in said or "unable to open" in said:
        happened, todo = f"no permission to write ({said})", "Check who may write to the folder and its files."
    else:
        happened, todo = f"it is damaged ({said})", "`askless doctor RUN` shows details; or restore a backup."
    return f"{where}: {happened}. {todo}", DATA


def of_bug(error: BaseException) -> str:
    said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    try:
        number, name = tempfile.mkstemp(prefix="askless-bug-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"askless {__version__}\n" + "".join(traceback.format_exception(error)))
        details = f"The details are in {name}"
    except OSError:
        details = "`--debug` shows the details"
    return f"this is a bug in askless ({said}). {details}; please report it with them and the command. {KEPT}"
