"""A damaged run is made whole again, as far as it can be read."""

import shutil
import sqlite3

import numpy as np
import pytest

from askless.base.errors import BusyError
from askless.base.locks import held
from askless.label.web.serve import LOCK
from askless.run import Run, RunError
from askless.run.steps.worker import catch_up
from askless.run.store.answering import Given, answer, skip, undo
from askless.run.store.asking import (
    Desk,
    ask_second,
    current_round,
    next_item,
    plan,
    tasks_of_round,
    withdraw_second,
)
from askless.run.store.claims import accept_claimed
from askless.run.store.classes import add_class, merge_class, rename_class
from askless.run.store.extra import label_extra
from askless.run.store.importing import import_answers
from askless.run.store.items import readable_items
from askless.run.store.looks import Look, choose_look, chosen_looks
from askless.run.store.repair import LOCKS, examine, repair
from askless.run.store.replay import log, stored_tables, timeless
from askless.run.store.rounds import is_ahead
from askless.run.store.schema import MIGRATIONS
from askless.run.store.store import get_meta, now, record, set_meta

from ...log import replay

PAGE = 4096


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on which two people have done all that can be done, two rounds long; closed."""
    folder = tmp_path_factory.mktemp("made")
    np.savez(folder / "rows.npz", X=np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32))
    run = Run.create(
        folder / "rows.npz", folder / "run", classes=("cat", "dog"), budget=80, check=0.2, annotators=2, steps=5
    )
    ann, bo = Desk("ann", "ann-tab"), Desk("bo", "bo-tab")
    requests = (f"request-{i:06d}" for i in range(1000))
    for number in (1, 2):
        with run.store.change() as db:
            ask(db, number)
            for i in range(24):
                for desk in (ann, bo):
                    item = next_item(db, desk, 2)
                    if i % 7 == 6:
                        skip(db, desk, next(requests), item, overlap=2)
                    elif item is not None:
                        answer(db, desk, next(requests), [item], Given(label=i % 2, seconds=1.5), overlap=2)
            add_class(db, next(requests), "ann", f"bird {number}")
            rename_class(db, next(requests), "bo", 0, f"cat {number}")
            choose_look(db, next(requests), "bo", 1, number, "dw"[number - 1], {"x": 0})
            for again in (False, False, False, True):
                undo(db, ann, next(requests), overlap=2, again=again)
            mine = [row[0] for row in db.execute("SELECT item FROM answer WHERE annotator = 'bo' LIMIT 3")]
            answer(db, bo, next(requests), mine, Given(unsure="other", note="?"), overlap=2, change=True)
            import_answers(db, next(requests), "file", [("5", "cow"), ("90", "dog")], overlap=2, policy="replace")
        run.train_now(next(requests), "ann")
    with run.store.change() as db:
        merge_class(db, next(requests), "bo", 3, 1)
    run.mark_unreadable(7, "damaged")
    run.set_budget(next(requests), "ann", 90)
    run.write_views()
    run.close()
    return run.folder


def ask(db, number):
    """Puts twenty items out as the chosen ones of a round, as the worker does."""
    free = "SELECT id FROM item WHERE split = 'pool' AND id NOT IN (SELECT item FROM task) ORDER BY id LIMIT 20"
    items = [row[0] for row in db.execute(free)]
    db.execute("INSERT INTO round VALUES (?, 'askless', ?, 0, 'asking')", (number, now()))
    db.executemany(
        "INSERT INTO task (item, kind, round, rank, picked_by, reason, state) "
        "VALUES (?, 'train', ?, ?, 'askless', 'covers much', 'open')",
        [(item, number, rank) for rank, item in enumerate(items, 1)],
    )
    record(db, f"worker/round-{number}", "round", "worker", {"round": number, "items": items, "info": {}})


@pytest.fixture
def busy(made, tmp_path):
    """A copy of it, to be damaged."""
    return shutil.copytree(made, tmp_path / "run")


def state_of(folder):
    """All that the tables say, but for leases."""
    with Run.open(folder) as run, run.store.look() as db:
        names = ("meta", "item", "class", "event", "action", "task", "answer", "round", "fit")
        found = {name: [tuple(row) for row in db.execute(f"SELECT * FROM {name} ORDER BY 1, 2")] for name in names}
        return {**found, "tally": [tuple(row) for row in db.execute("SELECT * FROM tally WHERE n ORDER BY 1, 2, 3")]}


def change(folder, *statements):
    """Changes the database behind the back of the run."""
    db = sqlite3.connect(folder / "state.sqlite")
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def zero(folder, *pages):
    path = folder / "state.sqlite"
    content = bytearray(path.read_bytes())
    for number in pages:
        content[number * PAGE : (number + 1) * PAGE] = bytes(PAGE)
    path.write_bytes(content)


def root_of(folder, name):
    db = sqlite3.connect(folder / "state.sqlite")
    page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
    db.close()
    return page - 1


def pages_with(folder, text):
    content = (folder / "state.sqlite").read_bytes()
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    return [number for number, page in enumerate(pages) if page[100 * (number == 0)] == 13 and text in page]


def test_a_whole_run_stays_as_it_is(busy):
    before = (busy / "state.sqlite").read_bytes()
    assert examine(busy) == []
    assert repair(busy) == ["The database is intact; it stays as it is"]
    assert (busy / "state.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["DELETE FROM answer WHERE annotator = 'ann'"], "answers differ from the event log"),
        (["UPDATE answer SET note = 'x' WHERE annotator = 'bo'"], "answers differ from the event log"),
        (["UPDATE answer SET at = '1O:30' WHERE annotator = 'bo'"], "times of answers are wrong"),
        (["UPDATE class SET name = 'horse' WHERE id = 1"], "1 classes differ from the event log"),
        (["UPDATE class SET labels = 99 WHERE id = 1"], "1 counts of labels are wrong"),
        (["DELETE FROM action WHERE annotator = 'bo'"], "actions differ from the event log"),
        (["UPDATE tally SET n = n + 1"], "counts of tasks are wrong"),
        (["UPDATE task SET answers = 0"], "counts of answers are wrong"),
        (["PRAGMA user_version = 0"], "got one of version 0"),
        (["DROP TABLE answer"], "without the tables answer"),
        (["DROP TABLE class", "DROP TABLE tally"], "without the tables class, tally"),
    ],
)
def test_tables_that_differ_from_the_log_are_made_from_it_again(busy, statements, found):
    before = state_of(busy)
    change(busy, *statements)
    assert found in examine(busy)[0]
    said = repair(busy)
    assert found in said[0]
    assert f"Read all {len(before['event'])} events" in said
    assert examine(busy) == []
    after = state_of(busy)
    assert {name for name in before if before[name] != after[name]} == set()
    kept = [p for p in busy.iterdir() if p.name.startswith("state.sqlite.damaged-")]
    assert [f"The damaged database stays as {kept[0].name}"] == said[-1:]
    assert kept[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "name", ["meta", "item", "class", "action", "task", "task_round", "answer", "answer_of", "round", "fit", "tally"]
)
def test_each_table_but_the_log_can_be_lost(busy, name):
    """The reasons for which items were chosen, and when rounds were, are known to the tables only."""
    before = state_of(busy)
    zero(busy, root_of(busy, name))
    assert examine(busy)[0].startswith("the database is damaged: ")
    assert not any(text.startswith("Lost") for text in repair(busy))
    assert examine(busy) == []
    after = state_of(busy)
    assert {n for n in before if before[n] != after[n]} <= {name, *({"tally"} if name == "task" else ())}
    if name == "item":
        assert after["item"] == before["item"]
    with Run.open(busy) as run:
        run.write_views()


def test_where_events_are_lost_the_answers_of_the_table_stay(busy):
    with Run.open(busy) as run, run.store.look() as db:
        before, n = stored_tables(db), len(log(db))
    zero(busy, pages_with(busy, b"request-0000")[2])
    said = repair(busy)
    assert f"Read all {n} events" not in said
    assert any(text.startswith("Lost: part of the event log") and "compare with a backup" in text for text in said)
    assert examine(busy) == []
    with Run.open(busy) as run, run.store.look() as db:
        after, events = stored_tables(db), log(db)
    assert {(key, row["class"], row["at"]) for key, row in after.answers.items()} == {
        (key, row["class"], row["at"]) for key, row in before.answers.items()
    }
    assert (after.classes, after.actions) == (before.classes, {})
    assert events[-1].kind == "recover"
    zero(busy, root_of(busy, "answer"), root_of(busy, "class"))  # what was written down then is enough now
    assert f"Read all {len(events)} events" in repair(busy)
    with Run.open(busy) as run, run.store.look() as db:
        assert timeless(stored_tables(db)) == timeless(after)


def test_what_makes_no_sense_is_left_out(busy):
    """Events are lost, and the tables have classes merged in a circle, and answers of classes and to items without a row."""
    change(
        busy,
        "DROP TRIGGER event_remains",
        "DROP TRIGGER event_stays",
        "DELETE FROM event WHERE seq = 9",
        "UPDATE event SET payload = json_set(payload, '$.class', 77) WHERE kind = 'class_rename'",
        "UPDATE class SET merged_into = 3 - id WHERE id IN (1, 2)",
        "DELETE FROM class WHERE id = 0",
        "UPDATE answer SET class = 4000 WHERE rowid = (SELECT min(rowid) FROM answer WHERE class = 0)",
        "INSERT INTO task VALUES (500, 'train', 1, 1, 'askless', '', NULL, 0, 0, 'open', 0)",
        "UPDATE answer SET item = 500 WHERE rowid = (SELECT max(rowid) FROM answer)",
        "UPDATE answer SET bulk = 'x' WHERE annotator = 'bo' AND rowid % 2",
    )
    repair(busy)
    assert examine(busy) == []
    with Run.open(busy) as run:
        with run.store.change() as db:
            import_answers(db, "after the repair", "file", [("6", "dog")], overlap=2)
            classes = stored_tables(db).classes
        run.write_views()
    assert classes[0] == ("lost class 0", None, False)
    assert len(classes) == 5
    assert not any(into is not None for _, into, _ in classes.values())


def test_a_run_that_was_repaired_goes_on(busy):
    zero(busy, root_of(busy, "task"), root_of(busy, "meta"))
    repair(busy)
    with Run.open(busy) as run:
        ann = Desk("ann", "another")
        with run.store.change() as db:
            budget = plan(db)[0]
            undo(db, ann, "after the repair", overlap=2)
            item = next_item(db, ann, 2)
            answer(db, ann, "after the repair 2", [item], Given(label=1), overlap=2)
            assert budget == 90
        catch_up(run)
        assert run.waiting()
        with run.store.look() as db:
            assert replay(db)[item, "ann"] == (1, None)
    assert examine(busy) == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_run_in_use_is_not_repaired(busy, lock):
    assert LOCK in LOCKS  # that of the page
    change(busy, "DELETE FROM answer")
    before = (busy / "state.sqlite").read_bytes()
    with held(busy / lock, "test"), pytest.raises(BusyError, match=r"is in use; stop `askless start"):
        repair(busy)
    assert (busy / "state.sqlite").read_bytes() == before


def test_what_nothing_can_be_read_of_is_left_as_it_is(busy):
    path = busy / "state.sqlite"
    told = r"nothing could be read.*restore a backup, or make a new run with .*`askless import NEW .*labels\.csv`"
    zero(busy, 0)  # the list of tables
    for content in (path.read_bytes(), b"", b"these are no tables\n" * 1000):
        path.write_bytes(content)
        with pytest.raises(RunError, match=told):
            repair(busy)
        assert path.read_bytes() == content
    path.unlink()
    with pytest.raises(RunError, match=told):
        repair(busy)
    path.mkdir()
    with pytest.raises(RunError, match=told):
        repair(busy)
    assert not [p for p in busy.iterdir() if "damaged" in p.name or "repaired" in p.name]


def test_a_database_of_a_newer_askless_is_not_damaged(busy):
    change(busy, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = (busy / "state.sqlite").read_bytes()
    with pytest.raises(RunError, match=r"newer askless.*upgrade askless"):
        repair(busy)
    assert (busy / "state.sqlite").read_bytes() == before
    change(busy, "PRAGMA user_version = 1157627905")  # a bit that is wrong
    repair(busy)
    assert examine(busy) == []


def test_a_damaged_file_takes_its_write_ahead_log_along(busy, tmp_path):
    run = Run.open(busy)
    with run.store.change() as db:
        db.execute("DELETE FROM answer WHERE annotator = 'ann'")
    copy = tmp_path / "copy"
    shutil.copytree(busy, copy)
    run.close()
    (copy / "state.sqlite-shm").unlink()
    wal = (copy / "state.sqlite-wal").read_bytes()
    assert wal
    said = repair(copy)
    kept = copy / said[-1].split()[-1]
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == wal
    assert not (copy / "state.sqlite-wal").exists()
    assert examine(copy) == []
    with Run.open(copy) as run, run.store.look() as db:
        assert any(annotator == "ann" for _, annotator in replay(db))


def test_items_that_are_lost_come_from_the_source(made, busy, tmp_path):
    before = state_of(busy)
    change(busy, "PRAGMA foreign_keys = OFF", "DELETE FROM item WHERE id BETWEEN 40 AND 49")
    content = (busy / "state.sqlite").read_bytes()
    settings = (busy / "project.toml").read_text()
    np.savez(tmp_path / "others.npz", X=np.zeros((3, 4), np.float32))
    for name, told in (("others", "expected the items of the run, found others"), ("none", "found nothing there")):
        text = settings.replace(str(made.parent / "rows.npz"), str(tmp_path / f"{name}.npz"))
        (busy / "project.toml").write_text(text)
        with pytest.raises(
            RunError, match=rf"items are lost.*{told}.*put it back and repair again, or restore a backup"
        ):
            repair(busy)
    assert (busy / "state.sqlite").read_bytes() == content
    (busy / "project.toml").write_text(settings)
    assert not any("Lost" in text for text in repair(busy))
    assert state_of(busy) == before


def test_a_folder_that_is_no_run_or_cannot_be_written_is_refused(busy, tmp_path, monkeypatch):
    with pytest.raises(RunError, match="expected the folder of a run"):
        repair(tmp_path / "none")
    with pytest.raises(RunError, match="expected a run"):
        repair(tmp_path)
    monkeypatch.setattr("askless.run.store.repair.can_write", lambda path: False)
    with pytest.raises(RunError, match="read-only; copy it to a writable place"):
        repair(busy)


def test_damaged_trainings_and_caches_are_removed_and_made_again(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished.folder, run)
    with Run.open(run) as opened, opened.store.look() as db:
        rounds = [row[0] for row in db.execute("SELECT round FROM fit ORDER BY round")]
    first, last = rounds[0], rounds[-1]
    (run / "rounds" / f"{first:03d}" / "predictions.npz").write_bytes(b"")
    (run / "model" / "model.safetensors").write_bytes(b"PK")
    (run / "cache" / "tiny.npy").write_bytes(b"")
    said = repair(run)
    assert said[1:] == [
        f"Round {first}: the files of its training were damaged and have been removed",
        f"Round {last}: the files of its training were damaged and have been removed",
        "The cache was damaged and has been emptied; askless rebuilds it when the run resumes",
    ]
    with Run.open(run) as opened:
        catch_up(opened)
        assert opened.predictions() is not None
    assert repair(run) == ["The database is intact; it stays as it is"]


def test_colours_and_keys_of_classes_are_rebuilt_from_the_log(busy):
    change(busy, "DELETE FROM meta WHERE name = 'looks'")
    assert examine(busy) == ["1 looks differ from the event log"]
    repair(busy)
    assert examine(busy) == []
    with Run.open(busy) as run, run.store.look() as db:
        assert chosen_looks(db) == {1: Look(2, "w")}


def test_colours_and_keys_survive_the_loss_of_their_events(busy):
    change(busy, "DROP TRIGGER event_remains", "DELETE FROM event WHERE kind = 'class_look'")
    assert any(text.startswith("Lost: part of the event log") for text in repair(busy))
    assert examine(busy) == []
    with Run.open(busy) as run, run.store.look() as db:
        assert chosen_looks(db) == {1: Look(2, "w")}


def test_colours_and_keys_that_cannot_be_read_are_taken_from_the_log(busy):
    change(busy, "UPDATE meta SET value = '[[3]]' WHERE name = 'looks'")
    assert examine(busy) == ["1 looks differ from the event log"]
    repair(busy)
    with Run.open(busy) as run, run.store.look() as db:
        assert chosen_looks(db) == {1: Look(2, "w")}


def test_what_was_labelled_unasked_stays_that_where_its_tasks_are_lost(tmp_path):
    """Items that were chosen and withdrawn before they were accepted; a second opinion that was withdrawn."""
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    run = Run.create(tmp_path / "rows.npz", tmp_path / "run", classes=("cat", "dog"), budget=30, check=0)
    ann, bo = Desk("ann", "tab"), Desk("bo", "tab")
    with run.store.change() as db:
        ask(db, 1)
    run.train_now("request-1", "ann")
    with run.store.change() as db:
        a, b, c, *_, d = readable_items(db, "pool")
        label_extra(db, ann, "request-2", {a: 0}, "accepted")
        undo(db, ann, "request-3", overlap=1)
        undo(db, ann, "request-4", overlap=1, again=True)
        accept_claimed(db, bo, "request-5", "gpt", 0.9, {b: 1})
        label_extra(db, ann, "request-6", {c: 0}, "found")
        import_answers(db, "request-7", "file", [(str(d), "dog")], overlap=1)
        assert ask_second(db, [d], 1) == [d]
        withdraw_second(db, d)
        import_answers(db, "request-8", "bo", [(str(d), "dog")], overlap=2)
        record(db, "request-9", "settings", "ann", {"suggestions": "peek"})
        set_meta(db, "suggestions", "peek")
        before = asked(db)
        assert [row[1:3] for row in before] == [
            *(("accepted", "model"), ("accepted", "gpt"), ("found", "search"), ("prior", "import"))
        ]
    run.close()
    for lost in ("decision", "meta", "task"):
        change(tmp_path / "run", f"DROP TABLE {lost}")
        repair(tmp_path / "run")
        with Run.open(tmp_path / "run") as run, run.store.look() as db:
            n = 3 if lost == "task" else 4  # whether the second opinion was withdrawn is known to the table only
            assert [row[:n] for row in asked(db)] == [row[:n] for row in before]
            assert get_meta(db, "suggestions") == "peek"


def asked(db):
    query = "SELECT item, kind, picked_by, wanted FROM task WHERE answers > 0 ORDER BY item"
    return [tuple(row) for row in db.execute(query)]


def test_what_was_answered_of_a_round_that_is_chosen_ahead_is_rebuilt(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32))
    options = {"classes": ("cat", "dog"), "budget": 12, "check": 0.0, "batch": 3, "steps": 5}
    with Run.create(tmp_path / "rows.npz", tmp_path / "run", **options) as run:
        while run.advance(reserve=True) is not None:
            pass
        for i in range(5):
            with run.store.change() as db:
                item = next_item(db, Desk("ann", "tab"), 1)
                answer(db, Desk("ann", "tab"), f"request-{i:06d}", [item], Given(label=i % 2), overlap=1)
        with run.store.look() as db:
            before, ahead = stored_tables(db), [t.item for t in tasks_of_round(db, 2) if t.state == "done"]
    change(tmp_path / "run", "DELETE FROM task WHERE round = 2")
    change(tmp_path / "run", "DELETE FROM round WHERE state = 'ahead'")
    assert examine(tmp_path / "run")
    repair(tmp_path / "run")
    with Run.open(tmp_path / "run") as run:
        with run.store.look() as db:
            assert timeless(stored_tables(db)) == timeless(before)
            assert {t.item for t in tasks_of_round(db, 2)} == set(ahead)
            assert len(ahead) == 2
            assert is_ahead(db)
        while run.advance(reserve=True) is not None:
            pass
        with run.store.look() as db:
            assert current_round(db) == 2
            assert {t.item for t in tasks_of_round(db, 2)} > set(ahead)
        assert len(run.waiting()) == 2
