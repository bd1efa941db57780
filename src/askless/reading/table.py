"""CSV and TSV files as people have them."""

import csv as csv_file
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from askless.errors import InputError

PATH_NAMES = ("path", "file_name", "filename", "image", "file")
LABEL_NAMES = ("label", "class", "category", "target")
TEXT_NAMES = ("text",)


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
        text = manifest.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(
            f"{manifest}: expected a CSV file with the columns path and label, got nothing there"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{manifest}: expected UTF-8 text, got something else; save it as UTF-8") from None
    delimiter = max(",\t;", key=text.partition("\n")[0].count)
    try:
        rows = list(csv_file.DictReader(StringIO(text, newline=""), delimiter=delimiter))
    except csv_file.Error as error:  # such as a quote that is never closed
        raise InputError(f"{manifest}: expected rows of a CSV file, got text that is none ({error})") from None
    if not rows:
        raise InputError(f"{manifest}: expected a header and at least one row, got {len(text.splitlines())} lines")
    for i, row in enumerate(rows):
        if None in row or None in row.values():
            raise InputError(
                f"{manifest}: row {i + 2} has another number of fields than the header; quote names with commas"
            )
    return [{column.strip(): value.strip() for column, value in row.items()} for row in rows]


def pick_column(header: list[str], names: tuple[str, ...], manifest: Path, needed: bool) -> str:
    """The column with one of the accepted names, or "" where it is not needed."""
    for name in names:
        for column in header:
            if column.lower() == name:
                return column
    if needed:
        raise InputError(
            f"{manifest}: expected a column {' or '.join(names)}, got {', '.join(header)}; rename one of them"
        )
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
