"""A pool as parts that are read one by one, wherever they lie: each becomes one shard.

A data set by name or a file that `askless.data.load` reads is cut into ranges of rows; a folder of images into runs of
files; of WebDataset-style tars and of Parquet files each file is a part. Folders and files may be on any storage that fsspec
knows, such as s3://bucket/photos, with the package for it installed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from askless.base.errors import InputError, OptionError, some
from askless.data import Pool, load
from askless.data.load import SOURCES
from askless.sources import Item, Skipped
from askless.sources.arrow import ROWS, Columns, TablePart, pyarrow, split_items
from askless.sources.image_file import decoded, has_image_suffix
from askless.sources.tars import DAMAGE, TARS, tar_items

IMAGES = ("image", "img", "bytes", "jpg", "png")  # names of the column with images in Parquet
# What storages say of a file that changes when the file does.
STAMPS = ("size", "mtime", "ETag", "LastModified", "last_modified", "updated", "md5Hash", "CRC", "date_time")
LOADED = (".csv", ".tsv", ".npz", ".npy")  # files that `load` reads as a whole
Size = tuple[int, int] | None


@dataclass(frozen=True)
class RowRange:
    """Rows `start` to `stop` of a data set by name, or of a file that `load` reads; `stamp` is that file's."""

    what: str
    stamp: str
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.what} {self.stamp} {self.start} {self.stop}"

    def read(self, size: Size) -> Iterator[Item | Skipped]:
        pool = loaded(self.what, self.stamp, size)
        ids, classes = pool.ids, pool.classes
        if self.start == 0:
            yield from (Skipped(name, "unreadable", reason) for name, reason in pool.skipped)
        for i, x in enumerate(pool.take(np.arange(self.start, self.stop)), self.start):
            y = int(pool.labels[i])
            label = "" if y < 0 else str(y) if classes is None else classes[y]
            yield Item(str(i) if ids is None else ids[i], x.numpy(), label)


@dataclass(frozen=True)
class Files:
    """Image files, by their addresses; their ids are the paths below `root`."""

    root: str
    paths: tuple[str, ...]
    stamps: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.root} {self.paths} {self.stamps}"

    def read(self, size: Size) -> Iterator[Item | Skipped]:
        fs, root = file_system(self.root)
        for path in self.paths:
            key = below(path, root)
            try:
                content = fs.cat_file(path)
            except OSError as error:
                yield Skipped(key, "unreadable", f"cannot be read ({error.strerror or error})")
                continue
            yield decoded(Item(key, content), size)


@dataclass(frozen=True)
class Packed:
    """A tar of images in WebDataset's manner, or a Parquet file with a column of images: bytes, or structs with bytes as
    Hugging Face writes them. `prefix` goes before the ids, where there are several files."""

    url: str
    stamp: str
    prefix: str

    @property
    def name(self) -> str:
        return f"{self.url} {self.stamp} {self.prefix}"

    def read(self, size: Size) -> Iterator[Item | Skipped]:
        fs, path = file_system(self.url)
        with refusing_bad_part(self.url), fs.open(path) as file:
            is_tar = path.endswith(TARS)
            found = tar_items(file, path, self.prefix) if is_tar else parquet_images(file, self.url, self.prefix)
            for each in found:
                yield decoded(each, size) if isinstance(each, Item) else each


# Some items of a pool, in order: images (C, H, W) uint8, or whatever the pool's items are, and what cannot be read.
# `name` tells it from every other part, also from the same files changed since.
Part = RowRange | Files | Packed


def parquet_images(file: Any, url: str, prefix: str) -> Iterator[Item | Skipped]:
    with pyarrow().parquet.ParquetFile(file) as table:
        names = table.schema_arrow.names
        image = next((name for name in IMAGES if name in names), None)
        if image is None:
            raise InputError(f"{url}: expected a column image, img or bytes, got {some(names)}")
        part = TablePart(url, table.schema_arrow, lambda columns: table.iter_batches(batch_size=ROWS, columns=columns))
        yield from split_items(url, [part], Columns("image", image, "label", "id"), prefix=prefix)


@contextmanager
def refusing_bad_part(url: str) -> Iterator[None]:
    """What goes wrong with a file as a whole becomes an error that names it: its items are not lost without a word."""
    try:
        yield
    except InputError:
        raise
    except (*DAMAGE, pyarrow().ArrowException, ValueError, OverflowError, MemoryError) as error:
        why = str(error)[:300] or type(error).__name__
        raise InputError(f"{url}: cannot be read ({why}); fix it, or remove it from the pool") from None


