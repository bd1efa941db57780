"""Arrays, options and picks in files. Nothing is ever unpickled."""

import ast
import csv
import errno
import io
import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import numpy as np
import typer

from askless.base.errors import InputError, OptionError, some
from askless.base.files import whole_file
from askless.base.terminal import visible

if TYPE_CHECKING:
    from askless.acquire import Selection
    from askless.acquire.strategy import Progress
    from askless.sources.shards import Shards

# What a selection from shards takes beside its working memory: the process with its libraries (bytes), a share of all for
# the files' pages, and numbers for each item (bytes: bounds, weights, ties), of which BADGE has most.
STANDING, PAGES, PER_ITEM = 2**29, 8, 96
RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        help="Where to log each round: jsonl:FILE, tensorboard:FOLDER, mlflow:FILE or wandb:PROJECT. Repeatable."
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing file without asking.")]
UNITS = {"": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


def read_arrays(
    archive: Path | None, given: dict[str, Path | None], needs: tuple[str, ...], column: str = ""
) -> dict[str, Any]:
    """The arrays of one .npz file and of single files, by name; of the archive, only those that may be needed. `column`
    holds the features in a Parquet file."""
    from askless.sources.arrays import is_npy, load_npy, load_npz

    arrays: dict[str, Any] = {}
    if archive is not None:
        check_there(archive)
        if is_npy(archive):
            raise InputError(f"{archive}: expected a .npz archive, got a single array; pass it by name, as --features")
        names = load_npz(archive, ())
        if not names.keys() & given.keys():
            raise InputError(f"{archive}: expected arrays named {', '.join(given)}, got {', '.join(names) or 'none'}")
        there = {*names, *(name for name, path in given.items() if path is not None)}
        wanted = {*or_logits(needs, there), "labelled", "labels"} & given.keys()
        arrays = {name: array for name, array in load_npz(archive, wanted).items() if array is not None}
    for name, path in given.items():
        if path is None:
            continue
        check_there(path)
        suffix = path.suffix.lower()
        if suffix == ".npz":
            raise InputError(f"{path}: expected a single array (.npy), got an archive; pass it as --arrays")
        if name == "features" and suffix == ".parquet":
            arrays[name] = read_embeddings(path, column)
        else:
            arrays[name] = read_column(path, name) if suffix in (".csv", ".txt") else load_npy(path)
    return arrays


def check_column(column: str, features: Path | None) -> None:
    if column and (features is None or features.suffix.lower() != ".parquet" or features.is_dir()):
        raise OptionError(f"--column names a column of --features FILE.parquet, got {features or 'no such file'}")


def read_embeddings(path: Path, column: str = "") -> np.ndarray:
    """(N, d) from a Parquet file's column of lists of floats; other columns are ignored. No row may be left out, because
    picks are positions in the file."""
    from askless.sources.arrow import Columns, is_vector, parquet_part, split_items
    from askless.sources.items import Item, Skipped

    part = parquet_part(path)
    columns = {field.name: field.type for field in part.schema}
    found = [name for name in columns if is_vector(columns[name])]
    if column and column not in found:
        got = columns.get(column, f"none of that name among {some(columns)}")
        raise InputError(f"{path}: expected a column {column!r} of lists of floats, got {got}")
    if not found:
        raise InputError(f"{path}: expected a column of lists of floats, got {some(columns) or 'no column'}")
    if len(found) > 1 and not column:
        raise InputError(f"{path}: {' and '.join(found)} could be the features; pass one, as --column {found[0]}")
    rows: list[np.ndarray] = []
    for row, each in enumerate(split_items(path.name, [part], Columns("features", column or found[0], "", ""))):
        why = each.reason if isinstance(each, Skipped) else ""
        if isinstance(each, Item):
            rows.append(each.content)
            if len(rows[row]) != len(rows[0]):
                why = f"{len(rows[row])} features; the first row has {len(rows[0])}"
        if why:
            raise InputError(f"{path}: row {row} is invalid ({why}); fix it")
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)


