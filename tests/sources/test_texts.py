"""Texts of tables and folders, and what is said of those that cannot be read."""

import json
import time
from functools import partial
from typing import NamedTuple

import pytest

from askless.base.errors import InputError, OptionError
from askless.sources import read_texts
from askless.sources.table import whole_table
from askless.sources.texts import LONGEST, excerpt, holds_texts, same_text


class Texts(NamedTuple):
    column: str
    rows: list
    skipped: list


def texts(*args, **options):
    """All of a source."""
    source = read_texts(*args, **options)
    return Texts(source.column, *source.read())


def test_a_csv_with_a_byte_order_mark_quotes_and_lines_in_a_field(tmp_path):
    table = tmp_path / "t.csv"
    table.write_bytes('\ufeffid;text;label;source\na;"one; ""two""\nthree";pos;web\nb;grün;;\n'.encode())
    found = texts(table)
    assert found.column == "text"
    assert [row[:3] for row in found.rows] == [("a", 'one; "two"\nthree', "pos"), ("b", "grün", "")]
    assert found.rows[0].columns == {"id": "a", "source": "web"}
    assert found.skipped == []


def test_rows_that_cannot_be_used_are_listed_and_the_others_stay(tmp_path):
    table = tmp_path / "t.csv"
    long = "x" * (LONGEST + 1)
    lines = [b"text,n", b"first,1", b"a,b,c", b"   ,3", b"caf\xe9,4", b"last,5"]
    table.write_bytes(b"\n".join(lines) + b"\n")
    found = texts(table)
    assert [(row.id, row.content) for row in found.rows] == [("1", "first"), ("5", "last")]
    assert [s.path for s in found.skipped] == ["2", "3", "4"]
    reasons = [s.reason for s in found.skipped]
    assert reasons[0] == "line 3 has 3 fields and the header 2; quote cells that contain commas"
    assert reasons[1] == "an empty text"
    assert reasons[2].startswith("not valid utf-8; save the file as UTF-8, or pass its encoding, for example cp1252")
    assert [row.content for row in texts(table, encoding="cp1252").rows] == ["first", "café", "last"]
    lines_file = tmp_path / "t.jsonl"
    lines_file.write_text(json.dumps({"text": long}) + '\n{"text": "ok"}\n[1]\n{"text": 5}\n{"text": null}\n{bad\n')
    found = texts(lines_file)
    assert [row.id for row in found.rows] == ["2"]
    assert [s.path for s in found.skipped] == ["1", "3", "4", "5", "6"]
    assert "split it" in found.skipped[0].reason
    assert found.skipped[3].reason == "no text"


def test_utf_16_is_read_by_its_mark(tmp_path):
    (tmp_path / "t.csv").write_text("text\nétoile\n", encoding="utf-16")
    assert [row.content for row in texts(tmp_path / "t.csv").rows] == ["étoile"]


def test_a_field_that_never_ends_costs_its_row_only(tmp_path):
    (tmp_path / "t.csv").write_text('text,n\nfirst,1\n"' + "y" * 600_000 + '",2\nlast,3\n')
    found = texts(tmp_path / "t.csv")
    assert [row.content for row in found.rows] == ["first", "last"]
    assert "is not valid CSV" in found.skipped[0].reason


def test_a_csv_holds_texts_as_long_as_promised(tmp_path):
    lengths = (131_073, LONGEST, LONGEST + 1)
    (tmp_path / "t.csv").write_text("text,n\n" + "".join(f"{'z' * n},{n}\n" for n in lengths) + "last,0\n")
    found = texts(tmp_path / "t.csv")
    assert [len(row.content) for row in found.rows] == [131_073, LONGEST, 4]
    assert [s.reason for s in found.skipped] == ["line 4 is not valid CSV (field larger than field limit (500000))"]
    (tmp_path / "t.csv").write_text(f"path,notes\na.png,{'z' * 200_000}\n")
    assert len(whole_table(tmp_path / "t.csv")[1][0]["notes"]) == 200_000


