import subprocess
import sys

import pytest

from askless.base import locks
from askless.base.errors import BusyError
from askless.base.locks import held, held_folder, is_held

HOLD = """
import sys, time
from pathlib import Path
from askless.base.locks import held
with held(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_held_once_and_given_back(tmp_path):
    path = tmp_path / "lock"
    assert not is_held(path)
    with held(path, "busy"):
        assert is_held(path)
        with pytest.raises(BusyError, match="in use"), held(path, "in use", seconds=0.1):
            pass
    assert not is_held(path)


def test_a_killed_process_gives_its_lock_back(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert is_held(path)
        process.kill()
    with held(path, "busy"):
        pass


def test_a_folder_is_locked_without_a_trace(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    with held_folder(folder) as ours:
        assert ours is True
        with held_folder(folder) as others:
            assert others is False
        folder.rename(tmp_path / "renamed")
    with held_folder(tmp_path / "renamed") as free, held_folder(folder) as gone, held_folder(tmp_path / "link") as link:
        assert (free, gone, link) == (True, False, False)
    assert not list((tmp_path / "renamed").iterdir())


def test_a_folder_that_was_replaced_before_it_was_locked_is_not_ours(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    flock = locks.fcntl.flock

    def too_late(folder, how):
        (tmp_path / "folder").rename(tmp_path / "old")
        (tmp_path / "folder").mkdir()
        flock(folder, how)

    monkeypatch.setattr(locks.fcntl, "flock", too_late)
    with held_folder(tmp_path / "folder") as ours:
        assert ours is False
