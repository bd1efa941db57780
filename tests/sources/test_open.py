"""One way in: whatever a user points at gives items, and what was skipped and why."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from askless.base.errors import InputError
from askless.sources import Item, Skipped, open_source
from askless.sources.open import format_of


def png(side: int = 4) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (side, side)).save(out, "PNG")
    return out.getvalue()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def a_folder(at):
    for name in ("train/cat/a.png", "train/dog/b.png", "test/cat/c.png", "train/cat/notes.heic"):
        write(at / name, png())
    return at


def a_described_folder(at):
    write(at / "train" / "a.png", png())
    write(at / "train" / "metadata.jsonl", '{"file_name": "a.png", "label": "cat"}\n{"file_name": "no.png"}\n')
    return at


def a_manifest(at):
    write(at / "a.png", png())
    return write(at / "list.csv", "path,label,split,camera\na.png,cat,,left\nno.png,,test,\n")


def a_table_of_texts(at):
    return write(at / "t.jsonl", '{"id": "a", "text": "one", "label": "cat"}\n{"text": null}\n')


def a_folder_of_texts(at):
    write(at / "cat" / "a.txt", "one")
    write(at / "dog" / "b.txt", "")
    return at


def a_file_of_arrays(at):
    np.savez(
        at / "a.npz", X=np.ones((2, 3)), y=np.array([1, -1]), ids=np.array(["a", "b"]), classes=np.array(["x", "cat"])
    )
    return at / "a.npz"


def a_tar(at):
    with tarfile.open(at / "a.tar", "w") as tar:
        for name, content in (("a.png", png()), ("a.cls", b"cat")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return at / "a.tar"


def a_parquet_file(at):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"v": [[1.0, 2.0], None], "id": ["a", "b"], "label": ["cat", ""]}), at / "a.parquet")
    return at / "a.parquet"


EVERY = {
    a_folder: ("folder", "files", "train/cat/a.png", "unreadable"),
    a_described_folder: ("described", "files", "train/a.png", "missing"),
    a_manifest: ("listed", "files", "a.png", "missing"),
    a_table_of_texts: ("texts", "texts", "a", "unreadable"),
    a_folder_of_texts: ("texts", "texts", "cat/a.txt", "unreadable"),
    a_file_of_arrays: ("arrays", "features", "a", ""),
    a_tar: ("tar", "encoded", "a", ""),
    a_parquet_file: ("arrow", "features", "a", "unreadable"),
}


@pytest.mark.parametrize("make", EVERY)
def test_every_kind_of_source_gives_items_and_what_was_skipped(tmp_path, make):
    found, kind, own, problem = EVERY[make]
    path = make(tmp_path)
    assert format_of(path) == found
    by_folders = make in (a_folder, a_folder_of_texts)
    source = open_source(path, labels_from_folders=by_folders)
    items, skipped = source.read()
    assert source.kind == kind
    first = next(item for item in items if item.id == own)
    assert first.label == "cat"
    assert {s.problem for s in skipped} == ({problem} if problem else set())
    assert all(isinstance(item, Item) for item in items)
    assert all(isinstance(each, Skipped) and each.reason for each in skipped)


def test_items_have_their_content_split_and_columns(tmp_path):
    assert Path(open_source(a_manifest(tmp_path)).read()[0][0].content).read_bytes() == png()
    assert open_source(tmp_path / "list.csv").read()[0][0].columns == {"split": "", "camera": "left"}
    source = open_source(a_folder(tmp_path / "f"), labels_from_folders=True)
    assert (source.test, {item.split for item in source.read()[0]}) == ("test", {"train", "test"})
    assert open_source(a_tar(tmp_path)).read()[0][0].content == png()
    arrays = open_source(a_file_of_arrays(tmp_path))
    assert arrays.array[arrays.read()[0][1].content].tolist() == [1, 1, 1]


def test_a_caller_gets_only_what_it_can_use(tmp_path):
    described = a_described_folder(tmp_path / "d")
    assert open_source(described, formats=("folder", "texts")).read()[0][0].label == ""
    with pytest.raises(InputError, match=r"expected a folder of images or .txt files, or a file ending in .csv, .tsv"):
        open_source(a_tar(tmp_path), formats=("folder", "listed"))
    with pytest.raises(InputError, match="found nothing there"):
        open_source(tmp_path / "absent")


def test_contents_are_read_as_they_are_asked_for(tmp_path):
    for i in range(3):
        write(tmp_path / f"{i}.txt", f"text {i}")
    found = iter(open_source(tmp_path).found)
    assert next(found).content == "text 0"
    (tmp_path / "2.txt").unlink()
    assert [type(each) for each in found] == [Item, Skipped]


def test_sources_are_opened_without_torch():
    code = "import sys, askless.sources.open; sys.exit('torch' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
