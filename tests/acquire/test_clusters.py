import numpy as np
import pytest
from sklearn.cluster import KMeans, MiniBatchKMeans, kmeans_plusplus

from askless.acquire.clusters import Centred, cluster_of_each, seeds


def pool(N, d, classes, spread, seed=0):
    rng = np.random.default_rng(seed)
    centres = spread * rng.normal(size=(classes, d))
    return (centres[rng.integers(classes, size=N)] + rng.normal(size=(N, d))).astype(np.float32)


@pytest.mark.parametrize("state", range(4))
def test_the_seeds_are_those_of_scikit_learn(state):
    x = Centred(pool(2000, 12, 10, 2.0), False, 2**28)[:]
    _, expected = kmeans_plusplus(x, 70, random_state=np.random.RandomState(state))
    assert np.array_equal(seeds(x, 70, np.random.RandomState(state)), x[expected])


@pytest.mark.parametrize(("N", "d", "k", "spread"), [(20_000, 8, 60, 4.0), (9_000, 20, 150, 0.5), (3_000, 5, 80, 0.0)])
def test_mini_batches_find_the_clusters_that_scikit_learn_finds(N, d, k, spread):
    features = pool(N, d, 30, spread)
    theirs = MiniBatchKMeans(k, batch_size=4096, n_init=1, random_state=3)
    expected = theirs.fit_predict(Centred(features, False, 2**28)[:])
    ours = cluster_of_each(Centred(features, False, 2**28), k, 3)
    assert (ours == expected).mean() > 0.999  # rounding may move a row at a border


def test_clusters_that_hardly_anything_goes_to_start_again_as_in_scikit_learn():
    rng = np.random.default_rng(0)
    copies = np.repeat(rng.normal(size=(40, 6)), 200, axis=0)  # 40 distinct rows for 60 clusters
    features = np.vstack([copies, 30 + rng.normal(size=(5, 6))]).astype(np.float32)
    x = Centred(features, False, 2**28)[:]
    expected = MiniBatchKMeans(60, batch_size=4096, n_init=1, random_state=1).fit(x)
    ours = cluster_of_each(Centred(features, False, 2**28), 60, 1)
    assert len(np.unique(ours)) >= 40
    inertia = sum(((x[ours == c] - x[ours == c].mean(axis=0)) ** 2).sum() for c in np.unique(ours))
    assert inertia <= expected.inertia_ + 1e-3 * (x**2).sum()


def test_few_clusters_of_a_small_pool_are_those_of_plain_k_means():
    features = pool(500, 6, 5, 3.0)
    expected = KMeans(8, n_init=1, random_state=2).fit_predict(Centred(features, False, 2**28)[:])
    assert np.array_equal(cluster_of_each(Centred(features, False, 2**28), 8, 2), expected)


@pytest.mark.parametrize("memory", [1, 10_000, 2**28])
def test_rows_are_centred_whatever_the_memory_and_the_offset(memory):
    x = np.random.default_rng(0).normal(size=(300, 4))
    ours = Centred(1e6 + x, False, memory)
    assert np.allclose(ours[:], x - x.mean(axis=0), atol=1e-6)
    assert np.allclose(ours[np.array([5, 2])], (x - x.mean(axis=0))[[5, 2]], atol=1e-6)


def test_rows_of_unit_length_and_a_zero_row():
    x = np.vstack([np.zeros(3), np.random.default_rng(0).normal(size=(20, 3))])
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-300)
    assert np.allclose(Centred(x, True, 2**28)[:], unit - unit.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("memory", [10_000, 2**28])
def test_turned_rows_lie_as_far_apart_as_before_where_the_directions_hold_them(memory):
    rng = np.random.default_rng(0)
    x = Centred(rng.normal(size=(300, 8)) @ rng.normal(size=(8, 40)), False, memory)
    before = x.everything()
    x.turn(40, rng)
    assert x.width == 40
    x.turn(8, rng)
    assert x.everything().shape == (300, 8)
    assert x[np.array([5, 2])].shape == (2, 8)
    assert x.everything() @ x.everything().T == pytest.approx(before @ before.T, abs=1e-3)
