"""DARP: against scipy's solvers, by its optimality conditions, and by cases worked out by hand."""

import sys
import time

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize
from scipy.special import expit

from askless.base.errors import AsklessError, InputError, OptionError
from askless.learn.darp import (
    check_target,
    darp,
    estimate_target,
    maximise_by_newton,
    rows_to_one,
    solve,
    sum_error,
    weights,
    without_small_entries,
)

INF = float("inf")


def column_error(x, M):
    """The largest error of a column sum, over N."""
    return float(np.abs(x.sum(axis=0) - M).max() / len(x))


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def random_probs(N, K, seed, scale=2.0, bias=0.0):
    return softmax(scale * np.random.default_rng(seed).normal(size=(N, K)) + bias * np.linspace(0, 1, K))


def problem(seed):
    """Fifty small problems: every third strongly biased, some with one-hot rows, absent or never predicted classes."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 5))
    N = int(rng.integers(K + 2, 13))
    P = random_probs(N, K, [seed, 1], rng.choice([0.5, 1, 3]), [0, 2, 5][seed % 3])
    if seed % 5 == 0:
        sure = rng.integers(N, size=max(1, N // 4))
        P[sure] = np.eye(K)[P[sure].argmax(axis=1)]
    target = None if seed % 2 else rng.uniform(0.5, 2, K)
    if seed % 7 == 0 and K > 2:
        target = np.ones(K)
        target[rng.integers(K)] = 0
    if seed % 7 == 3:
        P[:, 0] = 1e-4
        P = rows_to_one(P)
    return P, target, INF if seed % 4 < 2 else 2.0


def convex_problem(P, target, alpha, smoothed=False):
    """p, M, w and the classes that are there: what the solvers see."""
    M = check_target(target, *P.shape)
    there = M > 0
    p = rows_to_one(P[:, there])
    if np.isfinite(alpha):
        p = without_small_entries(p, M[there], alpha)
    if smoothed:
        p = rows_to_one(p + 1e-6)
    return p, M[there], weights(p), there


def kkt_residual(X, nu, p, M, w):
    """How far X (N, K) and nu (K,) are from the solution for p, M, w: the largest of three errors.

    Those of the row sums; of the column sums, over N; and of stationarity, log(x_mk / p_mk) = a_m - nu_k / w_m with any
    a_m, relative to nu_k / w_m where that is large.
    """
    there = (p > 0) & (X > 1e-290)  # smaller numbers have lost their digits
    pull = np.multiply.outer(1 / w, nu)  # (N, K)
    a = np.where(there, np.log(np.where(there, X, 1)) - np.log(np.where(there, p, 1)) + pull, np.nan)
    spread = (np.nanmax(a, axis=1) - np.nanmin(a, axis=1)) / np.maximum(1, np.abs(pull).max(axis=1))
    return float(max(np.abs(X.sum(axis=1) - 1).max(), column_error(X, M), spread.max()))


def by_slsqp(p, M, w):
    """The primal problem by scipy's general solver, over the entries with p > 0; one-hot rows are settled."""
    X = np.where(p == 1, 1.0, 0.0)
    rows, columns = np.nonzero((p > 0) & (p < 1))
    log_p, W = np.log(p[rows, columns]), w[rows]
    moving = np.unique(rows)
    A = np.concatenate([(rows == m)[None] for m in moving] + [(columns == k)[None] for k in range(len(M) - 1)]).astype(
        float
    )
    b = np.concatenate([np.ones(len(moving)), (M - X.sum(axis=0))[:-1]])
    found = minimize(
        lambda x: (W * (x * np.log(x) - x * log_p)).sum(),
        p[rows, columns],
        jac=lambda x: W * (np.log(x) + 1 - log_p),
        method="SLSQP",
        bounds=[(1e-14, 1)] * len(rows),
        constraints={"type": "eq", "fun": lambda x: A @ x - b, "jac": lambda x: A},
        options={"ftol": 1e-16, "maxiter": 2000},
    )
    X[rows, columns] = found.x
    return X


