"""Labels that nobody was asked for: of items that a person found, by searching, on the map or while sorting (`found`), and
of those that the model had put in a class, to which a person agreed (`accepted`).

Both count apart from the budget, many are one event, and `askless.run.store.answering` takes them back. A `found` label is a
person's judgement, and is trained on where the item is in the pool. An `accepted` one is the model's own word, which people
only looked over: it never measures. It is trained on if it comes from a screen of Sort, together with what was corrected
there: corrections alone are all mistakes of the model, and would teach it the opposite mistakes. Predictions from elsewhere,
which nobody looked at one by one, are not trained on.

The measure stays unbiased: a check item has to be judged unprompted, when its turn comes, so it is never labelled here, and
an item of the reserve that is later drawn as one is asked again.
"""

import sqlite3
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from askless.base.errors import InputError
from askless.run.store.answering import (
    ConflictError,
    Given,
    Suggested,
    check_given,
    is_wanted,
    own_answer,
    put_answers,
    row_of,
)
from askless.run.store.asking import Desk, Extra
from askless.run.store.chunks import ABOUT, Chunk
from askless.run.store.classes import shown_class
from askless.run.store.labels import other_answers
from askless.run.store.store import once

Can = Literal["label", "change", "held_out", "theirs", "unreadable"]
WHY_NOT: dict[Can, str] = {
    "held_out": "item {} is a check item, which measures the model: it is asked only on its own",
    "theirs": "item {} was answered by somebody else",
    "unreadable": "item {} cannot be read",
}


class Standing(NamedTuple):
    """What decides whether somebody may label an item unasked; `mine` whether they have answered it."""

    split: str
    problem: str | None
    kind: str | None
    state: str | None
    answers: int
    mine: int


def can(at: Standing, overlap: int) -> Can:
    """Whether an item can be labelled unasked, its answer changed, or why not."""
    if at.mine:
        return "change"
    if at.problem is not None:
        return "unreadable"
    if at.split == "check":
        return "held_out"
    if at.kind is None or (at.answers < overlap and (at.state == "open" or at.kind == "found")):
        return "label"
    return "theirs"


def checked(db: sqlite3.Connection, item: int, annotator: str, overlap: int) -> tuple[Standing, Can]:
    """How it stands with an item, and what can be done; a ConflictError for one that nobody can label unasked."""
    row = db.execute(
        "SELECT i.split, i.problem, t.kind, t.state, coalesce(t.answers, 0), "
        "EXISTS (SELECT 1 FROM answer a WHERE a.item = i.id AND a.annotator = ?) "
        "FROM item i LEFT JOIN task t ON t.item = i.id WHERE i.id = ?",
        (annotator, item),
    ).fetchone()
    if row is None:
        raise ConflictError(f"the run has no item {item}", item)
    at = Standing(*row)
    how = can(at, overlap)
    if how in ("held_out", "unreadable"):
        raise ConflictError(WHY_NOT[how].format(item), item)
    return at, how


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
    batch count as answered, and those that nobody asked about are `found`. `seen`: what the model says of them (`suggested`)
    stood beside them."""
    once(db, request_id, "label", "unsure", "change")
    check_given(db, given, items)
    rows: dict[int, dict[str, Any]] = {}
    kinds: dict[int, Extra] = {}
    changed = True
    for item in items:
        at, how = checked(db, item, desk.annotator, overlap)
        if how == "theirs":
            raise ConflictError(
                WHY_NOT[how].format(item), item, next(iter(other_answers(db, item, desk.annotator)), None)
            )
        if at.state == "open" and not at.mine and not is_wanted(db, desk, item, overlap):
            raise ConflictError(f"item {item} was given to somebody else", item)
        if at.kind is None:
            kinds[item] = "found"
        own, suggestion = own_answer(db, item, desk.annotator), (suggested or {}).get(item)
        shown = own["suggestion_shown"] if own else shown_before(db, desk, item)
        rows[item] = row_of(given, suggestion, "review" if seen and suggestion and shown == "none" else shown)
        changed = changed and own is not None
    kind = "change" if changed else "label" if given.label is not None else "unsure"
    put_answers(db, desk, request_id, kind, rows, overlap, kinds=kinds)


def shown_before(db: sqlite3.Connection, desk: Desk, item: int) -> str:
    """How the model's suggestion was seen with an item when this person had it."""
    query = "SELECT shown FROM lease WHERE item = ? AND annotator = ?"
    row = db.execute(query, (item, desk.annotator)).fetchone()
    return "none" if row is None else str(row[0])


class Labelled(NamedTuple):
    """The items that were labelled, and those that were asked or labelled by somebody else in the meantime."""

    items: list[int]
    passed: list[int]


def label_extra(
    db: sqlite3.Connection,
    desk: Desk,
    request_id: str,
    labels: Mapping[int, int],
    kind: Extra,
    suggested: Mapping[int, Suggested] | None = None,
    chunk: Chunk | None = None,
    about: Mapping[str, Any] | None = None,
) -> Labelled:
    """Labels items (item -> class) that nobody is asked about, as one event, which also says `about`. With the `chunk` that
    they come from, those of another class than its own are `found`, and what was clicked out is remembered.

    Items that were asked or labelled in the meantime are passed over; a ConflictError where that is all of them.
    """
    once(db, request_id, kind)
    for label in {*labels.values(), *([] if chunk is None else [chunk.class_])}:
        shown_class(db, label)
    out = [] if chunk is None else chunk.out
    standings = {item: checked(db, item, desk.annotator, overlap=1)[0] for item in [*labels, *out]}
    passed = sorted(item for item in labels if standings[item].kind is not None)
    rows = {}
    for item in [item for item in labels if standings[item].kind is None]:
        said = (suggested or {}).get(item)
        rows[item] = row_of(Given(labels[item]), said, "none" if said is None else "sort")
    if passed and not rows:
        raise ConflictError(f"item {passed[0]} was asked or labelled in the meantime; load the next ones", passed[0])
    if not rows and not out:
        raise InputError("expected at least one item, got none")
    kinds: dict[int, Extra] = {i: "found" if chunk and labels[i] != chunk.class_ else kind for i in rows}
    told = {} if chunk is None else {name: getattr(chunk, name) for name in ABOUT} | {"class": chunk.class_}
    told |= {**(about or {}), "passed": passed}
    put_answers(db, desk, request_id, kind, rows, overlap=1, kinds=kinds, about=told)
    return Labelled([*rows], passed)


def rest_items(db: sqlite3.Connection) -> list[int]:
    """The readable items that nobody has labelled or is asked about, check items left out."""
    rows = db.execute(
        "SELECT id FROM item WHERE problem IS NULL AND split <> 'check' AND id NOT IN (SELECT item FROM task) ORDER BY id"
    )
    return [row[0] for row in rows]


def count_accepted(db: sqlite3.Connection) -> dict[int, int]:
    """How many answers of each class, as it was given, are accepted ones."""
    some = db.execute("SELECT sum(n) FROM tally WHERE kind = 'accepted'").fetchone()[0]
    if not some:
        return {}
    joined = "task t JOIN answer a ON a.item = t.item"
    counts = f"SELECT a.class, count(*) FROM {joined} WHERE t.kind = 'accepted' GROUP BY a.class"
    return dict(db.execute(counts).fetchall())
