"""The eigenvalues of a kernel, and what they say about gradient descent on the squared error.

Throughout, the loss is L = 1/2 ||f - Y||^2 summed over the n items, and gradient descent on a model that is linear in its
parameters moves the predictions by f <- f - eta K (f - Y). With a mean over items in place of the sum, eta is lr / n.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch

from askless.base.errors import InputError
from askless.linalg.gram import spectrum_scores
from askless.theory.inputs import as_kernel, as_rows, as_step

NEGATIVE = 1e-10  # of lambda_max: float64 rounding of a Gram matrix stays far below, float32 rounding does not


class Eigenbasis(NamedTuple):
    """K = V diag(values) V^T; values ascend, and those that are rounding are exactly zero."""

    values: np.ndarray  # (n,)
    vectors: np.ndarray  # (n, n), one eigenvector per column
    rank: int

    def modes(self, name: str, given: Any) -> np.ndarray:
        """v_i^T R for every mode, (n, C), of one row per item, R (n, C) or (n,)."""
        return self.vectors.T @ as_rows(name, given, len(self.values))

    def energies(self, name: str, given: Any) -> np.ndarray:
        """||v_i^T R||^2 for every mode, (n,)."""
        return np.square(self.modes(name, given)).sum(1)


class Spectrum(NamedTuple):
    """`lambda_min` is the smallest eigenvalue that counts towards `rank`; it is that of all n only where rank == n.

    `lambda_max` is the largest, and `condition` their ratio.

    >>> spectrum(np.eye(3)).rank
    3
    """

    rank: int
    lambda_min: float
    lambda_max: float
    condition: float  # lambda_max / lambda_min


class DescentRate(NamedTuple):
    """How gradient descent with step `eta` shrinks the residual outside the kernel's null space.

    It converges below `eta_max`. `factor`: per step, the worst over all modes; `slowest`: of the mode of lambda_min;
    `steps`: until no mode is above `shrink` of its start, or inf.

    >>> round(al.theory.descent_rate([[2.0, 1.0], [1.0, 2.0]], eta=0.5).eta_max, 3)
    0.667
    """

    eta: float
    eta_max: float  # it converges below this
    factor: float  # per step, the worst over all modes
    slowest: float  # per step, the mode of lambda_min
    steps: float  # until no mode is above `shrink` of its start; inf if that never happens


def eigenbasis(K: Any) -> Eigenbasis:
    """Eigenvalues and eigenvectors of a positive semi-definite kernel (n, n), in float64.

    Eigenvalues up to n eps lambda_max count as zero, as in `askless.linalg`.
    """
    values, vectors = np.linalg.eigh(as_kernel(K))
    if values[0] < -NEGATIVE * max(values[-1], 0.0):
        raise InputError(
            f"K: expected a positive semi-definite kernel, got the eigenvalue {values[0]:.3g} beside {values[-1]:.3g}; "
            f"compute the kernel in float64"
        )
    rank = spectrum_scores(torch.from_numpy(values)[None], len(values), len(values)).at(0).rank
    values[: len(values) - rank] = 0.0
    return Eigenbasis(values, vectors, rank)


def spectrum(K: Any) -> Spectrum:
    """Numerical rank, smallest non-zero and largest eigenvalue of K (n, n), and their ratio.

    Compare `lambda_min` between kernels of the same size and rank only: more items never raise it, and a duplicate lowers
    the rank instead of the eigenvalue.

    >>> spectrum([[2.0, 1.0], [1.0, 2.0]])
    Spectrum(rank=2, lambda_min=1.0, lambda_max=3.0, condition=3.0)
    """
    basis = eigenbasis(K)
    low, top = _ends(basis)
    return Spectrum(basis.rank, low, top, top / low if basis.rank else math.inf)


def descent_rate(K: Any, eta: float | None = None, shrink: float = 0.01) -> DescentRate:
    r"""What gradient descent on 1/2 ||f - Y||^2 does to the modes of K (n, n): mode i shrinks by $1 - \eta \lambda_i$.

    It converges for eta < 2 / lambda_max; eta=None takes 2 / (lambda_min + lambda_max), where the worst factor is smallest,
    (condition - 1) / (condition + 1). Modes in the null space never move and are left out. For the cross entropy of a last
    layer see `askless.learn.admissible_rate`.

    >>> descent_rate([[2.0, 1.0], [1.0, 2.0]], eta=0.5, shrink=0.25)  # 1 - .5 * 1 and 1 - .5 * 3
    DescentRate(eta=0.5, eta_max=0.666..., factor=0.5, slowest=0.5, steps=2.0)
    """
    basis = eigenbasis(K)
    if basis.rank == 0:
        raise InputError("K: expected a kernel with a non-zero eigenvalue, got zeros, under which nothing moves")
    if not 0 < shrink < 1:
        raise InputError(f"shrink: expected a number between 0 and 1, got {shrink!r}")
    low, top = _ends(basis)
    step = 2 / (low + top) if eta is None else as_step(eta)
    slowest = 1 - step * low
    factor = max(abs(slowest), abs(1 - step * top))  # |1 - eta lambda| is largest at one of the ends
    if factor >= 1:
        steps = math.inf
    else:
        steps = 1.0 if factor == 0 else float(math.ceil(math.log(shrink) / math.log(factor) - 1e-9))
    return DescentRate(step, 2 / top, factor, slowest, steps)


def _ends(basis: Eigenbasis) -> tuple[float, float]:
    """The smallest non-zero and the largest eigenvalue, both 0 for a kernel of zeros."""
    n = len(basis.values)
    return (float(basis.values[n - basis.rank]), float(basis.values[-1])) if basis.rank else (0.0, 0.0)
