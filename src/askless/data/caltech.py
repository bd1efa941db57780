"""Caltech-101: photographs in a folder for each class."""

from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from askless.base.errors import InputError
from askless.base.rng import Seed, stream
from askless.data.fetch import locate
from askless.data.files import Progress, Size, split_off, take
from askless.data.pool import Pool, encode_labels
from askless.sources import Skipped
from askless.sources.folders import image_folder

CLUTTER = "BACKGROUND_Google"


def caltech101(
    path: str | PathLike[str] | None = None,
    size: Size = 64,
    test: float = 0.2,
    seed: Seed = 0,
    lazy: bool = False,
    background: bool = False,
    progress: Progress | None = None,
) -> Pool:
    """Caltech-101: 8,677 photographs of 101 classes, a share `test` of each class held out at random.

    The clutter class BACKGROUND_Google is left out unless `background`.
    """
    if not 0 <= test < 1:
        raise InputError(f"test: expected a share from 0 to below 1, got {test}")
    if path is not None and Path(path).name == "101_ObjectCategories":
        path = Path(path).parent
    source = image_folder(locate("caltech101", path) / "101_ObjectCategories", labels_from_folders=True)
    found = [each for each in source.found if isinstance(each, Skipped) or background or each.label != CLUTTER]
    taken = take(replace(source, found=found), size, lazy, progress)
    labels, classes = encode_labels([item.label for item in taken.items])
    rng = stream(seed, "caltech101 test")
    held = np.zeros(len(labels), bool)
    for k in range(len(classes)):
        members = rng.permutation(np.flatnonzero(labels == k))
        held[members[: round(test * len(members))]] = True
    return split_off(taken, labels, classes, held, "caltech101")
