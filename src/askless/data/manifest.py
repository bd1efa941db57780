"""Pools from a manifest: a CSV or TSV file that lists image files and what is known of them."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from askless.base.errors import InputError
from askless.data.folders import Progress, Size, read_files, split_off
from askless.data.pool import Pool, encode_labels
from askless.sources import LABEL_NAMES, PATH_NAMES, as_size, pick_column, read_table, rows_of


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
