"""What a user points at -> the items of a run: each content once, and all that is left out with the reason."""

import csv
import os
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Literal

import numpy as np

from askless.base.errors import InputError
from askless.base.files import sha256_of, write_whole
from askless.sources import (
    Item,
    Skipped,
    Source,
    UnreadableError,
    in_order,
    open_file,
    open_source,
    same_text,
)
from askless.sources.image_file import measured
from askless.sources.items import first_of

Kind = Literal["files", "images", "features", "texts"]
Progress = Callable[[int, int], None]

# How copies are called: "cat copy.jpg", "cat (1).jpg", "cat_copy2.jpg", "Copy of cat.jpg", "cat - Kopie.jpg".
COPY = re.compile(
    r"[ _-](copy|kopie|copie|copia)[ _]?\d*( ?\(\d+\))?$|\(\d+\)$|^(copy|kopie|copie|copia) (of|von|de) ", re.IGNORECASE
)
MARKER = "state.sqlite"  # a folder that holds one is a run, not a part of the collection
PROBE = 4096  # bytes: of larger files of equal size, only these are compared first
READERS, CHUNK = 4, 64  # threads that read headers, and how many files each takes at a time
TILE = 2**26  # bytes of an array that are looked at together


@dataclass(frozen=True)
class Index:
    """All items of a source, and all that was left out. An item's id is its path relative to the root with slashes, or the
    id of its row; a text is one of its columns, so a table that is changed later changes nothing. By its size a file that
    is replaced later is noticed.

    `root` is the folder that files must stay inside, or the file of arrays. `classes` are those given, else those that
    the labels name. `hints` are sentences for the user. `text` is the column of the items that has their texts.
    """

    kind: Kind
    root: Path
    items: list[Item]
    skipped: list[Skipped]
    classes: tuple[str, ...]
    hints: list[str]
    text: str = ""


def scan(
    source: str | os.PathLike[str],
    *,
    follow_links: bool = False,
    labels_from_folders: bool = False,
    progress: Progress | None = None,
    text: str = "",
    encoding: str = "utf-8",
) -> Index:
    """The items of a folder (any depth), a .csv or .tsv table, or an .npz or .npy file; nothing is written to it: see
    `open_source`.

    Texts are the items of a .csv, .tsv, .jsonl or .parquet whose column `text` has them (by default the column called so,
    where none names image files), and of a folder with .txt files and no images.

    Of image files only the headers are read, and the content of those that have the size of another one to the byte: of
    exact copies the original is kept, as far as its name tells. Whatever cannot be an item is listed with the reason.
    `follow_links` also takes what lies outside the folder, by a link or by a table's path. `labels_from_folders` takes the
    first folder below the source as the class, or the second where the first ones are `train` and `test`.
    """
    opened = open_source(
        source,
        formats=("folder", "listed", "texts", "arrays"),
        text=text,
        encoding=encoding,
        follow_links=follow_links,
        labels_from_folders=labels_from_folders,
        marker=MARKER,
    )
    if opened.kind == "texts":
        index = index_texts(opened)
    elif opened.kind == "files":
        index = index_files(opened, progress)
    else:
        index = index_arrays(opened)
    if not index.items:
        raise InputError(
            f"{source}: expected images (png, jpg, jpeg, webp, bmp, tif, gif), rows or texts, found none"
            + first_of(index.skipped)
        )
    return index


