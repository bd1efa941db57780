"""Training of the linearised model in closed form: residuals, test predictions and loss curves over time.

Gradient descent on 1/2 ||f - Y||^2 (summed over the training items) moves f by -eta K (f - Y) per step, and the outputs
of other items by -eta K_test (f - Y), K_test = K(x_test, x). In the eigenbasis of K each mode shrinks by itself: after t
steps by (1 - eta lambda)^t, under gradient flow by exp(-eta lambda t). Modes of eigenvalue zero stay, and K_test does not
see them.
"""

import math
from bisect import bisect_left
from typing import Any, Literal, NamedTuple

import numpy as np

from askless.base.errors import InputError
from askless.theory.inputs import as_count, as_numbers, as_rows, as_step
from askless.theory.spectrum import Eigenbasis, eigenbasis

How = Literal["steps", "flow"]
TILE = 2**22  # entries of (times, modes) at once
NEVER = 2**61  # steps


class Curves(NamedTuple):
    """Mean over items of 1/2 ||f - y||^2 at each time.

    `times` (T,); `train` and `test` (T,), the losses.

    >>> al.theory.loss_curves([[0.5]], [[0.25]], [-1.0], [-0.5], [0, 1], eta=1.0).train
    array([0.5  , 0.125])
    """

    times: np.ndarray  # (T,)
    train: np.ndarray  # (T,)
    test: np.ndarray  # (T,)


class Minimum(NamedTuple):
    """Where the test loss is smallest; `at_end` if it was still at its smallest when the count ended.

    >>> al.theory.steps_to_minimum([[0.5]], [[0.5]], [-1.0], [-0.5], eta=1.0).step
    1
    """

    step: int
    loss: float
    at_end: bool


def linearised_residuals(K: Any, residual: Any, times: Any, eta: float, how: How = "steps") -> np.ndarray:
    """f(t) - Y on the training items, (T, n, C), from the residual f(0) - Y (n, C), or (n,), under K (n, n).

    >>> linearised_residuals([[0.5]], [1.0], [0, 1, 3], eta=1.0).ravel()
    array([1.   , 0.5  , 0.125])
    """
    basis = eigenbasis(K)
    P = basis.modes("residual", residual)  # (n, C)
    kept, _ = _modes(basis, as_times(times, how), as_step(eta), how)
    return np.einsum("ij,tj,jc->tic", basis.vectors, kept, P, optimize=True)


def linearised_predictions(
    K: Any, K_test: Any, residual: Any, times: Any, eta: float, f_test: Any = 0.0, how: How = "steps"
) -> np.ndarray:
    r"""$f_*(t) = f_*(0) - K_* K^{-1} (I - (I - \eta K)^t) (f(0) - Y)$ on the test items, (T, n2, C).

    K_test (n2, n), residual f(0) - Y (n, C), f_test = f_*(0) (n2, C). Under flow the bracket is I - exp(-eta K t). As t
    grows this becomes kernel regression.

    >>> linearised_predictions([[0.5]], [[0.25]], [-1.0], [0, 1, 2], eta=1.0).ravel()  # towards .25 / .5
    array([0.   , 0.25 , 0.375])
    """
    basis = eigenbasis(K)
    P, M = _project(basis, K_test, residual)
    _, done = _modes(basis, as_times(times, how), as_step(eta), how)
    moved = np.einsum("ij,tj,jc->tic", M, done, P, optimize=True)
    return as_start(f_test, len(M), P.shape[1]) - moved


