"""Which items measure and which may be chosen: drawn at random before anything else is known."""

from dataclasses import dataclass

import numpy as np

from askless.base.rng import stream

RESERVE = 3  # held-out items per planned check image, so that a larger budget finds unspoilt ones
MOST_HELD = 0.2  # share of all items


@dataclass(frozen=True)
class Draw:
    """`place` (N,): where each item came in the draw; the first `check` are asked, up to `held` are kept for later."""

    place: np.ndarray
    check: int
    held: int

    def split(self, item: int) -> str:
        place = self.place[item]
        return "check" if place < self.check else "reserve" if place < self.held else "pool"


def draw_check(n_items: int, budget: int, share: float, seed: int) -> Draw:
    """A uniform draw without replacement of round(share * budget) check images, and of a reserve for later.

    >>> draw = draw_check(1000, 200, 0.2, seed=0)
    >>> draw.check, draw.held
    (40, 120)
    """
    check = min(round(share * min(budget, n_items)), n_items // 2)
    held = min(max(check, min(RESERVE * check, int(MOST_HELD * n_items))), n_items - 1) if check else 0
    order = stream(seed, "check images").permutation(n_items)
    place = np.empty(n_items, np.int64)
    place[order] = np.arange(n_items)
    return Draw(place, check, held)
