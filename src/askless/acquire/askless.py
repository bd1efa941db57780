"""askless: cover what the model does not know yet. Our own way, from the first label to the last."""

import numpy as np

from askless.acquire.covering import LEAST, Cover, Space, greedy, reach_sq
from askless.acquire.strategy import Selection, View
from askless.acquire.uncertainty import margin
from askless.options import check_count, check_number, options

FLOOR = 0.01  # weight of an item of which the model is certain: if it is certain of all, coverage still decides
PER_LABEL = 8  # targets that a label stands for, at least


@options
class Askless:
    r"""The batch S that covers most of what the model does not know yet.

    An item weighs $w(x) = (1 - \text{margin}(x))^t$: how unsure the model is of it, as far as the model is trusted,
    $t = |L| / (|L| + \text{trust} \cdot C)$. It is covered by a labelled or chosen item as far as they are alike, and S is
    chosen greedily for the largest

    $$\sum_x w(x) \max_{s \in L \cup S} \exp(-|x - s|^2 / h^2).$$

    Without labels, or without `probs`, all items weigh the same: the picks are the middles of the largest groups. As the
    model learns they move to where it hesitates, still where many items are, and not twice to one place. The reach h is the
    distance within which an item has $1 / (|L| + n)$ of the pool around it: what each label stands for.

    `trust`: so many labels per class give the model's word half its force (0: all of it at once; infinite: coverage alone).
    `reach`: times h. Features are taken around their mean and to unit length, of wider ones `directions` main directions.
    Pools of more than `targets` items are covered on so many of them, drawn at random (8 per label, where `max_memory` has
    room for them); every item can be picked. Scores are the share of all weight that a pick newly covers. `info`: the reach,
    the share `covered` and `covered_before`, and for each pick how `unsure` the model is of it and how many items lie
    nearest to it, which it `stands_for`. Memory: `max_memory`, and 100 MB for a sample of the rows and for the targets.

    Herding (Bae et al., ECCV 2024) weighted by uncertainty (Bae et al., ICLR 2025), with reach, trust and bounds of our own.
    """

    trust: float = 2.0
    reach: float = 1.0
    directions: int = 256
    targets: int = 8192
    name = "askless"
    needs = ("features",)
    wants = ("probs",)

    def __post_init__(self) -> None:
        check_number("Askless", "trust", self.trust)
        check_number("Askless", "reach", self.reach, least=1e-3, most=1e3)
        check_count("Askless", "directions", self.directions)
        check_count("Askless", "targets", self.targets, least=2)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        labels = len(view.labelled)
        space = Space(view["features"], self.directions, view.max_memory // 2, rng)
        many = max(self.targets, min(PER_LABEL * (labels + n), view.max_memory // (16 * space.width)))
        targets = np.arange(view.N) if many >= view.N else np.sort(rng.choice(view.N, many, replace=False))
        unsure = self.unsure(view)
        h_sq = max(self.reach**2 * reach_sq(space, targets, labels + n, rng), LEAST)
        weight = unsure[targets] ** self.trusted(view)
        cover = Cover(space, targets, weight, h_sq, view.max_memory // 4)
        cover.add(view.labelled)
        before = cover.share
        picks = greedy(cover, view.unlabelled, n, rng, view.report)
        info = {
            "reach": h_sq**0.5,
            "covered_before": before,
            "covered": cover.share,
            "unsure": unsure[picks.items].tolist(),
            "stands_for": np.round(picks.stands_for * (view.N / len(targets))).astype(int).tolist(),
        }
        return Selection(picks.items, picks.gains, info)

    def unsure(self, view: View) -> np.ndarray:
        """1 - margin of every item, (N,); 1 where there is no model to be sure."""
        if view.probs is None or len(view.labelled) == 0 or view.probs.shape[1] < 2:
            return np.ones(view.N)
        return np.maximum(1 - view.by_rows(margin, "probs"), FLOOR)

    def trusted(self, view: View) -> float:
        """The exponent t, from 0 to 1."""
        labels, classes = len(view.labelled), 1 if view.probs is None else view.probs.shape[1]
        return labels / (labels + self.trust * classes) if labels else 0.0
