"""The classes: numbered for ever in the order in which they came; renamed, merged, never renumbered."""

import sqlite3
import unicodedata
from typing import Any, NamedTuple

from askless.errors import InputError
from askless.project.store import once, record

LONGEST = 100
MOST = 1000


class Class(NamedTuple):
    id: int
    name: str
    merged_into: int | None
    hidden: bool


def all_classes(db: sqlite3.Connection) -> list[Class]:
    rows = db.execute("SELECT id, name, merged_into, hidden FROM class ORDER BY id")
    return [Class(row["id"], row["name"], row["merged_into"], bool(row["hidden"])) for row in rows]


def is_shown(c: Class) -> bool:
    return c.merged_into is None and not c.hidden


def final_class(db: sqlite3.Connection) -> dict[int, int]:
    """The class that each class stands for: itself, or the one it was merged into."""
    into = {c.id: c.merged_into for c in all_classes(db)}
    final = {}
    for number in into:
        last = number
        while (following := into[last]) is not None:
            last = following
        final[number] = last
    return final


def folded(name: str) -> str:
    """What makes two names the same class."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def class_numbers(db: sqlite3.Connection) -> dict[str, int]:
    """The number of the class that a (folded) name from elsewhere means: by its name of now, by one that was merged into it,
    and by one that it had before."""
    classes, final = all_classes(db), final_class(db)
    renamed = db.execute(
        "SELECT json_extract(payload, '$.before'), json_extract(payload, '$.class') FROM event "
        "WHERE kind = 'class_rename' ORDER BY seq"
    )
    named = [(name, number) for name, number in renamed]
    named += [(c.name, c.id) for c in classes if c.merged_into is not None]
    named += [(c.name, c.id) for c in classes if is_shown(c)]
    return {folded(name): final[number] for name, number in named if not classes[final[number]].hidden}


def check_name(db: sqlite3.Connection, given: str, but: int | None = None) -> str:
    """The name as it is stored; an error for one that is blank, too long, unprintable, or taken."""
    name = unicodedata.normalize("NFC", given.strip())
    if not name:
        raise InputError("a class needs a name, got a blank one")
    if len(name) > LONGEST:
        raise InputError(f"a class name has at most {LONGEST} characters, got {len(name)}")
    if not name.isprintable() or any(0xD800 <= ord(c) < 0xE000 for c in name):
        raise InputError("a class name has printable characters only, got a line break or another control character")
    for c in all_classes(db):
        if c.id != but and c.merged_into is None and folded(c.name) == folded(name):
            raise InputError(f"there is a class {c.name!r} already; choose another name")
    return name


def add_class(db: sqlite3.Connection, request_id: str, annotator: str, given: str) -> int:
    """A new class, after all others; one that was added and taken back comes back under its number."""
    once(db, request_id, "class_add")
    gone = db.execute("SELECT id, name FROM class WHERE hidden AND merged_into IS NULL").fetchall()
    again = next((row["id"] for row in gone if folded(row["name"]) == folded(given)), None)
    name = check_name(db, given, but=again)
    number = db.execute("SELECT count(*) FROM class").fetchone()[0] if again is None else again
    if number >= MOST:
        raise InputError(f"a run has at most {MOST} classes")
    seq, _ = record(db, request_id, "class_add", annotator, {"class": number, "name": name})
    if again is None:
        db.execute("INSERT INTO class (id, name) VALUES (?, ?)", (number, name))
    else:
        db.execute("UPDATE class SET hidden = 0, name = ? WHERE id = ?", (name, number))
    note_action(db, seq, annotator)
    return number


def rename_class(db: sqlite3.Connection, request_id: str, annotator: str, number: int, given: str) -> None:
    once(db, request_id, "class_rename")
    c = shown_class(db, number)
    name = check_name(db, given, but=number)
    seq, _ = record(db, request_id, "class_rename", annotator, {"class": number, "before": c.name, "after": name})
    db.execute("UPDATE class SET name = ? WHERE id = ?", (name, number))
    note_action(db, seq, annotator)


def merge_class(db: sqlite3.Connection, request_id: str, annotator: str, number: int, into: int) -> None:
    """All labels of one class, past and future, count as those of the other."""
    once(db, request_id, "class_merge")
    shown_class(db, number), shown_class(db, into)
    if number == into:
        raise InputError("a class cannot be merged into itself; name another one")
    moved = [row["id"] for row in db.execute("SELECT id FROM class WHERE id = ? OR merged_into = ?", (number, number))]
    payload = {"class": number, "into": into, "moved": moved}
    seq, _ = record(db, request_id, "class_merge", annotator, payload)
    db.executemany("UPDATE class SET merged_into = ? WHERE id = ?", [(into, i) for i in moved])
    note_action(db, seq, annotator)


def shown_class(db: sqlite3.Connection, number: int) -> Class:
    found = next((c for c in all_classes(db) if c.id == number and is_shown(c)), None)
    if found is None:
        known = ", ".join(f"{c.id} {c.name}" for c in all_classes(db) if is_shown(c))
        raise InputError(f"there is no class {number}; the classes are {known or 'none yet'}")
    return found


def undo_class_event(db: sqlite3.Connection, kind: str, payload: dict[str, Any], again: bool) -> None:
    """Takes a change of the classes back, or makes it again."""
    number = payload["class"]
    if kind == "class_add":
        used = db.execute(
            "SELECT count(*) FROM answer WHERE class = ? OR class IN (SELECT id FROM class WHERE merged_into = ?)",
            (number, number),
        ).fetchone()[0]
        if used and not again:
            raise InputError(f"the class {payload['name']!r} has {used} labels by now; rename or merge it instead")
        if again:
            bring_back(db, number)
        else:
            db.execute("UPDATE class SET hidden = 1 WHERE id = ?", (number,))
    elif kind == "class_rename":
        name = payload["after"] if again else payload["before"]
        check_name(db, name, but=number)
        db.execute("UPDATE class SET name = ? WHERE id = ?", (name, number))
    else:
        if again:
            shown_class(db, number), shown_class(db, payload["into"])  # others may have merged them in the meantime
        else:
            refuse_namesake(db, number)
        for i in payload["moved"]:
            back = None if i == number else number
            db.execute("UPDATE class SET merged_into = ? WHERE id = ?", (payload["into"] if again else back, i))


def bring_back(db: sqlite3.Connection, number: int) -> None:
    """Shows a class that was taken back."""
    if all_classes(db)[number].hidden:
        refuse_namesake(db, number)
        db.execute("UPDATE class SET hidden = 0 WHERE id = ?", (number,))


def refuse_namesake(db: sqlite3.Connection, number: int) -> None:
    """An error where a class is to come back and another one has its name by now."""
    name = all_classes(db)[number].name
    for c in all_classes(db):
        if c.id != number and is_shown(c) and folded(c.name) == folded(name):
            raise InputError(f"there is another class {c.name!r} by now; rename that one first")


def note_action(db: sqlite3.Connection, seq: int, annotator: str) -> None:
    """Something that can be undone was done: what had been undone before cannot be redone any more."""
    db.execute("UPDATE action SET state = 'dropped' WHERE annotator = ? AND state = 'undone'", (annotator,))
    db.execute("INSERT INTO action (seq, annotator, state) VALUES (?, ?, 'done')", (seq, annotator))
