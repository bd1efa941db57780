"""ProbCover: the balls of one radius that cover most of the pool (Yehuda et al., NeurIPS 2022)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askless.acquire.clusters import Centred, cluster_of_each, k_means_seed
from askless.acquire.strategy import Selection, View, drawn, largest_up_to_date, run_sums, runs
from askless.base.options import Count, NotNegative, Several, Share, options

CLASSES = 10  # where nobody knows how many there are
PROBES = 2048  # items whose balls say how large a radius is pure enough
AGAIN = 128  # items whose counts are brought up to date in one product, to begin with
TILE = 2**25  # bytes of rows and distances at a time
SAME = 4e-6  # of the squared lengths: what float32 cannot tell from 0 in a squared distance


@options
class ProbCover:
    """Made for the first labels: the item with the most uncovered items in its ball, again and again. What lies in the
    ball of a labelled or chosen item is covered.

    `delta` is the radius. None finds it as the paper does: the largest one at which a share `alpha` of the balls is
    pure, that is, holds items of one k-means cluster only, with as many clusters as there are `classes`. None takes as many
    as are known: from the loop, else from the columns of probabilities, else from the labels; 10 where nothing is known,
    which `info["note"]` says. `normalize`: rows of unit length, as in the paper, so that distances go from 0 to 2. What is
    covered is counted among `targets` items drawn at random, or all items in pools that are not larger.

    A target is taken out of an item's count at most once, so all picks together cost at most what the first counts do.
    Scores are the numbers of targets that each pick newly covers. `info`: `delta`, and the share `covered` in the end;
    once all is covered the picks are random. k-means needs two float32 copies of the features of pools of up to 50,000
    items.

    >>> F = [[0.0], [0.4], [0.8], [5.0]]
    >>> picks = al.select(al.ProbCover(delta=0.5, normalize=False), 1, features=F)
    >>> picks.indices, picks.info["covered"]  # item 1 covers three of four
    (array([1]), 0.75)
    """

    delta: NotNegative | None = None
    alpha: Share = 0.95
    classes: Several | None = None
    normalize: bool = True
    targets: Count = 8192
    name = "probcover"
    needs = ("features",)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        x = Centred(view["features"], self.normalize, view.max_memory)
        unit = 1.0 if x.unit is None else float(x.unit)
        delta = first_radius(x, self.delta, self.alpha, self.classes or view.classes, rng, view.max_memory)
        balls = Balls(x, view.unlabelled, drawn(view.N, self.targets, rng), delta, view.max_memory)
        balls.cover_by(view.labelled)
        balls.count()
        ties = rng.random(len(view.unlabelled))
        picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
        for i in range(n):
            best = balls.find(ties)
            picks[i], scores[i] = view.unlabelled[best], balls.degree[best]
            balls.take(best)
            view.report(i + 1, n)
        info: dict[str, Any] = {"delta": float(delta) * unit, "covered": float(balls.covered.mean())}
        notes = []
        if self.delta is None and self.classes is None and view.classes is None:
            notes.append(f"the number of classes is unknown, so {CLASSES} is assumed; pass ProbCover(classes=...)")
        if scores[-1] <= 0:
            late = int((scores <= 0).sum())
            notes.append(
                f"all is covered at delta = {delta * unit:.4g}, so the last {late} picks are random; use a smaller delta"
            )
        if notes:
            info["note"] = "; ".join(notes)
        return Selection(picks, scores, info)


class Balls:
    """How many of the targets that are not yet covered lie within `delta` of each of the `allowed` items: `degree`.

    Degrees only fall, so an old one is a bound from above. Those that are the largest are brought up to date until the
    largest of all is: from the targets in each ball, which are kept where looking at all of them fits in half of the memory,
    else by a product with the targets that were covered since.
    """

    def __init__(self, x: Centred, allowed: np.ndarray, targets: np.ndarray, delta: float, max_memory: int) -> None:
        self.x, self.allowed, self.targets, self.delta, self.max_memory = x, allowed, targets, delta, max_memory
        self.covered = np.zeros(len(targets), dtype=bool)
        self.degree = np.zeros(len(allowed))
        self.news = np.empty(0, dtype=np.int64)  # targets in the order in which they were covered since the count
        self.heard = np.zeros(len(allowed), dtype=np.int64)  # how many of the news each degree knows
        # Where targets are drawn, one that may be chosen must not count for all that it stands for by itself.
        self.counts_itself = len(targets) == len(x)
        self.kept: tuple[np.ndarray, np.ndarray] | None = None  # the targets in all balls, and where each ball's end

    def cover_by(self, centres: np.ndarray, radii: np.ndarray | None = None) -> np.ndarray:
        """Marks the targets in the balls of these items, of `radii` (k,) in place of delta; those that were not covered
        before."""
        open_ = np.flatnonzero(~self.covered)
        found = np.zeros(len(open_), dtype=bool)
        for i in range(0, len(centres), 512):
            c = torch.from_numpy(self.x[centres[i : i + 512]])
            delta = self.delta if radii is None else torch.from_numpy(radii[i : i + 512])
            for j, rows in tiles(self.x, self.targets[open_], len(c), self.max_memory):
                found[j : j + len(rows)] |= within(rows, c, delta).any(dim=1).numpy()
        self.covered[open_[found]] = True
        return open_[found]

    def count(self) -> None:
        """All degrees."""
        items, open_ = np.arange(len(self.allowed)), np.flatnonzero(~self.covered)
        balls: list[np.ndarray] = []
        room, fits = self.max_memory // 64, len(open_) > 0  # some 30 bytes for each pair that is looked at
        for some, which, near in self._looks(items, open_):
            many = np.count_nonzero(near, axis=1)
            self.degree[some] += many
            room -= int(many.sum())
            fits &= room >= 0 and len(which) == len(open_)  # a look at some of the targets is no ball yet
            if fits:
                balls.append((np.flatnonzero(near) % len(which)).astype(np.int32))
        if fits:
            self.kept = (
                open_.astype(np.int32)[np.concatenate(balls)],
                np.append(0, np.cumsum(self.degree.astype(np.int64))),
            )

    def find(self, ties: np.ndarray) -> int:
        """Which of the allowed items has the largest degree, equals by `ties`; its degree is up to date."""
        return largest_up_to_date(self.degree, self.heard, len(self.news), ties, self._renewed, AGAIN, growth=2)

    def _renewed(self, items: np.ndarray) -> np.ndarray:
        """Their degrees, less the targets that they have not heard of."""
        heard, degree = self.heard[items], self.degree[items]
        for last in np.unique(heard):
            alike = heard == last
            degree[alike] -= self.how_many(items[alike], self.news[last:])
        return degree

    def take(self, i: int) -> None:
        """The i-th allowed item is chosen: what is in its ball is covered and no longer counts for anybody."""
        self.news = np.append(self.news, self.cover_with(i))
        self.degree[i] = -np.inf

    def cover_with(self, i: int) -> np.ndarray:
        """Marks the targets in the ball of the i-th allowed item; those that were not covered before."""
        if self.kept is None:
            return self.cover_by(self.allowed[i : i + 1])
        found = self.kept[0][runs(self.kept[1], np.array([i]))[0]]
        found = np.union1d(found, np.flatnonzero(self.targets == self.allowed[i]))
        found = found[~self.covered[found]]
        self.covered[found] = True
        return found

    def how_many(self, items: np.ndarray, which: np.ndarray) -> np.ndarray:
        """How many of the targets at `which` lie in the balls of the allowed items at `items`, (k,)."""
        if self.kept is not None:
            among = np.zeros(len(self.targets), dtype=bool)
            among[which] = True
            at, many = runs(self.kept[1], items)
            return run_sums(among[self.kept[0][at]], many)
        out = np.zeros(len(items))
        for some, _, near in self._looks(items, which):
            out[some] += np.count_nonzero(near, axis=1)
        return out

    def _looks(self, items: np.ndarray, which: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Some of the items, some of `which`, and whether these targets lie in their balls, (k, m)."""
        step, which = max(1, self.max_memory // (16 * self.x.features.shape[1])), np.sort(which)
        for i in range(0, len(which), step):
            at = self.targets[which[i : i + step]]
            c = torch.from_numpy(self.x[at])
            for j, rows in tiles(self.x, self.allowed[items], len(c), self.max_memory):
                some = slice(j, j + len(rows))
                near = within(rows, c, self.delta).numpy()
                if not self.counts_itself:
                    own = np.searchsorted(at, self.allowed[items[some]]).clip(max=len(at) - 1)
                    near[np.arange(len(own)), own] &= at[own] != self.allowed[items[some]]
                yield some, which[i : i + step], near


def tiles(x: Centred, positions: np.ndarray, columns: int, max_memory: int) -> Iterator[tuple[int, Tensor]]:
    """(start, rows) of a few positions at a time, so that their distances to that number of others fit."""
    row = 4 * (2 * x.features.shape[1] + 3 * columns)
    step = max(1, min(max_memory // 2, TILE) // row)
    for i in range(0, len(positions), step):
        yield i, torch.from_numpy(x[positions[i : i + step]])


def sq_distances(a: Tensor, b: Tensor) -> Tensor:
    """(k, m) between the rows of a (k, d) and b (m, d); 0 where float32 cannot tell them apart."""
    lengths = a.square().sum(dim=1, keepdim=True) + b.square().sum(dim=1)
    sq = torch.addmm(lengths, a, b.T, alpha=-2)
    return sq.masked_fill_(sq <= SAME * lengths, 0)


def within(a: Tensor, b: Tensor, delta: float | Tensor) -> Tensor:
    """(k, m) bool: whether the distance of the rows is at most delta, or that of each row of b (m,)."""
    # |a - b|^2 <= delta^2 where a.b - (|b|^2 - delta^2) / 2 >= |a|^2 / 2: one product and one comparison.
    a_sq, b_sq = (torch.linalg.vector_norm(x, dim=1).square() for x in (a, b))
    sq = torch.as_tensor(delta, dtype=torch.float64).square().float()
    near = torch.addmm((sq - b_sq) / 2, a, b.T) >= a_sq[:, None] / 2
    if bool((sq < SAME * (a_sq.max() + b_sq.max())).any()):
        near |= sq_distances(a, b) == 0
    return near


def first_radius(
    x: Centred, delta: float | None, alpha: float, classes: int | None, rng: np.random.Generator, max_memory: int
) -> float:
    """The radius `delta` in units of x, or the largest that is pure enough of the k-means clusters."""
    if delta is not None:
        return float(delta / (1.0 if x.unit is None else float(x.unit)))
    clusters = min(max(2, classes or CLASSES), len(x))
    return pure_radius(x, cluster_of_each(x, clusters, k_means_seed(rng)), alpha, rng, max_memory)


def pure_radius(x: Centred, cluster: np.ndarray, alpha: float, rng: np.random.Generator, max_memory: int) -> float:
    """The largest radius at which at least a share `alpha` of the balls holds items of one cluster only.

    A ball is pure while it does not reach the nearest item of another cluster; so the radius lies just below the
    (1 - alpha)-quantile of these distances. They are taken of all items, or of `PROBES` drawn ones. Infinite where there is
    one cluster only.
    """
    N = len(x)
    probes = drawn(N, PROBES, rng)
    reach = np.full(len(probes), np.inf)
    for i in range(0, len(probes), 512):
        some = probes[i : i + 512]
        c = torch.from_numpy(x[some])
        nearest = torch.full((len(some),), torch.inf)
        for j, rows in tiles(x, np.arange(N), len(some), max_memory):
            same = torch.from_numpy(cluster[j : j + len(rows), None] == cluster[some])
            torch.minimum(nearest, sq_distances(rows, c).masked_fill_(same, torch.inf).amin(dim=0), out=nearest)
        reach[i : i + 512] = nearest.double().sqrt().numpy()
    reach.sort()
    impure = min(int((1 - alpha) * len(reach) + 1e-9), len(reach) - 1)  # balls that may be impure
    return float(reach[impure] * (1 - 1e-4))