def write_skipped(skipped: Iterable[Skipped], path: Path) -> None:
    """skipped.csv: what was left out, with the columns path, problem and reason."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Skipped._fields)
    writer.writerows(skipped)
    write_whole(path, lambda file: file.write(text.getvalue().encode()))
    path.chmod(0o600)


# --- image files


def index_files(source: Source, progress: Progress | None) -> Index:
    """The files whose headers can be read, each content once."""
    items, skipped = source.read()
    good = []
    for done, result in enumerate(measure_all(items), 1):
        if isinstance(result, Item):
            good.append(result)
        else:
            skipped.append(result)
        if progress is not None and (done % CHUNK == 0 or done == len(items)):
            progress(done, len(items))
    groups = [originals_first(good, group) for group in equal_files(good)]
    return each_once("files", source, good, groups, skipped, in_order(item.label for item in good))


def originals_first(files: Sequence[Item], group: Sequence[int]) -> list[int]:
    """Places of equal files, the one that is no copy by its name before the others, a shorter name before longer ones."""
    names = {i: Path(files[i].id).stem for i in group}
    return sorted(group, key=lambda i: (COPY.search(names[i]) is not None, len(names[i])))


def measure_all(items: Sequence[Item]) -> Iterator[Item | Skipped]:
    """The items in order, each with the size of its picture, or why it is left out.

    Several are read at a time, which helps where a disk or a network makes each file wait.
    """
    chunks = [items[i : i + CHUNK] for i in range(0, len(items), CHUNK)]
    with ThreadPoolExecutor(READERS) as pool:
        for results in pool.map(lambda chunk: [measure(item) for item in chunk], chunks):
            yield from results


def measure(item: Item) -> Item | Skipped:
    if item.size == 0:
        return Skipped(item.id, "unreadable", "an empty file")
    return measured(item._replace(columns=item.columns or ({"split": item.split} if item.split else {})))


def write_sizes(items: Iterable[Item], path: Path) -> None:
    """(N,) int64."""
    sizes = np.array([item.size for item in items], np.int64)
    write_whole(path, lambda file: np.save(file, sizes, allow_pickle=False))
    path.chmod(0o600)


def equal_files(files: Sequence[Item]) -> list[list[int]]:
    """Places of files with the same content. Only those of equal size are read, and large ones a part first."""
    groups = alike(range(len(files)), lambda i: files[i].size)
    groups = [finer for group in groups for finer in alike(group, lambda i: digest(files[i], PROBE))]
    return [
        finer
        for group in groups
        for finer in ([group] if files[group[0]].size <= PROBE else alike(group, lambda i: digest(files[i])))
    ]


def digest(item: Item, part: int = 0) -> bytes | None:
    """sha256 of the file, or of this many bytes from its middle; None if unreadable, which decoding will report."""
    try:
        with open_file(item.content) as file:
            if part:
                file.seek(max(0, item.size - part) // 2)
                return sha256(file.read(part)).digest()
            return sha256_of(file)
    except (OSError, UnreadableError):
        return None


def alike(at: Iterable[int], key: Callable[[int], Hashable]) -> list[list[int]]:
    """Groups of two or more places whose keys are equal; None is equal to nothing."""
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i in at:
        groups[key(i)].append(i)
    return [group for value, group in groups.items() if len(group) > 1 and value is not None]


def each_once(
    kind: Kind,
    source: Source,
    items: Sequence[Item],
    groups: Iterable[Sequence[int]],
    skipped: list[Skipped],
    classes: tuple[str, ...],
) -> Index:
    """The index of these items, of which the first of each group stays, with the label that its copies agree on."""
    what, same = ("text", "text") if kind == "texts" else ("image", "content")
    kept = dict(enumerate(items))
    torn = []
    for first, *copies in groups:
        labels = in_order(items[i].label for i in (first, *copies))
        but = ""
        if len(labels) > 1:
            torn.append(items[first].id)
            but = f"; the labels differ ({', '.join(labels)}), so none is used"
        kept[first] = items[first]._replace(label=labels[0] if len(labels) == 1 else "")
        for i in copies:
            again = items[i].id == items[first].id
            reason = "listed more than once" if again else f"the same {same} as {items[first].id}"
            skipped.append(Skipped(items[i].id, "duplicate", reason + but))
            del kept[i]
    hints = list(source.hints)
    if torn:
        hints.append(f"{len(torn)} {what}s have copies with other labels, such as {torn[0]}; they count as unlabelled")
    return Index(kind, source.root, list(kept.values()), sorted(skipped), classes, hints, source.column)


# --- texts and arrays


def index_texts(source: Source) -> Index:
    """The texts, each once: of those that differ in blanks and capitals only, the first is kept."""
    items, skipped = source.read()
    if any(source.column in item.columns for item in items[:1]):
        raise InputError(f"{source.root}: expected one column {source.column!r}, got several; rename one")
    texts = [item._replace(columns={source.column: item.content, **item.columns}) for item in items]
    groups = alike(range(len(items)), lambda i: same_text(items[i].content))
    return each_once("texts", source, texts, groups, skipped, in_order(item.label for item in items))


def index_arrays(source: Source) -> Index:
    """The rows of an array; images that occur twice and rows that are not finite, or no pixels, are left out."""
    kind: Kind = "images" if source.kind == "images" else "features"
    x, found = source.array, source.read()[0]
    assert x is not None
    height, width = x.shape[2:] if kind == "images" else (0, 0)
    bad = bad_rows(x, kind == "images")
    good = [i for i in range(len(found)) if i not in bad]
    items = [found[i]._replace(width=width, height=height) for i in good]
    skipped = [Skipped(found[i].id, "unreadable", reason) for i, reason in bad.items()]
    return each_once(kind, source, items, equal_rows(x, good) if kind == "images" else [], skipped, source.classes)


def bad_rows(x: np.ndarray, is_image: bool) -> dict[int, str]:
    """Rows that cannot be used, and why."""
    bad: dict[int, str] = {}
    step = max(1, TILE // x[0].nbytes)
    for start in range(0, len(x) if x.dtype.kind == "f" else 0, step):
        part = x[start : start + step]
        tile = part.reshape(len(part), -1)
        low, high = tile.min(axis=1), tile.max(axis=1)
        finite = np.isfinite(low) & np.isfinite(high)
        fits = finite & (low >= 0) & (high <= 1) if is_image else finite
        for i in np.flatnonzero(~fits):
            spread = f"pixels from {low[i]:g} to {high[i]:g}; expected [0, 1]"
            bad[start + int(i)] = spread if finite[i] else "contains NaN or infinity"
    return bad


def equal_rows(x: np.ndarray, at: Sequence[int]) -> list[list[int]]:
    """Places in `at` whose images (C, H, W) are equal; of most only the middle line of pixels is read."""
    middle = x.shape[2] // 2
    groups = alike(range(len(at)), lambda i: x[at[i], :, middle].tobytes())
    return [finer for group in groups for finer in alike(group, lambda i: sha256(x[at[i]].tobytes()).digest())]
