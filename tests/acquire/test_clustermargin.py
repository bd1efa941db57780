"""Cluster-Margin against the paper's loop, written out."""

import numpy as np
import pytest

import askless as al
from askless.acquire.clustermargin import average_linkage


def blobs(N=200, d=4, k=10, seed=0, spread=20.0):
    rng = np.random.default_rng(seed)
    where = rng.integers(k, size=N)
    return spread * rng.normal(size=(k, d))[where] + rng.normal(size=(N, d)), where, rng.dirichlet(np.ones(3), size=N)


def by_hand(x, members):
    """Average linkage by its definition: merge the two clusters with the smallest mean distance."""
    apart = np.linalg.norm(x[:, None] - x[None], axis=2)
    clusters = [[i] for i in range(len(x))]
    while len(clusters) > np.ceil(len(x) / members):
        pairs = [(i, j) for i in range(len(clusters)) for j in range(i)]
        i, j = min(pairs, key=lambda p: apart[np.ix_(clusters[p[0]], clusters[p[1]])].mean())
        clusters[j] += clusters.pop(i)
    return {frozenset(c) for c in clusters}


def test_clusters_are_those_of_average_linkage():
    x = np.random.default_rng(0).normal(size=(40, 3))
    cluster = average_linkage(x, 5)
    assert {frozenset(np.flatnonzero(cluster == c).tolist()) for c in np.unique(cluster)} == by_hand(x, 5)


def test_square_features_are_no_table_of_distances():
    assert len(set(average_linkage(np.zeros((4, 4)), 2))) == 1  # scipy would warn that they look like one


def test_inside_a_cluster_candidates_are_drawn_at_random():
    x, probs = np.repeat([[0.0], [9.0]], [6, 2], axis=0), np.full((8, 2), 0.5)
    strategy = al.ClusterMargin(members=4)
    picks = np.array([al.select(strategy, 2, features=x, probs=probs, seed=seed).indices for seed in range(60)])
    assert set(picks[:, 0]) == {6, 7}  # the smaller cluster first
    assert set(picks[:, 1]) == set(range(6))


def test_it_is_the_algorithm_of_the_paper():
    x, _, probs = blobs()
    labelled = np.arange(0, 200, 20)
    n = 12
    picks = al.select(al.ClusterMargin(candidates=4, members=20), n, features=x, probs=probs, labelled=labelled)
    two = np.sort(probs, axis=1)[:, -2:]
    margin = two[:, 1] - two[:, 0]
    free = np.setdiff1d(np.arange(200), labelled)
    M = free[np.argsort(margin[free])[: 4 * n]]
    cluster = average_linkage(x, 20)
    assert set(picks.indices) <= set(M)
    np.testing.assert_allclose(picks.scores, -margin[picks.indices])
    left = {c: int((cluster[M] == c).sum()) for c in np.unique(cluster[M])}
    order = sorted(left, key=left.get)
    sizes = dict(left)
    taken = []
    while len(taken) < n:
        for c in order:
            if left[c] and len(taken) < n:
                taken.append(c)
                left[c] -= 1
    assert [sizes[c] for c in cluster[picks.indices]] == [sizes[c] for c in taken]


def test_one_candidate_per_pick_is_margin():
    x, _, probs = blobs()
    given = {"features": x, "probs": probs, "labelled": [1, 2]}
    ours, margin = al.select(al.ClusterMargin(candidates=1), 9, **given), al.select("margin", 9, **given)
    assert sorted(ours.indices) == sorted(margin.indices)


def test_copies_of_the_least_sure_item_are_not_all_taken():
    x, _, probs = blobs()
    x, probs = np.vstack([x, np.repeat(x[:1], 40, axis=0)]), np.vstack([probs, np.full((40, 3), 1 / 3)])
    given = {"features": x, "probs": probs}
    assert (al.select("margin", 20, **given).indices >= 200).all()
    assert (al.select("clustermargin", 20, **given).indices >= 200).sum() <= 5


def test_clusters_of_a_large_pool_come_from_drawn_rows():
    x, where, probs = blobs(N=3000, k=6)
    strategy = al.ClusterMargin(max_rows=60, candidates=100)
    few = al.select(strategy, 6, features=x, probs=probs)
    assert few.info == few.info | {"candidates": 600, "clusters": 6}
    assert len(set(where[few.indices])) == 6


@pytest.mark.parametrize("scale", [2.0**-400, 2.0**400])
def test_the_unit_of_the_features_does_not_matter(scale):
    x, _, probs = blobs()
    plain, scaled = (al.select("clustermargin", 9, features=f, probs=probs) for f in (x, x * scale))
    assert plain.indices.tolist() == scaled.indices.tolist()


def test_a_few_rows_at_a_time_give_the_same_picks():
    x, _, probs = blobs(N=500)
    strategy = al.ClusterMargin(max_rows=50)
    plenty, scarce = (al.select(strategy, 30, features=x, probs=probs, max_memory=m) for m in (2**28, 5000))
    assert plenty.indices.tolist() == scarce.indices.tolist()
