"""How much every item of a pool resembles a few of them: cosines of their features. Needs numpy alone."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

BLOCK = 2**20  # numbers of the pool that are looked at together: 4 MB in float32


def likeness(x: np.ndarray, to: Sequence[int], by: Literal["best", "mean"] = "best", block: int = BLOCK) -> np.ndarray:
    """(N,) float32: the largest, or the mean, cosine between each row of `x` (N, d) and the rows at `to`.

    With unit rows u_i, best is max_j <u_i, u_j> and mean is <u_i, mean_j u_j>, for j in `to`: one product with a vector. `x`
    may be mapped and of any float type; it is read in blocks, once. A row of zeros resembles nothing.

    >>> x = np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 4.0], [0.0, 0.0]])
    >>> likeness(x, [0]).round(3)
    array([1. , 0. , 0.6, 0. ], dtype=float32)
    >>> likeness(x, [0, 1]).round(3)
    array([1. , 1. , 0.8, 0. ], dtype=float32)
    >>> likeness(x, [0, 1], by="mean").round(3)
    array([0.5, 0.5, 0.7, 0. ], dtype=float32)
    """
    known = units(x[np.asarray(to, np.int64)])
    against = known if by == "best" else known.mean(axis=0, keepdims=True)
    out = np.empty(len(x), np.float32)
    rows = max(1, block // x.shape[1])
    for i in range(0, len(x), rows):
        out[i : i + rows] = (units(x[i : i + rows]) @ against.T).max(axis=1)  # (b, d) @ (d, k) -> (b, k) -> (b,)
    return out


def units(rows: np.ndarray) -> np.ndarray:
    """Rows as float32 of length 1; rows of zeros stay."""
    rows = np.asarray(rows, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows / np.maximum(lengths, 1e-12)[:, None]
