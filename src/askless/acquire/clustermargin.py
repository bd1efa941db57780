"""Cluster-Margin: unsure items, spread over the clusters of the pool (Citovsky et al., NeurIPS 2021)."""

import math
from typing import Annotated

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from askless.acquire.clusters import Centred, nearest, round_robin
from askless.acquire.strategy import Selection, View, drawn, filled, top
from askless.acquire.uncertainty import margin
from askless.base.options import Between, Several, options
from askless.base.rng import stream

TILE = 2**24  # bytes of distances at a time

AtLeastOne = Annotated[float, Between(1)]


@options
class ClusterMargin:
    """Made for large batches: of the `candidates` x n items with the smallest margin, one of each cluster after the other,
    the clusters with the fewest candidates first, until there are n.

    The clusters are those of the whole pool by average linkage (HAC), which the paper computes once and cuts at a distance
    that leaves some items in each; here the tree is cut into N / `members` clusters. They depend on the features alone: as
    long as these stay, every round has the same ones. HAC holds the distances of all pairs, so in pools of more than
    `max_rows` items it runs on that many of them, the same ones in each round, and a candidate that is not among them joins
    the cluster of the nearest one that is.

    Scores are margins, less than 0: a pick from a small cluster may come before one with a smaller margin. Beside
    `max_memory` HAC needs 8 bytes times the square of the rows, 134 MB for the default.

    >>> F = [[0.0], [0.1], [0.2], [9.0]]
    >>> p = [[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.7, 0.3]]
    >>> sorted(al.select(al.ClusterMargin(members=2), 2, features=F, probs=p))  # one of each cluster
    [0, 3]
    """

    candidates: AtLeastOne = 10.0
    members: AtLeastOne = 10.0
    max_rows: Several = 4096
    name = "clustermargin"
    needs = ("features", "probs")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        k_m = math.ceil(min(self.candidates * n, len(view.unlabelled))) if n else 0
        M = top(-view.by_rows(margin, "probs"), view.unlabelled, k_m, rng)
        assert M.scores is not None
        cluster = self.cluster_of(view, M.indices)
        _, group, size = np.unique(cluster, return_inverse=True, return_counts=True)
        # At random inside a cluster, and among clusters of one size.
        picks = round_robin(group, rng.random(len(M)), size + rng.random(len(size)))[:n]
        info = {"candidates": len(M), "clusters": len(size)}
        return Selection(M.indices[picks], M.scores[picks], info)

    def cluster_of(self, view: View, items: np.ndarray) -> np.ndarray:
        """The cluster of each of the items (k,), in the pool."""
        x = Centred(view["features"], False, view.max_memory)
        rows = drawn(view.N, self.max_rows, stream(0, "cluster-margin"))
        tree_rows = x[rows]
        cluster = average_linkage(tree_rows, self.members)
        of = np.full(view.N, -1)
        of[rows] = cluster
        others, centres = np.flatnonzero(of[items] < 0), torch.from_numpy(tree_rows)
        step = max(1, min(view.max_memory, TILE) // (4 * len(rows)))
        near = filled(
            np.empty(len(others), dtype=np.int64),
            step,
            lambda some: nearest(torch.from_numpy(x[items[others[some]]]), centres)[0].numpy(),
        )
        of[items[others]] = cluster[near]
        return of[items]


def average_linkage(x: np.ndarray, members: float) -> np.ndarray:
    """The cluster of each row (m, d), (m,): HAC with average linkage, cut into m / `members` clusters, or fewer where
    several merge at one distance.

    >>> average_linkage(np.array([[0.0], [9.0], [0.1], [9.2]]), 2).tolist()
    [1, 2, 1, 2]
    """
    if len(x) < 2:
        return np.zeros(len(x), dtype=np.int64)
    tree = linkage(pdist(x.astype(np.float64)), "average")
    return fcluster(tree, math.ceil(len(x) / members), "maxclust").astype(np.int64)
