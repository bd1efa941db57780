r"""DARP: pseudo-labels refined to a known class distribution (Kim et al., NeurIPS 2020).

Given probabilities P (N, K), class counts M that sum to N and weights w_m = 1 / H(p_m), the refined X minimises

    \sum_m w_m \sum_k x_mk log(x_mk / p_mk)    s.t.    \sum_k x_mk = 1,   \sum_m x_mk = M_k,   x >= 0,

so that confident rows, of small entropy H, hardly move. With one multiplier nu_k per class,

    x_mk(nu) = p_mk e^{-nu_k / w_m} / \sum_j p_mj e^{-nu_j / w_m},

and nu maximises the concave dual

    g(nu) = - \sum_m w_m log \sum_k p_mk e^{-nu_k / w_m} - \sum_k nu_k M_k,

whose gradient is \sum_m x_mk - M_k and whose Hessian is -\sum_m (1 / w_m) (diag(x_m) - x_m x_m^T). All in float64.
"""

import warnings
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
import scipy.linalg
import torch
from scipy.optimize import brentq, newton
from scipy.special import expit, logsumexp, xlogy

from askless.base.errors import AsklessError, InputError
from askless.base.options import Between, Count, NotNegative, check_annotated

Array = TypeVar("Array", np.ndarray, torch.Tensor)
Solver = Literal["newton", "alternating"]

SMOOTH = 1e-6  # added to every entry where small ones are removed
LEAST_ENTROPY = 1e-8  # of a one-hot row, whose weight would be infinite
SUM_TOLERANCE = 1e-2  # rows of bfloat16 softmax outputs are off by a few thousandths; they are scaled to 1
STEPS = 200  # of Newton; ten are usual, even under strong bias
HALVINGS = 12  # of one Newton step
RESCUES, SWEEPS = 5, 10  # where Newton stalls: rescues, each with sweeps of coordinate ascent
TOLERANCE = 1e-12  # the error of the column sums, over N, at which Newton stops
SOLVED = 1e-9  # the error at which a solution is one, should rounding stop Newton earlier
FAR = 2000  # the largest change of an exponent in one Newton step: e^-FAR is nothing even beside the smallest number
CONDITION = 100  # of a confusion matrix that can be inverted


class Refined(NamedTuple):
    """X (N, K) of the kind that came in; nu (K,), from which the next solution may start; and how it went.

    `error` is the largest error of a sum, of a column of X over N or of a row: rounding, by "newton", which otherwise
    raises; by "alternating" whatever is left. It is of X in float64, before X gets a narrower dtype. `smoothed` says that
    1e-6 was added to all probabilities, as some were exactly 0 and no X that keeps them 0 has the target counts, or so
    small that none was found.
    """

    X: Any
    nu: np.ndarray
    steps: int
    error: float
    smoothed: bool


def darp(
    probs: Array,
    target: Any = None,
    alpha: float = 2.0,
    *,
    solver: Solver = "newton",
    iterations: int = 10,
    tol: float = 0.1,
    start: Any = None,
) -> Array:
    """Refined pseudo-labels (N, K): rows sum to 1, columns to `target`, and the least certain rows of `probs` move most.

    `target` (K,) are class counts, rescaled to sum to N; None is N / K for every class; a class of count 0 gets exactly 0.
    Before solving, class k keeps only its `alpha` M_k likeliest rows (see `without_small_entries`); `alpha` = inf skips
    that step and takes `probs` as they are. `solver` "newton" is exact; "alternating" is the authors' scheme, of
    `iterations` rounds with tolerance `tol` on nu, whose columns are approximate: `solve(...).error` says how far off.
    `start` is the nu of an earlier `solve`. An exact solution whose sums are not the target's is never returned: 1e-6 is
    added to `probs` first, and should that not help, this raises AsklessError.
    numpy in, numpy out; torch in, torch out on the same device; the dtype stays.

    >>> darp(np.array([[1.0, 0.0], [0.6, 0.4], [0.6, 0.4]]), alpha=np.inf).round(3)  # the columns sum to 1.5
    array([[1.  , 0.  ],
           [0.25, 0.75],
           [0.25, 0.75]])
    """
    return solve(probs, target, alpha, solver=solver, iterations=iterations, tol=tol, start=start).X


