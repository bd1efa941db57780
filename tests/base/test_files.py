import errno
import hashlib
import json
import os

import pytest

from askless.base import files
from askless.base.errors import InputError, OptionError
from askless.base.files import (
    FILES,
    damage_of_files,
    free_folder,
    in_full,
    put_aside,
    restore_folder,
    sync,
    whole_file,
    whole_folder,
    write_whole,
)


def test_a_file_is_written_whole_and_folders_are_made(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    write_whole(path, lambda file: file.write(b"one"))
    write_whole(path, lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_failure_on_the_way_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def half(file):
        file.write(b"ha")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        write_whole(path, half)
    assert path.read_bytes() == b"before"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_left_is_cleared_at_a_write_a_day_later(tmp_path):
    """By age alone: whoever writes in another container cannot be seen from here."""
    stay = [".a.csv.7-0123abcd.part", ".a.csv.part", "a.part", ".a.csv.7-0123abcd.part.png", "b.csv"]
    go = [".b b.7-00000000.part", ".a.csv.99999999-0123abcd.part"]
    for name in (*stay, *go):
        (tmp_path / name).write_text("x")
    (tmp_path / ".folder.7-0123abcd.part").mkdir()
    (tmp_path / ".folder.7-0123abcd.part" / "inside").touch()
    for name in (*stay[1:], *go, ".folder.7-0123abcd.part"):
        os.utime(tmp_path / name, (0, 0))
    write_whole(tmp_path / "a.csv", lambda file: file.write(b"new"))
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*stay, "a.csv"])
    (tmp_path / go[0]).touch()
    os.utime(tmp_path / go[0], (0, 0))
    write_whole(tmp_path / "a.csv", lambda file: file.write(b"new"))  # a process looks once, for folders may be large
    assert (tmp_path / go[0]).exists()


def test_a_name_as_long_as_the_disk_takes_is_written_and_an_error_names_it(tmp_path):
    path = tmp_path / ("ü" * 120)
    write_whole(path, lambda file: file.write(b"x"))
    assert path.read_bytes() == b"x"
    with pytest.raises(OSError, match="x" * 300) as error:
        write_whole(tmp_path / ("x" * 300), lambda file: file.write(b"x"))
    assert error.value.errno == errno.ENAMETOOLONG
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_an_error_on_the_way_names_the_file_that_was_meant(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space")

    with pytest.raises(OSError, match="no space") as error, whole_file(tmp_path / "a.csv"):
        full()
    assert error.value.filename == str(tmp_path / "a.csv")
    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="no space") as error, whole_file(tmp_path / "a.csv") as file:
        file.write(b"x")
    assert error.value.filename == str(tmp_path / "a.csv")
    with pytest.raises(OSError, match="No such file") as error, whole_folder(tmp_path / "out") as beside:
        (beside / "none" / "x").write_text("x")
    assert error.value.filename == str(tmp_path / "out" / "none" / "x")


def test_the_folder_of_a_net_is_named_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hf" / "bert").mkdir(parents=True)
    for start in ("", "frozen:"):
        for folder in ("hf/bert", "./hf/bert", str(tmp_path / "hf" / "bert")):
            assert in_full(f"{start}hf/{folder}") == f"{start}hf/{tmp_path / 'hf' / 'bert'}"
    for net in ("frozen:hf/google/bert", "frozen:hf/", "hf", "frozen:timm/hf/bert", "small-cnn"):
        assert in_full(net) == net


def test_a_folder_takes_anothers_place_and_nobody_elses_is_touched(tmp_path):
    (tmp_path / ".out.old").mkdir()
    (tmp_path / ".out.old" / "mine").touch()
    for content in ("one", "two"):
        with whole_folder(tmp_path / "out") as place:
            (place / content).touch()
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")) == [
        *(".out.old", ".out.old/mine"),
        *("out", "out/two"),
    ]


def test_files_and_folders_are_synced_before_and_after_they_are_replaced(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: done.append(os.fstat(file).st_ino) or fsync(file))
    monkeypatch.setattr(os, "replace", lambda old, new: done.append("replaced") or replace(old, new))
    (tmp_path / "elsewhere").write_bytes(b"")
    with whole_folder(tmp_path / "out") as place:
        (place / "inner").mkdir()
        (place / "inner" / "file").write_bytes(b"content")
        (place / "link").symlink_to(tmp_path / "elsewhere")
    out = tmp_path / "out"
    inodes = [path.stat().st_ino for path in (out, out / "inner", out / "inner" / "file")]
    assert sorted(done[:3]) == sorted(inodes)
    assert done[3:] == ["replaced", tmp_path.stat().st_ino]
    done.clear()
    write_whole(tmp_path / "file", lambda file: file.write(b"x"))
    assert done == [(tmp_path / "file").stat().st_ino, "replaced", tmp_path.stat().st_ino]


def test_a_file_system_that_does_not_sync_folders_is_no_error_but_a_file_that_is_not_synced_is(tmp_path, monkeypatch):
    def fail(file):
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "fsync", fail)
    sync(tmp_path)
    with pytest.raises(OSError, match="Input/output"):
        sync(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        sync(tmp_path / "none")


def test_a_folder_comes_back_when_a_kill_left_it_aside(tmp_path):
    final = tmp_path / "model"
    final.mkdir()
    final.rename(put_aside(final))
    restore_folder(final)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_only_an_earlier_export_is_replaced(tmp_path):
    out = tmp_path / "out"
    assert free_folder(out, False, ("mark",)) == out
    out.mkdir()
    assert free_folder(out, False, ("mark",)) == out  # empty
    (out / "diary.txt").write_text("dear")
    with pytest.raises(OptionError, match="got a folder with files; pass overwrite"):
        free_folder(out, False, ("mark",))
    with pytest.raises(InputError, match=r"got a folder with other files \(without mark\)"):
        free_folder(out, True, ("mark",))
    (out / "mark").write_text("")
    assert free_folder(out, True, ("mark",)) == out
    with pytest.raises(InputError, match="got a file"):
        free_folder(out / "mark", True, ())


def test_files_that_changed_since_they_were_listed_are_told(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("one")
    assert damage_of_files(tmp_path) is None  # nothing is listed
    assert damage_of_files(tmp_path, ("b.txt",)) == f"{tmp_path / 'b.txt'} is missing"
    digest = hashlib.sha256(b"one").hexdigest()
    (tmp_path / FILES).write_text(json.dumps({"a.txt": [3, digest]}))
    assert damage_of_files(tmp_path) is None
    file.write_text("two")
    assert damage_of_files(tmp_path) == f"{file} cannot be read: its content has changed"
    (tmp_path / FILES).write_text("[")
    assert str(tmp_path / FILES) in damage_of_files(tmp_path)
