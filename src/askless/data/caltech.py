"""Caltech-101: photographs in a folder for each class."""

from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from askless.base.errors import InputError
from askless.base.rng import Seed, stream
from askless.data.fetch import locate
from askless.data.files import Progress, Size, pool_of
from askless.data.pool import Pool
from askless.data.variants import without
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

    `size`, `lazy` and `progress` as in `folder`.

    >>> pool = al.data.caltech101()  # doctest: +SKIP
    """
    if not 0 <= test < 1:
        raise InputError(f"test: expected a share from 0 to below 1, got {test}")
    if path is not None and Path(path).name == "101_ObjectCategories":
        path = Path(path).parent
    source = image_folder(locate("caltech101", path) / "101_ObjectCategories", labels_from_folders=True)
    found = [each for each in source.found if isinstance(each, Skipped) or background or each.label != CLUTTER]
    pool = pool_of(replace(source, found=found), "caltech101", size, lazy, progress=progress)
    rng = stream(seed, "caltech101 test")
    by_class = [rng.permutation(np.flatnonzero(pool.labels == k)) for k in range(pool.n_classes or 0)]
    held = np.concatenate([members[: round(test * len(members))] for members in by_class])
    return without(pool, np.sort(held)) if len(held) else pool
