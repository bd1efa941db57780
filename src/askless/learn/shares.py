"""How often each class occurs in a pool: estimated from predictions, and imposed on them."""

from collections.abc import Sequence

import numpy as np


def wavering(found: np.ndarray, without_some: Sequence[np.ndarray], seen: np.ndarray) -> float:
    r"""How far, from 0 to 1, to draw shares (C,) that were found by predicting toward equal ones of the `seen` classes.

    `without_some` holds K further ones, each found without 1/K of the labels. They give the jackknife's variance of the
    shares s; with u the equal shares, the estimate of James and Stein is

        u + (1 - t)(s - u),    t = min(1, variance / |s - u|^2).

    So a pool whose classes look equally frequent, as far as the labels can tell, is treated as one whose classes are; one
    with a long tail keeps it. With fewer than two of them nothing is known of the variance, and t = 1.
    """
    if len(without_some) < 2:
        return 1.0
    parts = np.array(without_some)
    variance = (len(parts) - 1) / len(parts) * ((parts - parts.mean(axis=0)) ** 2).sum()
    apart = ((found - equal_shares(seen, len(found))) ** 2).sum()
    return min(1.0, float(variance / apart)) if apart > 0 else 1.0


def drawn_to_equal(found: np.ndarray, seen: np.ndarray, t: float) -> np.ndarray:
    """The shares (C,) a part t of the way to equal ones of the `seen` classes."""
    return t * equal_shares(seen, len(found)) + (1 - t) * found


def equal_shares(seen: np.ndarray, classes: int) -> np.ndarray:
    return np.bincount(seen, minlength=classes) / len(seen)


def likeliest(probs: np.ndarray) -> np.ndarray:
    """The share of rows in which each class is the likeliest, (C,)."""
    return np.bincount(probs.argmax(axis=1), minlength=probs.shape[1]) / len(probs)


def balanced(probs: np.ndarray, shares: np.ndarray, sweeps: int = 50) -> np.ndarray:
    """`probs` (N, C) with rows that sum to 1 and columns that sum to N `shares`, changed as little as that takes (Sinkhorn &
    Knopp 1967): columns and rows get factors in turn. A class of which no row has anything stays empty."""
    total = len(probs) * shares
    out = np.maximum(probs, 1e-12) * (probs.sum(axis=0) > 0)
    rows = np.ones(len(probs))
    for _ in range(sweeps):
        column = rows @ out
        columns = np.divide(total, column, out=np.zeros_like(total), where=column > 0)
        rows = 1 / (out @ columns)
    return out * columns * rows[:, None]
