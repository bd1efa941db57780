"""Were the chosen items worth more than random ones?"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Surprise(NamedTuple):
    """The model's result on an item before training on it; `how` the item was picked: "chosen" or "random"."""

    item: int
    how: str
    wrong: bool
    loss: float  # -log probability of the label


def surprises(items: list[int], labels: list[int], how: list[str], probs: np.ndarray) -> list[Surprise]:
    """One per item, from the model's probabilities (n, C)."""
    return [
        Surprise(i, h, bool(row.argmax() != y), -math.log(max(float(row[y]), 1e-12)))
        for i, y, h, row in zip(items, labels, how, probs, strict=True)
    ]


def compare(seen: list[Surprise]) -> dict[str, Any]:
    """For chosen and random items: their number, the share the model got wrong, its mean loss; and the difference in loss
    with its 95 % interval. `worth_more` is None while the interval holds 0.

    >>> compare([Surprise(0, "chosen", True, 2.0), Surprise(1, "random", False, 0.5)])["chosen"]
    {'n': 1, 'wrong': 1.0, 'loss': 2.0}
    """
    by_how = {how: [s for s in seen if s.how == how] for how in ("chosen", "random")}
    out: dict[str, Any] = {
        how: {"n": len(group), "wrong": _mean([s.wrong for s in group]), "loss": _mean([s.loss for s in group])}
        for how, group in by_how.items()
    }
    a, b = (np.array([s.loss for s in group]) for group in by_how.values())
    if len(a) > 1 and len(b) > 1:
        half = 1.96 * math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
        gain = float(a.mean() - b.mean())
        out["loss_difference"] = {"mean": gain, "low": gain - half, "high": gain + half}
        out["worth_more"] = None if abs(gain) <= half else gain > 0
    return out


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
