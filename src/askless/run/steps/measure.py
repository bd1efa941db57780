"""Honest numbers about a labelling run, from arrays alone: intervals, agreement, stability, doubt and pace."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from askless.base.intervals import share


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error of n answers, of which the model was `sure` (n,) and which were `right` (n,) or not.

    They are put in up to ten groups of at least 20 by how sure the model was; the error is the mean over the answers of the
    distance between how sure it was in their group and how often it was right there.
    """
    groups = np.array_split(np.argsort(sure, kind="stable"), min(10, max(1, len(sure) // 20)))
    return float(sum(abs(sure[g].sum() - right[g].sum()) for g in groups) / len(sure))


def calibration(sure: ArrayLike, right: ArrayLike) -> dict[str, Any] | None:
    """How far the model's word is from what comes true: `sure` (n,) the probability of what it said of each check image,
    `right` (n,) whether it was. None without images.

    `error` is the expected calibration error. By chance alone that is above 0: the 95 % interval `low` to `high`, of 1,000
    resamples, is the basic one, which allows for that. `sure` and `right` are the means of all.
    """
    p, hit = np.asarray(sure, dtype=np.float64), np.asarray(right, dtype=np.float64)
    n = len(p)
    if n == 0:
        return None

    rng, found = np.random.default_rng(0), calibration_error(p, hit)
    draws = (rng.integers(n, size=n) for _ in range(1000))
    high, low = 2 * found - np.quantile([calibration_error(p[at], hit[at]) for at in draws], (0.025, 0.975))
    return {
        "n": n,
        "error": found,
        "low": float(np.clip(low, 0, found)),
        "high": float(np.clip(high, found, 1)),
        "sure": float(p.mean()),
        "right": float(hit.mean()),
    }


def confusion(predicted: ArrayLike, truth: ArrayLike, classes: Sequence[Any]) -> np.ndarray:
    """(C, C) counts: row = true class, column = predicted class, in the order of `classes`."""
    place = {c: i for i, c in enumerate(classes)}
    table = np.zeros((len(classes), len(classes)), np.int64)
    for true, said in zip(np.asarray(truth).tolist(), np.asarray(predicted).tolist(), strict=True):
        table[place[true], place[said]] += 1
    return table


def per_class(predicted: ArrayLike, truth: ArrayLike, classes: Sequence[Any]) -> list[dict[str, Any]]:
    """For each class: `n` true ones, `predicted` as it, `correct`; `recall` (of n) and `precision` (of predicted) as
    `share` gives them, None where there is nothing to divide by."""
    table = confusion(predicted, truth, classes)
    out = []
    for i, c in enumerate(classes):
        right, true, said = int(table[i, i]), int(table[i].sum()), int(table[:, i].sum())
        out.append(
            {
                "class": c,
                "n": true,
                "predicted": said,
                "correct": right,
                "recall": share(right, true),
                "precision": share(right, said),
            }
        )
    return out


def cohens_kappa(a: ArrayLike, b: ArrayLike) -> float | None:
    """Agreement of two annotators on the same items beyond chance: 1 is full, 0 is what chance gives.

    None where it is not defined: no items, or both gave one and the same class to all.
    """
    x, y = np.asarray(a), np.asarray(b)
    names = {*x.tolist(), *y.tolist()}
    if len(names) < 2:
        return None
    observed = float((x == y).mean())
    expected = sum(float((x == c).mean()) * float((y == c).mean()) for c in names)
    return (observed - expected) / (1 - expected)


class Doubts(NamedTuple):
    """`score` (N,) from 0 to 1, NaN where there is no label to doubt; `suspect` (N,) bool; `order`: the items that have a
    score, the most doubtful first."""

    score: np.ndarray
    suspect: np.ndarray
    order: np.ndarray


def doubtful(labels: ArrayLike, probs: ArrayLike) -> Doubts:
    """Labels that the model finds improbable: `labels` (N,), -1 for none, against `probs` (N, C).

    The score is the mean of 1 - p(label) and of the margin p(predicted) - p(label): near 1 when the model is sure of
    another class, at most a half when the label is what it predicts. The probabilities are not held out: the model was
    trained on these very labels and leans towards them, so hesitation means little and confident disagreement much.
    Hence, as in confident learning (Northcutt, Jiang and Chuang 2021), an item is `suspect` only if the model predicts
    another class, and with at least the mean probability that it gives to that class on the items labelled as it. A class
    that no item is labelled as raises no suspicion, and labels of classes newer than the model (>= C) get no score.
    """
    y = np.asarray(labels, dtype=np.int64)
    p = np.asarray(probs, dtype=np.float64)
    score, suspect = np.full(len(y), np.nan), np.zeros(len(y), bool)
    at = np.flatnonzero((y >= 0) & (y < p.shape[1]))
    if len(at):
        of_label = p[at, y[at]]
        said = p[at].argmax(1)
        of_said = p[at, said]
        score[at] = np.clip((1 - of_label + of_said - of_label) / 2, 0, 1)
        usual = np.full(p.shape[1], np.inf)
        for c in np.unique(y[at]):
            usual[c] = of_label[y[at] == c].mean()
        suspect[at] = (of_said > of_label) & (of_said >= usual[said] - 1e-9)  # a mean of equals may round above them
    return Doubts(score, suspect, at[np.argsort(-score[at], kind="stable")])


def prediction_change(before: ArrayLike, after: ArrayLike) -> float | None:
    """The share of items whose predicted class differs between two rounds; None when there are no items."""
    changed = np.asarray(before) != np.asarray(after)
    return float(changed.mean()) if len(changed) else None


def mean_margin(probs: ArrayLike) -> float | None:
    """The mean distance of the largest probability from the second, over the rows of (N, C); None without rows."""
    p = np.asarray(probs, dtype=np.float64)
    if p.ndim != 2 or p.size == 0:
        return None
    if p.shape[1] == 1:
        return float(p.mean())
    top = np.partition(p, -2, axis=1)[:, -2:]
    return float((top[:, 1] - top[:, 0]).mean())


def labels_per_minute(times: Sequence[datetime]) -> float | None:
    """The pace of one annotator, from the times of the answers; pauses longer than a minute are breaks and do not count.
    None where no two answers lie closer than that."""
    steps = np.diff(np.sort([t.timestamp() for t in times]))
    steps = steps[steps <= 60]
    worked = float(steps.sum())
    return 60 * len(steps) / worked if worked > 0 else None
