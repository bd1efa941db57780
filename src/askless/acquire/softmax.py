"""Probabilities of logits, where a strategy looks at the former and the latter were given."""

from typing import Any

import numpy as np

from askless.acquire.strategy import filled, working_type

TILE = 2**18  # numbers at a time


class Softmax:
    """The probabilities (N, C) of `logits` as an array that is never whole in memory: rows are computed when asked for.

    In float64 where the logits have it, else in float32. `p[i]`, `p[i:j]` and `p[positions]` are numpy arrays.

    >>> Softmax(np.zeros((3, 2)))[:1]
    array([[0.5, 0.5]])
    """

    def __init__(self, logits: np.ndarray) -> None:
        self.logits, self.shape, self.ndim = logits, logits.shape, logits.ndim
        self.dtype = np.dtype(working_type(logits))
        self.nbytes = self.dtype.itemsize * self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> np.ndarray:
        if isinstance(which, tuple):
            raise IndexError(f"expected rows as a slice or positions, got {len(which)} indices; select the rows first")
        p: np.ndarray = self.logits[which].astype(self.dtype)  # a copy
        p -= p.max(axis=-1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=-1, keepdims=True)
        return p

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All of it in memory, where there is room."""
        return filled(np.empty(self.shape, dtype=dtype or self.dtype), max(1, TILE // self.shape[1]), self.__getitem__)
