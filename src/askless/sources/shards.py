"""Arrays in shards: a folder of Arrow files that reads like one array for each column, without being loaded.

Every file is Arrow's own format on disk (IPC, uncompressed), which pyarrow, pandas, polars, DuckDB and Ray Data read, and
which can be mapped into memory as it is: what is not looked at is not read. Rows are numbered through the files in the order
of their names. Vectors are lists of fixed size. Parquet, which is packed, is unpacked once into such a folder.
"""

import json
import math
import mmap
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askless.base import digest
from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.sources.arrow import is_list, pyarrow, refusing_bad_arrow

WINDOW = 2**28  # bytes of the files that may be in memory at a time
PAGES = 2**16  # bytes that come into memory with a row somewhere
SUFFIXES = (".arrow", ".parquet")
MAPS = 128  # files open at a time
BATCH = 2**14  # rows of Parquet that are unpacked at a time


class Column(NamedTuple):
    """Where the numbers of a column lie in one file: rows of shape `inner`, or single ones, ()."""

    offset: int
    rows: int
    inner: tuple[int, ...]
    dtype: np.dtype


class Window:
    """Files that are mapped, at most `MAPS` of them, and how much of them may be in memory by now: beyond `most` bytes it is
    let go."""

    def __init__(self, most: int = WINDOW) -> None:
        self.most, self.used = most, 0
        self.maps: OrderedDict[Path, mmap.mmap] = OrderedDict()

    def map(self, path: Path) -> mmap.mmap:
        """Each map keeps a file open: the one that was used longest ago is closed, once nobody looks at it."""
        if path not in self.maps:
            with path.open("rb") as file:
                self.maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if len(self.maps) > MAPS:
                self.maps.popitem(last=False)
        self.maps.move_to_end(path)
        return self.maps[path]

    def about_to_read(self, size: int) -> None:
        """Pages that are let go are read again, from the disk or the system's cache, when something looks at them."""
        self.used += size
        if self.used > self.most:
            for m in self.maps.values() if hasattr(mmap, "MADV_DONTNEED") else ():
                m.madvise(mmap.MADV_DONTNEED)
            self.used = size


