"""Answers and what they come to: the class that an item has by all its answers, to train on or to measure with."""

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from askless.run.store.asking import AHEAD
from askless.run.store.chunks import looked_over
from askless.run.store.classes import final_class, shown_classes
from askless.run.store.deciding import decisions
from askless.run.store.items import held_out_items


class Answer(NamedTuple):
    """An answer with its item and task; `label` is a class as it was given, None where the annotator is unsure."""

    item: int
    annotator: str
    label: int | None
    unsure: str | None
    at: str
    seconds: float | None
    suggestion: int | None
    suggestion_shown: str
    bulk: int
    note: str
    kind: str
    round: int | None
    rank: int
    picked_by: str
    path: str
    split: str


ANSWER = (
    "SELECT a.item, a.annotator, a.class, a.unsure, a.at, a.seconds, a.suggestion, a.suggestion_shown, a.bulk, a.note, "
    "t.kind, t.round, t.rank, t.picked_by, i.path, i.split "
    "FROM answer a JOIN task t ON t.item = a.item JOIN item i ON i.id = a.item"
)
NEWEST = "ORDER BY a.seq DESC, t.rank DESC"
# What a person may see: where several label each image, answers of others only after one's own.
OPEN_TO = (
    "(t.state = 'done' AND t.answers >= t.wanted "
    "OR EXISTS (SELECT 1 FROM answer b WHERE b.item = a.item AND b.annotator = ?))"
)


def all_answers(db: sqlite3.Connection, newest_first: bool = False) -> list[Answer]:
    return [Answer(*row) for row in db.execute(f"{ANSWER} {NEWEST if newest_first else 'ORDER BY a.seq, a.item'}")]


def last_answers(db: sqlite3.Connection, annotator: str, n: int) -> list[Answer]:
    """The last n answers of one person, the newest first."""
    return [Answer(*row) for row in db.execute(f"{ANSWER} WHERE a.annotator = ? {NEWEST} LIMIT ?", (annotator, n))]


def answers_to(db: sqlite3.Connection, items: Sequence[int], annotator: str) -> list[Answer]:
    """The answers to these items, in their order, that somebody may see."""
    query = f"{ANSWER} WHERE {OPEN_TO} AND a.item = ? {NEWEST}"
    return [Answer(*row) for item in items for row in db.execute(query, (annotator, item))]


def other_answers(db: sqlite3.Connection, item: int, annotator: str) -> list[dict[str, str | int | None]]:
    """What others answered, the first first: annotator, class and unsure."""
    rows = db.execute(
        "SELECT annotator, class, unsure FROM answer WHERE item = ? AND annotator <> ? ORDER BY seq", (item, annotator)
    )
    return [dict(row) for row in rows]


def answered_items(db: sqlite3.Connection) -> list[int]:
    return [row[0] for row in db.execute("SELECT DISTINCT item FROM answer ORDER BY item")]


def unanswered_items(db: sqlite3.Connection) -> list[tuple[int, str]]:
    """The number and path of the readable items that nobody has answered."""
    rows = db.execute(
        "SELECT id, path FROM item WHERE problem IS NULL AND id NOT IN (SELECT item FROM answer) ORDER BY id"
    )
    return [(row["id"], row["path"]) for row in rows]


def kept_items(db: sqlite3.Connection) -> set[int]:
    """The items whose answer somebody looked at again and kept, which is a change to the same class, until it is changed;
    and those that somebody decided."""
    rows = db.execute(
        "SELECT a.item FROM answer a JOIN event e ON e.seq = a.seq "
        "JOIN event c ON c.seq = CASE e.kind WHEN 'redo' THEN json_extract(e.payload, '$.seq') ELSE e.seq END "
        "WHERE c.kind = 'change' AND json_array_length(c.payload, '$.items') = 1 "
        "AND json_extract(c.payload, '$.before[0].class') = json_extract(c.payload, '$.after[0].class')"
    )
    return {row[0] for row in rows} | decisions(db).keys()


def count_answers_by_annotator(db: sqlite3.Connection, accepted: bool = True) -> dict[str, int]:
    """How many answers each person gave, with what they `accepted` of the model's, or without."""
    own = "" if accepted else "WHERE item NOT IN (SELECT item FROM task WHERE kind = 'accepted')"
    query = f"SELECT annotator, count(*) FROM answer {own} GROUP BY annotator ORDER BY annotator"
    return dict(db.execute(query).fetchall())


def times_of_answers(db: sqlite3.Connection, n: int) -> list[str]:
    """When the last n answers were given that were timed, the newest first."""
    rows = db.execute("SELECT at FROM answer WHERE seconds IS NOT NULL ORDER BY seq DESC LIMIT ?", (n,))
    return [row["at"] for row in rows]