def by_scipy_on_the_dual(p, M, w):
    """-g minimised by scipy's trust-region method over nu with the last fixed."""
    h = 1 / w
    with np.errstate(divide="ignore"):
        log_p = np.log(p)

    def look(v):
        z = log_p - np.outer(h, np.append(v, 0))
        top = z.max(axis=1, keepdims=True)
        e = np.exp(z - top)
        return (w * (top[:, 0] + np.log(e.sum(axis=1)))).sum() + v @ M[:-1], e / e.sum(axis=1, keepdims=True)

    def hessian(v):
        x = look(v)[1]
        return (np.diag(h @ x) - (x * h[:, None]).T @ x)[:-1, :-1]

    found = minimize(
        lambda v: look(v)[0],
        np.zeros(len(M) - 1),
        jac=lambda v: (M - look(v)[1].sum(axis=0))[:-1],
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-9, "maxiter": 5000, "max_trust_radius": 1e8},
    )
    return look(found.x)[1]


@pytest.mark.own_seed(
    "on one problem in five hundred scipy's solvers themselves miss 1e-6, and the conditions below hold"
)
@pytest.mark.parametrize("seed", range(50))
def test_newton_matches_scipy_and_the_optimality_conditions(seed):
    P, target, alpha = problem(seed)
    refined = solve(P, target, alpha)
    p, M, w, there = convex_problem(P, target, alpha, refined.smoothed)
    X = refined.X[:, there]
    assert not refined.X[:, ~there].any()
    np.testing.assert_allclose(X, by_scipy_on_the_dual(p, M, w), rtol=0, atol=1e-6)
    if w[p.max(axis=1) < 1].max() < 1e3:  # SLSQP gives up on worse scaled problems
        np.testing.assert_allclose(X, by_slsqp(p, M, w), rtol=0, atol=1e-6)
    assert kkt_residual(X, refined.nu[there], p, M, w) < 1e-8


def test_most_of_the_fifty_problems_are_compared_with_the_primal_solver():
    scaled = [convex_problem(*problem(seed)) for seed in range(50)]
    assert sum(w[p.max(axis=1) < 1].max() < 1e3 for p, _, w, _ in scaled) >= 20  # 28 ± 2


