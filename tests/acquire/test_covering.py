"""Covering against all likenesses written out, in float64."""

import numpy as np
import pytest

from askless.acquire import covering
from askless.acquire.covering import Cover, Pairs, Space, UnitRows, greedy, main_directions, reach_sq


def unit_rows(features):
    rows = features.astype(np.float64) - features.astype(np.float64).mean(axis=0)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def likenesses(rows, targets, reach_sq):
    """(N, m) exp(-d^2 / h^2)."""
    return np.exp(-((rows[:, None] - rows[None, targets]) ** 2).sum(axis=2) / reach_sq)


def silent(done, total):
    pass


def pool(N=300, d=5, k=6, seed=0):
    """A space of k groups, and its rows in float64."""
    rng = np.random.default_rng(seed)
    features = 2 * rng.normal(size=(k, d))[rng.integers(k, size=N)] + rng.normal(size=(N, d))
    return Space(features, 256, 2**20, rng), unit_rows(features)


def by_gains(K, weight, itself, best, picks):
    """The gain of each pick and the largest that there was, from all likenesses K (N, m), and what is covered in the end.
    `itself` (N, m) is taken off where an item is a target."""
    found, free = [], np.ones(len(K), dtype=bool)
    for pick in picks:
        gains = (np.maximum(K - best, 0) - itself * (1 - best)) @ weight
        found.append((gains[pick], gains[free].max()))
        best, free[pick] = np.maximum(best, K[pick]), False
    return np.array(found).T, best


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_likenesses_are_those_of_unit_rows_also_where_a_row_is_zero(dtype):
    features = np.random.default_rng(0).normal(size=(40, 4)).astype(dtype)
    features[[3, 8]] = 0
    rows = features.astype(np.float64) / np.maximum(np.linalg.norm(features.astype(np.float64), axis=1), 1e-9)[:, None]
    cover = Cover(UnitRows(features, 0), np.arange(0, 40, 2), np.ones(20), 0.7, 0)
    assert cover.likeness(np.arange(40)).numpy() == pytest.approx(likenesses(rows, np.arange(0, 40, 2), 0.7), abs=4e-6)


@pytest.mark.parametrize("kept", [0, 0.1, 1])
@pytest.mark.parametrize("every", [1, 2])
def test_pairs_that_count_are_all_that_gains_need(monkeypatch, every, kept):
    monkeypatch.setattr(covering, "TILE", 4 * 300 * 16)
    space, rows = pool()
    targets, items = np.arange(0, 300, every), np.arange(0, 300, 3)
    weight = np.random.default_rng(1).random(len(targets))
    cover = Cover(space, targets, weight, 0.5, int(kept * 8 * len(items) * len(targets)))
    cover.add(np.array([7, 90]))
    pairs = Pairs(cover, items)
    assert (pairs.kept.any(), pairs.kept.all()) == (kept > 0, kept == 1)
    K = likenesses(rows, targets, 0.5)
    itself = (1 - 1 / every) * (np.arange(300)[:, None] == targets)
    best = K[[7, 90]].max(axis=0)
    for last in (None, 40, 2, 99):
        if last is not None:
            nearer = pairs.take(last)
            assert set(nearer) == set(np.flatnonzero(K[items[last]] > best + 1e-6))
            best = np.maximum(best, K[items[last]])
        gains = ((np.maximum(K - best, 0) - itself * (1 - best)) @ (weight / weight.sum()))[items]
        assert pairs.again(np.arange(len(items))) == pytest.approx(gains, abs=2e-6)
        assert cover.gains(items) == pytest.approx(gains, abs=2e-6)
        if last is None:
            assert pairs.gains == pytest.approx(gains, abs=2e-6)
    assert cover.share == pytest.approx(best @ weight / weight.sum(), abs=2e-6)


@pytest.mark.parametrize("tile", [4 * 300 * 16, 2**23])
def test_room_for_pairs_does_not_change_the_picks(monkeypatch, tile):
    monkeypatch.setattr(covering, "TILE", tile)
    space, rows = pool()
    found = []
    for room in (0, 8 * 300 * 100, 2**20):
        cover = Cover(space, np.arange(300), np.ones(300), 0.5, room)
        found.append(greedy(cover, np.arange(300), 40, np.random.default_rng(1), silent))
        assert found[-1].items.tolist() == found[0].items.tolist()
        assert found[-1].gains == pytest.approx(found[0].gains, abs=1e-6)
    K = likenesses(rows, np.arange(300), 0.5)
    (gains, highest), best = by_gains(K, np.full(300, 1 / 300), np.zeros((300, 300)), np.zeros(300), found[0].items)
    assert found[0].gains == pytest.approx(gains, abs=2e-6)
    assert gains == pytest.approx(highest, abs=2e-6)
    assert cover.share == pytest.approx(best.mean(), abs=2e-6)
    nearest = found[0].items[K[found[0].items].argmax(axis=0)]
    assert found[0].stands_for(np.ones(300)) == [np.count_nonzero(nearest == item) for item in found[0].items]


def small_sample(monkeypatch, targets=100, items=200):
    """A pool of 600 is then large."""
    for name, value in {"SAMPLED_TARGETS": targets, "SAMPLED_ITEMS": items}.items():
        monkeypatch.setattr(covering, name, value)


