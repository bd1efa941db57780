"""BADGE: k-means++ seeding on hallucinated last-layer gradients (Ash et al., ICLR 2020), factorised."""

import numpy as np

from askless.acquire.strategy import Selection, View, filled, working_type
from askless.base.options import options

TILE = 2**21  # bytes of features worked on at a time: what a processor's cache holds
ROWS = 2**15  # rows bounded at a time, at most
MARGIN = 1e-5  # for the rounding of bounds to float32


@options
class BADGE:
    """Diverse items with large gradients: D^2 sampling on g(x) = (onehot(y^) - p) (x) phi, y^ the predicted class.

    The first pick has the largest norm; each next one is drawn with probability proportional to its squared distance to
    the nearest pick. The N x (C d) embeddings are never formed: with u = onehot(y^) - p,
        ||g - g'||^2 = |u|^2 |phi|^2 + |u'|^2 |phi'|^2 - 2 (u.u') (phi.phi').
    A row comes nearer only if 2 |u.u'| |phi| |phi'| is large enough, so features are looked at only where u.u' allows it.
    Cost N C per pick and d for the rows that may come nearer, memory O(N) beside the arrays. Scores are the squared
    distances at the moment of choice (the squared norm for the first).

    >>> F, p = [[1.0], [1.0], [2.0]], [[0.9, 0.1], [0.5, 0.5], [0.5, 0.5]]
    >>> al.select(al.BADGE(), 1, features=F, probs=p).indices
    array([2])
    """

    name = "badge"
    needs = ("features", "probs")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        nearest = NearestPick(view["features"], view["probs"], view.unlabelled, view.max_memory)
        picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
        for i in range(n):
            picks[i] = nearest.longest() if i == 0 else nearest.draw(float(rng.random()))
            scores[i] = nearest.sq_norm[picks[i]] if i == 0 else nearest.sq[picks[i]]
            nearest.add(int(picks[i]))
            view.report(i + 1, n)
        return Selection(picks, scores)


def invert(ends: np.ndarray, target: float) -> int:
    """The position, never one without weight, at which the cumulative sum of weights passes `target`.

    >>> invert(np.cumsum([0.0, 3.0, 1.0]), 0.8 * 4)
    2
    """
    # side="right" passes over positions of zero weight, and the target stays below the last sum.
    return int(np.searchsorted(ends, min(target, np.nextafter(ends[-1], 0)), side="right"))


