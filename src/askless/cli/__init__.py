"""The command line: each command parses, calls one library function, and shows the result."""

import sys
from collections.abc import Sequence

from askless.cli.app import app
from askless.errors import AsklessError

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; exit codes: 0 ok, 2 usage, 3 a problem with the data, 4 a port or run that is in use."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="askless")
    except AsklessError as error:
        print(f"askless: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
