"""A pool as parts that are read one by one, wherever they lie: each becomes one shard.

A data set by name or a file that `askless.data.load` reads is cut into ranges of rows; a folder of images into runs of
files; of WebDataset-style tars and of Parquet files each file is a part. Folders and files may be on any storage that fsspec
knows, such as s3://bucket/photos, with the package for it installed.
"""

import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

import numpy as np

from askless.data import Pool, load
from askless.data.load import SOURCES, SUFFIXES
from askless.errors import InputError, OptionError
from askless.reading.image_file import UnreadableError, decode_image, has_image_suffix
from askless.shards import pyarrow

LABELS = (".cls", ".txt", ".json")  # beside an image in a tar


class Item(NamedTuple):
    """An item to embed: x an image (C, H, W) uint8, or whatever the pool's items are; label "" where unknown; or, where it
    could not be read, x None and the reason why."""

    id: str
    x: np.ndarray | None
    label: str = ""
    reason: str = ""


class Part(Protocol):
    """Some items of a pool, in order. `name` tells it from every other part, also from the same file changed since."""

    @property
    def name(self) -> str: ...

    def read(self, size: tuple[int, int] | None) -> Iterator[Item]: ...


@dataclass(frozen=True)
class Rows:
    """Rows `start` to `stop` of a data set by name, or of a file that `load` reads."""

    what: str
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.what} {self.start} {self.stop}"

    def read(self, size: tuple[int, int] | None) -> Iterator[Item]:
        pool = loaded(self.what)
        ids, classes = pool.ids, pool.classes
        for i, x in enumerate(pool.take(np.arange(self.start, self.stop)), self.start):
            y = int(pool.labels[i])
            label = "" if y < 0 else str(y) if classes is None else classes[y]
            yield Item(str(i) if ids is None else ids[i], x.numpy(), label)


@dataclass(frozen=True)
class Files:
    """Image files, by their addresses; their ids are the paths below `root`."""

    root: str
    paths: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.root} {self.paths} {self.sizes}"

    def read(self, size: tuple[int, int] | None) -> Iterator[Item]:
        fs, root = file_system(self.root)
        for path in self.paths:
            yield decoded(below(path, root), fs.cat_file(path), size)


@dataclass(frozen=True)
class Tar:
    """A tar of images in WebDataset's manner: an image and what is said of it (.cls, .txt, .json) share a name."""

    url: str
    size: int

    @property
    def name(self) -> str:
        return f"{self.url} {self.size}"

    def read(self, size: tuple[int, int] | None) -> Iterator[Item]:
        fs, path = file_system(self.url)
        with fs.open(path) as file, tarfile.open(fileobj=file, mode="r|*") as tar:
            for key, members in by_key(tar):
                image = next((name for name in members if has_image_suffix(Path(name))), None)
                if image is not None:
                    label = next((label_in(members[key + end], end) for end in LABELS if key + end in members), "")
                    yield decoded(key, members[image], size, label)


@dataclass(frozen=True)
class Parquet:
    """A Parquet file with a column of images: bytes, or structs with bytes as Hugging Face writes them."""

    url: str
    size: int

    @property
    def name(self) -> str:
        return f"{self.url} {self.size}"

    def read(self, size: tuple[int, int] | None) -> Iterator[Item]:
        fs, path = file_system(self.url)
        with fs.open(path) as file, pyarrow().parquet.ParquetFile(file) as table:
            names = table.schema_arrow.names
            image = next((name for name in ("image", "img", "bytes", "jpg", "png") if name in names), None)
            if image is None:
                raise InputError(f"{self.url}: expected a column image, img or bytes, got {', '.join(names)}")
            place = 0
            for batch in table.iter_batches(batch_size=64):
                for row in batch.to_pylist():
                    content = row[image]["bytes"] if isinstance(row[image], dict) else row[image]
                    key = str(row.get("id", f"{PurePosixPath(path).name}/{place}"))
                    label = row.get("label")
                    place += 1
                    yield decoded(key, content or b"", size, "" if label is None else str(label))