class NearestPick:
    """Squared distances of the gradients g = u (x) phi to the nearest pick, known by inner products of u and phi only.

    With a, b the norms of g and of a pick's g', g' is nearer to g than `sq` only if 2 (u.u') (phi.phi') > a^2 + b^2 - sq.
    """

    def __init__(self, features: np.ndarray, probs: np.ndarray, free: np.ndarray, max_memory: int) -> None:
        N, C = probs.shape
        self.features, self.probs = features, in_working_type(probs, max_memory // 2)
        self.free = np.zeros(N, dtype=bool)
        self.free[free] = True
        self.step = max(1, min(ROWS, max_memory // 4 // (8 * (C + 4))))
        self.rows = max(1, min(max_memory // 4, TILE) // (8 * features.shape[1]))  # of features at a time
        self.label = np.empty(N, dtype=np.int32)  # the predicted class
        self.sq_norm = np.empty(N)
        # Where no feature is negative, as after a ReLU, phi.phi' is not either, and u.u' < 0 brings nothing nearer.
        self.positive = True
        length = np.empty(N)  # |phi|
        for i in range(0, N, self.rows):
            part = slice(i, i + self.rows)
            u, phi = residual(probs[part]).astype(np.float64), features[part].astype(np.float64)
            phi_sq = np.einsum("ij,ij->i", phi, phi)
            self.positive = self.positive and bool(phi.min() >= 0)
            self.label[part] = probs[part].argmax(axis=1)
            length[part] = np.sqrt(phi_sq)
            self.sq_norm[part] = np.einsum("ij,ij->i", u, u) * phi_sq
        self.scale = float(length.max()) or 1.0  # bounds are in float32, which could not hold all squares
        self.length = (length * ((1 + MARGIN) / self.scale)).astype(np.float32)
        self.sq = np.full(N, np.inf)  # to the nearest pick
        self.weight = np.zeros(N)  # sq where free, else 0
        self.totals = np.zeros(-(-N // self.step))  # of the weights, tile by tile
        self.missing = np.full(N, -np.inf, dtype=np.float32)  # at most (a^2 - sq) / scale^2

    def longest(self) -> int:
        """The free row of the largest norm."""
        return int(np.where(self.free, self.sq_norm, -1.0).argmax())

    def draw(self, uniform: float) -> int:
        """A free position with probability proportional to `sq`, `uniform` in [0, 1): first its tile, then itself."""
        ends = np.cumsum(self.totals)
        if not ends[-1] > 0:  # everything left is a copy of something chosen: all are alike
            free = np.cumsum(self.free, dtype=np.float64)
            return invert(free, uniform * free[-1])
        target = uniform * ends[-1]
        tile = invert(ends, target)
        inside = np.cumsum(self.weight[tile * self.step : (tile + 1) * self.step])
        return tile * self.step + invert(inside, target - (ends[tile - 1] if tile else 0.0))

    def add(self, pick: int) -> None:
        """One more pick: `sq` of the rows that are nearer to it than to those before."""
        self.free[pick] = False
        u_pick, b_sq = residual(self.probs[pick : pick + 1])[0], float(self.sq_norm[pick])
        phi_pick = self.features[pick].astype(working_type(self.features))
        reach = 2 * float(self.length[pick])
        # u.u' = p.u' - u'_y^ loses digits for confident rows: good enough for the bound, with its rounding added.
        rounding = 2 * (len(u_pick) + 8) * float(np.finfo(u_pick.dtype).eps) * float(np.linalg.norm(u_pick))
        enough = np.float32(b_sq / self.scale**2 * (1 - MARGIN))
        for tile, i in enumerate(range(0, len(self.probs), self.step)):
            part = slice(i, i + self.step)
            most = self.probs[part] @ u_pick
            most -= u_pick[self.label[part]]
            if self.positive:
                np.maximum(most, 0, out=most)
            else:
                np.abs(most, out=most)
            most += rounding
            most *= self.length[part]
            most *= reach
            most -= self.missing[part]
            near = np.flatnonzero(most >= enough)
            for j in range(0, len(near), self.rows):
                self._update(near[j : j + self.rows] + i, u_pick, phi_pick, b_sq)
            if part.start <= pick < part.stop:
                self.sq[pick] = self.weight[pick] = 0.0
            self.totals[tile] = self.weight[part].sum()

    def _update(self, at: np.ndarray, u_pick: np.ndarray, phi_pick: np.ndarray, b_sq: float) -> None:
        u = self.probs[at].astype(u_pick.dtype, copy=False)  # indexing by positions has copied them
        u[np.arange(len(u)), self.label[at]] -= 1
        u_dot = (u @ u_pick).astype(np.float64)
        phi_dot = (self.features[at].astype(phi_pick.dtype, copy=False) @ phi_pick).astype(np.float64)
        sq = np.minimum(np.maximum(self.sq_norm[at] + b_sq - 2 * u_dot * phi_dot, 0), self.sq[at])
        self.sq[at] = sq
        self.weight[at] = np.where(self.free[at], sq, 0.0)
        self.missing[at] = (self.sq_norm[at] * (1 - MARGIN) - sq * (1 + MARGIN)) / self.scale**2


def residual(probs: np.ndarray) -> np.ndarray:
    """p - onehot(y^) (k, C), the gradient's own sign; p_y^ - 1 is taken first, so that a confident row keeps its digits.

    >>> residual(np.array([[0.25, 0.75]]))
    array([[ 0.25, -0.25]])
    """
    u: np.ndarray = probs.astype(working_type(probs), copy=True)
    u[np.arange(len(u)), u.argmax(axis=1)] -= 1
    return u


def in_working_type(probs: np.ndarray, room: int) -> np.ndarray:
    """Every pick looks at all probabilities: those in half precision, or in shards, are converted once where there is room
    for them. What is computed from them is the same."""
    dtype = working_type(probs)
    small_enough = np.dtype(dtype).itemsize * probs.shape[0] * probs.shape[1] <= room
    if not small_enough or (isinstance(probs, np.ndarray) and probs.dtype == dtype):
        return probs
    return filled(np.empty(probs.shape, dtype=dtype), ROWS, probs.__getitem__)
