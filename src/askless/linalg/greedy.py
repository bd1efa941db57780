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

from askless.linalg.gram import Rows, beats, gram_score, rank_tolerance

SAMPLE = 16  # rows solved exactly per record
BISECTIONS = 100


def add_best(
    rows: Rows, chosen: np.ndarray, allowed: np.ndarray, rng: np.random.Generator, max_memory: int = 2**28
) -> int:
    """The position among `allowed` whose row, added to the rows at `chosen`, gives the best (rank, eigenvalue)."""
    _, sigma, vh = torch.linalg.svd(rows.take(chosen), full_matrices=False)
    sq = sigma.square()
    tol = rank_tolerance(len(chosen) + 1, rows.width) * (float(sq.max()) if len(sq) else 0.0)
    keep = sq > tol
    sq, v = sq[keep], vh[keep].T  # (r,), (p, r)
    u_sq, rho_sq = _coordinates(rows, allowed, v, max_memory)
    if len(sq) == 0:
        return int(allowed[int(rho_sq.argmax())])

    grows = rho_sq > max(tol, rank_tolerance(1, rows.width) * float((rho_sq + u_sq.sum(1)).max()))
    if grows.any():
        alive = torch.nonzero(grows)[:, 0]

        def secular(lam: Tensor, some: Tensor) -> Tensor:  # decreasing in lam; positive = the root is above lam
            return rho_sq[some] - lam - lam * (u_sq[some] / (sq - lam[:, None])).sum(1)

        low, high = 0.0, float(sq.min())
    else:
        alive = torch.arange(len(allowed))
        if len(sq) == 1:  # one direction in all: the eigenvalue is the sum of squares
            return int(allowed[int(u_sq[:, 0].argmax())])

        def secular(lam: Tensor, some: Tensor) -> Tensor:
            return -(1 + (u_sq[some] / (sq - lam[:, None])).sum(1))

        low, high = float(sq[-1]), float(sq[-2])

    best = int(alive[0])
    s = low
    while len(alive):
        some = alive[torch.from_numpy(rng.choice(len(alive), min(SAMPLE, len(alive)), replace=False))]
        roots = _bisect(lambda lam, some=some: secular(lam, some), low, high, len(some))  # type: ignore[misc]
        top = int(roots.argmax())
        if float(roots[top]) > s:
            best, s = int(some[top]), float(roots[top])
        alive = _drop(alive, some)
        alive = alive[secular(torch.full((len(alive),), s, dtype=sq.dtype), alive) > 0]
    return int(allowed[best])


def swap_until_stable(
    rows: Rows,
    labelled: np.ndarray,
    batch: np.ndarray,
    unlabelled: np.ndarray,
    rng: np.random.Generator,
    passes: int = 3,
    max_memory: int = 2**28,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """`batch` improved by exchanging one row at a time, until nothing is gained or `passes` rounds are over."""
    batch = batch.copy()
    score = gram_score(rows.take(np.concatenate([labelled, batch])))
    for turn in range(passes):
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
            if progress is not None:
                progress(turn * len(batch) + i + 1, passes * len(batch))
        if not beats(score, before):
            break
    return batch


def _coordinates(rows: Rows, positions: np.ndarray, v: Tensor, max_memory: int) -> tuple[Tensor, Tensor]:
    """u^2 (k, r) and rho^2 (k,) of the rows at `positions`."""
    u_sq = torch.empty(len(positions), v.shape[1], dtype=torch.float64)
    rho_sq = torch.empty(len(positions), dtype=torch.float64)
    step = max(1, max_memory // (8 * 4 * rows.width))
    for i in range(0, len(positions), step):
        phi = rows.take(positions[i : i + step])
        u = phi @ v
        u_sq[i : i + step] = u.square()
        rho_sq[i : i + step] = (phi - u @ v.T).square().sum(1)
    return u_sq, rho_sq


def _bisect(f: Callable[[Tensor], Tensor], low: float, high: float, count: int) -> Tensor:
    """Roots of `count` functions that fall from positive to negative between low and high."""
    a = torch.full((count,), low, dtype=torch.float64)
    b = torch.full((count,), high, dtype=torch.float64)
    for _ in range(BISECTIONS):
        middle = (a + b) / 2
        above = f(middle) > 0
        a, b = torch.where(above, middle, a), torch.where(above, b, middle)
    return a


def _drop(positions: Tensor, gone: Tensor) -> Tensor:
    return positions[~torch.isin(positions, gone)]