class ShardedArray:
    """Columns of several files, one after the other, as one array: a length, a shape, a dtype, and rows by position.

    `array[i]`, `array[i:j]` and `array[positions]` read the rows that they name and give them as a numpy array.
    """

    def __init__(self, places: Sequence[tuple[Path, Column]], window: Window) -> None:
        self.places, self.window = list(places), window
        first = places[0][1]
        self.dtype = first.dtype
        self.ends = np.cumsum([place.rows for _, place in places])
        self.starts = [0, *self.ends[:-1].tolist()]
        self.shape = (int(self.ends[-1]), *first.inner)
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        for path, place in places:
            if place.dtype != self.dtype or place.inner != first.inner:
                raise InputError(
                    f"{path}: expected rows of shape {first.inner} and dtype {self.dtype} as in {places[0][0].name}, got "
                    f"{place.inner} and {place.dtype}"
                )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<ShardedArray {self.shape} {self.dtype} in {len(self.places)} pieces>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All of it in memory, where somebody insists."""
        out: np.ndarray = np.empty(self.shape, dtype=dtype or self.dtype)
        for start, end in zip(self.starts, self.ends, strict=True):
            out[start:end] = self[start:end]
        return out

    def __getitem__(self, which: Any) -> np.ndarray:
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1:
                return self._range(start, max(start, stop))
            which = np.arange(start, stop, step)
        elif isinstance(which, int | np.integer) and not isinstance(which, bool):
            return self[np.array([which])][0]
        at = np.asarray(which)
        if at.dtype == bool and at.shape == (len(self),):
            at = np.flatnonzero(at)
        if at.dtype.kind not in "iu" and at.size:
            raise IndexError(
                f"expected a slice, positions, or a mask of {len(self)}, got {at.dtype} of shape {at.shape}"
            )
        if at.size and not -len(self) <= at.min() <= at.max() < len(self):
            raise IndexError(f"expected positions from 0 to {len(self) - 1}, got {at.min()} to {at.max()}")
        flat = np.where(at < 0, at + len(self), at).astype(np.int64, copy=False).reshape(-1)
        return self._rows(flat).reshape(*at.shape, *self.shape[1:])

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    def _piece(self, k: int) -> np.ndarray:
        path, place = self.places[k]
        shape = (place.rows, *place.inner)
        return np.frombuffer(self.window.map(path), place.dtype, math.prod(shape), place.offset).reshape(shape)

    def _range(self, start: int, stop: int) -> np.ndarray:
        self.window.about_to_read((stop - start) * self.row_bytes)
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right").tolist()
        if stop <= start:
            return np.empty((0, *self.shape[1:]), dtype=self.dtype)
        if first == last:  # within a file: as it lies there
            return self._piece(first)[start - self.starts[first] : stop - self.starts[first]]
        out: np.ndarray = np.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        for k in range(first, last + 1):
            piece = self._piece(k)[max(0, start - self.starts[k]) : stop - self.starts[k]]
            at = max(start, self.starts[k]) - start
            out[at : at + len(piece)] = piece
        return out

    def _rows(self, at: np.ndarray) -> np.ndarray:
        order = np.argsort(at, kind="stable")  # each shard once, and its rows as they lie there
        ascending = at[order]
        out: np.ndarray = np.empty((len(at), *self.shape[1:]), dtype=self.dtype)
        cuts = np.concatenate([[0], np.searchsorted(ascending, self.ends)])
        by_row = max(self.row_bytes, PAGES)
        for k in np.flatnonzero(np.diff(cuts)).tolist():
            piece = self._piece(k)
            step = len(at) if 4 * piece.nbytes <= self.window.most else max(1, self.window.most // (4 * by_row))
            for i in range(cuts[k], cuts[k + 1], step):
                some = slice(i, min(i + step, cuts[k + 1]))
                span = int(ascending[some.stop - 1] - ascending[i] + 1) * self.row_bytes + PAGES
                self.window.about_to_read(min((some.stop - some.start) * by_row, span))
                out[order[some]] = piece.take(ascending[some] - self.starts[k], axis=0)
        return out


class Shards:
    """A folder of shards: `shards["features"]` is a `ShardedArray`, or a plain array where a row is one number."""

    def __init__(self, path: Path, files: Sequence[Path], window: int = WINDOW) -> None:
        self.path, self.all_files = path, tuple(files)
        self.window = Window(window)
        contents = [content_of(file) for file in files]
        there = [(file, content) for file, content in zip(files, contents, strict=True) if content.rows]
        if not there:
            raise InputError(f"{path}: expected shards with rows, got {len(files)} without any")
        self.files = tuple(file for file, _ in there)  # those that have rows
        self.contents = [content for _, content in there]
        self.rows = [content.rows for content in self.contents]
        self.columns = tuple(self.contents[0].places)
        for file, content in there:
            if set(content.names) != set(self.contents[0].names):
                raise InputError(
                    f"{file}: expected the columns {', '.join(self.contents[0].names)} as in {self.files[0].name}, got "
                    f"{', '.join(content.names) or 'none'}"
                )

    def __len__(self) -> int:
        return sum(self.rows)

    def __contains__(self, name: str) -> bool:
        return name in self.contents[0].names

    def __getitem__(self, name: str) -> "ShardedArray | np.ndarray":
        places = []
        for file, content in zip(self.files, self.contents, strict=True):
            if name not in content.places:
                got = content.refused.get(name, f"the columns {', '.join(content.names)}")
                raise InputError(f"{file}: expected a column {name!r} with numbers in every row, got {got}")
            places += [(file, place) for place in content.places[name]]
        array = ShardedArray(places, self.window)
        return np.asarray(array) if array.ndim == 1 else array

    def texts(self, name: str, positions: np.ndarray) -> list[str] | None:
        """A column of texts, such as `id`, at these positions; None where there is no such column."""
        ends, out = np.cumsum(self.rows), [""] * len(positions)
        shard = np.searchsorted(ends, positions, side="right")
        for k in np.unique(shard):
            with pyarrow().memory_map(str(self.files[k])) as source:
                table = pyarrow().ipc.open_file(source).read_all()
                if name not in table.column_names:
                    return None
                mine = np.flatnonzero(shard == k)
                try:
                    table.column(name).validate(full=True)  # its texts are read where they lie
                    found = table.column(name).take(positions[mine] - (ends[k] - self.rows[k])).to_pylist()
                except (pyarrow().ArrowException, ValueError) as error:
                    raise InputError(f"{self.files[k]}: {name}: expected texts, got something else ({error})") from None
            for i, text in zip(mine, found, strict=True):
                out[i] = str(text)
        return out

    def skipped(self) -> list[tuple[str, str]]:
        """The items that could not be embedded, and why."""
        found = []
        for file in self.all_files:
            with pyarrow().memory_map(str(file)) as source:
                notes = pyarrow().ipc.open_file(source).schema.metadata or {}
            try:
                found += [(str(name), str(why)) for name, why in json.loads(notes.get(b"skipped", b"[]"))]
            except (ValueError, TypeError, RecursionError) as error:
                raise InputError(f"{file}: expected pairs of names and reasons in its notes, got {error}") from None
        return found


def open_shards(
    path: str | Path,
    cache: str | Path | None = None,
    window: int = WINDOW,
    progress: Callable[[int, int], None] | None = None,
) -> Shards:
    """The shards in a folder: its .arrow files, or its .parquet files, which are unpacked into `cache` once.

    `window` bounds how many bytes of the files are in memory at a time; `progress(done, total)` counts files unpacked.

    A strategy takes them in place of arrays: `select(..., features=shards.features)`.

    >>> np.savez("pool.npz", X=np.zeros((4, 8, 8), np.uint8))
    >>> _ = al.embed("pool.npz", "shards", backbone="raw")
    >>> len(al.open_shards("shards"))
    4
    """
    path = Path(path)
    if not path.is_dir():
        got = "got a file" if path.exists() else "found nothing there"
        raise InputError(f"{path}: expected a folder of .arrow or .parquet files, got {got}")
    index = path / "shards.json"
    if index.exists():
        told = files_told(index)
        missing = [name for name in told if not (path / name).exists()]
        if missing:
            raise InputError(
                f"{path}: {len(missing)} of {len(told)} shards are missing, such as {missing[0]}; run the same "
                "`askless embed` again to resume"
            )
        return Shards(path, [path / name for name in told], window)
    files = sorted(f for f in path.iterdir() if f.suffix in SUFFIXES and not f.name.startswith(".") and f.is_file())
    suffixes = {f.suffix for f in files}
    if len(suffixes) != 1:
        got = "none" if not files else "both kinds"
        raise InputError(f"{path}: expected .arrow files or .parquet files, got {got}")
    if suffixes == {".parquet"}:
        if cache is None:
            raise InputError(f"{path}: askless unpacks Parquet before reading it; pass cache=FOLDER for that")
        files = unpacked(files, Path(cache), progress)
    return Shards(path, files, window)


def files_told(index: Path) -> list[str]:
    """The files that shards.json names."""
    try:
        files = json.loads(index.read_text(encoding="utf-8"))["files"]
        if not isinstance(files, list) or not files or not all(isinstance(f, str) and Path(f).name == f for f in files):
            raise ValueError("no list of files")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{index}: expected a file written by `askless embed`, got something else ({error!r})"
        ) from None
    return files


class Content(NamedTuple):
    """An Arrow file: its rows, its columns, where those of numbers lie (one place for each batch), and why others do not
    count as such."""

    rows: int
    names: tuple[str, ...]
    places: dict[str, list[Column]]
    refused: dict[str, str]


def content_of(path: Path) -> Content:
    pa = pyarrow()
    rows = 0
    places: dict[str, list[Column]] = {}
    refused: dict[str, str] = {}
    with refusing_bad_arrow(path, "an Arrow file, got something else"), pa.memory_map(str(path)) as source:
        base = source.read_buffer(source.size()).address
        reader = pa.ipc.open_file(source)
        names = tuple(reader.schema.names)
        if len(set(names)) < len(names):
            raise InputError(f"{path}: expected each column once, got {', '.join(names)}")
        for k in range(reader.num_record_batches):
            batch = reader.get_batch(k)
            batch.validate()
            rows += batch.num_rows
            for name, column in zip(names, batch.columns if batch.num_rows else (), strict=False):
                place = column_in(path, column, base)
                if isinstance(place, Column):
                    places.setdefault(name, []).append(place)
                else:
                    refused[name] = place
    return Content(rows, names, {n: found for n, found in places.items() if n not in refused}, refused)


def column_in(path: Path, column: Any, base: int) -> Column | str:
    """Where the column lies in the file, or what is wrong with it."""
    pa = pyarrow()
    values, inner, nulls = column, [], column.null_count
    while pa.types.is_fixed_size_list(values.type):  # vectors, and lists of vectors
        inner.append(values.type.list_size)
        values = values.flatten()
        nulls += values.null_count
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        return f"{column.type}; write vectors as lists of fixed size, or as Parquet"
    if nulls:
        return "nulls; fill or drop these rows"
    if 0 in inner:
        return "empty vectors"
    array = values.to_numpy(zero_copy_only=True)
    offset = array.ctypes.data - base
    if not 0 <= offset <= path.stat().st_size - array.nbytes:
        return "a compressed column; write the file without compression"
    return Column(offset, len(column), tuple(inner), array.dtype)


def write_shard(
    path: Path, columns: Mapping[str, np.ndarray | Sequence[str]], notes: Mapping[str, str] | None = None
) -> None:
    """One Arrow file, written whole: numbers (n,), vectors (n, d) as lists of fixed size, lists of vectors (n, K, C), texts;
    and notes on the file."""
    write_batches(path, iter([columns]), notes)


def write_batches(path: Path, batches: Iterator[Mapping[str, Any]], notes: Mapping[str, str] | None = None) -> None:
    """At least one batch, which may have no rows."""
    pa = pyarrow()

    def put(file: Any) -> None:
        writer = None
        for columns in batches:
            batch = pa.record_batch([as_arrow(values) for values in columns.values()], names=list(columns))
            if writer is None:
                writer = pa.ipc.new_file(file, batch.schema.with_metadata(notes))
            writer.write_batch(batch)
        assert writer is not None
        writer.close()

    write_whole(path, put)


def as_arrow(values: Any) -> Any:
    pa = pyarrow()
    if not isinstance(values, np.ndarray) or values.ndim < 2:
        return pa.array(values)
    column = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in values.shape[:0:-1]:
        column = pa.FixedSizeListArray.from_arrays(column, max(1, size))
    return column


def unpacked(files: Sequence[Path], cache: Path, progress: Callable[[int, int], None] | None = None) -> list[Path]:
    """Parquet files as Arrow files in `cache`, found again as long as the originals have not changed."""
    out = []
    for i, file in enumerate(files):
        now = file.stat()
        made = cache / f"{digest.of_text(str(file.resolve()), now.st_size, now.st_mtime_ns)[:32]}.arrow"
        if not made.exists():
            write_batches(made, unpack(file))
        out.append(made)
        if progress is not None:
            progress(i + 1, len(files))
    return out


def unpack(file: Path) -> Iterator[dict[str, Any]]:
    """The batches of a Parquet file, of the columns of numbers, and id and label; lists of numbers become matrices."""
    pa = pyarrow()
    with refusing_bad_arrow(file), pa.parquet.ParquetFile(file) as source:
        schema = source.schema_arrow
        useful = [f.name for f in schema if f.name in ("id", "label") or is_numbers(f.type)]
        widths: dict[str, int] = {}
        for batch in source.iter_batches(batch_size=BATCH, columns=useful):
            named = zip(batch.schema.names, batch.columns, strict=True)
            yield {name: matrix_of(file, name, column, widths) for name, column in named}
        if source.metadata.num_rows == 0:
            yield {"id": pa.array([], pa.string())}


def is_numbers(kind: Any) -> bool:
    types = pyarrow().types
    inner = kind.value_type if is_list(kind) else kind
    return types.is_floating(inner) or types.is_integer(inner)


def matrix_of(file: Path, name: str, column: Any, widths: dict[str, int]) -> Any:
    """A column of lists of numbers of one length, that of the batches before, as a matrix; anything else as it is."""
    if not is_list(column.type):
        return column
    values = column.flatten()
    if column.null_count or values.null_count:
        raise InputError(f"{file}: {name}: expected numbers only, got nulls; fill or drop these rows")
    if pyarrow().types.is_fixed_size_list(column.type):
        lengths = np.array([column.type.list_size])
    else:
        lengths = np.diff(column.offsets.to_numpy())
    width = widths.setdefault(name, int(lengths[0]))
    if width == 0 or (lengths != width).any():
        raise InputError(
            f"{file}: {name}: expected lists of one length, got {min(width, lengths.min())} to "
            f"{max(width, lengths.max())} numbers"
        )
    return values.to_numpy(zero_copy_only=False).reshape(len(column), width)
