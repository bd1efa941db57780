"""Whether a run's database is whole, and a new one from what can be read of a damaged one.

The log of events is the source of truth: answers, classes and what can be undone are replayed from it. Where events are
lost, the tables stand in for them, and a last event writes down what they say.
"""

import json
import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

from askless.base.errors import AsklessError
from askless.base.files import sync
from askless.base.locks import held
from askless.run.settings import Settings, read_settings
from askless.run.steps.new_run import fill, read_source
from askless.run.steps.round_files import damage_of_fit, is_cache_whole, round_folder
from askless.run.store.answering import count_answers
from askless.run.store.asking import Extra, add_extra, ask_check_images, asked_items, extra_kinds, set_extra
from askless.run.store.classes import MOST, forget_actions
from askless.run.store.fits import drop_fit, fitted_rounds, unsealed
from askless.run.store.items import item_paths, keep_out_of_pool
from askless.run.store.labels import answered_items
from askless.run.store.looks import chosen_looks, put_looks
from askless.run.store.replay import ANSWERS, GARBLED, LogEvent, Replay, contradictions, log, stored_tables
from askless.run.store.schema import RunError, check_tables, has_table, has_tables_of_its_version, migrate
from askless.run.store.store import (
    Store,
    can_write,
    check_file,
    get_meta,
    last_event,
    open_to_read,
    record,
    set_meta,
    unfinished,
)

NAME = "state.sqlite"
LOCKS = ("server.lock", ".worker.lock")  # of the page, and of whoever trains
TYPES = {"INTEGER": int, "TEXT": str, "REAL": int | float}
TABLES = ("meta", "item", "class", "event", "action", "round", "fit", "task", "answer", "decision")
JSON = ("columns", "payload", "metrics", "value")  # columns that hold JSON, all but the last an object
LOST = (
    "Lost: part of the event log. Answers in the readable tables were kept; others may be missing, and undone answers may "
    "be back; compare with a backup or an export if there is one"
)


def examine(folder: Path) -> list[str]:
    """What is wrong with a run's database, in sentences; [] where the file is whole and its tables say what its log of
    events says. Nothing is changed."""
    path = folder / NAME
    try:
        check_file(path)
        with closing(open_to_read(path)) as db:
            check_tables(db, path)
            found = [row[0] for row in db.execute("PRAGMA integrity_check(5)")]
            if found != ["ok"]:
                return [f"the database is damaged: {' '.join(str(text).split())}" for text in found[:3]]
            if not has_tables_of_its_version(db):
                return ["the database is damaged: its tables do not match its version"]
            return [*contradictions(db), *unreadable(db)]
    except AsklessError as error:
        return [str(error)]
    except (sqlite3.Error, OSError, *GARBLED, MemoryError) as error:
        return [f"the database is damaged: {' '.join(str(error).split())}"]


def unreadable(db: sqlite3.Connection) -> Iterator[str]:
    """Where a table holds what it never does: a name that is none, or measurements that were changed."""
    db.text_factory = text_or_bytes
    for table in filter(partial(has_table, db), TABLES):
        types = types_of(db, table)
        if n := sum(not is_sound(dict(row), types) for row in db.execute(f"SELECT * FROM {table}")):
            yield f"{n} {'row' if n == 1 else 'rows'} of the table {table} can't be read"


