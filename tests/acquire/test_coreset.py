import numpy as np
import pytest

import askless as al


def naive_furthest_first(features, labelled, n):
    features = features.astype(np.float64)
    chosen, picks = list(labelled), []
    for _ in range(n):
        distance = np.array([min(((x - features[c]) ** 2).sum() for c in chosen) for x in features])
        distance[chosen] = -1
        picks.append(int(distance.argmax()))
        chosen.append(picks[-1])
    return picks


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(5))
def test_coreset_equals_a_naive_furthest_first_loop(seed, dtype):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(120, 6)).astype(dtype)
    labelled = rng.permutation(120)[:4]
    picks = al.select("coreset", 12, features=features, labelled=labelled)
    assert picks.indices.tolist() == naive_furthest_first(features, labelled, 12)
    assert (np.diff(picks.scores) <= 1e-9).all()


def test_near_duplicates_in_float32_are_told_apart():
    # Far from the origin, ||x||^2 + ||c||^2 - 2 x.c in float32 is all rounding at distances of 1e-4.
    rng = np.random.default_rng(0)
    base = 100 + rng.normal(size=(1, 32))
    steps = np.linspace(0, 1e-2, 101)[:, None] * np.ones((1, 32))
    features = (base + steps).astype(np.float32)
    picks = al.select("coreset", 3, features=features, labelled=[0])
    assert picks.indices.tolist() == naive_furthest_first(features, [0], 3)
    assert picks.indices[0] == 100

    copies = rng.normal(size=(20, 16)).astype(np.float32)
    near = np.vstack([copies, copies + 1e-4 * rng.normal(size=copies.shape).astype(np.float32)])
    picks = al.select("coreset", 20, features=near, labelled=range(20))
    assert picks.indices.tolist() == naive_furthest_first(near, range(20), 20)
    assert np.isfinite(picks.scores).all()


def test_a_labelled_outlier_does_not_blur_the_rest():
    rng = np.random.default_rng(0)
    features = 1e-3 * rng.normal(size=(80, 4))
    features[0] = 1e6
    picks = al.select("coreset", 6, features=features, labelled=[0, 1])
    assert picks.indices.tolist() == naive_furthest_first(features, [0, 1], 6)


def test_copies_of_labelled_items_come_last():
    features = np.vstack([np.eye(4), np.eye(4), 5 * np.eye(4)]).astype(np.float32)
    picks = al.select("coreset", 8, features=features, labelled=range(4))
    assert set(picks.indices[:4].tolist()) == {8, 9, 10, 11}
    assert np.allclose(picks.scores[4:], 0)


def test_radius_is_the_distance_of_the_worst_covered_item():
    features = np.array([[0.0], [1.0], [5.0], [10.0]])
    picks = al.select("coreset", 1, features=features, labelled=[0])
    assert picks.indices.tolist() == [3]
    assert picks.info["radius"] == pytest.approx(5.0)


def test_the_first_item_is_random_when_nothing_is_labelled():
    features = np.random.default_rng(0).normal(size=(50, 3))
    assert len({int(al.select("coreset", 1, features=features, seed=s).indices[0]) for s in range(20)}) > 5
