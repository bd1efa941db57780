"""How the learning rate runs over the steps."""

import math
from typing import Literal

Schedule = Literal["cosine", "constant", "drop"]


def rate_at(step: int, *, schedule: Schedule, lr: float, horizon: int) -> float:
    """The learning rate of a step.

    "cosine": lr cos(7 pi step / (16 horizon)), FixMatch's, which ends at .195 lr when training stops at the horizon and
    higher when it stops before; "drop": lr, and a fifth of it from 4/5 of the horizon on (Oliver et al.).

    >>> round(rate_at(2**20, schedule="cosine", lr=1.0, horizon=2**20), 4)
    0.1951
    >>> rate_at(400_000, schedule="drop", lr=1.0, horizon=500_000)
    0.2
    """
    if schedule == "cosine":
        return lr * math.cos(7 * math.pi * min(step, horizon) / (16 * horizon))
    if schedule == "drop":
        return lr * 0.2 if step >= 0.8 * horizon else lr
    return lr
