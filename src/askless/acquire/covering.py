"""Covering a pool by few of its items: greedy maximisation of sum_x w(x) max_s exp(-|x - s|^2 / h^2).

The sum is monotone and submodular: greedy reaches 1 - 1/e of the best at least, and what an item would add only falls as
others are chosen. So an old gain is a bound from above, and only the items with the largest bounds are looked at again (the
lazy greedy of Minoux, 1978, in blocks).

A pair of an item and a target counts only while the item is nearer to the target than all that was chosen: after i picks,
about one pair in i. So one matrix product looks at all pairs, those that count are kept (`Pairs`), and later looks are at
these alone. While almost nothing is covered they would be too many: the first picks are the best of those items that a
sample of the targets finds promising (`by_sample`). In pools of up to 2,896 items the sample is everything, and greedy is
exact.
"""

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from askless.acquire.strategy import drawn, filled, largest, largest_up_to_date, run_sums, runs, working_type

SAMPLE = 2**22  # numbers in the rows, 64 to 4,096 of them, that the mean and the main directions are taken from
PROBES = 512  # items that say how far a label must reach
CANDIDATES, PER_PICK = 2**16, 8  # candidates for the picks: at most, or for each pick
AGAIN = 64  # items that are looked at again at a time
TILE = 2**23  # bytes of likenesses at a time
SPARSE = 1 / 40  # the share of all pairs that may count when they are looked at
SAMPLED_ITEMS, SAMPLED_TARGETS = 2**14, 2**9  # what the first picks look at; everything, where that is fewer pairs
NEARBY = 32  # items of its cell that a pick may move to
MORE = 1e-4  # the share by which it must then cover more: less may be rounding
ZERO = -103.0  # exponents below it give 0 in float32
SAME = 1e-6  # squared distance of unit rows below which they count as equal: float32 knows no better
LEAST = 1e-4  # least h^2, so that SAME is small beside it


class Rows(Protocol):
    """The pool as `Cover` sees it: rows (k, w) of k positions in float32, of length 1 or 0."""

    features: np.ndarray

    def __call__(self, positions: np.ndarray) -> Tensor: ...


