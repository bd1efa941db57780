"""Texts as people have them -> items: a table with a column of text (CSV, TSV, JSON lines, Parquet), or a folder of .txt.

A row that cannot be used is left out with the reason; it does not stop the others.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from askless.base.errors import InputError, OptionError, some
from askless.sources.find import real_file, walk_files
from askless.sources.folders import folder_labels
from askless.sources.image_file import UnreadableError, named_like_image, open_file
from askless.sources.items import Item, Skipped, Source
from askless.sources.names import LABEL_NAMES, PATH_NAMES, TEXT_NAMES, is_text, label_column, label_text, usual_column
from askless.sources.table import LONGEST, MARKS, SAVE, Row, as_text, decoded, open_table

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


def read_texts(
    source: Path,
    column: str = "",
    label: str = "",
    encoding: str = "utf-8",
    follow_links: bool = False,
    labels_from_folders: bool = False,
) -> Source:
    """The texts of a table or of all .txt files below a folder.

    `column` names the texts, by default `text`, or the only column that is neither id nor label. `label` names the labels,
    by default a column label, class, category or target, where there is one. Ids are those of a column `id`, else the
    numbers of the rows from 1; of files their paths, whose folders are the labels with `labels_from_folders`.
    """
    check_encoding(encoding)
    if source.is_dir():
        return of_folder(source, encoding, follow_links, labels_from_folders)
    if labels_from_folders:
        raise InputError(f"{source}: expected a folder to take the labels from its folders, got a file")
    if not source.exists() or source.suffix.lower() not in TABLES:
        got = "found nothing there" if not source.exists() else f"got {source.name}"
        raise InputError(f"{source}: expected texts: a file ending in {', '.join(TABLES)}, or a folder of .txt; {got}")
    header, rows = open_table(source, encoding)
    chosen = text_column(source, header, column, label)
    labels = label_column(header, source, label, but=chosen)
    found = items_of(source, rows, chosen, labels, encoding)
    return Source("texts", Path(os.path.realpath(source)), found, column=chosen)


def check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)
    except (LookupError, UnicodeError):
        raise OptionError(
            f"encoding: expected one that Python supports, such as utf-8 or cp1252, got {encoding!r}"
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


def of_folder(root: Path, encoding: str, follow_links: bool, labels_from_folders: bool) -> Source:
    """All .txt files below a folder, at any depth; hidden ones are passed over."""
    files, left_out, _ = walk_files(root, lambda path: path.suffix.lower() == ".txt", follow_links)
    sides, test = folder_labels(root, [file.id for file in files], labels_from_folders)

    def found() -> Iterator[Item | Skipped]:
        yield from left_out
        for file, (split, label) in zip(files, sides, strict=True):
            try:
                with open_file(real_file(root, file.id, follow_links)) as opened:
                    text = decoded(opened.read(), encoding, root / file.id)
                problem = unusable(text, encoding)
            except (OSError, UnreadableError, InputError) as error:
                problem = str(error)
            yield Skipped(file.id, "unreadable", problem) if problem else Item(file.id, text, label, split)

    return Source("texts", Path(os.path.realpath(root)), found(), test, column="text")


def text_column(source: Path, header: Sequence[str], given: str, label: str) -> str:
    if given and given not in header:
        raise InputError(f"{source}: expected a column {given!r} of texts, got {some(header)}; choose one of these")
    others = [name for name in header if name.lower() not in (*LABEL_NAMES, "id", "split") and name != label]
    found = given or usual_column(header, TEXT_NAMES) or (others[0] if len(others) == 1 else "")
    if not found:
        raise InputError(
            f"{source}: which column has the texts? It has {some(header)}; pass one: --text COLUMN on the command line, "
            "column= in Python"
        )
    return found


def items_of(source: Path, rows: Iterator[Row], column: str, label: str, encoding: str) -> Iterator[Item | Skipped]:
    first: dict[str, int] = {}  # id -> the number of its row
    for number, values, reason in rows:
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
            yield Skipped(key, "unreadable", reason)
            continue
        if key in first:
            raise InputError(
                f"{source}: expected each id once, got {key[:80]!r} in rows {first[key]} and {number}; correct one, "
                "or rename the column to use row numbers"
            )
        first[key] = number
        more = {name: value for name, value in plain.items() if name not in (column, label)}
        yield Item(key, str(text), said, more.get("split", "").lower(), more)


def unusable(text: Any, encoding: str) -> str:
    """Why a text cannot be labelled; "" where it can."""
    if not is_text(text):
        return f"not valid {encoding}; {SAVE}"
    if not text.strip():
        return "an empty text"
    if len(text) > LONGEST:
        return f"{len(text):,} characters; the page shows at most {LONGEST:,}; split it"
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
