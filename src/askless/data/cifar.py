"""CIFAR-10 and CIFAR-100: the binary batches and the pickled ones."""

import pickletools
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from askless.base.errors import InputError, some
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
BYTES_STATE = (3, "|", None, None, None, -1, -1, 0)  # of the dtype u1: no fields, no objects
VALUES = {
    *("NONE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "NEWTRUE", "NEWFALSE"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}


def cifar10(path: str | PathLike[str] | None = None) -> Pool:
    """CIFAR-10: 50,000 images and 10,000 for test, (3, 32, 32) uint8, 10 classes."""
    place = locate("cifar10", path)
    if (place / "data_batch_1.bin").exists():
        train = [read_records(place / f"data_batch_{i}.bin", label_bytes=1) for i in range(1, 6)]
        test = read_records(place / "test_batch.bin", label_bytes=1)
        return from_batches("cifar10", [(x, y[:, 0]) for x, y in train], (test[0], test[1][:, 0]), CIFAR10_CLASSES)
    pickled = [read_pickled(place / f"data_batch_{i}", "labels") for i in range(1, 6)]
    return from_batches("cifar10", pickled, read_pickled(place / "test_batch", "labels"), CIFAR10_CLASSES)


def cifar100(path: str | PathLike[str] | None = None, labels: Literal["fine", "coarse"] = "fine") -> Pool:
    """CIFAR-100: 50,000 images and 10,000 for test, (3, 32, 32) uint8, 100 fine or 20 coarse classes."""
    if labels not in ("fine", "coarse"):
        raise InputError(f"labels: expected 'fine' or 'coarse', got {labels!r}")
    place = locate("cifar100", path)
    if (place / "train.bin").exists():
        column = 1 if labels == "fine" else 0
        (x, y), (test_x, test_y) = (read_records(place / f"{part}.bin", label_bytes=2) for part in ("train", "test"))
        names = place / f"{labels}_label_names.txt"
        classes = tuple(names.read_text().split()) if names.exists() else None
        return from_batches("cifar100", [(x, y[:, column])], (test_x, test_y[:, column]), classes)
    classes = read_names(place / "meta", f"{labels}_label_names")
    train, test = (read_pickled(place / part, f"{labels}_labels") for part in ("train", "test"))
    return from_batches("cifar100", [train], test, classes)


def from_batches(
    name: str,
    train: list[tuple[np.ndarray, np.ndarray]],
    test: tuple[np.ndarray, np.ndarray],
    classes: tuple[str, ...] | None,
) -> Pool:
    x, y = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return Pool(torch.from_numpy(x), y, None, classes, (torch.from_numpy(test[0]), test[1]), name, "image")


def read_records(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N, label_bytes) labels of a binary batch: each record is labels, then R, G, B planes."""
    content = np.fromfile(path, np.uint8)
    record = label_bytes + PIXELS
    if len(content) == 0 or len(content) % record:
        raise InputError(f"{path}: expected records of {record} bytes, got {len(content)} bytes; download it again")
    rows = content.reshape(-1, record)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32).copy(), rows[:, :label_bytes].astype(np.int64)


def read_pickled(path: Path, key: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N,) labels of a pickled batch."""
    batch = read_pickle(path)
    data, labels = batch.get("data"), batch.get(key)
    if not isinstance(data, np.ndarray) or data.shape[1:] != (PIXELS,) or not isinstance(labels, list):
        raise InputError(f"{path}: expected a dict with data (N, {PIXELS}) uint8 and {key}, got {some(batch)}")
    if len(labels) != len(data) or not all(isinstance(k, int) and 0 <= k < 256 for k in labels):
        raise InputError(f"{path}: {key}: expected {len(data)} whole numbers from 0 to 255, got others; fetch it again")
    return data.reshape(-1, 3, 32, 32).copy(), np.array(labels, np.int64)  # a copy: the file's bytes are read-only


def read_names(path: Path, key: str) -> tuple[str, ...]:
    """A list of class names in the pickle `meta`."""
    names = read_pickle(path).get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{path}: expected a list of names in {key}, got another file; fetch the official one")
    return tuple(names)


# --- pickles, without unpickling


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict in a pickle of CIFAR: texts, whole numbers, lists and arrays of bytes by their names."""
    try:
        found = PlainPickle(path.read_bytes()).read()
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
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a pickled dict, got a {type(found).__name__}; fetch the official one")
    return {name: value.pixels if isinstance(value, Array) else value for name, value in found.items()}


@dataclass(frozen=True)
class Name:
    """A word of `NAMED`, or "u1": the dtype of bytes."""

    word: str


class Array:
    """An array of bytes; its pixels come with its state."""

    pixels: np.ndarray | None = None


class PlainPickle:
    """A pickle that is read opcode by opcode, and makes dicts, lists, tuples, texts, bytes, numbers and arrays of bytes.

    Python's own unpickler has no part in it, however restricted: the state of a pickled dtype can hide a field of objects
    in what looks like bytes, and numpy would follow pointers that the file has chosen. Here a name is a word, three calls
    are known, and whatever else a pickle can say is refused.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.spare = len(content)  # bytes that may still be made of texts: a file can name one text many times

    def read(self) -> Any:
        for opcode, given, _ in pickletools.genops(self.content):
            if opcode.name == "STOP":
                return self.pop(1)[0]
            self.step(opcode.name, given)
        raise ValueError("it has no end")

    def step(self, name: str, given: Any) -> None:
        if name in VALUES:
            self.stack.append(CONSTANTS.get(name, given))
        elif name == "MARK":
            self.marks.append(len(self.stack))
        elif name in ("EMPTY_LIST", "LIST"):
            self.stack.append([] if name == "EMPTY_LIST" else self.since_mark())
        elif name in ("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
            n = "123".find(name[-1]) + 1
            self.stack.append(() if name == "EMPTY_TUPLE" else tuple(self.pop(n) if n else self.since_mark()))
        elif name in ("EMPTY_DICT", "DICT"):
            self.stack.append({})
            if name == "DICT":
                self.set_items(self.since_mark(below=1))
        elif name in ("APPEND", "APPENDS"):
            values = self.pop(1) if name == "APPEND" else self.since_mark()
            self.top(list).extend(values)
        elif name in ("SETITEM", "SETITEMS"):
            self.set_items(self.pop(2) if name == "SETITEM" else self.since_mark())
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else given] = self.top()
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[given])
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            self.stack.append(named([given] if name == "GLOBAL" else self.pop(2)))
        elif name == "REDUCE":
            self.stack.append(self.called(*self.pop(2)))
        elif name == "BUILD":
            (state,) = self.pop(1)
            self.build(state)
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"it has the opcode {name}")

    def top(self, kind: type = object) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise ValueError(f"it has no {kind.__name__} where one is filled")
        return self.stack[-1]

    def pop(self, n: int) -> list[Any]:
        if len(self.stack) < n:
            raise ValueError("it takes what is not there")
        values = self.stack[-n:]
        del self.stack[-n:]
        return values

    def since_mark(self, below: int = 0) -> list[Any]:
        """What was put on the stack since the last mark, without the last `below`, which stay."""
        if not self.marks or self.marks[-1] > len(self.stack) - below:
            raise ValueError("it has no mark where one is used")
        at = slice(self.marks.pop(), len(self.stack) - below)
        values = self.stack[at]
        del self.stack[at]
        return values

    def set_items(self, values: list[Any]) -> None:
        items = self.top(dict)
        for name, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(name, str):
                raise ValueError("it has a dict whose keys are not strings")
            items[name] = value

    def called(self, name: Any, given: Any) -> Any:
        if not isinstance(name, Name) or not isinstance(given, tuple):
            raise ValueError("it calls what is no function")
        if name.word == "encode" and len(given) == 2 and given[1] == "latin1":
            return self.as_bytes(given[0])
        if name.word == "dtype" and given == ("u1", 0, 1):
            return Name("u1")
        if name.word == "reconstruct" and len(given) == 3 and given[:2] == (Name("ndarray"), (0,)):
            return Array()
        raise ValueError(f"it calls {name.word} with other values than an array of bytes has")

    def build(self, state: Any) -> None:
        made = self.top()
        if made == Name("u1"):
            if state != BYTES_STATE:
                raise ValueError("it has a dtype that is not one of bytes")
            return
        if not isinstance(made, Array) or not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("it builds what is no array")
        version, shape, kind, is_fortran, data = state
        if version != 1 or kind != Name("u1") or not isinstance(shape, tuple) or len(shape) != 2:
            raise ValueError("it has an array that is not one of bytes with two axes")
        if not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError("it has an array without lengths")
        content = self.as_bytes(data) if isinstance(data, str) else data
        if not isinstance(content, bytes) or len(content) != shape[0] * shape[1]:
            raise ValueError("it has an array whose bytes do not fill its shape")
        flat = np.frombuffer(content, np.uint8)
        made.pixels = flat.reshape(shape[::-1]).T if is_fortran is True else flat.reshape(shape)

    def as_bytes(self, text: Any) -> bytes:
        self.spare -= len(text) if isinstance(text, str) else 0
        if not isinstance(text, str) or self.spare < 0:
            raise ValueError("it makes more bytes than it has")
        return text.encode("latin1")


def named(words: list[Any]) -> Name:
    wanted = " ".join(word for word in words if isinstance(word, str))
    if wanted not in NAMED:
        raise ValueError(f"it asks for {wanted[:80].replace(' ', '.')}")
    return Name(NAMED[wanted])
