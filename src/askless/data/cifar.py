"""CIFAR-10 and CIFAR-100: the binary batches and the pickled ones."""

import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from askless.base.errors import InputError
from askless.data.fetch import locate
from askless.data.pool import Pool

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32

# What the pickle of an array of bytes names, as a word for each: none of it is ever imported or called. numpy has had its
# modules under two names, and `encode` is how Python 3 writes bytes in old protocols.
NAMED = {
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "reconstruct",
    "numpy._core.multiarray _reconstruct": "reconstruct",
    "_codecs encode": "encode",
}
VALUES = {
    *("NONE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "NEWTRUE", "NEWFALSE"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
MAKING = {
    *("PROTO", "FRAME", "MARK", "STOP", "EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM"),
    *("SETITEMS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "REDUCE", "BUILD"),
}


@dataclass(frozen=True)
class Name:
    """A word of `NAMED`, or "" for what a pickle would make of the values before."""

    word: str


# An array of bytes, as the values of its pickle follow each other: a shape, whether it lies by columns, and its bytes.
BEFORE_SHAPE = [Name("reconstruct"), Name("ndarray"), 0, "b", 1]
AFTER_SHAPE = [Name("dtype"), "u1", 0, 1, 3, "|", None, None, None, -1, -1, 0]


def cifar10(path: str | PathLike[str] | None = None) -> Pool:
    """CIFAR-10: 50,000 images and 10,000 for test, (3, 32, 32) uint8, 10 classes.

    >>> pool = al.data.cifar10()  # doctest: +SKIP
    """
    place, names = locate("cifar10", path), (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
    if (place / "data_batch_1.bin").exists():
        batches = [read_records(place / f"{name}.bin", 1) for name in names]
    else:
        batches = [read_pickled(place / name, "labels") for name in names]
    return from_batches("cifar10", batches, CIFAR10_CLASSES)


def cifar100(path: str | PathLike[str] | None = None, labels: Literal["fine", "coarse"] = "fine") -> Pool:
    """CIFAR-100: 50,000 images and 10,000 for test, (3, 32, 32) uint8, 100 fine or 20 coarse classes.

    >>> pool = al.data.cifar100()  # doctest: +SKIP
    """
    if labels not in ("fine", "coarse"):
        raise InputError(f"labels: expected 'fine' or 'coarse', got {labels!r}")
    place = locate("cifar100", path)
    if (place / "train.bin").exists():
        names = place / f"{labels}_label_names.txt"
        classes = tuple(names.read_text().split()) if names.exists() else None
        column = 1 if labels == "fine" else 0
        batches = [read_records(place / f"{part}.bin", 2, column) for part in ("train", "test")]
    else:
        classes = read_names(place / "meta", f"{labels}_label_names")
        batches = [read_pickled(place / part, f"{labels}_labels") for part in ("train", "test")]
    return from_batches("cifar100", batches, classes)


def from_batches(name: str, batches: list[tuple[np.ndarray, np.ndarray]], classes: tuple[str, ...] | None) -> Pool:
    """The last batch is the test set."""
    x, y = (np.concatenate(parts) for parts in zip(*batches[:-1], strict=True))
    test_x, test_y = batches[-1]
    return Pool(torch.from_numpy(x), y, None, classes, (torch.from_numpy(test_x), test_y), name, "image")


def read_records(path: Path, label_bytes: int, column: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N,) labels of a binary batch: each record is labels, then R, G, B planes."""
    content = np.fromfile(path, np.uint8)
    record = label_bytes + PIXELS
    if len(content) == 0 or len(content) % record:
        raise InputError(f"{path}: expected records of {record} bytes, got {len(content)} bytes; download it again")
    rows = content.reshape(-1, record)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32).copy(), rows[:, column].astype(np.int64)


def read_pickled(path: Path, key: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N,) labels of a pickled batch."""
    found = read_values(path)
    data, labels = array_in(found), list(takewhile(lambda value: type(value) is int, after(found, key)))
    if data is None or data.shape[1:] != (PIXELS,) or key not in found:
        raise InputError(
            f"{path}: expected a pickled dict with data (N, {PIXELS}) uint8 and {key}, got another file; fetch the official "
            "one"
        )
    if len(labels) != len(data) or not all(0 <= k < 256 for k in labels):
        raise InputError(f"{path}: {key}: expected {len(data)} whole numbers from 0 to 255, got others; fetch it again")
    return data.reshape(-1, 3, 32, 32).copy(), np.array(labels, np.int64)  # a copy: the file's bytes are read-only


def read_names(path: Path, key: str) -> tuple[str, ...]:
    """A list of class names in the pickle `meta`."""
    found = tuple(takewhile(lambda name: not str(name).endswith("_label_names"), after(read_values(path), key)))
    if not found or not all(isinstance(name, str) for name in found):
        raise InputError(f"{path}: expected a list of names in {key}, got another file; fetch the official one")
    return found


# --- pickles, without unpickling


def read_values(path: Path) -> list[Any]:
    """The texts, numbers, bytes and names that stand in a pickle of CIFAR, in order.

    What the pickle would make of them is not made: Python's own unpickler has no part in it, however restricted, for the
    state of a pickled dtype can hide a field of objects in what looks like bytes, and numpy would follow pointers that the
    file has chosen. Here a name is a word, and whatever else a pickle can say is refused.
    """
    found: list[Any] = []
    memo: dict[int, Any] = {}
    last: Any = Name("")
    try:
        given: Any
        for opcode, given, _ in pickletools.genops(path.read_bytes()):
            name = opcode.name
            if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if name == "MEMOIZE" else given] = last
                continue
            if name in VALUES:
                last = CONSTANTS.get(name, given)
            elif name in ("GET", "BINGET", "LONG_BINGET"):
                last = memo[given]
            elif name in ("GLOBAL", "STACK_GLOBAL"):
                last = word_for([given] if name == "GLOBAL" else [found.pop(), found.pop()][::-1])
            elif name in MAKING:
                last = Name("")
                continue
            else:
                raise ValueError(f"it has the opcode {name}")
            if last == "latin1" and found[-2:-1] == [Name("encode")]:
                del found[-2]  # encode(text, "latin1") is the text
            else:
                found.append(last)
    except (
        ValueError,
        IndexError,
        KeyError,
        DeprecationWarning,
    ) as error:  # the last by an escape that Python gives up
        raise InputError(
            f"{path}: expected a pickled batch of CIFAR with arrays of bytes and lists only, got another file ({error}); it "
            "was not loaded; fetch the official one"
        ) from None
    return found


def word_for(words: list[Any]) -> Name:
    wanted = " ".join(word for word in words if isinstance(word, str))
    if wanted not in NAMED:
        raise ValueError(f"it asks for {wanted[:80].replace(' ', '.')}")
    return Name(NAMED[wanted])


def after(found: list[Any], key: str) -> Iterator[Any]:
    return islice(found, found.index(key) + 1, None) if key in found else iter(())


def array_in(found: list[Any]) -> np.ndarray | None:
    """The array of bytes that follows `data`; None where the values do not follow each other as those of one do."""
    values: list[Any] = ["b" if value == b"b" else value for value in islice(after(found, "data"), 21)]
    if len(values) < 21 or values[:5] != BEFORE_SHAPE or values[7:19] != AFTER_SHAPE:
        return None
    rows, columns, by_columns, data = *values[5:7], *values[19:]
    content = data.encode("latin1", "ignore") if isinstance(data, str) else data
    is_shape = all(type(n) is int and n >= 0 for n in (rows, columns))
    if not is_shape or not isinstance(content, bytes) or len(content) != rows * columns:
        return None
    flat = np.frombuffer(content, np.uint8)
    return flat.reshape(columns, rows).T if by_columns is True else flat.reshape(rows, columns)
