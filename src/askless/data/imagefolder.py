"""Hugging Face's layout for image files: folders per split and class, or a metadata file beside the images."""

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from askless.base.errors import InputError, some
from askless.data.folders import TEST_FOLDERS, Progress, Size, folder, read_files, split_off
from askless.data.pool import Pool, encode_labels
from askless.sources import LABEL_NAMES, as_size, pick_column, read_table
from askless.sources.find import OutsideError, real_file

METADATA = ("metadata.csv", "metadata.jsonl")


def imagefolder(
    path: str | PathLike[str],
    size: Size = None,
    label: str = "",
    flip: bool = True,
    classes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Pool:
    """Images as `load_dataset("imagefolder", data_dir=path)` of Hugging Face reads them.

    `train/CLASS/*.png` and `test/CLASS/*.png`, or only `CLASS/*.png`; or, in each split's folder, metadata.csv or
    metadata.jsonl with `file_name` and a label (in a column label, class, category or target, or the one that `label`
    names). `train` is the pool, `test` (or else validation) is held out; other folders, such as `pseudo`, are left alone.
    """
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{root}: expected a folder of images, got {'a file' if root.exists() else 'nothing there'}")
    described = {place: file for place in (root, *sorted(root.iterdir())) if (file := metadata_in(place)) is not None}
    if not described:
        return folder(root, size, labels_from_folders=True, flip=flip, classes=classes, progress=progress)
    places = {"train" if place == root else place.name.lower(): (place, file) for place, file in described.items()}
    held_split = next((split for split in TEST_FOLDERS if split in places), "")
    files: list[Path] = []
    names: list[str] = []
    held: list[bool] = []
    for split in ("train", held_split):
        if split not in places:
            continue
        place, file = places[split]
        rows = metadata_rows(file)
        column = label or pick_column(list(rows[0]), LABEL_NAMES, file, needed=False)
        if column and column not in rows[0]:
            raise InputError(f"{file}: expected a column {column!r} of labels, got {some(rows[0])}")
        for row in rows:
            try:
                files.append(Path(real_file(place, row.get("file_name", ""))))
            except OutsideError:
                raise InputError(f"{file}: expected files inside {place}, got {row['file_name']!r}") from None
            names.append(row.get(column, "") if column else "")
            held.append(split == held_split)
    ids = [file.relative_to(root.resolve()).as_posix() for file in files]
    read = read_files(files, ids, as_size(size), progress=progress)
    labels, known = encode_labels(names, classes)
    kept = np.array(read.kept)
    out = np.array(held)[kept] & (labels[kept] >= 0)
    return split_off(
        read.x, [ids[i] for i in kept], labels[kept], known, out, root.resolve().name, flip, sorted(read.skipped)
    )


def metadata_in(place: Path) -> Path | None:
    return next((place / name for name in METADATA if (place / name).is_file()), None) if place.is_dir() else None


def metadata_rows(file: Path) -> list[dict[str, str]]:
    if file.suffix == ".csv":
        rows = read_table(file)
    else:
        try:
            found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
            rows = [{str(k): "" if v is None else str(v) for k, v in row.items()} for row in found]
        except (ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"{file}: expected a JSON object on each line, got another file ({error})") from None
    if not rows or "file_name" not in rows[0]:
        raise InputError(f"{file}: expected rows with file_name, got {some(rows[0]) if rows else 'none'}")
    return rows
