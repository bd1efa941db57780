import numpy as np
import pytest

from askless.linalg import GramRows, add_best, beats, gram_score, swap_until_stable


def best_addition_by_eigenvalues(rows, chosen, allowed):
    scores = [gram_score(rows.take(np.append(chosen, i))) for i in allowed]
    best = 0
    for i, score in enumerate(scores):
        if beats(score, scores[best]):
            best = i
    return scores[best]


@pytest.mark.parametrize("n_chosen", [0, 1, 3, 8, 9, 10, 30])
@pytest.mark.parametrize("seed", range(5))
def test_the_added_row_is_the_best_by_eigenvalues(n_chosen, seed):
    rng = np.random.default_rng([seed, n_chosen])
    rows = GramRows(rng.normal(size=(120, 8)) * rng.uniform(0.2, 2, size=8))
    chosen, allowed = np.arange(n_chosen), np.arange(n_chosen, 120)
    got = add_best(rows, chosen, allowed, np.random.default_rng(0), max_memory=10_000)
    score = gram_score(rows.take(np.append(chosen, got)))
    expected = best_addition_by_eigenvalues(rows, chosen, allowed)
    assert score.rank == expected.rank
    assert score.value == pytest.approx(expected.value, rel=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_row_is_found_inside_a_pool_that_spans_few_directions(seed):
    rng = np.random.default_rng(seed)
    rows = GramRows(rng.normal(size=(60, 3)) @ rng.normal(size=(3, 9)))
    chosen, allowed = np.arange(6), np.arange(6, 60)
    got = add_best(rows, chosen, allowed, np.random.default_rng(0))
    score = gram_score(rows.take(np.append(chosen, got)))
    assert score.value == pytest.approx(best_addition_by_eigenvalues(rows, chosen, allowed).value, rel=1e-7)


def test_a_copy_of_a_chosen_row_is_added_only_when_nothing_else_is_left():
    features = np.vstack([np.eye(3), np.eye(3)])
    rows = GramRows(features, bias=False)
    assert add_best(rows, np.array([0, 1]), np.array([2, 3, 4]), np.random.default_rng(0)) == 2
    assert add_best(rows, np.array([0, 1, 2]), np.array([3]), np.random.default_rng(0)) == 3


def test_swaps_never_lose_and_usually_gain():
    rng = np.random.default_rng(0)
    rows = GramRows(rng.normal(size=(200, 16)))
    labelled, unlabelled = np.arange(4), np.arange(4, 200)
    start = np.arange(4, 10)
    before = gram_score(rows.take(np.concatenate([labelled, start])))
    batch = swap_until_stable(rows, labelled, start, unlabelled, np.random.default_rng(0))
    after = gram_score(rows.take(np.concatenate([labelled, batch])))
    assert len(set(batch)) == 6
    assert not set(batch) & set(labelled)
    assert after.value > 1.5 * before.value
