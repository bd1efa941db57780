"""What people answer: labels, unsure, skips, and taking them back without limit.

Each change is one event, named by the request that the browser made up: a request that comes twice is stored once.

Everybody undoes and redoes their own actions, in order, while others continue. An answer is taken back, or given again, only
where everything is as that action left it: the answer is still (or still not) there, which an import may have changed, and
one that comes back finds its item asked and wanted. Else the action is refused with the reason, and passed over for good,
so that what was done before it can still be undone. Of accepted labels, which are many, those of which it is so are taken
back, or given again. For classes, see `askless.run.store.classes`.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from askless.base.errors import AsklessError, InputError
from askless.run.store.asking import (
    IN_FORCE,
    OPEN,
    Desk,
    Extra,
    add_extra,
    clock,
    end_leases,
    end_surplus,
    extra_kinds,
    forget_extra,
    set_extra,
    take,
    task_of,
)
from askless.run.store.classes import note_action, show_again, shown_class, undo_class_event
from askless.run.store.deciding import undo_decision
from askless.run.store.labels import other_answers
from askless.run.store.looks import undo_look
from askless.run.store.store import once, record, savepoint

UNSURE = ("ambiguous", "quality", "other")
FIELDS = (
    "class",
    "unsure",
    "seq",
    "at",
    "seconds",
    "suggestion",
    "suggestion_prob",
    "suggestion_shown",
    "bulk",
    "note",
)


class ConflictError(AsklessError):
    """An answer to an item that this tab does not have."""

    def __init__(self, text: str, item: int, theirs: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.item, self.theirs = item, theirs
        self.yours: dict[str, Any] | None = None  # what was refused, for those who show both


@dataclass(frozen=True)
class Given:
    """What was answered: a class or a reason for being unsure, and how; `at` is when, where that was not now."""

    label: int | None = None
    unsure: str | None = None
    seconds: float | None = None
    bulk: bool = False
    note: str = ""
    at: str = ""


@dataclass(frozen=True)
class Suggested:
    """What the model would have said of an item."""

    label: int
    prob: float


def answer(
    db: sqlite3.Connection,
    desk: Desk,
    request_id: str,
    items: list[int],
    given: Given,
    *,
    overlap: int,
    change: bool = False,
    suggested: dict[int, Suggested] | None = None,
) -> None:
    """Stores one answer to these items; all of them or, with an error, none. `change` alters own earlier answers."""
    once(db, request_id, "label", "unsure", "change")
    check_given(db, given, items)
    rows: dict[int, dict[str, Any]] = {}
    for item in items:
        suggestion = (suggested or {}).get(item)
        if change:
            own = own_answer(db, item, desk.annotator)
            if own is None:
                raise ConflictError(f"item {item} has no answer of yours to change", item)
            shown = own["suggestion_shown"]
            if shown == "none" and suggestion is not None:
                shown = "review"  # where answers are changed, the model's opinion stands beside them
        else:
            shown = check_lease(db, desk, item, overlap)
        rows[item] = row_of(given, suggestion, shown)
    kind = "change" if change else "label" if given.label is not None else "unsure"
    put_answers(db, desk, request_id, kind, rows, overlap, at=given.at)


def put_answers(
    db: sqlite3.Connection,
    desk: Desk,
    request_id: str,
    kind: str,
    rows: Mapping[int, dict[str, Any]],
    overlap: int,
    *,
    at: str = "",
    kinds: Mapping[int, Extra] | None = None,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Stores answers (item -> row) as one event, which is one step of undo; `kinds` of items that nobody was asked about,
    `about` what else the event says."""
    items, extra = [*rows], [(kinds or {}).get(item) for item in rows]
    before = [own_answer(db, item, desk.annotator) for item in items]
    payload = {"items": items, "before": before, "after": [*rows.values()], **({"kinds": extra} if kinds else {})}
    only = items[0] if len(items) == 1 else None
    seq, now = record(db, request_id, kind, desk.annotator, {**payload, **(about or {})}, only)
    for item, extra_kind, own in zip(items, extra, before, strict=True):
        if extra_kind is not None:
            add_extra(db, item, extra_kind, (about or {}).get("claims"))
        put_answer(db, item, desk.annotator, {**rows[item], "seq": seq, "at": at or now}, overlap)
        if own is not None:
            set_extra(db, item, seq)
    note_action(db, seq, desk.annotator)


