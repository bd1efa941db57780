"""The command line: each command parses, calls one library function, and shows the result."""

import sys
from collections.abc import Sequence

from askless.cli.app import app
from askless.errors import AsklessError, OptionError

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line; exit codes: 0 ok, 2 usage, 3 a problem with the data."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="askless")
    except AsklessError as error:
        print(f"askless: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, OptionError) else 3) from None
