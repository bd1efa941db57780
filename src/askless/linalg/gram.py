"""The score of a set of rows: (numerical rank, smallest non-zero eigenvalue) of its Gram matrix.

NPC and CRC maximise lambda_min of K = Phi Phi^T over the labelled rows and a candidate batch. Once there are more rows
than columns that eigenvalue is zero for every candidate, and what a program sees is rounding noise; "the smallest
positive eigenvalue" instead rewards duplicates, whose zeros it throws away. So sets are compared lexicographically: first
by rank, then by the smallest eigenvalue that counts towards it, both in float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

EPS = float(np.finfo(np.float64).eps)


class Score(NamedTuple):
    """What a set of rows is worth; `tol` is the smallest difference in `value` that is not rounding.

    `rank`: of the rows' Gram matrix; `value`: its smallest non-zero eigenvalue.

    >>> gram_score(torch.eye(2))[:2]
    (2, 1.0)
    """

    rank: int
    value: float
    tol: float


class BatchScores(NamedTuple):
    """One `Score` per candidate batch, as arrays of length m."""

    rank: Tensor
    value: Tensor
    tol: Tensor

    def at(self, i: int) -> Score:
        return Score(int(self.rank[i]), float(self.value[i]), float(self.tol[i]))


@dataclass(frozen=True)
class GramRows:
    """The rows [phi, 1] of a pool (the 1 only with `bias`, unit length with `normalize`), read a few at a time.

    With `outside` (r, p), orthonormal rows, what lies in their span is taken away.

    `features` (N, d).

    >>> rows = al.linalg.GramRows(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), bias=False)
    >>> rows.take(np.array([0, 2]))
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    features: np.ndarray  # (N, d), any float type, never copied as a whole
    bias: bool = True
    normalize: bool = False
    outside: Tensor | None = None

    def __len__(self) -> int:
        return len(self.features)

    @property
    def width(self) -> int:
        return self.features.shape[1] + int(self.bias)

    def tiles(self, max_memory: int) -> Iterator[tuple[slice, Tensor]]:
        """All rows in order, (where, rows in float64), with room for three more arrays of a tile's size."""
        step = max(1, max_memory // (8 * 4 * self.width))
        for i in range(0, len(self), step):
            yield slice(i, i + step), self.take(slice(i, i + step))

    def largest_sq(self, max_memory: int) -> float:
        """The largest squared length of a row."""
        return max(float(tile.square().sum(1).max()) for _, tile in self.tiles(max_memory))

    def take(self, positions: np.ndarray | slice) -> Tensor:
        """The rows at `positions` in float64, shape (*positions.shape, width)."""
        phi = torch.from_numpy(np.array(self.features[positions], dtype=np.float64))
        if self.bias:
            phi = torch.cat([phi, phi.new_ones(*phi.shape[:-1], 1)], dim=-1)
        if self.normalize:
            norm = phi.norm(dim=-1, keepdim=True)
            phi = phi / torch.where(norm > 0, norm, 1.0)
        if self.outside is not None:
            for _ in range(2):  # the first projection leaves rounding inside the span
                phi = phi - (phi @ self.outside.T) @ self.outside
        return phi


def rank_tolerance(n: int, p: int) -> float:
    """Eigenvalues up to this times the largest one count as zero: max(n, p) * eps.

    n rows make n eigenvalues, and each entry of K is a sum of p products.
    """
    return max(n, p) * EPS


def spectrum_scores(eigenvalues: Tensor, n: int, p: int) -> BatchScores:
    """Scores from ascending eigenvalues (m, k), k = min(n, p), of n x n Gram matrices of rows p wide."""
    k = eigenvalues.shape[1]
    if k == 0:
        zero = eigenvalues.new_zeros(len(eigenvalues))
        return BatchScores(zero.long(), zero, zero)
    tol = rank_tolerance(n, p) * eigenvalues[:, -1].clamp(min=0)  # (m,)
    rank = (eigenvalues > tol[:, None]).sum(1)
    smallest = eigenvalues.gather(1, (k - rank).clamp(max=k - 1)[:, None])[:, 0]
    return BatchScores(rank, torch.where(rank > 0, smallest, 0.0), tol)


def gram_score(phi: Tensor) -> Score:
    """(rank, smallest non-zero eigenvalue, its tolerance) of phi phi^T for rows phi (n, p).

    Works on the smaller of phi phi^T (n x n) and phi^T phi (p x p): their non-zero eigenvalues are the same.

    >>> round(gram_score(torch.tensor([[1.0, 0.0], [0.6, 0.8]])).value, 6)  # unit rows, inner product a: 1 - |a|
    0.4
    >>> gram_score(torch.tensor([[1.0, 0.0], [1.0, 0.0]])).rank  # a duplicate adds no rank
    1
    """
    phi = phi.double()
    n, p = phi.shape
    gram = phi @ phi.T if n <= p else phi.T @ phi
    return spectrum_scores(torch.linalg.eigvalsh(gram)[None], n, p).at(0)


def batch_spectra(fixed: Tensor, batch: Tensor) -> Tensor:
    """Ascending eigenvalues (m, min(n, p)) of the Gram matrix of `fixed` (l, p) with each batch (m, q, p), n = l + q."""
    if len(fixed) + batch.shape[1] <= batch.shape[2]:
        gram = bordered(fixed @ fixed.T, batch @ fixed.T, batch @ batch.mT)
    else:
        gram = fixed.T @ fixed + batch.mT @ batch  # (m, p, p)
    return torch.linalg.eigvalsh(gram)


def bordered(LL: Tensor, GL: Tensor, GG: Tensor) -> Tensor:
    """[[K_LL, K_LG], [K_GL, K_GG]] for each group, (m, n, n), n = l + q."""
    m, q, l = GL.shape
    K = GL.new_empty(m, l + q, l + q)
    K[:, :l, :l], K[:, l:, l:] = LL, GG
    K[:, l:, :l], K[:, :l, l:] = GL, GL.mT
    return K


def spectra(rows: GramRows, fixed: np.ndarray, batches: np.ndarray, max_memory: int) -> Iterator[tuple[slice, Tensor]]:
    """(where, ascending eigenvalues) of the Gram matrices of rows at `fixed` (l,) with each batch (m, q), in chunks."""
    phi = rows.take(fixed)
    q, p = batches.shape[1], rows.width
    side = min(len(fixed) + q, p)
    step = max(1, max_memory // (8 * (2 * q * p + 3 * side * side + 1)))  # rows, Gram matrices, working copies
    for i in range(0, len(batches), step):
        yield slice(i, i + step), batch_spectra(phi, rows.take(batches[i : i + step]))


def score_batches(rows: GramRows, fixed: np.ndarray, batches: np.ndarray, max_memory: int = 2**28) -> BatchScores:
    """The score of rows at `fixed` (l,) united with those of each of `batches` (m, q): one eigendecomposition per batch.

    >>> rows = al.linalg.GramRows(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), bias=False)
    >>> al.linalg.score_batches(rows, np.array([0]), np.array([[1], [2]])).rank
    tensor([1, 2])
    """
    n, p = len(fixed) + batches.shape[1], rows.width
    parts = [spectrum_scores(eigenvalues, n, p) for _, eigenvalues in spectra(rows, fixed, batches, max_memory)]
    return BatchScores(*(torch.cat(column) for column in zip(*parts, strict=True)))


def beats(new: Score, old: Score) -> bool:
    """Whether `new` is better than `old` by more than rounding: by rank first, then by value.

    >>> beats(Score(2, 0.1, 1e-9), Score(1, 5.0, 1e-9))
    True
    """
    return new.rank > old.rank or (new.rank == old.rank and new.value > old.value + old.tol)
