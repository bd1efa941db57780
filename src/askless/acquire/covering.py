"""Covering a pool by few of its items: greedy maximisation of sum_x w(x) max_s exp(-|x - s|^2 / h^2).

The sum is monotone and submodular: greedy reaches 1 - 1/e of the best at least, and what an item would add only falls as
others are chosen. So an old gain is a bound from above, and only the items with the largest bounds are looked at again (the
lazy greedy of Minoux, 1978, in blocks).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from askless.acquire.strategy import drawn, filled, largest

SAMPLE = 2**22  # numbers in the rows, 64 to 4,096 of them, that the mean and the main directions are taken from
PROBES = 512  # items that say how far a label must reach
AGAIN = 64  # items that are looked at again in one product
NEAR = 2**16  # numbers among which the highest are looked for, before all are
TILE = 2**21  # bytes of likenesses at a time: what stays in the processor's cache
SAME = 1e-6  # squared distance of unit rows below which they count as equal: float32 knows no better
LEAST = 1e-4  # least h^2, so that SAME is small beside it


class Rows(Protocol):
    """The pool as `Cover` sees it: rows (k, w) in float32 of k positions."""

    features: np.ndarray

    def __call__(self, positions: np.ndarray) -> Tensor: ...


class UnitRows:
    """The rows of `features` (N, d) by their lengths; those of zeros stay. Held where they fit in `room` bytes."""

    def __init__(self, features: np.ndarray, room: int) -> None:
        self.features = features
        N, self.width = features.shape
        self.held: Tensor | None = None
        if 4 * N * self.width <= room:
            step = max(1, 2**22 // (8 * self.width))
            self.held = torch.cat([self(np.arange(i, min(N, i + step))) for i in range(0, N, step)])

    def __call__(self, positions: np.ndarray) -> Tensor:
        """(k, d) float32."""
        if self.held is not None:
            return self.held[torch.from_numpy(positions)]
        rows = np.asarray(self.features[positions], dtype=np.float64)
        largest = np.abs(rows).max(axis=1, keepdims=True)  # the square of 1e-200 would be 0
        rows = rows / np.where(largest > 0, largest, 1.0)
        return torch.nn.functional.normalize(torch.from_numpy(rows), dim=1).float()


class Space:
    """The rows of `features` (N, d) around their mean, in their `directions` main directions, of unit length.

    They are held where they fit in `room` bytes, and else made anew whenever they are asked for. The mean and the directions
    are those of `sample`, positions that may repeat; by default it is drawn.
    """

    def __init__(
        self,
        features: np.ndarray,
        directions: int,
        room: int,
        rng: np.random.Generator,
        sample: np.ndarray | None = None,
    ) -> None:
        self.features = features
        N, d = features.shape
        m = min(N, max(64, min(4096, SAMPLE // d)))
        rows = np.asarray(features[drawn(N, m, rng) if sample is None else sample], dtype=np.float64)
        self.middle = rows.mean(axis=0)
        # Rows this near to the mean have no direction: what they have is rounding.
        spread = float(np.median(np.abs(rows - self.middle).max(axis=1)))
        self.least = max(1e-6 * spread, 1e-14 * float(np.abs(self.middle).max()))
        self.main: Tensor | None = None
        if d > directions:
            self.main = main_directions(self._unit(rows), min(directions, len(rows)), rng)
        self.width = d if self.main is None else self.main.shape[1]
        self.held: Tensor | None = None
        if 4 * N * self.width <= room:
            step = max(1, 2**22 // (8 * d))
            self.held = torch.cat([self(np.arange(i, min(N, i + step))) for i in range(0, N, step)])

    def __call__(self, positions: np.ndarray) -> Tensor:
        """(k, w) float32; a row at the mean is zero."""
        if self.held is not None:
            return self.held[torch.from_numpy(positions)]
        rows = self._unit(np.asarray(self.features[positions], dtype=np.float64))
        if self.main is None:
            return rows
        rows = rows @ self.main
        sq = rows.square().sum(dim=1, keepdim=True)
        return torch.where(sq > SAME, rows / sq.sqrt().clamp(min=SAME), 0.0)

    def _unit(self, rows: np.ndarray) -> Tensor:
        rows = rows - self.middle
        largest = np.abs(rows).max(axis=1, keepdims=True)  # float32 could not square every number that float64 has
        rows = np.where(largest > self.least, rows / np.where(largest > 0, largest, 1.0), 0.0)
        return torch.nn.functional.normalize(torch.from_numpy(rows), dim=1).float()


def main_directions(x: Tensor, k: int, rng: np.random.Generator) -> Tensor:
    """(d, k) orthonormal columns that hold most of the rows (m, d): subspace iteration, near enough for distances."""
    basis = torch.from_numpy(rng.standard_normal((x.shape[1], k), dtype=np.float32))
    for _ in range(3):
        basis = torch.linalg.qr(x.T @ (x @ basis)).Q
    return basis


def reach_sq(space: Space, targets: np.ndarray, labels: int, rng: np.random.Generator) -> float:
    """h^2: the mean squared distance from an item to the (m / labels)-th nearest of the m targets.

    That is how far a label must reach where `labels` of them are to stand for all. The mean, not the median: where more than
    half of a pool are copies, these need no reach, but the others do.
    """
    some = rng.choice(targets, min(PROBES, len(targets)), replace=False)
    nearest = min(len(targets), 1 + max(1, round(len(targets) / labels)))  # the nearest is the item itself
    rows, all_rows = space(some), space(targets)
    step = max(1, TILE // (4 * len(targets)))
    found = [
        sq_distances(rows[i : i + step], all_rows).kthvalue(nearest, dim=1).values for i in range(0, len(rows), step)
    ]
    return float(torch.cat(found).double().mean())


def sq_distances(a: Tensor, b: Tensor) -> Tensor:
    """(k, m) between the rows of a (k, w) and b (m, w)."""
    out = torch.addmm(b.square().sum(dim=1), a, b.T, alpha=-2)
    return out.add_(a.square().sum(dim=1, keepdim=True)).clamp_(min=0)


class Cover:
    """How well each target is covered by what was added, from 0 to 1, the heavier ones counting more.

    The likenesses of items that are looked at more than once are kept, as far as they fit in `room` bytes.
    """

    def __init__(self, space: Rows, targets: np.ndarray, weight: np.ndarray, reach_sq: float, room: int) -> None:
        self.space, self.slack = space, SAME / reach_sq
        rows = space(targets)
        # exp(-|a - b|^2 / h^2) = exp([a, |a|^2, 1] . [2 b, -1, -|b|^2] / h^2): one product gives the exponents.
        self.right = torch.empty(rows.shape[1] + 2, len(rows))
        torch.mul(rows.T, 2 / reach_sq, out=self.right[:-2])
        self.right[-2] = -1 / reach_sq
        torch.mul(rows.square().sum(dim=1), -1 / reach_sq, out=self.right[-1])
        self.weight = torch.from_numpy(weight / weight.sum()).float()
        self.best = torch.zeros(len(targets))
        N = len(space.features)
        self.target = np.full(N, -1)  # which target an item is
        self.target[targets] = np.arange(len(targets))
        self.kept = torch.empty(min(room // (4 * len(targets)), N), len(targets))
        self.place = np.full(N, -1)  # where in `kept` an item is
        self.used = 0

    @property
    def share(self) -> float:
        """How much of all weight is covered, from 0 to 1."""
        return float(self.best.double() @ self.weight.double())

    def likeness(self, positions: np.ndarray) -> Tensor:
        """(k, m): exp(-d^2 / h^2) between items and targets."""
        rows = self.space(positions)
        left = torch.cat([rows, rows.square().sum(dim=1, keepdim=True), torch.ones(len(rows), 1)], dim=1)
        return (left @ self.right).add_(self.slack).clamp_(max=0).exp_()

    def gains(self, positions: np.ndarray) -> np.ndarray:
        """(k,): the share of all weight that each item would newly cover."""
        step = max(1, TILE // (4 * len(self.best)))
        return filled(
            np.empty(len(positions)), step, lambda some: self._new(self.likeness(positions[some]), positions[some])
        )

    def gains_again(self, positions: np.ndarray) -> np.ndarray:
        """The same, for items that will be looked at again."""
        unknown = positions[self.place[positions] < 0][: len(self.kept) - self.used]
        if len(unknown):
            now = self.used + len(unknown)
            self.kept[self.used : now], self.place[unknown] = self.likeness(unknown), np.arange(self.used, now)
            self.used = now
        out, place = np.empty(len(positions)), self.place[positions]
        known = place >= 0
        out[known] = self._new(self.kept[torch.from_numpy(place[known])], positions[known])
        out[~known] = self.gains(positions[~known])
        return out

    def add(self, positions: np.ndarray) -> np.ndarray:
        """Takes items in; which of the targets (m,) lie nearer to them than to any before."""
        before = self.best
        step = max(1, TILE // (4 * len(self.best)))
        for i in range(0, len(positions), step):
            self.best = torch.maximum(self.best, self.likeness(positions[i : i + step]).amax(dim=0))
        return (self.best > before).numpy()

    def _new(self, likeness: Tensor, positions: np.ndarray) -> np.ndarray:
        new = likeness.sub_(self.best).clamp_(min=0) @ self.weight
        if len(self.best) < len(self.target):
            # Where targets are drawn, one that is a candidate too must not count for all that it stands for by itself.
            own = torch.from_numpy(self.target[positions])
            itself = torch.where(own >= 0, (1 - self.best[own]) * self.weight[own], 0.0)
            new = (new - (1 - len(self.best) / len(self.target)) * itself).clamp_(min=0)
        return new.numpy()


class Picks(NamedTuple):
    items: np.ndarray  # (n,) positions
    gains: np.ndarray  # (n,) the share of all weight that each newly covered
    nearest: np.ndarray  # (m,) which of the n picks lies nearest to each target in the end; n: something from before

    def stands_for(self, counts: np.ndarray) -> list[int]:
        """How many items lie nearest to each pick, where targets stand for `counts` (m,)."""
        n = len(self.items)
        return np.round(np.bincount(self.nearest, counts, minlength=n + 1)[:n]).astype(int).tolist()


def greedy(
    cover: Cover, allowed: np.ndarray, n: int, rng: np.random.Generator, report: Callable[[int, int], None]
) -> Picks:
    """The n of the `allowed` positions that cover most, one after the other, equals at random; the cover has them then."""
    bound = np.empty(len(allowed))
    step = max(AGAIN, len(allowed) // 50)
    for i in range(0, len(allowed), step):
        bound[i : i + step] = cover.gains(allowed[i : i + step])
        report(i * n // (2 * len(allowed)), n)
    known = np.zeros(len(allowed), dtype=np.int64)  # how many of the picks the bound knows
    items, gains = np.empty(n, dtype=np.int64), np.empty(n)
    nearest = np.full(len(cover.best), n)
    high = Highest(bound, min(AGAIN, len(allowed)))
    for i in range(n):
        while known[top := high.top(rng)] < i:
            some = high.positions()
            some = np.union1d(some[(known[some] < i) & (bound[some] > -np.inf)], top)
            bound[some], known[some] = np.minimum(bound[some], cover.gains_again(allowed[some])), i
            if bound[top] == bound[high.near()].max():
                break
        items[i], gains[i] = allowed[top], bound[top]
        nearest[cover.add(allowed[top : top + 1])] = i
        bound[top] = -np.inf
        report((n + i + 1) // 2, n)
    return Picks(items, gains, nearest)


class Highest:
    """The highest `many` of numbers that only ever fall, without looking at all of them each time.

    `near` has the positions of the highest NEAR of them when it was made. As long as `many` of these are above all others,
    the highest are among them.
    """

    def __init__(self, numbers: np.ndarray, many: int) -> None:
        self.numbers, self.many = numbers, many
        self._renew()

    def near(self) -> np.ndarray:
        """Positions, ascending, with all of the highest `many` among them, and all that are equal to the highest."""
        if self._others > -np.inf and np.count_nonzero(self.numbers[self._near] > self._others) < self.many:
            self._renew()
        return self._near

    def positions(self) -> np.ndarray:
        """Of the highest `many`."""
        near = self.near()
        return near[largest(self.numbers[near], self.many)]

    def top(self, rng: np.random.Generator) -> int:
        """Of the highest, equals at random."""
        near = self.near()
        values = self.numbers[near]
        equals = near[values == values.max()]
        return int(equals[0] if len(equals) == 1 else rng.choice(equals))

    def _renew(self) -> None:
        N = len(self.numbers)
        self._near, self._others = np.arange(N), -np.inf  # the highest of the others
        if N > NEAR:
            parted = np.argpartition(self.numbers, N - NEAR)
            near, others = np.sort(parted[N - NEAR :]), self.numbers[parted[: N - NEAR]].max()
            if np.count_nonzero(self.numbers[near] > others) >= self.many:
                self._near, self._others = near, float(others)
