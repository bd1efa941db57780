"""The items of a run: their paths, what a table said of them, how they were drawn, and which cannot be read."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from askless.run.store.store import get_meta, set_meta
from askless.sources import Item, Skipped, excerpt


class ItemAndTask(NamedTuple):
    """An item and why it is asked; `kind` is "pool" where it is not. `excerpt`: the beginning of a text."""

    path: str
    excerpt: str
    width: int
    height: int
    kind: str
    round: int | None
    rank: int | None
    reason: str


def noun(kind: str) -> str:
    """What one item of a run is called."""
    return {"texts": "text", "features": "row"}.get(kind, "image")


def add_items(db: sqlite3.Connection, items: Iterable[tuple[Item, str, int]]) -> None:
    """Numbers the items from 0, in the order in which they come, each with its split and its place in the draw."""
    db.executemany(
        "INSERT INTO item (id, path, width, height, split, place, columns) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (i, it.id, it.width, it.height, split, place, json.dumps(dict(it.columns)))
            for i, (it, split, place) in enumerate(items)
        ],
    )


def item_paths(db: sqlite3.Connection) -> list[str]:
    """The path of every item, by its number."""
    return [row[0] for row in db.execute("SELECT path FROM item ORDER BY id")]


def item_numbers(db: sqlite3.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT path, id FROM item").fetchall())


def item_number(db: sqlite3.Connection, path: str) -> int | None:
    row = db.execute("SELECT id FROM item WHERE path = ?", (path,)).fetchone()
    return None if row is None else int(row[0])


def item_of(db: sqlite3.Connection, item: int) -> ItemAndTask:
    row = db.execute(
        "SELECT i.path, i.columns, i.width, i.height, coalesce(t.kind, 'pool'), t.round, t.rank, coalesce(t.reason, '') "
        "FROM item i LEFT JOIN task t ON t.item = i.id WHERE i.id = ?",
        (item,),
    ).fetchone()
    column = get_meta(db, "text")
    return ItemAndTask(*row)._replace(excerpt=excerpt(json.loads(row["columns"])[column]) if column else "")


def item_texts(db: sqlite3.Connection, items: Sequence[int] | None = None) -> dict[int, str]:
    """The texts of these items, or of all, in a run on texts."""
    column = get_meta(db, "text")
    if items is None:
        rows = db.execute("SELECT id, columns FROM item ORDER BY id").fetchall()
    else:
        rows = [db.execute("SELECT id, columns FROM item WHERE id = ?", (i,)).fetchone() for i in items]
    return {row["id"]: json.loads(row["columns"])[column] for row in rows if row is not None}


def columns_by_path(db: sqlite3.Connection, everything: bool = False) -> dict[str, dict[str, str]]:
    """What the user's own manifest said of the items that have an answer (or of all), where it said more than path and
    label."""
    which = "" if everything else " AND id IN (SELECT item FROM answer)"
    rows = db.execute(f"SELECT path, columns FROM item WHERE columns <> '{{}}'{which}")
    return {row["path"]: json.loads(row["columns"]) for row in rows}


def readable_items(db: sqlite3.Connection, *splits: str) -> list[int]:
    """The items that can be read: those of these splits, or all."""
    which = f" AND split IN ({', '.join('?' * len(splits))})" if splits else ""
    return [row[0] for row in db.execute(f"SELECT id FROM item WHERE problem IS NULL{which} ORDER BY id", splits)]


def unreadable_items(db: sqlite3.Connection) -> frozenset[int]:
    return frozenset(row[0] for row in db.execute("SELECT id FROM item WHERE problem IS NOT NULL"))


def held_out_items(db: sqlite3.Connection) -> set[int]:
    """All that is not in the pool, readable or not."""
    return {row[0] for row in db.execute("SELECT id FROM item WHERE split <> 'pool'")}


def count_splits(db: sqlite3.Connection) -> Counter[str]:
    """How many readable items each split has."""
    query = "SELECT split, count(*) FROM item WHERE problem IS NULL GROUP BY split"
    return Counter(dict(db.execute(query).fetchall()))


def widths(db: sqlite3.Connection) -> tuple[int, int]:
    """The least and the greatest width in pixels."""
    low, high = db.execute("SELECT min(width), max(width) FROM item").fetchone()
    return low, high


def keep_out_of_pool(db: sqlite3.Connection, items: Sequence[int]) -> None:
    """These items look like check images: nobody is asked about them, and nothing is trained on them."""
    db.executemany("UPDATE item SET split = 'out' WHERE id = ?", [(i,) for i in items])


def skipped_files(db: sqlite3.Connection) -> list[Skipped]:
    """What is not in the run, or not asked, and why."""
    return [Skipped(*row) for row in get_meta(db, "skipped", [])]


def note_skipped(db: sqlite3.Connection, more: Iterable[Skipped]) -> list[Skipped]:
    """All that is skipped, with these."""
    skipped = [*skipped_files(db), *more]
    set_meta(db, "skipped", skipped)
    return skipped


def count_skipped(db: sqlite3.Connection) -> dict[str, int]:
    counts = Counter(skipped.problem for skipped in skipped_files(db))
    near = db.execute("SELECT count(*) FROM item WHERE split = 'out'").fetchone()[0]
    named = {"unreadable": "unreadable", "duplicates": "duplicate", "outside": "outside", "missing": "missing"}
    return {**{name: counts[problem] for name, problem in named.items()}, "near_check": near}


def note_problem(db: sqlite3.Connection, item: int, reason: str) -> tuple[str, str] | None:
    """Notes why an item cannot be read; its path and split, or None where that was known."""
    row = db.execute("SELECT path, split, problem FROM item WHERE id = ?", (item,)).fetchone()
    if row["problem"] is not None:
        return None
    db.execute("UPDATE item SET problem = ? WHERE id = ?", (reason, item))
    return row["path"], row["split"]
