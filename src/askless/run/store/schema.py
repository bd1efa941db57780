"""The tables of a run, and the way from every earlier version to this one.

`event` is append-only and the source of truth; every other table is derived from it in the same transaction, or belongs to
the worker (`round`, `fit`) or to nobody for long (`lease`).
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from askless.base.errors import AsklessError


class RunError(AsklessError):
    """A run folder that cannot be used, or is used in a way it does not allow."""


def first_tables(db: sqlite3.Connection) -> None:
    """Version 1."""
    for statement in (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        # split: pool (may be chosen), check and reserve (held out at random), out (looks like a held-out one).
        # place: where the item came in the random draw. problem: why it cannot be read.
        """CREATE TABLE item (
            id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, width INTEGER NOT NULL, height INTEGER NOT NULL,
            split TEXT NOT NULL CHECK (split IN ('pool', 'check', 'reserve', 'out')), place INTEGER NOT NULL UNIQUE,
            problem TEXT, columns TEXT NOT NULL DEFAULT '{}')""",
        """CREATE TABLE class (
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, merged_into INTEGER REFERENCES class (id),
            hidden INTEGER NOT NULL DEFAULT 0, labels INTEGER NOT NULL DEFAULT 0)""",
        """CREATE TABLE event (
            seq INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
            annotator TEXT NOT NULL, item INTEGER, payload TEXT NOT NULL, at TEXT NOT NULL)""",
        "CREATE TRIGGER event_stays BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
        "CREATE TRIGGER event_remains BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'events are append-only'); END",
        # What can be undone: one row per event of a person, done, undone, or dropped (undone, then something else was done).
        """CREATE TABLE action (
            seq INTEGER PRIMARY KEY REFERENCES event (seq), annotator TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('done', 'undone', 'dropped')))""",
        "CREATE INDEX action_of ON action (annotator, state, seq)",
        # kind: train (chosen in a round), check (drawn at random), prior (labelled before the run, not asked).
        """CREATE TABLE task (
            item INTEGER PRIMARY KEY REFERENCES item (id), kind TEXT NOT NULL CHECK (kind IN ('train', 'check', 'prior')),
            round INTEGER, rank INTEGER NOT NULL, picked_by TEXT NOT NULL, reason TEXT NOT NULL, score REAL,
            skips INTEGER NOT NULL DEFAULT 0, answers INTEGER NOT NULL DEFAULT 0,
            state TEXT NOT NULL CHECK (state IN ('open', 'done')))""",
        "CREATE INDEX task_open ON task (kind, skips, round, rank) WHERE state = 'open'",
        "CREATE INDEX task_round ON task (round, rank)",
        """CREATE TABLE lease (
            item INTEGER NOT NULL REFERENCES task (item), annotator TEXT NOT NULL, tab TEXT NOT NULL,
            expires REAL NOT NULL, taken INTEGER NOT NULL, shown TEXT NOT NULL DEFAULT 'none',
            PRIMARY KEY (item, annotator))""",
        "CREATE INDEX lease_of ON lease (annotator, tab, taken)",
        """CREATE TABLE answer (
            item INTEGER NOT NULL REFERENCES task (item), annotator TEXT NOT NULL, class INTEGER REFERENCES class (id),
            unsure TEXT, seq INTEGER NOT NULL REFERENCES event (seq), at TEXT NOT NULL, seconds REAL,
            suggestion INTEGER, suggestion_prob REAL, suggestion_shown TEXT NOT NULL, bulk INTEGER NOT NULL,
            note TEXT NOT NULL DEFAULT '', PRIMARY KEY (item, annotator), CHECK ((class IS NULL) <> (unsure IS NULL)))""",
        "CREATE INDEX answer_of ON answer (annotator, seq)",
        # state: asking (its tasks are out), closed (answered; it can be trained on).
        """CREATE TABLE round (
            id INTEGER PRIMARY KEY, strategy TEXT NOT NULL, made_at TEXT NOT NULL, seconds REAL NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('asking', 'closed')))""",
        # A training, named by its folder under rounds/; `labels_key` tells whether labels have changed since.
        """CREATE TABLE fit (
            round INTEGER PRIMARY KEY, labels INTEGER NOT NULL, labels_key TEXT NOT NULL, seconds REAL NOT NULL,
            metrics TEXT NOT NULL, at TEXT NOT NULL)""",
        # What every reply tells is counted as it changes, so that an answer takes as long after ten thousand others as at
        # first: tasks by kind, round (0: none) and state, and the answers that name a class in `class.labels`.
        """CREATE TABLE tally (
            kind TEXT NOT NULL, round INTEGER NOT NULL, state TEXT NOT NULL, n INTEGER NOT NULL,
            PRIMARY KEY (kind, round, state)) WITHOUT ROWID""",
        f"CREATE TRIGGER task_comes AFTER INSERT ON task BEGIN {counted('new', 1)} END",
        f"CREATE TRIGGER task_goes AFTER DELETE ON task BEGIN {counted('old', -1)} END",
        "CREATE TRIGGER task_turns AFTER UPDATE OF kind, round, state ON task "
        f"BEGIN {counted('old', -1)} {counted('new', 1)} END",
        "CREATE TRIGGER answer_comes AFTER INSERT ON answer BEGIN "
        "UPDATE class SET labels = labels + 1 WHERE id = new.class; END",
        "CREATE TRIGGER answer_goes AFTER DELETE ON answer BEGIN "
        "UPDATE class SET labels = labels - 1 WHERE id = old.class; END",
        "CREATE TRIGGER answer_turns AFTER UPDATE OF class ON answer BEGIN "
        "UPDATE class SET labels = labels - 1 WHERE id = old.class; "
        "UPDATE class SET labels = labels + 1 WHERE id = new.class; END",
    ):
        db.execute(statement)


def counted(row: str, by: int) -> str:
    return (
        f"INSERT INTO tally VALUES ({row}.kind, coalesce({row}.round, 0), {row}.state, {by}) "
        f"ON CONFLICT DO UPDATE SET n = n + {by};"
    )


def more_kinds(db: sqlite3.Connection) -> None:
    """Version 2: tasks that people found themselves (`found`) or agreed to in a grid (`accepted`), and rounds chosen `ahead`
    of the model that they wait for."""
    widen(db, "task", "'check', 'prior')", "'check', 'prior', 'found', 'accepted')")
    widen(db, "round", "('asking', 'closed')", "('ahead', 'asking', 'closed')")


def widen(db: sqlite3.Connection, table: str, old: str, new: str) -> None:
    """Changes what a CHECK of the table allows, by SQLite's own procedure for changes that no row can contradict."""
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name = ?", (old, new, table))
    cookie = db.execute("PRAGMA schema_version").fetchone()[0]
    db.execute(f"PRAGMA schema_version = {cookie + 1}")  # other processes read the table's definition again
    db.execute("PRAGMA writable_schema = RESET")


