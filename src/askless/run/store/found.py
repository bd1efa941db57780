"""Labels for items that a person came across, by searching, on the map or in a list: many at once, as one event.

Items that nobody asked about become tasks of kind `found`, which cost no budget. The measure stays unbiased: what is held
out to measure with, asked or in reserve, was drawn before anything was labelled, and cannot be labelled here. A label of a
check item has to be given unprompted, when its turn comes, and not because it stood beside others of its class; and an item
in reserve that had a label by search would bring it along when it is drawn.
"""

import sqlite3
from typing import Any, Literal, NamedTuple

from askless.run.store.answering import (
    ConflictError,
    Given,
    Suggested,
    check_given,
    is_wanted,
    own_answer,
    put_answer,
    row_of,
)
from askless.run.store.asking import Desk, add_found
from askless.run.store.classes import note_action
from askless.run.store.labels import other_answers
from askless.run.store.store import once, record

Can = Literal["label", "change", "held_out", "look_alike", "theirs", "unreadable"]
WHY_NOT: dict[Can, str] = {
    "held_out": "item {} is kept to measure the model; it is asked by itself, and not labelled in a list",
    "look_alike": "item {} looks like a check item, so it is never trained on",
    "theirs": "item {} was answered by somebody else",
    "unreadable": "item {} cannot be read",
}


class Standing(NamedTuple):
    """What decides whether somebody may label an item in a list; `mine` whether they have answered it."""

    split: str
    problem: str | None
    kind: str | None
    state: str | None
    answers: int
    mine: int


def can(at: Standing, overlap: int) -> Can:
    """Whether an item can be labelled in a list, its answer changed, or why not."""
    if at.mine:
        return "change"
    if at.problem is not None:
        return "unreadable"
    if at.split in ("check", "reserve"):
        return "held_out"
    if at.split != "pool":
        return "look_alike"
    if at.kind is None or (at.answers < overlap and (at.state == "open" or at.kind == "found")):
        return "label"
    return "theirs"


def standing_of(db: sqlite3.Connection, item: int, annotator: str) -> Standing | None:
    row = db.execute(
        "SELECT i.split, i.problem, t.kind, t.state, coalesce(t.answers, 0), "
        "EXISTS (SELECT 1 FROM answer a WHERE a.item = i.id AND a.annotator = ?) "
        "FROM item i LEFT JOIN task t ON t.item = i.id WHERE i.id = ?",
        (annotator, item),
    ).fetchone()
    return None if row is None else Standing(*row)


def label_found(
    db: sqlite3.Connection,
    desk: Desk,
    request_id: str,
    items: list[int],
    given: Given,
    *,
    overlap: int,
    suggested: dict[int, Suggested] | None = None,
    seen: bool = False,
) -> None:
    """Stores one answer to all of these items or, with an error, to none. Own earlier answers are changed, items of the open
    batch count as answered, and those that nobody asked about become tasks of kind `found`. `seen`: what the model says of
    them (`suggested`) stood beside them."""
    once(db, request_id, "label", "unsure", "change")
    check_given(db, given, items)
    before: list[dict[str, Any] | None] = []
    after, found = [], []
    for item in items:
        at = standing_of(db, item, desk.annotator)
        if at is None:
            raise ConflictError(f"the run has no item {item}", item)
        how = can(at, overlap)
        if how not in ("label", "change"):
            others = other_answers(db, item, desk.annotator) if how == "theirs" else []
            raise ConflictError(WHY_NOT[how].format(item), item, next(iter(others), None))
        if at.state == "open" and not at.mine and not is_wanted(db, desk, item, overlap):
            raise ConflictError(f"item {item} was given to somebody else", item)
        if at.kind is None:
            found.append(item)
        own, suggestion = own_answer(db, item, desk.annotator), (suggested or {}).get(item)
        before.append(own)
        shown = own["suggestion_shown"] if own else shown_before(db, desk, item)
        after.append(row_of(given, suggestion, "review" if seen and suggestion and shown == "none" else shown))
    kind = "change" if all(before) else "label" if given.label is not None else "unsure"
    payload = {"items": items, "before": before, "after": after, "found": found}
    seq, at_time = record(db, request_id, kind, desk.annotator, payload, items[0] if len(items) == 1 else None)
    for item in found:
        add_found(db, item)
    for item, row in zip(items, after, strict=True):
        put_answer(db, item, desk.annotator, {**row, "seq": seq, "at": at_time}, overlap)
    note_action(db, seq, desk.annotator)


def shown_before(db: sqlite3.Connection, desk: Desk, item: int) -> str:
    """How the model's suggestion was seen with an item when this person had it."""
    query = "SELECT shown FROM lease WHERE item = ? AND annotator = ?"
    row = db.execute(query, (item, desk.annotator)).fetchone()
    return "none" if row is None else str(row[0])
