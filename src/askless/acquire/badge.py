"""BADGE: k-means++ seeding on hallucinated last-layer gradients (Ash et al., ICLR 2020), factorised."""

import numpy as np

from askless.acquire.strategy import Selection, View
from askless.options import options


@options
class BADGE:
    """Diverse items with large gradients: D^2 sampling on g(x) = (onehot(y^) - p) (x) phi, y^ the predicted class.

    The first pick has the largest norm; each next one is drawn with probability proportional to its squared distance to
    the nearest pick. The N x (C d) embeddings are never formed: with u = onehot(y^) - p,
        ||g - g'||^2 = |u|^2 |phi|^2 + |u'|^2 |phi'|^2 - 2 (u.u') (phi.phi').
    Cost N (C + d) per pick, memory O(N) beside the arrays (and u itself where `max_memory` has room for it). Scores are the
    squared distances at the moment of choice (the squared norm for the first).
    """

    name = "badge"
    needs = ("features", "probs")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        gradients = GradientEmbeddings(view["features"], view["probs"], view.max_memory)
        picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
        free = np.zeros(view.N, dtype=bool)
        free[view.unlabelled] = True
        nearest_sq = np.full(view.N, np.inf)
        for i in range(n):
            weights = np.where(free, gradients.sq_norm if i == 0 else nearest_sq, -1.0)
            pick = int(weights.argmax()) if i == 0 else draw(weights, free, float(rng.random()))
            picks[i], scores[i] = pick, weights[pick]
            np.minimum(nearest_sq, gradients.sq_distance_to(pick), out=nearest_sq)
            free[pick] = False
            view.report(i + 1, n)
        return Selection(picks, scores)


def draw(weights: np.ndarray, free: np.ndarray, uniform: float) -> int:
    """A free position with probability proportional to its weight, by inverting the cumulative sum at `uniform` in [0, 1).

    Where all weights are zero (everything left is a copy of something chosen) all free positions are alike.

    >>> draw(np.array([0.0, 3.0, 1.0]), np.array([True, True, True]), 0.8)
    2
    """
    total = np.cumsum(np.where(free, weights, 0.0))
    if not total[-1] > 0:
        total = np.cumsum(free.astype(np.float64))
    # side="right" passes over positions of zero weight, and the target stays below the last sum.
    target = min(uniform * total[-1], np.nextafter(total[-1], 0))
    return int(np.searchsorted(total, target, side="right"))


class GradientEmbeddings:
    """The vectors g = u (x) phi of all rows, known by their norms and distances only."""

    def __init__(self, features: np.ndarray, probs: np.ndarray, max_memory: int) -> None:
        self.features, self.probs = features, probs
        self.step = max(1, max_memory // 5 // (8 * 4 * (features.shape[1] + probs.shape[1])))
        self.sq_norm = np.empty(len(probs))
        self.kept: np.ndarray | None = (
            np.empty(probs.shape, dtype=_working(probs))
            if probs.size * np.dtype(_working(probs)).itemsize <= max_memory * 4 // 5
            else None
        )
        for part in self._parts():
            u, phi = residual(probs[part]), features[part].astype(np.float64)
            if self.kept is not None:
                self.kept[part] = u
            u = u.astype(np.float64)
            self.sq_norm[part] = np.einsum("ij,ij->i", u, u) * np.einsum("ij,ij->i", phi, phi)

    def sq_distance_to(self, pick: int) -> np.ndarray:
        """||g - g_pick||^2 of every row, (N,)."""
        u_pick = residual(self.probs[pick : pick + 1])[0]
        phi_pick = self.features[pick].astype(_working(self.features))
        out = np.empty(len(self.probs))
        for part in self._parts():
            u = residual(self.probs[part]) if self.kept is None else self.kept[part]
            phi = self.features[part].astype(phi_pick.dtype, copy=False)
            u_dot, phi_dot = (u @ u_pick).astype(np.float64), (phi @ phi_pick).astype(np.float64)
            out[part] = self.sq_norm[part] + self.sq_norm[pick] - 2 * u_dot * phi_dot
        out[pick] = 0.0
        return np.maximum(out, 0)

    def _parts(self) -> list[slice]:
        return [slice(i, i + self.step) for i in range(0, len(self.probs), self.step)]


def residual(probs: np.ndarray) -> np.ndarray:
    """p - onehot(y^) (k, C), the gradient's own sign; p_y^ - 1 is taken first, so that a confident row keeps its digits.

    >>> residual(np.array([[0.25, 0.75]]))
    array([[ 0.25, -0.25]])
    """
    u: np.ndarray = probs.astype(_working(probs), copy=True)
    u[np.arange(len(u)), u.argmax(axis=1)] -= 1
    return u


def _working(array: np.ndarray) -> type:
    """float64 stays, anything narrower is computed in float32."""
    return np.float64 if array.dtype.itemsize >= 8 else np.float32
