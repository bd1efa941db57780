"""What a user points at -> the items: a folder of images, a table that lists them, or a file of arrays."""

import csv
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from askless.base.errors import InputError
from askless.base.files import sha256_of, write_whole
from askless.sources import (
    LABEL_NAMES,
    PATH_NAMES,
    Skipped,
    UnreadableError,
    image_size,
    in_order,
    is_inside,
    open_file,
    pick_column,
    read_arrays,
    read_table,
    walk_images,
)
from askless.sources.texts import holds_texts

Kind = Literal["files", "images", "features", "texts"]
Progress = Callable[[int, int], None]

MARKER = "state.sqlite"  # a folder that holds one is a run, not a part of the collection
TEST_FOLDERS = ("test", "val", "valid", "validation")
PROBE = 4096  # bytes: of larger files of equal size, first only so many are compared
READERS, CHUNK = 4, 64  # threads that read headers, and how many files each takes at a time
TILE = 2**26  # bytes of an array that are looked at together
SOURCES = "a folder of images or .txt files, a .csv, .tsv, .jsonl, .parquet, .npz or .npy file"
ALLOW = "; pass --follow-links to allow it"


@dataclass(frozen=True, slots=True)
class Indexed:
    """One item: its path relative to the root with slashes (or the id of its row), and what is known of it; a text is one
    of its columns.

    `width` and `height` are those of the picture as it will be shown, 0 for features. `label` is "" where unknown. `size`:
    the file's bytes, by which one that is replaced later is noticed.
    """

    path: str
    width: int = 0
    height: int = 0
    label: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


@dataclass(frozen=True)
class Index:
    """All items of a source, and all that was left out.

    `root` is the folder that files must stay inside, or the file of arrays. `classes` are those given, else those that
    the labels name. `hints` are sentences for the user. `text` is the column of the items that has their texts.
    """

    kind: Kind
    root: Path
    items: list[Indexed]
    skipped: list[Skipped]
    classes: tuple[str, ...]
    hints: list[str]
    text: str = ""


class Candidate(NamedTuple):
    """A file that may become an item."""

    item: Indexed
    file: str
    size: int


