import pytest

from askless.files import in_full, put_aside, restore_folder, whole_folder, write_whole


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


def test_a_folder_comes_back_when_a_kill_left_it_aside(tmp_path):
    final = tmp_path / "model"
    final.mkdir()
    final.rename(put_aside(final))
    restore_folder(final)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