@lru_cache(maxsize=1)
def loaded(what: str, stamp: str, size: Size) -> Pool:
    """A worker reads many parts of one pool: it is loaded once, and again if its file has changed."""
    return load(what, size=size, lazy=True) if lists_images(what) else load(what)


def lists_images(what: str) -> bool:
    return what not in SOURCES and Path(what).suffix.lower() in (".csv", ".tsv")


def file_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise OptionError("pools of files and shards need fsspec; run `pip install 'askless[parquet]'`") from None
    try:
        return fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise OptionError(f"{url}: expected a path, or an address that fsspec can open ({error})") from None


def below(path: str, root: str) -> str:
    """The path from the folder on; of a pattern from the last folder before its first sign, and of one file its name."""
    folder = root
    if path == root or is_pattern(root):
        signs = [root.find(sign) for sign in "*?[" if sign in root and path != root]
        folder = root[: min(signs, default=len(root))].rpartition("/")[0]
    return path.removeprefix(folder.rstrip("/") + "/")


def is_pattern(path: str) -> bool:
    return any(sign in path for sign in "*?[")


def absolute(what: str) -> str:
    """Paths of this machine mean the same wherever a worker runs."""
    return what if what in SOURCES or "://" in what or "::" in what else os.path.abspath(what)


def parts_of(what: str, rows: int, size: Size = None) -> list[Part]:
    """What a pool is made of; `rows` is the number of items of a part, where it is ours to choose."""
    if what in SOURCES or (Path(what).is_file() and Path(what).suffix.lower() in LOADED):
        if size is not None and not lists_images(what):
            raise OptionError(
                f"size: expected none for {what}, whose items have fixed sizes, got {size}; it is for image files only"
            )
        stamp = "" if what in SOURCES else f"{os.stat(what).st_size} {os.stat(what).st_mtime_ns}"
        N = len(loaded(what, stamp, size))
        return [RowRange(what, stamp, i, min(i + rows, N)) for i in range(0, N, rows)]
    fs, root = file_system(what)
    found = listing(fs, root, what)
    kinds = {
        "tars": [f for f in found if f.endswith(TARS)],
        "Parquet files": [f for f in found if f.endswith(".parquet")],
        "images": [f for f in found if has_image_suffix(Path(f))],
    }
    kinds = {kind: files for kind, files in kinds.items() if files}
    if len(kinds) != 1:
        got = " and ".join(f"{len(files)} {kind}" for kind, files in kinds.items()) or "none"
        raise InputError(f"{what}: expected only images, only tars of images or only Parquet files, got {got}")
    [(kind, files)] = kinds.items()
    stamps = {f: str([found[f].get(name) for name in STAMPS]) for f in files}
    if kind == "images":
        chunks = (files[i : i + rows] for i in range(0, len(files), rows))
        return [Files(what, tuple(c), tuple(stamps[f] for f in c)) for c in chunks]
    return [
        Packed(
            fs.unstrip_protocol(f) if "::" not in what else chained(what, f),
            stamps[f],
            f"{below(f, root)}/" if len(files) > 1 else "",
        )
        for f in files
    ]


def listing(fs: Any, root: str, what: str) -> dict[str, Any]:
    """The files below a folder, those that a pattern names, or the one file; sorted, hidden ones passed over, and so is
    what is no plain file."""
    try:
        found = fs.glob(root, detail=True) if is_pattern(root) and not fs.exists(root) else fs.find(root, detail=True)
    except FileNotFoundError:
        found = {}
    plain = {f: info for f, info in found.items() if info.get("type") == "file"}
    seen = [f for f in plain if not any(p.startswith(".") for p in PurePosixPath(below(f, root)).parts)]
    if not seen:
        names = ", ".join(SOURCES)
        raise InputError(f"{what!r}: expected a folder, a file, a pattern or one of {names}; found nothing there")
    return {f: plain[f] for f in sorted(seen)}


def chained(what: str, path: str) -> str:
    """The address of a file inside an archive: zip://*.tar::file:///x.zip and a.tar -> zip://a.tar::file:///x.zip."""
    first, _, rest = what.partition("::")
    return f"{first.partition('://')[0]}://{path}::{rest}"
