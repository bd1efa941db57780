"""The statistics of a comparison, as functions of arrays. Missing seeds are NaN and leave the pairs they belong to.

Seeds are paired: every method starts from the same labels and the same weights, so a difference is taken seed by seed and
what the seeds have in common cancels.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.integrate import trapezoid


class Spread(NamedTuple):
    """Mean, sample standard deviation (n - 1) and number of the values that are there."""

    mean: float
    sd: float
    n: int


class Difference(NamedTuple):
    """A mean paired difference, half of its 95 % interval, and the number of pairs."""

    mean: float
    half: float
    n: int

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0; never with fewer than two pairs."""
        return bool(abs(self.mean) > self.half)


def spread(values: np.ndarray) -> Spread:
    """
    >>> spread(np.array([1.0, 3.0, np.nan]))
    Spread(mean=2.0, sd=1.4142135623730951, n=2)
    """
    v = _present(values)
    mean = float(v.mean()) if len(v) else float("nan")
    return Spread(mean, float(v.std(ddof=1)) if len(v) > 1 else float("nan"), len(v))


def interval(values: np.ndarray) -> Difference:
    """The mean and half of its 95 % t interval: t_{n-1} sd / sqrt(n); the half is NaN for fewer than two values."""
    mean, sd, n = spread(values)
    return Difference(mean, float(stats.t.ppf(0.975, n - 1) * sd / np.sqrt(n)) if n > 1 else float("nan"), n)


def paired(a: np.ndarray, b: np.ndarray) -> Difference:
    """a - b, seed by seed, with its 95 % t interval.

    >>> d = paired(np.array([3.0, 5.0, 7.0]), np.array([2.0, 3.0, 4.0]))
    >>> d.mean, round(d.half, 3), d.clear  # 2 ± 4.303 * 1 / sqrt(3)
    (2.0, 2.484, False)
    """
    return interval(np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64))


def wilcoxon(a: np.ndarray, b: np.ndarray) -> float:
    """Two-sided p of the Wilcoxon signed-rank test of the pairs; 1 where all are equal, NaN where there is none."""
    d = _present(np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64))
    if not len(d):
        return float("nan")
    d = np.round(d / max(np.abs(d).max(), 1e-300), 9)  # differences that are equal but for rounding are ties
    d = d[d != 0]
    return float(stats.wilcoxon(d).pvalue) if len(d) > 1 else 1.0


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's correction: the i-th smallest of m values times m - i, made monotone, at most 1. NaN are no tests.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    out = np.array(p, dtype=np.float64)
    tests = np.flatnonzero(~np.isnan(out))
    order = tests[np.argsort(out[tests], kind="stable")]
    out[order] = np.minimum(1, np.maximum.accumulate(out[order] * np.arange(len(order), 0, -1)))
    return out


