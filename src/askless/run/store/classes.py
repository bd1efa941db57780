"""The classes: with permanent numbers in the order in which they came; renamed, merged, never renumbered.

A merge points a class at another one, and what a label means is found by following the pointers when it is read: no label
is ever rewritten. Only a class that is shown can be merged, and only into another one that is, so pointers never go in a
circle. Several people may therefore undo their merges in any order: each takes back its own pointer, and nothing else.

A change of the classes is undone or redone only where nobody has built on it since; else it is refused with the reason:
- a new class can be taken back while it has no labels, is not merged and nothing was merged into it;
- a new name, while the class still has it;
- whatever comes back needs its name: no two classes that are shown have the same;
- a merge is made again only between two classes that are shown.
So every label is of a class that is shown. A label that comes back by undo or redo shows its class again.
"""

import sqlite3
import unicodedata
from typing import Any, NamedTuple

from askless.base.errors import InputError
from askless.run.store.store import once, record

LONGEST = 100
MOST = 1000


class Class(NamedTuple):
    """`labels`: how many answers name it, merged or not."""

    id: int
    name: str
    merged_into: int | None
    hidden: bool
    labels: int


def all_classes(db: sqlite3.Connection) -> list[Class]:
    rows = db.execute("SELECT id, name, merged_into, hidden, labels FROM class ORDER BY id")
    classes = [Class(*row) for row in rows]
    return with_labels_shown(classes) if any(c.hidden for c in classes) else classes


def with_labels_shown(classes: list[Class]) -> list[Class]:
    """Classes of which none with labels is hidden. Runs made by earlier versions may have such classes: they are shown again
    or, where another class has their name by now, count as merged into that one."""
    final = followed(classes)
    used = {final[c.id] for c in classes if c.labels}
    named = {folded(c.name): c.id for c in classes if is_shown(c)}
    healed = []
    for c in classes:
        if c.hidden and c.merged_into is None and c.id in used:
            into = named.setdefault(folded(c.name), c.id)
            c = c._replace(hidden=False, merged_into=None if into == c.id else into)
        healed.append(c)
    return healed


def is_shown(c: Class) -> bool:
    return c.merged_into is None and not c.hidden


def shown_classes(db: sqlite3.Connection) -> list[Class]:
    return [c for c in all_classes(db) if is_shown(c)]


def class_names(db: sqlite3.Connection) -> dict[int, str]:
    """The name that each class goes by: its own, or that of the class it was merged into."""
    classes = all_classes(db)
    return {number: classes[last].name for number, last in followed(classes).items()}


def final_class(db: sqlite3.Connection) -> dict[int, int]:
    """The class that each class stands for: itself, or the one it was merged into."""
    return followed(all_classes(db))


def followed(classes: list[Class]) -> dict[int, int]:
    into = {c.id: c.merged_into for c in classes}
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
    classes = all_classes(db)
    final = followed(classes)
    renamed = db.execute(
        "SELECT json_extract(payload, '$.before'), json_extract(payload, '$.class') FROM event "
        "WHERE kind = 'class_rename' ORDER BY seq"
    )
    named = [(name, number) for name, number in renamed]
    named += [(c.name, c.id) for c in classes if c.merged_into is not None]
    named += [(c.name, c.id) for c in classes if is_shown(c)]
    return {
        folded(name): final[number] for name, number in named if number in final and not classes[final[number]].hidden
    }


def check_name(db: sqlite3.Connection, given: str, but: int | None = None) -> str:
    """The name as it is stored; an error for one that is blank, too long, unprintable, or taken."""
    name = unicodedata.normalize("NFC", given.strip())
    if not name:
        raise InputError("a class needs a name, got a blank")
    if len(name) > LONGEST:
        raise InputError(f"a class name has at most {LONGEST} characters, got {len(name)}")
    if not name.isprintable() or any(0xD800 <= ord(c) < 0xE000 for c in name):
        raise InputError("a class name has printable characters only, got a line break or another control character")
    for c in all_classes(db):
        if c.id != but and c.merged_into is None and folded(c.name) == folded(name):
            raise InputError(f"there is already a class {c.name!r}; choose another name")
    return name


def add_class(db: sqlite3.Connection, request_id: str, annotator: str, given: str) -> int:
    """A new class, after all others; one that was added and taken back comes back under its number."""
    once(db, request_id, "class_add")
    classes = all_classes(db)
    gone = (c.id for c in classes if c.hidden and c.merged_into is None and folded(c.name) == folded(given))
    again = next(gone, None)
    name = check_name(db, given, but=again)
    number = len(classes) if again is None else again
    if number >= MOST:
        raise InputError(f"a run has at most {MOST} classes")
    seq, _ = record(db, request_id, "class_add", annotator, {"class": number, "name": name})
    if again is None:
        db.execute("INSERT INTO class (id, name) VALUES (?, ?)", (number, name))
    else:
        db.execute("UPDATE class SET hidden = 0, name = ? WHERE id = ?", (name, number))
    note_action(db, seq, annotator)
    return number


