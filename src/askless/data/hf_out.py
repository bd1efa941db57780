"""Labels to Hugging Face: a data set on disk that `datasets.load_from_disk` reads, and folders for "imagefolder"."""

import io
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from askless.base.errors import InputError
from askless.base.files import whole_folder
from askless.base.machine import required
from askless.data.pool import Pool
from askless.sources.image_file import pixels_of_row


def save_hf(pool: Pool, folder: str | PathLike[str], labels: Any = None) -> Path:
    """The labelled items of a pool as a DatasetDict on disk: `train`, and `test` where the pool has one.

    `labels`: position -> class number, as `learner.labels` has them, or (N,) with -1 for unknown; by default what the pool
    knows. Images become PNG; the label is a ClassLabel. Needs the package `datasets` (extra `hf`).

    Returns `folder`.

    >>> al.data.save_hf(al.data.digits(), "digits")  # doctest: +SKIP
    """
    classes = named_classes(pool)
    with whole_folder(free(Path(folder))) as place:
        write_datasets(place, labelled_rows(pool, labels, classes), classes, pool.kind)
    return Path(folder)


def save_imagefolder(pool: Pool, folder: str | PathLike[str], labels: Any = None) -> Path:
    """The labelled images of a pool as `train/CLASS/*.png` (and `test/CLASS/*.png`), which
    `datasets.load_dataset("imagefolder", data_dir=folder)` and `al.data.imagefolder` read; `labels` as in `save_hf`.

    Returns `folder`.

    >>> al.data.save_imagefolder(al.data.subset(al.data.digits(), 20), "digits").name
    'digits'
    """
    if pool.kind != "image":
        raise InputError(f"imagefolder: expected a pool of images, got {pool.kind} items; use save_hf")
    classes = named_classes(pool)
    for name in classes:
        if not name or name in (".", "..") or any(c in name for c in "/\\\0"):
            raise InputError(
                f"imagefolder: the class {name!r} cannot be the name of a folder; rename it, or use save_hf"
            )
    with whole_folder(free(Path(folder))) as place:
        for split, rows in labelled_rows(pool, labels, classes).items():
            for number, (_, png, label) in enumerate(rows):
                target = place / split / label / f"{number:06d}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(png)
    return Path(folder)


Labelled = tuple[str, Any, str]  # id, content, class


def labelled_rows(pool: Pool, labels: Any, classes: Sequence[str]) -> dict[str, list[Labelled]]:
    """The labelled items of `train`, and of `test` where the pool has one."""
    known, ids = labels_by_position(pool, labels, classes), pool.ids
    items = [pool.x[i] for i in known] if pool.kind == "text" else pool.take(list(known))
    found = zip(known.items(), items, strict=True)
    splits = {"train": [(str(i) if ids is None else ids[i], content(pool.kind, x), classes[y]) for (i, y), x in found]}
    if pool.test is not None:
        x, y = pool.test
        splits["test"] = [(str(i), content(pool.kind, x[i]), classes[y[i]]) for i in range(len(y))]
    return splits


def write_datasets(place: Path, splits: Mapping[str, Sequence[Labelled]], classes: Sequence[str], kind: str) -> None:
    """Writes splits of (id, bytes of an image or a text or a list of numbers, class) as a DatasetDict into a folder."""
    datasets = required("datasets", "hf")
    types = {"image": datasets.Image(), "text": datasets.Value("string")}
    own = types.get(kind) or datasets.Sequence(datasets.Value("float32"))
    features = datasets.Features(
        {"id": datasets.Value("string"), kind: own, "label": datasets.ClassLabel(names=list(classes))}
    )
    number = {name: i for i, name in enumerate(classes)}
    made = {}
    for split, rows in splits.items():
        values = [{"bytes": x, "path": None} if kind == "image" else x for _, x, _ in rows]
        table = {"id": [i for i, _, _ in rows], kind: values, "label": [number[y] for _, _, y in rows]}
        made[split] = datasets.Dataset.from_dict(table, features=features)
    datasets.DatasetDict(made).save_to_disk(str(place))


def named_classes(pool: Pool) -> tuple[str, ...]:
    if pool.classes is not None:
        return pool.classes
    if pool.n_classes is None:
        raise InputError("the pool has no classes; add them: dataclasses.replace(pool, classes=('cat', 'dog'))")
    return tuple(map(str, range(pool.n_classes)))


def labels_by_position(pool: Pool, labels: Any, classes: Sequence[str]) -> dict[int, int]:
    given = pool.labels if labels is None else labels
    if isinstance(given, Mapping):
        known = {int(i): int(y) for i, y in given.items() if y >= 0}
    else:
        array = np.asarray(given)
        if array.shape != (len(pool),):
            raise InputError(f"labels: expected one per item, shape ({len(pool)},), -1 = unknown, got {array.shape}")
        known = {int(i): int(array[i]) for i in np.flatnonzero(array >= 0)}
    if not known:
        raise InputError("expected at least one labelled item, got none; label some first")
    for i, y in known.items():
        if not 0 <= i < len(pool):
            raise InputError(f"labels: expected positions from 0 to {len(pool) - 1}, got {i}")
        if y >= len(classes):
            raise InputError(
                f"labels: expected numbers of its {len(classes)} classes, {', '.join(classes)}, got {y} for item {i}; "
                "add all classes: dataclasses.replace(pool, classes=(...))"
            )
    return known


def content(kind: str, x: Any) -> Any:
    """An item as `write_datasets` takes it."""
    if kind == "text":
        return x
    array = np.asarray(x)
    if kind != "image":
        return array.astype(np.float32).ravel().tolist()
    return png_bytes(pixels_of_row(array))


def png_bytes(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(out, "PNG")
    return out.getvalue()


def free(out: Path) -> Path:
    """The place, once nothing is there that could be lost."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: expected a new name or an empty folder, got one in use; choose another name")
    return out
