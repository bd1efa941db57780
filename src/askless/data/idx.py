"""MNIST and Fashion-MNIST: the idx format, plain or gzipped."""

import math
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from askless.base.errors import InputError
from askless.data.fetch import IDX, locate, stored
from askless.data.pool import Pool
from askless.sources.limits import read_plain

FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
DIGIT_CLASSES = tuple("0123456789")


def mnist(path: str | PathLike[str] | None = None) -> Pool:
    """MNIST: 60,000 handwritten digits and 10,000 for test, (1, 28, 28) uint8; flips off.

    >>> pool = al.data.mnist()  # doctest: +SKIP
    """
    return from_idx("mnist", path, DIGIT_CLASSES, flip=False)


def fashion_mnist(path: str | PathLike[str] | None = None) -> Pool:
    """Fashion-MNIST: 60,000 pieces of clothing and 10,000 for test, (1, 28, 28) uint8.

    >>> pool = al.data.fashion_mnist()  # doctest: +SKIP
    """
    return from_idx("fashion-mnist", path, FASHION_CLASSES, flip=True)


def from_idx(name: str, path: str | PathLike[str] | None, classes: tuple[str, ...], flip: bool) -> Pool:
    place = locate(name, path)
    files = [file for file in (stored(place, file) for file in IDX) if file is not None]
    x, y, test_x, test_y = (read_idx(file) for file in files)
    for images, labels, file in ((x, y, files[0]), (test_x, test_y, files[2])):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise InputError(
                f"{file}: expected images (N, H, W) and labels (N,), got {images.shape} and {labels.shape}"
            )
    test = (torch.from_numpy(test_x)[:, None], test_y)
    return Pool(torch.from_numpy(x)[:, None], y, None, classes, test, name, "image", flip)


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file of unsigned bytes: 0, 0, 8, number of axes, their lengths as big-endian int32, the data."""
    content = read_plain(path)
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise InputError(f"{path}: expected an idx file of bytes, got one that starts with {content[:4].hex(' ')}")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    data = np.frombuffer(content, np.uint8)[start:]
    if len(content) < start or len(data) != math.prod(shape):
        raise InputError(
            f"{path}: expected {math.prod(shape)} bytes for shape {shape}, got {len(data)}; download it again"
        )
    return data.reshape(shape).copy()