def scan(
    source: str | os.PathLike[str],
    *,
    follow_links: bool = False,
    labels_from_folders: bool = False,
    progress: Progress | None = None,
    text: str = "",
    encoding: str = "utf-8",
) -> Index:
    """The items of a folder (any depth), a .csv or .tsv table, or an .npz or .npy file; nothing is written to it.

    Texts are the items of a .csv, .tsv, .jsonl or .parquet whose column `text` has them (by default the column called so,
    where none names image files), and of a folder with .txt files and no images.

    Of image files only the headers are read, and the content of those that have the size of another one to the byte: of
    exact copies the first is kept. Whatever cannot be an item is listed with the reason. `follow_links` also takes what
    lies outside the folder, by a link or by a table's path. `labels_from_folders` takes the first folder below the source
    as the class, or the second where the first ones are `train` and `test`.
    """
    path = Path(source)
    suffix = path.suffix.lower()
    if labels_from_folders and not path.is_dir():
        raise InputError(f"{path}: expected a folder to take the labels from its folders, got something else")
    if holds_texts(path, text):
        from askless.run.steps.texts import scan_texts

        index = scan_texts(path, text, encoding, labels_from_folders)
    elif path.is_dir():
        index = scan_folder(path, follow_links, labels_from_folders, progress)
    elif not path.exists():
        raise InputError(f"{path}: expected {SOURCES}, got nothing there")
    elif suffix in (".csv", ".tsv"):
        index = scan_table(path, follow_links, progress)
    elif suffix in (".npz", ".npy"):
        index = scan_arrays(path)
    else:
        raise InputError(f"{path}: expected {SOURCES}, got {path.name!r}")
    if not index.items:
        first = "".join(f"; {len(index.skipped)} left out, the first, {s.path}: {s.reason}" for s in index.skipped[:1])
        raise InputError(
            f"{path}: expected images (png, jpg, jpeg, webp, bmp, tif, gif), rows or texts, found none{first}"
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


# --- folders


def scan_folder(root: Path, follow_links: bool, labels_from_folders: bool, progress: Progress | None) -> Index:
    found, left_out, runs = walk_images(root, follow_links, MARKER)
    if "" in runs:
        raise InputError(f"{root}: expected images, got a run of askless; continue it with `askless start {root}`")
    skipped = [with_advice(each) for each in left_out]
    real = os.path.realpath(root)
    sides = by_folder([file.name for file in found])
    candidates = []
    for file, (split, label) in zip(found, sides, strict=True):
        item = Indexed(file.name)
        if labels_from_folders:
            item = Indexed(file.name, label=label, columns={"split": split} if split else {})
        candidates.append(Candidate(item, os.path.join(real, file.name), file.size))
    if labels_from_folders and found and not any(label for _, label in sides):
        raise InputError(f"{root}: expected one folder per class below it, found none; leave --labels-from-folders out")
    hints = [f"the run of askless in {run} is not a part of the images" for run in runs]
    folders = {label for _, label in sides}
    if not labels_from_folders and len(folders) >= 2 and "" not in folders:
        hints.append(f"the images lie in {len(folders)} folders; pass --labels-from-folders if these are classes")
    return index_of(Path(real), candidates, skipped, hints, progress)


def with_advice(skipped: Skipped) -> Skipped:
    return skipped._replace(reason=skipped.reason + ALLOW) if skipped.problem in ("outside", "link") else skipped


def by_folder(names: Sequence[str]) -> list[tuple[str, str]]:
    """The split and the class that the folders of each path name; "" where there is none.

    >>> by_folder(["cat/1.png", "dog/old/2.png", "3.png"])
    [('', 'cat'), ('', 'dog'), ('', '')]
    >>> by_folder(["train/cat/1.png", "test/cat/2.png"])
    [('train', 'cat'), ('test', 'cat')]
    """
    tops = {name.partition("/")[0].lower() if "/" in name else "" for name in names}
    has_splits = "train" in tops and tops <= {"train", *TEST_FOLDERS}
    sides = []
    for name in names:
        folders = name.split("/")[:-1]
        split = folders.pop(0).lower() if has_splits else ""
        sides.append((split, folders[0] if folders else ""))
    return sides


# --- tables


def scan_table(table: Path, follow_links: bool, progress: Progress | None) -> Index:
    """The files that a table lists, relative to it, in its order; its further columns are kept."""
    rows = read_table(table)
    header = list(rows[0])
    path_column = pick_column(header, PATH_NAMES, table, needed=True)
    label_column = pick_column(header, LABEL_NAMES, table, needed=False)
    others = [column for column in header if column not in (path_column, label_column)]
    root = os.path.realpath(table.parent)
    candidates, skipped = [], []
    for row in rows:
        label = row[label_column] if label_column else ""
        item = Indexed(row[path_column], label=label, columns={column: row[column] for column in others})
        listed = listed_file(root, item, follow_links)
        if isinstance(listed, Candidate):
            candidates.append(listed)
        else:
            skipped.append(listed)
    return index_of(Path(root), candidates, skipped, [], progress)


def listed_file(root: str, item: Indexed, follow_links: bool) -> Candidate | Skipped:
    """The file that a row means, or why it is left out; root is a real path."""
    if not item.path:
        return Skipped("", "missing", "a row without a path")
    try:
        file = os.path.realpath(os.path.join(root, item.path))
        if not follow_links and not is_inside(file, root):
            return Skipped(item.path, "outside", "outside the table's folder" + ALLOW)
        about = os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return Skipped(item.path, "missing", "no such file")
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte in it
        return Skipped(item.path, "unreadable", getattr(error, "strerror", None) or str(error))
    if not stat.S_ISREG(about.st_mode):
        return Skipped(item.path, "unreadable", "not a regular file")
    return Candidate(item, file, about.st_size)


# --- image files


def index_of(
    root: Path, candidates: Sequence[Candidate], skipped: list[Skipped], hints: list[str], progress: Progress | None
) -> Index:
    """The candidates whose headers can be read, each content once."""
    good = []
    for done, result in enumerate(measured(candidates), 1):
        if isinstance(result, Candidate):
            good.append(result)
        else:
            skipped.append(result)
        if progress is not None and (done % CHUNK == 0 or done == len(candidates)):
            progress(done, len(candidates))
    merged = merge_copies([candidate.item for candidate in good], equal_files(good))
    classes = in_order(candidate.item.label for candidate in good)
    return Index("files", root, merged.items, sorted(skipped + merged.skipped), classes, hints + merged.hints)


def measured(candidates: Sequence[Candidate]) -> Iterator[Candidate | Skipped]:
    """The candidates in order, each with the size of its picture, or why it is left out.

    Several are read at a time, which helps where a disk or a network makes each file wait.
    """
    chunks = [candidates[i : i + CHUNK] for i in range(0, len(candidates), CHUNK)]
    with ThreadPoolExecutor(READERS) as pool:
        for results in pool.map(lambda chunk: [measure(candidate) for candidate in chunk], chunks):
            yield from results


def measure(candidate: Candidate) -> Candidate | Skipped:
    reason = "an empty file"
    if candidate.size > 0:
        try:
            height, width = image_size(candidate.file)
            item = replace(candidate.item, width=width, height=height, size=candidate.size)
            return candidate._replace(item=item)
        except UnreadableError as error:
            reason = str(error)
        except MemoryError:
            reason = "too large for the memory of this computer"
    return Skipped(candidate.item.path, "unreadable", reason)


def write_sizes(items: Iterable[Indexed], path: Path) -> None:
    """(N,) int64."""
    sizes = np.array([item.size for item in items], np.int64)
    write_whole(path, lambda file: np.save(file, sizes, allow_pickle=False))
    path.chmod(0o600)


def equal_files(files: Sequence[Candidate]) -> list[list[int]]:
    """Places of files with the same content. Only those of equal size are read, and large ones a part first."""
    groups = alike(range(len(files)), lambda i: files[i].size)
    groups = [finer for group in groups for finer in alike(group, lambda i: digest(files[i], PROBE))]
    return [
        finer
        for group in groups
        for finer in ([group] if files[group[0]].size <= PROBE else alike(group, lambda i: digest(files[i])))
    ]


def digest(candidate: Candidate, part: int = 0) -> bytes | None:
    """sha256 of the file, or of so many bytes from its middle; None if it cannot be read, which decoding will tell."""
    try:
        with open_file(candidate.file) as file:
            if part:
                file.seek(max(0, candidate.size - part) // 2)
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


class Merged(NamedTuple):
    items: list[Indexed]
    skipped: list[Skipped]
    hints: list[str]


def merge_copies(items: Sequence[Indexed], groups: Iterable[Sequence[int]], what: str = "image") -> Merged:
    """The first of each group stays, with the label that its copies agree on."""
    kept = dict(enumerate(items))
    skipped, torn = [], []
    for first, *copies in groups:
        labels = in_order(items[i].label for i in (first, *copies))
        but = ""
        if len(labels) > 1:
            torn.append(items[first].path)
            but = f"; the labels differ ({', '.join(labels)}), so it has none now"
        kept[first] = replace(items[first], label=labels[0] if len(labels) == 1 else "")
        for i in copies:
            again = items[i].path == items[first].path
            reason = (
                "listed more than once"
                if again
                else f"the same {'text' if what == 'text' else 'content'} as {items[first].path}"
            )
            skipped.append(Skipped(items[i].path, "duplicate", reason + but))
            del kept[i]
    hints = (
        [f"{len(torn)} {what}s have copies with other labels, such as {torn[0]}; they count as unlabelled"]
        if torn
        else []
    )
    return Merged(list(kept.values()), skipped, hints)


# --- arrays


def scan_arrays(file: Path) -> Index:
    """The rows of an array; images that occur twice and rows that are not finite, or no pixels, are left out."""
    found = read_arrays(file)
    is_image = found.kind == "images"
    height, width = found.x.shape[2:] if is_image else (0, 0)
    bad = bad_rows(found.x, is_image)
    good = [i for i in range(len(found.ids)) if i not in bad]
    items = [Indexed(found.ids[i], width, height, found.labels[i]) for i in good]
    skipped = [Skipped(found.ids[i], "unreadable", reason) for i, reason in bad.items()]
    merged = merge_copies(items, equal_rows(found.x, good) if is_image else [])
    hints = [f"not used of {file.name}: {', '.join(found.unused)}"] if found.unused else []
    return Index(
        found.kind,
        Path(os.path.realpath(file)),
        merged.items,
        sorted(skipped + merged.skipped),
        found.classes,
        hints + merged.hints,
    )


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
            bad[start + int(i)] = spread if finite[i] else "NaN or infinity in it"
    return bad


def equal_rows(x: np.ndarray, at: Sequence[int]) -> list[list[int]]:
    """Places in `at` whose images (C, H, W) are equal; of most only the middle line of pixels is read."""
    middle = x.shape[2] // 2
    groups = alike(range(len(at)), lambda i: x[at[i], :, middle].tobytes())
    return [finer for group in groups for finer in alike(group, lambda i: sha256(x[at[i]].tobytes()).digest())]
