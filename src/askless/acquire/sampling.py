"""What few items, drawn at random from a stream, say about all of it: draws kept up to date, and a bound from below."""

import math
from typing import NamedTuple

import numpy as np

SURE = 0.95  # chance that the bound holds


class Draws(NamedTuple):
    """r rows, each drawn uniformly from all rows shown so far, independently of the others: one may be there twice."""

    rows: np.ndarray  # (r, d)
    shown: int  # how many there were to draw from

    def after(self, new: np.ndarray, rng: np.random.Generator) -> "Draws":
        """The draws once the rows `new` (m, d) were shown too: each is one of these with chance m / (shown + m)."""
        shown = self.shown + len(new)
        at = rng.integers(shown, size=len(self.rows))
        late = at >= self.shown
        rows = self.rows.copy()
        rows[late] = new[at[late] - self.shown]
        return Draws(rows, shown)


def at_least(mean: float, draws: int) -> float:
    """A bound on the mean over all items of a quantity from 0 to 1, from its mean over independent draws.

    By Hoeffding (1963), mean - sqrt(log(1 / (1 - SURE)) / (2 draws)) exceeds it with a chance of 1 - SURE at most. That
    holds for every stream, in every order; what is measured must not depend on the draws.

    >>> round(at_least(0.8, 200), 3)
    0.713
    """
    return max(0.0, mean - math.sqrt(math.log(1 / (1 - SURE)) / (2 * draws)))
