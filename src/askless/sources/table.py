"""Tables as people have them, CSV, TSV, JSON lines and Parquet -> rows; and the image files that a table lists."""

import csv
import json
import os
import posixpath
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from askless.base.errors import InputError, some
from askless.sources.arrow import parquet_records
from askless.sources.find import ALLOW, is_inside
from askless.sources.items import Item, Skipped, Source
from askless.sources.names import PATH_NAMES, is_text, label_column, label_text, pick_column

LONGEST = 500_000  # characters: nobody labels a longer text, and no page shows it
MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
SAVE = "save the file as UTF-8, or pass its encoding, for example cp1252 (--encoding on the command line)"


class Row(NamedTuple):
    """A row as it stands in a file: its number, from 1, its values, or why there are none."""

    number: int
    values: Mapping[str, Any]
    reason: str = ""


def open_table(file: Path, encoding: str = "utf-8") -> tuple[list[str], Iterator[Row]]:
    """The header and the rows of a file, by its suffix; a row that cannot be read says so and does not stop the others."""
    suffix = file.suffix.lower()
    if suffix == ".parquet":
        header, records = parquet_records(file)
        return header, (Row(i, values) for i, values in enumerate(records, 1))
    try:
        text = decoded(file.read_bytes(), encoding, file)
    except FileNotFoundError:
        raise InputError(f"{file}: expected a CSV file with the columns path and label, found nothing there") from None
    return of_lines(file, text) if suffix in (".jsonl", ".ndjson") else of_cells(file, text)


