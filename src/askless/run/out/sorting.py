"""The rest of a run, sorted: what is offered under which class, and how right what was accepted is."""

import sqlite3
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from askless.base.intervals import share
from askless.run.out.account import Share
from askless.run.steps.confidence import sharpened
from askless.run.steps.round_files import Predictions, last_predictions
from askless.run.steps.sorting import FEW, LEFT_OVER, Placed, Wrong, place, wrong_by_guess, wrong_left
from askless.run.store.chunks import Chunk, chunks_of, sorted_answers
from askless.run.store.claims import accepted_claims
from askless.run.store.classes import final_class, shown_classes
from askless.run.store.extra import count_accepted, rest_items
from askless.run.store.labels import labels_of_check_items


@dataclass(frozen=True)
class Rest:
    """The items that wait to be sorted (n,), and the class that each is offered under; `again` are those that were clicked
    out of a likelier class. `expected_wrong`: how many are probably in another class."""

    items: np.ndarray
    placed: Placed
    again: frozenset[int]
    expected_wrong: float

    def surest(self, number: int, n: int) -> list[int]:
        return [int(i) for i in self.items[self.placed.surest(number)[:n]]]

    def offered(self, number: int) -> dict[int, float]:
        """The items of a class with their probabilities."""
        at = self.placed.surest(number)
        return dict(zip(self.items[at].tolist(), self.placed.probs[at].tolist(), strict=True))


@dataclass(frozen=True)
class Precision:
    """How right the accepted labels of a class are (or all: `class_` None). `removed` is the share that people clicked out
    or put right of what they were shown, `check` the share right of the check items that the model is as sure of (`pooled`:
    those of all classes, as the class has few); `wrong` how many of the accepted ones may still be wrong."""

    class_: int | None
    accepted: int
    removed: Share
    check: Share
    pooled: bool
    wrong: Wrong | None

    def as_json(self) -> dict[str, Any]:
        told = asdict(self)
        del told["class_"]
        return {"class": self.class_, **told, "wrong": None if self.wrong is None else self.wrong._asdict()}


def rest_of(db: sqlite3.Connection, run: Path) -> Rest | None:
    """None before there is a model."""
    predictions = last_predictions(db, run)
    if predictions is None:
        return None
    items = np.array(rest_items(db), np.int64)
    refused = clicked_out(db, chunks_of(db))
    at = {item: i for i, item in enumerate(items.tolist())}
    placed = place(
        as_trained(predictions)[items],
        final_numbers(db, predictions),
        {at[item]: out for item, out in refused.items() if item in at},
    )
    final = final_class(db)
    seen = [(final[label] != final[offered], 1 - prob) for label, offered, prob in sorted_answers(db)]
    wrong, expected = np.array(seen).reshape(-1, 2).sum(axis=0).tolist()
    return Rest(items, placed, frozenset(refused), wrong_by_guess(placed.probs, wrong, expected))


def as_trained(predictions: Predictions) -> np.ndarray:
    """The probabilities before check items had a say. These are a sample of everything; what is left, once the surest items
    are sorted, is harder than that, and what people correct tells more of it."""
    return sharpened(predictions.probs, 1 / predictions.sharpness)


def final_numbers(db: sqlite3.Connection, predictions: Predictions) -> np.ndarray:
    """(C,) the class that each column of the predictions stands for by now."""
    final = final_class(db)
    return np.array([final[int(c)] for c in predictions.classes], np.int64)


def clicked_out(db: sqlite3.Connection, chunks: list[Chunk]) -> dict[int, set[int]]:
    """item -> the classes that it is not in, as people said."""
    final, refused = final_class(db), dict[int, set[int]]()
    for chunk in chunks:
        for item in chunk.out:
            refused.setdefault(item, set()).add(final[chunk.class_])
    return refused


def precisions(db: sqlite3.Connection, run: Path) -> list[Precision]:
    """Of each class with accepted labels, and of all together at the end; [] where nothing was accepted."""
    final, chunks = final_class(db), chunks_of(db)
    accepted: Counter[int] = Counter()
    for number, n in count_accepted(db).items():
        accepted[final[number]] += n
    for claimed in accepted_claims(db).values():  # the model never put them in a class
        for number, n in claimed.items():
            accepted[final[number]] -= n
    of: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        of.setdefault(final[chunk.class_], []).append(chunk)
    least = {number: min((c.least for c in some if c.seen), default=1.0) for number, some in of.items()}
    checked = check_items(db, run, least)
    everywhere = (sum(right for right, _ in checked.values()), sum(n for _, n in checked.values()))
    told = []
    for c in [c for c in shown_classes(db) if accepted[c.id]]:
        seen, removed = (sum(getattr(chunk, name) for chunk in of.get(c.id, ())) for name in ("seen", "removed"))
        pooled = checked.get(c.id, (0, 0))[1] < FEW
        right, n = everywhere if pooled else checked[c.id]
        wrong = wrong_left(seen, removed, right, n)
        told.append(Precision(c.id, accepted[c.id], share(removed, seen), share(right, n), pooled, wrong))
    if told:
        seen, removed = (sum(getattr(chunk, name) for chunk in chunks) for name in ("seen", "removed"))
        wrong = wrong_left(seen, removed, *everywhere)
        told.append(Precision(None, sum(accepted.values()), share(removed, seen), share(*everywhere), False, wrong))
    return told


def check_items(db: sqlite3.Connection, run: Path, least: dict[int, float]) -> dict[int, tuple[int, int]]:
    """(right, n) for each class of the labelled check items that the last model puts there, as sure as that at least."""
    predictions, truth = last_predictions(db, run), labels_of_check_items(db)
    if predictions is None or not truth:
        return {}
    items = list(truth)
    placed = place(as_trained(predictions)[items], final_numbers(db, predictions))
    found: dict[int, tuple[int, int]] = {}
    for item, number, prob in zip(items, placed.classes.tolist(), placed.probs.tolist(), strict=True):
        if number != LEFT_OVER and prob >= least.get(number, 2.0):
            right, n = found.get(number, (0, 0))
            found[number] = (right + (truth[item] == number), n + 1)
    return found
