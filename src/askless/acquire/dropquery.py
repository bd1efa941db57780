"""DropQuery: items whose prediction changes when features are dropped, spread by k-means (Gupte et al., TMLR 2024)."""

from typing import Annotated, Literal

import numpy as np

from askless.acquire.clusters import Centred, Subset, k_means_seed, nearest_to_centres
from askless.acquire.head import Head, linear_head
from askless.acquire.strategy import TILE, Selection, View, filled, top
from askless.base.options import Between, Several, Share, options


@options
class DropQuery:
    """Candidates are the items whose predicted class differs from the model's own in more than a share `rho` of `passes`
    passes, each with features dropped at random at the rate `drop`. k-means makes n clusters of them, by unit-length
    features, and the candidate nearest to each centre is picked.

    by="head": the passes go through the model's linear head, which is found again from `features` and `logits`: exact where
    these are the input and the output of one linear layer, as in the loop on frozen features, and else the nearest linear
    head, which `info["note"]` says. Nothing is trained. by="passes": `probs_by_pass`, of a network with dropout, are the
    passes.

    Where there are fewer candidates than n, those with the most changes are taken, equals at random. (The authors' code also
    lowers rho until there are 25 n; the paper does not.) Scores are the shares of passes that changed. k-means needs two
    float32 copies of up to 50,000 candidates, and the head 4 (d + 1) rows in float64.

    >>> F = np.random.default_rng(0).normal(size=(30, 4))
    >>> picks = al.select(al.DropQuery(), 2, features=F, logits=F @ np.eye(4, 3))
    >>> len(picks), (picks.scores <= 1).all()
    (2, np.True_)
    """

    passes: Several = 3
    rho: Share = 0.5
    drop: Annotated[float, Between(0, 0.999)] = 0.75
    by: Literal["head", "passes"] = "head"
    name = "dropquery"

    @property
    def needs(self) -> tuple[str, ...]:
        return ("features", "logits") if self.by == "head" else ("features", "probs", "probs_by_pass")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        info: dict[str, object] = {}
        if self.by == "head":
            head = linear_head(view["features"], view["logits"], rng)
            info |= {"note": "; ".join(head.notes)} if head.notes else {}
            changed = self.changed_by_head(view, head, rng)
        else:
            changed = view.by_rows(
                lambda p, by_pass: (by_pass.argmax(axis=2) != p.argmax(axis=1)[:, None]).mean(axis=1),
                *("probs", "probs_by_pass"),
            )
        candidates = view.unlabelled[changed[view.unlabelled] > self.rho]
        info |= {"candidates": len(candidates)}
        if len(candidates) < n:
            candidates = top(changed, view.unlabelled, n, rng).indices
        x = Centred(Subset(view["features"], candidates), True, view.max_memory)
        picks = candidates[nearest_to_centres(x, n, k_means_seed(rng))]
        return Selection(picks, changed[picks], info)

    def changed_by_head(self, view: View, head: Head, rng: np.random.Generator) -> np.ndarray:
        """The share of passes that change the prediction, (N,)."""
        features, logits = view["features"], view["logits"]
        step = max(1, min(view.max_memory, TILE) // (16 * (self.passes + 1) * features.shape[1]))
        return filled(
            np.empty(view.N),
            step,
            lambda part: changed(
                features[part].astype(np.float64), logits[part].argmax(axis=1), head, self.passes, self.drop, rng
            ),
        )


def changed(
    z: np.ndarray, predicted: np.ndarray, head: Head, passes: int, drop: float, rng: np.random.Generator
) -> np.ndarray:
    """The share of `passes` in which the head predicts another class than `predicted` (k,) of the features z (k, d), each
    dropped with probability `drop` and divided by 1 - drop if kept, (k,)."""
    kept = rng.random((len(z), passes, z.shape[1]), dtype=np.float32) >= drop
    dropped = np.where(kept, (z / (head.unit * (1 - drop)))[:, None], 0.0)
    return ((dropped @ head.W + head.b).argmax(axis=2) != predicted[:, None]).mean(axis=1)  # (k, M, C) -> (k,)
