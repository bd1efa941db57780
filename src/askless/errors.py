"""The error family: every message says what was expected, what came, and what to do."""


class AsklessError(Exception):
    """Anything askless refuses to do; catch this to catch them all. `exit_code` is the command line's."""

    exit_code = 3


class InputError(AsklessError, ValueError):
    """A bad argument, array or file."""


class OptionError(InputError, TypeError):
    """An option that a strategy does not have, or an array name that nobody knows."""

    exit_code = 2


class BusyError(AsklessError):
    """A port, a folder or a run that something else is using."""

    exit_code = 4


class ModelError(AsklessError, ValueError):
    """A network that cannot be looked into the way that was asked."""
