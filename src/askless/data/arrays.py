"""Pools from numpy's files: .npz with images or features, .npy with either."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from askless.base.errors import InputError, some
from askless.data.pool import Pool, as_pool
from askless.data.rows import Kind
from askless.sources.arrays import DAMAGE, NAMES, load_npy, plain_arrays
from askless.sources.layout import Layout


def npz(
    path: str | PathLike[str],
    kind: Kind | None = None,
    layout: Layout = "auto",
    flip: bool = True,
    with_validation: bool = False,
) -> Pool:
    """The arrays of an .npz file: X and optionally y (-1 = unlabelled), X_test, y_test, ids, classes.

    Also x_train, y_train, x_test, y_test; f_train and f_test for features; train_images, train_labels, test_images,
    test_labels as in MedMNIST, whose val_images stay out of the pool unless `with_validation`. Features
    become float32. An .npy file holds X alone and stays on disk, read as needed; its ids may stand in ids.txt beside it,
    one per line. Pickled objects are refused.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file}: expected an .npz or .npy file, got nothing there")
    if file.suffix == ".npy":
        listed = file.with_name("ids.txt")
        ids = tuple(listed.read_text(encoding="utf-8").splitlines()) if listed.exists() else None
        return as_pool(load_array(file), ids=ids, name=file.stem, kind=kind, layout=layout, flip=flip)
    arrays = plain_arrays(file)
    names = next((names for names in NAMES if names[0] in arrays), None)
    if names is None:
        wanted = ", ".join(dict.fromkeys(names[0] for names in NAMES))
        raise InputError(f"{file}: expected an array named {wanted}, got {some(arrays) or 'none'}; rename one of them")
    x, y, test_x, test_y = (arrays.get(name) for name in names)
    test = None if test_x is None or test_y is None else (as_float32(test_x), test_y)
    ids, classes = (tuple(map(str, arrays[key])) if key in arrays else None for key in ("ids", "classes"))
    assert x is not None
    if with_validation:
        x, y = joined(file, arrays, x, y)
    return as_pool(
        as_float32(x), y, test=test, ids=ids, classes=classes, name=file.stem, kind=kind, layout=layout, flip=flip
    )


def joined(file: Path, arrays: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray | None) -> tuple[Any, Any]:
    """The pool with the validation items of MedMNIST behind it."""
    more = [arrays.get(name) for name in ("val_images", "val_labels")]
    if y is None or more[0] is None or more[1] is None:
        raise InputError(f"{file}: expected val_images and val_labels to join to the pool, got {some(arrays)}")
    return np.concatenate([x, more[0]]), np.concatenate([y, more[1]])


def load_array(file: Path) -> np.ndarray:
    try:
        return load_npy(file)
    except DAMAGE as error:
        raise InputError(
            f"{file}: expected an .npy file with a plain array, got another ({str(error)[:300]})"
        ) from None


def as_float32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype == np.float16 else x