def rename_class(db: sqlite3.Connection, request_id: str, annotator: str, number: int, given: str) -> int:
    once(db, request_id, "class_rename")
    c = shown_class(db, number)
    name = check_name(db, given, but=number)
    seq, _ = record(db, request_id, "class_rename", annotator, {"class": number, "before": c.name, "after": name})
    db.execute("UPDATE class SET name = ? WHERE id = ?", (name, number))
    note_action(db, seq, annotator)
    return number


def merge_class(db: sqlite3.Connection, request_id: str, annotator: str, number: int, into: int) -> int:
    """All labels of one class, past and future, count as those of the other."""
    once(db, request_id, "class_merge")
    shown_class(db, number), shown_class(db, into)
    if number == into:
        raise InputError("a class cannot be merged into itself; choose another one")
    payload = {"class": number, "into": into, "moved": [number]}
    seq, _ = record(db, request_id, "class_merge", annotator, payload)
    db.execute("UPDATE class SET merged_into = ? WHERE id = ?", (into, number))
    note_action(db, seq, annotator)
    return number


def shown_class(db: sqlite3.Connection, number: int) -> Class:
    shown = shown_classes(db)
    found = next((c for c in shown if c.id == number), None)
    if found is None:
        known = ", ".join(f"{c.id} {c.name}" for c in shown)
        raise InputError(f"there is no class {number}; the classes are {known or 'none yet'}")
    return found


def undo_class_event(db: sqlite3.Connection, kind: str, payload: dict[str, Any], again: bool) -> None:
    """Takes a change of the classes back, or makes it again; an InputError where others have built on it since."""
    classes = all_classes(db)
    c = classes[payload["class"]]
    if kind == "class_add":
        if again:
            if not c.hidden:
                raise InputError(f"there is already a class {c.name!r}")
            show_again(db, c.id)
            return
        final = followed(classes)
        used = sum(other.labels for other in classes if final[other.id] == c.id)
        used += sum(final[row[0]] == c.id for row in db.execute("SELECT class FROM decision WHERE class IS NOT NULL"))
        if used:
            raise InputError(f"the class {c.name!r} now has {used} labels; rename or merge it instead")
        if c.merged_into is not None:
            raise InputError(f"the class {c.name!r} has since been merged into {classes[c.merged_into].name!r}")
        below = next((other.name for other in classes if other.merged_into == c.id), None)
        if below is not None:
            raise InputError(f"the class {below!r} has since been merged into {c.name!r}")
        db.execute("UPDATE class SET hidden = 1 WHERE id = ?", (c.id,))
    elif kind == "class_rename":
        was, name = (payload["before"], payload["after"]) if again else (payload["after"], payload["before"])
        if c.name != was:
            raise InputError(f"the class {was!r} has since been renamed to {c.name!r}")
        check_name(db, name, but=c.id)
        db.execute("UPDATE class SET name = ? WHERE id = ?", (name, c.id))
    elif again:
        shown_class(db, c.id), shown_class(db, payload["into"])  # others may have merged them in the meantime
        db.execute("UPDATE class SET merged_into = ? WHERE id = ?", (payload["into"], c.id))
    else:
        refuse_namesake(db, c)
        # Earlier versions pointed everything that had been merged into the class at the new one, too.
        along = [i for i in payload["moved"] if i != c.id and classes[i].merged_into == c.merged_into]
        db.execute("UPDATE class SET merged_into = NULL WHERE id = ?", (c.id,))
        db.executemany("UPDATE class SET merged_into = ? WHERE id = ?", [(c.id, i) for i in along])


def show_again(db: sqlite3.Connection, number: int) -> None:
    """Shows a class that was taken back."""
    classes = all_classes(db)
    c = classes[followed(classes)[number]]
    if c.hidden:
        refuse_namesake(db, c)
    db.execute("UPDATE class SET hidden = 0 WHERE id = ?", (c.id,))


def refuse_namesake(db: sqlite3.Connection, back: Class) -> None:
    """An error where a class is to come back and another one has its name by now."""
    for c in shown_classes(db):
        if c.id != back.id and folded(c.name) == folded(back.name):
            raise InputError(f"there is now another class {c.name!r}; rename that one first")


def note_action(db: sqlite3.Connection, seq: int, annotator: str) -> None:
    """Something that can be undone was done: what had been undone before cannot be redone any more."""
    db.execute("UPDATE action SET state = 'dropped' WHERE annotator = ? AND state = 'undone'", (annotator,))
    db.execute("INSERT INTO action (seq, annotator, state) VALUES (?, ?, 'done')", (seq, annotator))


def forget_actions(db: sqlite3.Connection) -> None:
    """What was done up to now cannot be undone."""
    db.execute("DELETE FROM action")