def test_json_in_json_costs_its_line_only(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    edge = [
        '{"text": "edge", "label": ' + "[" * n + "]" * n + "}" for n in range(900, 1000)
    ]  # parses, but is not written
    lines = ['{"text": "first"}', deep, f'{{"text": "b", "more": {deep}}}', *edge, '{"text": "last"}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    found = texts(tmp_path / "t.jsonl")
    assert found.rows[0].content == "first"
    assert found.rows[-1].content == "last"
    assert found.skipped[0].reason == "line 2 is not valid JSON (it is nested too deeply)"
    assert found.skipped[1].path == "3"
    assert len(found.rows) + len(found.skipped) == len(lines)


def test_json_in_the_notes_of_a_parquet_file_costs_the_names_only(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"text": ["a"], "label": [1]}).replace_schema_metadata({"huggingface": "[" * 100_000})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert [row[:3] for row in texts(tmp_path / "t.parquet").rows] == [("1", "a", "1")]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_asked_for(tmp_path, encoding):
    content = "text,label\nétoile,x\n".encode(encoding)
    (tmp_path / "t.csv").write_bytes(content)
    for read in (read_texts, whole_table):
        with pytest.raises(
            InputError,
            match=r"in utf-8, got null characters, as in UTF-16 without a byte order mark; .* utf-16-le \(--encoding",
        ):
            read(tmp_path / "t.csv")
    assert [row.content for row in texts(tmp_path / "t.csv", encoding=encoding).rows] == ["étoile"]


def test_utf_32_is_refused_without_a_word_of_missing_marks(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\nétoile,x\n", encoding="utf-32")
    told = "in utf-16, as its byte order mark says, got null characters; save the file as UTF-8$"
    for read in (read_texts, whole_table, partial(read_texts, encoding="utf-32")):
        with pytest.raises(InputError, match=told):
            read(tmp_path / "t.csv")


def test_utf_16_with_a_mark_is_read_everywhere(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\nétoile,x\n", encoding="utf-16")
    assert holds_texts(tmp_path / "t.csv")
    assert whole_table(tmp_path / "t.csv")[1] == [{"text": "étoile", "label": "x"}]
    (tmp_path / "cut.csv").write_bytes((tmp_path / "t.csv").read_bytes()[:-1])
    with pytest.raises(
        InputError, match="expected text in utf-16, got something else; save the file as UTF-8, or pass"
    ):
        texts(tmp_path / "cut.csv")


def test_forty_thousand_columns_take_a_moment_and_are_not_all_named(tmp_path):
    names = [f"c{i}" for i in range(40_000)]
    (tmp_path / "t.csv").write_text(f"{','.join(names)}\n{','.join(names)}\n")
    begun = time.process_time()
    assert len(texts(tmp_path / "t.csv", "c7").rows[0].columns) == 39_999
    few = "c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 and 39,990 more"
    for column, message in (
        ("", rf"which column has the texts\? It has {few}; pass one"),
        ("d", f"of texts, got {few}; choose one of these$"),
    ):
        with pytest.raises(InputError, match=message):
            texts(tmp_path / "t.csv", column)
    assert time.process_time() - begun < 10  # comparing each with each took a minute


def test_the_column_is_found_or_asked_for(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("id,review,label\n7,good,pos\n")
    assert texts(table).column == "review"
    table.write_text("title,review\na,good\n")
    with pytest.raises(InputError, match=r"which column has the texts\? It has title, review; pass one: --text"):
        texts(table)
    assert texts(table, "review").rows[0].columns == {"title": "a"}
    with pytest.raises(InputError, match="expected a column 'body' of texts, got title, review"):
        texts(table, "body")
    with pytest.raises(InputError, match="expected a column 'stars' of labels"):
        texts(table, "review", label="stars")
    assert texts(table, "review", label="title").rows[0].label == "a"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a header"),
        ("text,text\na,b\n", "expected columns with different names"),
        ("id,text\n1,a\n1,b\n", "expected each id once, got '1' in rows 1 and 2"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, content, message):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        texts(tmp_path / "t.csv")


def test_an_unknown_encoding_and_an_absent_file(tmp_path):
    with pytest.raises(OptionError, match="such as utf-8 or cp1252, got 'klingon'"):
        texts(tmp_path, encoding="klingon")
    with pytest.raises(InputError, match="found nothing there"):
        texts(tmp_path / "absent.csv")


def test_a_folder_of_txt_files_at_any_depth(tmp_path):
    (tmp_path / "pos").mkdir()
    (tmp_path / "pos" / "a.txt").write_text("good\n")
    (tmp_path / "b.TXT").write_bytes(b"\xff\xfe\xff")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "notes.md").write_text("no")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "out.txt").symlink_to("/etc/hostname")
    found = texts(tmp_path)
    assert [(row.id, row.content) for row in found.rows] == [("pos/a.txt", "good\n")]
    assert {s.path: s.problem for s in found.skipped} == {
        "b.TXT": "unreadable",
        "empty.txt": "unreadable",
        "out.txt": "outside",
    }


def test_parquet_with_classes_of_hugging_face(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = {"info": {"features": {"label": {"names": ["neg", "pos"], "_type": "ClassLabel"}}}}
    table = arrow.table({"text": ["a", None, "c"], "label": [1, 0, -1], "vector": [[1.0], [2.0], [3.0]]})
    table = table.replace_schema_metadata({"huggingface": json.dumps(names)})
    parquet.write_table(table, tmp_path / "t.parquet")
    found = texts(tmp_path / "t.parquet")
    assert [row[:3] for row in found.rows] == [("1", "a", "pos"), ("3", "c", "")]
    assert [s.path for s in found.skipped] == ["2"]
    assert holds_texts(tmp_path / "t.parquet")


def test_what_holds_texts(tmp_path):
    for name, content in (("path.csv", "path,text\n"), ("text.csv", '"Text";label\n'), ("other.csv", "review\n")):
        (tmp_path / name).write_text(content)
    assert [holds_texts(tmp_path / f"{n}.csv") for n in ("path", "text", "other")] == [False, True, False]
    assert holds_texts(tmp_path / "other.csv", "review")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    assert holds_texts(folder)
    (folder / "b.png").write_bytes(b"")
    assert not holds_texts(folder)


def test_texts_that_are_the_same_to_a_reader():
    assert same_text(" Good\n  day ") == same_text("good DAY")
    assert same_text("good day") != same_text("goodday")
    assert len(excerpt("word " * 1000)) <= 280


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_label_of_minus_one_or_nan_is_unknown(tmp_path, kind):
    labels = [0, 1, -1, None]
    if kind == "jsonl":
        lines = [json.dumps({"text": f"text {i}", "label": y}) for i, y in enumerate(labels)]
        (tmp_path / "t.jsonl").write_text("\n".join(lines))
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        numbers = [float("nan") if y is None else float(y) for y in labels]
        pq.write_table(pa.table({"text": [f"text {i}" for i in range(4)], "label": numbers}), tmp_path / "t.parquet")
    assert [row.label for row in texts(tmp_path / f"t.{kind}").rows] == ["0", "1", "", ""]
