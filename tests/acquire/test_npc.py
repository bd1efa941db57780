import numpy as np
import pytest
import torch

import askless as al
from askless.acquire.npc import draw_batches
from askless.base.rng import stream
from askless.linalg import GramRows, beats, gram_score, score_batches


def union_score(features, labelled, batch, **options):
    return gram_score(GramRows(features, **options).take(np.concatenate([labelled, batch]).astype(int)))


def test_the_picks_are_the_best_of_the_drawn_batches():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 12))
    labelled = np.arange(6)
    picks = al.select(al.NPC(draws=300), 5, features=features, labelled=labelled, seed=3)
    drawn = np.vstack(list(draw_batches(np.arange(6, 200), 5, 300, stream(3, "select"))))
    scores = score_batches(GramRows(features), labelled, drawn)
    assert (scores.rank == 11).all()
    assert set(picks.indices) == set(drawn[int(scores.value.argmax())])


def test_drawn_batches_are_distinct_uniform_and_of_the_right_number():
    rng = np.random.default_rng(0)
    for N, size in ((10, 3), (10, 8), (5, 5), (7, 1)):
        drawn = np.vstack(list(draw_batches(np.arange(100, 100 + N), size, 6000, rng)))
        assert drawn.shape == (6000, size)
        assert all(len(set(row)) == size for row in drawn[:500].tolist())
        share = np.bincount(drawn.ravel() - 100, minlength=N) / 6000
        assert np.allclose(share, size / N, atol=0.03)


def test_every_subset_is_drawn_equally_often():
    drawn = np.vstack(list(draw_batches(np.arange(6), 3, 40_000, np.random.default_rng(1))))
    _, counts = np.unique(np.sort(drawn, axis=1), axis=0, return_counts=True)
    assert len(counts) == 20
    assert np.abs(counts - 2000).max() < 5 * np.sqrt(2000)


def test_a_batch_with_a_duplicate_never_beats_a_distinct_one():
    # Half of the pool are copies; with n <= d + 1 the best of many draws holds no copy.
    rng = np.random.default_rng(2)
    distinct = rng.normal(size=(30, 20))
    features = np.vstack([distinct, distinct])
    for seed in range(20):
        picks = al.select(al.NPC(draws=200), 8, features=features, labelled=[0, 1], seed=seed)
        assert len(set((picks.indices % 30).tolist())) == 8
        assert not set((picks.indices % 30).tolist()) & {0, 1}
        assert picks.info["rank"] == 10


def test_rankings_agree_between_float32_and_float64_beyond_the_rank():
    # d = 16, n = 300: the plain smallest eigenvalue is rounding noise, the rank-aware one is not.
    rng = np.random.default_rng(3)
    features = rng.normal(size=(2000, 16)).astype(np.float32)
    labelled = np.arange(280)
    batches = rng.integers(280, 2000, size=(200, 20))
    wide = score_batches(GramRows(features.astype(np.float64)), labelled, batches)
    narrow = score_batches(GramRows(features), labelled, batches)
    assert torch.equal(wide.value.argsort(), narrow.value.argsort())
    # Input that was rounded to float32 from other numbers keeps the ranking too.
    exact = rng.normal(size=(2000, 16))
    a = score_batches(GramRows(exact), labelled, batches).value
    b = score_batches(GramRows(exact.astype(np.float32)), labelled, batches).value
    assert np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1] > 0.9999
    for seed in range(5):
        one = al.select("npc", 20, features=exact, labelled=labelled, seed=seed)
        two = al.select("npc", 20, features=exact.astype(np.float32), labelled=labelled, seed=seed)
        assert np.array_equal(one.indices, two.indices)


def test_the_note_appears_only_beyond_the_rank():
    features = np.random.default_rng(0).normal(size=(60, 8))
    assert "note" not in al.select("npc", 5, features=features, labelled=range(4)).info
    assert "9 columns" in al.select("npc", 5, features=features, labelled=range(5)).info["note"]


def test_the_cap_bounds_every_union_up_to_the_rank():
    features = np.random.default_rng(0).normal(size=(100, 30))
    info = al.select("npc", 5, features=features, labelled=range(10)).info
    assert 0 < info["lambda_min"] <= info["cap"]


def test_greedy_and_swap_reach_larger_eigenvalues_than_random_search():
    features = np.random.default_rng(0).normal(size=(300, 24))
    value = {
        search: al.select(al.NPC(search=search), 10, features=features, labelled=range(5)).info["lambda_min"]
        for search in ("random", "greedy", "swap")
    }
    assert value["random"] < value["greedy"] <= value["swap"]