def text_or_bytes(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def types_of(db: sqlite3.Connection, table: str) -> dict[str, Any]:
    about = db.execute(f"SELECT name, type, \"notnull\" OR pk FROM pragma_table_info('{table}')")
    return {name: TYPES[kind] if needed else TYPES[kind] | None for name, kind, needed in about}


def is_sound(row: dict[str, Any], types: dict[str, Any]) -> bool:
    """Whether every column has its type, and is JSON where it should be."""
    try:
        return all(isinstance(row[k], types[k]) for k in row) and all(is_right(k, row[k]) for k in JSON if k in row)
    except GARBLED:
        return False


def is_right(column: str, text: str) -> bool:
    """Whether this is JSON as this column has it."""
    if column == "metrics":
        return unsealed(text)[1]
    return isinstance(json.loads(text), object if column == "value" else dict)


def repair(folder: Path) -> list[str]:
    """Makes a run whole again as far as it can be read, and says what was done and what is lost. The damaged database stays
    beside the new one; what is made from labels, and is damaged, is removed, and computed again when the run resumes.

    BusyError while the run is served; RunError where nothing can be made of it, which then stays as it was.
    """
    if not folder.is_dir():
        raise RunError(f"{folder}: expected the folder of a run, found none")
    settings = read_settings(folder / "project.toml")
    if not can_write(folder / NAME if (folder / NAME).exists() else folder):
        raise RunError(f"{folder} is read-only; copy it to a writable place, and repair the copy")
    busy = f"{folder} is in use; stop `askless start {folder}` with Ctrl+C, then repair it"
    with held(folder / LOCKS[0], busy), held(folder / LOCKS[1], busy):
        problems = examine(folder)
        if "upgrade askless" in " ".join(problems):
            raise RunError(problems[0])
        said = [f"Found: {text}" for text in problems]
        said += replace_database(folder / NAME, settings) if problems else ["The database is intact; it stays as it is"]
        return said + drop_damaged(folder)


def replace_database(path: Path, settings: Settings) -> list[str]:
    """Puts a new database in the place of a damaged one, which stays under another name with what belongs to it."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".repaired-") as beside:
        new = Path(beside) / NAME
        try:
            with closing(Store(new, create=True)) as store, store.change() as db:
                said = rebuild(path, db, settings)
        except (AsklessError, sqlite3.IntegrityError, OverflowError, *GARBLED) as error:
            text = "nothing could be read from its database, which was left as it is;"
            if isinstance(error, AsklessError):
                text = f"items are lost, and the source has changed ({error}); put it back and repair again, or"
            raise RunError(
                f"{path.parent}: {text} restore a backup, or make a new run with `askless start {settings.source} --out "
                f"NEW` and import the latest labels with `askless import NEW {path.with_name('labels.csv')}`"
            ) from None
        kept = path.with_name(f"{NAME}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}")
        for file in (path, *unfinished(path)):
            copy = kept.with_name(file.name.replace(NAME, kept.name, 1))
            shutil.copyfile(file, copy)  # so that there is a database at every moment
            copy.chmod(0o600)
            sync(copy)
        for suffix in ("-wal", "-journal", "-shm"):  # else SQLite would put the old log into the new database
            path.with_name(NAME + suffix).unlink(missing_ok=True)
        os.replace(new, path)
        sync(path.parent)
    return [*said, f"The damaged database stays as {kept.name}"]


def drop_damaged(folder: Path) -> list[str]:
    """Remove unreadable files of trainings and of the cache; the run computes them again when it resumes."""
    said = []
    with closing(Store(folder / NAME)) as store:
        for number in damaged_fits(store, folder):
            with store.change() as db:
                drop_fit(db, number)
            shutil.rmtree(round_folder(folder, number), ignore_errors=True)
            said.append(f"Round {number}: the files of its training were damaged and have been removed")
        with store.look() as db:
            prepared = get_meta(db, "prepared")
    cache = folder / "cache"
    if prepared and cache.exists() and any(cache.iterdir()) and not is_cache_whole(cache):
        shutil.rmtree(cache)
        cache.mkdir(mode=0o700)
        said.append("The cache was damaged and has been emptied; askless rebuilds it when the run resumes")
    return said


def damaged_fits(store: Store, folder: Path) -> list[int]:
    """The rounds whose training left behind what cannot be read."""
    with store.look() as db:
        fits = fitted_rounds(db)
    return [number for number in fits if damage_of_fit(folder, number, last=number == fits[-1]) is not None]


# --- a new database -------------------------------------------------------------------------------------------------------


def rebuild(path: Path, db: sqlite3.Connection, settings: Settings) -> list[str]:
    """Fills a new database from a damaged one; sentences about it."""
    db.execute("PRAGMA defer_foreign_keys = ON")
    whole = copy_rows(path, db) if path.is_file() else set()
    events, there = log(db), stored_tables(db)
    if not events and not there.answers:
        raise ValueError("nothing to begin with")
    begin_again(db, settings, events, always=not {"meta", "item"} <= whole)
    told = Replay(events, tolerant=True)
    seqs = [event.seq for event in events if event.seq >= told.first]
    last = max([*seqs, *there.actions, *(row["seq"] for row in there.answers.values())])
    complete = "event" in whole and not told.rejected and len(seqs) == last - told.first + 1
    answers, classes, looks, decisions = (getattr(told.tables, n) for n in ("answers", "classes", "looks", "decisions"))
    if complete:  # answers from elsewhere bring their own time, which the log does not have
        for key in answers.keys() & there.answers.keys():
            if there.answers[key]["seq"] == answers[key]["seq"]:
                answers[key]["at"] = there.answers[key]["at"]
    else:
        old = {} if "answer" in whole else answers
        newer = {k: row for k, row in there.answers.items() if k not in old or row["seq"] >= old[k]["seq"]}
        answers, classes = {**old, **newer}, {**({} if "class" in whole else classes), **there.classes}
        looks = there.looks if "meta" in whole else looks
        decisions = there.decisions if "decision" in whole else {**there.decisions, **decisions}
    for table in ("action", "answer", "decision", "class"):
        db.execute(f"DELETE FROM {table}")
    insert(db, "class", [{"id": i, "name": c[0], "merged_into": c[1], "hidden": int(c[2])} for i, c in classes.items()])
    insert(db, "answer", [{"item": item, "annotator": who, **row} for (item, who), row in answers.items()])
    insert(db, "decision", [{"item": item, **row} for item, row in decisions.items()])
    insert(db, "action", [{"seq": n, "annotator": a[0], "state": a[1]} for n, a in told.tables.actions.items()])
    put_looks(db, looks)
    make_sense(db)
    ask_again(db, events, settings)
    if any(contradictions(db)):
        complete = False
        recover(db)
    if any(contradictions(db)):
        raise ValueError("the events contradict each other")
    n, people = db.execute("SELECT count(*), count(DISTINCT annotator) FROM answer").fetchone()
    n_classes = db.execute("SELECT count(*) FROM class").fetchone()[0]
    said = [f"Read {'all ' if complete else ''}{len(events)} events"]
    said += [f"Rebuilt {n} answers of {people} annotators, and {n_classes} classes"]
    return said if complete else [*said, LOST]


def copy_rows(path: Path, new: sqlite3.Connection) -> set[str]:
    """Copies what SQLite can read of each table, from its first row on and from its last row back; the tables of which
    that is everything."""
    whole = set()
    with closing(open_to_read(path)) as db:
        db.text_factory = text_or_bytes
        for table in TABLES:
            found: dict[Any, dict[str, Any]] = {}
            key = "name" if table == "meta" else "rowid"
            for way in ("ASC", "DESC"):
                # Pages that lead in a circle would be read endlessly: this number of steps is enough for a whole file.
                db.set_progress_handler(partial(next, repeat(0, 100 + path.stat().st_size // 1000), 1), 10_000)
                with suppress(sqlite3.Error, MemoryError, UnicodeDecodeError):  # the last: SQLite quotes what it read
                    for row in db.execute(f"SELECT *, {key} AS key_ FROM {table} NOT INDEXED ORDER BY {key} {way}"):
                        found.setdefault(row["key_"], {name: row[name] for name in row.keys()[:-1]})
                    whole.add(table)
                    break
            whole -= set() if insert(new, table, found.values()) else {table}
    return whole


def insert(db: sqlite3.Connection, table: str, rows: Collection[dict[str, Any]]) -> bool:
    """Adds the rows whose columns have their types and that the table takes; whether these are all."""
    types = types_of(db, table)
    n = 0
    for row in rows:
        with suppress(OverflowError, *GARBLED):
            if is_sound(row, types):
                marks = ", ".join(f":{name}" for name in row)
                n += db.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({marks})", row).rowcount
    return n == len(rows)


def begin_again(db: sqlite3.Connection, settings: Settings, events: list[LogEvent], always: bool) -> None:
    """Takes items that are lost, and what was noted of the run, from its source as at the start."""
    known = [row[0] for row in db.execute("SELECT id FROM item ORDER BY id")]
    n_items = next((event.payload.get("items") for event in events if event.kind == "start"), len(known))
    if not always and len(known) == n_items and known == [*range(len(known))]:
        return
    index = read_source(settings.source, settings)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as first:
        first.row_factory = sqlite3.Row
        migrate(first)
        fill(first, settings, index)
        for table in ("meta", "item"):
            insert(db, table, [dict(row) for row in first.execute(f"SELECT * FROM {table}")])
    paths = item_paths(db)
    if paths != [item.id for item in index.items] or len(paths) != (n_items or len(paths)):
        raise RunError(f"{settings.source}: expected the items of the run, found others")
    for event in events:  # what has changed since
        if event.kind == "near_check":
            keep_out_of_pool(db, event.payload["items"])
            set_meta(db, "compared", True)
        elif event.kind == "unreadable":
            db.execute("UPDATE item SET problem = ? WHERE id = ?", (event.payload["reason"], event.item))
        elif event.kind == "budget":
            set_meta(db, "budget", event.payload["after"])
        elif event.kind == "settings":
            set_meta(db, "suggestions", event.payload["suggestions"])
    db.execute("UPDATE item SET split = 'check' WHERE id IN (SELECT item FROM task WHERE kind = 'check')")
    checks = "SELECT count(*) FROM item WHERE split = 'check' AND problem IS NULL"
    set_meta(db, "check", db.execute(checks).fetchone()[0])


def make_sense(db: sqlite3.Connection) -> None:
    """Removes what is about nothing, merges that lead nowhere and times that are none, and names classes of which only the
    number is known."""
    for table in ("answer", "decision"):
        db.execute(f"DELETE FROM {table} WHERE class NOT BETWEEN 0 AND {MOST - 1} OR item NOT IN (SELECT id FROM item)")
    db.execute("DELETE FROM decision WHERE NOT json_valid(seen)")
    db.execute(
        "UPDATE answer SET at = coalesce((SELECT at FROM event e WHERE e.seq = answer.seq AND julianday(at)), "
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) WHERE julianday(at) IS NULL"
    )
    db.execute("DELETE FROM task WHERE item NOT IN (SELECT id FROM item)")
    db.execute(f"DELETE FROM class WHERE id NOT BETWEEN 0 AND {MOST - 1}")
    last = db.execute(
        "SELECT max(id) FROM (SELECT id FROM class UNION SELECT class FROM answer UNION SELECT class FROM decision)"
    ).fetchone()[0]
    insert(db, "class", [{"id": i, "name": f"lost class {i}"} for i in range(-1 if last is None else last + 1)])
    db.execute(
        "WITH RECURSIVE sound (id) AS (SELECT id FROM class WHERE merged_into IS NULL UNION "
        "SELECT class.id FROM class JOIN sound ON merged_into = sound.id) "
        "UPDATE class SET merged_into = NULL WHERE id NOT IN sound"
    )
    db.execute("UPDATE class SET labels = (SELECT count(*) FROM answer WHERE class = class.id)")


def ask_again(db: sqlite3.Connection, events: list[LogEvent], settings: Settings) -> None:
    """Makes the rounds and tasks that are lost. Of chosen items only those with answers: others can be chosen again."""
    answered, there = set(answered_items(db)), set(asked_items(db))
    plain = {"rank": 0, "picked_by": settings.strategy, "reason": "recovered by askless doctor", "state": "open"}
    for event in (e for e in reversed(events) if e.kind in ("round", "ahead")):
        state = "asking" if event.kind == "round" else "ahead"
        made = {"strategy": settings.strategy, "made_at": event.at, "seconds": 0.0, "state": state}
        insert(db, "round", [{"id": event.payload.get("round"), **made}])
    ask_check_images(db)
    for item, event in last_askings(events).items():
        if item not in answered:
            continue
        if event.kind in ("round", "ahead"):
            insert(db, "task", [{**plain, "item": item, "kind": "train", "round": event.payload.get("round")}])
        elif kind := extras_of(event).get(item):
            add_extra(db, item, kind, event.payload.get("claims"))
            with suppress(*GARBLED):  # its event is lost, or makes no sense
                for (seq,) in db.execute("SELECT seq FROM answer WHERE item = ? ORDER BY seq", (item,)).fetchall():
                    set_extra(db, item, seq)
    insert(db, "task", [{**plain, "item": item, "kind": "prior", "picked_by": "import"} for item in answered])
    for item in asked_items(db):
        count_answers(db, item, settings.annotators)
    second = {item for event in events if event.kind == "second" for item in event.payload.get("items", ())}
    for item in second - there:
        db.execute("UPDATE task SET wanted = 2 WHERE item = ? AND answers = 2 AND wanted = 0", (item,))


def last_askings(events: list[LogEvent]) -> dict[int, LogEvent]:
    """For each item the last event that put it in its place: chosen in a round, labelled unasked, or from elsewhere, which
    leaves a chosen one what it is. What was chosen may have been withdrawn, and accepted after that."""
    by_seq, found = {event.seq: event for event in events}, dict[int, LogEvent]()
    for event in events:
        of = by_seq.get(event.payload.get("seq", -1), event) if event.kind == "redo" else event
        items = of.payload.get("items", ())
        if of.kind in ("round", "ahead"):
            found |= dict.fromkeys(items, of)
        elif of.kind == "import":
            found |= {i: of for i in items if i not in found or found[i].kind not in ("round", "ahead")}
        elif of.kind in ANSWERS:
            found |= dict.fromkeys(extras_of(of), of)
    return found


def extras_of(event: LogEvent) -> dict[int, Extra]:
    """The items that it labels without having been asked, with the kind."""
    items = event.payload.get("items", ())
    return {i: kind for i, kind in zip(items, extra_kinds(event.payload), strict=False) if kind is not None}


def recover(db: sqlite3.Connection) -> None:
    """Writes down what the tables say, in the place of events that are lost. What was done before cannot be undone."""
    forget_actions(db)
    db.execute("UPDATE answer SET seq = ? WHERE seq NOT IN (SELECT seq FROM event)", (last_event(db) + 1,))
    columns = {"answer": "*", "class": "id, name, merged_into, hidden", "decision": "*"}
    payload: dict[str, Any] = {
        name: [dict(row) for row in db.execute(f"SELECT {of} FROM {name}")] for name, of in columns.items()
    }
    payload["look"] = chosen_looks(db)
    record(db, f"doctor-{secrets.token_hex(8)}", "recover", "doctor", payload)
