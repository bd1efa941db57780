"""Rows so far from all others that means and lengths would be theirs alone."""

import logging
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

logger = logging.getLogger(__name__)

FAR = 100.0  # times the usual distance
SOME = 1000  # rows that the usual distance is measured on
TILE = 1024  # rows whose distances are taken at a time


class Reach(NamedTuple):
    """The `usual` distance of rows from their `centre` (d,): the one is what nine of ten rows keep within, the other a
    median, so that few rows cannot move them."""

    centre: Tensor
    usual: float

    @classmethod
    def of(cls, rows: Tensor) -> "Reach":
        few = rows[torch.linspace(0, len(rows) - 1, min(SOME, len(rows)), dtype=torch.float64).long()]
        centre = few.median(dim=0).values
        return cls(centre, float(distances(few, centre).quantile(0.9)))

    def near(self, rows: Tensor, at: np.ndarray) -> tuple[Tensor, np.ndarray]:
        """The rows (n, d) of the items `at` (n,), and the items whose rows were far: these are moved towards the centre,
        to the usual distance. Where none is far, the rows are returned as they are."""
        far_off = distances(rows, self.centre)
        far = (far_off > FAR * self.usual) & (self.usual > 0)
        if not far.any():
            return rows, at[:0]
        rows, items = rows.clone(), at[far.numpy()]
        rows[far] = self.centre + (rows[far] - self.centre) * (self.usual / far_off[far]).float()[:, None]
        logger.warning(
            "%d of %d rows lie more than %d times as far out as the others, the first is row %d; auto treats them as if "
            "they lay as far out as the others; check these rows: their unit may be wrong",
            *(len(items), len(at), FAR, items[0]),
        )
        return rows, items


def distances(rows: Tensor, centre: Tensor) -> Tensor:
    """(n,) in float64, which holds the squares of all that float32 holds."""
    parts = [torch.linalg.vector_norm(part - centre, dim=1, dtype=torch.float64) for part in rows.split(TILE)]
    return torch.cat(parts)
