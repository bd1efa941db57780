"""Pools from image files: a folder of any depth, and Caltech-101, which is one."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from askless.base.errors import InputError
from askless.base.rng import Seed, stream
from askless.data.fetch import locate
from askless.data.pool import Pool, encode_labels
from askless.sources import UnreadableError, as_size, find_images, image_size, read_image

log = logging.getLogger(__name__)

Size = int | tuple[int, int] | None
Progress = Callable[[int, int], None]
TEST_FOLDERS = ("test", "val", "valid", "validation")


class ImageFiles:
    """A Dataset of image files, each read when it is asked for: (3, H, W) uint8."""

    def __init__(self, paths: Sequence[Path], size: tuple[int, int] | None) -> None:
        self.paths, self.size = tuple(paths), size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        try:
            pixels = read_image(self.paths[index], self.size)
        except UnreadableError as error:
            raise InputError(
                f"{self.paths[index]}: cannot be read any more ({error}); restore it or load anew"
            ) from None
        return torch.from_numpy(pixels).movedim(2, 0).contiguous()  # (H, W, 3) -> (3, H, W)


class Read(NamedTuple):
    """What became of some files: the rows of those that could be read, their places in the list, and the others."""

    x: Tensor | ImageFiles
    kept: list[int]
    skipped: list[tuple[str, str]]


def folder(
    path: str | PathLike[str],
    size: Size = None,
    labels_from_folders: bool = False,
    follow_links: bool = False,
    lazy: bool = False,
    flip: bool = True,
    classes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Pool:
    """All images below `path`, at any depth, as RGB; their ids are the paths relative to it.

    `size` (a side, or height and width) scales each image to cover it and crops the centre; without it all images must
    have one size. `labels_from_folders` takes the first folder below `path` as the class, or the second where the first
    ones are `train` and `test`; then `test` (or else `val`) is held out. Files that cannot be read, and links that leave
    the folder (unless `follow_links`), end in `pool.skipped` with the reason. `lazy` reads the pixels when they are
    needed instead of keeping them all in memory; then only headers are checked. `classes` fixes the order of the classes,
    by default alphabetical.
    """
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{root}: expected a folder of images, got {'a file' if root.exists() else 'nothing there'}")
    found, skipped = find_images(root, follow_links)
    if not found:
        raise InputError(
            f"{root}: expected images (png, jpg, jpeg, webp, bmp, tif, gif), found none"
            + (f"; {len(skipped)} left out, the first: {skipped[0][0]}: {skipped[0][1]}" if skipped else "")
        )
    ids = [file.relative_to(root).as_posix() for file in found]
    read = read_files(found, ids, as_size(size), lazy, progress)
    skipped, name = skipped + read.skipped, root.resolve().name
    ids = [ids[i] for i in read.kept]
    if not labels_from_folders:
        hint_at_classes(ids)
        names = None if classes is None else tuple(classes)
        return Pool(read.x, None, tuple(ids), names, None, name, "image", flip, tuple(skipped))
    return labelled_by_folder(read.x, ids, classes, name, flip, skipped)


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
    root = locate("caltech101", path) / "101_ObjectCategories"
    found, skipped = find_images(root, follow_links=False)
    found = [file for file in found if background or "BACKGROUND_Google" not in file.parts]
    ids = [file.relative_to(root).as_posix() for file in found]
    read = read_files(found, ids, as_size(size), lazy, progress)
    ids = [ids[i] for i in read.kept]
    labels, classes = encode_labels([name.partition("/")[0] for name in ids])
    rng = stream(seed, "caltech101 test")
    held = np.zeros(len(ids), bool)
    for k in range(len(classes)):
        members = rng.permutation(np.flatnonzero(labels == k))
        held[members[: round(test * len(members))]] = True
    return split_off(read.x, ids, labels, classes, held, "caltech101", True, skipped + read.skipped)


def read_files(
    files: Sequence[Path],
    ids: Sequence[str],
    size: tuple[int, int] | None,
    lazy: bool = False,
    progress: Progress | None = None,
) -> Read:
    """The images of one size; unreadable ones are left out, and it is an error when all are."""
    skipped: list[tuple[str, str]] = []
    sizes: dict[int, tuple[int, int]] = {}
    for i, (file, name) in enumerate(zip(files, ids, strict=True)):
        try:
            sizes[i] = image_size(file)
        except UnreadableError as error:
            skipped.append((name, str(error)))
    one_size = size or (only_size(sizes, ids) if sizes else None)
    pixels = []
    kept = list(sizes) if lazy else []
    for done, i in enumerate(() if lazy else sizes):
        try:
            pixels.append(torch.from_numpy(read_image(files[i], one_size)).movedim(2, 0))  # (H, W, 3) -> (3, H, W)
            kept.append(i)
        except UnreadableError as error:
            skipped.append((ids[i], str(error)))
        if progress is not None:
            progress(done + 1, len(sizes))
    if not kept:
        name, reason = skipped[0]
        raise InputError(f"none of {len(files)} images can be read; the first, {name}: {reason}")
    if skipped:
        log.warning("%d of %d images cannot be read and are left out; see pool.skipped", len(skipped), len(files))
    return Read(ImageFiles([files[i] for i in kept], one_size) if lazy else torch.stack(pixels), kept, sorted(skipped))


def only_size(sizes: dict[int, tuple[int, int]], ids: Sequence[str]) -> tuple[int, int]:
    """The one size that all images have; an error tells the sizes found."""
    counts = Counter(sizes.values())
    if len(counts) == 1:
        return next(iter(counts))
    first: dict[tuple[int, int], str] = {}
    for i, shape in sizes.items():
        first.setdefault(shape, ids[i])
    common = "; ".join(f"{w} x {h}: {n} images, such as {first[h, w]}" for (h, w), n in counts.most_common(3))
    raise InputError(
        f"expected images of one size, got {len(counts)} sizes (width x height {common}); pass size=, for example "
        "size=64, to scale and crop them"
    )


def split_and_class(name: str, has_splits: bool) -> tuple[str, str]:
    """The split and the class that a path names; "" where there is none."""
    parts = name.split("/")[:-1]
    split = parts.pop(0).lower() if has_splits and parts else ""
    return split, parts[0] if parts else ""


def splits_of(ids: Sequence[str]) -> tuple[bool, str]:
    """Whether the first folders of these paths are splits, and which of them is held out."""
    tops = {each.partition("/")[0].lower() if "/" in each else "" for each in ids}
    has_splits = "train" in tops and tops <= {"train", *TEST_FOLDERS}
    return has_splits, next((split for split in TEST_FOLDERS if split in tops), "test")


def labelled_by_folder(
    x: Tensor | ImageFiles,
    ids: list[str],
    classes: Sequence[str] | None,
    name: str,
    flip: bool,
    skipped: list[tuple[str, str]],
) -> Pool:
    has_splits, held_split = splits_of(ids)
    splits, names = zip(*(split_and_class(each, has_splits) for each in ids), strict=True)
    if not any(names):
        raise InputError(f"{name}: expected one folder per class below it, found none; leave labels_from_folders out")
    labels, known = encode_labels(names, classes)
    held = (np.array(splits) == held_split) & (labels >= 0)
    return split_off(x, ids, labels, known, held, name, flip, skipped)


def split_off(
    x: Tensor | ImageFiles,
    ids: list[str],
    labels: np.ndarray,
    classes: tuple[str, ...],
    held: np.ndarray,
    name: str,
    flip: bool,
    skipped: list[tuple[str, str]],
    columns: dict[str, list[str]] | None = None,
) -> Pool:
    """A pool whose items marked in `held` (N,) are its test set."""
    stay, test = np.flatnonzero(~held), np.flatnonzero(held)
    if len(stay) == 0:
        raise InputError(f"{name}: expected items for the pool, got {len(test)} for test only")
    return Pool(
        ImageFiles([x.paths[i] for i in stay], x.size) if isinstance(x, ImageFiles) else x[torch.from_numpy(stay)],
        labels[stay],
        tuple(ids[i] for i in stay),
        classes or None,
        None if len(test) == 0 else (rows_at(x, test), labels[test]),
        name,
        "image",
        flip,
        tuple(skipped),
        {column: tuple(values[i] for i in stay) for column, values in (columns or {}).items()},
    )


def rows_at(x: Tensor | ImageFiles, at: np.ndarray) -> Tensor:
    return x[torch.from_numpy(at)] if isinstance(x, Tensor) else torch.stack([x[int(i)] for i in at])


def hint_at_classes(ids: Sequence[str]) -> None:
    """Says so when the folder looks like one folder per class: a camera's folders are not classes, so nobody assumes."""
    tops = Counter(name.partition("/")[0] for name in ids if "/" in name)
    if len(tops) >= 2 and sum(tops.values()) == len(ids):
        log.info("the images lie in %d folders; pass labels_from_folders=True if these are classes", len(tops))