def whole_table(file: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The header and all rows, lists and objects in them as text; an error at the first row that cannot be read."""
    header, rows = open_table(file)
    found = []
    for number, values, reason in rows:
        if reason:
            raise InputError(f"{file}: {reason}")
        try:
            row = {name: as_text(value) if isinstance(value, list | dict) else value for name, value in values.items()}
        except RecursionError:
            raise InputError(f"{file}: a value in row {number} is nested too deeply; write it as text") from None
        if not all(is_text(each) for each in (*row, *row.values()) if isinstance(each, str)):
            raise InputError(f"{file}: expected UTF-8 text, got something else; save it as UTF-8")
        found.append(row)
    return header, found


def decoded(content: bytes, encoding: str, source: Path) -> str:
    """The text of a file; what does not decode stays as single bytes in it, by which the rows that have any are known. A
    mark at its beginning says UTF-8 or UTF-16, whatever `encoding` is."""
    marked = next((marked for mark, marked in MARKS if content.startswith(mark)), None)
    encoding = marked or encoding
    try:
        text = content.decode(encoding, errors="strict" if encoding.startswith("utf-16") else "surrogateescape")
    except UnicodeError:
        raise InputError(f"{source}: expected text in {encoding}, got something else; {SAVE}") from None
    if "\0" in text[:1000].partition("\n")[0]:
        if marked:  # as in UTF-32, whose mark begins like that of UTF-16
            raise InputError(
                f"{source}: expected text in {marked}, as its byte order mark says, got null characters; save the file "
                "as UTF-8"
            )
        raise InputError(
            f"{source}: expected text in {encoding}, got null characters, as in UTF-16 without a byte order mark; save the "
            "file as UTF-8, or pass its encoding, for example utf-16-le (--encoding on the command line)"
        )
    return text


def of_cells(source: Path, text: str) -> tuple[list[str], Iterator[Row]]:
    """CSV or TSV; the separator is the one of comma, tab and semicolon that the header has most of."""
    if csv.field_size_limit() < LONGEST:  # one number for the whole process, 131,072 at first: only ever raised
        csv.field_size_limit(LONGEST)
    reader = csv.reader(StringIO(text, newline=""), delimiter=max(",\t;", key=text.partition("\n")[0].count))
    try:
        names = next(reader, [])
    except csv.Error as error:
        raise InputError(f"{source}: expected a CSV file, got one that cannot be parsed ({error})") from None
    if not names:
        raise InputError(f"{source}: expected a header with column names, and rows, got an empty file")
    for name, times in Counter(names).items():
        if times > 1 or not is_text(name):
            raise InputError(f"{source}: expected columns with different names in UTF-8, got {name[:80]!a}; rename it")
    header = [name.strip() for name in names]

    def rows() -> Iterator[Row]:
        number = 0
        while True:
            line, reason = reader.line_num + 1, ""
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # a quote that is never closed makes one endless field
                cells, reason = [], f"line {line} is not valid CSV ({error})"
            if not cells and not reason:
                continue
            number += 1
            if not reason and len(cells) != len(header):
                reason = (
                    f"line {line} has {len(cells)} fields and the header {len(header)}; quote cells that contain commas"
                )
            yield Row(number, {} if reason else dict(zip(header, cells, strict=True)), reason)

    return header, rows()


def of_lines(source: Path, text: str) -> tuple[list[str], Iterator[Row]]:
    """JSON lines; the header is what the first object has."""
    found = []
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            why = error if isinstance(error, ValueError) else "it is nested too deeply"
            found.append(Row(line, {}, f"line {line} is not valid JSON ({why})"))
            continue
        is_object = isinstance(values, dict)
        reason = "" if is_object else f"line {line}: expected a JSON object, got {content.strip()[:40]}"
        found.append(Row(line, values if is_object else {}, reason))
    first = next((row.values for row in found if not row.reason), None)
    if first is None:
        reason = f"; the first: {found[0].reason}" if found else ""
        raise InputError(f"{source}: expected a JSON object on each line, got none{reason}")
    return list(first), iter(found)


# --- the image files that a table lists


def listed_images(
    table: Path, label: str = "", follow_links: bool = False, root: Path | None = None, split: str = ""
) -> Source:
    """The files that a table lists, relative to it, in its order; its further columns are kept. Ids are relative to `root`,
    by default the table's folder. `split` is that of all rows, by default what their column `split` says."""
    header, rows = whole_table(table)
    if not rows:
        raise InputError(f"{table}: expected a header and at least one row, got {some(header)} and no row")
    # Hugging Face's metadata name files by `file_name`; a column `path` beside it, as our export has, is something else.
    path_column = pick_column(header, PATH_NAMES if root is None else ("file_name", *PATH_NAMES), table)
    labels = label_column(header, table, label)
    others = [column for column in header if column not in (path_column, labels)]
    inside = os.path.realpath(table.parent)
    above = "" if root is None else os.path.relpath(inside, os.path.realpath(root)).replace(os.sep, "/")

    def found() -> Iterator[Item | Skipped]:
        for row in rows:
            name = as_text(row.get(path_column)).strip()
            more = {column: as_text(row.get(column)).strip() for column in others}
            said = label_text(row.get(labels))
            own = posixpath.normpath(posixpath.join(above, name)) if above and name else name
            item = Item(own, os.path.join(inside, name), said, split or more.get("split", "").lower(), more)
            yield listed_file(inside, item, bool(name), follow_links)

    return Source("files", Path(inside), found())


def listed_file(root: str, item: Item, is_named: bool, follow_links: bool) -> Item | Skipped:
    """The item with the real path and the size of its file, or why it is left out; root is a real path."""
    if not is_named:
        return Skipped("", "missing", "a row without a path")
    try:
        file = os.path.realpath(item.content)
        if not follow_links and not is_inside(file, root):
            return Skipped(item.id, "outside", "outside the table's folder" + ALLOW)
        about = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return Skipped(item.id, "missing", "no such file")
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte in it
        return Skipped(item.id, "unreadable", getattr(error, "strerror", None) or str(error))
    if not stat.S_ISREG(about.st_mode):
        return Skipped(item.id, "unreadable", "not a regular file")
    return item._replace(content=file, size=about.st_size)


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
