r"""Features of a kernel from few of its columns: the Nyström approximation, by a Cholesky factorisation that stops early.

With the items S as landmarks, $F F^T = K_{:S} K_{SS}^{-1} K_{S:}$ (Williams & Seeger, 2001); the order in which they
come changes nothing. What is left, K - F F^T, is positive semi-definite, so its trace bounds every entry and every
eigenvalue of the error; its diagonal is known at every step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from askless.linalg.gram import rank_tolerance


class Landmarks(NamedTuple):
    """`features` (N, k) with `features features^T` near to the kernel, the `items` (k,) that they were made from, and the
    share of the kernel's trace that is `left` out."""

    features: Tensor
    items: np.ndarray
    left: float


def partial_cholesky(
    diagonal: Tensor,
    column: Callable[[int], Tensor],
    k: int,
    order: np.ndarray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Landmarks:
    """The factor of the kernel with this `diagonal` (N,) from at most k of its columns (N,), asked for one by one.

    The next landmark is the first of `order` that the earlier ones do not span, or, where that is None, the item that they
    span least. Fewer than k where the kernel has no more rank, as far as float64 can tell: with k = N the factor is exact.

    >>> K = torch.tensor([[4.0, 2.0, 2.0], [2.0, 5.0, 1.0], [2.0, 1.0, 1.0]])  # rank 2
    >>> partial_cholesky(K.diagonal(), lambda i: K[:, i], 3).features
    tensor([[0.8944, 1.7889],
            [2.2361, 0.0000],
            [0.4472, 0.8944]], dtype=torch.float64)
    """
    residual = diagonal.double().clone()
    N, trace = len(residual), float(residual.sum())
    k = min(k, N)
    F = torch.zeros(N, k, dtype=torch.float64)
    least = 4 * rank_tolerance(N, N) * float(residual.max())
    waiting = iter(() if order is None else order.tolist())
    items: list[int] = []
    while len(items) < k:
        j = len(items)
        pick = int(residual.argmax()) if order is None else next((i for i in waiting if residual[i] > least), None)
        if pick is None or residual[pick] <= least:
            break
        f = column(pick).double() - F[:, :j] @ F[pick, :j]
        f /= float(residual[pick]) ** 0.5
        f[items] = 0.0  # they are spanned; what is there is rounding
        F[:, j] = f
        residual = (residual - f.square()).clamp_(min=0)
        residual[pick] = 0.0
        items.append(pick)
        if progress is not None:
            progress(len(items), k)
    left = float(residual.sum()) / trace if trace > 0 else 0.0
    return Landmarks(F[:, : len(items)], np.array(items, dtype=np.int64), left)
