"""A pool by its name or from a path."""

from collections.abc import Callable
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

from askless.base.errors import InputError, OptionError
from askless.data.arrays import npz
from askless.data.arrow import MARKS, hf, parquet
from askless.data.cifar import cifar10, cifar100
from askless.data.folders import caltech101, folder
from askless.data.idx import fashion_mnist, mnist
from askless.data.imagefolder import METADATA, imagefolder
from askless.data.manifest import csv
from askless.data.matlab import svhn
from askless.data.pool import Pool
from askless.data.tars import webdataset
from askless.data.text_pool import text
from askless.data.texts import reuters, spam_assassin
from askless.data.toy import digits, two_moons
from askless.sources.texts import holds_texts

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
}
SUFFIXES: dict[str, Callable[..., Pool]] = {
    **{".csv": csv, ".tsv": csv, ".npz": npz, ".npy": npz},
    **{".jsonl": text, ".ndjson": text, ".parquet": parquet},
    **{".tar": webdataset, ".gz": webdataset, ".tgz": webdataset},
}


def load(what: str | PathLike[str], **options: Any) -> Pool:
    """The data set with this name, or what is at this path: a folder of images or .txt files, a .csv, .tsv, .jsonl,
    .parquet, .npz or .npy file, or a Hugging Face data set on disk. A table without a column of paths is one of texts.

    `options` are those of the source, for example `size` for images.

    >>> load("digits", test=100)
    <Pool digits: 1697 image items of 1 x 8 x 8, 1697 with a label, 10 classes, 100 for test>
    """
    path = Path(what)
    if str(what) in SOURCES:
        return call(SOURCES[str(what)], options)
    if not path.exists():
        raise InputError(f"{str(what)!r}: expected a path, or one of {', '.join(SOURCES)}; got neither")
    source = folder if path.is_dir() else SUFFIXES.get(path.suffix.lower())
    if path.is_dir() and (any((path / mark).is_file() for mark in MARKS) or has_parquet(path)):
        source = hf
    elif path.is_dir() and any((path / name).is_file() for name in METADATA + tuple(f"train/{n}" for n in METADATA)):
        source = imagefolder
    elif path.suffix.lower() != ".parquet" and holds_texts(path, str(options.get("column", ""))):
        source = text
    if source is None:
        raise InputError(f"{path}: expected a folder of images or a file ending in {', '.join(SUFFIXES)}")
    return call(source, options, path)


def has_parquet(path: Path) -> bool:
    return any(path.glob("*.parquet")) or any(path.glob("*/*.parquet"))


def call(source: Callable[..., Pool], options: dict[str, Any], *args: Any) -> Pool:
    accepted = list(signature(source).parameters)[len(args) :]
    for name in options:
        if name not in accepted:
            raise OptionError(f"{source.__name__}: unknown option {name!r}; it has {', '.join(accepted)}")
    return source(*args, **options)
