"""MaxHerding against all kernel values written out."""

import numpy as np
import pytest

import askless as al


def blobs(N=300, d=5, k=6, seed=0, spread=4.0):
    rng = np.random.default_rng(seed)
    where = rng.integers(k, size=N)
    return spread * rng.normal(size=(k, d))[where] + rng.normal(size=(N, d)), where


def kernel(x, sigma=1.0):
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.exp(-(np.linalg.norm(x[:, None] - x[None], axis=2) ** 2) / sigma**2)


def check_greedy(picks, K, weight, labelled, rounding=1e-6):
    """Each pick adds as much as any item could; squared distances are in float32."""
    best = K[:, labelled].max(axis=1, initial=0.0)
    w = weight / weight.sum()
    free = np.setdiff1d(np.arange(len(K)), labelled)
    assert picks.info["covered_before"] == pytest.approx(w @ best, abs=10 * rounding)
    for pick, score in zip(picks.indices, picks.scores, strict=True):
        gain = w @ np.maximum(K - best[:, None], 0)
        assert score == pytest.approx(gain[pick], abs=rounding)
        assert gain[pick] >= gain[free].max() - rounding
        best = np.maximum(best, K[:, pick])
        free = free[free != pick]
    assert picks.info["covered"] == pytest.approx(w @ best, abs=10 * rounding)


@pytest.mark.parametrize("sigma", [1.0, 0.3])
@pytest.mark.parametrize("labelled", [[], [3, 50, 120]])
def test_each_pick_adds_most_coverage(labelled, sigma):
    x, _ = blobs()
    picks = al.select(al.MaxHerding(lengthscale=sigma), 25, features=x, labelled=labelled)
    check_greedy(picks, kernel(x, sigma), np.ones(len(x)), labelled, rounding=2e-6 / sigma**2)


def test_the_first_pick_is_the_middle_and_the_second_the_other_group():
    angles = np.array([0.0, 0.1, 0.2, 2.0])
    x = np.array([1.0, 5.0, 2.0, 3.0])[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    picks = al.select("maxherding", 2, features=x)
    assert picks.indices.tolist() == [1, 3]
    near, far = np.exp(-(2 - 2 * np.cos(0.1))), np.exp(-(2 - 2 * np.cos(1.9)))
    assert picks.scores[0] == pytest.approx((1 + 2 * near + far) / 4, abs=1e-6)
    assert picks.info["stands_for"] == [3, 1]


def test_only_angles_count_and_a_row_of_zeros_is_no_error():
    x, _ = blobs(N=80)
    plain = al.select("maxherding", 10, features=x)
    scaled = al.select("maxherding", 10, features=x * np.geomspace(1e-200, 1e100, 80)[:, None])
    assert plain.indices.tolist() == scaled.indices.tolist()
    x[7] = 0
    assert np.isfinite(al.select("maxherding", 79, features=x, labelled=[7]).scores).all()


def test_groups_far_apart_get_a_pick_each():
    x, where = blobs(N=600, k=8, d=16, spread=20.0)
    assert len(set(where[al.select("maxherding", 8, features=x).indices])) == 8


def test_a_few_rows_at_a_time_give_the_same_picks():
    x, _ = blobs(N=500)
    plenty, scarce = (al.select("maxherding", 30, features=x, max_memory=m) for m in (2**28, 20_000))
    assert plenty.indices.tolist() == scarce.indices.tolist()


def test_in_large_pools_drawn_targets_are_covered():
    x, where = blobs(N=5000, k=8, d=16, spread=20.0)
    picks = al.select(al.MaxHerding(targets=500), 8, features=x)
    assert len(set(where[picks.indices])) == 8
    assert sum(picks.info["stands_for"]) == pytest.approx(5000, abs=40)
