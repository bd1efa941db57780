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
            to_pick = sq_distance_to_nearest(features, picks[i : i + 1], view.max_memory)
            np.minimum(nearest_sq, to_pick, out=nearest_sq)
            nearest_sq[pick] = -np.inf
            view.report(i + 1, n)
        left = float(nearest_sq.max()) if len(nearest_sq) else -np.inf
        return Selection(picks, scores, {"radius": float(np.sqrt(max(left, 0.0)))})


def sq_distance_to_nearest(features: np.ndarray, centres: np.ndarray, max_memory: int = 2**28) -> np.ndarray:
    """Squared distance of every row (N, d) to the nearest row at `centres` (L,), (N,); infinite where L = 0.

    By differences, so that nothing cancels, in the features' own float type (half precision in float32).
    """
    nearest = np.full(len(features), np.inf)
    dtype = np.float64 if features.dtype.itemsize >= 8 else np.float32
    columns = max(1, max_memory // (4 * 8 * features.shape[1]))
    for j in range(0, len(centres), columns):
        c = torch.from_numpy(np.array(features[centres[j : j + columns]], dtype=dtype))
        step = max(1, max_memory // (2 * 8 * (features.shape[1] + len(c))))
        for i in range(0, len(features), step):
            x = _as_tensor(features[i : i + step], dtype)
            distance = torch.cdist(x, c, compute_mode="donot_use_mm_for_euclid_dist").amin(dim=1)
            np.minimum(nearest[i : i + step], distance.double().square().numpy(), out=nearest[i : i + step])
    return nearest


def _as_tensor(rows: np.ndarray, dtype: type) -> torch.Tensor:
    """The rows as a tensor, without a copy where numpy and torch allow it."""
    if rows.dtype == dtype and rows.flags.writeable and rows.flags.aligned:
        return torch.from_numpy(rows)
    return torch.from_numpy(np.array(rows, dtype=dtype))
