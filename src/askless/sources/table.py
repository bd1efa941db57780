"""CSV and TSV files as people have them."""

import csv as csv_file
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from askless.base.errors import InputError, some

PATH_NAMES = ("path", "file_name", "filename", "image", "file")
LABEL_NAMES = ("label", "class", "category", "target")
TEXT_NAMES = ("text",)
LONGEST = 500_000  # characters: nobody labels a longer text, and no page shows it
MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
SAVE = "save the file as UTF-8, or name its encoding, for example cp1252 (--encoding on the command line)"


def label_text(value: Any) -> str:
    """A label of a table as text: "" where it is unknown (None, NaN, "", or the number -1).

    >>> [label_text(v) for v in (None, float("nan"), -1, " dog ", 3, 3.0, 2.5, True, "-1")]
    ['', '', '', 'dog', '3', '3', '2.5', 'True', '-1']
    """
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():  # a column of whole numbers of which some are missing
        value = int(value)
    return "" if value == -1 and not isinstance(value, str) else str(value).strip()


def read_table(manifest: Path) -> list[dict[str, str]]:
    """The rows as dicts; the separator is the one of comma, tab and semicolon that the header has most of."""
    try:
        content = manifest.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"{manifest}: expected a CSV file with the columns path and label, got nothing there"
        ) from None
    text = decoded(content, "utf-8", manifest)
    if not is_text(text):
        raise InputError(f"{manifest}: expected UTF-8 text, got something else; save it as UTF-8")
    try:
        rows = list(csv_file.DictReader(StringIO(text, newline=""), delimiter=delimiter_of(text)))
    except csv_file.Error as error:  # such as a quote that is never closed
        raise InputError(f"{manifest}: it is not valid CSV ({error})") from None
    if not rows:
        raise InputError(f"{manifest}: expected a header and at least one row, got {len(text.splitlines())} lines")
    for i, row in enumerate(rows):
        if None in row or None in row.values():
            raise InputError(
                f"{manifest}: row {i + 2} has another number of fields than the header; quote names with commas"
            )
    return [{column.strip(): value.strip() for column, value in row.items()} for row in rows]


def delimiter_of(text: str) -> str:
    """Of comma, tab and semicolon the one that the header has most of. From then on csv takes fields of `LONGEST`."""
    if csv_file.field_size_limit() < LONGEST:  # one number for the whole process, 131,072 at first: only ever raised
        csv_file.field_size_limit(LONGEST)
    return max(",\t;", key=text.partition("\n")[0].count)


def decoded(content: bytes, encoding: str, source: Path) -> str:
    """The text of a file; what does not decode stays as single bytes in it, by which the rows that have any are known. A
    mark at its beginning says UTF-8 or UTF-16, whatever `encoding` is."""
    for mark, marked in MARKS:
        if content.startswith(mark):
            encoding = marked
    try:
        text = content.decode(encoding, errors="strict" if encoding.startswith("utf-16") else "surrogateescape")
    except UnicodeError:
        raise InputError(f"{source}: expected text in {encoding}, got something else; {SAVE}") from None
    if "\0" in text[:1000].partition("\n")[0]:
        raise InputError(
            f"{source}: expected text in {encoding}, got characters of value 0, as UTF-16 without a mark has them; save the "
            "file as UTF-8, or name its encoding, for example utf-16-le (--encoding on the command line)"
        )
    return text


def is_text(name: str) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def pick_column(header: list[str], names: tuple[str, ...], manifest: Path, needed: bool) -> str:
    """The column with one of the accepted names, or "" where it is not needed."""
    for name in names:
        for column in header:
            if column.lower() == name:
                return column
    if needed:
        raise InputError(f"{manifest}: expected a column {' or '.join(names)}, got {some(header)}; rename one of them")
    return ""


def rows_of(rows: list[dict[str, str]], column: str) -> list[str]:
    return [row[column] for row in rows]


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct names without "": by number where all are numbers, else by alphabet.

    >>> in_order(["10", "9", "", "9"])
    ('9', '10')
    """
    distinct = sorted(set(names) - {""})
    return tuple(sorted(distinct, key=int) if all(name.isdecimal() for name in distinct) else distinct)
