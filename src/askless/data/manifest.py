"""Pools from a manifest: a CSV or TSV file that lists image files and what is known of them."""

import csv as csv_file
from collections.abc import Sequence
from io import StringIO
from os import PathLike
from pathlib import Path

import numpy as np

from askless.data.folders import Progress, Size, read_files, split_off
from askless.data.image_file import as_size
from askless.data.pool import Pool, encode_labels
from askless.errors import InputError

PATH_NAMES = ("path", "file_name", "filename", "image", "file")
LABEL_NAMES = ("label", "class", "category", "target")


def csv(
    path: str | PathLike[str],
    size: Size = None,
    lazy: bool = False,
    flip: bool = True,
    classes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Pool:
    """The images that a CSV or TSV file lists in its column `path` (relative to it), with the classes in `label`.

    An empty label is unknown; `classes` fixes the order of the classes, by default alphabetical. Other names for the two
    columns are accepted (`file_name`, `filename`, `image`, `file`; `class`, `category`, `target`). Rows with `test` in a
    column `split` are held out. All further columns are kept in `pool.columns`. Files that are missing or cannot be read
    end in `pool.skipped`.
    """
    manifest = Path(path)
    rows = read_table(manifest)
    header = list(rows[0])
    path_column = pick_column(header, PATH_NAMES, manifest, needed=True)
    paths = rows_of(rows, path_column)
    label_column = pick_column(header, LABEL_NAMES, manifest, needed=False)
    first_row: dict[str, int] = {}
    for i, name in enumerate(paths):
        first = first_row.setdefault(name, i)
        if first != i:
            raise InputError(
                f"{manifest}: expected each file once, got {name!r} in rows {first + 2} and {i + 2}; drop one"
            )
    files = [manifest.parent / name for name in paths]
    missing = [(name, "no such file") for name, file in zip(paths, files, strict=True) if not file.is_file()]
    there = [i for i, file in enumerate(files) if file.is_file()]
    if not there:
        raise InputError(
            f"{manifest}: none of its {len(paths)} files exists, the first is {paths[0]!r}; paths are relative to "
            f"{manifest.parent}"
        )
    read = read_files([files[i] for i in there], [paths[i] for i in there], as_size(size), lazy, progress)
    kept = [there[i] for i in read.kept]
    names = rows_of(rows, label_column) if label_column else [""] * len(rows)
    labels, known = encode_labels(names, classes)
    splits = rows_of(rows, "split") if "split" in header else [""] * len(rows)
    held = np.array([splits[i].lower() == "test" for i in kept])
    unlabelled = [paths[i] for i, is_held in zip(kept, held, strict=True) if is_held and labels[i] < 0]
    if unlabelled:
        raise InputError(f"{manifest}: expected a label for every test row, got none for {unlabelled[0]!r}")
    others = [column for column in header if column not in (path_column, label_column)]
    return split_off(
        read.x,
        [paths[i] for i in kept],
        labels[kept],
        known,
        held,
        manifest.stem,
        flip,
        sorted(missing + read.skipped),
        {column: [rows[i][column] for i in kept] for column in others},
    )


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
    rows = list(csv_file.DictReader(StringIO(text, newline=""), delimiter=delimiter))
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
