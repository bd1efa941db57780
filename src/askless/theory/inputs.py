"""Kernels, targets and gradients as float64 arrays, or an error in words."""

from typing import Any

import numpy as np
import torch

from askless.base.errors import InputError
from askless.base.options import is_whole_number

ASYMMETRY = 1e-5  # of the largest entry; a product in float32 is symmetric to about 1e-6


def as_numbers(name: str, given: Any) -> np.ndarray:
    """A float64 array of finite numbers from a numpy array, a tensor or lists."""
    try:
        array = np.asarray(given.detach().cpu().double() if isinstance(given, torch.Tensor) else given)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name}: expected an array of numbers, got {type(given).__name__}: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name}: expected an array of numbers, got dtype {array.dtype}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        at = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name}: expected finite numbers, got {array[at]} at {at}; fix or leave out that item")
    return array


def as_kernel(K: Any) -> np.ndarray:
    """A symmetric kernel (n, n), n >= 1; what rounding left of an asymmetry is averaged away."""
    K = as_numbers("K", K)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or len(K) == 0:
        raise InputError(f"K: expected a square kernel, shape (n, n), got {K.shape}; pass K(x, x)")
    gap = np.abs(K - K.T)
    if gap.max() > ASYMMETRY * np.abs(K).max():
        i, j = (int(i) for i in np.unravel_index(gap.argmax(), gap.shape))
        raise InputError(
            f"K: expected a symmetric kernel, got {K[i, j]:.6g} at ({i}, {j}) and {K[j, i]:.6g} at ({j}, {i}); "
            f"pass K(x, x), or (K + K.T) / 2 if the difference is rounding"
        )
    return (K + K.T) / 2


def as_rows(name: str, given: Any, n: int) -> np.ndarray:
    """One row per item, (n, C); a vector (n,) becomes one column.

    Class numbers are refused: as targets, class 7 would be seven times class 1.
    """
    rows = as_numbers(name, given)
    whole = "int" in str(getattr(given, "dtype", ""))
    if whole and rows.ndim == 1 and rows.size and rows.min() >= 0 and rows.max() > 1:
        raise InputError(f"{name}: expected targets, got class numbers up to {rows.max():.0f}; pass one_hot(labels, C)")
    if rows.ndim not in (1, 2) or len(rows) != n:
        raise InputError(f"{name}: expected one row per item of the kernel, shape ({n}, C) or ({n},), got {rows.shape}")
    return rows.reshape(n, -1)


def as_targets(name: str, given: Any, n: int) -> np.ndarray:
    """One row per item, (n, C): class numbers as one-hot rows, targets as they are."""
    whole = not given.is_floating_point() if isinstance(given, torch.Tensor) else np.asarray(given).dtype.kind in "iub"
    numbers = as_numbers(name, given)
    return as_rows(name, one_hot(numbers, int(numbers.max()) + 1) if whole and numbers.shape == (n,) else numbers, n)


def as_positions(name: str, given: Any, n: int) -> np.ndarray:
    """Different positions (k,) from 0 to n - 1, in their order."""
    at = as_numbers(name, given)
    if at.ndim != 1 or len(set(at.tolist()) & set(range(n))) < len(at):
        raise InputError(f"{name}: expected different positions from 0 to {n - 1}, got {given!r}")
    return at.astype(np.int64)


def one_hot(labels: Any, classes: int) -> np.ndarray:
    """Y (n, classes) from class numbers (n,).

    >>> one_hot([1, 0], 3)
    array([[0., 1., 0.],
           [1., 0., 0.]])
    """
    y = as_numbers("labels", labels)
    if y.ndim != 1 or (y != np.round(y)).any() or (y < 0).any() or (y >= classes).any():
        raise InputError(f"labels: expected class numbers from 0 to {classes - 1}, shape (n,), got {labels!r}")
    return np.eye(classes)[y.astype(np.int64)]


def as_count(name: str, given: Any, least: int, most: float = float("inf")) -> int:
    if not is_whole_number(given, least, most):
        limit = f"from {least} to {most}" if most < float("inf") else f">= {least}"
        raise InputError(f"{name}: expected a whole number {limit}, got {given!r}")
    return int(given)


def as_step(eta: Any) -> float:
    if isinstance(eta, bool) or not isinstance(eta, int | float | np.number) or not 0 < eta < float("inf"):
        raise InputError(f"eta: expected a step size > 0, got {eta!r}")
    return float(eta)
