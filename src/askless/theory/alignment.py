"""Alignment of labels with a kernel, the generalisation bound B, and how each bounds the other (dynamicAL, section 4).

v_i, lambda_i are the eigenvectors and eigenvalues of the kernel K (n, n), T = Tr[Y^T Y], A = Tr[Y^T K Y]. The kernel is
that of one output: a trace kernel summed over C outputs, as `askless.kernels.ntk` gives it, is divided by C first.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from askless.base.errors import InputError
from askless.theory.inputs import as_count, as_kernel, as_rows, as_step
from askless.theory.spectrum import Eigenbasis, eigenbasis

OUTSIDE = 1e-6  # a part of Y in the null space below this share of its length is rounding


class Bounds(NamedTuple):
    """lower <= value <= upper, if the theorem is right.

    >>> Bounds(1.0, 2.0, 3.0).holds()
    True
    """

    lower: float
    value: float
    upper: float

    def holds(self, tol: float = 1e-9) -> bool:
        """Whether the value lies between, up to `tol` of the largest of the three."""
        slack = tol * max((abs(b) for b in self if math.isfinite(b)), default=0.0)
        return self.lower <= self.value + slack and self.value <= self.upper + slack


def alignment(K: Any, Y: Any) -> float:
    r"""$A = Tr[Y^T K Y] = \sum_i \lambda_i ||v_i^T Y||^2$ for K (n, n), Y (n, C) or (n,). dynamicAL, definition 1.

    >>> alignment([[2.0, 1.0], [1.0, 2.0]], [1.0, 1.0])
    6.0
    """
    K = as_kernel(K)
    Y = as_rows("Y", Y, len(K))
    return float(np.sum(Y * (K @ Y)))


def generalisation_bound(K: Any, Y: Any) -> float:
    r"""$B = \sqrt{2 Tr[Y^T K^{-1} Y] / n}$, the leading term of dynamicAL's lemma 2 (Arora et al. 2019).

    For a singular K it is the pseudo-inverse where Y lies in the range of K, and inf where it does not: no function of that
    kernel fits those labels. The lemma is for i.i.d. items, a wide network and a loss in [0, 1], so B > 1 says nothing.

    >>> generalisation_bound([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])  # 4/2 + 4/4 = 3; 2 * 3 / 2
    1.732...
    >>> generalisation_bound([[1.0, 1.0], [1.0, 1.0]], [1.0, -1.0])  # one item twice, with two labels
    inf
    """
    basis = eigenbasis(K)
    return _bound(basis, basis.energies("Y", Y))


def convergence_bounds(K: Any, Y: Any, eta: float, t: int) -> Bounds:
    r"""dynamicAL's theorem 1: $T - 2 t \eta A \le E_t^2 \le T - \eta A$.

    $E_t^2 = \sum_i (1 - \eta \lambda_i)^{2t} ||v_i^T Y||^2$ is the squared residual after t >= 1 steps of gradient descent
    from f = 0. It holds for eta <= 1 / lambda_max. The lower bound is below zero once t > T / (2 eta A), and the upper one
    does not know t; those of `sharp_convergence_bounds` do.

    >>> convergence_bounds([[1.0, 0.0], [0.0, 0.5]], [1.0, 1.0], eta=1.0, t=1)  # T = 2, A = 1.5, E = 0 + .25
    Bounds(lower=-1.0, value=0.25, upper=0.5)
    """
    basis = eigenbasis(K)
    energy, keep, t = basis.energies("Y", Y), _kept(basis, eta), as_count("t", t, 1)
    total, moved = float(energy.sum()), float(eta) * float(basis.values @ energy)
    return Bounds(total - 2 * t * moved, float(keep ** (2 * t) @ energy), total - moved)


def sharp_convergence_bounds(K: Any, Y: Any, eta: float, t: int) -> Bounds:
    r"""The same $E_t^2$ between $T (1 - \eta a)^{2t}$ and the chord, a = A / T.

    $(1 - \eta \lambda)^{2t}$ is convex in lambda, so Jensen's inequality gives the lower bound, and the straight line
    between its values at lambda_min and lambda_max, taken at a, the upper one. Labels that live on the first and last mode
    reach the upper, labels on one mode the lower bound.

    >>> sharp_convergence_bounds([[1.0, 0.0], [0.0, 0.5]], [1.0, 1.0], eta=1.0, t=1)  # a = 3/4, half way
    Bounds(lower=0.125, value=0.25, upper=0.25)
    """
    basis = eigenbasis(K)
    energy, keep, t = basis.energies("Y", Y), _kept(basis, eta), as_count("t", t, 1)
    total, low, top = float(energy.sum()), float(basis.values[0]), float(basis.values[-1])
    value = float(keep ** (2 * t) @ energy)
    if total == 0 or low == top:
        return Bounds(value, value, value)
    lower = total * float(keep @ energy / total) ** (2 * t)
    near_low = float((top - basis.values) @ energy) / (top - low)  # the weight of lambda_min, times T; no cancellation
    near_top = float((basis.values - low) @ energy) / (top - low)
    return Bounds(lower, value, near_low * float(keep[0] ** (2 * t)) + near_top * float(keep[-1] ** (2 * t)))


def generalisation_bounds(K: Any, Y: Any) -> Bounds:
    r"""dynamicAL's theorem 2, solved for B: $T^2 / A \le n B^2 / 2 \le (\lambda_{max} / \lambda_{min}) T^2 / A$.

    The left side is the Cauchy-Schwarz inequality. For a singular K and Y in its range lambda_min is the smallest non-zero
    eigenvalue; with Y outside, value and upper bound are inf.

    >>> generalisation_bounds([[2.0, 0.0], [0.0, 8.0]], [1.0, 1.0])  # T^2 / A = .4, n B^2 / 2 = .625, 4 * .4
    Bounds(lower=0.632..., value=0.790..., upper=1.264...)
    """
    return _around_bound(K, Y, lambda c: c)


def sharp_generalisation_bounds(K: Any, Y: Any) -> Bounds:
    r"""The same with Kantorovich's inequality on the right: $(c + 1)^2 / (4 c)$ in place of c, the condition number.

    Reached when Y lies half in the first and half in the last mode; four times smaller (for n B^2) when c is large.

    >>> sharp_generalisation_bounds([[2.0, 0.0], [0.0, 8.0]], [1.0, 1.0]).upper  # 25 / 16 * .4 = .625
    0.790...
    """
    return _around_bound(K, Y, lambda c: (c + 1) ** 2 / (4 * c))


def _kept(basis: Eigenbasis, eta: float) -> np.ndarray:
    """1 - eta lambda_i, which theorem 1 wants in [0, 1]."""
    most = 1 / basis.values[-1] if basis.rank else math.inf
    if as_step(eta) > most * (1 + 1e-12):
        raise InputError(f"eta: expected at most 1 / lambda_max = {most:.6g}, as the bounds assume, got {eta:.6g}")
    return np.maximum(1 - eta * basis.values, 0.0)


def _bound(basis: Eigenbasis, energy: np.ndarray) -> float:
    """B from the labels' energy in each mode; inf if some lies in the null space."""
    null = len(energy) - basis.rank
    if energy[:null].sum() > OUTSIDE**2 * energy.sum():
        return math.inf
    return math.sqrt(2 * float(np.sum(energy[null:] / basis.values[null:])) / len(energy))


def _around_bound(K: Any, Y: Any, widen: Callable[[float], float]) -> Bounds:
    """B between its lower bound and that times the root of widen(condition)."""
    basis = eigenbasis(K)
    energy = basis.energies("Y", Y)
    value, total, n = _bound(basis, energy), float(energy.sum()), len(energy)
    if total == 0:
        return Bounds(0.0, 0.0, 0.0)
    A = float(basis.values @ energy)
    lower = math.sqrt(2 * total**2 / (n * A)) if A > 0 else math.inf
    if value == math.inf:
        return Bounds(lower, value, math.inf)
    condition = float(basis.values[-1] / basis.values[n - basis.rank])
    return Bounds(lower, value, lower * math.sqrt(widen(condition)))
