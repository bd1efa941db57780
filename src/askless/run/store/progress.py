"""How far a run is, in the numbers that the page shows at all times; they take as long after ten thousand answers as at
first."""

import sqlite3
from collections import Counter
from dataclasses import dataclass
from typing import Any

from askless.run.store.asking import Desk, count_second, current_round, done_tasks, plan
from askless.run.store.classes import all_classes, followed, is_shown
from askless.run.store.extra import count_accepted
from askless.run.store.looks import chosen_looks, colour_of, keys_of
from askless.run.store.rounds import is_ahead, round_size
from askless.run.store.store import get_meta


@dataclass(frozen=True)
class Done:
    """How many of those planned are labelled."""

    done: int
    planned: int


@dataclass(frozen=True)
class CurrentBatch:
    """The batch that is being labelled. `ahead`: it was chosen by the model before, while the one that chooses the rest of
    it is still being trained."""

    round: int
    done: int
    size: int
    ahead: bool = False


@dataclass(frozen=True)
class Named:
    """A class with its colour, the key that gives it and the labels that it has, `accepted` ones apart; `merged_into` is the
    class that counts them instead."""

    id: int
    name: str
    key: str
    count: int
    hidden: bool
    merged_into: int | None
    colour: int
    accepted: int = 0


@dataclass(frozen=True)
class RunProgress:
    """`spent` of `budget`, check images, chosen ones and `second` opinions; how many people `found` besides; whether the
    person who asks can undo and redo something."""

    spent: int
    budget: int
    check: Done
    train: Done
    second: Done
    found: int
    batch: CurrentBatch | None
    classes: list[Named]
    can_undo: bool
    can_redo: bool

    def as_json(self) -> dict[str, Any]:
        """With every reply of the page; `dataclasses.asdict` would copy each value of a thousand classes."""
        return {
            **vars(self),
            "check": vars(self.check),
            "train": vars(self.train),
            "second": vars(self.second),
            "batch": None if self.batch is None else vars(self.batch),
            "classes": [vars(named) for named in self.classes],
        }


def progress_of(db: sqlite3.Connection, desk: Desk | None = None) -> RunProgress:
    budget, planned = plan(db)
    done = done_tasks(db)
    second = Done(count_second(db, given=True), count_second(db))
    return RunProgress(
        spent=done["train"] + done["check"] + second.done,
        budget=budget,
        check=Done(done["check"], planned),
        train=Done(done["train"], budget - planned - second.planned),
        second=second,
        found=done["found"],
        batch=current_batch(db),
        classes=classes_with_counts(db),
        can_undo=has_action(db, desk, "done"),
        can_redo=has_action(db, desk, "undone"),
    )


def current_batch(db: sqlite3.Connection) -> CurrentBatch | None:
    """The last batch that was asked; once all of it is labelled the one that is chosen ahead, as large as it would be if its
    model were ready now."""
    number = current_round(db)
    size, done = tasks_in(db, number)
    if size == done and is_ahead(db):
        _, done = tasks_in(db, number + 1)
        budget, planned = plan(db)
        left = budget - planned - count_second(db) - done_tasks(db)["train"]
        size = done + min(round_size(done, get_meta(db, "batch", 0)) - done, left)
        return CurrentBatch(number + 1, done, size, ahead=True)
    return CurrentBatch(number, done, size) if number else None


def tasks_in(db: sqlite3.Connection, number: int) -> tuple[int, int]:
    """How many items were asked in a round, and how many of these are done."""
    query = "SELECT coalesce(sum(n), 0), coalesce(sum(n * (state = 'done')), 0) FROM tally WHERE round = ?"
    return tuple(db.execute(query, (number,)).fetchone())


def has_action(db: sqlite3.Connection, desk: Desk | None, state: str) -> bool:
    if desk is None:
        return False
    query = "SELECT 1 FROM action WHERE annotator = ? AND state = ? LIMIT 1"
    return db.execute(query, (desk.annotator, state)).fetchone() is not None


def classes_with_counts(db: sqlite3.Connection) -> list[Named]:
    classes = all_classes(db)
    final = followed(classes)
    counts: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    by_class = count_accepted(db)
    for c in classes:
        accepted[final[c.id]] += by_class.get(c.id, 0)
        counts[final[c.id]] += c.labels - by_class.get(c.id, 0)
    looks = chosen_looks(db)
    keys = keys_of([c.id for c in classes if is_shown(c)], looks)
    into = {c.id: None if c.merged_into is None else final[c.id] for c in classes}
    return [
        Named(
            c.id,
            c.name,
            keys.get(c.id, ""),
            counts[c.id],
            not is_shown(c),
            into[c.id],
            colour_of(c.id, looks),
            accepted[c.id],
        )
        for c in classes
    ]
