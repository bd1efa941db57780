import re
import sqlite3
import threading
from pathlib import Path

import pytest

import askless
from askless.run import RunError
from askless.run.store.schema import MIGRATIONS
from askless.run.store.store import (
    RepeatedError,
    Store,
    get_meta,
    moment,
    now,
    on_network,
    record,
    savepoint,
    set_meta,
    transaction,
)

TABLES = {"meta", "item", "class", "event", "action", "task", "lease", "answer", "decision", "round", "fit", "tally"}


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "state.sqlite", create=True)
    yield made
    made.close()


def names(db):
    return {
        row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    }


def test_a_fresh_database_has_all_tables_and_the_present_version(store):
    with store.look() as db:
        assert names(db) == TABLES
        assert db.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)


def test_an_empty_file_is_refused_and_left_empty(tmp_path):
    path = tmp_path / "state.sqlite"
    path.touch()
    with pytest.raises(RunError, match=r"got an empty file; run `askless doctor --repair .*restore a backup"):
        Store(path)
    assert [(p.name, p.stat().st_size) for p in tmp_path.iterdir()] == [("state.sqlite", 0)]


def test_a_folder_in_the_place_of_the_database_is_refused(tmp_path):
    (tmp_path / "state.sqlite").mkdir()
    with pytest.raises(RunError, match="got a folder; run `askless doctor --repair"):
        Store(tmp_path / "state.sqlite")


@pytest.mark.parametrize("version", [0, 1])
def test_a_database_of_something_else_is_refused_and_left_as_it_is(tmp_path, version):
    path = tmp_path / "state.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE meta (name, value)")
    db.execute(f"PRAGMA user_version = {version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(RunError, match=r"without the tables item, class, event, .*tally; run `askless doctor --repair"):
        Store(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state.sqlite"]


def test_damage_is_told_in_words_where_it_is_met(tmp_path):
    path = tmp_path / "state.sqlite"
    store = Store(path, create=True)
    with store.change() as db:
        for i in range(200):
            record(db, f"request-{i}", "label", "ann", {"items": [i], "note": "x" * 200})
        root = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'").fetchone()[0]
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * (root - 1) : 4096 * root] = bytes(4096)
    path.write_bytes(content)
    store = Store(path)
    assert store.problem()
    told = r"state\.sqlite: the database is damaged \(.*run `askless doctor --repair"
    with pytest.raises(RunError, match=told), store.look() as db:
        db.execute("SELECT payload FROM event").fetchall()
    store.close()


def test_a_whole_database_has_no_problem(store):
    assert store.problem() == ""


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_read_only_run_can_be_looked_at_but_not_changed(tmp_path, monkeypatch, unfinished):
    """With what is in the write-ahead log only, as after a kill."""
    folder = tmp_path / "run"
    folder.mkdir()
    before = Store(folder / "state.sqlite", create=True)
    with before.change() as db:
        set_meta(db, "budget", 7)
    if not unfinished:
        before.close()
    files = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert ("state.sqlite-wal" in files) is unfinished
    archive = tmp_path / "archive"
    archive.mkdir()
    for name, content in files.items():
        if not name.endswith("-shm"):
            (archive / name).write_bytes(content)
    monkeypatch.setattr("askless.run.store.store.can_write", lambda path: False)
    store = Store(archive / "state.sqlite")
    assert store.read_only
    with store.look() as db:
        assert get_meta(db, "budget") == 7
    assert (store.problem(), isinstance(store.version(), int)) == ("", True)
    for kind in ("change", "lend"):
        with pytest.raises(RunError, match=r"read-only: .* `askless backup"), getattr(store, kind)():
            pass
    store.close()
    assert {p.name for p in archive.iterdir()} == {name for name in files if not name.endswith("-shm")}
    before.close()


def test_opening_again_changes_nothing(tmp_path):
    store = Store(tmp_path / "state.sqlite", create=True)
    with store.change() as db:
        set_meta(db, "budget", 7)
    store.close()
    store = Store(tmp_path / "state.sqlite")
    with store.look() as db:
        assert get_meta(db, "budget") == 7
    store.close()


def test_a_newer_version_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "state.sqlite"
    Store(path, create=True).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(RunError, match=r"newer askless.*upgrade"):
        Store(path)
    assert path.read_bytes() == before


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def broken(db):
        db.execute("CREATE TABLE half (x)")
        raise RuntimeError("stop")

    path = tmp_path / "state.sqlite"
    Store(path, create=True).close()
    monkeypatch.setattr("askless.run.store.schema.MIGRATIONS", (*MIGRATIONS, broken))
    with pytest.raises(RuntimeError, match="stop"):
        Store(path)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    assert names(db) == TABLES
    db.close()


def test_a_file_that_is_no_database_is_refused_with_its_name(tmp_path):
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"these are no tables" * 100)
    with pytest.raises(RunError, match=r"state\.sqlite"):
        Store(path)


