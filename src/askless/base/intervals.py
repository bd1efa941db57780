"""Shares that were measured on few items, with the interval that says how little is known."""

import math
from statistics import NormalDist
from typing import Any

from askless.base.errors import InputError


def wilson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a share of which k in n were seen; (0, 1) when nothing was.

    >>> "{:.2f} to {:.2f}".format(*wilson(36, 40))
    '0.77 to 0.96'
    """
    if not 0 <= k <= n:
        raise InputError(f"wilson: expected 0 <= k <= n, got k = {k} and n = {n}")
    if not 0 < level < 1:
        raise InputError(f"level: expected a share between 0 and 1, such as 0.95, got {level}")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (k + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(k * (n - k) / n + z * z / 4)
    return (0.0 if k == 0 else max(0.0, centre - half)), (1.0 if k == n else min(1.0, centre + half))


def exact(k: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval: it misses a share on either side with probability (1 - level) / 2 at most, also at the
    high levels of many looks, where Wilson's misses those near 0 and 1 too often. Both may be fractions.

    >>> "{:.2f} to {:.2f}".format(*exact(36, 40))
    '0.76 to 0.97'
    """
    from scipy.special import betaincinv

    a = (1 - level) / 2
    low = 0.0 if k <= 0 else float(betaincinv(k, n - k + 1, a))
    high = 1.0 if k >= n else float(betaincinv(k + 1, n - k, 1 - a))
    return low, high


def share(k: int, n: int) -> dict[str, Any] | None:
    """k of n as `n`, `correct`, `accuracy` and the 95 % interval `low` to `high`; None (not measured) when n is 0."""
    if n == 0:
        return None
    low, high = wilson(k, n)
    return {"n": n, "correct": k, "accuracy": k / n, "low": low, "high": high}
