"""Uncertainty Herding: MaxHerding's coverage, weighted by how unsure the model is (Bae et al., ICLR 2025)."""

import numpy as np

from askless.acquire.covering import LEAST, SAME, TILE, UnitRows, sq_distances
from askless.acquire.maxherding import Lengthscale, herd
from askless.acquire.strategy import Selection, View
from askless.acquire.uncertainty import margin
from askless.base.options import NotNegative, Several, options

TEMPERATURES = np.arange(10, 200) / 10  # 1, 1.1, ... 19.9
BINS = 15  # of the confidence, in the calibration error


@options
class UHerding:
    r"""From the first label to the last: greedily the batch S with the largest uncertainty coverage

    $$\frac{1}{N} \sum_x U(x) \max_{s \in L \cup S} \exp(-|x - s|^2 / \sigma^2), \qquad U = 1 - (p_{(1)} - p_{(2)}),$$

    of rows x of unit length. Two numbers carry it from coverage to uncertainty as labels come in. sigma is the smallest
    distance between two labelled items (copies apart): with many labels an item covers little but itself. p is
    softmax(f / T) of the model's logits f, T the temperature of 1, 1.1, ... 19.9 with the least expected calibration error:
    while the model errs on its labels, all items weigh nearly the same. `lengthscale` and `temperature` set the two by hand.

    The paper calibrates a second model on a part of L that it was not trained on. A strategy sees arrays and trains nothing,
    so here the error is that of `probs` on all of L, which a model that fits its labels makes too small: T is 1 then. Pass
    `temperature` where you have calibrated the model yourself.

    Without labels, or without `probs`, U = 1, and sigma = 1 while fewer than two items are labelled: MaxHerding.
    `targets`, scores, memory and `info` are as in MaxHerding; `info` has the `temperature` too.

    >>> F = [[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.0, 1.0]]
    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.5, 0.5]]
    >>> al.select(al.UHerding(), 1, features=F, probs=p, labelled=[0], labels=[0]).indices
    array([3])
    """

    lengthscale: Lengthscale | None = None
    temperature: NotNegative | None = None
    targets: Several = 8192
    name = "uherding"
    needs = ("features",)
    wants = ("probs", "labels")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        rows = UnitRows(view["features"], view.max_memory // 2)
        sigma = self.lengthscale or closest(rows, view.labelled)
        T = self.temperature_of(view)
        picks = herd(view, n, rng, rows, unsure(view, T), sigma, self.targets)
        picks.info["temperature"] = T
        return picks

    def temperature_of(self, view: View) -> float:
        if self.temperature is not None:
            return float(self.temperature)
        if view.probs is None or view.labels is None or len(view.labels) == 0:
            return 1.0
        return calibrated(np.asarray(view.probs[view.labelled], dtype=np.float64), view.labels)


def unsure(view: View, T: float) -> np.ndarray:
    """U of every item, (N,); 1 where there is no model yet."""
    if view.probs is None or len(view.labelled) == 0 or view.probs.shape[1] < 2:
        return np.ones(view.N)
    return 1 - view.by_rows(lambda probs: margin(tempered(probs, T)), "probs")


def tempered(probs: np.ndarray, T: float) -> np.ndarray:
    """softmax(f / T) from softmax(f) (k, C): p^(1 / T), divided by its sum. T = 0: 1 for the most probable class.

    >>> tempered(np.array([[0.8, 0.2]]), 2.0).round(3)
    array([[0.667, 0.333]])
    """
    ratio = probs / probs.max(axis=1, keepdims=True)
    power = ratio ** (1 / T) if T > 0 else (ratio == 1).astype(np.float64)
    return power / power.sum(axis=1, keepdims=True)


def calibration_error(probs: np.ndarray, labels: np.ndarray) -> float:
    """ECE of probabilities (L, C): the mean gap between confidence and accuracy in bins of the confidence, by their sizes.

    >>> calibration_error(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
    0.25
    """
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    of = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(of, correct - confidence)).sum() / len(labels))


def calibrated(probs: np.ndarray, labels: np.ndarray) -> float:
    """The temperature with the least calibration error; of equals the lowest."""
    return float(TEMPERATURES[np.argmin([calibration_error(tempered(probs, T), labels) for T in TEMPERATURES])])


def closest(rows: UnitRows, labelled: np.ndarray) -> float:
    """The smallest distance between labelled items that are no copies; 1 where there is none."""
    least, x = np.inf, rows(labelled)
    step = max(1, TILE // (4 * max(1, len(x))))
    for i in range(0, len(x), step):
        sq = sq_distances(x[i : i + step], x)
        least = min(least, float(sq[sq > SAME].amin())) if bool((sq > SAME).any()) else least
    return max(least, LEAST) ** 0.5 if np.isfinite(least) else 1.0
