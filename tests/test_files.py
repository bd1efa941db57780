import pytest

from askless.files import write_whole


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