def check_given(db: sqlite3.Connection, given: Given, items: list[int]) -> None:
    """An InputError unless this is one answer that these items can have."""
    if (given.label is None) == (given.unsure is None):
        raise InputError("an answer is either a class or a reason for being unsure; got both or neither")
    if given.label is not None:
        shown_class(db, given.label)
    elif given.unsure not in UNSURE:
        raise InputError(f"expected unsure to be one of {', '.join(UNSURE)}, got {given.unsure!r}")
    if len(set(items)) < len(items) or not items:
        raise InputError(f"expected each item once and at least one, got {items}")


def row_of(given: Given, suggestion: Suggested | None, shown: str) -> dict[str, Any]:
    """An answer as it is stored, but for its event; `shown`: how the model's suggestion was seen."""
    return {
        "class": given.label,
        "unsure": given.unsure,
        "seconds": given.seconds,
        "suggestion": None if suggestion is None else suggestion.label,
        "suggestion_prob": None if suggestion is None else round(suggestion.prob, 6),
        "suggestion_shown": shown,
        "bulk": int(given.bulk),
        "note": given.note,
    }


def skip(db: sqlite3.Connection, desk: Desk, request_id: str, item: int, *, overlap: int) -> None:
    """The item goes to the end of the queue."""
    once(db, request_id, "skip")
    check_lease(db, desk, item, overlap)
    seq, _ = record(db, request_id, "skip", desk.annotator, {"items": [item]}, item)
    db.execute("UPDATE task SET skips = skips + 1 WHERE item = ?", (item,))
    end_leases(db, "item = ? AND annotator = ?", (item, desk.annotator))
    note_action(db, seq, desk.annotator)


def undo(db: sqlite3.Connection, desk: Desk, request_id: str, *, overlap: int, again: bool = False) -> dict[str, Any]:
    """Takes the annotator's last action back, or with `again` makes the one that was taken back last. What was done, as
    {"kind", "items", "seq"}; kind None where there is nothing left, and "refused" with the reason where others have built on
    it since. Items that are open again are leased to this tab."""
    if again:
        chosen = "SELECT min(seq) FROM action WHERE annotator = ? AND state = 'undone'"
    else:
        chosen = "SELECT max(seq) FROM action WHERE annotator = ? AND state = 'done'"
    target = db.execute(chosen, (desk.annotator,)).fetchone()[0]
    event = None if target is None else db.execute("SELECT * FROM event WHERE seq = ?", (target,)).fetchone()
    kind = "redo" if again else "undo"
    if event is None:
        nothing: dict[str, Any] = {"kind": None, "items": [], "seq": None}
        record(db, request_id, kind, desk.annotator, nothing)
        return nothing
    payload = json.loads(event["payload"])
    what = {"kind": event["kind"], "items": payload.get("items", []), "seq": target}
    if event["kind"] == "accepted":
        what["items"] = as_left(db, desk, payload, again) or what["items"]
    try:
        with savepoint(db):
            seq, at = record(db, request_id, kind, desk.annotator, what)
            if event["kind"] == "class_look":
                undo_look(db, payload, again)
            elif event["kind"].startswith("class_"):
                undo_class_event(db, event["kind"], payload, again)
            elif event["kind"] == "decide":
                undo_decision(db, payload, at, again)
            elif event["kind"] == "skip":
                undo_skip(db, desk, payload["items"][0], again)
            else:
                undo_answers(db, desk, payload, what["items"], seq, at, overlap, again)
        state = "done" if again else "undone"
    except (InputError, ConflictError) as error:
        # Others have built on it since. It is passed over, so that what was done before it can still be taken back.
        what = {"kind": event["kind"], "items": [], "seq": None, "refused": str(error)}
        record(db, request_id, kind, desk.annotator, what)
        state = "dropped"
    db.execute("UPDATE action SET state = ? WHERE seq = ?", (state, target))
    return what


