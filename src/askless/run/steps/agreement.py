r"""How far people agree who answered the same items, from arrays alone: any number of people, answers missing anywhere.

Krippendorff's alpha (2004, 11.3) for classes is 1 - D_o / D_e. With n_uc people who gave item u the class c, m_u answers to
it, and n answers in all to items that have two or more, of which n_c are c,

    D_o = 1/n sum_u (m_u^2 - sum_c n_uc^2) / (m_u - 1),    D_e = (n^2 - sum_c n_c^2) / (n (n - 1)).

1 is full agreement, 0 what chance gives. Of two people it is Scott's pi, but for a correction for few answers.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MISSING = -1
DRAWS = 1000


class Alpha(NamedTuple):
    """Krippendorff's alpha with its 95 % interval; None where it is not defined, as when all answers are of one class."""

    items: int
    alpha: float | None
    low: float | None
    high: float | None


def class_counts(answers: ArrayLike) -> np.ndarray:
    """(U, C) how many people gave each class to each item, of answers (N, people); only items with two answers or more."""
    given = np.asarray(answers, np.int64)
    classes = np.unique(given[given != MISSING])
    counts = (given[:, :, None] == classes).sum(axis=1)  # (N, people, C) -> (N, C)
    return np.asarray(counts[counts.sum(axis=1) > 1])


def alpha_of(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B,) alpha where item u, with the `counts` (U, C), counts `weights` (B, U) times; NaN where it is not defined."""
    m, sq = counts.sum(axis=1), (counts**2).sum(axis=1)
    n_c = weights @ counts  # (B, C)
    n = n_c.sum(axis=1)
    observed, expected = weights @ ((m**2 - sq) / (m - 1)), n**2 - (n_c**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(expected > 0, 1 - (n - 1) * observed / expected, np.nan))


def krippendorff(answers: ArrayLike) -> Alpha:
    """Alpha of answers (N, people), classes as numbers and -1 for none, with an interval of 1,000 resamples of the items.

    >>> krippendorff([[0, 0, -1], [0, 1, 1], [1, 1, -1], [0, -1, -1]]).alpha
    0.5
    """
    counts = class_counts(answers)
    items = len(counts)
    if not items:
        return Alpha(0, None, None, None)
    alike, often = np.unique(counts, axis=0, return_counts=True)  # few, however many items there are
    alpha = float(alpha_of(alike, often[None])[0])
    if np.isnan(alpha):
        return Alpha(items, None, None, None)
    draws = alpha_of(alike, np.random.default_rng(0).multinomial(items, often / items, size=DRAWS))
    low, high = np.nanquantile(draws, (0.025, 0.975)).tolist()
    return Alpha(items, alpha, min(low, alpha), max(high, alpha))


class Given(NamedTuple):
    """Of the items that a person gave the class `label`, `items` have an answer by the others; `same` of them it too. Where
    they say something else, they say `instead` most often, `times` times; None where they never do."""

    label: int
    items: int
    same: int
    instead: int | None
    times: int


def confusion_of(own: Mapping[int, int], others: Mapping[int, int]) -> list[Given]:
    """What the others say where a person gave each class (item -> class each), by class.

    >>> confusion_of({1: 0, 2: 0, 3: 1, 9: 1}, {1: 0, 2: 1, 3: 1})
    [Given(label=0, items=2, same=1, instead=1, times=1), Given(label=1, items=1, same=1, instead=None, times=0)]
    """
    said: dict[int, Counter[int]] = {}
    for item, label in own.items():
        if item in others:
            said.setdefault(label, Counter())[others[item]] += 1
    rows = []
    for label, counts in sorted(said.items()):
        rest = sorted((-n, c) for c, n in counts.items() if c != label)
        instead, times = (rest[0][1], -rest[0][0]) if rest else (None, 0)
        rows.append(Given(label, counts.total(), counts[label], instead, times))
    return rows


def what_others_say(
    answers: Mapping[int, Mapping[str, int]], settled: Mapping[int, int], person: str
) -> dict[int, int]:
    """item -> the class that it was `settled` on, else the one that more than half of the others gave; `answers` are item ->
    person -> class."""
    found = {}
    for item, given in answers.items():
        if person not in given:
            continue
        votes = Counter(label for who, label in given.items() if who != person)
        if item in settled:
            found[item] = settled[item]
        elif votes and 2 * max(votes.values()) > votes.total():
            found[item] = votes.most_common(1)[0][0]
    return found
