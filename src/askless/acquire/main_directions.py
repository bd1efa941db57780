"""Features in as few main directions as there is memory for, in float64, for strategies that hold matrices of d x d."""

import numpy as np
import torch
from torch import Tensor

from askless.acquire.covering import main_directions
from askless.acquire.strategy import drawn

SAMPLE = 4096  # rows that the main directions are taken from
TILE = 2**22  # bytes of features at a time


class Rows:
    """The rows of `features` (N, d), divided by `scale` so that none is above 1, in their `width` main directions.

    Where d is not larger than `width` nothing is left out and no direction is turned. With `bias` a further column holds
    1 / scale: the rows are those of [phi, 1] / scale. `kept` is the share of the squared lengths, of a sample of rows, that
    the directions hold; they are not taken around the mean.
    """

    def __init__(self, features: np.ndarray, width: int, bias: bool, rng: np.random.Generator) -> None:
        self.features, self.bias, self.kept = features, bias, 1.0
        N, d = features.shape
        self.step = max(1, TILE // (8 * d))
        parts = (features[i : i + self.step] for i in range(0, N, self.step))
        self.scale = max(1.0, max(float(np.abs(part).max()) for part in parts))
        self.basis: Tensor | None = None
        if d > width:
            rows = np.asarray(features[drawn(N, min(SAMPLE, self.step), rng)], dtype=np.float64) / self.scale
            sample = torch.from_numpy(rows)
            self.basis = main_directions(sample.float(), min(width, len(rows)), rng).double()
            length = float(sample.square().sum())
            self.kept = float((sample @ self.basis).square().sum()) / length if length else 1.0
        self.width = (d if self.basis is None else self.basis.shape[1]) + bias

    def __call__(self, positions: np.ndarray) -> Tensor:
        """(k, width) float64."""
        out = torch.empty(len(positions), self.width, dtype=torch.float64)
        for i in range(0, len(positions), self.step):
            part = torch.from_numpy(np.asarray(self.features[positions[i : i + self.step]], dtype=np.float64))
            part = part / self.scale
            part = part if self.basis is None else part @ self.basis
            out[i : i + self.step, : part.shape[1]] = part
        if self.bias:
            out[:, -1] = 1 / self.scale
        return out
