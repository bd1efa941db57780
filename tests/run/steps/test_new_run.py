"""A run appears whole or not at all, and nothing of a killed making stays."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from askless.base.errors import OptionError
from askless.run import Run, RunError
from askless.run.steps import new_run
from askless.run.steps.new_run import made_beside

HOLD = """
import sys, time
from pathlib import Path
from askless.run.steps.new_run import made_beside
with made_beside(Path(sys.argv[1])) as beside:
    (beside / "state.sqlite").write_text("a token")
    print(beside, flush=True)
    time.sleep(600)
"""


def test_a_killed_making_is_cleaned_away_and_one_that_works_is_not(tmp_path):
    folder = tmp_path / "run[1]"
    (
        tmp_path / f".run[1].{os.getpid()}.making"
    ).mkdir()  # of an earlier version, in a container where every process has one PID
    others = [
        tmp_path / name for name in (".run[1].making-notes", ".other.making", "run[1].1.making", ".run1.1.making")
    ]
    for other in others:
        other.mkdir()
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        beside = process.stdout.readline().strip()
        try:
            with made_beside(folder) as ours:
                assert {p.name for p in tmp_path.glob(".run[[]1].*.making")} == {os.path.basename(beside), ours.name}
            assert os.path.exists(f"{beside}/state.sqlite")
        finally:
            process.kill()
    assert os.path.exists(beside)
    with made_beside(folder) as ours:
        assert not os.path.exists(beside)
    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_a_folder_that_was_cleaned_away_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    locked = iter((False, True))

    @contextmanager
    def locking(path):
        yield next(locked)

    monkeypatch.setattr(new_run, "held_folder", locking)
    with made_beside(tmp_path / "run") as beside:
        assert len(list(tmp_path.glob(".run.*.making"))) == 2
    assert not beside.exists()


def test_where_folders_cannot_be_locked_a_run_is_made_and_nothing_is_cleaned(shapes, tmp_path, monkeypatch):
    monkeypatch.setattr("askless.base.locks.fcntl", None)
    (tmp_path / ".run.0.making").mkdir()
    shapes.start(tmp_path / "run").close()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".run.0.making", "run"]


def test_a_run_is_on_the_disk_before_its_folder_appears(shapes, tmp_path, monkeypatch):
    done = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda file: done.append(os.fstat(file).st_ino) or fsync(file))
    monkeypatch.setattr(os, "rename", lambda old, new: done.append("renamed") or rename(old, new))
    shapes.start(tmp_path / "new" / "deep" / "run").close()
    run = tmp_path / "new" / "deep" / "run"
    before, after = done[: done.index("renamed")], done[done.index("renamed") :]
    assert {path.stat().st_ino for path in (run, run / "state.sqlite", run / "rounds")} <= set(before)
    assert {path.stat().st_ino for path in (run.parent, run.parent.parent, tmp_path)} <= set(after)


def test_names_beyond_the_first_plane_work_and_names_that_are_no_text_are_refused(shapes, tmp_path):
    bad = os.fsdecode(b"caf\xe9")
    with shapes.start(tmp_path / "😀", classes=("cat", "😀"), command=f"askless start {bad}"):
        pass
    with Run.open(tmp_path / "😀") as run:
        assert run.settings.classes == ("cat", "😀")
        assert run.settings.command == r"'askless start caf\udce9'"
        assert run.write_report().is_file()
    with pytest.raises(OptionError, match=r"classes: expected a name that is valid UTF-8, got .*\\udce9.*; rename it"):
        shapes.start(tmp_path / "other", classes=("cat", bad))
    with pytest.raises(OptionError, match="source: expected a name that is valid UTF-8"):
        Run.create(tmp_path / bad, tmp_path / "other")
    with pytest.raises(RunError, match=r"expected a folder whose name is valid UTF-8.*choose another name"):
        shapes.start(tmp_path / bad)
    assert [p.name for p in tmp_path.iterdir()] == ["😀"]
