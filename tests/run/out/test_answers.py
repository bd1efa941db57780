"""Labels of other people, in their tables, arrays and folders."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from askless.base.errors import InputError
from askless.run.out.answers import LabelRow, read_answers


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "path,label\na.png,cat\nb.png,\n"),
        ("a.csv", "\ufeffFile_Name ; Category\na.png ; cat\nb.png;\n"),
        ("a.tsv", "image\ttarget\na.png\tcat\n"),
        ("a.jsonl", '{"path": "a.png", "label": "cat"}\n\n{"path": "b.png", "label": null}\n'),
        ("a.jsonl", '{"file_name": "a.png", "class": "cat", "other": [1]}\n'),
    ],
)
def test_tables_of_other_people(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_answers(tmp_path / name) == [LabelRow("a.png", "cat")]


def test_status_and_annotator_of_other_tables(tmp_path):
    (tmp_path / "a.csv").write_text("path,label,status,annotator\na,cat,done,bo\nb,,unsure,bo\nc,dog,pseudo,\n")
    assert read_answers(tmp_path / "a.csv") == [
        LabelRow("a", "cat", annotator="bo"),
        LabelRow("b", "", "unsure", annotator="bo"),
    ]


def test_npz_of_other_people(tmp_path):
    np.savez(tmp_path / "a.npz", y=np.array([1, -1, 0]), classes=np.array(["cat", "dog"]))
    assert read_answers(tmp_path / "a.npz") == [LabelRow("0", "dog"), LabelRow("2", "cat")]
    np.savez(tmp_path / "b.npz", y=np.array(["cat", ""]), ids=np.array(["x", "y"]))
    assert read_answers(tmp_path / "b.npz") == [LabelRow("x", "cat")]


def test_class_folders_of_other_people(tmp_path):
    for name in ("cat/a.png", "cat/deep/b.png", "dog/c.jpg", "loose.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert read_answers(tmp_path) == [
        LabelRow("cat/a.png", "cat"), LabelRow("cat/deep/b.png", "cat"), LabelRow("dog/c.jpg", "dog")]  # fmt: skip


def pickled(path: Path):
    np.savez(path, y=np.array([{}], dtype=object))


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("no.csv", lambda p: None, "nothing there"),
        ("a.xlsx", lambda p: p.write_text("x"), "expected a .csv"),
        ("a.csv", lambda p: p.write_text("name,label\na,b\n"), "expected a column path or file_name"),
        ("a.csv", lambda p: p.write_text("path,label\n,b\n"), "an image in every row"),
        ("a.csv", lambda p: p.write_bytes(b"path,label\n\xff,b\n"), "UTF-8"),
        ("a.jsonl", lambda p: p.write_text("{"), "line 1 is not valid JSON"),
        ("a.jsonl", lambda p: p.write_text("[1]"), "JSON object"),
        ("a.npz", pickled, "expected an .npz file of plain arrays, got another"),
        ("a.npz", lambda p: p.write_bytes(b"PK no"), "expected an .npz file of plain arrays, got another"),
        ("a.npz", lambda p: np.savez(p, y=np.array([3]), classes=np.array(["a"])), "name of each"),
        ("a.npz", lambda p: np.savez(p, x=np.array([3])), "array y"),
        ("folder", lambda p: p.mkdir(), "folder of images for each class"),
    ],
)
def test_what_import_refuses(tmp_path, name, make, said):
    make(tmp_path / name)
    with pytest.raises(InputError, match=said):
        read_answers(tmp_path / name)


def test_answers_beside_long_texts_are_read(tmp_path):
    """As an export of a run on texts has them."""
    (tmp_path / "a.csv").write_text(f"path,label,text\na,x,{'z' * 400_000}\n")
    assert [answer.label for answer in read_answers(tmp_path / "a.csv")] == ["x"]
    (tmp_path / "a.jsonl").write_text("[" * 100_000)
    with pytest.raises(InputError, match="expected a JSON object on each line, got none; the first: line 1 is not"):
        read_answers(tmp_path / "a.jsonl")


def test_json_in_json_is_refused_or_read(tmp_path):
    for n in range(900, 1000, 5):  # some of these parse, and are not written again
        deep = "[" * n + "]" * n
        (tmp_path / "a.jsonl").write_text(f'{{"path": "a.png", "label": {deep}}}\n')
        with suppress(InputError):
            assert read_answers(tmp_path / "a.jsonl")[0].label == deep
