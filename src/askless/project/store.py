"""One SQLite file: connections, transactions, and the append-only log of events."""

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from askless.errors import InputError
from askless.project.schema import RunError, migrate, run_beside

BUSY_MS = 20_000
NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs", "lustre", "davfs")


class RepeatedError(Exception):
    """A request that was stored before: it is answered as a success, and not stored again."""

    def __init__(self, event: sqlite3.Row) -> None:
        super().__init__(event["request_id"])
        self.event = event


class Store:
    """The run's database, for one process. `change()` is durable once it returns; `lend()` survives a killed process but
    not a power cut, which is enough for leases; `look()` reads one consistent state."""

    def __init__(self, path: Path, create: bool = False) -> None:
        if not create and not path.is_file():
            raise RunError(
                f"{path.parent}: expected a run (a folder with {path.name}), found none{run_beside(path.parent)}"
            )
        if create:
            path.touch(mode=0o600, exist_ok=False)
        self.path = path
        self.journal = "DELETE" if on_network(path) else "WAL"
        self._writing, self._reading = threading.Lock(), threading.RLock()
        try:
            self._writer, self._lender, self._reader = (
                connect(path, self.journal, sync) for sync in ("FULL", "NORMAL", "FULL")
            )
            migrate(self._writer)
        except sqlite3.DatabaseError as error:
            raise RunError(f"{path}: cannot be used as the database of a run ({error})") from None

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk when the block has ended, or has not happened."""
        with self._writing, transaction(self._writer, "IMMEDIATE"):
            yield self._writer

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        with self._writing, transaction(self._lender, "IMMEDIATE"):
            yield self._lender

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection]:
        with self._reading:
            if self._reader.in_transaction:  # a look within a look sees the same state
                yield self._reader
                return
            with transaction(self._reader, "DEFERRED"):
                yield self._reader

    def version(self) -> int:
        """A number that changes when anybody else has changed the run."""
        with self._reading:
            return int(self._reader.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        with self._reading, self._writing:
            for connection in (self._reader, self._lender, self._writer):
                connection.close()


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
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA recursive_triggers = ON")  # so that INSERT OR REPLACE cannot remove an event either
    for suffix in ("-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            os.chmod(beside, 0o600)
    return db


@contextmanager
def transaction(db: sqlite3.Connection, kind: str) -> Iterator[None]:
    db.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        if db.in_transaction:  # a full disk rolls back by itself
            db.execute("ROLLBACK")
        raise
    try:
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


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
        raise InputError(f"expected a new request_id, got {request_id!r}, which was a {before['kind']}")
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


def get_meta(db: sqlite3.Connection, name: str, default: Any = None) -> Any:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return default if row is None else json.loads(row[0])


def set_meta(db: sqlite3.Connection, name: str, value: Any) -> None:
    db.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, json.dumps(value)))
