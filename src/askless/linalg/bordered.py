"""Scores of many batches beside one fixed set, from one eigendecomposition of the fixed set's Gram matrix.

K over the fixed rows and a batch C is [[K_LL, K_LC], [K_CL, K_CC]]. For s below lambda_min(K_LL), K - s I is positive
definite exactly where the q x q matrix S(s) = K_CC - s I - K_CL (K_LL - s I)^-1 K_LC is. With K_LL = V diag(l) V^T it costs
q^2 |L| operations per batch and s, so lambda_min is found by halving an interval, a few dozen times, for all batches at
once: |L| and not |L|^3 operations a batch.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from askless.linalg.gram import BatchScores, Rows, batch_spectra, rank_tolerance, spectrum_scores

HALVINGS = 52  # of [0, lambda_min(K_LL)]: as many as float64 has digits
UNSURE = 8.0  # times the tolerance of the rank: below it the spectrum itself decides


def scores_beside(
    rows: Rows, fixed: np.ndarray, batches: np.ndarray, max_memory: int = 2**28
) -> Iterator[tuple[slice, BatchScores]]:
    """(where, scores) of rows at `fixed` (l,) united with those of each batch (m, q), in chunks; as `score_batches`."""
    phi = rows.take(fixed)  # (l, p)
    l, q, p = len(fixed), batches.shape[1], rows.width
    n = l + q
    values, vectors = torch.linalg.eigh(phi @ phi.T)
    regular = l > 0 and n <= p and bool(values[0] > UNSURE * rank_tolerance(n, p) * values[-1])
    few = regular and 2 * HALVINGS * q * q * l < 4 * n**3  # operations, against those of an eigendecomposition
    side = min(n, p)
    step = max(1, max_memory // (8 * (2 * q * p + 3 * (q * l if few else side * side) + 1)))
    basis = phi.T @ vectors  # (p, l)
    for i in range(0, len(batches), step):
        batch = rows.take(batches[i : i + step])  # (c, q, p)
        if few:
            scores = _by_halving(values, batch @ basis, batch @ batch.mT, n, p)
            unsure = (scores.value <= UNSURE * scores.tol).nonzero()[:, 0]
            for at in unsure.split(max(1, max_memory // (8 * 3 * side * side))) if len(unsure) else ():
                exact = spectrum_scores(batch_spectra(phi, batch[at]), n, p)
                for mine, theirs in zip(scores, exact, strict=True):
                    mine[at] = theirs
        else:
            scores = spectrum_scores(batch_spectra(phi, batch), n, p)
        yield slice(i, i + step), scores


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
