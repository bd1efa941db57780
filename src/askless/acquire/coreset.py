"""Coreset: k-centre greedy, furthest first (Sener & Savarese, ICLR 2018)."""

import numpy as np
import torch

from askless.acquire.strategy import Selection, View
from askless.options import options


@options
class Coreset:
    """The item furthest from everything labelled or chosen so far, again and again.

    Scores are the squared distances at the moment of choice; `info["radius"]` is the covering radius that is left.
    With nothing labelled the first item is drawn at random. Cost: N d per pick, N |L| d before the first.
    """

    name = "coreset"
    needs = ("features",)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        features = view["features"]
        nearest_sq = sq_distance_to_nearest(features, view.labelled, view.max_memory)
        picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
        nearest_sq[view.labelled] = -np.inf  # never chosen, even when everything is a copy of something labelled
        for i in range(n):
            pick = int(rng.choice(view.unlabelled)) if i == 0 and len(view.labelled) == 0 else int(nearest_sq.argmax())
            picks[i], scores[i] = pick, nearest_sq[pick]
            lower_to_new_centre(nearest_sq, features, pick, view.max_memory)
            nearest_sq[pick] = -np.inf
            view.report(i + 1, n)
        left = float(nearest_sq.max()) if len(nearest_sq) else -np.inf
        return Selection(picks, scores, {"radius": float(np.sqrt(max(left, 0.0)))})


def sq_distance_to_nearest(features: np.ndarray, centres: np.ndarray, max_memory: int = 2**28) -> np.ndarray:
    """Squared distance of every row (N, d) to the nearest row at `centres` (L,), (N,); infinite where L = 0.

    By ||x||^2 + ||c||^2 - 2 x.c in float64 around the centres' mean, clipped at 0: float32 would lose near-duplicates.
    """
    N, d = features.shape
    nearest = np.full(N, np.inf)
    if len(centres) == 0:
        return nearest
    step = max(1, max_memory // (8 * 4 * d))
    columns = max(1, max_memory // (8 * 4 * min(step, N)))
    mean = np.mean([features[c].astype(np.float64) for c in centres[: min(len(centres), 1000)]], axis=0)
    for j in range(0, len(centres), columns):
        c = features[centres[j : j + columns]].astype(np.float64) - mean
        c_sq = np.einsum("ij,ij->i", c, c)
        for i in range(0, N, step):
            x = features[i : i + step].astype(np.float64) - mean
            sq = np.einsum("ij,ij->i", x, x)[:, None] + c_sq - 2 * (x @ c.T)  # (rows, columns)
            np.minimum(nearest[i : i + step], np.maximum(sq.min(axis=1), 0), out=nearest[i : i + step])
    return nearest


def lower_to_new_centre(nearest_sq: np.ndarray, features: np.ndarray, centre: int, max_memory: int = 2**28) -> None:
    """Replaces `nearest_sq` (N,) by its minimum with the squared distance to row `centre`, in place.

    By differences, so that nothing cancels, in the features' own float type (half precision in float32).
    """
    dtype = np.float64 if features.dtype == np.float64 else np.float32
    c = torch.from_numpy(np.array(features[centre], dtype=dtype))[None]
    step = max(1, max_memory // (8 * features.shape[1]))
    for i in range(0, len(features), step):
        x = _as_tensor(features[i : i + step], dtype)
        distance = torch.cdist(x, c, compute_mode="donot_use_mm_for_euclid_dist")[:, 0]
        sq = distance.double().square().numpy()
        np.minimum(nearest_sq[i : i + step], sq, out=nearest_sq[i : i + step])


def _as_tensor(rows: np.ndarray, dtype: type) -> torch.Tensor:
    """The rows as a tensor, without a copy where numpy and torch allow it."""
    if rows.dtype == dtype and rows.flags.writeable and rows.flags.aligned:
        return torch.from_numpy(rows)
    return torch.from_numpy(np.array(rows, dtype=dtype))
