"""Which class each item of the rest is offered under, and how much of what was accepted is right; from arrays alone."""

from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np

LEFT_OVER = -1  # in no class: all were clicked out, or nothing is known of the item
FEW = 10  # check items of a class below which those of all classes are taken together


class Placed(NamedTuple):
    """For n items, the class number (n,) that each is offered under or LEFT_OVER, and its probability (n,)."""

    classes: np.ndarray
    probs: np.ndarray

    def surest(self, number: int) -> np.ndarray:
        """The places of the items of a class, the surest first."""
        at = np.flatnonzero(self.classes == number)
        return at[np.argsort(-self.probs[at], kind="stable")]


def place(probs: np.ndarray, classes: np.ndarray, refused: Mapping[int, Set[int]] | None = None) -> Placed:
    """The most probable class of each row of `probs` (n, C), by the numbers `classes` (C,), of which several may be the same
    class; `refused` are those that a person has clicked out (place of the item -> classes).

    >>> placed = place(np.array([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]), np.array([4, 7, 4]), {0: {7}})
    >>> placed.classes.tolist(), placed.probs.tolist()
    ([4, 4], [0.5, 0.5])
    """
    numbers, column = np.unique(classes, return_inverse=True)
    merged = probs @ (column[:, None] == np.arange(len(numbers))).astype(np.float64)  # (n, C) -> (n, number of classes)
    for item, out in (refused or {}).items():
        merged[item, np.isin(numbers, list(out))] = -1.0
    best = merged.argmax(axis=1)
    sure = merged[np.arange(len(merged)), best]
    unknown = ~(sure >= 0)  # all clicked out, or NaN
    return Placed(np.where(unknown, LEFT_OVER, numbers[best]), np.where(unknown, 0.0, sure))


def surest_class(placed: Placed, n: int, but: int | None = None) -> int | None:
    """The class whose next n items the model is surest of: classes with a whole chunk come first, then the fullest.

    >>> placed = Placed(np.array([0, 0, 0, 1, 1, 2]), np.array([0.9, 0.8, 0.7, 0.99, 0.99, 1.0]))
    >>> surest_class(placed, 3), surest_class(placed, 2), surest_class(placed, 2, but=1)
    (0, 1, 0)
    """
    order = {}
    for number in np.unique(placed.classes).tolist():
        if number not in (LEFT_OVER, but):
            first = placed.surest(number)[:n]
            order[number] = (len(first), float(placed.probs[first].mean()))
    return max(order, key=lambda number: order[number]) if order else None


def wrong_by_guess(probs: np.ndarray, wrong: float, expected: float) -> float:
    """How many items are probably wrong by the best guess, of these probabilities (n,). `wrong` of those that people sorted
    before were wrong, and the model `expected` so many: it was too sure of itself by their ratio, at least 1, and with one
    added to both, so that a few say little.

    >>> wrong_by_guess(np.array([0.9, 0.7]), wrong=0, expected=5.0), wrong_by_guess(np.array([0.9, 0.7]), 5, 2.0)
    (0.4, 0.8)
    """
    too_sure = max(1.0, (wrong + 1) / (expected + 1))
    return round(min(too_sure * float((1 - probs).sum()), len(probs)), 1)


class Wrong(NamedTuple):
    """How many are wrong: as far as can be expected, and with 95 % confidence at most."""

    expected: float
    most: int


def wrong_left(seen: int, removed: int, right: int, n: int) -> Wrong | None:
    """How many of `seen` items are still wrong after a person has removed some of them, where `right` of n check items that
    the model is as sure of are right; None without check items.

    Of the check items, drawn at random, n - right are wrong. The number W of wrong ones among those seen is then
    beta-binomial, with Jeffreys' prior: p(W) = C(N, W) B(W + a, N - W + b) / B(a, b), a = n - right + 1/2, b = right + 1/2.
    As W is at least what was removed, it is taken given W >= removed; W - removed are left.

    `most` holds whatever the person does. `expected` also takes into account how many they removed: each removes a share of
    the wrong ones that is as likely to be any from 0 to 1, so that p(removed | W) = 1 / (W + 1).

    >>> wrong_left(100, 0, 20, 20)
    Wrong(expected=0.7, most=10)
    >>> wrong_left(100, 5, 20, 20)
    Wrong(expected=2.4, most=12)
    """
    if n == 0 or seen == 0:
        return None
    a, b = n - right + 0.5, right + 0.5
    k = np.arange(seen)
    ratio = np.log(seen - k) + np.log(k + a) - np.log(k + 1) - np.log(seen - k - 1 + b)  # p(k + 1) / p(k)
    logs = np.concatenate([[0.0], np.cumsum(ratio)])[removed:]
    p = np.exp(logs - logs.max())
    p /= p.sum()
    left = np.arange(len(p))
    likely = p / (removed + left + 1)
    expected = float(likely @ left / likely.sum())
    return Wrong(round(expected, 1), int(np.searchsorted(np.cumsum(p), 0.95)))
