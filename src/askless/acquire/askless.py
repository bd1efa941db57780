"""askless: cover what the model does not know yet. Our own strategy, from the first label to the last."""

from dataclasses import field
from typing import Annotated

import numpy as np

from askless.acquire.covering import LEAST, Cover, Space, greedy, reach_sq, settled
from askless.acquire.groups import Groups, as_often
from askless.acquire.sampling import at_least
from askless.acquire.strategy import Selection, View, drawn
from askless.acquire.uncertainty import margin
from askless.base.options import LATER, Between, Count, CountOrZero, NotNegative, Several, options

FLOOR = 0.01  # weight of an item of which the model is certain: if it is certain of all, coverage still decides
PER_LABEL = 8  # targets that a label stands for, at least
SETTLED = 2**19  # picks times targets up to which picks settle: 40 picks gained nothing from it, and more cost more


@options
class Askless:
    r"""The batch S that covers most of what the model does not know yet.

    An item weighs $w(x) = ((1 - \text{margin}(x)) \cdot \text{scarce}(x))^t$: how unsure the model is of it, times how few
    labels there are of what it may be, $\text{scarce}(x) = \sum_c p_c(x) (|L| / C + 1) / (|L_c| + 1)$, as far as the model
    is trusted, $t = \min(1, |L| / (\text{trust} \cdot C))$. It is covered by a labelled or chosen item as far as they are
    alike, and S is chosen for the largest

    $$\sum_x w(x) \max_{s \in L \cup S} \exp(-|x - s|^2 / h^2),$$

    greedily; then, in `settle` rounds at most, each pick moves to where it covers more beside the others.

    Without labels, or without `probs`, all items weigh the same: the picks are the centres of the largest groups. As the
    model learns they move to where it hesitates and to classes with few labels, still where many items are, and never twice
    to one place. The reach h is the distance within which an item has $1 / (|L| + n)$ of the pool around it: what each label
    stands for.

    `trust`: the labels per class from which the model counts fully (0: at once; infinite: coverage alone). `balance`:
    whether classes with few labels weigh more. `reach`: a factor of h. Features are centred and scaled to unit length, and
    wider ones reduced to `directions` main directions. Pools of more than `targets` items are covered on that many of them,
    drawn at random (8 per label, where `max_memory` has room for them); the picks come from all unlabelled items, or from
    65,536 drawn at random (8 per pick). Scores are the share of all weight that a pick newly covers. `info`: the reach, the
    share `covered` and `covered_before`, and for each pick how `unsure` the model is of it, how `scarce` labels of its
    classes are and how many items lie nearest to it, which it `stands_for`. Memory: `max_memory`, and 100 MB for samples of
    the rows and for the targets. How it is fast, and where greedy is exact: `acquire/covering.py`.

    Herding (Bae et al., ECCV 2024) weighted by uncertainty (Bae et al., ICLR 2025), with reach, trust and bounds of our own.

    >>> F = [[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [-1.0, 0.0], [-0.9, 0.1]]
    >>> picks = al.select("askless", 2, features=F)  # without labels: the middles of the largest groups
    >>> picks.indices, picks.info["stands_for"]
    (array([1, 4]), [3, 2])
    """

    trust: NotNegative = 10.0
    reach: Annotated[float, Between(1e-3, 1e3)] = 1.0
    directions: Count = 256
    targets: Several = 8192
    balance: bool = True
    settle: CountOrZero = field(default=3, metadata=LATER | {"before": 0})
    name = "askless"
    needs = ("features",)
    wants = ("probs", "labels")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        return self.select_for(None, view, n, rng)

    def select_for(
        self, groups: Groups | None, view: View, n: int, rng: np.random.Generator, sample: np.ndarray | None = None
    ) -> Selection:
        """The same where the items of the view are those that `groups` have kept: it is the groups that are covered.

        `info["covered_at_least"]` is then what `sample` (r, d), drawn from all items, says about them (see `sampling`).
        """
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        labels = len(view.labelled)
        unsure, few = self.unsure(view), self.scarce(view)
        if groups is None:
            space = Space(view["features"], self.directions, view.max_memory // 2, rng)
            many = max(self.targets, min(PER_LABEL * (labels + n), view.max_memory // (16 * space.width)))
            targets = items = near = drawn(view.N, many, rng)
            weight, counts = (unsure * few)[targets] ** self.trusted(view), np.full(len(targets), view.N / len(targets))
        else:
            unseen = groups.mean[:0] if sample is None else sample
            rows, near = np.concatenate([view["features"], groups.mean, unseen]), as_often(groups.size, rng)
            space = Space(rows, self.directions, view.max_memory // 2, rng, view.N + near)
            targets, items = np.arange(view.N, len(rows) - len(unseen)), np.arange(view.N)
            weight, counts = groups.weight, groups.size
        h_sq = max(self.reach**2 * reach_sq(space, near, labels + n, rng), LEAST)
        cover = Cover(space, targets, weight, h_sq, view.max_memory // 4)
        cover.add(view.labelled)
        before, already = cover.share, cover.best.clone()
        picks = greedy(cover, view.unlabelled, n, rng, view.report)
        if self.settle and 1 < n <= SETTLED // len(targets):
            free = np.where(np.isin(items, view.unlabelled), items, -1)
            moved = settled(cover, already, picks.items, free, self.settle)
            picks = greedy(cover, moved, n, rng, lambda done, total: None)
        info = {
            "reach": h_sq**0.5,
            "covered_before": before,
            "covered": cover.share,
            "unsure": unsure[picks.items].tolist(),
            "scarce": few[picks.items].tolist(),
            "stands_for": picks.stands_for(counts),
        }
        if sample is not None:
            held_out = Cover(space, np.arange(len(rows) - len(sample), len(rows)), np.ones(len(sample)), h_sq, 0)
            held_out.add(np.concatenate([view.labelled, picks.items]))
            info["covered_at_least"] = at_least(held_out.share, len(sample))
        return Selection(picks.items, picks.gains, info)

    def weights(self, view: View) -> np.ndarray:
        """w of every item, (N,)."""
        return (self.unsure(view) * self.scarce(view)) ** self.trusted(view)

    def unsure(self, view: View) -> np.ndarray:
        """1 - margin of every item, (N,); 1 where there is no model to be sure."""
        if view.probs is None or len(view.labelled) == 0 or view.probs.shape[1] < 2:
            return np.ones(view.N)
        return np.maximum(1 - view.by_rows(margin, "probs"), FLOOR)

    def scarce(self, view: View) -> np.ndarray:
        """(N,); 1 without `balance`."""
        return scarce(view) if self.balance else np.ones(view.N)

    def trusted(self, view: View) -> float:
        """The exponent t, from 0 to 1."""
        labels, classes = len(view.labelled), 1 if view.probs is None else view.probs.shape[1]
        return min(1.0, labels / (self.trust * classes)) if labels and self.trust else float(labels > 0)


def scarce(view: View) -> np.ndarray:
    """How few labels there are of what each item may be, (N,): 1 where its classes have as many as all have on average; 1
    for all where labels or probabilities are not known."""
    if view.probs is None or view.labels is None or len(view.labels) == 0:
        return np.ones(view.N)
    C = view.probs.shape[1]
    counts = np.bincount(view.labels[view.labels < C], minlength=C)
    need = (len(view.labels) / C + 1) / (counts + 1)
    return view.by_rows(lambda probs: probs @ need, "probs")
