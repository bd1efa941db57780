"""The best of m candidate batches, with almost no eigendecompositions.

Only records matter. With s the best value so far, a batch C united with the labelled rows L beats it only if K - sI is
positive definite, which a Cholesky attempt decides. In a random order m candidates hold about ln m records, so nearly
every candidate costs one attempt on a small matrix and only the few that pass are scored by their eigenvalues.

With n = |L| + |C| <= p (primal) the test is on the q x q Schur complement
    S = Phi_C Phi_C^T - sI - Phi_C Phi_L^T (K_LL - sI)^-1 Phi_L Phi_C^T.
With V the right singular vectors of Phi_L (singular values sigma), and rows Z = [Phi, Phi V],
    S = Z_C diag(w) Z_C^T - sI,   w = 1 on the first p columns and -sigma^2 / (sigma^2 - s) on the others:
nothing but the weights w depends on s, and Z is made once.

With n > p (dual) lambda_min of the p x p matrix M = Phi_L^T Phi_L + Phi_C^T Phi_C is at most that of W^T M W for any
orthonormal W. With W the lowest few eigenvectors of what M is on average, four columns turn away nearly every candidate,
and 16, 64 and at last all p columns are looked at for the rest alone.

A screen may pass too many candidates but never lose one: it tests at s - tau, where tau bounds the rounding error, and
works in float32 where tau stays small beside s. `best_batch_reference` scores every candidate; both return the first
candidate that no other beats by more than rounding.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from askless.linalg.gram import GramRows, Score, beats, rank_tolerance, score_batches

TILE = 2**25  # bytes of rows read at a time
CACHE = 2**22  # bytes that a screen works on at a time: more than fits in a core's cache takes twice as long
GROUP = 32  # candidates scored exactly at a time while there is no screen
CORNERS = (4, 16, 64)  # columns tried in the dual form before all of them
COARSE, FINE = 0.2, 0.005  # of s: with a wider margin float32 is not tried, with a narrower one it is enough
SINGLE = (1e-24, 1e24)  # squared lengths between which float32 neither overflows nor loses small numbers
SAMPLE = 4096  # rows of the pool that say what a batch is on average


class Found(NamedTuple):
    """The winning batch (q,), its score, its place in the order of candidates, and how many needed eigenvalues."""

    batch: np.ndarray
    score: Score
    place: int
    scored: int


class CandidateScreen(Protocol):
    cap: float  # no candidate can score higher
    step: int  # batches at a time

    def passes(self, batches: np.ndarray, s: float) -> np.ndarray:
        """For each batch (k, q), whether it may beat s; never False for one that does."""
        ...


def best_batch_reference(
    rows: GramRows, labelled: np.ndarray, candidates: Iterable[np.ndarray], max_memory: int = 2**28
) -> Found:
    """The first of the `candidates`, arrays (k, q) of positions, that no other beats, by the eigenvalues of every one.

    >>> rows = al.linalg.GramRows(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), bias=False)
    >>> al.linalg.best_batch_reference(rows, np.array([0]), [np.array([[1], [2]])]).batch
    array([2])
    """
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
    rows: GramRows,
    labelled: np.ndarray,
    candidates: Iterable[np.ndarray],
    total: int,
    max_memory: int = 2**28,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """The same batch as `best_batch_reference`, found by screening against the best so far.

    `candidates` yields arrays (k, q) of positions, `total` in all; no more than `max_memory` bytes are used beside the
    features themselves.

    >>> rows = al.linalg.GramRows(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), bias=False)
    >>> found = al.linalg.best_batch(rows, np.array([0]), [np.array([[1], [2]])], total=2)
    >>> found.batch, found.place
    (array([2]), 1)
    """
    search = _Search(rows, labelled, total, max_memory)
    seen, size = 0, 1
    for batches in candidates:
        at = 0
        while at < len(batches):
            if search.settled():
                progress(total, total)
                return search.result()
            size = min(size, GROUP if search.screen is None else search.screen.step)
            search.look_at(batches[at : at + size], seen + at)
            at, size = at + size, 2 * size  # short blocks first: while s is low, many pass
            progress(seen + min(at, len(batches)), total)
        seen += len(batches)
    return search.result()


class _Search:
    """The record so far, and the screen that candidates must pass to be scored against it."""

    def __init__(self, rows: GramRows, labelled: np.ndarray, total: int, max_memory: int) -> None:
        self.rows, self.labelled, self.total, self.max_memory = rows, labelled, total, max_memory
        self.best: Found | None = None
        self.screen: CandidateScreen | None = None
        self.scored = 0
        self.tried_at = -1  # the rank at which a screen was last asked for

    def settled(self) -> bool:
        """Interlacing: lambda_min of the union never exceeds that of the labelled rows. Then nothing can win any more."""
        if self.best is None or self.screen is None:
            return False
        return self.best.score.value + self.best.score.tol >= self.screen.cap

    def result(self) -> Found:
        assert self.best is not None, "no candidates"
        return self.best._replace(scored=self.scored)

    def look_at(self, batches: np.ndarray, first: int) -> None:
        """Candidates (k, q) in order, the first of them at place `first`."""
        left = self._passing(batches, np.arange(len(batches)))
        while len(left):
            # One at a time where few have passed: the first is often a record, which the others then have to pass again.
            few = len(left) if self.screen is None else max(1, len(left) // 8)
            now, left = left[:few], left[few:]
            if self._score(batches, now, first):
                left = self._passing(batches, left)

    def _passing(self, batches: np.ndarray, places: np.ndarray) -> np.ndarray:
        if self.screen is None or self.best is None or len(places) == 0:
            return places
        if self.settled():
            return places[:0]
        return places[self.screen.passes(batches[places], self.best.score.value)]

    def _score(self, batches: np.ndarray, places: np.ndarray, first: int) -> bool:
        """Scores the batches at `places` by their eigenvalues; whether one of them is a record."""
        scores = score_batches(self.rows, self.labelled, batches[places], self.max_memory)
        self.scored += len(places)
        record = False
        for i, place in enumerate(places):
            if self.best is None or beats(scores.at(i), self.best.score):
                self.best, record = Found(batches[place], scores.at(i), first + int(place), 0), True
        assert self.best is not None
        rank = self.best.score.rank
        if self.screen is None and rank > self.tried_at:
            self.tried_at = rank
            self.screen = screen_for(self.rows, self.labelled, batches.shape[1], rank, self.total, self.max_memory)
        return record


def screen_for(
    rows: GramRows, labelled: np.ndarray, q: int, rank: int, total: int, max_memory: int
) -> CandidateScreen | None:
    """The screen for a record of full rank, or None while a candidate might still win by rank.

    Full means min(rank of the labelled rows + q, p), where p counts the directions that the pool has at all.
    """
    phi = rows.take(labelled)
    n, p = len(labelled) + q, rows.width
    _, sigma, vh = torch.linalg.svd(phi, full_matrices=False)
    sq = sigma.square()
    r = int((sq > rank_tolerance(n, p) * sq.max()).sum()) if len(sq) else 0
    if rank == r + q:
        return _Primal(rows, vh[:r].T, sq[:r], q, total, max_memory // 2)
    axes = torch.eye(p, dtype=phi.dtype) if rank == p else _pool_axes(rows, phi, q, rank, max_memory)
    return None if axes is None else _Dual(rows, axes, phi @ axes, q, total, max_memory // 2)


def _pool_axes(rows: GramRows, phi: Tensor, q: int, rank: int, max_memory: int) -> Tensor | None:
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


def _positive_definite(matrices: Tensor) -> Tensor:
    return torch.linalg.cholesky_ex(matrices, check_errors=False).info == 0


def _step(bytes_each: int, memory: int) -> int:
    return max(1, min(memory, CACHE) // bytes_each)


class _Primal:
    """Cholesky of the Schur complement, q x q; for n <= p."""

    def __init__(self, rows: GramRows, v: Tensor, sq: Tensor, q: int, total: int, memory: int) -> None:
        self.rows, self.v, self.sq, self.q, self.p = rows, v, sq, q, len(v)
        self.width = self.p + len(sq)
        self.step = _step(4 * (2 * q * self.width + 3 * q * q), memory)
        self.cap = float(sq.min()) if len(sq) else float("inf")
        # Made once for all rows if there is room and it is not more work than for what is drawn.
        keep = total * q > len(rows) and len(rows) * self.width * 4 <= memory
        self.kept = torch.empty(len(rows), self.width, dtype=torch.float32) if keep else None
        self.largest_sq = 0.0
        for where, phi in rows.tiles(min(memory, TILE)):
            self.largest_sq = max(self.largest_sq, float(phi.square().sum(1).max()))
            if self.kept is not None:
                self._fill(self.kept[where], phi)

    def _fill(self, out: Tensor, phi: Tensor) -> None:
        out[:, : self.p] = phi
        out[:, self.p :] = phi @ self.v

    def _take(self, batches: np.ndarray, dtype: torch.dtype) -> Tensor:
        """[phi, phi V] of each item, (k, q) positions -> (k, q, width)."""
        flat = batches.reshape(-1)
        if self.kept is not None and dtype == torch.float32:
            z = self.kept.index_select(0, torch.from_numpy(flat))
        else:
            z = torch.empty(len(flat), self.width, dtype=dtype)
            self._fill(z, self.rows.take(flat))
        return z.view(*batches.shape, -1)

    def passes(self, batches: np.ndarray, s: float) -> np.ndarray:
        steepest = 1.0 + (s / (self.cap - s) if len(self.sq) else 0.0)  # bounds every |weight|
        alive = np.ones(len(batches), dtype=bool)
        for dtype in (torch.float32, torch.float64):
            # Inner products and the factorisation err by at most about 2 * terms * eps * the largest entry.
            tau = 2 * (self.width + self.q) * torch.finfo(dtype).eps * self.largest_sq * (1.0 + steepest)
            in_range = SINGLE[0] < self.largest_sq < SINGLE[1]
            if dtype == torch.float32 and (tau > COARSE * s or not in_range):
                continue
            if not alive.any():
                break
            t = s - tau
            weights = torch.cat([self.sq.new_ones(self.p), -self.sq / (self.sq - t)]).to(dtype)
            z = self._take(batches[alive], dtype)
            schur = (z * weights) @ z.mT  # (k, q, q)
            schur.diagonal(dim1=1, dim2=2).sub_(t)
            alive[alive] = _positive_definite(schur).numpy()
            if tau < FINE * s:
                break
        return alive


class _Dual:
    """Cholesky of W^T M W - sI for more and more columns W; for n > p.

    Few columns of all rows are kept, as many as there is room for, and tested in float32; for what passes, the rows
    themselves are read, once, and the rest is in float64.
    """

    cap = float("inf")

    def __init__(self, rows: GramRows, axes: Tensor, phi: Tensor, q: int, total: int, memory: int) -> None:
        some = rows.take(np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows)), dtype=np.int64)) @ axes
        gram = phi.T @ phi
        w = torch.linalg.eigh(gram + (q / len(some)) * some.T @ some).eigenvectors  # of the average M, ascending
        self.rows, self.q, self.memory = rows, q, memory
        self.base = w.T @ gram @ w
        self.turn = axes @ w  # (p, rank)
        rank = len(gram)
        corners = [k for k in CORNERS if 2 * k <= rank]
        kept, room = [], memory
        for k in corners:
            room -= len(rows) * k * 4
            # A pass over the pool in order is worth several times as many rows read here and there.
            if room >= 0 and 4 * total * q > len(rows):
                kept.append(k)
        self.kept = [torch.empty(len(rows), k, dtype=torch.float32) for k in kept]
        self.widths = [k for k in (*corners, rank) if k not in kept]  # looked at in float64
        if kept:
            for where, tile in rows.tiles(min(memory, TILE)):
                z = tile @ self.turn[:, : kept[-1]]
                for k, columns in zip(kept, self.kept, strict=True):
                    columns[where] = z[:, :k]
        self.step = _step(4 * 3 * (q + kept[0]) * kept[0] if kept else 8 * 4 * q * rows.width, memory)

    def passes(self, batches: np.ndarray, s: float) -> np.ndarray:
        mask = np.zeros(len(batches), dtype=bool)
        alive = np.arange(len(batches))
        for columns in self.kept if SINGLE[0] < s < SINGLE[1] else ():
            k = columns.shape[1]
            pieces = []
            for part in _parts(alive, 4 * 3 * (self.q + k) * k, self.memory):
                z = columns.index_select(0, torch.from_numpy(batches[part].reshape(-1)))
                pieces.append(part[self._definite(z.view(len(part), self.q, k), s)])
            alive = np.concatenate(pieces) if pieces else alive
        for part in _parts(alive, 8 * 4 * self.q * self.rows.width, self.memory):
            phi = self.rows.take(batches[part])  # (c, q, p)
            left = np.arange(len(part))
            for k in self.widths:
                if len(left):
                    left = left[self._definite(phi[torch.from_numpy(left)] @ self.turn[:, :k], s)]
            mask[part[left]] = True
        return mask

    def _definite(self, z: Tensor, s: float) -> np.ndarray:
        """For each of the batches' columns z (c, q, k), whether W^T M W - sI is positive definite, but for rounding."""
        k = z.shape[2]
        corner = self.base[:k, :k].to(z.dtype) + z.mT @ z
        diagonal = corner.diagonal(dim1=1, dim2=2)
        # Sums of q products and a factorisation of k columns err by at most so much in the spectral norm.
        tau = 2 * (self.q + k) * torch.finfo(z.dtype).eps * diagonal.sum(1)  # (c,)
        diagonal.sub_((s - tau)[:, None])
        # Beyond the range of its type nothing is turned away.
        return (_positive_definite(corner) | ~tau.isfinite()).numpy()


def _parts(places: np.ndarray, bytes_each: int, memory: int) -> list[np.ndarray]:
    """`places` in pieces whose batches, of this many bytes each, fit in the cache."""
    step = _step(bytes_each, memory)
    return [places[i : i + step] for i in range(0, len(places), step)]
