"""askless' strategies in the loops of other libraries, one thin file each."""

from askless.acquire import Strategy, uses_history
from askless.base.errors import InputError


def check_no_memory(strategy: Strategy, loop: str) -> None:
    """Another library's loop does not hand back to a strategy what it said last."""
    if uses_history(strategy):
        raise InputError(
            f"{strategy.name} learns from the labels it asked for, which {loop} does not pass on; use it in "
            "ActiveClassifier or ActiveLearner, or use another strategy here"
        )