class UnitRows:
    """The rows of `features` (N, d), less `middle`, in the directions `main`, of unit length.

    A row whose entries are not above `least`, or that has nothing in these directions, is zero. Rows are held where they fit
    in `room` bytes, and else computed again on each access.
    """

    def __init__(
        self,
        features: np.ndarray,
        room: int,
        middle: np.ndarray | float = 0.0,
        least: float = 0.0,
        main: Tensor | None = None,
    ) -> None:
        self.features, self.middle, self.least, self.main = features, middle, least, main
        N, d = features.shape
        self.width = d if main is None else main.shape[1]
        self.held: Tensor | None = None
        if 4 * N * self.width <= room:
            held, step = torch.empty(N, self.width), max(1, 2**21 // (4 * d))
            for i in range(0, N, step):
                held[i : i + step] = self(np.arange(i, min(N, i + step)))
            self.held = held

    def __call__(self, positions: np.ndarray) -> Tensor:
        """(k, w) float32."""
        if self.held is not None:
            return self.held.index_select(0, torch.from_numpy(positions))
        x = scaled(less(self.features[positions], self.middle), self.least)
        whole = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        x = x if self.main is None else x @ self.main
        length = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        return x.div_(torch.where(length > SAME**0.5 * whole, length, torch.inf))


class Space(UnitRows):
    """The rows of `features` (N, d) around their mean, in their `directions` main directions, of unit length.

    The mean and the directions are those of `sample`, positions that may repeat; by default it is drawn.
    """

    def __init__(
        self,
        features: np.ndarray,
        directions: int,
        room: int,
        rng: np.random.Generator,
        sample: np.ndarray | None = None,
    ) -> None:
        N, d = features.shape
        m = min(N, max(64, min(4096, SAMPLE // d)))
        rows = np.asarray(features[drawn(N, m, rng) if sample is None else sample])
        middle = rows.mean(axis=0, dtype=np.float64)
        # Rows this near to the mean have no direction: what they have is rounding.
        spread = float(highest_entries(less(rows, middle)).median())
        least = max(1e-6 * spread, 1e-14 * float(np.abs(middle).max()))
        main = None
        if d > directions:
            unit = torch.nn.functional.normalize(scaled(less(rows, middle), least), dim=1)
            main = main_directions(unit, min(directions, len(rows)), rng)
        super().__init__(features, room, middle, least, main)


def less(rows: np.ndarray, middle: np.ndarray | float) -> Tensor:
    """rows (k, d) - middle, narrow ones in float32."""
    return torch.from_numpy(np.subtract(rows, middle, dtype=working_type(rows)))


def highest_entries(x: Tensor) -> Tensor:
    """The largest absolute entry of each row, (k, 1)."""
    return torch.maximum(x.amax(dim=1, keepdim=True), -x.amin(dim=1, keepdim=True))


def scaled(x: Tensor, least: float) -> Tensor:
    """The rows (k, d) in float32, divided by their largest entries so that they can be squared; 0 where none is above
    `least`."""
    largest = highest_entries(x)
    return x.div_(torch.where(largest > least, largest, torch.inf)).float()


def main_directions(x: Tensor, k: int, rng: np.random.Generator) -> Tensor:
    """(d, k) orthonormal columns that hold most of the rows (m, d): subspace iteration, near enough for distances."""
    basis = x[torch.from_numpy(rng.choice(len(x), k, replace=False))].T
    for _ in range(2):
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
        np.partition(sq_distances(rows[i : i + step], all_rows).numpy(), nearest - 1, axis=1)[:, nearest - 1]
        for i in range(0, len(rows), step)
    ]
    return float(np.concatenate(found).mean(dtype=np.float64))


def sq_distances(a: Tensor, b: Tensor) -> Tensor:
    """(k, m) between the rows of a (k, w) and b (m, w)."""
    out = torch.addmm(b.square().sum(dim=1), a, b.T, alpha=-2)
    return out.add_(a.square().sum(dim=1, keepdim=True)).clamp_(min=0)


class Cover:
    """How well each target is covered by what was added, from 0 to 1, the heavier ones counting more.

    `targets` ascend. Of every item that is looked at for later, the pairs that count are kept, as far as they fit in `room`
    bytes.
    """

    def __init__(self, space: Rows, targets: np.ndarray, weight: np.ndarray, reach_sq: float, room: int) -> None:
        self.space, self.targets, self.reach_sq, self.room = space, targets, reach_sq, room
        # -|a - b|^2 / h^2 = 2 a.b / h^2 - (1 + |b|^2) / h^2, or 1 / h^2 more where a = 0: one product gives the exponents.
        rows = space(targets)
        self.right = rows.T.mul(2 / reach_sq).contiguous()  # (w, m)
        self.constant = (SAME - 1 - rows.square().sum(dim=1)) / reach_sq
        self.weight = torch.from_numpy(weight / weight.sum()).float()
        self.best = torch.zeros(len(targets))
        self.drawn = len(targets) / len(space.features)  # the share of the pool that the targets are
        self.step = max(1, TILE // (4 * len(targets)))  # items at a time

    @property
    def share(self) -> float:
        """How much of all weight is covered, from 0 to 1."""
        return float(self.best.double() @ self.weight.double())

    def exponents(self, positions: np.ndarray) -> Tensor:
        """(k, m): -d^2 / h^2 between items and targets, above 0 where they are the same."""
        rows = self.space(positions)
        out = torch.addmm(self.constant, rows, self.right)
        zero = ~rows.any(dim=1)
        if zero.any():
            out[zero] += 1 / self.reach_sq
        return out

    def likeness(self, positions: np.ndarray) -> Tensor:
        """(k, m): exp(-d^2 / h^2)."""
        return self.exponents(positions).clamp_(max=0).exp_()

    def gains(self, positions: np.ndarray) -> np.ndarray:
        """(k,): the share of all weight that each item would newly cover."""
        return filled(
            np.empty(len(positions)),
            self.step,
            lambda some: self.new(self.likeness(positions[some]), positions[some]),
        )

    def new(self, likeness: Tensor, positions: np.ndarray) -> np.ndarray:
        """The same from their likenesses (k, m)."""
        return self.without_itself(((likeness - self.best).clamp_(min=0) @ self.weight).numpy(), positions)

    def without_itself(self, gains: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Where targets are drawn, one that is a candidate too must not count for all that it stands for by itself."""
        if self.drawn == 1:
            return gains
        own = np.searchsorted(self.targets, positions).clip(max=len(self.targets) - 1)
        itself = ((1 - self.best) * self.weight).numpy()[own] * (self.targets[own] == positions)
        return np.maximum(gains - (1 - self.drawn) * itself, 0)

    def add(self, positions: np.ndarray) -> np.ndarray:
        """Takes items in; which of the targets (m,) lie nearer to them than to any before."""
        before = self.best
        for i in range(0, len(positions), self.step):
            self.best = torch.maximum(self.best, self.likeness(positions[i : i + self.step]).amax(dim=0))
        return (self.best > before).numpy()


class Pairs:
    """The pairs of `items` (k,) and targets that count: where an item is nearer than all that a cover has by now.

    Those that count later are among them, so that they are all that need be looked at again. They are kept of as many items
    as there is room for; `missed` counts the looks at others. `gains` (k,) are those of now.
    """

    def __init__(self, cover: Cover, items: np.ndarray) -> None:
        self.cover, self.items, self.missed = cover, items, 0
        self.gains, self.kept = np.empty(len(items)), np.zeros(len(items), dtype=bool)
        self.ends = np.zeros(len(items) + 1, dtype=np.int64)  # item i has the pairs from ends[i] to ends[i + 1]
        most = cover.room // 8
        self.targets, self.likeness = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.float32)
        least = (cover.best.log() + SAME / cover.reach_sq).clamp_(min=ZERO)
        for i in range(0, len(items), cover.step):
            some = slice(i, min(i + cover.step, len(items)))
            exponents = cover.exponents(items[some])
            counts = (exponents > least).numpy()
            many, at = np.count_nonzero(counts, axis=1), np.flatnonzero(counts)
            alike = np.exp(np.minimum(exponents.numpy().ravel().take(at), 0))
            target = (at % exponents.shape[1]).astype(np.int32)
            self.gains[some] = self._sums(target, alike, many, items[some])
            self.kept[some] = self.ends[i] + len(at) <= most
            self.ends[i + 1 : some.stop + 1] = self.ends[i] + np.cumsum(many * self.kept[some])
            if self.kept[i]:
                pairs = slice(self.ends[i], self.ends[some.stop])
                self.targets[pairs], self.likeness[pairs] = target, alike

    def again(self, some: np.ndarray) -> np.ndarray:
        """The gains by now of the items at `some`."""
        out, kept = np.empty(len(some)), self.kept[some]
        at, many = runs(self.ends, some[kept])
        out[kept] = self._sums(self.targets.take(at), self.likeness.take(at), many, self.items[some[kept]])
        out[~kept] = self.cover.gains(self.items[some[~kept]])
        self.missed += np.count_nonzero(~kept)
        return out

    def take(self, i: int) -> np.ndarray:
        """The cover takes in item i; the targets that lie nearer to it than to any before."""
        if not self.kept[i]:
            return np.flatnonzero(self.cover.add(self.items[i : i + 1]))
        pairs = slice(self.ends[i], self.ends[i + 1])
        best, target, alike = self.cover.best.numpy(), self.targets[pairs], self.likeness[pairs]
        nearer = alike > best[target]
        best[target[nearer]] = alike[nearer]
        return target[nearer]

    def _sums(self, target: np.ndarray, alike: np.ndarray, many: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Gains of items of which each has so `many` of the pairs."""
        new = np.maximum(alike - self.cover.best.numpy().take(target), 0)
        new *= self.cover.weight.numpy().take(target)
        return self.cover.without_itself(run_sums(new, many), items)


class Pick(NamedTuple):
    item: int
    gain: float
    nearer: np.ndarray  # the targets that are nearer to it than to any before


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
    """The n of the `allowed` positions that cover most, one after the other, equals at random; the cover has them then.

    Above CANDIDATES positions, or PER_PICK for each of the n, that number is drawn.
    """
    allowed = allowed[drawn(len(allowed), max(CANDIDATES, PER_PICK * n), rng)]
    items, gains = np.empty(n, dtype=np.int64), np.empty(n)
    nearest = np.full(len(cover.best), n)
    for i, pick in enumerate(islice(one_by_one(cover, allowed, rng), n)):
        items[i], gains[i], nearest[pick.nearer] = pick.item, pick.gain, i
        report(i + 1, n)
    return Picks(items, gains, nearest)


def one_by_one(cover: Cover, allowed: np.ndarray, rng: np.random.Generator) -> Iterator[Pick]:
    """The item that covers most, again and again; the cover has it then."""
    first = []
    for pick in by_sample(cover, allowed, rng):
        first.append(pick.item)
        yield pick
    allowed = allowed[~np.isin(allowed, first)]
    pairs = Pairs(cover, allowed)
    bound, ties = pairs.gains, rng.random(len(allowed))
    known = np.zeros(len(allowed), dtype=np.int64)  # how many of the picks the bound knows
    for i in count():
        if pairs.missed > len(allowed):  # fewer pairs count by now: there is room for those of more items
            del pairs  # its memory is free before more is taken
            pairs = Pairs(cover, allowed)
            bound, known[:] = np.minimum(bound, pairs.gains), i
        top = largest_up_to_date(bound, known, i, ties, pairs.again, AGAIN)
        yield Pick(int(allowed[top]), float(bound[top]), pairs.take(top))
        bound[top] = -np.inf


def by_sample(cover: Cover, allowed: np.ndarray, rng: np.random.Generator) -> Iterator[Pick]:
    """The same while too many pairs count to keep them: of the items that cover most of a sample of the targets, drawn by
    weight, the one that covers most of all targets. In small pools the sample is all there is."""
    p = cover.weight.double().numpy()
    few, weight, most = np.arange(len(p)), p, len(allowed)
    if len(allowed) * len(p) > SAMPLED_ITEMS * SAMPLED_TARGETS:
        few, weight = np.unique(rng.choice(len(p), SAMPLED_TARGETS, p=p / p.sum()), return_counts=True)
        most = SAMPLED_ITEMS
    sample = Cover(cover.space, cover.targets[few], weight, cover.reach_sq, 0)
    some = rng.permutation(allowed[drawn(len(allowed), most, rng)])  # so that equals have equal chances
    alike = torch.cat([sample.likeness(some[i : i + sample.step]) for i in range(0, len(some), sample.step)])
    free = np.ones(len(some), dtype=bool)
    while free.any():
        sample.best = cover.best[few]
        if float((alike[::16] > sample.best * (1 + SAME / cover.reach_sq)).float().mean()) <= SPARSE:
            return
        guess = filled(np.empty(len(some)), 256, lambda at: sample.new(alike[at], some[at]))
        top = largest(np.where(free, guess, -np.inf), AGAIN)
        gains = np.where(free[top], cover.gains(some[top]), -np.inf)
        best = rng.choice(top[gains == gains.max()])
        free[best] = False
        yield Pick(int(some[best]), float(gains.max()), np.flatnonzero(cover.add(some[best : best + 1])))


def settled(cover: Cover, before: Tensor, items: np.ndarray, near: np.ndarray, rounds: int) -> np.ndarray:
    """The picks `items` (n,) after each has moved, in that many rounds at most, to where it covers more beside the others.

    Greedy takes its first picks as if no others followed: in the middle of everything. A pick moves within its cell, the
    targets that it covers best: to the best of `near` (m,), the items at the targets (-1: none that may be picked), of which
    the NEARBY that cover most of the cell are tried on all targets. So coverage, as greedy estimates it, never falls.
    `before` (m,) is what was covered before the picks; the cover is left with that.
    """
    items, alike = items.copy(), cover.likeness(items)  # (n, m)
    for _ in range(rounds):
        old = items.copy()
        for j in range(len(items)):
            cover.best = torch.cat([before[None], alike[:j], alike[j + 1 :]]).amax(dim=0)
            cell = (alike[j] > cover.best).numpy()
            found = near[cell & (near >= 0) & ~np.isin(near, items)]
            if len(found) > NEARBY:
                part = Cover(cover.space, cover.targets[cell], cover.weight[cell].double().numpy(), cover.reach_sq, 0)
                part.best, part.drawn = cover.best[cell], cover.drawn
                found = found[largest(part.gains(found), NEARBY)]
            gains = cover.gains(np.append(found, items[j]))
            if gains.max() > gains[-1] * (1 + MORE):
                items[j] = found[gains.argmax()]
                alike[j] = cover.likeness(items[j : j + 1])[0]
        if np.array_equal(items, old):
            break
    cover.best = before.clone()
    return items