def solve(
    probs: Any,
    target: Any = None,
    alpha: NotNegative = 2.0,
    *,
    solver: Solver = "newton",
    iterations: Count = 10,
    tol: Annotated[float, Between(1e-15)] = 0.1,
    start: Any = None,
) -> Refined:
    """What `darp` returns, with the multipliers and an account."""
    check_annotated("darp", solve, locals())
    P = check_probs(probs)
    N, K = P.shape
    counts = check_target(target, N, K)

    there = counts > 0
    p, M, first = rows_to_one(P[:, there]), counts[there], check_start(start, K)[there]
    if np.isfinite(alpha):
        p = without_small_entries(p, M, alpha)

    if solver == "alternating":
        x, nu_there, steps = maximise_by_turns(p, M, weights(p), first, iterations, tol, cold=start is None)
        smoothed = False
    else:
        x, nu_there, steps = maximise_by_newton(p, M, weights(p), first)
        smoothed = not sum_error(x, M) <= SOLVED
        if smoothed:
            p = rows_to_one(p + SMOOTH)
            x, nu_there, steps = maximise_by_newton(p, M, weights(p), np.zeros(len(M)))
    error = sum_error(x, M)
    if solver == "newton" and not error <= SOLVED:
        raise AsklessError(
            f"darp: found no probabilities with the target counts: the sums are still off by {error:.2g}; pass a finite "
            "alpha, a target closer to the predictions, or solver='alternating', which is approximate"
        )
    X, nu = np.zeros_like(P), np.zeros(K)
    X[:, there], nu[there] = x, nu_there - nu_there[-1]  # nu + c changes nothing: let the last be 0
    return Refined(same_kind(X, probs), nu, steps, error, smoothed)


def without_small_entries(p: np.ndarray, M: np.ndarray, alpha: float) -> np.ndarray:
    """p~ (N, K): class k keeps its int(alpha M_k) likeliest rows, rescaled to M_k in sum; then 1e-6 everywhere, rows to 1.

    Of equally likely rows the earlier ones stay. A row that loses all its entries becomes uniform: the most movable one.
    """
    kept = np.zeros_like(p)
    for k, most in enumerate(np.minimum(alpha * M + 1e-9, len(p)).astype(int)):  # 1e-9: 0.1 * 30 is below 3
        likeliest = np.argsort(-p[:, k], kind="stable")[:most]
        kept[likeliest, k] = p[likeliest, k]
    factor = (M + SMOOTH) / (kept.sum(axis=0) + SMOOTH)
    return rows_to_one(kept * factor + SMOOTH)


def weights(p: np.ndarray) -> np.ndarray:
    """w_m = 1 / H(p_m), (N,).

    H is clamped at both ends: log(p + 1e-6), the authors' way, makes a one-hot row's H negative and the problem concave.
    """
    H = -xlogy(p, p).sum(axis=1)
    return 1 / np.clip(H, LEAST_ENTROPY, max(np.log(p.shape[1]), LEAST_ENTROPY))


# --- the exact solver -------------------------------------------------------------------------------------------------


