"""How far predictions from elsewhere can be trusted: which of them are right often enough, by what check items show."""

import math
from typing import NamedTuple

import numpy as np

PARTS = 5  # the surest fifth, two fifths, … and all: what is tried
RISK = 0.05  # of taking predictions that are right less often than wanted


def right_at_least(k: int, n: int, risk: float) -> float:
    """The share that is exceeded with certainty 1 - risk where k of n were right (Clopper and Pearson 1934).

    >>> round(right_at_least(40, 40, 0.05), 3)  # 0.05 ** (1 / 40)
    0.928
    """
    from scipy.special import betaincinv  # when first needed: the page starts without scipy

    return 0.0 if k == 0 else float(betaincinv(k, n - k + 1, risk))


class Trusted(NamedTuple):
    """Predictions with at least this confidence: `correct` of the `n` on check items, so at least `low` of all of them."""

    confidence: float
    n: int
    correct: int
    low: float


def levels(confidence: np.ndarray) -> list[float]:
    """The confidences that begin the surest fifth of all predictions, two fifths, and so on, the lowest first."""
    return sorted({float(c) for c in np.quantile(confidence, np.arange(PARTS) / PARTS, method="higher")})


def bounds(everywhere: np.ndarray, confidence: np.ndarray, right: np.ndarray) -> list[Trusted]:
    """What check items show of each of the `levels`, the lowest first, with certainty 1 - RISK.

    `everywhere` (N,) is the confidence of all predictions, `confidence` (n,) and `right` (n,) are those on check items. Each
    level is tested at RISK divided by their number, so that all their bounds hold together (Bonferroni).
    """
    tried, found = levels(everywhere) if len(everywhere) else [], []
    for least in tried:
        inside = confidence >= least
        n, k = int(inside.sum()), int(right[inside].sum())
        found.append(Trusted(least, n, k, right_at_least(k, n, RISK / len(tried))))
    return found


def trusted(found: list[Trusted], wanted: float) -> Trusted | None:
    """Of these bounds that of the most predictions of which at least the share `wanted` is right; None where none are."""
    return next((one for one in found if one.low >= wanted), None)


def needed(wanted: float) -> int:
    """How many check items, all of them right, are the fewest that can show a share of `wanted`.

    >>> needed(0.95)
    90
    """
    return math.ceil(math.log(RISK / PARTS) / math.log(wanted))
