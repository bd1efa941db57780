"""Pools of texts: a table with a column of text, or a folder of .txt files."""

import logging
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from askless.base.errors import InputError
from askless.data.folders import split_and_class, splits_of
from askless.data.pool import Pool, encode_labels
from askless.sources import read_texts

log = logging.getLogger(__name__)


def text(
    path: str | PathLike[str],
    column: str = "",
    label: str = "",
    labels_from_folders: bool = False,
    encoding: str = "utf-8",
    classes: Sequence[str] | None = None,
) -> Pool:
    """The texts of a .csv, .tsv, .jsonl or .parquet file, or of all .txt files below a folder; train on them with
    `net="frozen:tfidf"`.

    `column` has the texts (by default `text`), `label` the classes (by default a column label, class, category or target,
    where there is one; "" is unknown). Rows with `test` in a column `split` are held out; so is the folder `test` with
    `labels_from_folders`, which takes the class from the first folder below `path`, or the second where the first ones are
    `train` and `test`. What cannot be read, and empty texts, end in `pool.skipped`. `classes` fixes the order of the
    classes, by default alphabetical.
    """
    source = Path(path)
    found = read_texts(source, column, label=label, encoding=encoding)
    rows = found.rows
    if not rows:
        first = "".join(f"; {len(found.skipped)} left out, the first, {s.path}: {s.reason}" for s in found.skipped[:1])
        raise InputError(f"{source}: expected texts, found none{first}")
    names, splits = [row.label for row in rows], [row.columns.get("split", "").lower() for row in rows]
    held_split = "test"
    if labels_from_folders:
        if not source.is_dir():
            raise InputError(f"{source}: expected a folder to take the labels from its folders, got a file")
        has_splits, held_split = splits_of([row.id for row in rows])
        splits, names = (list(side) for side in zip(*(split_and_class(r.id, has_splits) for r in rows), strict=True))
    if found.skipped:
        log.warning("%d texts cannot be read and are left out; see pool.skipped", len(found.skipped))
    labels, known = encode_labels(names, classes)
    held = np.array([split == held_split for split in splits]) & (labels >= 0)
    stay, test = np.flatnonzero(~held), np.flatnonzero(held)
    if len(stay) == 0:
        raise InputError(f"{source}: expected texts for the pool, got {len(test)} for test only")
    columns = {name: tuple(rows[i].columns.get(name, "") for i in stay) for name in rows[0].columns}
    return Pool(
        tuple(rows[i].text for i in stay),
        labels[stay],
        tuple(rows[i].id for i in stay),
        known or None,
        None if len(test) == 0 else (tuple(rows[i].text for i in test), labels[test]),
        source.resolve().stem,
        "text",
        skipped=tuple((path_, reason) for path_, _, reason in found.skipped),
        columns=columns,
    )