def undo_skip(db: sqlite3.Connection, desk: Desk, item: int, again: bool) -> None:
    db.execute("UPDATE task SET skips = max(skips + ?, 0) WHERE item = ?", (1 if again else -1, item))
    if again:
        end_leases(db, "item = ? AND annotator = ?", (item, desk.annotator))
    elif is_free(db, desk, item):
        take(db, desk, [item], first=True)


def undo_answers(
    db: sqlite3.Connection,
    desk: Desk,
    payload: dict[str, Any],
    items: Sequence[int],
    seq: int,
    at: str,
    overlap: int,
    again: bool,
) -> None:
    """`items`: those of the event that it is about, all or, of accepted ones, those that are as it left them."""
    open_again, wanted = [], set(items)
    rows = zip(payload["items"], payload["before"], payload["after"], extra_kinds(payload), strict=True)
    for item, before, after, kind in rows:
        if item not in wanted:
            continue
        there = own_answer(db, item, desk.annotator)
        if not is_same(there, before if again else after):
            raise ConflictError(f"your answer to item {item} has since been replaced", item)
        if again and kind is not None:
            if not add_extra(db, item, kind, payload.get("claims")):
                task = task_of(db, item)
                if kind != "found" or task is None or task.kind != "train":
                    raise ConflictError(f"item {item} was asked or labelled in the meantime", item)
                check_room(db, desk, item, overlap)  # what was found has been chosen since: it answers that
        elif again and before is None:
            check_room(db, desk, item, overlap)
        row = {**after, "seq": seq, "at": at} if again else before
        if row is None:
            db.execute("DELETE FROM answer WHERE item = ? AND annotator = ?", (item, desk.annotator))
            if not forget_extra(db, item):
                count_answers(db, item, overlap)
                open_again.append(item)
        else:
            if row["class"] is not None:
                show_again(db, row["class"])  # its class may have been taken back in the meantime
            put_answer(db, item, desk.annotator, row, overlap)
            if before is not None:
                set_extra(db, item, row["seq"])
    if open_again:
        take(db, desk, open_again, first=True)


def as_left(db: sqlite3.Connection, desk: Desk, payload: dict[str, Any], again: bool) -> list[int]:
    """The accepted items that are as their event, or with `again` the undo of it, left them: one of thousands may have been
    drawn, chosen or changed since, which keeps nobody from taking the others back."""
    found = []
    for item, after in zip(payload["items"], payload["after"], strict=True):
        there = own_answer(db, item, desk.annotator)
        if (there is None and task_of(db, item) is None) if again else is_same(there, after):
            found.append(item)
    return found


def is_same(one: dict[str, Any] | None, other: dict[str, Any] | None) -> bool:
    """Whether two answers say the same."""
    if one is None or other is None:
        return one is other
    return (one["class"], one["unsure"]) == (other["class"], other["unsure"])


def check_room(db: sqlite3.Connection, desk: Desk, item: int, overlap: int) -> None:
    """A ConflictError unless an answer that was taken back can be given again."""
    if not is_wanted(db, desk, item, overlap):
        raise ConflictError(f"item {item} was taken or answered by somebody else in the meantime", item)
    if not db.execute(f"SELECT 1 FROM task WHERE item = ? AND {OPEN}", (item,)).fetchone():
        raise ConflictError(f"item {item} is no longer being asked", item)


def own_answer(db: sqlite3.Connection, item: int, annotator: str) -> dict[str, Any] | None:
    row = db.execute("SELECT * FROM answer WHERE item = ? AND annotator = ?", (item, annotator)).fetchone()
    return None if row is None else {name: row[name] for name in FIELDS}


def put_answer(db: sqlite3.Connection, item: int, annotator: str, row: dict[str, Any], overlap: int) -> None:
    values = [row[name] for name in FIELDS]
    marks = ", ".join("?" * (len(FIELDS) + 2))
    db.execute(
        f"INSERT OR REPLACE INTO answer (item, annotator, {', '.join(FIELDS)}) VALUES ({marks})",
        (item, annotator, *values),
    )
    end_leases(db, "item = ? AND annotator = ?", (item, annotator))
    count_answers(db, item, overlap)