def decoded(key: str, content: bytes, size: tuple[int, int] | None, label: str = "") -> Item:
    try:
        return Item(key, np.moveaxis(decode_image(io.BytesIO(content), size), 2, 0), label)
    except UnreadableError as error:
        return Item(key, None, label, str(error))


def by_key(tar: tarfile.TarFile) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Members that follow each other under one name up to its first dot: the name, and their contents."""
    key = ""
    members: dict[str, bytes] = {}
    for member in tar:
        path = PurePosixPath(member.name)
        if not member.isfile() or path.name.startswith("."):
            continue
        mine = str(path.with_name(path.name.split(".")[0]))
        if mine != key and members:
            yield key, members
            members = {}
        file = tar.extractfile(member)
        assert file is not None
        key = mine
        members[member.name.removeprefix("./")] = file.read()
    if members:
        yield key, members


def label_in(content: bytes, end: str) -> str:
    text = content.decode("utf-8", errors="replace").strip()
    return text if end != ".json" else str(json.loads(text).get("label", ""))


@lru_cache(maxsize=1)
def loaded(what: str) -> Pool:
    """A worker reads many parts of one pool: it is loaded once."""
    return load(what)


def file_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise OptionError("pools of files and shards need fsspec; run `pip install 'askless[parquet]'`") from None
    try:
        return fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise OptionError(f"{url}: expected a path, or an address that fsspec knows ({error})") from None


def below(path: str, root: str) -> str:
    """The path from the folder on, or of a pattern from the last folder before its first *."""
    folder = root.partition("*")[0].rpartition("/")[0] if "*" in root else root
    return path.removeprefix(folder.rstrip("/") + "/")


def parts_of(what: str, rows: int) -> list[Part]:
    """What a pool is made of; `rows` is the number of items of a part, where it is ours to choose."""
    if what in SOURCES or (Path(what).is_file() and Path(what).suffix.lower() in SUFFIXES):
        N = len(loaded(what))
        return [Rows(what, i, min(i + rows, N)) for i in range(0, N, rows)]
    fs, root = file_system(what)
    found = listing(fs, root, what)
    kinds = {
        "tars": [f for f in found if f.endswith((".tar", ".tar.gz", ".tgz"))],
        "Parquet files": [f for f in found if f.endswith(".parquet")],
        "images": [f for f in found if has_image_suffix(Path(f))],
    }
    kinds = {kind: files for kind, files in kinds.items() if files}
    if len(kinds) != 1:
        got = " and ".join(f"{len(files)} {kind}" for kind, files in kinds.items()) or "none"
        raise InputError(f"{what}: expected images, tars of images or Parquet files, one kind of them, got {got}")
    [(kind, files)] = kinds.items()
    sizes = {f: int(found[f].get("size") or 0) for f in files}
    if kind == "images":
        chunks = (files[i : i + rows] for i in range(0, len(files), rows))
        return [Files(root=what, paths=tuple(c), sizes=tuple(sizes[f] for f in c)) for c in chunks]
    make: Any = Tar if kind == "tars" else Parquet
    return [make(url=fs.unstrip_protocol(f) if "::" not in what else chained(what, f), size=sizes[f]) for f in files]


def listing(fs: Any, root: str, what: str) -> dict[str, Any]:
    """The files below a folder, those that a pattern with * names, or the one file; sorted, hidden ones passed over."""
    try:
        found = fs.glob(root, detail=True) if "*" in root else fs.find(root, detail=True)
    except FileNotFoundError:
        found = {}
    if not found:
        names = ", ".join(SOURCES)
        raise InputError(f"{what!r}: expected a folder, a file or a pattern, or one of {names}; got nothing there")
    hidden: Iterable[str] = (f for f in found if any(p.startswith(".") for p in PurePosixPath(below(f, root)).parts))
    return {f: found[f] for f in sorted(set(found) - set(hidden))}


def chained(what: str, path: str) -> str:
    """The address of a file inside an archive: zip://*.tar::file:///x.zip and a.tar -> zip://a.tar::file:///x.zip."""
    first, _, rest = what.partition("::")
    return f"{first.partition('://')[0]}://{path}::{rest}"