def test_a_missing_database_is_not_made_by_opening(tmp_path):
    with pytest.raises(RunError, match="expected a run"):
        Store(tmp_path / "state.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_the_database_is_its_owners_alone(store):
    with store.change() as db:
        set_meta(db, "a", 1)
    modes = {p.name: oct(p.stat().st_mode & 0o777) for p in store.path.parent.iterdir()}
    assert modes == dict.fromkeys(("state.sqlite", "state.sqlite-wal", "state.sqlite-shm"), "0o600")


def test_an_answer_is_on_the_disk_when_it_is_stored(store):
    with store.change() as db:
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    with store.lend() as db:
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 1  # NORMAL is enough for leases


def test_events_can_be_added_but_neither_changed_nor_removed(store):
    with store.change() as db:
        record(db, "request-1", "label", "ann", {"items": [1]})
    for statement in ("UPDATE event SET annotator = 'bo'", "DELETE FROM event"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"), store.change() as db:
            db.execute(statement)
    with store.look() as db:
        assert [tuple(r) for r in db.execute("SELECT request_id, annotator FROM event")] == [("request-1", "ann")]


def test_replacing_an_event_is_refused_too(store):
    with store.change() as db:
        record(db, "request-1", "label", "ann", {})
    with pytest.raises(sqlite3.IntegrityError), store.change() as db:
        db.execute(
            "INSERT OR REPLACE INTO event (seq, request_id, kind, annotator, payload, at) "
            "VALUES (1, 'request-1', 'label', 'bo', '{}', '')"
        )


def test_a_request_is_recorded_once(store):
    with store.change() as db:
        record(db, "request-1", "label", "ann", {"items": [1]}, 1)
    with pytest.raises(RepeatedError) as repeated, store.change() as db:
        record(db, "request-1", "label", "ann", {"items": [2]}, 1)
    assert repeated.value.payload == {"items": [1]}
    with store.look() as db:
        assert db.execute("SELECT count(*) FROM event").fetchone()[0] == 1


@pytest.mark.parametrize("kind", ["change", "lend"])
def test_an_error_rolls_a_transaction_back_whole(store, kind):
    def fail():
        with getattr(store, kind)() as db:
            set_meta(db, "a", 1)
            record(db, "request-1", "label", "ann", {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store.look() as db:
        assert get_meta(db, "a") is None
        assert db.execute("SELECT count(*) FROM event").fetchone()[0] == 0
    with getattr(store, kind)() as db:  # and the next one works
        set_meta(db, "a", 2)
    with store.look() as db:
        assert get_meta(db, "a") == 2


def test_numbers_of_events_are_never_used_again(store):
    with store.change() as db:
        first, _ = record(db, "request-1", "label", "ann", {})
    with store.change() as db:
        record(db, "request-2", "label", "ann", {})
        db.execute("ROLLBACK")
        db.execute("BEGIN")
    with store.change() as db:
        assert record(db, "request-3", "label", "ann", {})[0] > first


def test_a_look_sees_one_state_while_others_write(store):
    with store.look() as db:
        assert get_meta(db, "a") is None
        with store.change() as writer:
            set_meta(writer, "a", 1)
        assert get_meta(db, "a") is None
        with store.look() as again:
            assert get_meta(again, "a") is None
    with store.look() as db:
        assert get_meta(db, "a") == 1


def test_a_failed_look_does_not_block_the_next_one(store):
    with pytest.raises(ZeroDivisionError), store.look():
        raise ZeroDivisionError
    with store.look() as db:
        assert get_meta(db, "a", 5) == 5


def test_the_version_changes_when_something_was_stored(store):
    before = store.version()
    assert store.version() == before
    with store.change() as db:
        set_meta(db, "a", 1)
    assert store.version() != before


def test_threads_do_not_lose_each_others_changes(store):
    with store.change() as db:
        set_meta(db, "n", 0)

    def count():
        for _ in range(20):
            with store.change() as db:
                set_meta(db, "n", get_meta(db, "n") + 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.look() as db:
        assert get_meta(db, "n") == 80


def test_two_processes_worth_of_connections_see_each_other(store):
    other = Store(store.path)
    with store.change() as db:
        set_meta(db, "a", 1)
    with other.look() as db:
        assert get_meta(db, "a") == 1
    other.close()


def test_times_are_utc_to_the_millisecond():
    from datetime import datetime, timezone

    assert abs((datetime.now(timezone.utc) - moment(now())).total_seconds()) < 5
    assert now().endswith("Z")
    assert len(now()) == len("2026-01-01T00:00:00.000Z")


MOUNTS = """/dev/sda1 / ext4 rw 0 0
server:/export /mnt/net nfs4 rw 0 0
//server/share /mnt/my\\040share cifs rw 0 0
/dev/sdb1 /mnt/net/local xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ann/run", False),
        ("/mnt/net/run", True),
        ("/mnt/net/local/run", False),
        ("/mnt/my share/run", True),
        ("/mnt/network/run", False),
    ],
)
def test_a_network_disk_is_known_by_its_mount(tmp_path, path, expected):
    (tmp_path / "mounts").write_text(MOUNTS)
    assert on_network(Path(path), tmp_path / "mounts") is expected


def test_without_a_list_of_mounts_the_disk_counts_as_local(tmp_path):
    assert on_network(tmp_path, tmp_path / "none") is False


def test_on_a_network_disk_the_other_journal_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr("askless.run.store.store.on_network", lambda path: True)
    store = Store(tmp_path / "state.sqlite", create=True)
    with store.change() as db:
        db.execute("INSERT INTO meta VALUES ('a', '1')")
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    with store.look() as db:
        assert db.execute("SELECT value FROM meta").fetchone()[0] == "1"
    store.close()
    assert [p.name for p in tmp_path.iterdir()] == ["state.sqlite"]


# --- the store's door ----------------------------------------------------------------------------------------------------


def test_the_store_knows_nothing_of_what_is_made_from_it():
    """But for `repair`, which makes a run whole again from its source."""
    room = Path(askless.__file__).parent / "run" / "store"
    above = re.compile(r"askless\.run\.(steps|out|run)\b")
    assert [path.name for path in room.glob("*.py") if above.search(path.read_text(encoding="utf-8"))] == ["repair.py"]


def test_all_sql_is_in_the_store():
    """Every query is a named function of `askless.run.store`; other rooms call these."""
    house = Path(askless.__file__).parent
    sql = re.compile(r"\.execute(many|script)?\(|\b(SELECT .* FROM|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM) ")
    outside = {
        f"{path.relative_to(house)}:{number}"
        for path in house.rglob("*.py")
        if "run/store" not in path.as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if sql.search(line)
    }
    assert outside == set()


def test_a_full_disk_inside_a_savepoint_is_told_as_such(tmp_path):
    """SQLite then rolls the whole transaction back by itself, and the savepoint with it."""
    with sqlite3.connect(tmp_path / "small.sqlite", isolation_level=None) as db:
        db.execute("CREATE TABLE numbers (x)")
        db.execute("PRAGMA max_page_count = 4")
        with pytest.raises(sqlite3.OperationalError, match="full"), transaction(db, "IMMEDIATE"), savepoint(db):
            db.executemany("INSERT INTO numbers VALUES (?)", [("x" * 3000,) for _ in range(20)])
        assert not db.in_transaction
        assert db.execute("SELECT count(*) FROM numbers").fetchone() == (0,)
    db.close()