def maximise_by_newton(
    p: np.ndarray, M: np.ndarray, w: np.ndarray, nu: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """x (N, K), nu (K,) and the number of steps of Newton; where these do not arrive, sweeps over the classes go between.

    Where nearly all rows are sure there is little curvature to go by, and steps that are allowed may lead nowhere.
    """
    x, nu, steps = newton_steps(p, M, w, nu)
    if (p > 0).all():
        log_p = np.log(p.T.copy())
        for _ in range(RESCUES):
            if sum_error(x, M) <= SOLVED:
                break
            if not np.ptp(nu) <= FAR * len(nu) * w.max():  # no solution is so far out
                nu = np.zeros_like(nu)
            for _ in range(SWEEPS):
                nu = maximise_each(log_p, M, 1 / w, nu)
            x, nu, more = newton_steps(p, M, w, nu)
            steps += more
    return x, nu, steps


def newton_steps(p: np.ndarray, M: np.ndarray, w: np.ndarray, nu: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """x (N, K), nu (K,) and the number of steps: damped Newton on g with K - 1 free coordinates, from nu.

    Where p has zeros the counts may be out of reach and g without maximum: it then stops early, at columns that are wrong.
    """
    h = 1 / w
    with np.errstate(divide="ignore"):
        log_p = np.log(p.T.copy())  # (K, N): sums over classes run along long rows

    def look(nu: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """g, its gradient (K,), and x (K, N)."""
        with np.errstate(over="ignore", invalid="ignore"):  # a step too far gives NaN, which is then refused
            x = log_p - np.multiply.outer(nu, h)
            top = x.max(axis=0)
            np.exp(np.subtract(x, top, out=x), out=x)
            total = x.sum(axis=0)
            x /= total
            return -w @ (top + np.log(total)) - nu @ M, x.sum(axis=1) - M, x

    positive = bool((p > 0).all())
    g, grad, x = look(nu)
    for step in range(STEPS):
        error = np.abs(grad).max()
        if error <= TOLERANCE * len(p):
            return x.T, nu, step
        direction = newton_direction(x, h, grad)
        slope, t = grad @ direction, 1.0
        for _ in range(HALVINGS):
            new = nu + t * direction
            new_g, new_grad, new_x = look(new)
            # Armijo; or the gradient halved, because g, unlike its gradient, is rounded away where w is large.
            if new_g >= g + 1e-4 * t * slope or np.abs(new_grad).max() <= error / 2:
                break
            t /= 2
        else:
            if not positive:
                return x.T, nu, step
            new = maximise_each(log_p, M, h, nu)  # where all rows are sure there is no curvature to go by
            new_g, new_grad, new_x = look(new)
        if error <= SOLVED * len(p) and np.abs(new_grad).max() > error / 2:
            return x.T, nu, step  # as far as rounding allows
        nu, g, grad, x = new, new_g, new_grad, new_x
        if np.abs(nu).max() > 2 * np.ptp(nu):  # nu + c changes nothing, but takes digits
            nu = nu - nu[-1]
            g, grad, x = look(nu)
    return x.T, nu, STEPS


def maximise_each(log_p: np.ndarray, M: np.ndarray, h: np.ndarray, nu: np.ndarray) -> np.ndarray:
    """nu (K,) after one sweep of exact coordinate ascent: the root of sum_m x_mk = M_k in nu_k, class after class; p > 0."""
    nu = nu.copy()
    z = log_p - np.multiply.outer(nu, h)  # (K, N)
    for k, M_k in enumerate(M):
        others = logsumexp(np.delete(z, k, axis=0), axis=0)
        even = log_p[k] - others  # x_mk = sigmoid(even - nu_k h)
        switch = even / h  # the nu_k at which x_mk = 1/2
        low, high = switch.min() - 700 / h.min(), switch.max() + 700 / h.min()

        def excess(v: float, even: np.ndarray = even, M_k: float = M_k) -> float:
            return float(expit(even - v * h).sum()) - M_k

        if excess(low) > 0 > excess(high):
            nu[k] = brentq(excess, low, high, xtol=1e-12, maxiter=500)
        z[k] = log_p[k] - nu[k] * h
    return nu


def newton_direction(x: np.ndarray, h: np.ndarray, grad: np.ndarray) -> np.ndarray:
    """d (K,) with -Hessian d = grad, and d = 0 for the class of largest curvature, which stays fixed; x (K, N)."""
    curvature = -(x * h) @ x.T
    # The diagonal as what the others leave, x (1 - x) = sum of the x of other classes: exact where x is close to 1.
    np.fill_diagonal(curvature, 0)
    diagonal = -curvature.sum(axis=1)
    np.fill_diagonal(curvature, diagonal)
    free = np.arange(len(grad)) != diagonal.argmax()
    scale = 1 / np.sqrt(np.maximum(diagonal[free], 1e-290))
    A = curvature[np.ix_(free, free)] * np.outer(scale, scale)  # unit diagonal
    d = np.zeros(len(grad))
    with np.errstate(over="ignore"):
        d[free] = scale * ridge_solve(A, scale * grad[free])
    d = np.clip(d, -1e300, 1e300)
    return d * min(1, FAR / h.min() / max(np.abs(d).max(), 1e-300))


def ridge_solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A^-1 b for A positive semidefinite of unit diagonal, with as little on the diagonal as Cholesky needs."""
    for ridge in (0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            return scipy.linalg.cho_solve(scipy.linalg.cho_factor(A + ridge * np.eye(len(A))), b)
        except np.linalg.LinAlgError:
            continue
    return b


# --- the authors' solver ----------------------------------------------------------------------------------------------


def maximise_by_turns(
    p: np.ndarray, M: np.ndarray, w: np.ndarray, nu: np.ndarray, rounds: int, tol: float, cold: bool
) -> tuple[np.ndarray, np.ndarray, int]:
    """x (N, K), nu (K,) and the rounds: scale the rows to one, then each column to M_k by a secant search in nu_k.

    Cold, the first scaling takes nu = 1 and the first search starts at 0. A search that runs away leaves its nu_k as is.
    """
    h = 1 / w
    with np.errstate(divide="ignore"):
        log_q = np.log(p) - 1  # (N, K)
    nu = nu.copy()
    log_a = -row_totals(log_q, h, np.ones_like(nu) if cold else nu)
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a flat secant
        for _ in range(rounds):
            for k, M_k in enumerate(M):
                nu[k] = column_root(log_q[:, k] + log_a, h, M_k, nu[k], tol)
            log_a = -row_totals(log_q, h, nu)
    return np.exp(log_q - np.multiply.outer(h, nu) + log_a[:, None]), nu, rounds


def row_totals(log_q: np.ndarray, h: np.ndarray, nu: np.ndarray) -> np.ndarray:
    """log sum_k q_mk e^{-nu_k h_m}, (N,)."""
    return logsumexp(log_q - np.multiply.outer(h, nu), axis=1)


def column_root(log_c: np.ndarray, h: np.ndarray, M_k: float, guess: float, tol: float) -> float:
    """v with sum_m c_m e^{-v h_m} = M_k, by at most 30 secant steps; the guess, where they run away."""

    def excess(v: float) -> float:
        return float(np.exp(log_c - v * h).sum()) - M_k

    v, _ = newton(excess, guess, tol=tol, maxiter=30, full_output=True, disp=False)
    return float(v) if np.isfinite(v) and np.isfinite(excess(v)) else float(guess)


# --- is it one? -------------------------------------------------------------------------------------------------------


def sum_error(x: np.ndarray, M: np.ndarray) -> float:
    """The largest error of a row sum, or of a column sum over N; infinite where x is not finite."""
    error = float(max(np.abs(x.sum(axis=0) - M).max() / len(x), np.abs(x.sum(axis=1) - 1).max()))
    return error if np.isfinite(error) else np.inf


# --- the target -------------------------------------------------------------------------------------------------------


def estimate_target(confusion: Any, predicted_counts: Any) -> np.ndarray | None:
    """Class counts (K,) of unlabelled items, from predictions on them and on a few held-out labelled ones.

    If C_ij is the mean probability given to class i on held-out items of class j, and r_i the sum of the probabilities of
    class i over the unlabelled items, then r = C q on average, so q = C^-1 r. `confusion` (K, K) holds sums or means, one
    column per true class; `predicted_counts` (K,) is r. Several epochs at once, (E, K, K) and (E, K), are averaged. An
    epoch counts only if q has no negative entry and C a condition number below 100; where none does, the answer is None.

    >>> estimate_target([[9, 2], [1, 8]], [55, 45])
    array([50., 50.])
    """
    C, r = as_floats("confusion", confusion), as_floats("predicted_counts", predicted_counts)
    if C.ndim not in (2, 3) or C.shape[-1] != C.shape[-2] or r.shape != C.shape[:-1]:
        raise InputError(
            f"expected a confusion matrix (K, K) and counts (K,), or (E, K, K) and (E, K), got {C.shape} and {r.shape}"
        )
    if not (np.isfinite(C).all() and np.isfinite(r).all() and (C >= 0).all() and (r >= 0).all()):
        raise InputError("expected confusion and predicted_counts to be finite and >= 0; remove or fix that epoch")
    accepted = []
    for sums, predicted in zip(C.reshape(-1, *C.shape[-2:]), r.reshape(-1, r.shape[-1]), strict=True):
        of_class = sums.sum(axis=0)
        if not of_class.all():
            raise InputError(
                f"expected held-out items of every class, got none of class {of_class.argmin()}: its column is 0"
            )
        rates = sums / of_class
        if np.linalg.cond(rates) < CONDITION:
            q = np.linalg.solve(rates, predicted)
            if (q >= 0).all():
                accepted.append(q)
    return np.mean(accepted, axis=0) if accepted else None


# --- the door ---------------------------------------------------------------------------------------------------------


def as_floats(name: str, given: Any) -> np.ndarray:
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu().double().numpy()
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected an array of numbers, got {type(given).__name__}") from None


def check_probs(given: Any) -> np.ndarray:
    """(N, K) with rows that sum to 1."""
    P = as_floats("probs", given)
    if P.ndim != 2 or 0 in P.shape:
        raise InputError(f"probs: expected shape (N, K) with at least one row and one class, got {P.shape}")
    total = P.sum(axis=1)
    wrong = ~(np.abs(total - 1) <= SUM_TOLERANCE) | ~(P >= 0).all(axis=1)  # NaN fails both
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"probs: expected rows >= 0 that sum to 1, got row {row} with sum {total[row]:.6g} and smallest entry "
            f"{P[row].min():.6g}; apply softmax to logits first, or fix that row"
        )
    return P


def check_target(given: Any, N: int, K: int) -> np.ndarray:
    """Counts (K,) that sum to N."""
    if given is None:
        return np.full(K, N / K)
    counts = as_floats("target", given)
    if counts.shape != (K,):
        raise InputError(f"target: expected one count per class, shape ({K},), got {counts.shape}")
    if not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise InputError(
            f"target: expected counts >= 0, at least one of them positive, got {counts.tolist()}; pass None for equal counts"
        )
    with np.errstate(over="ignore"):
        if not 1e-300 < counts.sum() < np.inf:
            counts = counts / counts.max()
    return counts * (N / counts.sum())


def check_start(given: Any, K: int) -> np.ndarray:
    """nu (K,), zeros where none is given."""
    if given is None:
        return np.zeros(K)
    nu = as_floats("start", given)
    if nu.shape != (K,) or not np.isfinite(nu).all():
        raise InputError(f"start: expected {K} finite numbers, the nu of an earlier solve, got {nu.tolist()}")
    return nu


def rows_to_one(p: np.ndarray) -> np.ndarray:
    """Rows scaled to sum to one; rows of zeros become uniform."""
    total = p.sum(axis=1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1), 1 / p.shape[1])


def same_kind(X: np.ndarray, given: Any) -> Any:
    """X as numpy or torch, with the device and the floating dtype of what was given."""
    if isinstance(given, torch.Tensor):
        return torch.from_numpy(X).to(given.device, given.dtype if given.is_floating_point() else torch.float64)
    dtype = given.dtype if isinstance(given, np.ndarray) and given.dtype.kind == "f" else np.float64
    return X.astype(dtype, copy=False)