# --- what they come to -----------------------------------------------------------------------------------------------------


class Agreed(NamedTuple):
    """What the answers to one item come to: a class, or None where people are unsure or do not agree. `differ`: they are not
    all the same, and nobody has decided; a `conflict` where none has a majority either."""

    item: int
    kind: str
    label: int | None
    conflict: bool
    differ: bool


def agreed(
    db: sqlite3.Connection, kinds: tuple[str, ...] = ("train", "prior", "check", "found", "accepted")
) -> list[Agreed]:
    """One row per answered item, by item: what somebody decided, else the class that more than half of the answers have."""
    final, decided = final_class(db), decisions(db)
    given: dict[int, list[int | None]] = {}
    kind_of: dict[int, str] = {}
    rows = db.execute("SELECT a.item, a.class, t.kind FROM answer a JOIN task t ON t.item = a.item ORDER BY a.item")
    for item, label, kind in rows:
        if kind in kinds:
            given.setdefault(item, []).append(None if label is None else final[label])
            kind_of[item] = kind
    result = []
    for item, labels in given.items():
        (label, votes), *others = Counter(labels).most_common()
        clear, differ = 2 * votes > len(labels), bool(others)
        if item in decided:
            given_, clear, differ = decided[item].label, True, False
            label = None if given_ is None else final[given_]
        result.append(Agreed(item, kind_of[item], label if clear else None, differ and not clear, differ))
    return result


def disagreements(db: sqlite3.Connection) -> list[Agreed]:
    """Items with all their answers on which people differ and nobody has decided, those without a majority first."""
    done = {row[0] for row in db.execute("SELECT item FROM task WHERE state = 'done' AND answers >= wanted")}
    return sorted((a for a in agreed(db) if a.differ and a.item in done), key=lambda a: not a.conflict)


def train_labels(db: sqlite3.Connection) -> dict[int, int]:
    """item -> class of everything that people judged and that may be trained on: what nobody was asked for may be held out
    by the draw, and what was accepted in a grid is the model's own word."""
    held = held_out_items(db)
    return {
        a.item: a.label for a in agreed(db, ("train", "prior", "found")) if a.label is not None and a.item not in held
    }


def confirmed_labels(db: sqlite3.Connection) -> dict[int, int]:
    """item -> class of what was accepted on a screen of Sort and may be trained on; see `askless.run.store.extra`."""
    seen = looked_over(db) - set(held_out_items(db))
    return (
        {a.item: a.label for a in agreed(db, ("accepted",)) if a.label is not None and a.item in seen} if seen else {}
    )


def settled_labels(db: sqlite3.Connection) -> dict[int, int]:
    """item -> class of what the next training learns from. Labels of the round that is chosen ahead wait for the one after
    it: else a model would depend on how many of them were there when its training began. Confirmed ones train too."""
    ahead = {row[0] for row in db.execute(f"SELECT item FROM task WHERE {AHEAD}")}
    return {item: label for item, label in train_labels(db).items() if item not in ahead} | confirmed_labels(db)


def labels_of_check_items(db: sqlite3.Connection) -> dict[int, int]:
    return {a.item: a.label for a in agreed(db, ("check",)) if a.label is not None}


def is_trainable(db: sqlite3.Connection) -> bool:
    """Whether there are labels of two classes at least."""
    return len(set(settled_labels(db).values())) >= 2


def labels_key(db: sqlite3.Connection) -> str:
    """A text that changes when a label to train on, or the list of classes, does."""
    shown = [c.id for c in shown_classes(db)]
    return hashlib.sha256(json.dumps([sorted(settled_labels(db).items()), shown]).encode()).hexdigest()[:16]


def labels_in_order(db: sqlite3.Connection) -> list[int]:
    """The class of every label that people were asked for or found, in the order in which they were given."""
    final = final_class(db)
    rows = db.execute(
        "SELECT a.class FROM answer a JOIN task t ON t.item = a.item WHERE a.class IS NOT NULL AND t.kind <> 'accepted' "
        "ORDER BY a.seq, a.item"
    )
    return [final[row[0]] for row in rows]


def first_rounds(db: sqlite3.Connection) -> dict[int, int]:
    """The round in which each class was first given to a chosen item."""
    final = final_class(db)
    first: dict[int, int] = {}
    rows = db.execute(
        "SELECT t.round, a.class FROM answer a JOIN task t ON t.item = a.item WHERE a.class IS NOT NULL "
        "AND t.kind = 'train' ORDER BY t.round, a.seq"
    )
    for number, label in rows:
        first.setdefault(final[label], number)
    return first
