"""One SQLite file: connections, transactions, and the append-only log of events."""

import json
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from askless.base.errors import InputError
from askless.base.files import run_beside
from askless.run.store.schema import MIGRATIONS, RunError, check_tables, how_to_repair, migrate, transaction

BUSY_MS = 20_000
NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs", "lustre", "davfs")


class RepeatedError(Exception):
    """A request that was stored before: it is answered as a success, and not stored again."""

    def __init__(self, event: sqlite3.Row) -> None:
        super().__init__(event["request_id"])
        self.payload: dict[str, Any] = json.loads(event["payload"])


class GoneError(RunError):
    """The database is no longer where it was opened: nobody would find what is stored in it now."""


class Store:
    """The run's database, for one process. `change()` is durable once it returns; `lend()` survives a killed process but
    not a power cut, which is enough for leases; `look()` reads one consistent state. Where the run cannot be written, as
    in an archive, only `look()` works."""

    def __init__(self, path: Path, create: bool = False) -> None:
        if create:
            path.touch(mode=0o600, exist_ok=False)
        else:
            check_file(path)
        self.path = path
        self.journal = "DELETE" if on_network(path) else "WAL"
        self.read_only = not can_write(path)
        self._writing, self._reading = threading.Lock(), threading.RLock()
        try:
            with damage_in_words(path):
                self._open(create)
            self._opened = which_file(path)
        except sqlite3.OperationalError:  # about the disk or a lock, not about the file
            raise
        except sqlite3.DatabaseError as error:
            raise RunError(f"{path}: cannot be used as the database of a run ({error})") from None

    def _open(self, create: bool) -> None:
        if not create:  # before anything could be written: it may be a database of something else
            with closing(open_to_read(self.path)) as looking:
                check_tables(looking, self.path)
        if self.read_only:
            self._writer = self._lender = self._reader = of_this_version(open_to_read(self.path))
            return
        self._writer, self._lender, self._reader = (
            connect(self.path, self.journal, sync) for sync in ("FULL", "NORMAL", "FULL")
        )
        try:
            migrate(self._writer)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk when the block has ended, or has not happened."""
        self.check_writable()
        self.check_still_there()
        with self._writing, damage_in_words(self.path), transaction(self._writer, "IMMEDIATE"):
            yield self._writer
        self.check_still_there()  # after the commit, and before anybody learns of it

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        self.check_writable()
        self.check_still_there()
        with self._writing, damage_in_words(self.path), transaction(self._lender, "IMMEDIATE"):
            yield self._lender

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection]:
        with self._reading:
            if self._reader.in_transaction:  # a look within a look sees the same state
                yield self._reader
                return
            with damage_in_words(self.path), transaction(self._reader, "DEFERRED"):
                yield self._reader

    def problem(self) -> str:
        """What SQLite finds wrong with the file, in its words; "" where it is whole. Reads all of it."""
        with self._reading:
            try:
                found = str(self._reader.execute("PRAGMA quick_check(1)").fetchone()[0])
            except sqlite3.DatabaseError as error:
                return str(error)
        return "" if found == "ok" else found

    def check_writable(self) -> None:
        """An error where the run can only be looked at."""
        if self.read_only:
            raise RunError(
                f"{self.path.parent} is read-only: it can be viewed and exported; to continue labelling, copy it with "
                f"`askless backup {self.path.parent} --out FOLDER`"
            )

    def version(self) -> int:
        """A number that changes when anybody else has changed the run."""
        with self._reading:
            return int(self._reader.execute("PRAGMA data_version").fetchone()[0])

    def check_still_there(self) -> None:
        """GoneError once the file at our path is not the one we have open: SQLite keeps writing to a deleted file."""
        found = which_file(self.path)
        if found != self._opened:
            raise GoneError(
                f"expected the run opened at {self.path.parent}, found {'another one' if found else 'nothing'}: it "
                "was deleted, moved or replaced, and answers are not saved; put it back, or start askless again on the "
                "folder you want to label"
            )

    def close(self) -> None:
        with self._reading, self._writing:
            for connection in (self._reader, self._lender, self._writer):
                connection.close()


def which_file(path: Path) -> tuple[int, int] | None:
    """The device and inode of a file; None where there is none."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def can_write(path: Path) -> bool:
    """Whether a database can be changed. Files beside it are needed for that, so its folder counts, too."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def check_file(path: Path) -> None:
    """An error where there is nothing that could be a run's database: SQLite would make one of an empty file."""
    if path.is_dir():
        raise RunError(f"{path}: expected the database of a run, got a folder; {how_to_repair(path.parent)}")
    if not path.is_file():
        raise RunError(
            f"{path.parent}: expected a run (a folder with {path.name}), found none{run_beside(path.parent)}"
        )
    if not path.stat().st_size and not unfinished(path):
        raise RunError(f"{path}: expected the database of a run, got an empty file; {how_to_repair(path.parent)}")


def unfinished(path: Path) -> list[Path]:
    """The files beside a database that belong to it: the log of what is not in it yet, or of what must leave it again."""
    beside = [path.with_name(path.name + suffix) for suffix in ("-wal", "-journal")]
    return [file for file in beside if file.is_file() and file.stat().st_size]


