"""Uniform choice: the baseline that every other way must beat."""

import numpy as np

from askless.acquire.strategy import Selection, View
from askless.base.options import options


@options
class Random:
    """n unlabelled items drawn uniformly without replacement.

    >>> al.select("random", 3, pool=10, seed=0).indices
    array([3, 8, 9])
    """

    name = "random"
    needs = ()

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        return Selection(rng.choice(view.unlabelled, size=n, replace=False))
