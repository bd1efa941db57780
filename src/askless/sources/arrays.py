"""numpy's files as people have them -> images or features, with their ids and labels."""

import math
import os
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.lib.npyio import NpzFile

from askless.base.errors import InputError, some
from askless.sources.items import Item, Source
from askless.sources.layout import as_images
from askless.sources.limits import check_bytes
from askless.sources.names import check_names, in_order, is_text, label_numbers

# The names of pool, labels, test items and test labels, in the order they are looked for.
NAMES = (
    ("X", "y", "X_test", "y_test"),
    ("x", "y", "x_test", "y_test"),
    ("x_train", "y_train", "x_test", "y_test"),
    ("f_train", "y_train", "f_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
)
DAMAGE = (
    *(ValueError, TypeError, EOFError, OSError, OverflowError, RuntimeError, MemoryError, zipfile.BadZipFile),
    *(zlib.error, SyntaxError, TokenError),  # a header is a Python literal, which numpy takes apart
)
NEVER = "askless never unpickles; save them as numbers or text"
LOCAL_HEADER = 30  # bytes that stand before each file of a zip archive, without its name


def read_arrays(file: Path) -> Source:
    """X and what else is there of y (-1 = unlabelled), ids and classes; X alone from .npy, its ids from ids.txt beside it.

    X has images (N, C, H, W), uint8 or float, or features (N, d), float, and stays on disk where it can. Other names for X
    and y are those of `NAMES`. Numbers in y are places in the file's `classes`, else names themselves. Pickled objects are
    refused.
    """
    wanted = tuple({name for names in NAMES for name in names[:2]} | {"ids", "classes"})
    found = {"X": load_npy(file)} if is_npy(file) else load_npz(file, wanted, mapped=True)
    if is_npy(file) and (listed := listed_ids(file)) is not None:
        found["ids"] = np.array(listed, dtype=str)
    names = names_of(file, found)
    used = (names[0], names[1], "ids", "classes")
    x, y, ids, own_classes = (found.get(name) for name in used)
    assert x is not None
    kind, x = images_or_features(file, x)
    known = None if own_classes is None else texts_of(file, "classes", own_classes)
    labels = row_labels(file, y, len(x), known)
    own = map(str, range(len(x))) if ids is None else texts_of(file, "ids", ids, len(x))
    items = (Item(name, row, label) for row, (name, label) in enumerate(zip(own, labels, strict=True)))
    classes = in_order(labels) if known is None else known
    unused = [name for name in found if name not in used]
    hints = (f"not used from {file.name}: {', '.join(unused)}",) if unused else ()
    return Source(kind, Path(os.path.realpath(file)), items, classes=classes, hints=hints, array=x)


def is_npy(file: Path) -> bool:
    return file.suffix.lower() == ".npy"


def names_of(file: Path, found: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """The names of `NAMES` that a file uses."""
    names = next((names for names in NAMES if names[0] in found), None)
    if names is None:
        wanted = ", ".join(dict.fromkeys(names[0] for names in NAMES))
        raise InputError(f"{file}: expected an array named {wanted}, got {some(found) or 'none'}; rename one of them")
    return names


@contextmanager
def refusing_bad_arrays(file: Path, what: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{file}: expected an {what}, found nothing there") from None
    except DAMAGE as error:
        why = str(error)[:300]
        if NEVER not in why and ("pickle" in why or "Python objects" in why):
            why = f"Python objects or another format, which {NEVER}"
        raise InputError(f"{file}: expected an {what}, got another ({why})") from None


def load_npy(file: Path) -> np.ndarray:
    """The array of an .npy file, mapped."""
    with refusing_bad_arrays(file, ".npy file with a plain array"):
        x = np.load(file, mmap_mode="r", allow_pickle=False)
        if not isinstance(x, np.ndarray):
            x.close()
            raise TypeError("an archive; rename it to .npz")
        check_characters(x)
        return x


def load_npz(file: Path, names: Collection[str] | None = None, mapped: bool = False) -> dict[str, Any]:
    """The arrays of an .npz file by name, None for those that are not among `names`. They are in memory, or with `mapped`
    on disk where they are stored plainly."""
    with refusing_bad_arrays(file, ".npz file of plain arrays"), file.open("rb") as raw:
        content = np.load(raw, allow_pickle=False)
        if not isinstance(content, NpzFile):
            raise TypeError("one array; rename it to .npy")
        arrays: dict[str, Any] = dict.fromkeys(content.files)
        headers = {name: header_of(content, name) for name in content.files}
        wanted = [name for name in content.files if names is None or name in names]
        check_bytes(file, sum(headers[name].size for name in wanted if headers[name].is_packed))
        for name in wanted:
            arrays[name] = map_array(file, headers[name]) if mapped and headers[name].is_plain else content[name]
            check_characters(arrays[name])
        return arrays


def check_characters(array: np.ndarray) -> None:
    """An error for texts with characters beyond Unicode's last, on which numpy itself fails later."""
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if codes.max() > sys.maxunicode:
            raise ValueError("texts with invalid characters")


class Header(NamedTuple):
    """What an .npz file says of an array. Where it is not packed, it begins `start` bytes behind the header of its zip
    entry, which lies at `entry`."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype
    is_packed: bool
    entry: int
    start: int

    @property
    def size(self) -> int:
        """The bytes that it takes in memory, at least one for each number or text."""
        return math.prod(self.shape) * max(1, self.dtype.itemsize)

    @property
    def is_plain(self) -> bool:
        return not self.is_packed and self.shape != () and 0 not in self.shape and self.dtype.itemsize > 0


def header_of(content: NpzFile, name: str) -> Header:
    """An error if the array holds Python objects."""
    archive = content.zip
    assert archive is not None
    try:
        info = archive.getinfo(name)
    except KeyError:
        info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as stream:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, dtype = read_header(stream)
        start = stream.tell()
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which {NEVER}")
    is_packed = info.compress_type != zipfile.ZIP_STORED
    return Header(shape, "F" if is_fortran else "C", dtype, is_packed, info.header_offset, start)


def map_array(file: Path, header: Header) -> np.ndarray:
    with file.open("rb") as raw:
        raw.seek(header.entry)
        local = raw.read(LOCAL_HEADER)
    lengths = int.from_bytes(local[26:28], "little"), int.from_bytes(local[28:30], "little")  # of name, extra fields
    start = header.entry + LOCAL_HEADER + sum(lengths) + header.start
    return np.memmap(file, header.dtype, "r", start, header.shape, header.order)


def images_or_features(file: Path, x: np.ndarray) -> tuple[Literal["images", "features"], np.ndarray]:
    if x.ndim == 0 or len(x) == 0:
        raise InputError(f"{file}: expected rows (N, ...), got shape {x.shape}")
    is_float = x.dtype.kind == "f"
    if (x.dtype == np.uint8 and x.ndim in (3, 4)) or (is_float and x.ndim == 4):
        try:
            return "images", np.asarray(as_images(x))
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
    if is_float and x.ndim == 2:
        return "features", x
    raise InputError(
        f"{file}: expected images (N, H, W), (N, H, W, 3) or (N, 3, H, W) of uint8, float images (N, 3, H, W) in [0, 1], or "
        f"float features (N, d), got {x.dtype} of shape {x.shape}; convert it"
    )


def texts_of(file: Path, what: str, array: np.ndarray, N: int | None = None) -> tuple[str, ...]:
    """Distinct texts from an array of texts or whole numbers."""
    if array.ndim != 1 or array.dtype.kind not in "Uiu":
        raise InputError(f"{file}: {what}: expected texts (n,), got {array.dtype} of shape {array.shape}")
    return check_names(f"{file}: {what}", tuple(map(str, array)), N)


def listed_ids(file: Path) -> tuple[str, ...] | None:
    """The lines of ids.txt beside an .npy file, where it is there."""
    listed = file.with_name("ids.txt")
    try:
        return tuple(listed.read_text(encoding="utf-8").splitlines()) if listed.exists() else None
    except UnicodeDecodeError:
        raise InputError(f"{listed}: expected UTF-8 text, got something else; save it as UTF-8") from None


def row_labels(file: Path, y: np.ndarray | None, N: int, classes: tuple[str, ...] | None) -> tuple[str, ...]:
    """One class name per row, "" where unknown."""
    if y is None:
        return ("",) * N
    if y.dtype.kind == "U" and y.shape == (N,):
        if not all(map(is_text, map(str, y))):
            raise InputError(f"{file}: labels: expected Unicode texts, got incomplete characters; save them again")
        return tuple(map(str, y))
    known = label_numbers(f"{file}: labels", y, N, classes).tolist()
    return tuple("" if k < 0 else str(k) if classes is None else classes[k] for k in known)
