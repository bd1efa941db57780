"""Items as a person browses them: which match, and what is known of each.

Of several answers to an item, one's own is shown, else the newest; those of others only once the item is done, or one has
answered it oneself.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from askless.run.store.classes import final_class, folded
from askless.run.store.extra import Standing
from askless.run.store.store import get_meta

Show = Literal["all", "answered", "unanswered", "labelled", "unsure"]
KINDS = {"chosen": "train", "check": "check", "found": "found", "accepted": "accepted", "before": "prior"}
SHOW: dict[Show, str] = {
    "all": "",
    "answered": "a.item IS NOT NULL",
    "unanswered": "a.item IS NULL",
    "labelled": "a.class IS NOT NULL",
    "unsure": "a.unsure IS NOT NULL",
}


@dataclass(frozen=True)
class Filters:
    """What items must match: `label` a class, with those merged into it; `person` who answered; `kind` why it was asked, or
    "unasked"; `text` a part of the name or, in a run on texts, of the text; `items` only these."""

    show: Show = "all"
    label: int | None = None
    person: str | None = None
    kind: str | None = None
    text: str = ""
    items: tuple[int, ...] | None = None


class Match(NamedTuple):
    """An item that matches; `label` is what it stands for now, `seq` grows with the time of the answer, 0 without one."""

    item: int
    split: str
    label: int | None
    seq: int


class Known(NamedTuple):
    """What is known of an item; the answer's fields are None where there is none to be seen."""

    item: int
    label: int | None
    unsure: str | None
    annotator: str | None
    at: str | None
    standing: Standing


# The answer that is shown.
SEEN = (
    "SELECT b.rowid FROM answer b WHERE b.item = i.id AND (t.state = 'done' AND t.answers >= t.wanted OR EXISTS "
    "(SELECT 1 FROM answer c WHERE c.item = i.id AND c.annotator = :me)) {of} "
    "ORDER BY b.annotator = :me DESC, b.seq DESC LIMIT 1"
)


def source(person: str | None) -> str:
    of = "" if person is None else "AND b.annotator = :person"
    return f"FROM item i LEFT JOIN task t ON t.item = i.id LEFT JOIN answer a ON a.rowid = ({SEEN.format(of=of)})"


def matching_items(db: sqlite3.Connection, annotator: str, filters: Filters, by: str = "id") -> list[Match]:
    """The readable items that match, by number ("id"), by name ("name") or the newest answer first ("newest")."""
    final = final_class(db)
    same = (
        [number for number, last in final.items() if last == final.get(filters.label, -1)]
        if filters.label is not None
        else []
    )
    wanted = [
        "i.problem IS NULL",
        SHOW[filters.show],
        "" if filters.label is None else "a.class IN (SELECT value FROM json_each(:classes))",
        "" if filters.person is None else "a.item IS NOT NULL",
        "" if filters.kind is None else "t.item IS NULL" if filters.kind == "unasked" else "t.kind = :kind",
        "holds(i.path, i.columns)" if filters.text else "",
        "" if filters.items is None else "i.id IN (SELECT value FROM json_each(:items))",
    ]
    order = {"id": "i.id", "name": "i.path, i.id", "newest": "a.seq IS NULL, a.seq DESC, t.rank DESC, i.id"}[by]
    column, part = get_meta(db, "text"), folded(filters.text)

    def holds(path: str, columns: str) -> bool:  # SQLite knows upper and lower case of ASCII only
        return part in folded(path) or bool(column and part in folded(json.loads(columns)[column]))

    db.create_function("holds", 2, holds)
    rows = db.execute(
        f"SELECT i.id, i.split, a.class, coalesce(a.seq, 0) {source(filters.person)} "
        f"WHERE {' AND '.join(filter(None, wanted))} ORDER BY {order}",
        {
            "me": annotator,
            "person": filters.person,
            "kind": KINDS.get(filters.kind or ""),
            "classes": json.dumps(same),
            "items": json.dumps(filters.items or ()),
        },
    )
    return [Match(item, split, None if label is None else final[label], seq) for item, split, label, seq in rows]


def known_items(db: sqlite3.Connection, annotator: str, items: Sequence[int], person: str | None = None) -> list[Known]:
    """What is known of these items, in their order."""
    final = final_class(db)
    rows = db.execute(
        "SELECT i.id, a.class, a.unsure, a.annotator, a.at, i.split, i.problem, t.kind, t.state, coalesce(t.answers, 0), "
        "EXISTS (SELECT 1 FROM answer d WHERE d.item = i.id AND d.annotator = :me) "
        f"{source(person)} WHERE i.id IN (SELECT value FROM json_each(:items))",
        {"me": annotator, "person": person, "items": json.dumps([*items])},
    )
    found = {
        item: Known(item, None if label is None else final[label], unsure, who, at, Standing(*standing))
        for item, label, unsure, who, at, *standing in rows
    }
    return [found[item] for item in items if item in found]