def opinions(db: sqlite3.Connection) -> None:
    """Version 3: what a person settles an item on, with the answers `seen` then, and items of which a second opinion is
    `wanted`: the number of answers in all."""
    db.execute(
        """CREATE TABLE decision (
            item INTEGER PRIMARY KEY REFERENCES item (id), annotator TEXT NOT NULL, class INTEGER REFERENCES class (id),
            unsure TEXT, seen TEXT NOT NULL, at TEXT NOT NULL, CHECK ((class IS NULL) <> (unsure IS NULL)))"""
    )
    db.execute("ALTER TABLE task ADD COLUMN wanted INTEGER NOT NULL DEFAULT 0")
    db.execute("CREATE INDEX task_wanted ON task (item) WHERE wanted > 0")


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (first_tables, more_kinds, opinions)


FIRST = ("meta", "item", "class", "event", "action", "task", "lease", "answer", "round", "fit", "tally")  # of version 1


def check_tables(db: sqlite3.Connection, path: Path) -> None:
    """An error unless this is the database of a run, of this askless or of an earlier one."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if len(MIGRATIONS) < version < 100:  # a number that no askless will have for long is damaged
        raise RunError(
            f"{path}: written by a newer askless (its tables have version {version}, this askless knows "
            f"{len(MIGRATIONS)}); upgrade askless"
        )
    there = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    missing = ", ".join(name for name in FIRST if name not in there)
    if missing or not 1 <= version <= len(MIGRATIONS):
        found = f"one without the tables {missing}" if missing else f"one of version {version}"
        raise RunError(f"{path}: expected the database of a run, got {found}; {how_to_repair(path.parent)}")


def has_tables_of_its_version(db: sqlite3.Connection) -> bool:
    """Whether tables and columns have the names that those of a new database of this version have."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        migrate(new, db.execute("PRAGMA user_version").fetchone()[0])
        return columns_of(db) == columns_of(new)


def has_table(db: sqlite3.Connection, name: str) -> bool:
    """Whether it is there: a file that is only looked at may be of an earlier version."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone() is not None


def columns_of(db: sqlite3.Connection) -> set[tuple[str, str]]:
    query = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    return {(table, column) for table, column in db.execute(query) if not table.startswith("sqlite_")}


def how_to_repair(run: Path) -> str:
    return f"run `askless doctor --repair {run}`, or restore a backup"


def migrate(db: sqlite3.Connection, to: int | None = None) -> None:
    """Brings a database to a version, by default the present one, one named step at a time, all or nothing."""
    to = len(MIGRATIONS) if to is None else to
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version >= to:
        return
    with transaction(db, "IMMEDIATE"):
        for number, step in enumerate(MIGRATIONS[version:to], start=version + 1):
            step(db)
            db.execute(f"PRAGMA user_version = {number}")


@contextmanager
def transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk rolls back by itself
            db.execute("ROLLBACK")
        raise
