"""Scores of many batches beside one fixed set, from one eigendecomposition of the fixed set's Gram matrix.

K over the fixed rows and a batch C is [[K_LL, K_LC], [K_CL, K_CC]]. For s below lambda_min(K_LL), K - s I is positive
definite exactly where the q x q matrix S(s) = K_CC - s I - K_CL (K_LL - s I)^-1 K_LC is. With K_LL = V diag(l) V^T it costs
q^2 |L| operations per batch and s, so lambda_min is found by halving an interval, a few dozen times, for all batches at
once: |L| and not |L|^3 operations a batch.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from askless.linalg.gram import BatchScores, GramRows, batch_spectra, bordered, rank_tolerance, spectra, spectrum_scores

HALVINGS = 52  # of [0, lambda_min(K_LL)]: as many as float64 has digits
UNSURE = 8.0  # times the tolerance of the rank: below it the spectrum itself decides


def scores_beside(
    rows: GramRows, fixed: np.ndarray, batches: np.ndarray, max_memory: int = 2**28
) -> Iterator[tuple[slice, BatchScores]]:
    """(where, scores) of rows at `fixed` (l,) united with those of each batch (m, q), in chunks; as `score_batches`."""
    phi = rows.take(fixed)  # (l, p)
    l, q, p = len(fixed), batches.shape[1], rows.width
    n = l + q
    # With more rows than columns the fixed ones' own eigenvalues are of no use.
    values, vectors = torch.linalg.eigh(phi @ phi.T) if n <= p else (phi.new_empty(0), phi.new_empty(l, 0))
    if not _halving_is_quicker(values, n, p):
        for at, eigenvalues in spectra(rows, fixed, batches, max_memory):
            yield at, spectrum_scores(eigenvalues, n, p)
        return
    step = max(1, max_memory // (8 * (2 * q * p + 3 * q * l + 1)))
    basis = phi.T @ vectors  # (p, l)
    for i in range(0, len(batches), step):
        batch = rows.take(batches[i : i + step])  # (c, q, p)

        def exact(at: Tensor, batch: Tensor = batch) -> BatchScores:
            return spectrum_scores(batch_spectra(phi, batch[at]), n, p)

        scores = _by_halving(values, batch @ basis, batch @ batch.mT, n, p)
        _make_sure(scores, exact, max(1, max_memory // (8 * 3 * n * n)))
        yield slice(i, i + step), scores


class Blocks(NamedTuple):
    """K_LL (l, l), K_GL (m, q, l) and K_GG (m, q, q), float64: a kernel of fixed items L and of m groups G beside them.

    `coarse`: how much coarser than float64 the entries are rounded (2^29 for a float32 table).

    >>> one = torch.ones(1, 1, 1, dtype=torch.float64)
    >>> K = al.linalg.Blocks(LL=2 * one[0], GL=one, GG=2 * one)  # one fixed item, one group of one: [[2, 1], [1, 2]]
    >>> [values.tolist() for _, values in K.spectra(max_memory=2**20)]
    [[[1.0, 3.0]]]
    """

    LL: Tensor
    GL: Tensor
    GG: Tensor
    coarse: int = 1

    @property
    def n(self) -> int:
        """l + q, the number of rows of each matrix."""
        return len(self.LL) + self.GG.shape[1]

    @property
    def p(self) -> int:
        """What stands for the number of columns in `rank_tolerance`, where only the kernel is known."""
        return self.n * self.coarse

    def normalized(self) -> "Blocks":
        """K_ij / sqrt(K_ii K_jj)."""
        l, g = (K.diagonal(dim1=-2, dim2=-1).sqrt() for K in (self.LL, self.GG))  # (l,), (m, q)
        l, g = (torch.where(length > 0, length, 1.0) for length in (l, g))
        LL, GL, GG = self.LL / l / l[:, None], self.GL / l / g[..., None], self.GG / g[:, None] / g[..., None]
        return Blocks(LL, GL, GG, self.coarse)

    def spectra(self, max_memory: int) -> Iterator[tuple[slice, Tensor]]:
        """(where, ascending eigenvalues) of each group's matrix, in chunks."""
        step = max(1, max_memory // (8 * 3 * self.n**2))
        for i in range(0, len(self.GG), step):
            at = slice(i, i + step)
            yield at, torch.linalg.eigvalsh(bordered(self.LL, self.GL[at], self.GG[at]))

    def scores(self, max_memory: int) -> Iterator[tuple[slice, BatchScores]]:
        """(where, scores) of each group with the fixed items, in chunks; as `scores_beside`."""
        values, vectors = torch.linalg.eigh(self.LL)
        if not _halving_is_quicker(values, self.n, self.p):
            for at, eigenvalues in self.spectra(max_memory):
                yield at, spectrum_scores(eigenvalues, self.n, self.p)
            return
        m, q = self.GL.shape[:2]
        step = max(1, max_memory // (8 * 4 * q * self.n))
        for i in range(0, m, step):
            GL, GG = self.GL[i : i + step], self.GG[i : i + step]

            def exact(at: Tensor, GL: Tensor = GL, GG: Tensor = GG) -> BatchScores:
                return spectrum_scores(torch.linalg.eigvalsh(bordered(self.LL, GL[at], GG[at])), self.n, self.p)

            scores = _by_halving(values, GL @ vectors, GG, self.n, self.p)
            _make_sure(scores, exact, max(1, max_memory // (8 * 3 * self.n**2)))
            yield slice(i, i + step), scores


def _halving_is_quicker(values: Tensor, n: int, p: int) -> bool:
    """Whether K_LL, of these eigenvalues (l,), is regular, and halving takes fewer operations than eigenvalues do."""
    l, q = len(values), n - len(values)
    regular = l > 0 and n <= p and bool(values[0] > UNSURE * rank_tolerance(n, p) * values[-1])
    return regular and 2 * HALVINGS * q * q * l < 4 * n**3


def _make_sure(scores: BatchScores, exact: Callable[[Tensor], BatchScores], step: int) -> None:
    """Puts the spectrum's scores in place of those too near to zero to tell the rank, `step` at a time."""
    unsure = (scores.value <= UNSURE * scores.tol).nonzero()[:, 0]
    for at in unsure.split(step) if len(unsure) else ():
        for mine, theirs in zip(scores, exact(at), strict=True):
            mine[at] = theirs


def _by_halving(values: Tensor, cross: Tensor, inner: Tensor, n: int, p: int) -> BatchScores:
    """Scores from the eigenvalues (l,) of K_LL, K_CL V (c, q, l) and K_CC (c, q, q), all of full rank if they are clear."""
    diagonal = inner.diagonal(dim1=1, dim2=2)  # (c, q)
    low = torch.zeros(len(inner), dtype=torch.float64)
    high = diagonal.amin(dim=1).clamp(max=float(values[0]))  # no eigenvalue is above its diagonal's smallest entry
    eye = torch.eye(inner.shape[1], dtype=torch.float64)
    for _ in range(HALVINGS):
        s = (low + high) / 2
        weighted = cross / (values - s[:, None])[:, None, :]  # (c, q, l)
        shifted = inner - s[:, None, None] * eye - weighted @ cross.mT
        definite = torch.linalg.cholesky_ex(shifted).info == 0
        low, high = torch.where(definite, s, low), torch.where(definite, high, s)
    most = values[-1] + diagonal.sum(dim=1)  # at least lambda_max
    rank = torch.full((len(inner),), n)
    return BatchScores(rank, low, rank_tolerance(n, p) * most)
