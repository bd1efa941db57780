"""The error family: every message says what was expected, what came, and what to do."""

import difflib
from collections.abc import Iterable


class AsklessError(Exception):
    """Anything askless refuses to do; catch this to catch them all. `exit_code` is the command line's.

    >>> try:
    ...     al.select("margn", 5, probs=[[0.9, 0.1]])
    ... except al.AsklessError as error:
    ...     print(type(error).__name__, error.exit_code)
    OptionError 2
    """

    exit_code = 3


class InputError(AsklessError, ValueError):
    """A bad argument, array or file.

    >>> issubclass(InputError, AsklessError), issubclass(InputError, ValueError)
    (True, True)
    """


class OptionError(InputError, TypeError):
    """An option that a strategy does not have, or an array name that nobody knows.

    >>> al.NPC(drawz=5)
    Traceback (most recent call last):
        ...
    askless.base.errors.OptionError: NPC: got drawz; its options are draws, bias,...
    """

    exit_code = 2


class BusyError(AsklessError):
    """A port, a folder or a run that something else is using."""

    exit_code = 4


class ModelError(AsklessError, ValueError):
    """A network that cannot be looked into the way that was asked.

    >>> al.kernels.find_head(torch.nn.ReLU(), torch.zeros(2, 3))
    Traceback (most recent call last):
        ...
    askless.base.errors.ModelError: expected the model to return the output of a linear...
    """


def unknown(what: str, got: object, known: Iterable[str]) -> str:
    """The words about a name that nobody knows: the nearest one where it looks like a slip, then all of them.

    >>> unknown("strategy", "MARGN", ["random", "margin"])
    "unknown strategy 'MARGN'; did you mean 'margin'? the known ones are random, margin"
    """
    known = list(known)
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(got.lower(), names, n=1, cutoff=0.75) if isinstance(got, str) else []
    hint = f"did you mean {names[near[0]]!r}? " if near else ""
    return f"unknown {what} {got!r}; {hint}the known ones are {', '.join(known)}"


def first_line(error: BaseException) -> str:
    """What an error of another package says, for a sentence of our own."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def some(names: Iterable[object], most: int = 10) -> str:
    """The first names for a message, each cut where it is long, and how many more there are: a file can have a million.

    >>> some(f"c{i}" for i in range(1_000_000))
    'c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 999,990 more'
    """
    every = list(map(str, names))
    shown = ", ".join(name if len(name) <= 80 else f"{name[:79]}…" for name in every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most:,} more"