def test_stationarity_is_additivity_whatever_the_multipliers():
    P = random_probs(200, 6, 0, bias=4)
    X = darp(P, alpha=INF)
    B = weights(P)[:, None] * np.log(X / P)  # = a_m + b_k: all double differences vanish
    differences = B - B[:1] - B[:, :1] + B[0, 0]
    assert np.abs(differences).max() < 1e-8
    np.testing.assert_allclose(X.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(X.sum(axis=0), 200 / 6, atol=1e-8)


def test_the_residual_sees_wrong_rows_columns_and_directions():
    P = random_probs(20, 3, 0)
    p, M, w, _ = convex_problem(P, None, INF)
    X, nu, *_ = solve(P, None, INF)
    assert kkt_residual(X, nu, p, M, w) < 1e-12
    assert kkt_residual(1.01 * X, nu, p, M, w) == pytest.approx(0.01)
    assert kkt_residual(p, np.zeros(3), p, M, w) == pytest.approx(column_error(p, M))
    moved = nu + np.array([0.1, 0, 0])
    large = np.maximum(1, np.abs(np.outer(1 / w, moved)).max(axis=1))
    assert kkt_residual(X, moved, p, M, w) == pytest.approx((0.1 / w / large).max())


# --- identities ---------------------------------------------------------------------------------------------------------


def test_columns_that_already_fit_leave_everything_as_it_is():
    P = random_probs(40, 4, 0)
    refined = solve(P, P.sum(axis=0), INF)
    np.testing.assert_allclose(refined.X, P, rtol=0, atol=1e-14)
    np.testing.assert_allclose(refined.nu, 0, atol=1e-12)
    assert refined.steps == 0


@pytest.mark.parametrize("alpha", [2.0, INF])
def test_permuted_rows_and_classes_permute_the_result(alpha):
    P, target = random_probs(40, 4, 0, bias=3), np.array([1.0, 2, 3, 1])
    rows, columns = np.random.default_rng(1).permutation(40), np.array([2, 0, 3, 1])
    X = darp(P, target, alpha)
    np.testing.assert_allclose(darp(P[rows], target, alpha), X[rows], atol=1e-10)
    np.testing.assert_allclose(darp(P[:, columns], target[columns], alpha), X[:, columns], atol=1e-10)


def test_two_classes_are_one_equation():
    P, M = random_probs(30, 2, 0, bias=2), np.array([20.0, 10.0])
    h = 1 / weights(P)

    def first(v):
        return expit(np.log(P[:, 0] / P[:, 1]) - v * h)

    v = brentq(lambda v: first(v).sum() - 20, -1e4, 1e4, xtol=1e-14)
    refined = solve(P, M, INF)
    np.testing.assert_allclose(refined.X[:, 0], first(v), atol=1e-10)
    np.testing.assert_allclose(refined.nu, [v, 0], atol=1e-9)


def test_equal_weights_are_sinkhorn_scaling():
    P, M = random_probs(25, 4, 0, bias=2), np.array([10.0, 5, 5, 5])
    X = P.copy()
    for _ in range(500):
        X *= M / X.sum(axis=0)
        X /= X.sum(axis=1, keepdims=True)
    found, _, _ = maximise_by_newton(P, M, np.full(25, 0.7), np.zeros(4))
    np.testing.assert_allclose(found, X, atol=1e-10)


def test_confident_rows_hardly_move():
    P = np.array([[0.999, 0.001], [0.6, 0.4], [0.6, 0.4]])
    X = darp(P, alpha=INF)
    assert abs(X[0] - P[0]).max() < 0.01 < abs(X[1] - P[1]).max()


def test_three_rows_by_hand():
    # The target is met by moving the two equal rows alone to x with 1 + 2 x = 1.5, so x = 1/4, if the first is certain.
    P = np.array([[1.0, 0.0], [0.6, 0.4], [0.6, 0.4]])
    np.testing.assert_allclose(darp(P, alpha=INF), [[1, 0], [0.25, 0.75], [0.25, 0.75]], atol=1e-9)


# --- removing small entries ---------------------------------------------------------------------------------------------


def test_small_entries_are_removed_by_hand():
    p = np.array([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8], [0.9, 0.1]])
    # alpha M = 2 rows per class: rows 3 and 0 for the first (sum 1.6), rows 2 and 1 for the second (sum 1.2).
    c = (2 + 1e-6) / (np.array([1.6, 1.2]) + 1e-6)
    raw = np.array([[0.7 * c[0], 0], [0, 0.4 * c[1]], [0, 0.8 * c[1]], [0.9 * c[0], 0]]) + 1e-6
    expected = raw / raw.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(without_small_entries(p, np.array([2.0, 2.0]), 1.0), expected, rtol=1e-12)


def test_of_equally_likely_rows_the_earlier_stay():
    found = without_small_entries(np.full((4, 2), 0.5), np.array([2.0, 2.0]), 1.0)
    np.testing.assert_allclose(found[2:], 0.5)  # they lost everything: uniform
    np.testing.assert_allclose(found[:2], 0.5)  # they lost nothing
    np.testing.assert_allclose(
        without_small_entries(np.full((4, 2), 0.5), np.array([4.0, 0.5]), 1.0)[:, 0], 1, atol=1e-5
    )


def test_counts_are_not_lost_to_rounding():
    p = random_probs(30, 2, 0)
    kept = without_small_entries(p, np.array([0.1 * 3 * 10 * 1.0, 27.0]), 1.0)
    assert (kept[:, 0] > 0.5).sum() == 3  # of two classes a row keeps one, but for the 1e-6 everywhere


def test_with_enough_room_nothing_is_removed():
    P = random_probs(30, 3, 0)
    M = np.full(3, 10.0)
    c = (M + 1e-6) / (P.sum(axis=0) + 1e-6)
    np.testing.assert_allclose(without_small_entries(P, M, 3.0), rows_to_one(P * c + 1e-6), rtol=1e-12)
    np.testing.assert_array_equal(without_small_entries(P, M, 3.0), without_small_entries(P, M, 50.0))


# --- edge cases -----------------------------------------------------------------------------------------------------------


def test_one_hot_rows_have_a_large_positive_weight():
    w = weights(np.array([[1.0, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]]))
    np.testing.assert_allclose(w, [1e8, 1 / np.log(3), 1 / np.log(2)])


