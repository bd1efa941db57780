"""Greedy and swap search for rows with a large smallest eigenvalue.

Adding a row phi to a set with squared singular values sigma_i^2 and right singular vectors v_i, with u_i = v_i . phi and
rho^2 the squared length outside their span, moves the smallest non-zero eigenvalue to the smallest root of

    rho^2 - lam - lam * sum_i u_i^2 / (sigma_i^2 - lam) = 0      if rho > 0 (the rank grows; lam below every sigma_i^2)
    1 + sum_i u_i^2 / (sigma_i^2 - lam) = 0                      if rho = 0 (lam between the two smallest sigma_i^2)

Both are monotone between their poles, so "is this row's root above s?" is one weighted sum per row, and the best row of
the pool is found by raising s from record to record.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from askless.linalg.gram import GramRows, beats, gram_score, rank_tolerance

SAMPLE = 16  # rows solved exactly per record
BISECTIONS = 100
PASSES = 3  # over the batch, to exchange its rows


def add_best(
    rows: GramRows, chosen: np.ndarray, allowed: np.ndarray, rng: np.random.Generator, max_memory: int = 2**28
) -> int:
    """The position among `allowed` whose row, added to the rows at `chosen`, gives the best (rank, eigenvalue).

    >>> rows = al.linalg.GramRows(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), bias=False)
    >>> al.linalg.add_best(rows, np.array([0]), np.array([1, 2]), np.random.default_rng(0))
    2
    """
    _, sigma, vh = torch.linalg.svd(rows.take(chosen), full_matrices=False)
    sq = sigma.square()
    relative = rank_tolerance(len(chosen) + 1, rows.width)
    tol = relative * (float(sq.max()) if len(sq) else 0.0)
    keep = sq > tol
    sq, v = sq[keep], vh[keep].T  # (r,), (p, r)
    best, s, grown = int(allowed[0]), -1.0, False
    step = max(1, max_memory // (8 * 8 * rows.width))
    for i in range(0, len(allowed), step):
        part = allowed[i : i + step]
        phi = rows.take(part)
        u = phi @ v
        rho_sq = (phi - u @ v.T).square().sum(1)
        grows = rho_sq > torch.clamp(relative * phi.square().sum(1), min=tol)
        if grows.any() and not grown:
            grown, s = True, -1.0  # the rank can grow: what was found before is beaten
        tile = _Tile(u.square()[grows], rho_sq[grows], sq) if grown else _Tile(u.square(), None, sq)
        place, s_new = tile.best_above(s, rng)
        if place is not None:
            best, s = int((part[grows.numpy()] if grown else part)[place]), s_new
    return best


class _Tile:
    """Some rows by their u^2 (k, r) and rho^2 (k,), None where the rank does not grow, with the set's sigma^2 (r,)."""

    def __init__(self, u_sq: Tensor, rho_sq: Tensor | None, sq: Tensor) -> None:
        self.u_sq, self.rho_sq, self.sq = u_sq, rho_sq, sq
        if rho_sq is not None:
            self.low, self.high = 0.0, float(sq.min()) if len(sq) else float("inf")
        elif len(sq) > 1:
            self.low, self.high = float(sq[-1]), float(sq[-2])

    def best_above(self, s: float, rng: np.random.Generator) -> tuple[int | None, float]:
        """The place of the row with the largest root above s, and that root; None where there is none."""
        if len(self.sq) == 0 or (self.rho_sq is None and len(self.sq) == 1):
            # One direction in all: the eigenvalue is a sum of squares.
            values = self.u_sq.sum(1) if self.rho_sq is None else self.rho_sq
            if len(values) == 0 or float(values.max()) <= s:
                return None, s
            return int(values.argmax()), float(values.max())
        best = None
        alive = self._above(max(s, self.low), torch.arange(len(self.u_sq))) if s >= 0 else torch.arange(len(self.u_sq))
        while len(alive):
            some = alive[torch.from_numpy(rng.choice(len(alive), min(SAMPLE, len(alive)), replace=False))]
            roots = self._roots(some)
            top = int(roots.argmax())
            if float(roots[top]) > s:
                best, s = int(some[top]), float(roots[top])
            alive = self._above(s, alive[~torch.isin(alive, some)])
        return best, s

    def _secular(self, lam: Tensor, some: Tensor) -> Tensor:
        """Falls from positive to negative as lam (k,) passes the root of each row in `some` (k,)."""
        poles = (self.u_sq[some] / (self.sq - lam[:, None])).sum(1)
        return -(1 + poles) if self.rho_sq is None else self.rho_sq[some] - lam - lam * poles

    def _above(self, s: float, some: Tensor) -> Tensor:
        return some[self._secular(torch.full((len(some),), s, dtype=torch.float64), some) > 0]

    def _roots(self, some: Tensor) -> Tensor:
        """By bisection between the poles."""
        a = torch.full((len(some),), self.low, dtype=torch.float64)
        b = torch.full((len(some),), self.high, dtype=torch.float64)
        for _ in range(BISECTIONS):
            middle = (a + b) / 2
            above = self._secular(middle, some) > 0
            a, b = torch.where(above, middle, a), torch.where(above, b, middle)
        return a


def swap_until_stable(
    rows: GramRows,
    labelled: np.ndarray,
    batch: np.ndarray,
    unlabelled: np.ndarray,
    rng: np.random.Generator,
    max_memory: int = 2**28,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> np.ndarray:
    """`batch` improved by exchanging one row at a time, until nothing is gained or `PASSES` rounds are over.

    >>> rows = al.linalg.GramRows(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), bias=False)
    >>> rng = np.random.default_rng(0)
    >>> al.linalg.swap_until_stable(rows, np.array([0]), np.array([1]), np.array([1, 2]), rng)
    array([2])
    """
    batch = batch.copy()
    score = gram_score(rows.take(np.concatenate([labelled, batch])))
    for turn in range(PASSES):
        before = score
        for i in range(len(batch)):
            others = np.delete(batch, i)
            allowed = np.setdiff1d(unlabelled, others)
            new = add_best(rows, np.concatenate([labelled, others]), allowed, rng, max_memory)
            if new != batch[i]:
                trial = batch.copy()
                trial[i] = new
                trial_score = gram_score(rows.take(np.concatenate([labelled, trial])))
                if beats(trial_score, score):
                    batch, score = trial, trial_score
            progress(turn * len(batch) + i + 1, PASSES * len(batch))
        if not beats(score, before):
            break
    return batch
