import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.neighbors import NearestNeighbors

import askless as al
from askless.acquire.typiclust import Ranking, typicality, typicality_bound


def blobs(sizes, seed=0):
    centres = 20 * np.eye(len(sizes), 8)
    return make_blobs(sizes, centers=centres, cluster_std=1.0, random_state=seed)


def test_with_no_labels_every_cluster_gives_one_item_largest_cluster_first():
    x, y = blobs([80, 60, 40, 20])
    picks = al.select("typiclust", 4, features=x)
    assert y[picks.indices].tolist() == [0, 1, 2, 3]


def test_covered_clusters_come_last():
    x, y = blobs([80, 60, 40, 20])
    labelled = [int(np.flatnonzero(y == c)[0]) for c in (0, 2)]
    # |L| + n = 4 clusters, two of them covered
    picks = al.select("typiclust", 2, features=x, labelled=labelled)
    assert y[picks.indices].tolist() == [1, 3]


def test_the_pick_of_a_cluster_is_its_most_typical_item():
    x, y = blobs([50, 30])
    picks = al.select("typiclust", 2, features=x)
    for pick in picks.indices:
        members = np.flatnonzero(y == y[pick])
        distance, _ = NearestNeighbors(n_neighbors=21).fit(x[members]).kneighbors(x[members])
        assert pick == members[distance[:, 1:].mean(axis=1).argmin()]


def test_typicality_equals_scikit_learns_neighbours():
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    distance, _ = NearestNeighbors(n_neighbors=6).fit(x).kneighbors(x)
    assert np.allclose(typicality(x, 5), 1 / distance[:, 1:].mean(axis=1), rtol=1e-4)


def test_copies_and_near_copies_are_the_most_typical():
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.normal(size=(50, 8)), 2, axis=0)
    assert np.isinf(typicality(pairs, 1)).all()
    x = rng.normal(size=(400, 8))
    x[:30] = x[0] + 1e-4 * rng.normal(size=(30, 8))
    by_differences = np.sort(np.linalg.norm(x[:30, None] - x[None], axis=2), axis=1)[:, 1:6].mean(axis=1)
    assert np.allclose(typicality(x, 5)[:30], 1 / by_differences, rtol=1e-6)


def test_a_large_offset_costs_no_digits():
    x, _ = blobs([60, 40, 30])
    near = al.select("typiclust", 3, features=x)
    far = al.select("typiclust", 3, features=x * 1e-3 + 1e5)
    assert np.array_equal(near.indices, far.indices)


def test_a_batch_beyond_the_number_of_clusters_takes_turns():
    x, y = blobs([50, 50])
    picks = al.select(al.TypiClust(max_clusters=2), 10, features=x)
    assert np.bincount(y[picks.indices]).tolist() == [5, 5]


def test_outliers_are_not_typical():
    x, _ = blobs([60, 60])
    x[0] += 6.0
    picks = al.select("typiclust", 2, features=x)
    assert 0 not in picks.indices


def test_more_labels_than_clusters_may_hold_still_selects():
    x, _ = blobs([60, 60])
    picks = al.select(al.TypiClust(max_clusters=5), 50, features=x, labelled=range(40))
    assert len(set(picks.indices.tolist())) == 50


@pytest.mark.parametrize("size", [1, 2])
def test_clusters_of_one_or_two_have_a_typicality(size):
    assert np.isfinite(typicality(np.arange(size, dtype=np.float32)[:, None], 20)).all()


def awkward(kind):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(700, 6))
    if kind == "copies":
        x[100:400] = x[rng.integers(5, size=300)]
    if kind == "outlier":
        x[0] = 1e5
    if kind == "huge":
        x *= 1e150
    return x


@pytest.mark.parametrize("kind", ["plain", "copies", "outlier", "huge"])
def test_bounds_from_float32_are_above_the_typicality(kind):
    x = awkward(kind)
    assert (typicality_bound(x, 10) >= typicality(x, 10)).all()


@pytest.mark.parametrize("kind", ["plain", "copies", "outlier", "huge"])
@pytest.mark.parametrize("size", [1, 2, 50, 700])
def test_a_ranking_gives_out_all_items_in_the_order_of_their_typicality(kind, size):
    rng = np.random.default_rng(0)
    x, items = awkward(kind)[-size:], rng.permutation(1000)[:size]
    keep, ties = rng.random(size) < 0.8, rng.random(size)
    keep[0] = True
    ranking = Ranking(lambda: x, 10, items, keep, ties, np.array([2000, 2001]))
    found = [ranking.next() for _ in range(int(keep.sum()) + 2)]
    score = typicality(x, 10)
    order = np.flatnonzero(keep)[np.lexsort((ties[keep], -score[keep]))]
    assert [item for item, _ in found] == [*items[order].tolist(), 2000, 2001]
    assert np.allclose([value for _, value in found], [*score[order], 0, 0])


def test_only_the_most_promising_are_measured_in_float64(monkeypatch):
    import askless.acquire.typiclust as module

    measured = []
    plain = module.typicality
    monkeypatch.setattr(module, "typicality", lambda x, k, of=None: (measured.append(of), plain(x, k, of))[1])
    x, _ = blobs([900, 700])
    al.select("typiclust", 2, features=x)
    assert [len(of) for of in measured] == [16, 16]


@pytest.mark.parametrize("n", [10, 60])
def test_one_huge_row_is_no_accident(n):
    x = np.random.default_rng(0).normal(size=(200, 4))
    x[-1] = 1e40  # more than float32 has
    assert len(al.select("typiclust", n, features=x)) == n
