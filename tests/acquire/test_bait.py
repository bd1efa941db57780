"""BAIT against the trace of dense matrices, inverted anew for every candidate."""

import numpy as np
import pytest
from scipy.special import softmax

import askless as al


def pool(N=30, d=3, C=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, d)), softmax(2 * rng.normal(size=(N, C)), axis=1)


def fishers(x, p):
    """(N, C d, C d): (diag p - p p^T) (x) phi phi^T, written out."""
    return np.stack([np.kron(np.diag(q) - np.outer(q, q), np.outer(row, row)) for row, q in zip(x, p, strict=True)])


def brute_force(x, p, n, labelled, lam=1.0, weights="authors"):
    """The picks, and the trace in the end."""
    info, L = fishers(x, p), len(labelled)
    F, w = info.mean(axis=0), n if weights == "authors" else 1

    def trace(chosen):
        M = lam * np.eye(len(F)) + (info[labelled].sum(axis=0) + w * info[chosen].sum(axis=0)) / (L + n)
        return np.trace(np.linalg.solve(M, F))

    free, chosen = [i for i in range(len(x)) if i not in labelled], []
    for _ in range(min(2 * n, len(free))):
        chosen.append(min((i for i in free if i not in chosen), key=lambda i: trace([*chosen, i])))
    while len(chosen) > n:
        chosen.remove(min(chosen, key=lambda i: trace([j for j in chosen if j != i])))
    return chosen, trace(chosen)


@pytest.mark.parametrize("weights", ["authors", "equal"])
@pytest.mark.parametrize("lam", [1.0, 0.01])
@pytest.mark.parametrize("labelled", [[], [4, 7, 11, 20]])
@pytest.mark.parametrize("C", [2, 3, 4])
def test_it_chooses_as_dense_matrices_do(C, labelled, lam, weights):
    x, p = pool(C=C, seed=C)
    picks = al.select(al.BAIT(lam=lam, weights=weights), 5, features=x, probs=p, labelled=labelled)
    expected, trace = brute_force(x, p, 5, labelled, lam, weights)
    assert picks.indices.tolist() == expected
    assert picks.info["trace"] == pytest.approx(trace, rel=1e-9)


def test_a_bias_is_a_column_of_ones():
    x, p = pool()
    picks = al.select(al.BAIT(bias=True), 4, features=x, probs=p, labelled=[3])
    assert picks.indices.tolist() == brute_force(np.column_stack([x, np.ones(len(x))]), p, 4, [3])[0]


def test_scores_say_what_each_label_is_worth_when_it_is_added():
    x, p = pool()
    picks = al.select(al.BAIT(weights="equal"), 1, features=x, probs=p)
    info = fishers(x, p)
    F = info.mean(axis=0)
    lowered = np.trace(F) - np.array([np.trace(np.linalg.solve(np.eye(len(F)) + I, F)) for I in info])
    assert picks.info["trace_before"] == pytest.approx(np.trace(F))
    assert lowered[picks.indices[0]] == pytest.approx(picks.scores[0])
    assert picks.info["trace_before"] - picks.info["trace"] == pytest.approx(picks.scores[0])


def test_one_feature_and_two_classes_by_hand():
    # I(x) = p (1 - p) phi^2 (1, -1; -1, 1): the item with the largest 2 p (1 - p) phi^2 lowers the trace most.
    x = np.array([[1.0], [3.0], [2.0]])
    p = np.array([[0.5, 0.5], [0.99, 0.01], [0.5, 0.5]])
    value = 2 * p.prod(axis=1) * x[:, 0] ** 2  # 0.5, 0.1782, 2.0
    picks = al.select(al.BAIT(), 1, features=x, probs=p)
    assert picks.indices.tolist() == [2]
    assert picks.info["trace"] == pytest.approx(value.mean() / (1 + value[2]))


def test_certain_predictions_tell_nothing():
    x, _ = pool()
    picks = al.select("bait", 5, features=x, probs=np.eye(3)[np.arange(30) % 3])
    assert picks.scores.tolist() == [0] * 5


def test_wide_features_are_taken_in_directions_that_fit():
    rng = np.random.default_rng(0)
    narrow, p = pool(N=80)
    wide = narrow @ np.linalg.qr(rng.normal(size=(200, 3))).Q.T
    exact = al.select("bait", 5, features=narrow, probs=p)
    fits = al.select("bait", 5, features=wide, probs=p, max_memory=80 * 20**2)  # 10 directions of 2 classes
    assert fits.info["kept"] == pytest.approx(1)
    assert "10 main directions" in fits.info["note"]
    assert fits.indices.tolist() == exact.indices.tolist()
    assert al.select(al.BAIT(directions=2), 5, features=wide, probs=p).info["kept"] < 0.95


def test_candidates_are_drawn_where_memory_is_short():
    x, p = pool(N=500)
    picks = al.select("bait", 5, features=x, probs=p, max_memory=20_000)
    assert picks.info["candidates"] < 500
    assert f"{picks.info['candidates']} candidates are drawn" in picks.info["note"]


@pytest.mark.parametrize("scale", [1e-3, 1e2, 1e9])
def test_the_trace_stays_exact_on_any_scale(scale):
    x, p = pool(N=60)
    x = scale * x
    picks = al.select("bait", 20, features=x, probs=p)
    lam, info = picks.info.get("lam", 1.0), fishers(x, p)
    assert (scale == 1e9) == ("lam is raised" in picks.info.get("note", ""))
    M = lam * np.eye(9) + info[picks.indices].sum(axis=0)
    assert picks.info["trace"] == pytest.approx(np.trace(np.linalg.solve(M, info.mean(axis=0))), rel=1e-3)
