"""BADGE: k-means++ seeding on hallucinated last-layer gradients (Ash et al., ICLR 2020), factorised."""

import numpy as np

from askless.acquire.strategy import Selection, View, dot_rows
from askless.options import options


@options
class BADGE:
    """Diverse items with large gradients: D^2 sampling on g(x) = (onehot(y^) - p) (x) phi, y^ the predicted class.

    The first pick has the largest norm; each next one is drawn with probability proportional to its squared distance to
    the nearest pick. The N x (C d) embeddings are never formed: with u = onehot(y^) - p,
        ||g - g'||^2 = |u|^2 |phi|^2 + |u'|^2 |phi'|^2 - 2 (u.u') (phi.phi'),
    and u.u' itself needs only p. Cost N (C + d) per pick, memory O(N) beside the arrays. Scores are the squared distances
    at the moment of choice (the squared norm for the first).
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
        self.step = max(1, max_memory // (8 * 2 * (features.shape[1] + probs.shape[1])))
        self.predicted = np.empty(len(probs), dtype=np.int64)
        self.p_predicted = np.empty(len(probs))
        p_sq, phi_sq = np.empty(len(probs)), np.empty(len(probs))
        for i in range(0, len(probs), self.step):
            part = slice(i, i + self.step)
            p, phi = probs[part].astype(np.float64), features[part].astype(np.float64)
            self.predicted[part] = p.argmax(axis=1)
            self.p_predicted[part] = p.max(axis=1)
            p_sq[part] = np.einsum("ij,ij->i", p, p)
            phi_sq[part] = np.einsum("ij,ij->i", phi, phi)
        # |onehot - p|^2 = 1 - 2 p_y^ + |p|^2
        self.sq_norm = np.maximum(1 - 2 * self.p_predicted + p_sq, 0) * phi_sq

    def sq_distance_to(self, pick: int) -> np.ndarray:
        """||g - g_pick||^2 of every row, (N,)."""
        y = self.predicted[pick]
        p_pick, phi_pick = self.probs[pick], self.features[pick]
        out = np.empty(len(self.probs))
        for i in range(0, len(out), self.step):
            part = slice(i, i + self.step)
            # u.u' = 1[y = y'] - p_y' - p'_y + p.p'
            u_dot = (self.predicted[part] == y) - self.probs[part, y].astype(np.float64) - p_pick[self.predicted[part]]
            u_dot += dot_rows(self.probs[part], p_pick)
            phi_dot = dot_rows(self.features[part], phi_pick)
            out[part] = self.sq_norm[part] + self.sq_norm[pick] - 2 * u_dot * phi_dot
        out[pick] = 0.0
        return np.maximum(out, 0)