def open_folder(given: dict[str, Path | None], memory: int, progress: "Progress | None" = None) -> "Shards | None":
    """The folder of shards passed as features, if any; removes it from `given`."""
    path = given.get("features")
    if path is None or not path.is_dir():
        return None
    from askless.data import data_home
    from askless.sources.shards import open_shards

    given["features"] = None
    return open_shards(path, data_home() / "unpacked", window=memory // PAGES, progress=progress)


def columns_of(shards: "Shards", names: tuple[str, ...], given: dict[str, Any]) -> dict[str, Any]:
    """The columns `names` of a folder of shards, except those passed as files of their own."""
    there = {*shards.columns, *given}
    return {name: shards[name] for name in or_logits(names, there) if name in shards and name not in given}


def or_logits(names: tuple[str, ...], there: set[str]) -> tuple[str, ...]:
    """`names`, plus logits if probs are wanted and missing: `select` computes probs from logits."""
    return (*names, "logits") if "probs" in names and "probs" not in there else names


def working_memory(declared: int, N: int) -> int:
    """The share of the process's memory that a strategy may use; the rest is for Python, torch, the files' pages and
    some numbers per item."""
    left = declared - declared // PAGES - STANDING - PER_ITEM * N
    if left < 2**26:
        least = (STANDING + PER_ITEM * N + 2**26) * PAGES / (PAGES - 1) / 2**30
        raise OptionError(
            f"max_memory: expected at least {least:.1f} GB for {N:,} items, got {declared / 2**30:.1f} GB"
        )
    return left // 2


def check_there(path: Path) -> None:
    if not path.exists():
        raise InputError(
            f"{path}: no such file; looked in {path.parent.resolve()}: check the name, or give the full path"
        )


def read_column(path: Path, name: str) -> np.ndarray:
    """Whole numbers from a text file: the column `index` (for labelled) or `label` (for labels), or the only column."""
    if name not in ("labelled", "labels"):
        raise InputError(f"{path}: expected a .npy file for {name}, got {path.suffix}")
    column = "index" if name == "labelled" else "label"
    try:
        text = path.read_text(encoding="utf-8-sig")  # Excel writes a mark at the start
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: expected a text file in UTF-8, which cannot be read: {error}") from None
    reader = csv.reader(text.splitlines())
    rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(cell.strip() for cell in row)]
    if not rows:
        return np.empty(0, dtype=np.int64)
    header = rows[0][1]
    place = 0
    if column in header:
        place, rows = header.index(column), rows[1:]
    elif len(header) > 1:
        raise InputError(
            f"{path}: expected a column {column!r}, got {', '.join(header)}; name the columns in the first line"
        )
    elif not any(character.isdigit() for character in header[0]):
        rows = rows[1:]  # one column under another name
    values = []
    for line, row in rows:
        cell = row[place] if place < len(row) else ""
        if re.fullmatch(r"[+-]?[0-9]{1,18}", cell) is None:
            todo = "write whole numbers, as pandas does after .astype(int)"
            if name == "labels" and not re.fullmatch(r"[+-]?[0-9.]+", cell):
                todo = "number the classes from 0, as pandas.factorize does"
            raise InputError(f"{path}: expected a whole number in line {line}, got {cell!r}; {todo}")
        values.append(int(cell))
    return np.array(values, dtype=np.int64)


def read_count(text: str) -> int:
    """The number after -n."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a whole number such as 20, got {text!r}") from None


def read_options(pairs: list[str]) -> dict[str, Any]:
    """["draws=500", "score=schur"] -> {"draws": 500, "score": "schur"}."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise OptionError(f"expected an option as name=value, got {pair!r}")
        try:
            options[name] = float(value) if value in ("inf", "nan") else ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            options[name] = {"true": True, "false": False}.get(value, value)
    return options


def read_bytes(text: str) -> int:
    """A size such as 512MB in bytes.

    >>> read_bytes("4GB") == 4 * 2**30
    True
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]B)?", text.strip().upper())
    if match is None:
        raise OptionError(f"expected a size such as 256MB or 4GB, got {text!r}")
    return int(float(match[1]) * UNITS[match[2] or ""])


def picks_csv(picks: "Selection", ids: list[str] | None = None) -> str:
    """rank,index,score, and the id if items have one; the score is empty if the strategy does not score items."""
    scores = picks.scores if picks.scores is not None else [None] * len(picks)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["rank", "index", "score", *([] if ids is None else ["id"])])
    for rank, (index, score) in enumerate(zip(picks.indices.tolist(), scores, strict=True)):
        number = "" if score is None else repr(float(score))
        writer.writerow([rank, index, number, *([] if ids is None else [ids[rank]])])
    return out.getvalue()


def check_writable(path: Path | None) -> None:
    """Raise before a long search rather than after it."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it, or choose another place")
    if path.is_dir():
        raise InputError(f"{path}: expected the name of a file, got a folder")
    try:
        if is_ordinary(path):
            with tempfile.NamedTemporaryFile(dir=path.parent):
                pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; choose another place") from None


def may_replace(path: Path | None, overwrite: bool) -> bool:
    """Whether an existing file may be replaced: with `--overwrite`, or after asking at the terminal."""
    if overwrite or path is None or not path.is_file():
        return overwrite
    if sys.stdin is None or not sys.stdin.isatty():
        raise OptionError(f"{path}: the file already exists; pass --overwrite to replace it")
    if not typer.confirm(visible(f"{path} exists. Replace it?")):
        raise OptionError(f"{path}: not replaced; nothing was written")
    return True


def check_folder(path: Path) -> None:
    """The same for a folder, which is created."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot write into this folder: {error.strerror}; choose another place") from None


def is_ordinary(path: Path) -> bool:
    """Whether the path is free or a plain file, so that a rename may replace it; not a link, a pipe or a device."""
    return not os.path.lexists(path) or stat.S_ISREG(os.lstat(path).st_mode)


@contextmanager
def text_file(path: Path) -> Iterator[TextIO]:
    """A text file that replaces the path once it is complete. Links and pipes are written to directly."""
    if not is_ordinary(path):
        with open(path, "w", encoding="utf-8", newline="", opener=without_waiting) as through:
            yield through
        return
    with whole_file(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        try:
            yield text
        finally:
            text.detach()  # and flush


def without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without a reader is an error, because the system would wait for a reader indefinitely."""
    try:
        opened = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise InputError(f"{path}: this pipe has no reader; start the reader first") from None
        raise
    os.set_blocking(opened, True)
    return opened


def write_text(path: Path, text: str) -> None:
    try:
        with text_file(path) as file:
            file.write(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def read_history(path: Path | None) -> "list[Selection]":
    """The selection of an earlier call, or the ALBL state that older versions wrote."""
    from askless.acquire import Selection
    from askless.acquire.albl import history_of

    if path is None or not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return history_of(found)
        return [Selection.from_plain(past) for past in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: expected a state file written by askless, got something else ({error})") from None
