"""MaxHerding: the batch with the largest generalized coverage of the pool (Bae et al., ECCV 2024)."""

from typing import Annotated

import numpy as np

from askless.acquire.covering import Cover, UnitRows, greedy
from askless.acquire.strategy import Selection, View, drawn
from askless.base.options import Between, Several, options

PER_LABEL = 8  # targets that a label stands for, at least, where `max_memory` has room for them

Lengthscale = Annotated[float, Between(0.01, 1e3)]  # rows of unit length are at most 2 apart


@options
class MaxHerding:
    r"""Made for the first labels: greedily the batch S with the largest coverage

    $$C(L \cup S) = \frac{1}{N} \sum_x \max_{s \in L \cup S} k(x, s), \qquad k(x, s) = \exp(-|x - s|^2 / \sigma^2),$$

    of rows x of unit length; sigma is the `lengthscale`, 1 in the paper. ProbCover is the same with k = 1 inside a ball and
    0 outside. The sum is over all items, or over `targets` of them drawn at random (8 per label, where `max_memory` has room
    for them) where the pool is larger. The picks come from all unlabelled items, or from 65,536 drawn at random (8 per
    pick).

    The paper's algorithm holds all N^2 kernel values; here a gain is computed again only while it may be the largest. In
    pools of more than 2,896 items a sample decides which items the first picks come from (see `acquire/covering.py`).
    Scores are the coverage that each pick adds. `info`: the coverage before and after, and the number of items that lie
    nearest to each pick, which it `stands_for`. Beside `max_memory` the targets are held in float32. Works with zero labels.

    >>> F = [[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.0, 1.0]]
    >>> picks = al.select(al.MaxHerding(), 1, features=F)
    >>> picks.indices, picks.info["stands_for"]
    (array([2]), [4])
    """

    lengthscale: Lengthscale = 1.0
    targets: Several = 8192
    name = "maxherding"
    needs = ("features",)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        rows = UnitRows(view["features"], view.max_memory // 2)
        return herd(view, n, rng, rows, np.ones(view.N), self.lengthscale, self.targets)


def herd(
    view: View, n: int, rng: np.random.Generator, rows: UnitRows, weight: np.ndarray, sigma: float, targets: int
) -> Selection:
    """The n items that add most to sum_x w(x) max_s k(x, s) / sum_x w(x), `weight` (N,) >= 0, one after the other."""
    wished = min(PER_LABEL * (len(view.labelled) + n), view.max_memory // (16 * rows.width))
    some = drawn(view.N, max(targets, wished), rng)
    w = weight[some] if weight[some].sum() > 0 else np.ones(len(some))  # certain of all: coverage still decides
    cover = Cover(rows, some, w, sigma**2, view.max_memory // 2)
    cover.add(view.labelled)
    before = cover.share
    picks = greedy(cover, view.unlabelled, n, rng, view.report)
    info = {
        "lengthscale": float(sigma),
        "covered_before": before,
        "covered": cover.share,
        "stands_for": picks.stands_for(np.full(len(some), view.N / len(some))),
    }
    return Selection(picks.items, picks.gains, info)
