"""A kernel over the pool, as strategies see it: parts of it, for positions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from askless.linalg import Blocks  # which needs torch, and most strategies need neither

Progress = Callable[[int, int], None]  # done, total


class Kernel(Protocol):
    """K(x, x') of a pool's items: a table, or computed when parts of it are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, positions: np.ndarray, /) -> "Kernel":
        """That of these items only."""
        ...

    def blocks(
        self, fixed: np.ndarray, groups: np.ndarray, max_memory: int = 2**28, progress: Progress | None = None
    ) -> "Blocks":
        """The parts for positions `fixed` (l,) and `groups` (m, q)."""
        ...


@dataclass(frozen=True)
class TableKernel:
    """An array (N, N), in memory or mapped."""

    K: np.ndarray

    def __len__(self) -> int:
        return len(self.K)

    def __getitem__(self, positions: np.ndarray, /) -> "TableKernel":
        return TableKernel(self.K[np.ix_(positions, positions)])

    def blocks(
        self, fixed: np.ndarray, groups: np.ndarray, max_memory: int = 2**28, progress: Progress | None = None
    ) -> "Blocks":
        import torch

        from askless.linalg import Blocks
        from askless.linalg.gram import EPS

        at = ((fixed[:, None], fixed), (groups[..., None], fixed), (groups[..., None], groups[:, None]))
        LL, GL, GG = (torch.from_numpy(self.K[i, j].astype(np.float64)) for i, j in at)
        return Blocks(LL, GL, GG, coarse=max(1, round(float(np.finfo(self.K.dtype).eps) / EPS)))
