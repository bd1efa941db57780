"""Texts as people have them -> rows: a table with a column of text (CSV, TSV, JSON lines, Parquet), or a folder of .txt.

A row that cannot be used is left out with the reason; it does not stop the others.
"""

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from askless.base.errors import InputError, OptionError, some
from askless.sources.find import Skipped, real_file, walk_files
from askless.sources.image_file import UnreadableError, named_like_image, open_file
from askless.sources.parquet import class_names, named, open_parquet, records
from askless.sources.table import (
    LABEL_NAMES,
    LONGEST,
    MARKS,
    PATH_NAMES,
    SAVE,
    TEXT_NAMES,
    decoded,
    delimiter_of,
    is_text,
    label_text,
)

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


class TextRow(NamedTuple):
    """One text: its id, its label ("" where unknown), and what else its row says."""

    id: str
    text: str
    label: str = ""
    columns: Mapping[str, str] = {}


class TextFile(NamedTuple):
    """`column`: the name of the column of texts. `skipped`: the rows that were left out, by their ids."""

    column: str
    rows: list[TextRow]
    skipped: list[Skipped]


class Record(NamedTuple):
    """A row as it stands in a file: its number, from 1, its values, or why there are none."""

    number: int
    values: Mapping[str, Any]
    reason: str = ""


def read_texts(source: Path, column: str = "", *, label: str = "", encoding: str = "utf-8") -> TextFile:
    """The texts of a table or of all .txt files below a folder.

    `column` names the texts, by default `text`, or the only column that is neither id nor label. `label` names the labels,
    by default a column label, class, category or target, where there is one. Ids are those of a column `id`, else the
    numbers of the rows from 1; of files their paths.
    """
    check_encoding(encoding)
    if source.is_dir():
        return of_folder(source, encoding)
    suffix = source.suffix.lower()
    if not source.exists() or suffix not in TABLES:
        got = "nothing there" if not source.exists() else source.name
        raise InputError(
            f"{source}: expected texts: a file ending in {', '.join(TABLES)}, or a folder of .txt; got {got}"
        )
    if suffix == ".parquet":
        header, found = of_parquet(source)
    else:
        text = decoded(source.read_bytes(), encoding, source)
        header, found = of_lines(source, text) if suffix in (".jsonl", ".ndjson") else of_cells(source, text)
    chosen = text_column(source, header, column, label)
    labels = label or named_column(header, LABEL_NAMES, but=chosen)
    if label and label not in header:
        raise InputError(f"{source}: expected a column {label!r} of labels, got {some(header)}")
    return rows_of(source, found, chosen, labels, encoding)


def check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError):
        raise OptionError(
            f"encoding: expected one that Python knows, such as utf-8 or cp1252, got {encoding!r}"
        ) from None


def holds_texts(path: Path, column: str = "") -> bool:
    """Whether a source is one of texts: a column was named, or it has texts and nothing else that could be meant."""
    suffix = path.suffix.lower()
    if column:
        return True
    if path.is_dir():
        return only_txt(path)
    if not path.is_file() or suffix not in TABLES:
        return False
    if suffix in (".csv", ".tsv"):
        with path.open("rb") as file:
            begin = file.read(2**22)
        encoding = next((encoding for mark, encoding in MARKS if begin.startswith(mark)), "utf-8")
        first = begin.decode(encoding, errors="replace").partition("\n")[0]
        header = {name.strip().strip('"').lower() for name in re.split("[,;\t]", first)}
        return not header & set(PATH_NAMES) and bool(header & set(TEXT_NAMES))
    return True


def only_txt(root: Path) -> bool:
    """Whether there are .txt files below a folder and no images; it stops at the first image."""
    found = False
    for _, below, files in os.walk(root):
        below[:] = [name for name in below if not name.startswith(".")]
        for name in files:
            if name.startswith("."):
                continue
            if named_like_image(Path(name)):
                return False
            found = found or name.lower().endswith(".txt")
    return found


# --- the kinds of files


