"""A pool by its name or from a path."""

from collections.abc import Callable
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from askless.base.errors import InputError, OptionError
from askless.data.caltech import caltech101
from askless.data.cifar import cifar10, cifar100
from askless.data.files import csv, folder, hf, imagefolder, npz, text, webdataset
from askless.data.idx import fashion_mnist, mnist
from askless.data.matlab import svhn
from askless.data.pool import Pool
from askless.data.texts import reuters, spam_assassin
from askless.data.toy import digits, two_moons
from askless.data.wheel_pools import (
    groceries,
    letter,
    newsgroups,
    r8,
    r52,
    rotten_tomatoes,
    satimage,
    spambase,
    texture,
)
from askless.sources.open import Format, format_of

SOURCES: dict[str, Callable[..., Pool]] = {
    "digits": digits,
    "two-moons": two_moons,
    "fashion-mnist": fashion_mnist,
    "mnist": mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "svhn": svhn,
    "caltech101": caltech101,
    "reuters": reuters,
    "spam-assassin": spam_assassin,
    "rotten-tomatoes": rotten_tomatoes,
    "r8": r8,
    "r52": r52,
    "20newsgroups": newsgroups,
    "groceries": groceries,
    "letter": letter,
    "satimage": satimage,
    "texture": texture,
    "spambase": spambase,
}
BY_FORMAT: dict[Format, Callable[..., Pool]] = {
    "folder": folder,
    "described": imagefolder,
    "listed": csv,
    "texts": text,
    "arrays": npz,
    "arrow": hf,
    "tar": webdataset,
}


def load(what: str | PathLike[str], **options: Any) -> Pool:
    """Load the data set `what`, by its name or from a path: a folder of images or .txt files, a .csv, .tsv, .jsonl,
    .parquet, .npz or .npy file, or a Hugging Face data set on disk. A table without a column of paths is one of texts.

    `options` are those of the source, for example `size` for images.

    >>> load("digits", test=100)
    <Pool digits: 1697 image items of 1 x 8 x 8, 1697 with a label, 10 classes, 100 for test>
    """
    if str(what) in SOURCES:
        return call(SOURCES[str(what)], options)
    if not Path(what).exists():
        raise InputError(f"{str(what)!r}: expected a path, or one of {', '.join(SOURCES)}; got neither")
    found = format_of(Path(what), text=str(options.get("column", "")))
    return call(BY_FORMAT[found], options, Path(what))


def call(source: Callable[..., Pool], options: dict[str, Any], *args: Any) -> Pool:
    accepted = list(signature(source).parameters)[len(args) :]
    for name in options:
        if name not in accepted:
            raise OptionError(f"{source.__name__}: unknown option {name!r}; it has {', '.join(accepted)}")
    return source(*args, **options)