@pytest.mark.parametrize("every", [1, 2])
def test_first_picks_by_a_sample_cover_almost_as_much_and_the_others_are_greedy(monkeypatch, every):
    space, rows = pool(600, k=20)
    targets, weight = np.arange(0, 600, every), np.random.default_rng(1).random(600 // every)
    covers = [Cover(space, targets, weight, 0.3, 2**24) for _ in range(2)]
    exact = greedy(covers[0], np.arange(600), 60, np.random.default_rng(0), silent)
    small_sample(monkeypatch)
    by_sample, plain = [], covering.by_sample
    monkeypatch.setattr(covering, "by_sample", lambda *a: (by_sample.append(p) or p for p in plain(*a)))
    picks = greedy(covers[1], np.arange(600), 60, np.random.default_rng(0), silent)
    assert 5 < len(by_sample) < 40
    assert len(set(picks.items)) == 60
    assert covers[1].share > 0.99 * covers[0].share
    itself = (1 - 1 / every) * (np.arange(600)[:, None] == targets)
    K = likenesses(rows, targets, 0.3)
    (gains, highest), _ = by_gains(K, weight / weight.sum(), itself, np.zeros(len(targets)), picks.items)
    assert picks.gains == pytest.approx(gains, abs=2e-6)
    assert gains[len(by_sample) :] == pytest.approx(highest[len(by_sample) :], abs=2e-6)
    assert exact.gains[0] == pytest.approx(highest[0], abs=2e-6)


def test_with_little_room_pairs_are_looked_for_again_once_fewer_count(monkeypatch):
    monkeypatch.setattr(covering, "TILE", 4 * 600 * 50)
    space, _ = pool(600, k=20)
    made, plain = [], Pairs.__init__
    monkeypatch.setattr(Pairs, "__init__", lambda self, *a: (made.append(self), plain(self, *a))[1])
    found = []
    for room in (2**24, 8 * 4000):
        cover = Cover(space, np.arange(600), np.ones(600), 0.3, room)
        found.append(greedy(cover, np.arange(600), 300, np.random.default_rng(0), silent))
    assert found[0].gains == pytest.approx(found[1].gains, abs=1e-6)
    kept = [pairs.kept.mean() for pairs in made]
    assert kept[0] == 1
    assert 0 < kept[1] < 0.9
    assert kept[-1] > kept[1]


def test_a_sample_that_runs_out_of_items_leaves_the_rest_to_all_pairs(monkeypatch):
    small_sample(monkeypatch, items=10)
    monkeypatch.setattr(covering, "SPARSE", -1)  # never few enough
    space, _ = pool()
    picks = greedy(
        Cover(space, np.arange(300), np.ones(300), 0.5, 2**20), np.arange(300), 300, np.random.default_rng(0), silent
    )
    assert sorted(picks.items) == list(range(300))


def test_candidates_are_drawn_from_a_large_pool(monkeypatch):
    space, _ = pool()
    allowed = np.arange(1, 300, 2)

    def picks(n, candidates, seed):
        monkeypatch.setattr(covering, "CANDIDATES", candidates)
        cover = Cover(space, np.arange(300), np.ones(300), 0.5, 2**20)
        return set(greedy(cover, allowed, n, np.random.default_rng(seed), silent).items)

    drawn = [picks(2, 20, seed) for seed in range(20)]
    assert set().union(*drawn) <= set(allowed)
    assert len(set().union(*drawn)) > 4
    assert len(picks(60, 20, 0)) == 60  # more than candidates
    assert picks(20, 150, 0) == picks(20, 10**6, 0)


def test_equally_far_rows_are_no_endless_sample(monkeypatch):
    """All likenesses are the same but for rounding: after the first pick none counts."""
    small_sample(monkeypatch)
    features = np.eye(200) + 1e-9
    cover = Cover(UnitRows(features, 2**20), np.arange(200), np.ones(200), 2.0, 2**20)
    by_sample = list(covering.by_sample(cover, np.arange(200), np.random.default_rng(0)))
    assert len(by_sample) == 1


def test_the_main_directions_hold_the_rows_that_lie_in_them():
    rng = np.random.default_rng(0)
    low = rng.normal(size=(300, 8)) @ rng.normal(size=(8, 40))
    space = Space(low, 8, 2**20, rng)
    rows = space(np.arange(300)).double().numpy()
    assert rows @ rows.T == pytest.approx(unit_rows(low) @ unit_rows(low).T, abs=1e-4)
    basis = main_directions(space.held, 3, rng)
    assert (basis.T @ basis).numpy() == pytest.approx(np.eye(3), abs=1e-5)


def test_the_reach_holds_one_label_s_share_of_the_pool():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 3))
    space = Space(features, 256, 2**20, rng)
    rows = unit_rows(features)
    squared = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    for labels in (4, 40):
        reach = reach_sq(space, np.arange(400), labels, rng)
        assert reach == pytest.approx(np.partition(squared, 400 // labels, axis=1)[:, 400 // labels].mean(), rel=1e-4)
        assert np.median((squared <= reach).mean(axis=1)) == pytest.approx(1 / labels, rel=0.2)