def test_positive_score_rewards_duplicates_and_rank_aware_does_not():
    rng = np.random.default_rng(0)
    distinct = rng.normal(size=(6, 16))
    features = np.vstack([distinct[:3], distinct[:3], distinct])  # 0..5 three points twice
    doubled, plain = np.arange(6), np.arange(6, 12)
    assert beats(union_score(features, [], plain), union_score(features, [], doubled))
    picks = [
        al.select(al.NPC(draws=3000, score=score), 6, features=features, seed=1) for score in ("positive", "rank-aware")
    ]
    assert picks[0].info["rank"] < 6 == picks[1].info["rank"]


def test_schur_score_is_the_smallest_eigenvalue_of_the_schur_complement():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 20))
    labelled = np.arange(6)
    picks = al.select(al.NPC(draws=200, score="schur"), 4, features=features, labelled=labelled, seed=5)
    phi = np.hstack([features, np.ones((80, 1))])
    K = phi @ phi.T
    drawn = np.vstack(list(draw_batches(np.arange(6, 80), 4, 200, stream(5, "select"))))
    within = K[np.ix_(labelled, labelled)]
    values = [
        np.linalg.eigvalsh(K[np.ix_(b, b)] - K[np.ix_(b, labelled)] @ np.linalg.solve(within, K[np.ix_(labelled, b)]))[
            0
        ]
        for b in drawn
    ]
    assert set(picks.indices) == set(drawn[int(np.argmax(values))])


def test_the_batch_comes_with_what_is_newest_first():
    features = np.eye(6)[[0, 0, 1, 2, 3]] * np.array([[1.0], [9.0], [2.0], [5.0], [3.0]])
    picks = al.select(al.NPC(bias=False), 4, features=features, labelled=[0])
    assert picks.indices.tolist() == [3, 4, 2, 1]  # 1 is long but adds nothing to the labelled item


def test_a_collapsed_rank_is_noted():
    features = np.random.default_rng(0).normal(size=(60, 8)) * 1e-9
    info = al.select("npc", 4, features=features, labelled=range(3)).info
    assert info["rank"] < 7
    assert "span only" in info["note"]
    assert "normalize=True" in info["note"]


def test_scarce_memory_changes_nothing_when_every_candidate_is_alike():
    # All candidates pass the corners of the dual screen; they are factorised a few at a time.
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 64))
    features[100:] = features[100]
    one = al.select(al.NPC(draws=500), 2, features=features, labelled=range(90), max_memory=2**20)
    other = al.select(al.NPC(draws=500), 2, features=features, labelled=range(90))
    assert np.array_equal(one.indices, other.indices)


def test_progress_moves_during_the_search():
    features = np.random.default_rng(0).normal(size=(2000, 30))
    seen = []
    al.select(
        al.NPC(draws=5000),
        10,
        features=features,
        max_memory=2**22,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert len(seen) > 5
    assert seen == sorted(seen)
    assert seen[-1] == (5000, 5000)


def test_schur_still_tells_batches_apart_when_a_near_duplicate_pair_caps_them():
    own = []
    for seed in range(10):  # the gain is 6 on average, with a standard deviation of 4: both may choose the same
        features = np.random.default_rng(seed).normal(size=(200, 40))
        features[1] = features[0] + 1e-9
        capped = al.select(al.NPC(), 5, features=features, labelled=range(6))
        assert capped.info["eigendecompositions"] < 100  # nothing to gain: the search stops
        free = al.select(al.NPC(score="schur"), 5, features=features, labelled=range(6))
        own.append([union_score(features, [], p.indices).value for p in (capped, free)])
    assert np.mean(own, axis=0)[1] > np.mean(own, axis=0)[0]


def test_unit_rows_ignore_the_length_of_features():
    features = np.random.default_rng(0).normal(size=(60, 10))
    scaled = features * np.random.default_rng(1).uniform(1, 9, size=(60, 1))
    options = al.NPC(normalize=True, bias=False)
    a = al.select(options, 5, features=features, seed=0)
    b = al.select(options, 5, features=scaled, seed=0)
    assert np.array_equal(a.indices, b.indices)
    assert a.info["lambda_min"] <= 1


def test_paper_example_of_two_unit_gradients_takes_the_less_similar_one():
    # NPC section 3.3: lambda_min = 1 - |inner product| with the labelled item.
    features = np.array([[1.0, 0.0], [np.cos(0.3), np.sin(0.3)], [np.cos(1.2), np.sin(1.2)]])
    picks = al.select(al.NPC(bias=False), 1, features=features, labelled=[0])
    assert picks.indices.tolist() == [2]
    assert picks.info["lambda_min"] == pytest.approx(1 - np.cos(1.2))
