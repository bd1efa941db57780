"""Coreset: k-centre greedy, furthest first (Sener & Savarese, ICLR 2018)."""

import numpy as np

from askless.acquire.furthest import Furthest
from askless.acquire.strategy import Selection, View
from askless.base.options import options


@options
class Coreset:
    """The item furthest from everything labelled or chosen so far, again and again.

    Scores are the squared distances at the moment of choice; `info["radius"]` is the covering radius that is left.
    With nothing labelled the first item is drawn at random. Cost: at most N d (|L| + n) by matrix products, in practice much
    less: a row is held against new centres only when it may be the furthest (see `furthest.py`).

    >>> al.select(al.Coreset(), 1, features=[[0.0], [1.0], [5.0]], labelled=[0]).indices
    array([2])
    """

    name = "coreset"
    needs = ("features",)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        furthest = Furthest(view["features"], view.labelled, view.unlabelled, view.max_memory)
        picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
        for i in range(n):
            if i == 0 and len(view.labelled) == 0:
                picks[i], scores[i] = rng.choice(view.unlabelled), np.inf
            else:
                picks[i], scores[i] = furthest.find()
            furthest.add(int(picks[i]))
            view.report(i + 1, n)
        covered = len(view.labelled) + n
        left = furthest.find()[1] if 0 < covered < view.N else 0.0 if covered else np.inf
        return Selection(picks, scores, {"radius": float(np.sqrt(left))})