def of_cells(source: Path, text: str) -> tuple[list[str], Iterator[Record]]:
    """CSV or TSV; the separator is the one of comma, tab and semicolon that the header has most of."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter_of(text))
    try:
        header = [name.strip() for name in next(reader, [])]
    except csv.Error as error:
        raise InputError(f"{source}: expected a CSV file, got one that does not read as such ({error})") from None
    if not header:
        raise InputError(f"{source}: expected a header that names the columns, and rows, got an empty file")
    for name, times in Counter(header).items():
        if times > 1 or not is_text(name):
            raise InputError(f"{source}: expected columns with different names in UTF-8, got {name[:80]!a}; rename it")

    def rows() -> Iterator[Record]:
        number = 0
        while True:
            line, reason = reader.line_num + 1, ""
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # a quote that is never closed makes one endless field
                cells, reason = [], f"line {line} does not read as CSV ({error})"
            if not cells and not reason:
                continue
            number += 1
            if not reason and len(cells) != len(header):
                reason = f"line {line} has {len(cells)} fields and the header {len(header)}; quote texts with commas"
            yield Record(number, {} if reason else dict(zip(header, cells, strict=True)), reason)

    return header, rows()


def of_lines(source: Path, text: str) -> tuple[list[str], Iterator[Record]]:
    """JSON lines; the header is what the first object has."""
    found = []
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            why = error if isinstance(error, ValueError) else "it is nested too deeply"
            found.append(Record(line, {}, f"line {line} is not JSON that can be read ({why})"))
            continue
        is_object = isinstance(values, dict)
        reason = "" if is_object else f"line {line}: expected a JSON object, got {content.strip()[:40]}"
        found.append(Record(line, values if is_object else {}, reason))
    first = next((record.values for record in found if not record.reason), None)
    if first is None:
        reason = f"; the first: {found[0].reason}" if found else ""
        raise InputError(f"{source}: expected a JSON object on each line, got none{reason}")
    return list(first), iter(found)


def of_parquet(source: Path) -> tuple[list[str], Iterator[Record]]:
    """The columns of texts, numbers and truth values; classes of Hugging Face by their names."""
    with open_parquet(source) as table:
        schema = table.schema_arrow
        classes = class_names(schema)
        simple = [field.name for field in schema if is_simple(str(field.type))]
        found = [
            Record(i, {k: named(v, classes[k]) if k in classes else v for k, v in row.items()})
            for i, row in enumerate(records(table, source, simple), 1)
        ]
    return simple, iter(found)


def is_simple(kind: str) -> bool:
    return kind.startswith(
        ("string", "large_string", "int", "uint", "float", "double", "bool", "dictionary<values=string")
    )


def of_folder(root: Path, encoding: str) -> TextFile:
    """All .txt files below a folder, at any depth; hidden ones, and links that leave it, are passed over."""
    found, skipped, _ = walk_files(root, lambda path: path.suffix.lower() == ".txt")
    rows = []
    for file in found:
        try:
            with open_file(real_file(root, file.name)) as opened:
                text = decoded(opened.read(), encoding, root / file.name)
        except (OSError, UnreadableError, InputError) as error:
            skipped.append(Skipped(file.name, "unreadable", str(error)))
            continue
        problem = unusable(text, encoding)
        if problem:
            skipped.append(Skipped(file.name, "unreadable", problem))
        else:
            rows.append(TextRow(file.name, text))
    return TextFile("text", rows, skipped)


# --- columns and rows


def text_column(source: Path, header: Sequence[str], given: str, label: str) -> str:
    if given:
        if given not in header:
            raise InputError(f"{source}: expected a column {given!r} of texts, got {some(header)}")
        return given
    known = named_column(header, TEXT_NAMES)
    if known:
        return known
    others = [name for name in header if name.lower() not in (*LABEL_NAMES, "id", "split") and name != label]
    if len(others) == 1:
        return others[0]
    raise InputError(
        f"{source}: which column has the texts? It has {some(header)}; name one: --text COLUMN on the command line, "
        "column= in Python"
    )


def named_column(header: Sequence[str], names: tuple[str, ...], but: str = "") -> str:
    """The first column that has one of the names, in their order; "" where none has."""
    return next((c for name in names for c in header if c.lower() == name and c != but), "")


def rows_of(source: Path, found: Iterator[Record], column: str, label: str, encoding: str) -> TextFile:
    rows, skipped = [], []
    first: dict[str, int] = {}  # id -> the number of its row
    for number, values, reason in found:
        try:
            plain = {name: as_text(value) for name, value in values.items() if isinstance(name, str)}
            said = label_text(values.get(label)) if label else ""
        except RecursionError:
            plain, said, reason = {}, "", "a value in another column is nested too deeply"
        own = next((plain[name].strip() for name in plain if name.lower() == "id"), "")
        key = own if own and is_text(own) else str(number)
        text = values.get(column)
        if not reason and not isinstance(text, str):
            reason = "no text" if text is None else f"expected a text in {column}, got {as_text(text)[:40]}"
        reason = reason or unusable(text, encoding)
        if not reason and not all(is_text(name) and is_text(value) for name, value in plain.items()):
            reason = f"a value in another column is not valid {encoding}; {SAVE}"
        if reason:
            skipped.append(Skipped(key, "unreadable", reason))
            continue
        if key in first:
            raise InputError(
                f"{source}: expected each id once, got {key[:80]!r} in rows {first[key]} and {number}; correct one, "
                "or rename the column, and the rows' numbers are taken"
            )
        first[key] = number
        more = {name: value for name, value in plain.items() if name not in (column, label)}
        rows.append(TextRow(key, str(text), said, more))
    return TextFile(column, rows, skipped)


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def unusable(text: Any, encoding: str) -> str:
    """Why a text cannot be labelled; "" where it can."""
    if not is_text(text):
        return f"not valid {encoding}; {SAVE}"
    if not text.strip():
        return "an empty text"
    if len(text) > LONGEST:
        return f"{len(text):,} characters; at most {LONGEST:,} can be shown; cut it into parts"
    return ""


def same_text(text: str) -> str:
    """A spelling that texts share which differ in blanks and capitals only."""
    return " ".join(text.split()).casefold()


def excerpt(text: str, most: int = 280) -> str:
    """The beginning of a text in one line.

    >>> excerpt("one\\n two  three", 9)
    'one two …'
    """
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 2].rstrip() + " …"
