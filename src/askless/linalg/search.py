"""The best of m candidate batches, with almost no eigendecompositions.

Only records matter. With s the best value so far, a batch C united with the labelled rows L beats it only if K - sI is
positive definite, which a Cholesky attempt decides. In a random order m candidates hold about ln m records, so nearly
every candidate costs one attempt on a small matrix and only the few that pass are scored by their eigenvalues.

With n = |L| + |C| <= p (primal) the test is on the q x q Schur complement
    S = Phi_C Phi_C^T - sI - Phi_C Phi_L^T (K_LL - sI)^-1 Phi_L Phi_C^T.
In coordinates Z = Phi Q whose first |L| axes are the right singular vectors of Phi_L (singular values sigma),
    S = Z_C diag(w) Z_C^T - sI,   w = -s / (sigma^2 - s) on those axes and 1 on the others:
nothing but the weights w depends on s. With n > p (dual) the test is on the p x p matrix
    Phi_L^T Phi_L + Phi_C^T Phi_C - sI = diag(alpha - s) + Z_C^T Z_C
in the eigenbasis of Phi_L^T Phi_L, ascending; its leading corners are tried first, since one that is not positive
definite settles the matter.

A screen may pass too many candidates but never lose one: it tests at s - tau, where tau bounds the rounding error, and
works in float32 where tau stays small beside s. `best_batch_reference` scores every candidate; both return the first
candidate that no other beats by more than rounding.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from askless.linalg.gram import Rows, Score, beats, rank_tolerance, score_batches

TILE = 2**25  # bytes of rows rotated at a time
WARM_UP = 32  # candidates scored exactly before the first screen, and at most so many survivors at a time
CORNERS = (8, 32)  # leading corners tried in the dual form before the whole matrix


class Found(NamedTuple):
    """The winning batch (q,), its score, its place in the order of candidates, and how many needed eigenvalues."""

    batch: np.ndarray
    score: Score
    place: int
    scored: int


class Screen(Protocol):
    cap: float  # no candidate can score higher
    memory: int  # bytes to work in
    bytes_each: int  # that one batch takes

    def passes(self, batches: np.ndarray, s: float) -> np.ndarray:
        """For each batch (k, q), whether it may beat s; never False for one that does."""
        ...


def best_batch_reference(
    rows: Rows, labelled: np.ndarray, candidates: Iterable[np.ndarray], max_memory: int = 2**28
) -> Found:
    """The first candidate that no other beats, by the eigenvalues of every one of them."""
    best: Found | None = None
    seen = 0
    for batches in candidates:
        scores = score_batches(rows, labelled, batches, max_memory)
        for i, batch in enumerate(batches):
            if best is None or beats(scores.at(i), best.score):
                best = Found(batch, scores.at(i), seen + i, 0)
        seen += len(batches)
    assert best is not None, "no candidates"
    return best._replace(scored=seen)


def best_batch(
    rows: Rows,
    labelled: np.ndarray,
    candidates: Iterable[np.ndarray],
    total: int,
    max_memory: int = 2**28,
    progress: Callable[[int, int], None] | None = None,
) -> Found:
    """The same batch as `best_batch_reference`, found by screening against the best so far.

    `candidates` yields arrays (k, q) of positions, `total` in all; no more than `max_memory` bytes are used beside the
    features themselves.
    """
    best: Found | None = None
    screen: Screen | None = None
    tried_screen_at = -1
    seen = scored = 0
    for batches in candidates:
        todo = np.arange(len(batches))
        fresh = 0  # of `todo`, how many passed the screen at the current record
        while len(todo):
            if best is not None and screen is not None:
                if best.score.value + best.score.tol >= screen.cap:
                    # Interlacing: lambda_min of the union never exceeds that of the labelled rows. Nothing can win.
                    _report(progress, total, total)
                    return best._replace(scored=scored)
                if fresh == 0:
                    step = max(1, screen.memory // screen.bytes_each)
                    block, rest = todo[:step], todo[step:]
                    passed = block[screen.passes(batches[block], best.score.value)]
                    todo, fresh = np.concatenate([passed, rest]), len(passed)
                    _report(progress, seen + len(batches) - len(todo), total)
                    if fresh == 0:
                        continue
                take = min(fresh, WARM_UP)
            else:
                take = min(len(todo), WARM_UP)
            now, todo, fresh = todo[:take], todo[take:], max(fresh - take, 0)
            _report(progress, seen + len(batches) - len(todo) - take, total)
            scores = score_batches(rows, labelled, batches[now], max_memory)
            scored += take
            for i, j in enumerate(now):
                if best is None or beats(scores.at(i), best.score):
                    best = Found(batches[j], scores.at(i), seen + int(j), 0)
                    fresh = 0  # a new record: the rest is screened again
            assert best is not None
            if screen is None and best.score.rank > tried_screen_at:
                tried_screen_at = best.score.rank
                screen = _make_screen(rows, labelled, batches.shape[1], best.score.rank, total, max_memory)
        seen += len(batches)
        _report(progress, seen, total)
    assert best is not None, "no candidates"
    return best._replace(scored=scored)


def _report(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)


def _make_screen(rows: Rows, labelled: np.ndarray, q: int, rank: int, total: int, max_memory: int) -> Screen | None:
    """The screen for a record of full rank, or None while a candidate might still win by rank.

    Full means min(rank of the labelled rows + q, p), where p counts the directions that the pool has at all.
    """
    phi = rows.take(labelled)
    n, p = len(labelled) + q, rows.width
    _, sigma, vh = torch.linalg.svd(phi, full_matrices=False)
    sq = sigma.square()
    r = int((sq > rank_tolerance(n, p) * sq.max()).sum()) if len(sq) else 0
    # Everything is rotated once if it fits in half of the memory and is not more work than rotating what is drawn.
    keep = total * q > len(rows) and len(rows) * p * 4 <= max_memory // 2
    if rank == r + q:
        return _Primal(rows, vh[:r].T, sq[:r], q, keep, max_memory // 2)
    axes = torch.eye(p, dtype=phi.dtype) if rank == p else _pool_axes(rows, phi, q, rank, max_memory)
    return None if axes is None else _Dual(rows, axes, phi @ axes, q, keep, max_memory // 2)


def _pool_axes(rows: Rows, phi: Tensor, q: int, rank: int, max_memory: int) -> Tensor | None:
    """Orthonormal axes (p, rank) that hold every row of the pool, or None if the pool has more directions than that.

    Features with dead or dependent columns span fewer than p directions; then no batch can have a higher rank, and the
    search runs inside the span. "Hold" is meant strictly: what is left outside could not lift any batch's rank.
    """
    p = rows.width
    gram = phi.T @ phi
    smallest_row = float("inf")
    for _, part in rows.tiles(max_memory):
        gram += part.T @ part
        smallest_row = min(smallest_row, float(part.square().sum(1).min()))
    axes = torch.linalg.eigh(gram).eigenvectors[:, p - rank :]
    largest_left = 0.0
    for _, part in rows.tiles(max_memory):
        largest_left = max(largest_left, float((part - (part @ axes) @ axes.T).square().sum(1).max()))
    n = len(phi) + q
    return axes if n * largest_left < rank_tolerance(n, p) * smallest_row else None


class _Rotated:
    """Rows of the pool in other coordinates, rotated once and kept, or rotated whenever they are asked for."""

    def __init__(self, rows: Rows, rotate: Callable[[Tensor], Tensor], width: int, keep: bool, max_memory: int) -> None:
        self.rows, self.rotate = rows, rotate
        self.kept = torch.empty(len(rows), width, dtype=torch.float32) if keep else None
        self.largest_sq = 0.0
        for where, tile in rows.tiles(min(max_memory, TILE)):
            self.largest_sq = max(self.largest_sq, float(tile.square().sum(1).max()))
            if self.kept is not None:
                self.kept[where] = rotate(tile).float()

    def take(self, batches: np.ndarray, dtype: torch.dtype) -> Tensor:
        """(k, q) positions -> (k, q, width)."""
        if self.kept is not None and dtype == torch.float32:
            flat = torch.from_numpy(batches.reshape(-1))
            return self.kept.index_select(0, flat).view(*batches.shape, -1)
        phi = self.rows.take(batches)  # (k, q, p)
        return self.rotate(phi.flatten(0, 1)).view(*batches.shape, -1).to(dtype)


def _positive_definite(matrices: Tensor) -> np.ndarray:
    return (torch.linalg.cholesky_ex(matrices, check_errors=False).info == 0).numpy()


def _margin(scale: float, terms: int, s: float) -> tuple[float, torch.dtype]:
    """The shift tau that covers rounding in a Cholesky test of matrices with entries up to `scale`, and the dtype.

    Inner products of `terms` products and the factorisation err by at most about 2 * terms * eps * scale.
    """
    for dtype in (torch.float32, torch.float64):
        tau = 2 * terms * torch.finfo(dtype).eps * scale
        if tau < 0.02 * s or dtype == torch.float64:
            break
    return tau, dtype


class _Primal:
    """Cholesky of the Schur complement, q x q; for n <= p."""

    def __init__(self, rows: Rows, v: Tensor, sq: Tensor, q: int, keep: bool, memory: int) -> None:
        self.sq, self.q, self.p = sq, q, len(v)
        self.memory, self.bytes_each = memory, 8 * (3 * q * self.p + 3 * q * q)
        self.cap = float(sq.min()) if len(sq) else float("inf")
        # Householder reflectors whose product has v as its first columns (up to sign): rotates in O(p r) per row.
        reflectors = torch.geqrf(v) if v.shape[1] else None

        def rotate(phi: Tensor) -> Tensor:
            return phi if reflectors is None else torch.ormqr(*reflectors, phi, left=False, transpose=False)

        self.rotated = _Rotated(rows, rotate, self.p, keep, memory)

    def passes(self, batches: np.ndarray, s: float) -> np.ndarray:
        room = self.cap - s if len(self.sq) else float("inf")
        steepest = 1.0 + (s / room if len(self.sq) else 0.0)  # bounds every |weight|
        tau, dtype = _margin(self.rotated.largest_sq * steepest, self.p + self.q, s)
        t = s - tau
        weights = torch.cat([-t / (self.sq - t), self.sq.new_ones(self.p - len(self.sq))]).to(dtype)
        z = self.rotated.take(batches, dtype)
        schur = (z * weights) @ z.mT  # (k, q, q)
        schur.diagonal(dim1=1, dim2=2).sub_(t)
        return _positive_definite(schur)


class _Dual:
    """Cholesky of diag(alpha - s) + Z_C^T Z_C, leading corners first; for n > p."""

    cap = float("inf")

    def __init__(self, rows: Rows, axes: Tensor, phi: Tensor, q: int, keep: bool, memory: int) -> None:
        alpha, v = torch.linalg.eigh(phi.T @ phi)
        self.alpha, self.q, self.p = alpha, q, len(alpha)
        self.memory, self.bytes_each = memory, 8 * 3 * q * rows.width
        turn = axes @ v  # (p, rank)
        self.rotated = _Rotated(rows, lambda x: x @ turn, self.p, keep, memory)

    def passes(self, batches: np.ndarray, s: float) -> np.ndarray:
        scale = float(self.alpha[-1]) + self.q * self.rotated.largest_sq
        tau, dtype = _margin(scale, self.p + self.q, s)
        shifted = (self.alpha - (s - tau)).to(dtype)
        z = self.rotated.take(batches, dtype)
        alive = np.arange(len(batches))
        for side in (*(c for c in CORNERS if 2 * c <= self.p), self.p):
            base = torch.diag(shifted[:side])
            parts = z[..., :side].split(max(1, self.memory // (8 * 4 * side * side)))
            alive_now = np.concatenate([_positive_definite(base + part.mT @ part) for part in parts])
            alive, z = alive[alive_now], z[torch.from_numpy(alive_now)]
            if len(alive) == 0:
                break
        mask = np.zeros(len(batches), dtype=bool)
        mask[alive] = True
        return mask
