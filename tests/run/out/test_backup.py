"""A copy of a run that is a run."""

import shutil
import sqlite3
import threading
import zipfile

import pytest

from askless.base.errors import InputError
from askless.label.web.serve import own_token, redirect_file
from askless.run import Run, RunError
from askless.run.out.backup import backup
from askless.run.steps.worker import catch_up
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk
from askless.run.store.repair import examine

from ...log import replay, stored


def answers(folder):
    with Run.open(folder) as run, run.store.look() as db:
        assert replay(db) == stored(db)
        return stored(db)


def files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def label(room, item):
    with room.run.store.change() as db:
        db.execute("INSERT OR IGNORE INTO lease VALUES (?, 'ann', 'ann-tab', 9e9, 1, 'none')", (item,))
        answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=item % 2), overlap=1)


def test_a_backup_is_a_run_with_the_same_labels_and_another_token(finished, tmp_path):
    made = backup(finished.folder, tmp_path / "copies" / "one")
    assert made == (tmp_path / "copies" / "one", "")
    modes = {p.stat().st_mode & 0o077 for p in (made.path, *made.path.rglob("*"))}
    assert modes == {0}
    assert answers(made.path) == answers(finished.folder)
    wanted = [n for n in files(finished.folder) if not n.startswith(("cache/", ".", "state.sqlite-"))]
    gone = {"server.json", "server.lock", "status.json", "worker.out"}
    assert [n for n in files(made.path) if not n.startswith((".", "state.sqlite-"))] == [
        n for n in wanted if n not in gone
    ]
    with Run.open(made.path) as copy:
        assert copy.meta("token") != finished.meta("token")
        assert copy.predictions().probs.shape == finished.predictions().probs.shape
        catch_up(copy)  # makes the cache again
        assert copy.is_finished()
    assert examine(made.path) == []


def test_no_file_of_a_backup_holds_the_token_of_the_run(make_room, tmp_path):
    room = make_room()
    token = own_token(room.run)
    redirect_file(room.run.folder, f"http://127.0.0.1:8347/?token={token}")
    made = backup(room.run.folder, tmp_path / "copy")
    assert not [p for p in made.path.rglob("*") if p.is_file() and token.encode() in p.read_bytes()]


def test_without_a_place_it_goes_beside_the_run_and_a_folder_takes_it_in(make_room, tmp_path):
    room = make_room()
    beside = backup(room.run.folder).path
    assert beside.parent == room.run.folder.parent
    assert beside.name.startswith(f"{room.run.folder.name}-backup-2")
    (tmp_path / "backups").mkdir()
    inside = backup(room.run.folder, tmp_path / "backups").path
    assert inside.parent == tmp_path / "backups"
    assert inside.name.startswith(f"{room.run.folder.name}-backup-2")
    assert answers(inside) == answers(beside) == {}


def test_a_zip_has_the_run_as_one_folder(make_room, tmp_path):
    room = make_room()
    room.ask([0, 1])
    label(room, 1)
    made = backup(room.run.folder, tmp_path / "copy.zip")
    assert made.path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(made.path) as packed:
        packed.extractall(tmp_path / "there")
    assert answers(tmp_path / "there" / room.run.folder.name) == {(1, "ann"): (1, None)}
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_nothing_is_overwritten(make_room, tmp_path):
    room = make_room()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="already exists; choose another name"):
        backup(room.run.folder, tmp_path / "file")
    with pytest.raises(InputError, match="expected a place outside the run"):
        backup(room.run.folder, room.run.folder / "copy")
    with pytest.raises(RunError, match="expected a run"):
        backup(tmp_path, tmp_path / "other")
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "other").exists()


def test_while_people_label_the_copy_is_one_moment_of_the_run(make_room, tmp_path):
    """Each copy has the first k answers for some k, all that were stored before it was begun included."""
    room = make_room(200, budget=200)
    room.ask(list(range(200)))
    stored_before, copies = [], []
    ended = threading.Event()

    def people():
        for item in range(200):
            label(room, item)
        ended.set()

    thread = threading.Thread(target=people)
    thread.start()
    while not ended.is_set() and len(copies) < 20:
        stored_before.append(room.one("SELECT count(*) FROM answer"))
        copies.append(backup(room.run.folder, tmp_path / f"copy-{len(copies)}").path)
    thread.join()
    copies.append(backup(room.run.folder, tmp_path / "last").path)
    stored_before.append(200)
    for before, copy in zip(stored_before, copies, strict=True):
        there = sorted(item for item, _ in answers(copy))
        assert there == list(range(len(there)))
        assert len(there) >= before
        assert examine(copy) == []
        assert len((copy / "labels.csv").read_text().splitlines()) == len(there) + 1


def test_a_read_only_run_can_be_copied_and_the_copy_goes_on(make_room, tmp_path, monkeypatch):
    room = make_room()
    room.ask([0, 1])
    label(room, 1)
    room.run.close()
    archive = tmp_path / "archive"
    shutil.copytree(room.run.folder, archive)
    for part in (*archive.rglob("*"), archive):
        part.chmod(0o500 if part.is_dir() else 0o400)
    monkeypatch.setattr("askless.run.store.store.can_write", lambda path: archive not in path.parents)
    made = backup(archive, tmp_path / "copy")
    with Run.open(made.path) as copy:
        assert not copy.store.read_only
        with copy.store.change() as db:
            db.execute("UPDATE task SET skips = 1 WHERE item = 0")
    assert answers(made.path) == {(1, "ann"): (1, None)}
    assert (made.path / "project.toml").stat().st_mode & 0o777 == 0o600
    for part in (archive, *archive.rglob("*")):
        part.chmod(0o700)


def test_a_damaged_database_is_copied_with_a_word_or_refused_with_one(make_room, tmp_path):
    room = make_room()
    room.run.close()
    path = room.run.folder / "state.sqlite"
    db = sqlite3.connect(path)
    roots = dict(db.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage"))
    db.close()
    whole = path.read_bytes()
    for table in ("answer", "meta"):
        content = bytearray(whole)
        content[4096 * (roots[table] - 1) : 4096 * roots[table]] = bytes(4096)
        path.write_bytes(content)
        if table == "answer":
            assert backup(room.run.folder, tmp_path / "copy").problem
        else:
            with pytest.raises(RunError, match=r"damaged \(.*askless doctor --repair"):
                backup(room.run.folder, tmp_path / "other")
            assert not (tmp_path / "other").exists()
