"""Numbers whose squares float32 can hold."""

import math

from torch import Tensor

FAR = 1e12  # from 1 / FAR to FAR, squares, their sums and their rounding errors fit into float32


def divisor(rows: Tensor) -> float:
    """What to divide rows (N, d) by before they are squared in float32: 1, or the size of the median row where that is too
    large or too small, rounded to a power of two so that no digit changes.

    >>> import torch
    >>> divisor(torch.tensor([[3.0, -4.0]])), divisor(torch.tensor([[0.0, -1.5 * 2.0**70]])) == 2.0**70
    (1.0, True)
    """
    sizes = rows.abs().amax(dim=1)
    size = float(sizes.median()) or float(sizes.max())
    return 1.0 if size == 0 or 1 / FAR < size < FAR else 2.0 ** math.floor(math.log2(size))
