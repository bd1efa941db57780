import os

import pytest

from askless.sources.find import (
    OutsideError,
    is_inside,
    real_file,
    walk_images,
)
from askless.sources.items import Skipped
from askless.sources.names import printable


def write(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_files_named_like_images_are_found_with_their_sizes(tmp_path):
    for name, content in [
        ("b.PNG", b"12"),
        ("a/c.jpeg", b"123"),
        ("a/notes.txt", b"1"),
        (".h.png", b"1"),
        (".d/a.png", b"1"),
    ]:
        write(tmp_path / name, content)
    write(tmp_path / "folder.png" / "x.gif", b"")
    found, left_out, marked = walk_images(tmp_path)
    assert [(file.id, file.size) for file in found] == [("a/c.jpeg", 3), ("b.PNG", 2), ("folder.png/x.gif", 0)]
    assert [file.content for file in found] == [os.path.join(os.path.realpath(tmp_path), file.id) for file in found]
    assert (left_out, marked) == ([], [])


def test_folders_with_the_marker_are_passed_over(tmp_path):
    for name in ("a.png", "run/b.png", "run/deep/c.png", "run/mark", "x/run2/mark", "x/d.png"):
        write(tmp_path / name)
    found, _, marked = walk_images(tmp_path, marker="mark")
    assert [file.id for file in found] == ["a.png", "x/d.png"]
    assert marked == ["run", "x/run2"]
    assert len(walk_images(tmp_path)[0]) == 4


def test_a_folder_that_cannot_be_listed_is_told(tmp_path, monkeypatch):
    write(tmp_path / "a.png")
    write(tmp_path / "locked" / "b.png")
    scandir = os.scandir

    def refusing(path):
        if str(path).rstrip("/").endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found, left_out, _ = walk_images(tmp_path)
    assert [file.id for file in found] == ["a.png"]
    assert left_out == [Skipped("locked/", "unreadable", "cannot be listed (Permission denied)")]


def test_rings_of_links_end(tmp_path):
    write(tmp_path / "a" / "x.png")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "self.png").symlink_to(tmp_path / "self.png")
    found, left_out, _ = walk_images(tmp_path, follow_links=True)
    assert [file.id for file in found] == ["a/x.png"]
    assert [s.path for s in left_out] == ["self.png"]


@pytest.mark.parametrize("name", ["../secret.png", "out.png", "way/secret.png", "sub/../../secret.png"])
def test_a_path_that_leaves_the_folder_is_refused_unless_allowed(tmp_path, name):
    root = tmp_path / "root"
    write(root / "sub" / "a.png")
    write(tmp_path / "secret.png")
    (root / "out.png").symlink_to(tmp_path / "secret.png")
    (root / "way").symlink_to(tmp_path)
    assert real_file(root, "sub/../sub/a.png") == str(root / "sub" / "a.png")
    with pytest.raises(OutsideError, match="it leads outside the folder"):
        real_file(root, name)
    assert real_file(root, name, follow_links=True) == str(tmp_path / "secret.png")


def test_a_folder_whose_name_begins_alike_is_outside():
    assert is_inside("/a/b/c", "/a/b")
    assert not is_inside("/a/bc", "/a/b")
    assert is_inside("/x", "/")


def test_names_that_are_no_text_can_be_printed():
    assert printable("é\n.png") == "é\n.png"
    assert printable(os.fsdecode(b"\xff.png")) == r"'\udcff.png'"
