"""What is known of a run at this moment: counts, labels, answers; read from its tables, nothing is changed."""

import hashlib
import json
import sqlite3
from collections import Counter
from typing import Any, NamedTuple

from askless.run.store.asking import Desk, done_tasks
from askless.run.store.classes import all_classes, final_class, is_shown
from askless.run.store.store import get_meta
from askless.sources import excerpt

DIGITS = "1234567890"


class Agreed(NamedTuple):
    """What the answers to one item come to: a class, or None where people are unsure or do not agree."""

    item: int
    kind: str
    label: int | None
    conflict: bool


def agreed(db: sqlite3.Connection, kinds: tuple[str, ...] = ("train", "prior", "check")) -> list[Agreed]:
    """One row per answered item, by item; of several answers the class that more than half of them have."""
    final = final_class(db)
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
        clear = 2 * votes > len(labels)
        result.append(Agreed(item, kind_of[item], label if clear else None, bool(others) and not clear))
    return result


def train_labels(db: sqlite3.Connection) -> dict[int, int]:
    """item -> class of everything that may be trained on: what was labelled before the run may be held out by the draw."""
    held = {row["id"] for row in db.execute("SELECT id FROM item WHERE split <> 'pool'")}
    return {a.item: a.label for a in agreed(db, ("train", "prior")) if a.label is not None and a.item not in held}


def check_labels(db: sqlite3.Connection) -> dict[int, int]:
    return {a.item: a.label for a in agreed(db, ("check",)) if a.label is not None}


def labels_key(db: sqlite3.Connection) -> str:
    """A text that changes when a label, or the list of classes, does."""
    shown = [c.id for c in all_classes(db) if is_shown(c)]
    return hashlib.sha256(json.dumps([sorted(train_labels(db).items()), shown]).encode()).hexdigest()[:16]


def plan(db: sqlite3.Connection) -> tuple[int, int]:
    """The budget, and how much of it goes into check images."""
    return int(get_meta(db, "budget", 0)), int(get_meta(db, "check", 0))


def progress(db: sqlite3.Connection, desk: Desk | None = None) -> dict[str, Any]:
    """The numbers that the page shows at all times."""
    budget, planned = plan(db)
    done = done_tasks(db)
    current = db.execute("SELECT max(id) FROM round").fetchone()[0]
    batch = None
    if current is not None:
        size, finished = db.execute(
            "SELECT coalesce(sum(n), 0), coalesce(sum(n * (state = 'done')), 0) FROM tally WHERE round = ?", (current,)
        ).fetchone()
        batch = {"round": current, "done": finished, "size": size}
    can = dict.fromkeys(("done", "undone"), False)
    if desk is not None:
        for state in can:
            found = db.execute(
                "SELECT 1 FROM action WHERE annotator = ? AND state = ? LIMIT 1", (desk.annotator, state)
            )
            can[state] = found.fetchone() is not None
    return {
        "spent": done["train"] + done["check"],
        "budget": budget,
        "check": {"done": done["check"], "planned": planned},
        "train": {"done": done["train"], "planned": budget - planned},
        "batch": batch,
        "classes": classes_with_counts(db),
        "can_undo": can["done"],
        "can_redo": can["undone"],
    }


def classes_with_counts(db: sqlite3.Connection) -> list[dict[str, Any]]:
    classes = all_classes(db)
    final = final_class(db)
    counts: Counter[int] = Counter()
    for label, n in db.execute("SELECT id, labels FROM class"):
        counts[final[label]] += n
    rows = []
    place = 0
    for c in classes:
        key = ""
        if is_shown(c):
            key = DIGITS[place] if place < 10 else f"Shift+{DIGITS[place - 10]}" if place < 20 else ""
            place += 1
        rows.append(
            {
                "id": c.id,
                "name": c.name,
                "key": key,
                "count": counts[c.id],
                "hidden": not is_shown(c),
                "merged_into": None if c.merged_into is None else final[c.id],
            }
        )
    return rows


def item_facts(db: sqlite3.Connection, item: int) -> dict[str, Any]:
    """An item as the page takes it; a text with its beginning."""
    row = db.execute(
        "SELECT i.path, i.width, i.height, i.columns, t.kind, t.round, t.rank, t.reason "
        "FROM item i LEFT JOIN task t ON t.item = i.id WHERE i.id = ?",
        (item,),
    ).fetchone()
    column = get_meta(db, "text")
    return {
        "id": item,
        "name": row["path"],
        "excerpt": excerpt(json.loads(row["columns"])[column]) if column else "",
        **{name: row[name] for name in ("width", "height", "round", "rank")},
        "kind": row["kind"] or "pool",
        "reason": row["reason"] or "",
        "suggestion": None,
    }


def answers(
    db: sqlite3.Connection, where: str = "", values: tuple[Any, ...] = (), limit: int = -1, offset: int = 0
) -> list[sqlite3.Row]:
    """Answers with their tasks and paths, newest first."""
    return db.execute(
        "SELECT a.*, t.kind, t.round, t.rank, t.picked_by, t.reason, t.score, i.path FROM answer a "
        f"JOIN task t ON t.item = a.item JOIN item i ON i.id = a.item {where} ORDER BY a.seq DESC, t.rank DESC "
        "LIMIT ? OFFSET ?",
        (*values, limit, offset),
    ).fetchall()