def aubc(labels: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Area under each budget curve (..., counts), by trapezoids over the numbers of labels, divided by their range.

    >>> float(aubc(np.array([10, 20, 40]), np.array([0.0, 1.0, 1.0])))  # (10 * 0.5 + 20 * 1) / 30
    0.8333333333333334
    """
    labels, curves = np.asarray(labels, dtype=np.float64), np.asarray(curves, dtype=np.float64)
    if len(labels) == 1:
        return curves[..., 0]
    return np.asarray(trapezoid(curves, labels, axis=-1) / (labels[-1] - labels[0]))


def labels_to_target(labels: np.ndarray, curve: np.ndarray, target: float) -> float:
    """The number of labels at which the curve first reaches the target, interpolated; inf where it never does.

    >>> labels_to_target(np.array([10, 20, 40]), np.array([0.5, 0.6, 0.8]), 0.75)
    35.0
    """
    reached = np.flatnonzero(np.asarray(curve) >= target)
    if not len(reached):
        return float("inf")
    j = int(reached[0])
    if j == 0 or not np.isfinite(curve[j - 1]):
        return float(labels[j])
    part = (target - curve[j - 1]) / (curve[j] - curve[j - 1])
    return float(labels[j - 1] + part * (labels[j] - labels[j - 1]))


def wins(values: np.ndarray) -> np.ndarray:
    """W[i, j]: in how many settings method i is clearly better than j; `values` is (methods, seeds, settings).

    Clearly: the 95 % t interval of the paired difference excludes 0. This is the count behind the penalty matrix of BADGE
    (Ash et al. 2020), which divides it by the number of settings.
    """
    W = np.zeros((len(values), len(values)), dtype=int)
    for i, j in combinations(range(len(values)), 2):
        for s in range(values.shape[2]):
            d = paired(values[i, :, s], values[j, :, s])
            if d.clear:
                W[(i, j) if d.mean > 0 else (j, i)] += 1
    return W


def clear_best(values: np.ndarray) -> int | None:
    """The method with the best mean, if it is clearly better than the second best; `values` is (methods, seeds)."""
    means = np.array([spread(v).mean for v in values])
    order = [int(i) for i in np.argsort(-means, kind="stable") if not np.isnan(means[i])]
    if len(order) < 2:
        return None
    d = paired(values[order[0]], values[order[1]])
    return order[0] if d.clear and d.mean > 0 else None


def against(values: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """+1, -1 or 0 for each method of `values` (methods, seeds): clearly above the baseline (seeds), below, or neither."""
    differences = [paired(v, baseline) for v in values]
    return np.array([int(np.sign(d.mean)) if d.clear else 0 for d in differences], dtype=int)


def significant(values: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """As `against`, but by Wilcoxon's test at 5 %, corrected by Holm for the number of methods."""
    p = holm(np.array([wilcoxon(v, baseline) for v in values]))
    return np.where(p < 0.05, np.sign([paired(v, baseline).mean for v in values]), 0).astype(int)


def gap_closed(area: float, random: float, oracle: float) -> float:
    """The share of the way from random to the oracle; NaN where the oracle is no better than random.

    >>> gap_closed(0.75, random=0.5, oracle=1.0)
    0.5
    """
    return (area - random) / (oracle - random) if oracle > random else float("nan")


def average_ranks(scores: np.ndarray) -> np.ndarray:
    """The mean over data sets of each method's rank (1 is best, ties share); `scores` is (data sets, methods)."""
    return np.asarray(stats.rankdata(-np.asarray(scores), axis=1).mean(axis=0))


def friedman(scores: np.ndarray) -> float:
    """p of the Friedman test that all methods rank alike; `scores` is (data sets, methods), at least three methods."""
    scores = np.asarray(scores)
    if (scores == scores[:, :1]).all():
        return 1.0
    return float(stats.friedmanchisquare(*scores.T).pvalue)


def critical_difference(methods: int, sets: int) -> float:
    """Nemenyi's critical difference of average ranks at 5 %: q sqrt(k (k + 1) / (6 N)), where q is the quantile of the
    studentised range for infinite degrees of freedom, divided by sqrt(2) (Demsar 2006, JMLR 7)."""
    q = float(stats.studentized_range.ppf(0.95, methods, np.inf) / np.sqrt(2))
    return q * float(np.sqrt(methods * (methods + 1) / (6 * sets)))


def cliques(ranks: np.ndarray, width: float) -> list[tuple[float, float]]:
    """The longest stretches (low, high) of ranks that lie within `width` of each other and hold at least two methods.

    >>> cliques(np.array([1.0, 1.5, 2.2, 4.0]), 1.0)
    [(1.0, 1.5), (1.5, 2.2)]
    """
    r = np.sort(ranks)
    last = [int(np.flatnonzero(r <= low + width)[-1]) for low in r]
    new = [i for i, j in enumerate(last) if j > i and (i == 0 or j > last[i - 1])]
    return [(float(r[i]), float(r[last[i]])) for i in new]


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """Kendall's tau-b of the pairs that are there; NaN for fewer than two or where one side is constant."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    there = ~(np.isnan(a) | np.isnan(b))
    a, b = a[there], b[there]
    if len(a) < 2 or (a == a[0]).all() or (b == b[0]).all():
        return float("nan")
    return float(stats.kendalltau(a, b).statistic)


def _present(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64).ravel()
    return values[~np.isnan(values)]
