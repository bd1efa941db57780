"""TypiClust: the most typical item of each uncovered cluster (Hacohen et al., ICML 2022)."""

from collections.abc import Callable

import numpy as np
import torch

from askless.acquire.clusters import Centred, cluster_of_each, k_means_seed, unit_length
from askless.acquire.strategy import Selection, View
from askless.base.options import Count, Several, options

TILE = 2**19  # distances at a time: what stays in the processor's cache
SMALL = 256  # up to this many items the typicality of all is computed at once


@options
class TypiClust:
    """Made for the first labels: k-means into |L| + n clusters; from those with the fewest labels, largest first, the item
    whose neighbours are closest.

    Typicality = 1 / mean distance to the `neighbours` nearest items of the same cluster. At most `max_clusters` clusters;
    then, and where clusters run empty, further rounds take the next most typical item of each. In clusters of more than
    `max_members` items a random `max_members` of them stand for all, so that the cost stays below N max_members d. Clusters
    are those of the `directions` main directions of wider features; typicality is that of the features as they are.
    Scores are typicalities. Beside `max_memory`, 12,288 rows are held in float64 for the seeds, and up to 50 clusters of
    up to 50,000 items need two float32 copies of the features (one is k-means' own).
    Works with zero labels; better from features of a pretrained network than from pixels.

    `normalize`: rows of unit length.

    >>> al.select(al.TypiClust(neighbours=2), 1, features=[[0.0], [0.2], [0.3], [9.0]]).indices
    array([1])
    """

    neighbours: Count = 20
    max_clusters: Count = 500
    max_members: Several = 10_000
    directions: Count = 256
    normalize: bool = False
    name = "typiclust"
    needs = ("features",)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        features = view["features"]
        k = min(len(view.labelled) + n, self.max_clusters, view.N)
        state = k_means_seed(rng)
        x = Centred(features, self.normalize, view.max_memory)
        x.turn(self.directions, rng)
        cluster = cluster_of_each(x, k, state)
        free = np.zeros(view.N, dtype=bool)
        free[view.unlabelled] = True
        taken = np.bincount(cluster[view.labelled], minlength=k)
        members = np.split(np.argsort(cluster, kind="stable"), np.cumsum(np.bincount(cluster, minlength=k))[:-1])
        size = np.array([len(m) for m in members])
        left = np.array([int(free[m].sum()) for m in members])
        ranked: dict[int, Ranking] = {}
        picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
        for i in range(n):
            # Among clusters that still have something to give: fewest labels, then largest.
            c = int(np.lexsort((-size, taken, left == 0))[0])
            if c not in ranked:
                ranked[c] = self._rank(features, members[c], free, rng)
            picks[i], scores[i] = ranked[c].next()
            taken[c] += 1
            left[c] -= 1
            view.report(i + 1, n)
        return Selection(picks, scores, {"clusters": k})

    def _rank(self, features: np.ndarray, members: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> "Ranking":
        """The free members of a cluster by their typicality; those not measured come last."""
        measured = members
        if len(members) > self.max_members:
            measured = np.sort(rng.choice(members, self.max_members, replace=False))
        keep = free[measured]
        ties = np.zeros(len(measured))
        ties[keep] = rng.random(int(keep.sum()))
        others = np.setdiff1d(members[free[members]], measured)

        def read() -> np.ndarray:
            x: np.ndarray = features[measured].astype(np.float64)
            return unit_length(x) if self.normalize else x

        return Ranking(read, self.neighbours, measured, keep, ties, others)


class Ranking:
    """Items of a cluster, most typical first, worked out as far as they are asked for.

    Bounds on all typicalities come from products in float32; the typicality itself, in float64, is computed for those with
    the largest bounds only, until enough of them are above all other bounds.
    """

    def __init__(
        self,
        read: Callable[[], np.ndarray],  # the rows (m, d) in float64; read again when needed, not held
        neighbours: int,
        items: np.ndarray,  # (m,)
        keep: np.ndarray,  # (m,) which of them may be given out
        ties: np.ndarray,  # (m,) decides between equals
        others: np.ndarray,  # to give out after all of them
    ) -> None:
        self.read, self.neighbours, self.items, self.ties, self.others = read, neighbours, items, ties, others
        self.known = np.zeros(len(items), dtype=bool)
        self.score = np.full(len(items), np.inf)  # where not known, a bound from above
        self.left = keep.copy()
        self.bounded = False
        self.ready: list[tuple[int, float]] = []  # the next ones, last first

    def next(self) -> tuple[int, float]:
        """The next item and its typicality; 0 for one that was not measured."""
        if not self.ready and self.left.any():
            self._prepare()
        if self.ready:
            return self.ready.pop()
        item, self.others = int(self.others[0]), self.others[1:]
        return item, 0.0

    def _prepare(self) -> None:
        x = self.read()
        if len(x) <= SMALL:
            self.score, self.known[:] = typicality(x, self.neighbours), True
        elif not self.bounded:
            self.score, self.bounded = typicality_bound(x, self.neighbours), True
        block = 16
        while True:
            unknown = np.flatnonzero(self.left & ~self.known)
            some = unknown[np.argsort(-self.score[unknown], kind="stable")[:block]]
            if len(some):
                self.score[some], self.known[some] = typicality(x, self.neighbours, some), True
            rest = self.score[self.left & ~self.known].max(initial=-np.inf)
            sure = np.flatnonzero(self.left & self.known & (self.score > rest))
            if len(sure):
                break
            block *= 2
        order = sure[np.lexsort((self.ties[sure], -self.score[sure]))]
        self.left[order] = False
        self.ready = [(int(self.items[j]), float(self.score[j])) for j in order[::-1]]


def typicality(x: np.ndarray, neighbours: int, of: np.ndarray | None = None) -> np.ndarray:
    """1 / mean distance of each row (m, d), or of those at `of`, to its `neighbours` nearest other rows.

    Infinite among copies. By matrix products in float64; squared distances below their rounding count as 0.

    >>> typicality(np.array([[0.0], [1.0], [3.0]]), 1)
    array([1. , 1. , 0.5])
    """
    m = len(x)
    of = np.arange(m) if of is None else of
    k = min(neighbours, m - 1)
    if k < 1:
        return np.zeros(len(of))
    points = torch.from_numpy(x - x.mean(axis=0)).double()
    sq = points.square().sum(dim=1)
    rounding = 8 * torch.finfo(torch.float64).eps * sq
    out = np.empty(len(of))
    step = max(1, TILE // m)
    for i in range(0, len(of), step):
        some = torch.from_numpy(of[i : i + step])
        distance = torch.addmm(sq, points[some], points.T, alpha=-2).add_(sq[some, None])  # squared, (step, m)
        distance[distance < rounding[some, None] + rounding] = 0
        distance[torch.arange(len(some)), some] = torch.inf
        out[i : i + step] = distance.topk(k, largest=False).values.sqrt().mean(dim=1).numpy()
    with np.errstate(divide="ignore"):
        return 1 / out


def typicality_bound(x: np.ndarray, neighbours: int) -> np.ndarray:
    """At least the typicality of each row (m, d), m > 1, (m,): from products in float32, less their rounding."""
    m, d = x.shape
    k = min(neighbours, m - 1)
    x = x - x.mean(axis=0)
    scale = float(np.abs(x).max()) or 1.0  # float32 could not square large numbers
    points = torch.from_numpy((x / scale).astype(np.float32))
    sq = points.square().sum(dim=1)
    slack = (d + 16) * float(np.finfo(np.float32).eps)
    rounding = (slack * (sq + sq.max())).numpy()
    out = np.empty(m)
    step = max(1, TILE // m)
    for i in range(0, m, step):
        # Squared distances (step, m), less the row's own square.
        distance = torch.addmm(sq, points[i : i + step], points.T, alpha=-2).numpy()
        distance[np.arange(len(distance)), np.arange(i, i + len(distance))] = np.inf
        least = np.partition(distance, k - 1, axis=1)[:, :k] + (sq.numpy() - rounding)[i : i + step, None]
        out[i : i + step] = np.sqrt(np.maximum(least, 0)).mean(axis=1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return (1 + 1e-6) / (out * scale)
