"""Decisions: what a person settles an item on, having seen what everybody answered. The answers stay as they were given.

A decision holds while the answers are those that it was made on: whoever changes one later opens the question again, and an
undo of that change closes it. What is held out is decided only where people disagree: if a lone label could be overruled
there, people would do so where a model disagrees, and the accuracy would flatter it.
"""

import json
import sqlite3
from typing import Any, NamedTuple

from askless.base.errors import InputError
from askless.run.store.classes import final_class, note_action, show_again, shown_class
from askless.run.store.store import once, record

COLUMNS = ("annotator", "class", "unsure", "seen", "at")


class Decision(NamedTuple):
    """What `annotator` decided: a class as it was given, or None with the reason to be unsure."""

    annotator: str
    label: int | None
    unsure: str | None
    at: str


def decide(
    db: sqlite3.Connection, request_id: str, annotator: str, item: int, label: int | None, unsure: str | None = None
) -> None:
    """Settles an item on a class, or as one that nobody can tell; what was decided before is replaced."""
    once(db, request_id, "decide")
    if label is not None:
        shown_class(db, label)
    seen = answers_on(db, [item]).get(item, [])
    check_answered(db, item, seen)
    before = decision_row(db, item)
    after = {"annotator": annotator, "class": label, "unsure": unsure, "seen": json.dumps(seen)}
    payload = {"items": [item], "before": [before], "after": [after]}
    seq, at = record(db, request_id, "decide", annotator, payload, item)
    put_decision(db, item, {**after, "at": at})
    note_action(db, seq, annotator)


def check_answered(db: sqlite3.Connection, item: int, seen: list[list[Any]]) -> None:
    """An InputError unless the item has all its answers and may be decided."""
    task = db.execute(
        "SELECT i.split, state = 'done' AND answers >= wanted AS done FROM task JOIN item i ON i.id = item WHERE item = ?",
        (item,),
    ).fetchone()
    if task is None or not task["done"] or not seen:
        raise InputError(f"expected an item with all its answers, got {item}; wait for the answers")
    final = final_class(db)
    is_held = task["split"] in ("check", "reserve")
    if is_held and len({None if label is None else final[label] for _, label, _ in seen}) < 2:
        raise InputError(f"item {item} measures the model: it can be decided only if people disagree about it")


def undo_decision(db: sqlite3.Connection, payload: dict[str, Any], at: str, again: bool) -> None:
    """Takes a decision back, or makes it again; an InputError where there is another one since."""
    item, before, after = payload["items"][0], payload["before"][0], payload["after"][0]
    there, was = decision_row(db, item), before if again else after
    if untimed(there) != untimed(was):
        raise InputError(f"item {item} has since been decided again")
    row = {**after, "at": at} if again else before
    if row is not None and row["class"] is not None:
        show_again(db, row["class"])
    put_decision(db, item, row)


def untimed(row: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {**row, "at": ""}


def decision_row(db: sqlite3.Connection, item: int) -> dict[str, Any] | None:
    row = db.execute(f"SELECT {', '.join(COLUMNS)} FROM decision WHERE item = ?", (item,)).fetchone()
    return None if row is None else dict(row)


def put_decision(db: sqlite3.Connection, item: int, row: dict[str, Any] | None) -> None:
    db.execute("DELETE FROM decision WHERE item = ?", (item,))
    if row is not None:
        marks = ", ".join("?" * len(COLUMNS))
        db.execute(
            f"INSERT INTO decision (item, {', '.join(COLUMNS)}) VALUES (?, {marks})",
            (item, *(row[name] for name in COLUMNS)),
        )


def answers_on(db: sqlite3.Connection, items: list[int]) -> dict[int, list[list[Any]]]:
    """item -> [annotator, class, unsure] of every answer to it, by name."""
    found: dict[int, list[list[Any]]] = {}
    rows = db.execute(
        "SELECT item, annotator, class, unsure FROM answer WHERE item IN (SELECT value FROM json_each(?)) "
        "ORDER BY item, annotator",
        (json.dumps(items),),
    )
    for item, *answer in rows:
        found.setdefault(item, []).append(answer)
    return found


def decisions(db: sqlite3.Connection) -> dict[int, Decision]:
    """item -> its decision, of those that hold."""
    rows = db.execute("SELECT * FROM decision").fetchall()
    now = answers_on(db, [row["item"] for row in rows])
    return {
        row["item"]: Decision(row["annotator"], row["class"], row["unsure"], row["at"])
        for row in rows
        if json.loads(row["seen"]) == now.get(row["item"])
    }
