"""The fast search against the eigenvalues of every candidate (METHODS 10.1)."""

from functools import cache

import numpy as np
import pytest

from askless.linalg import GramRows, best_batch, best_batch_reference
from askless.linalg.gram import score_batches
from askless.linalg.search import screen_for

KINDS = (
    "n < d+1",
    "n = d+1",
    "n > d+1",
    "pool duplicates",
    "labelled duplicates",
    "empty labelled",
    "low rank",
    "tiny",
)


def problem(kind: str, seed: int):
    """Features, labelled positions and candidate batches of one random problem."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    d = int(rng.integers(4, 24))
    q = int(rng.integers(1, 8))
    n_labelled = {
        "n < d+1": max(0, int(rng.integers(0, max(1, d + 1 - q)))),
        "n = d+1": max(0, d + 1 - q),
        "n > d+1": d + int(rng.integers(2, 40)),
        "empty labelled": 0,
    }.get(kind, int(rng.integers(2, d + 6)))
    N = n_labelled + 40 + q
    features = rng.normal(size=(N, d)) * rng.uniform(0.1, 3, size=d) + rng.normal(size=d)
    if kind == "low rank":
        features = features[:, : max(1, d // 3)] @ rng.normal(size=(max(1, d // 3), d))
    if kind == "tiny":
        features *= 1e-4
    if kind == "pool duplicates":
        features[n_labelled + 20 :] = features[n_labelled : n_labelled + len(features) - n_labelled - 20]
    if kind == "labelled duplicates":
        features[1] = features[0]
    labelled = np.arange(n_labelled)
    candidates = np.stack([n_labelled + rng.choice(N - n_labelled, q, replace=False) for _ in range(150)])
    return GramRows(features.astype(rng.choice([np.float32, np.float64]))), labelled, candidates


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(30))
def test_fast_search_returns_the_batch_and_score_of_brute_force(kind, seed):
    rows, labelled, candidates = problem(kind, seed)
    slow = best_batch_reference(rows, labelled, [candidates])
    fast = best_batch(rows, labelled, np.array_split(candidates, 3), len(candidates))
    assert fast.place == slow.place
    assert np.array_equal(fast.batch, slow.batch)
    assert fast.score.rank == slow.score.rank
    assert fast.score.value == pytest.approx(slow.score.value, rel=1e-9)


def test_a_screen_of_one_candidate_at_a_time_changes_nothing():
    rows, labelled, candidates = problem("n < d+1", 3)
    plenty = best_batch(rows, labelled, [candidates], len(candidates))
    scarce = best_batch(rows, labelled, [candidates], len(candidates), max_memory=1)
    assert plenty.place == scarce.place


@pytest.mark.parametrize(("n_labelled", "q"), [(20, 10), (0, 20), (120, 20)])
def test_few_candidates_need_eigenvalues(n_labelled, q):
    rng = np.random.default_rng(0)
    rows = GramRows(rng.normal(size=(2000, 64)))
    candidates = rng.integers(n_labelled, 2000, size=(2000, q))
    found = best_batch(rows, np.arange(n_labelled), [candidates], 2000)
    assert found.scored < 200
    assert found.place == best_batch_reference(rows, np.arange(n_labelled), [candidates]).place


@cache
def scored(d, n_labelled, q, scale):
    rng = np.random.default_rng([d, n_labelled, q])
    # Some columns are much larger than others: a large entry beside a small eigenvalue is what rounding hurts.
    rows = GramRows(rng.normal(size=(1000, d)) * np.geomspace(1, scale, d))
    labelled = np.arange(n_labelled)
    batches = np.stack(
        [n_labelled + rng.choice(1000 - n_labelled, q, replace=False) for _ in range(100 if q > 100 else 300)]
    )
    return rows, labelled, batches, score_batches(rows, labelled, batches)


@pytest.mark.parametrize("max_memory", [2**28, 2**16], ids=["columns kept", "columns made when asked for"])
@pytest.mark.parametrize("scale", [1.0, 30.0], ids=["float32 is enough", "float64 decides"])
@pytest.mark.parametrize(
    ("d", "n_labelled", "q"), [(40, 0, 9), (40, 20, 9), (40, 31, 10), (140, 10, 200), (140, 300, 5), (40, 60, 30)]
)
def test_a_screen_turns_away_most_but_never_a_candidate_that_wins(d, n_labelled, q, scale, max_memory):
    rows, labelled, batches, scores = scored(d, n_labelled, q, scale)
    full = scores.rank == scores.rank.max()  # one of lower rank loses whatever its value, and is turned away rightly
    batches, values = batches[full.numpy()], scores.value[full].numpy()
    screen = screen_for(rows, labelled, q, int(scores.rank.max()), len(batches), max_memory)
    assert screen is not None
    for s in np.quantile(values, [0.0, 0.2, 0.5, 0.9, 0.99, 1.0]):
        passed = screen.passes(batches, float(s))
        assert passed[values > s].all()
        assert not passed[values < 0.99 * s].any()  # or it would save nothing


@pytest.mark.parametrize("scale", [1e-140, 1e-25, 1e-15, 1e15, 1e25, 1e140])
@pytest.mark.parametrize(("d", "n_labelled", "q"), [(20, 5, 4), (12, 20, 6)])
def test_features_of_any_size_give_the_same_batch(d, n_labelled, q, scale):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, d))
    candidates = np.stack([n_labelled + rng.choice(300 - n_labelled, q, replace=False) for _ in range(300)])
    labelled = np.arange(n_labelled)
    found = best_batch(GramRows(features * scale, bias=False), labelled, [candidates], 300)
    assert found.place == best_batch_reference(GramRows(features, bias=False), labelled, [candidates]).place


def test_a_record_at_the_cap_ends_the_search_in_the_middle_of_a_block():
    features = np.eye(12)
    features[1:4] *= 0.5
    candidates = np.arange(1, 9)[:, None]
    found = best_batch(GramRows(features, bias=False), np.array([0]), [candidates], 8)
    assert (found.place, found.score.value) == (3, 1.0)


def test_search_stops_when_a_near_duplicate_pair_in_the_labelled_set_caps_every_candidate():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 64))
    features[1] = features[0] + 1e-9
    labelled = np.arange(4)
    candidates = rng.integers(4, 300, size=(500, 3))
    seen = []
    found = best_batch(
        GramRows(features), labelled, [candidates], 500, progress=lambda done, total: seen.append((done, total))
    )
    assert found.place == best_batch_reference(GramRows(features), labelled, [candidates]).place
    assert seen[-1] == (500, 500)
