"""How accurate a model is on the whole collection, from check items and the model's own confidence."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from askless.base.errors import InputError
from askless.base.intervals import exact

FEWEST = 30  # check items; below, and with fewer than two right or wrong ones, a slope says nothing
LATER = 0.2  # the share of the risk that is kept for looks beyond the planned ones, after a larger budget


def level_of_look(look: int, planned: int, level: float = 0.95) -> float:
    """The confidence that the interval of one look needs so that, with probability `level`, those of all looks hold.

    Every round has another model, and so another accuracy to estimate, but the check items are the same: by the union bound
    the risks of the looks add up. The `planned` looks share four fifths of 1 - level equally. Look t > K = planned gets
    K / (t (t - 1)) of the last fifth, which sums to that fifth over all t > K, however many follow.

    >>> level_of_look(1, planned=8), level_of_look(8, planned=8)
    (0.995, 0.995)
    >>> round(level_of_look(9, planned=8), 4)
    0.9989
    """
    if look < 1 or planned < 1:
        raise InputError(f"expected a look and the number of planned looks, both from 1, got {look} and {planned}")
    part = (1 - LATER) / planned if look <= planned else LATER * planned / (look * (look - 1))
    return 1 - (1 - level) * part


def estimate(
    right: ArrayLike, sure: ArrayLike = (), others: ArrayLike = (), level: float = 0.95
) -> dict[str, Any] | None:
    r"""The accuracy of a model with an interval; None without check items.

    `right` (n,) says of each labelled check item whether the model is right, `sure` (n,) how probable it holds what it says,
    `others` (N,) the same of items that nobody labelled. Both are random draws from the collection, so with any lam

        theta = mean(right) + lam (mean(others) - mean(sure))

    is unbiased, however well or badly the model is calibrated: the difference estimator, or prediction-powered inference
    (Angelopoulos et al. 2023). The best lam is N / (n + N) times the slope of `right` on `sure` (PPI++, 2023), and leaves
    1 - R² N / (n + N) of the variance. R² is measured by leaving each item out (PRESS), so that confidence which tells
    nothing is found out; where it is not above 0, what remains is the plain share. The interval is the exact one for theta
    of n / (1 - R² N / (n + N)) items, `worth`: the number of check labels that would do as much without the confidence.

    >>> found = estimate([1] * 36 + [0] * 4)
    >>> "{accuracy:.2f} {low:.2f} {high:.2f} {worth:.0f}".format(**found)
    '0.90 0.76 0.97 40'
    """
    hit = np.asarray(right, dtype=np.float64)
    n, correct = len(hit), int(hit.sum())
    if n == 0:
        return None
    theta, worth = correct / n, float(n)
    p, rest = np.asarray(sure, dtype=np.float64), np.asarray(others, dtype=np.float64)
    if len(p) == n >= FEWEST and len(rest) and min(correct, n - correct) >= 2 and np.ptp(p) > 1e-6:
        q = p - p.mean()
        slope = (q @ hit) / (q @ q)
        left_out = (hit - theta - slope * q) / (1 - 1 / n - q * q / (q @ q))
        r2 = 1 - np.sum(left_out**2) / np.sum(((hit - theta) * n / (n - 1)) ** 2)
        if r2 > 0 and slope > 0:
            part = len(rest) / (n + len(rest))
            theta = float(np.clip(theta + part * slope * (rest.mean() - p.mean()), 0, 1))
            worth = float(n / (1 - r2 * part))
    low, high = exact(theta * worth, worth, level)
    return {"n": n, "correct": correct, "accuracy": theta, "low": low, "high": high, "worth": worth}


def planned_looks(budget: int, check: float, batch: int) -> int:
    """How many rounds a run plans: those that its budget without the check items comes to.

    >>> planned_looks(200, 0.2, 20)
    8
    """
    return max(1, math.ceil(round(budget * (1 - check)) / batch))
