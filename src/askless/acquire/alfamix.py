"""ALFA-Mix: items whose prediction flips when mixed a little with labelled ones (Parvaneh et al., CVPR 2022)."""

from typing import Annotated

import numpy as np
from scipy.special import softmax

from askless.acquire.clusters import Centred, Subset, k_means_seed, nearest_to_centres
from askless.acquire.head import Head, linear_head
from askless.acquire.strategy import TILE, Selection, View, filled, top
from askless.base.options import Between, options


@options
class ALFAMix:
    r"""Candidates are the items z whose predicted class flips when their features are mixed with an anchor z*, the mean of
    the labelled features of a class: z~ = alpha z* + (1 - alpha) z. k-means makes n clusters of them, by unit-length
    features, and the candidate nearest to each centre is picked.

    alpha is the paper's closed form, the mix of size eps that raises the loss of the prediction most,

    $$\alpha = \epsilon \, |z^* - z| \, g / (|g| \, (z^* - z)), \qquad g = \nabla_z \ell(f(z), \hat y),$$

    element by element. The division cancels in the mix, z~ = z + eps |z* - z| g / |g|: every anchor moves an item the same
    way, by its distance. Logits of a linear head change linearly on that way, so an item flips for some anchor if it does
    for the furthest, and the smallest eps at which it does has a closed form (see `flips_at`). Candidates are those below
    `cap` / sqrt(d). Where they are fewer than n, those with the smallest eps are taken. (The authors' code raises the cap in
    steps, and then draws at random.)

    The head is recovered from `features` and `logits`: exactly if these are the input and the output of one linear layer,
    otherwise as the nearest linear head, which `info["note"]` reports. Nothing is trained. Without labels the mean of all
    items is the anchor. Scores are the eps, less than 0: those that flip first are the highest, and those that never do have
    -inf. k-means needs two float32 copies of up to 50,000 candidates, and the head 4 (d + 1) rows in float64.

    >>> F = [[-3.0], [-1.0], [0.2], [4.0]]  # the two classes meet at 0
    >>> f = [[-x[0], x[0]] for x in F]
    >>> al.select(al.ALFAMix(), 1, features=F, logits=f, labelled=[0, 3], labels=[0, 1]).indices
    array([2])
    """

    cap: Annotated[float, Between(0)] = 0.2
    name = "alfamix"
    needs = ("features", "logits", "labels")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        features = view["features"]
        head = linear_head(features, view["logits"], rng)
        eps, anchors = smallest_mix(view, head)
        candidates = view.unlabelled[eps[view.unlabelled] < self.cap / features.shape[1] ** 0.5]
        info: dict[str, object] = {"candidates": len(candidates), "anchors": anchors}
        info |= {"note": "; ".join(head.notes)} if head.notes else {}
        if len(candidates) < n:
            candidates = top(-eps, view.unlabelled, n, rng).indices
        x = Centred(Subset(features, candidates), True, view.max_memory)
        picks = candidates[nearest_to_centres(x, n, k_means_seed(rng))]
        return Selection(picks, -eps[picks], info)


def smallest_mix(view: View, head: Head) -> tuple[np.ndarray, int]:
    """The smallest eps at which each item flips, (N,), infinite where it never does; and the number of anchors."""
    features, logits = view["features"], view["logits"]
    G = head.W.T @ head.W
    step = max(1, min(view.max_memory, TILE) // (64 * (features.shape[1] + logits.shape[1])))
    anchors = class_means(features, view.labelled, view["labels"], head.unit, step)

    def of(part: slice) -> np.ndarray:
        reach = furthest(features[part].astype(np.float64) / head.unit, anchors)
        t = flips_at(logits[part].astype(np.float64), G)
        return np.divide(t, reach, out=np.full(len(t), np.inf), where=reach > 0)

    return filled(np.empty(view.N), step, of), len(anchors)


def flips_at(f: np.ndarray, G: np.ndarray) -> np.ndarray:
    """How far along its own gradient an item of logits f (k, C) goes until its prediction flips, (k,).

    With W the head, G = W^T W and u = p - onehot(y^), the gradient is g = W u. A step t g / |g| adds t G u / |g| to the
    logits, |g|^2 = u^T G u, and class c overtakes y^ at t = |g| (f_y^ - f_c) / ((G u)_c - (G u)_y^), if that is ever.
    The length of u does not matter: it is divided by 1 - p_y^, so that confident rows keep their digits.

    >>> flips_at(np.array([[1.0, 0.0]]), np.eye(2)).round(4)  # sqrt(1 / 2): both logits move by t / sqrt(2)
    array([0.7071])
    """
    if f.shape[1] < 2:
        return np.full(len(f), np.inf)
    row, y = np.arange(len(f)), f.argmax(axis=1)
    u = f.copy()
    u[row, y] = -np.inf
    u = softmax(u, axis=1)
    u[row, y] = -1.0
    slope = u @ G
    norm = np.sqrt(np.maximum((u * slope).sum(axis=1), 0))
    gap, rise = f[row, y, None] - f, slope - slope[row, y, None]
    rise[row, y] = 0.0
    return np.divide(norm[:, None] * gap, rise, out=np.full(f.shape, np.inf), where=rise > 0).min(axis=1)


def class_means(features: np.ndarray, labelled: np.ndarray, labels: np.ndarray, unit: float, step: int) -> np.ndarray:
    """Mean features of each class that has labels, (A, d), divided by `unit`; of all items where there are no labels."""
    if len(labels) == 0:
        labelled, labels = np.arange(len(features)), np.zeros(len(features), dtype=np.int64)
    _, group, size = np.unique(labels, return_inverse=True, return_counts=True)
    total = np.zeros((len(size), features.shape[1]))
    for i in range(0, len(group), step):
        part = slice(i, i + step)
        np.add.at(total, group[part], features[labelled[part]].astype(np.float64) / unit)
    return total / size[:, None]


def furthest(z: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    """The distance of each row (k, d) to the furthest of the anchors (A, d), (k,)."""
    reach = np.zeros(len(z))
    for anchor in anchors:
        np.maximum(reach, np.linalg.norm(z - anchor, axis=1), out=reach)
    return reach