def count_answers(db: sqlite3.Connection, item: int, overlap: int) -> None:
    """A task is done when enough people have answered it, and open again when an answer was taken back. Leases of those
    whose answers are not wanted any more end."""
    n = db.execute("SELECT count(*) FROM answer WHERE item = ?", (item,)).fetchone()[0]
    most = wanted_of(db, item, overlap)
    db.execute(
        "UPDATE task SET answers = :n, state = CASE "
        "WHEN kind IN ('prior', 'found', 'accepted') OR :n >= :overlap THEN 'done' "
        "WHEN :n < answers THEN 'open' ELSE state END WHERE item = :item",
        {"n": n, "overlap": overlap, "item": item},
    )
    end_surplus(db, item, most - n)


def wanted_of(db: sqlite3.Connection, item: int, overlap: int) -> int:
    """How many answers an item is to have: the run's `overlap`, or two where a second opinion is asked."""
    return int(
        db.execute("SELECT max(?, coalesce(max(wanted), 0)) FROM task WHERE item = ?", (overlap, item)).fetchone()[0]
    )


def check_lease(db: sqlite3.Connection, desk: Desk, item: int, overlap: int) -> str:
    """What was shown of the model with this item; a ConflictError unless it is this tab's to answer.

    A lease that has expired still counts while nobody else has taken or answered the item.
    """
    task = db.execute("SELECT * FROM task WHERE item = ?", (item,)).fetchone()
    if task is None:
        raise ConflictError(f"item {item} is not being asked", item)
    mine = own_answer(db, item, desk.annotator)
    if mine is not None:
        raise ConflictError(f"you have already answered item {item}; change the answer under Review", item, mine)
    others = other_answers(db, item, desk.annotator)
    if len(others) >= wanted_of(db, item, overlap):
        theirs = others[0]
        raise ConflictError(f"{theirs['annotator']} has answered item {item} in the meantime", item, theirs)
    if task["state"] != "open" and task["answers"] >= task["wanted"]:
        raise ConflictError(f"item {item} was withdrawn: its batch has been closed", item)
    lease = db.execute(
        f"SELECT shown, {IN_FORCE} AS in_force FROM lease WHERE item = :item AND annotator = :annotator AND tab = :tab",
        {"item": item, "annotator": desk.annotator, "tab": desk.tab, **clock()},
    ).fetchone()
    if lease is None:
        raise ConflictError(f"item {item} is not the one given to this tab", item)
    if not lease["in_force"] and not is_wanted(db, desk, item, overlap):
        raise ConflictError(f"item {item} was given to somebody else after ten minutes without an answer", item)
    return str(lease["shown"])


def is_wanted(db: sqlite3.Connection, desk: Desk, item: int, overlap: int) -> bool:
    """Whether fewer people than wanted have answered this item or are at it, leaving this one out."""
    values = {"item": item, "annotator": desk.annotator, **clock()}
    answered = "SELECT annotator FROM answer WHERE item = :item AND annotator <> :annotator"
    at_it = f"SELECT annotator FROM lease WHERE item = :item AND annotator <> :annotator AND {IN_FORCE}"
    at_most = wanted_of(db, item, overlap)
    return int(db.execute(f"SELECT count(*) FROM ({answered} UNION {at_it})", values).fetchone()[0]) < at_most


def is_free(db: sqlite3.Connection, desk: Desk, item: int) -> bool:
    """Whether the task is open and in nobody else's hands."""
    task = db.execute(f"SELECT {OPEN} AS open FROM task WHERE item = ?", (item,)).fetchone()
    held = db.execute(
        f"SELECT count(*) FROM lease WHERE item = :item AND NOT (annotator = :annotator AND tab = :tab) AND {IN_FORCE}",
        {"item": item, "annotator": desk.annotator, "tab": desk.tab, **clock()},
    ).fetchone()[0]
    return task is not None and bool(task["open"]) and held == 0


def mark_shown(db: sqlite3.Connection, desk: Desk, item: int, how: str) -> None:
    """The model's suggestion was seen with this item."""
    db.execute(
        "UPDATE lease SET shown = ? WHERE item = ? AND annotator = ? AND tab = ? AND shown = 'none'",
        (how, item, desk.annotator, desk.tab),
    )
