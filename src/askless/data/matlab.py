"""SVHN: cropped street-view house numbers, in MATLAB's format."""

import math
import struct
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from askless.base.errors import InputError
from askless.data.fetch import locate
from askless.data.idx import DIGIT_CLASSES
from askless.data.pool import Pool
from askless.sources.limits import CHUNK, check_bytes


def svhn(path: str | PathLike[str] | None = None) -> Pool:
    """SVHN: 73,257 images and 26,032 for test, (3, 32, 32) uint8, without the "extra" ones; flips off.

    >>> pool = al.data.svhn()  # doctest: +SKIP
    """
    place = locate("svhn", path)
    x, y = read_mat(place / "train_32x32.mat")
    test_x, test_y = read_mat(place / "test_32x32.mat")
    return Pool(torch.from_numpy(x), y, None, DIGIT_CLASSES, (torch.from_numpy(test_x), test_y), "svhn", "image", False)


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N,) labels; the file has X (32, 32, 3, N) and y (N, 1) from 1 to 10, where 10 is a 0."""
    try:
        content = read_numbers(path.read_bytes(), ("X", "y"), path)
    except (struct.error, ValueError, zlib.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: expected a MATLAB file, got another or a damaged one ({error}); fetch it again"
        ) from None
    x, y = content.get("X"), content.get("y")
    if x is None or y is None or x.ndim != 4 or x.shape[2] != 3 or y.size != x.shape[3] or x.dtype != np.uint8:
        found = ", ".join(f"{k} {v.shape}" for k, v in content.items())
        raise InputError(f"{path}: expected X (32, 32, 3, N) uint8 and y (N, 1), got {found or 'neither'}")
    with np.errstate(invalid="ignore"):  # NaN and the like are out of bounds below
        labels = y.reshape(-1).astype(np.int64)
    if x.size == 0 or labels.min() < 1 or labels.max() > 10:
        got = f"{labels.min()} to {labels.max()}" if x.size else "none"
        raise InputError(f"{path}: expected labels from 1 to 10, got {got}")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), labels % 10


# --- MATLAB's format, version 5: elements of a type, a length and data, aligned to 8 bytes

NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}  # types of data
MATRIX, PACKED = 14, 15
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}  # of numbers
COMPLEX = 0x0800


def read_numbers(content: bytes, names: tuple[str, ...], path: Path) -> dict[str, np.ndarray]:
    """The arrays of plain numbers with these names.

    Not by scipy's reader: that also makes cells, structs and objects, each inside another, and a file with enough of them
    ends the process.
    """
    if len(content) < 128 or content[126:128] not in (b"IM", b"MI"):
        raise ValueError("it does not start like version 5")
    order = "<" if content[126:128] == b"IM" else ">"
    found = {}
    for kind, data in elements(content[128:], order):
        if kind == PACKED:
            kind, data = next(elements(unpacked(data, path), order), (0, b""))
        if kind == MATRIX:
            name, array = matrix(data, order, names)
            if array is not None:
                found[name] = array
    return found


def elements(content: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start = at + 8
        if kind >> 16:  # a small one: its data stand in the place of its length
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if size > len(content) - start or (start == at + 4 and size > 4):
            raise ValueError("it ends too early")
        yield kind, content[start : start + size]
        at = start + size if kind == PACKED else -(-(start + size) // 8) * 8


def unpacked(data: bytes, path: Path) -> bytes:
    stream, parts, total = zlib.decompressobj(), [], 0
    while data and not stream.eof:
        parts.append(stream.decompress(data, CHUNK))
        data = stream.unconsumed_tail
        total += len(parts[-1])
        check_bytes(path, total)
    return b"".join(parts)


def matrix(content: bytes, order: str, names: tuple[str, ...]) -> tuple[str, np.ndarray | None]:
    """The name of a matrix, and its numbers where they are wanted and are numbers."""
    parts = elements(content, order)
    flags, sides, name = (next(parts, (0, b""))[1] for _ in range(3))
    (about,) = struct.unpack_from(f"{order}I", flags)
    called = name.decode("latin1")
    if called not in names:
        return called, None
    shape = struct.unpack(f"{order}{len(sides) // 4}i", sides)
    kind, data = next(parts, (0, b""))
    if about & 0xFF not in CLASSES or about & COMPLEX or kind not in NUMBERS or min(shape, default=-1) < 0:
        raise ValueError(f"{called} is not an array of numbers")
    numbers = np.frombuffer(data, f"{order}{NUMBERS[kind]}")
    if len(numbers) != math.prod(shape):
        raise ValueError(f"{called} has {len(numbers)} numbers for shape {shape}")
    with np.errstate(invalid="ignore"):
        return called, numbers.astype(CLASSES[about & 0xFF]).reshape(shape, order="F")
