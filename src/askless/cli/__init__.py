"""The command line: each command parses, calls one library function, and shows the result."""

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence

from askless.base.terminal import notes
from askless.cli.app import app
from askless.cli.mishaps import ending

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit codes: 0 ok, 1 a bug, 2 usage, 3 a problem with the data, 4 a port or run in use.

    Errors are one paragraph long. `--debug`, before or after the command, or ASKLESS_DEBUG=1 shows the traceback too.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    words = given.index("--") if "--" in given else len(given)
    debug = "--debug" in given[:words] or os.environ.get("ASKLESS_DEBUG", "") not in ("", "0")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # names that the terminal's encoding does not have
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(
            args=[word for i, word in enumerate(given) if i >= words or word != "--debug"],
            prog_name="askless",
            standalone_mode=False,
        )
        if sys.stdout is not None:  # as with >&-
            sys.stdout.flush()
    except BaseException as error:
        text, code = ending(error, given)
        with contextlib.suppress(OSError):  # standard error may be gone too
            if debug:
                notes.print("".join(traceback.format_exception(error)))
            if text:
                notes.print(f"askless: {text}")
        drop_output()
        raise SystemExit(code) from None
    raise SystemExit(code or 0)


def drop_output() -> None:
    """Keep Python quiet at exit when standard output is closed or full, such as a pipe into `head` or a full disk."""
    is_real = sys.stdout is sys.__stdout__
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        if is_real:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