def loss_curves(
    K: Any, K_test: Any, residual: Any, test_residual: Any, times: Any, eta: float, how: How = "steps"
) -> Curves:
    """Train and test loss at every time, from the residuals f(0) - Y (n, C) and f_*(0) - Y_* (n2, C) at the start.

    >>> loss_curves([[0.5]], [[0.25]], [-1.0], [-0.5], [0, 1], eta=1.0)  # residuals -1, -.5 and -.5, -.25
    Curves(times=array([0., 1.]), train=array([0.5  , 0.125]), test=array([0.125  , 0.03125]))
    """
    basis = eigenbasis(K)
    when, eta = as_times(times, how), as_step(eta)
    P, M = _project(basis, K_test, residual)
    start = as_start(test_residual, len(M), P.shape[1])
    energy = np.square(P).sum(1)
    # ||start - M diag(d) P||^2 = ||start||^2 - 2 b . d + d^T Q d, so that a time costs n^2 whatever the test items
    b, Q = np.sum((M.T @ start) * P, axis=1), (M.T @ M) * (P @ P.T)
    train, test = np.empty(len(when)), np.empty(len(when))
    rows = max(1, TILE // len(energy))
    for i in range(0, len(when), rows):
        part = slice(i, i + rows)
        kept, done = _modes(basis, when[part], eta, how)
        train[part] = kept**2 @ energy
        test[part] = np.sum(start**2) - 2 * done @ b + np.sum((done @ Q) * done, axis=1)
    return Curves(when, train / (2 * len(P)), np.maximum(test, 0.0) / (2 * len(M)))


def steps_to_loss(K: Any, residual: Any, target: float, eta: float) -> float:
    """The first step at which the mean training loss 1/2 ||f - y||^2 is at most `target`; inf if it never is.

    Below eta = 2 / lambda_max the loss only falls, so the step is found by bisection.

    >>> steps_to_loss([[0.5]], [1.0], target=0.01, eta=1.0)  # .5 * .25^k
    3.0
    """
    basis = eigenbasis(K)
    energy = basis.energies("residual", residual) / (2 * len(basis.values))
    eta = as_step(eta)
    if not target > 0:
        raise InputError(f"target: expected a loss > 0, got {target!r}")
    _check_converges(basis, eta)
    keep = np.abs(1 - eta * basis.values)
    steps = bisect_left(range(NEVER), True, key=lambda k: float(keep ** (2.0 * k) @ energy) <= target)
    return math.inf if steps == NEVER else float(steps)


def steps_to_minimum(
    K: Any, K_test: Any, residual: Any, test_residual: Any, eta: float, max_steps: int = 10_000
) -> Minimum:
    """The step, from 0 to `max_steps`, at which the test loss of the linearised model is smallest (CRC, figure 3a).

    >>> steps_to_minimum([[0.5]], [[0.5]], [-1.0], [-0.5], eta=1.0)  # the test item wants .5: reached at once
    Minimum(step=1, loss=0.0, at_end=False)
    """
    steps = np.arange(as_count("max_steps", max_steps, 0) + 1)
    test = loss_curves(K, K_test, residual, test_residual, steps, eta).test
    best = int(test.argmin())
    return Minimum(best, float(test[best]), best == max_steps)


def as_times(times: Any, how: How) -> np.ndarray:
    if how not in ("steps", "flow"):
        raise InputError(f'how: expected "steps" or "flow", got {how!r}')
    when = as_numbers("times", times).reshape(-1)
    if (when < 0).any() or (how == "steps" and (when != np.round(when)).any()):
        kind = "whole numbers of steps" if how == "steps" else "times"
        raise InputError(f"times: expected {kind} >= 0, got {when.min():g} to {when.max():g}")
    return when


def as_start(given: Any, n: int, C: int) -> np.ndarray:
    """What the test items start from, (n2, C); one number serves all."""
    if np.ndim(given) == 0:
        return np.full((n, C), float(given))
    rows = as_rows("the test items' start", given, n)
    if rows.shape != (n, C):
        raise InputError(f"the test items' start: expected shape {(n, C)}, got {rows.shape}")
    return rows


def _project(basis: Eigenbasis, K_test: Any, residual: Any) -> tuple[np.ndarray, np.ndarray]:
    """The residual's modes P (n, C), and K_test in the eigenbasis, M (n2, n)."""
    n = len(basis.values)
    cross = as_numbers("K_test", K_test)
    if cross.ndim != 2 or cross.shape[1] != n or len(cross) == 0:
        raise InputError(
            f"K_test: expected K(x_test, x) of shape (n2, {n}), got {cross.shape}; transpose it if necessary"
        )
    return basis.modes("residual", residual), cross @ basis.vectors


def _check_converges(basis: Eigenbasis, eta: float) -> None:
    if basis.rank and eta >= 2 / basis.values[-1]:
        raise InputError(
            f"eta: expected less than 2 / lambda_max = {2 / basis.values[-1]:.6g}, got {eta:.6g}, which diverges"
        )


def _modes(basis: Eigenbasis, when: np.ndarray, eta: float, how: How) -> tuple[np.ndarray, np.ndarray]:
    """Per time and mode, (T, n) each: what is left of the residual, and (1 - left) / lambda, 0 for modes that stay."""
    lam = basis.values
    if how == "flow":
        exponent = -eta * np.outer(when, lam)
        left, gone = np.exp(exponent), -np.expm1(exponent)
    else:
        _check_converges(basis, eta)
        left = (1 - eta * lam) ** when[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):  # small eta lambda: 1 - (1 - x)^t without cancellation
            small = -np.expm1(when[:, None] * np.log1p(-eta * lam))
        gone = np.where(eta * lam < 0.5, small, 1 - left)
    done = np.divide(gone, lam, out=np.zeros_like(gone), where=lam > 0)
    return left, done
