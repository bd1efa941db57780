"""The linear head behind a pool's features and logits, found again from the two by least squares."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq

from askless.acquire.strategy import drawn

ROWS = 1024  # rows, at least, if there are that many, and four per feature
LINEAR = (
    1e-2  # relative error up to which logits count as linear in the features: those in half precision have three digits
)


class Head(NamedTuple):
    """f = W^T (z / unit) + b for the features z of an item; `error` is the largest one relative to the logits' spread."""

    W: np.ndarray  # (d, C) float64
    b: np.ndarray  # (C,)
    unit: float  # the largest feature: their squares then are within floats
    error: float
    known: bool  # whether the pool's features leave no part of W open

    @property
    def notes(self) -> list[str]:
        """What a user should know."""
        notes = []
        if self.error > LINEAR:
            notes.append(
                f"the logits are not linear in the features (error {self.error:.2g}), so the nearest linear head is used; "
                "pass the features that the last linear layer sees"
            )
        if not self.known:
            notes.append("the features span too few directions to determine the head, so its smallest solution is used")
        return notes


def linear_head(features: np.ndarray, logits: np.ndarray, rng: np.random.Generator) -> Head:
    """The head of `features` (N, d) and `logits` (N, C): exact but for rounding where the logits are a linear layer's.

    Solved on 4 (d + 1) rows drawn at random (1,024 at least), or all: no model is trained, and labels are not looked at.

    >>> z = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> linear_head(z, z @ [[1.0], [2.0]] + 3, np.random.default_rng(0)).W.round(6)
    array([[1.],
           [2.]])
    """
    N, d = features.shape
    some = drawn(N, max(ROWS, 4 * (d + 1)), rng)
    z, f = features[some].astype(np.float64), logits[some].astype(np.float64)
    unit = float(np.abs(z).max()) or 1.0
    z /= unit
    middle, level = z.mean(axis=0), f.mean(axis=0)
    z -= middle
    f = f - level
    digits = max(np.finfo(features.dtype).eps, np.finfo(logits.dtype).eps)
    moving = int((np.abs(z).max(axis=0) > digits).sum())  # a feature that is constant is part of b
    spread = float(np.abs(f).max())
    scale = spread or 1.0
    W, _, rank, _ = lstsq(z, f / scale, cond=max(8 * digits, 1e-12), lapack_driver="gelsy")
    error = float(np.abs(z @ W - f / scale).max())
    W = W * scale
    return Head(W, level - middle @ W, unit, error, int(rank) >= moving)
