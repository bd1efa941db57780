r"""Which modes of a kernel some labels learn, beside as many random ones.

NPC (sections 4.2 and 5.4) hopes that its batches lower the error "at as many modes as possible". Let K = n V diag(lambda)
V^T. Where the target is one mode, v_k, kernel ridge regression on the batch S predicts f = K(:, S) (K(S, S) + ridge)^-1
v_k(S) and learns the share v_k^T f of it. Bordelon et al. (2020) predict the mean of that share over random batches; Simon
et al. (2023) call it learnability. Without a ridge the shares of all modes add up to the rank of K(S, S), whichever items S
holds: a batch chooses which modes it learns, not how many.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from askless.base.errors import InputError
from askless.theory.inputs import as_positions, as_targets
from askless.theory.spectrum import Eigenbasis, eigenbasis


class Modes(NamedTuple):
    """The modes of a kernel, largest eigenvalue first, and how much of each a batch learns.

    `values` (m,): the non-zero eigenvalues of K / n. `power` (m,): the share of the target that lies on each mode; they add
    up to 1 unless part of the target lies outside the kernel's range. `learned` (m,): the share of each mode that the batch
    learns, from 0 to 1; `expected` (m,): the mean over random batches of the same size, by theory.

    >>> found = modes(np.diag([4.0, 1.0]), [0, 1], [0])
    >>> found.power, found.learned, found.expected.round(3)
    (array([0.5, 0.5]), array([1., 0.]), array([0.667, 0.333]))
    """

    values: np.ndarray
    power: np.ndarray
    learned: np.ndarray
    expected: np.ndarray

    @property
    def share(self) -> float:
        """The share of the target that the batch learns, 0 to 1."""
        return float(self.power @ self.learned)

    @property
    def expected_share(self) -> float:
        """The share of the target that a random batch of the same size learns."""
        return float(self.power @ self.expected)

    @property
    def breadth(self) -> float:
        """Over how many modes the batch spreads what it learns: (sum of `learned`)^2 / sum of their squares."""
        return float(self.learned.sum() ** 2 / np.square(self.learned).sum()) if self.learned.any() else 0.0

    def __repr__(self) -> str:
        return (
            f"Modes({len(self.values)} modes; the batch learns {self.share:.3f} of the target, "
            f"a random one {self.expected_share:.3f})"
        )


def modes(K: Any, y: Any, batch: Any, *, ridge: float = 0.0) -> Modes:
    """Which modes of K (n, n), the kernel over the pool, kernel regression on the items `batch` learns.

    `y`: class numbers (n,), or targets (n,) or (n, C), whose mean over the pool is left out; None stands for a function
    drawn from the Gaussian process of K, whose power is that of the eigenvalues. `batch`: positions of all items with a
    label (p,). `ridge` is added to the diagonal of K(S, S). The modes of equal eigenvalues have no order of their own; only
    the sum over them counts. What a mode that is not learned adds to the prediction of others is left out, so a larger share
    need not mean a smaller error.

    >>> modes(np.diag([4.0, 1.0]), [0, 1], [0])  # a random item: 4 / (4 + 2) of one mode and 1 / (1 + 2) of the other
    Modes(2 modes; the batch learns 0.500 of the target, a random one 0.500)
    >>> modes(np.diag([4.0, 1.0]), None, [0])
    Modes(2 modes; the batch learns 0.800 of the target, a random one 0.600)
    """
    return of_basis(eigenbasis(K), y, batch, ridge)


def of_basis(basis: Eigenbasis, y: Any, batch: Any, ridge: float = 0.0) -> Modes:
    """`modes`, from the eigenbasis of K, which several batches may share."""
    n = len(basis.values)
    S = as_positions("batch", batch, n)
    if len(S) == 0:
        raise InputError("batch: expected at least one position, got none")
    if not 0 <= ridge < math.inf:
        raise InputError(f"ridge: expected a finite number >= 0, got {ridge!r}")
    at = slice(n - basis.rank, n)
    values, V = basis.values[at][::-1], basis.vectors[:, at][:, ::-1]  # (m,), (n, m), largest first
    power = values / values.sum() if y is None else _power(V, as_targets("y", y, n))
    expected = _expected(basis.values / n, len(S), ridge / n)[at][::-1]
    return Modes(values / n, power, _learned(values, V[S], ridge), expected)


def _power(V: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """||v_k^T Y||^2 / ||Y||^2 of the centred targets; zeros where they are constant."""
    Y = Y - Y.mean(axis=0)
    energy = np.square(V.T @ Y).sum(axis=1)
    return np.asarray(energy / max(np.square(Y).sum(), np.finfo(float).tiny))


def _learned(values: np.ndarray, V_S: np.ndarray, ridge: float) -> np.ndarray:
    """The diagonal (m,) of the matrix v_j^T K(:, S) (K(S, S) + ridge)^-1 v_k(S).

    Let B = V_S diag(values)^1/2, so that K(S, S) = B B^T. The matrix is similar, by diag(values)^1/2, to B^T (B B^T +
    ridge)^-1 B, which has the same diagonal: by the singular values s and right singular vectors W of B, that of
    W^T s^2 / (s^2 + ridge) W.
    """
    if len(values) == 0:
        return np.empty(0)
    _, s, W = np.linalg.svd(V_S * np.sqrt(values), full_matrices=False)  # (p, m) -> (r,), (r, m)
    real = s**2 > len(V_S) * np.finfo(float).eps * values[0]  # the others are rounding, as in `eigenbasis`
    return np.asarray((s[real] ** 2 / (s[real] ** 2 + ridge)) @ np.square(W[real]))


def _expected(values: np.ndarray, p: int, delta: float) -> np.ndarray:
    r"""$\lambda_k / (\lambda_k + \delta + \kappa)$, the mean (n,) of what p of the n items learn; delta is ridge / n.

    kappa solves $\sum_k (\lambda_k + \delta) / (\lambda_k + \delta + \kappa) = p$ over all n modes, as if the eigenvectors
    were in general position. Since V_S V_S^T = I, the ridge moves into the eigenvalues, K(S, S) + n delta = n V_S
    diag(lambda + delta) V_S^T. What remains is the case without a ridge, where V_S spans the same rows as a Gaussian design.
    For n >> p this is Bordelon's equation, whose kappa is p (delta + kappa) here; for p = n it is exact.
    """
    raised = values + delta
    x, kappa = raised[raised > 0], 0.0
    if len(x) > p:  # between the bounds where all modes are like the least, and where none is saturated
        low, high = math.log(x.min() * (len(x) - p) / p / 2), math.log(2 * x.sum() / p)
        kappa = math.exp(brentq(lambda t: (x / (x + math.exp(t))).sum() - p, low, high))
    return np.divide(values, raised + kappa, out=np.zeros_like(values), where=values > 0)
