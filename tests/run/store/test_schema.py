"""Runs of every version that was ever released: opened, shown, exported and continued."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from askless.models import load
from askless.run import Run
from askless.run.out.export import export_run
from askless.run.out.gather import account_of
from askless.run.steps.round_files import damage_of_fit, is_cache_whole
from askless.run.steps.worker import catch_up
from askless.run.store import store
from askless.run.store.schema import MIGRATIONS, migrate

from ...log import replay, stored

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = range(1, len(MIGRATIONS) + 1)


def label(path: str) -> str:
    return ("cat", "dog")[int(path) % 2]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_of_every_version_is_opened_shown_exported_and_continued(version, tmp_path):
    """Where this finds no folder, the tables are new: make one by tests/run/golden/make.py before they are released."""
    shutil.copytree(GOLDEN / f"version-{version}" / "run", tmp_path / "run")
    database = sqlite3.connect(tmp_path / "run" / "state.sqlite")
    assert database.execute("PRAGMA user_version").fetchone()[0] == version
    database.close()
    with Run.open(tmp_path / "run") as run:
        found = account_of(run)
        assert (found.progress.spent, found.progress.budget) == (8, 12)
        assert [(point.round, point.labels, point.n) for point in found.curve] == [(1, 4, 3)]
        assert "damaged" not in found.advice.text
        assert damage_of_fit(run.folder, 1) is None
        assert is_cache_whole(run.folder / "cache")
        assert len(run.waiting()) == 3
        with run.store.look() as db:
            answers = stored(db)
            assert replay(db) == answers
        assert sorted(name for _, name in answers) == ["ann"] * 7 + ["bo", "table"]
        for to in ("csv", "jsonl", "npz"):
            assert export_run(run, to, tmp_path / f"labels.{to}").labels == 9
        assert "0,cat,labelled,train,table" in (tmp_path / "labels.csv").read_text(encoding="utf-8")
        assert run.write_report().is_file()
        catch_up(run)
        assert len(run.waiting()) == 3, "nothing was to be made again"
        while run.waiting():
            run.tell({path: label(path) for path in run.waiting()}, "cy")
            catch_up(run)
        assert run.is_finished()
        with run.store.look() as db:
            assert stored(db).items() >= answers.items()
        assert account_of(run).progress.spent == 12
        assert len(account_of(run).curve) == 3
    assert load(tmp_path / "run").classes_.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_of_every_version_is_shown_and_exported_where_nothing_can_be_written(version, tmp_path, monkeypatch):
    shutil.copytree(GOLDEN / f"version-{version}" / "run", tmp_path / "run")
    before = (tmp_path / "run" / "state.sqlite").read_bytes()
    monkeypatch.setattr(store, "can_write", lambda path: False)
    with Run.open(tmp_path / "run") as run:
        assert account_of(run).progress.spent == 8
        assert export_run(run, "csv", tmp_path / "labels.csv").labels == 9
        assert run.write_report(tmp_path / "report").is_file()
    assert (tmp_path / "run" / "state.sqlite").read_bytes() == before


def test_the_second_version_takes_more_kinds_and_no_others():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        migrate(db, 1)
        task = "INSERT INTO task (item, kind, rank, picked_by, reason, state) VALUES (?, ?, 0, 'me', '', 'open')"
        made = "INSERT INTO round (id, strategy, made_at, seconds, state) VALUES (?, 'random', '', 0, ?)"
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            db.execute(task, (1, "found"))
        migrate(db, 2)
        db.execute(task, (1, "found"))
        db.execute(task, (2, "accepted"))
        db.execute(made, (1, "ahead"))
        for statement in (task, made):
            with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
                db.execute(statement, (3, "other"))
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_process_that_has_the_first_version_open_takes_what_the_second_allows(tmp_path):
    path = tmp_path / "state.sqlite"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as old,
        closing(sqlite3.connect(path, isolation_level=None)) as new,
    ):
        migrate(old, 1)
        old.execute("SELECT * FROM task").fetchall()
        migrate(new, 2)
        old.execute("INSERT INTO round (id, strategy, made_at, seconds, state) VALUES (1, 'random', '', 0, 'ahead')")