def test_one_hot_rows_stay_where_the_others_can_meet_the_target():
    P = random_probs(20, 3, 0)
    P[:4] = np.eye(3)[[0, 1, 2, 0]]
    refined = solve(P, None, INF)
    np.testing.assert_allclose(refined.X[:4], P[:4], atol=1e-12)
    assert not refined.smoothed
    assert refined.error < 1e-12


@pytest.mark.parametrize("alpha", [2.0, INF])
def test_rows_that_are_all_one_hot_and_a_target_they_do_not_meet(alpha):
    P = np.eye(3)[[0, 0, 0, 0, 0, 1, 2]]
    refined = solve(P, None, alpha)
    assert refined.error < 1e-9
    assert refined.smoothed == (alpha == INF)
    np.testing.assert_allclose(refined.X[5:], P[5:], atol=1e-3)


def test_a_class_that_is_never_predicted_gets_its_share_from_the_least_certain_rows():
    P = random_probs(300, 3, 0, scale=4)
    P = np.concatenate([P, np.zeros((300, 1))], axis=1)
    for alpha in (2.0, INF):
        X = darp(P, None, alpha)
        assert X[:, 3].sum() == pytest.approx(75)
        certain = P.max(axis=1)
        assert certain[X[:, 3] > 0.9].mean() < certain[X[:, 3] < 0.1].mean()


def test_a_class_of_count_zero_gets_exactly_nothing():
    P = random_probs(30, 4, 0)
    P[3] = [0, 1, 0, 0]  # a row that has nothing else
    X = darp(P, [3, 0, 1, 1])
    assert not X[:, 1].any()
    np.testing.assert_allclose(X.sum(axis=0), [18, 0, 6, 6], atol=1e-9)
    np.testing.assert_allclose(X.sum(axis=1), 1)


def test_a_single_class_takes_all():
    np.testing.assert_array_equal(darp(np.ones((3, 1))), np.ones((3, 1)))
    np.testing.assert_array_equal(darp(random_probs(3, 2, 0), [0, 5]), [[0, 1]] * 3)


def test_counts_are_rescaled():
    P = random_probs(30, 3, 0)
    np.testing.assert_allclose(darp(P, [1, 2, 3]), darp(P, [5, 10, 15]), atol=1e-12)
    np.testing.assert_allclose(darp(P), darp(P, [7, 7, 7]), atol=1e-12)


def test_rows_never_seen_are_uniform_and_move_freely():
    P = np.full((50, 5), 0.2)
    P[:10] = random_probs(10, 5, 0, scale=5)
    for alpha in (2.0, INF):
        assert solve(P, None, alpha).error < 1e-9


