"""A page of items: those that match, in an order, with what people and the model say of them.

The database says which items match; an order by the model or by likeness is worked out here; and only the items of the page
are looked at closely, so that ten thousand are browsed like a hundred.

What the model says is known of the items of the pool alone. Those held out to measure it, whether they are asked or wait in
reserve, are listed, but never with a prediction, nor placed or filtered by one: their labels must be given unprompted. So it
is with the look-alikes of check items.
"""

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from askless.base.errors import InputError
from askless.run.out.alike import likeness
from askless.run.out.doubts import doubts_of
from askless.run.steps.round_files import Predictions, last_predictions, read_embeddings
from askless.run.store.browsing import Filters, Known, Match, known_items, matching_items
from askless.run.store.classes import final_class

if TYPE_CHECKING:
    from askless.run.run import Run

Order = Literal["id", "name", "newest", "sure", "unsure", "class"]
By = Literal["best", "mean"]
NONE = -1  # in the place of a class


class Said(NamedTuple):
    """What the model says of some items: `label` (n,), NONE where it says nothing, and `prob` (n,), 0 there."""

    label: np.ndarray
    prob: np.ndarray


class Listing(NamedTuple):
    """The items of a page with the class and the probability that the model gives them, and how many items match."""

    items: list[Known]
    said: Said
    total: int


def listing(
    run: "Run",
    db: sqlite3.Connection,
    annotator: str,
    filters: Filters,
    *,
    order: Order = "id",
    predicted: int | None = None,
    doubtful: bool = False,
    like: Sequence[int] = (),
    by: By = "best",
    offset: int = 0,
    limit: int = 60,
) -> Listing:
    """A page of the items that match, by `order` or, with `like`, those first that most resemble these items. `predicted`:
    only those to which the model gives this class; `doubtful`: those whose label it doubts, the most doubtful first."""
    matches = matching_items(db, annotator, filters, order if order in ("id", "name", "newest") else "id")
    predictions = last_predictions(db, run.folder)
    said = what_is_said(matches, predictions, final_class(db))
    places = np.arange(len(matches))
    if predicted is not None:
        places = places[said.label == predicted]
    if doubtful:
        doubt = doubts_of(db, run.folder).scores
        places = np.array([p for p in places if matches[p].item in doubt], np.int64)
    if like:
        alike = resemblance(run, like, by)[[matches[p].item for p in places]]
        places = places[np.argsort(-alike, kind="stable")]
    elif doubtful:
        scores = np.array([doubt[matches[p].item] for p in places])
        places = places[np.argsort(-scores, kind="stable")]
    elif order in ("sure", "unsure", "class"):
        own = np.array([NONE if m.label is None else m.label for m in matches], np.int64)
        places = places[in_order(own[places], said.label[places], said.prob[places], order)]
    page = places[offset : offset + limit]
    items = known_items(db, annotator, [matches[p].item for p in page], filters.person)
    return Listing(items, Said(said.label[page], said.prob[page]), len(places))


def what_is_said(matches: Sequence[Match], predictions: Predictions | None, final: dict[int, int]) -> Said:
    """What the model says of these items; of none outside the pool."""
    label, prob = np.full(len(matches), NONE, np.int64), np.zeros(len(matches), np.float32)
    places = np.array([p for p, match in enumerate(matches) if match.split == "pool"], np.int64)
    if predictions is None or not len(places):
        return Said(label, prob)
    rows = predictions.probs[[matches[p].item for p in places]]
    known = ~np.isnan(rows[:, 0])
    names = np.array([final[int(c)] for c in predictions.classes], np.int64)
    label[places[known]] = names[rows[known].argmax(axis=1)]
    prob[places[known]] = rows[known].max(axis=1)
    return Said(label, prob)


def in_order(label: np.ndarray, said: np.ndarray, prob: np.ndarray, order: Order) -> np.ndarray:
    """Positions by how sure the model is, or by class: the label, else what the model says, the surest first. What the model
    says nothing of comes last.

    >>> label, said, prob = np.array([-1, 1, -1, -1]), np.array([0, 1, 0, -1]), np.array([0.5, 0.6, 0.9, 0.0])
    >>> in_order(label, said, prob, "sure").tolist(), in_order(label, said, prob, "unsure").tolist()
    ([2, 1, 0, 3], [0, 1, 2, 3])
    >>> in_order(label, said, prob, "class").tolist()
    [2, 0, 1, 3]
    """
    silent = said == NONE
    if order == "unsure":
        return np.lexsort((prob, silent))
    if order == "sure":
        return np.lexsort((-prob, silent))
    group = np.where(label == NONE, said, label)
    return np.lexsort((-prob, group, group == NONE))


def resemblance(run: "Run", to: Sequence[int], by: By) -> np.ndarray:
    """(N,) how much every item of the run resembles these."""
    n = len(run.paths)
    if max(to) >= n:
        raise InputError(f"expected items from 0 to {n - 1} to compare with, got {max(to)}")
    path = run.folder / "cache" / "embeddings.npy"
    if read_embeddings(path.parent, n) is None:
        wait = "a network trained on pixels has none; start a run with --net frozen:... to search by similarity"
        if not run.meta("prepared"):
            wait = "wait until all of them are embedded"
        raise InputError(f"comparing {run.noun}s needs features, and there are none; {wait}")
    return _resemblance(path, path.stat().st_mtime_ns, n, tuple(to), by)


@lru_cache(maxsize=4)  # the pages of one search
def _resemblance(path: Path, mtime: int, n: int, to: tuple[int, ...], by: By) -> np.ndarray:
    x = read_embeddings(path.parent, n)
    assert x is not None, "it was there a moment ago"
    return likeness(x, to, by)
