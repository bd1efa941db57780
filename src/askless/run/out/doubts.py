"""The doubtful labels of a run, for the page, `askless status` and the report. Torch is not needed.

Judged are the labels that train, each by the other ones (`askless.run.steps.doubt`), on the cached features; where a run has
none, because its network is trained from pixels, by what the last model says. Labels of check items are neither judged nor
among the judges: correcting them only where a model disagrees would flatter it.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from askless.run.steps.doubt import LEAST, compared, left_out, nearest, suspects
from askless.run.steps.measure import doubtful
from askless.run.steps.round_files import last_predictions
from askless.run.store.classes import final_class
from askless.run.store.labels import kept_items, train_labels

NEIGHBOURS = 3  # of each class, that are shown beside a suspect


class Doubt(NamedTuple):
    """A label that others contradict: its `item`, how doubtful it is (`score`, 0 to 1), the class it has and the class that
    is `said` instead; and the nearest items labelled with the one and with the other."""

    item: int
    score: float
    label: int
    said: int
    alike: tuple[int, ...] = ()
    other: tuple[int, ...] = ()


class Doubts(NamedTuple):
    """The doubtful labels, the most doubtful first, without those that somebody kept; `by` whom they were judged, None where
    nothing could be judged; among how many `labels`."""

    found: list[Doubt]
    by: Literal["labels", "model"] | None
    labels: int

    @property
    def scores(self) -> dict[int, float]:
        return {one.item: one.score for one in self.found}


def doubts_of(db: sqlite3.Connection, run: Path) -> Doubts:
    """The doubtful labels of a run; looked for again only after a label has changed."""
    labels = sorted(train_labels(db).items())
    kept, n = kept_items(db), len(labels)
    if n < LEAST or len({label for _, label in labels}) < 2:
        return Doubts([], None, n)
    found = judged(run / "cache" / "embeddings.npy", tuple(labels))
    if found is not None:
        return Doubts([one for one in found if one.item not in kept], "labels", n)
    predictions = last_predictions(db, run)
    if predictions is None:
        return Doubts([], None, n)
    items, place = np.array([item for item, _ in labels]), {int(c): i for i, c in enumerate(predictions.classes)}
    said = doubtful([place.get(label, -1) for _, label in labels], predictions.probs[items])
    final, best = final_class(db), predictions.best_of_all()
    by_model = [
        Doubt(labels[i][0], float(said.score[i]), labels[i][1], final[int(best[labels[i][0]])])
        for i in said.order.tolist()
        if said.suspect[i] and labels[i][0] not in kept
    ]
    return Doubts(by_model, "model", n)


def neighbours(
    features: Path, labels: Mapping[int, int], wanted: Mapping[int, Sequence[int]]
) -> dict[int, list[tuple[int, ...]]]:
    """For each of the `wanted` items (item -> classes) and each of its classes the nearest items with that label; {} where
    there are no features of them."""
    items = np.array(sorted({*labels, *wanted}), np.int64)
    place, y = {int(item): i for i, item in enumerate(items)}, np.array([labels.get(int(i), -1) for i in items])
    try:
        rows = compared(np.load(features, mmap_mode="r", allow_pickle=False)[items].reshape(len(items), -1))
    except (OSError, ValueError, EOFError, IndexError):
        return {}
    return {
        item: [tuple(items[nearest(rows, place[item], np.flatnonzero(y == c), NEIGHBOURS)].tolist()) for c in classes]
        for item, classes in wanted.items()
    }


def judged(features: Path, labels: tuple[tuple[int, int], ...]) -> list[Doubt] | None:
    """By each other; None where there are no features of these items."""
    try:
        return _judged(features, features.stat().st_mtime_ns, labels)
    except (OSError, ValueError, EOFError, IndexError):  # not there yet, or damaged, which others say
        return None


@lru_cache(maxsize=4)
def _judged(features: Path, mtime: int, labels: tuple[tuple[int, int], ...]) -> list[Doubt]:
    items, y = np.array(labels, np.int64).T
    mapped = np.load(features, mmap_mode="r", allow_pickle=False)
    if mapped.ndim != 2:
        raise ValueError(f"expected rows of features, got {mapped.shape}")
    rows = compared(mapped[items])
    classes, place = np.unique(y, return_inverse=True)
    found = suspects(place, left_out(rows, place, len(classes)))

    def near(i: int, c: int) -> tuple[int, ...]:
        return tuple(items[nearest(rows, i, np.flatnonzero(place == c), NEIGHBOURS)].tolist())

    return [
        Doubt(
            int(items[i]),
            float(found.score[i]),
            int(y[i]),
            int(classes[said := int(found.said[i])]),
            near(i, int(place[i])),
            near(i, said),
        )
        for i in found.order.tolist()
    ]
