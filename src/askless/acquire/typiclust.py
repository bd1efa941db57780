"""TypiClust: the most typical item of each uncovered cluster (Hacohen et al., ICML 2022)."""

import warnings

import numpy as np
import torch

from askless.acquire.strategy import Selection, View
from askless.options import check_count, options
from askless.rng import Seed, stream


@options
class TypiClust:
    """Made for the first labels: k-means into |L| + n clusters; from those with the fewest labels, largest first, the item
    whose neighbours are closest.

    Typicality = 1 / mean distance to the `neighbours` nearest items of the same cluster. At most `max_clusters` clusters;
    then, and where clusters run empty, further rounds take the next most typical item of each. In clusters of more than
    `max_members` items a random `max_members` of them stand for all, so that the cost stays below N max_members d.
    Scores are typicalities. Beside `max_memory` it needs two float32 copies of the features (its own and k-means').
    Works with zero labels; better from features of a pretrained network than from pixels.
    """

    neighbours: int = 20
    max_clusters: int = 500
    max_members: int = 10_000
    normalize: bool = False
    name = "typiclust"
    needs = ("features",)

    def __post_init__(self) -> None:
        check_count("TypiClust", "neighbours", self.neighbours)
        check_count("TypiClust", "max_clusters", self.max_clusters)
        check_count("TypiClust", "max_members", self.max_members, least=2)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        features = view["features"]
        k = min(len(view.labelled) + n, self.max_clusters, view.N)
        cluster = cluster_of_each(features, k, self.normalize, rng)
        free = np.zeros(view.N, dtype=bool)
        free[view.unlabelled] = True
        taken = np.bincount(cluster[view.labelled], minlength=k)
        members = np.split(np.argsort(cluster, kind="stable"), np.cumsum(np.bincount(cluster, minlength=k))[:-1])
        size = np.array([len(m) for m in members])
        left = np.array([int(free[m].sum()) for m in members])
        ranked: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
        for i in range(n):
            # Among clusters that still have something to give: fewest labels, then largest.
            c = int(np.lexsort((-size, taken, left == 0))[0])
            if c not in ranked:
                ranked[c] = self._by_typicality(features, members[c], free, rng)
            items, typical = ranked[c]
            picks[i], scores[i] = items[0], typical[0]
            ranked[c] = (items[1:], typical[1:])
            taken[c] += 1
            left[c] -= 1
            view.report(i + 1, n)
        return Selection(picks, scores, {"clusters": k})

    def _by_typicality(
        self, features: np.ndarray, members: np.ndarray, free: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The free members of a cluster and their typicality, most typical first; those not measured come last."""
        if len(members) > self.max_members:
            measured = np.sort(rng.choice(members, self.max_members, replace=False))
        else:
            measured = members
        score = typicality(rows_of(features, measured, self.normalize), self.neighbours)
        keep = free[measured]
        order = np.lexsort((rng.random(int(keep.sum())), -score[keep]))
        others = np.setdiff1d(members[free[members]], measured)
        items = np.concatenate([measured[keep][order], others])
        return items, np.concatenate([score[keep][order], np.zeros(len(others))])


def rows_of(features: np.ndarray, positions: np.ndarray, normalize: bool) -> np.ndarray:
    """The rows in float64, of unit length with `normalize`."""
    x: np.ndarray = features[positions].astype(np.float64)
    if normalize:
        norm = np.linalg.norm(x, axis=1, keepdims=True)
        x = x / np.where(norm > 0, norm, 1.0)
    return x


def centred(features: np.ndarray, normalize: bool, step: int = 16_384) -> np.ndarray:
    """All rows in float32 around their mean, which is taken away in float64: a large offset costs no digits."""
    parts = [np.arange(i, min(i + step, len(features))) for i in range(0, len(features), step)]
    mean = sum(rows_of(features, part, normalize).sum(axis=0) for part in parts) / len(features)
    out = np.empty(features.shape, dtype=np.float32)
    for part in parts:
        out[part] = rows_of(features, part, normalize) - mean
    return out


def cluster_of_each(features: np.ndarray, k: int, normalize: bool, seed: Seed) -> np.ndarray:
    """The k-means cluster of each row, (N,); by mini-batches beyond 50 clusters or 50,000 rows, as the authors do."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # a second to import, which most uses of askless do without
    from sklearn.exceptions import ConvergenceWarning

    x = centred(features, normalize)
    state = int(stream(seed, "k-means").integers(2**31 - 1))
    if k > 50 or len(x) > 50_000:
        means = MiniBatchKMeans(k, batch_size=4096, n_init=1, random_state=state)
    else:
        means = KMeans(k, n_init=1, random_state=state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: some stay empty
        return means.fit_predict(x).astype(np.int64)


def typicality(x: np.ndarray, neighbours: int) -> np.ndarray:
    """1 / mean distance of each row (m, d) to its `neighbours` nearest other rows, (m,); infinite among copies.

    By matrix products in float64; squared distances below their rounding count as 0.

    >>> typicality(np.array([[0.0], [1.0], [3.0]]), 1)
    array([1. , 1. , 0.5])
    """
    m = len(x)
    k = min(neighbours, m - 1)
    if k < 1:
        return np.zeros(m)
    points = torch.from_numpy(x - x.mean(axis=0)).double()
    sq = points.square().sum(dim=1)
    rounding = 8 * torch.finfo(torch.float64).eps * sq
    out = np.empty(m)
    step = max(1, 2**24 // m)
    for i in range(0, m, step):
        some = slice(i, i + step)
        distance = sq[some, None] + sq - 2 * (points[some] @ points.T)  # squared, (step, m)
        distance[distance < rounding[some, None] + rounding] = 0
        distance[torch.arange(len(distance)), torch.arange(i, i + len(distance))] = torch.inf
        out[some] = distance.topk(k, largest=False).values.sqrt().mean(dim=1).numpy()
    with np.errstate(divide="ignore"):
        return 1 / out
