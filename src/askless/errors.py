"""The error family: every message says what was expected, what came, and what to do."""


class AsklessError(Exception):
    """Anything askless refuses to do; catch this to catch them all."""


class InputError(AsklessError, ValueError):
    """A bad argument, array or file."""


class OptionError(InputError, TypeError):
    """An option that a strategy does not have, or an array name that nobody knows."""


class ModelError(AsklessError, ValueError):
    """A network that cannot be looked into the way that was asked."""