@pytest.mark.parametrize("alpha", [2.0, INF])
@pytest.mark.parametrize(("scale", "bias"), [(1, 20), (10, 30), (30, 100), (50, 300)])
def test_saturated_and_strongly_biased_predictions_are_solved(scale, bias, alpha):
    refined = solve(random_probs(300, 6, 0, scale, bias), None, alpha)
    assert refined.error < 1e-9
    np.testing.assert_allclose(refined.X.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_optimality_conditions_hold_on_larger_random_problems(seed):
    rng = np.random.default_rng(seed)
    K, alpha = int(rng.integers(2, 30)), [1.0, 2.0, 5.0, INF][seed % 4]
    P = softmax(
        rng.normal(size=(int(rng.integers(K, 500)), K)) * 10 ** rng.uniform(-1, 1)
        + rng.normal(size=K) * 10 ** rng.uniform(-1, 1)
    )
    target = None if seed % 2 else rng.exponential(size=K) ** 2
    refined = solve(P, target, alpha)
    p, M, w, there = convex_problem(P, target, alpha, refined.smoothed)
    assert kkt_residual(refined.X[:, there], refined.nu[there], p, M, w) < 1e-8


def test_a_warm_start_gives_the_same_in_fewer_steps():
    """Four instead of eight on average; a single problem may need as many."""
    steps = []
    for seed in range(10):
        P = random_probs(500, 5, seed, bias=6)
        nearly = rows_to_one(P + 0.001 * random_probs(500, 5, 100 + seed))
        cold, warm = solve(nearly), solve(nearly, start=solve(P).nu)
        np.testing.assert_allclose(warm.X, cold.X, atol=1e-8)
        steps.append((cold.steps, warm.steps))
    cold, warm = np.mean(steps, axis=0)
    assert warm < cold - 1


# --- extreme numbers ----------------------------------------------------------------------------------------------------


def test_probabilities_next_to_nothing_are_solved_exactly():
    """Newton's first step went so far that all exponents were rounded away: equal columns, whatever the target."""
    for tiny in (1e-300, 1e-12, 5e-324):
        refined = solve([[1, tiny, tiny]] * 2, [1, 2, 3], INF)
        np.testing.assert_allclose(refined.X, [[1 / 6, 1 / 3, 1 / 2]] * 2, atol=1e-9)
        assert not refined.smoothed
    np.testing.assert_allclose(darp([[1, 1e-300, 1e-300]] * 2, [1, 2, 3], INF).sum(axis=0), [1 / 3, 2 / 3, 1])


def extreme_problem(seed):
    """Probabilities down to the smallest number, or exactly 0; counts of any size; starts that lead nowhere."""
    rng = np.random.default_rng(seed)
    N, K = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    P = [
        lambda: 10.0 ** rng.uniform(-320, 0, (N, K)),
        lambda: np.tile(10.0 ** rng.uniform(-320, 0, K), (N, 1)),
        lambda: np.eye(K)[rng.integers(K, size=N)],
        lambda: np.where(rng.random((N, K)) < 0.5, 0, rng.random((N, K))) + 1e-300 * (rng.random((N, 1)) < 0.5),
    ][seed % 4]()
    P[~P.any(axis=1)] = 1
    target = [None, 10.0 ** rng.uniform(-300, 308, K), np.append(rng.integers(2, size=K - 1), 1)][seed % 3]
    start = None if seed % 5 else rng.normal(size=K) * 10 ** rng.uniform(0, 300)
    return rows_to_one(P / P.max(axis=1, keepdims=True)), target, INF if seed % 7 else 2.0, start


@pytest.mark.parametrize("solver", ["newton", "alternating"])
def test_extreme_problems_are_solved_and_never_wrong_in_silence(solver):
    for seed in range(60):
        P, target, alpha, start = extreme_problem(seed)
        refined = solve(P, target, alpha, solver=solver, start=start)
        M = check_target(target, *P.shape)
        assert np.isfinite(refined.X).all()
        assert np.isfinite(refined.nu).all()
        np.testing.assert_allclose(refined.X.sum(axis=1), 1, atol=1e-9)
        assert refined.error == pytest.approx(column_error(refined.X, M), abs=1e-12)
        if solver == "newton":
            assert refined.error < 1e-9, seed
            p, M, w, there = convex_problem(P, target, alpha, refined.smoothed)
            assert kkt_residual(refined.X[:, there], refined.nu[there], p, M, w) < 1e-8


def test_multipliers_that_drift_off_together_lose_no_digits():
    """All nu had come to 6e9, and 7e-9 of the column sums was lost in their rounding."""
    some = [[0.519, 0.075, 0.406], [0, 0.266, 0.734], [0, 0.747, 0.253], [1 / 3, 1 / 3, 1 / 3], [0.442, 0.558, 0]]
    P = np.array([[0, 1, 0]] * 3 + [[1, 0, 0]] * 2 + some)
    worst = max(solve(P, [575.0, scarce, 145.4], INF).error for scarce in np.geomspace(0.1, 1, 20))
    assert worst < 1e-11


def test_counts_too_large_to_add_up_are_rescaled():
    P = random_probs(30, 3, 0)
    np.testing.assert_allclose(darp(P, [1e308, 1e308, 1e308]), darp(P), atol=1e-12)
    np.testing.assert_allclose(darp(P, [5e-324, 5e-324, 5e-324]), darp(P), atol=1e-12)


@pytest.mark.parametrize("wrong", [np.full((2, 2), 0.5), np.full((2, 2), np.nan), np.array([[1.0, 0.2], [0.2, 0.6]])])
def test_a_solution_with_the_wrong_sums_is_not_returned(monkeypatch, wrong):
    """Of the columns, of nothing, or of the rows; the attempt with smoothed probabilities is as wrong here."""
    monkeypatch.setattr(sys.modules["askless.learn.darp"], "maximise_by_newton", lambda p, M, w, nu: (wrong, nu, 3))
    with pytest.raises(
        AsklessError, match="darp: found no probabilities with the target counts: the sums are still off"
    ):
        darp(HALF, [1.2, 0.8])


def test_the_error_of_sums_is_that_of_the_worst_row_or_column():
    assert sum_error(np.full((2, 2), 0.5), np.array([1.2, 0.8])) == pytest.approx(0.1)
    assert sum_error(np.array([[1.0, 0.2], [0.2, 0.6]]), np.array([1.2, 0.8])) == pytest.approx(0.2)
    assert sum_error(np.full((2, 2), np.nan), np.ones(2)) == INF


# --- the authors' scheme ------------------------------------------------------------------------------------------------


def test_alternating_long_enough_gives_the_exact_solution():
    P = random_probs(60, 4, 0, bias=3)
    X = darp(P, alpha=INF, solver="alternating", iterations=200, tol=1e-12)
    np.testing.assert_allclose(X, darp(P, alpha=INF), atol=1e-8)


def test_alternating_as_published_is_close_on_mild_problems_and_far_under_strong_bias():
    mild, biased = random_probs(500, 10, 0), random_probs(500, 10, 0, bias=10)
    assert np.abs(darp(mild, alpha=INF, solver="alternating") - darp(mild, alpha=INF)).max() < 0.02
    strong = solve(biased, alpha=INF, solver="alternating")
    assert strong.error > 1e-3
    np.testing.assert_allclose(strong.X.sum(axis=1), 1)
    assert solve(biased, alpha=INF).error < 1e-9


def test_one_alternating_round_by_hand():
    P = np.array([[0.8, 0.2], [0.6, 0.4]])
    w = weights(P)
    a = np.e / (P * np.exp(-1 / w)[:, None]).sum(axis=1)  # rows scaled with nu = 1
    nu = [brentq(lambda v, k=k: (P[:, k] / np.e * a * np.exp(-v / w)).sum() - 1, -20, 20, xtol=1e-13) for k in (0, 1)]
    X = P * np.exp(-np.outer(1 / w, nu))
    found = darp(P, alpha=INF, solver="alternating", iterations=1, tol=1e-12)
    np.testing.assert_allclose(found, X / X.sum(axis=1, keepdims=True), atol=1e-9)


def test_alternating_survives_a_search_that_runs_away():
    P = random_probs(50, 4, 0, scale=30, bias=60)
    for alpha in (2.0, INF):
        X = darp(P, alpha=alpha, solver="alternating", iterations=3)
        assert np.isfinite(X).all()
        np.testing.assert_allclose(X.sum(axis=1), 1)


# --- kinds --------------------------------------------------------------------------------------------------------------


def test_what_comes_in_is_what_goes_out():
    P = random_probs(20, 3, 0)
    exact = darp(P)
    tensor = torch.from_numpy(P).requires_grad_()
    out = darp(tensor)
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.float64
    assert not out.requires_grad
    np.testing.assert_array_equal(out.numpy(), exact)
    assert darp(P.astype(np.float32)).dtype == np.float32
    assert darp(tensor.bfloat16()).dtype == torch.bfloat16
    assert darp(P.tolist()).dtype == np.float64
    np.testing.assert_allclose(darp(tensor.float(), torch.ones(3)).numpy(), exact, atol=1e-4)


def test_the_input_is_left_alone():
    P = random_probs(20, 3, 0)
    P.setflags(write=False)
    start = np.zeros(3)
    start.setflags(write=False)
    for solver in ("newton", "alternating"):
        darp(P, solver=solver, start=start)


# --- an estimated target ------------------------------------------------------------------------------------------------


def test_the_target_is_recovered_from_a_confusion_matrix():
    C = np.array([[0.8, 0.1, 0.2], [0.1, 0.7, 0.1], [0.1, 0.2, 0.7]])
    q = np.array([100.0, 30.0, 20.0])
    np.testing.assert_allclose(estimate_target(C * [10, 20, 5], C @ q), q)


def test_only_epochs_that_can_be_inverted_to_counts_are_averaged():
    good, flat = np.array([[0.9, 0.2], [0.1, 0.8]]), np.array([[0.501, 0.5], [0.499, 0.5]])
    counts = np.array([[55.0, 45.0], [48.0, 52.0], [50.0, 50.0], [5.0, 95.0]])
    found = estimate_target(np.stack([good, good, flat, good]), counts)  # the last gives a negative count
    np.testing.assert_allclose(found, np.mean([np.linalg.solve(good, c) for c in counts[:2]], axis=0))
    assert estimate_target(flat, [50, 50]) is None
    assert estimate_target(good, [5, 95]) is None


# --- messages -----------------------------------------------------------------------------------------------------------

GAP = np.array([[0.5, 0.5], [0.5, np.nan]])
HALF = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: darp("x"), "probs: expected an array of numbers, got str"),
        (lambda: darp([[0.5, 0.5], [1.0]]), "probs: expected an array of numbers, got list"),
        (lambda: darp(np.ones(3)), r"probs: expected shape \(N, K\) with at least one row and one class, got \(3,\)"),
        (lambda: darp(np.ones((0, 3))), r"probs: expected shape \(N, K\) .* got \(0, 3\)"),
        (lambda: darp(GAP), "probs: expected rows >= 0 that sum to 1, got row 1 with sum nan and smallest entry nan"),
        (
            lambda: darp(np.array([[0.5, 0.5], [2.0, 1.0]])),
            "got row 1 with sum 3 and smallest entry 1; apply softmax to",
        ),
        (lambda: darp(np.array([[1.5, -0.5]])), "got row 0 with sum 1 and smallest entry -0.5"),
        (lambda: darp(HALF, [1, 2, 3]), r"target: expected one count per class, shape \(2,\), got \(3,\)"),
        (
            lambda: darp(HALF, [1, -1]),
            r"target: expected counts >= 0, .* got \[1.0, -1.0\]; pass None for equal counts",
        ),
        (lambda: darp(HALF, [0, 0]), "target: expected counts >= 0, at least one of them positive"),
        (lambda: darp(HALF, [np.nan, 1]), "target: expected counts >= 0"),
        (lambda: darp(HALF, alpha=-1), "darp: alpha must be a number >= 0"),
        (lambda: darp(HALF, alpha=float("nan")), "darp: alpha must be a number >= 0"),
        (lambda: darp(HALF, solver="x"), "darp: solver must be one of newton, alternating, got 'x'"),
        (lambda: darp(HALF, iterations=0), "darp: iterations must be a whole number >= 1, got 0"),
        (lambda: darp(HALF, tol=0), "darp: tol must be a number >= 1e-15, got 0"),
        (lambda: darp(HALF, start=[1.0]), r"start: expected 2 finite numbers, the nu of an earlier solve, got \[1.0\]"),
        (
            lambda: estimate_target(HALF, [1, 2, 3]),
            r"expected a confusion matrix \(K, K\) and counts \(K,\), .* \(3,\)",
        ),
        (lambda: estimate_target(GAP, [1, 2]), "expected confusion and predicted_counts to be finite and >= 0"),
        (
            lambda: estimate_target([[1, 0], [1, 0]], [1, 2]),
            "expected held-out items of every class, got none of class 1",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_unknown_solver_is_an_option_error():
    with pytest.raises(OptionError):
        darp(HALF, solver="x")


def test_rows_of_half_precision_are_precise_enough():
    P = random_probs(50, 10, 0).astype(np.float16)
    assert solve(P).error < 1e-9


@pytest.mark.parametrize(("scale", "bias"), [(3, 0), (3, 5), (3, 15)])
def test_fifty_thousand_rows_of_ten_classes_take_less_than_two_seconds(scale, bias):
    """Of the processor, whatever else it does; a third of a second on its own."""
    P = random_probs(50_000, 10, 0, scale, bias)
    start = time.process_time()
    refined = solve(P)
    assert time.process_time() - start < 2
    assert refined.error < 1e-9


@pytest.mark.parametrize(("N", "seed"), [(4, 28), (448, 48)])
def test_newton_that_stalls_among_rows_that_are_sure_is_helped_on(N, seed):
    """Steps that Armijo allows made no progress here, in 200 of them."""
    rng = np.random.default_rng(seed)
    P, target = softmax(50 * rng.normal(size=(N, 10))), rng.dirichlet(np.full(10, 0.5))
    refined = solve(P, target)
    assert refined.error < 1e-9
    assert not refined.smoothed
    np.testing.assert_allclose(np.asarray(refined.X).sum(axis=0), N * target, atol=1e-8 * N)
