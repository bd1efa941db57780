"""Names that people give to columns, splits and classes."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from askless.base.errors import InputError, some

PATH_NAMES = ("path", "file_name", "filename", "image", "file")
LABEL_NAMES = ("label", "class", "category", "target")
TEXT_NAMES = ("text",)
TEST_NAMES = ("test", "val", "valid", "validation")  # of splits that are held out, the first that is there


def label_text(value: Any) -> str:
    """A label of a table as text: "" where it is unknown (None, NaN, "", or the number -1).

    >>> [label_text(v) for v in (None, float("nan"), -1, " dog ", 3, 3.0, 2.5, True, "-1")]
    ['', '', '', 'dog', '3', '3', '2.5', 'True', '-1']
    """
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():  # a column of whole numbers of which some are missing
        value = int(value)
    return "" if value == -1 and not isinstance(value, str) else str(value).strip()


def is_text(name: str) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(name: str) -> str:
    """The name, or a spelling of it in ASCII where it is not valid UTF-8."""
    return name if is_text(name) else ascii(name)


def usual_column(header: Sequence[str], names: tuple[str, ...], but: str = "") -> str:
    """The first column that has one of the names, in their order; "" where none has."""
    return next((c for name in names for c in header if c.lower() == name and c != but), "")


def pick_column(header: Sequence[str], names: tuple[str, ...], file: Path, given: str = "", what: str = "") -> str:
    """The column that is named, or has one of the usual names; an error where there is none."""
    if given and given not in header:
        raise InputError(f"{file}: expected a column {given!r} of {what}, got {some(header)}; choose one of these")
    found = given or usual_column(header, names)
    if not found:
        raise InputError(f"{file}: expected a column {' or '.join(names)}, got {some(header)}; rename one of them")
    return found


def label_column(header: Sequence[str], file: Path, given: str = "", but: str = "") -> str:
    """The column of the labels; "" where there is none."""
    has_one = given or usual_column(header, LABEL_NAMES, but)
    return pick_column(header, LABEL_NAMES, file, has_one, "labels") if has_one else ""


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct names without "": by number where all are numbers, else by alphabet.

    >>> in_order(["10", "9", "", "9"])
    ('9', '10')
    """
    distinct = sorted(set(names) - {""})
    return tuple(sorted(distinct, key=int) if all(name.isdecimal() for name in distinct) else distinct)


def splits_and_classes(names: Sequence[str], more: tuple[str, ...] = ()) -> tuple[list[tuple[str, str]], str]:
    """The split and the class that the folders of each path name, "" where there is none; and which split is held out.

    The class is the first folder, or the second where the first ones are splits: `train` and those of `TEST_NAMES` and
    `more`.

    >>> splits_and_classes(["cat/1.png", "dog/old/2.png", "3.png"])
    ([('', 'cat'), ('', 'dog'), ('', '')], 'test')
    >>> splits_and_classes(["train/cat/1.png", "val/cat/2.png"])
    ([('train', 'cat'), ('val', 'cat')], 'val')
    """
    tops = {name.partition("/")[0].lower() if "/" in name else "" for name in names}
    has_splits = "train" in tops and tops <= {"train", *TEST_NAMES, *more}
    sides = []
    for name in names:
        folders = name.split("/")[:-1]
        split = folders.pop(0).lower() if has_splits else ""
        sides.append((split, folders[0] if folders else ""))
    return sides, next((split for split in TEST_NAMES if split in tops), "test")


def label_numbers(what: str, labels: np.ndarray, N: int, classes: Sequence[str] | None) -> np.ndarray:
    """(N,) int64, a copy; (N, 1) is flattened."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (N,):
        hint = "; pass y.argmax(axis=1)" if labels.ndim == 2 and len(labels) == N else "; pass a label, or -1, for each"
        raise InputError(f"{what}: expected one per item, shape ({N},), got {labels.shape}{hint}")
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"{what}: expected whole numbers, -1 = unknown, got dtype {labels.dtype}; use "
            "np.nan_to_num(y, nan=-1).astype('int64')"
        )
    labels = labels.astype(np.int64)
    if labels.min() < -1:
        raise InputError(f"{what}: expected whole numbers >= -1, got {labels.min()} at place {labels.argmin()}")
    if classes is not None and labels.max() >= len(classes):
        raise InputError(
            f"{what}: expected numbers below {len(classes)}, the number of classes, got {labels.max()} at place "
            f"{labels.argmax()}"
        )
    return labels


def check_names(what: str, given: Sequence[str], N: int | None = None) -> tuple[str, ...]:
    """Distinct texts, N of them where N is given."""
    names = tuple(given)
    if N is not None and len(names) != N:
        raise InputError(f"{what}: expected one per item, {N}, got {len(names)}")
    seen: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{what}: expected text, got {name!r}; use str(...)")
        if name in seen:
            raise InputError(f"{what}: expected each name once, got {name!r} twice")
        if not is_text(name):
            raise InputError(f"{what}: expected Unicode text, got {name!a}; save it again")
        seen.add(name)
    return names