def open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that leaves the file and its folder as they are, also where nothing can be written.

    A write-ahead log needs a place for its index, even to be read: where there is none, a copy in memory is read.
    """
    if unfinished(path) and not can_write(path):
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        with tempfile.TemporaryDirectory(prefix="askless-") as folder:
            for file in (path, *unfinished(path)):
                shutil.copyfile(file, Path(folder) / file.name)
            with closing(sqlite3.connect(Path(folder) / path.name)) as copy:
                copy.backup(db)
    else:
        in_use = path.with_name(f"{path.name}-shm").exists()  # somebody may write to it
        is_all = not unfinished(path) and (not can_write(path) or (in_wal_mode(path) and not in_use))
        uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if is_all else ''}"
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
    db.row_factory = sqlite3.Row
    return db


def of_this_version(db: sqlite3.Connection) -> sqlite3.Connection:
    """The same; where the tables are of an earlier version, a copy in memory that has those of this one."""
    if db.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS):
        return db
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    copy.row_factory = sqlite3.Row
    with closing(db):
        db.backup(copy)
    migrate(copy)
    return copy


def in_wal_mode(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\2\2"


@contextmanager
def damage_in_words(path: Path) -> Iterator[None]:
    """Turns what SQLite says of a damaged file into a sentence. Its subclasses are about other things, as a full disk."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if type(error) is sqlite3.DatabaseError:
            raise RunError(f"{path}: the database is damaged ({error}); {how_to_repair(path.parent)}") from None
        raise


def on_network(path: Path, mounts: Path = Path("/proc/self/mounts")) -> bool:
    """Whether a path lies on a file system of another machine, where the write-ahead log does not work."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:  # not Linux
        return False
    place = path.resolve()
    # Mount points are written with octal escapes; the longest that holds the path is the one it lies on.
    points = [(Path(p[1].replace("\\040", " ")), p[2]) for p in lines if len(p) > 2]
    above = [(len(point.parts), kind) for point, kind in points if place.is_relative_to(point)]
    return bool(above) and max(above)[1].startswith(NETWORK)


def connect(path: Path, journal: str, sync: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
    db.row_factory = sqlite3.Row
    db.execute(f"PRAGMA journal_mode = {journal}")
    db.execute(f"PRAGMA synchronous = {sync}")
    db.execute("PRAGMA fullfsync = ON")  # macOS: else a disk may keep writes in its own memory
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA recursive_triggers = ON")  # so that INSERT OR REPLACE cannot remove an event either
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            os.chmod(beside, 0o600)
    return db


@contextmanager
def savepoint(db: sqlite3.Connection) -> Iterator[None]:
    """A part of a transaction that an error undoes while the rest continues."""
    db.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if db.in_transaction:  # a full disk rolls all of it back by itself
            db.execute("ROLLBACK TO part")
        raise
    finally:
        if db.in_transaction:
            db.execute("RELEASE part")


def now() -> str:
    """UTC, ISO-8601, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(at: str) -> datetime:
    """What `now` wrote."""
    return datetime.fromisoformat(at.replace("Z", "+00:00"))  # Python 3.10 does not read the Z


def once(db: sqlite3.Connection, request_id: str, *kinds: str) -> None:
    """RepeatedError where the request was stored before. To be called before anything is checked: what was possible when
    the request first came need not be any more."""
    before = db.execute("SELECT * FROM event WHERE request_id = ?", (request_id,)).fetchone()
    if before is None:
        return
    if before["kind"] not in kinds:
        raise InputError(f"expected a new request_id, got {request_id!r}, which was used for a {before['kind']}")
    raise RepeatedError(before)


def record(
    db: sqlite3.Connection, request_id: str, kind: str, annotator: str, payload: dict[str, Any], item: int | None = None
) -> tuple[int, str]:
    """Appends an event; its number and time. RepeatedError where the request was stored before."""
    once(db, request_id, kind)
    at = now()
    cursor = db.execute(
        "INSERT INTO event (request_id, kind, annotator, item, payload, at) VALUES (?, ?, ?, ?, ?, ?)",
        (request_id, kind, annotator, item, json.dumps(payload, separators=(",", ":")), at),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid, at


def last_event(db: sqlite3.Connection, *kinds: str) -> int:
    """The number of the last event, or of the last of these kinds; 0 before the first."""
    which = f" WHERE kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
    return int(db.execute(f"SELECT coalesce(max(seq), 0) FROM event{which}", kinds).fetchone()[0])


def payload_of(db: sqlite3.Connection, request_id: str) -> dict[str, Any] | None:
    """What was stored for a request; None where it never came."""
    row = db.execute("SELECT payload FROM event WHERE request_id = ?", (request_id,)).fetchone()
    return None if row is None else json.loads(row[0])


def last_annotator(db: sqlite3.Connection, prefix: str) -> str | None:
    """Who made the last of the requests whose names begin so."""
    row = db.execute(
        "SELECT annotator FROM event WHERE request_id >= ? AND request_id < ? ORDER BY seq DESC LIMIT 1",
        (prefix, f"{prefix}~"),
    ).fetchone()
    return None if row is None else str(row[0])


def count_events(db: sqlite3.Connection) -> dict[str, int]:
    """How many events of each kind there are."""
    return dict(db.execute("SELECT kind, count(*) FROM event GROUP BY kind").fetchall())


def get_meta(db: sqlite3.Connection, name: str, default: Any = None) -> Any:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return default if row is None else json.loads(row[0])


def set_meta(db: sqlite3.Connection, name: str, value: Any) -> None:
    db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, json.dumps(value)))
