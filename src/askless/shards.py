"""Arrays in shards: a folder of Arrow files that reads like one array for each column, without being loaded.

Every file is Arrow's own format on disk (IPC, uncompressed), which pyarrow, pandas, polars, DuckDB and Ray Data read, and
which can be mapped into memory as it is: what is not looked at is not read. Rows are numbered through the files in the order
of their names. Vectors are lists of fixed size. Parquet, which is packed, is unpacked once into such a folder.
"""

import json
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askless import digest
from askless.errors import InputError, OptionError
from askless.files import write_whole

WINDOW = 2**28  # bytes of the files that may be in memory at a time
PAGES = 2**16  # bytes that come into memory with a row somewhere
SUFFIXES = (".arrow", ".parquet")


def pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise OptionError("shards need pyarrow; run `pip install 'askless[parquet]'`") from None
    return pyarrow


class Window:
    """The files that are mapped, and how much of them may be in memory by now: beyond `most` bytes it is let go."""

    def __init__(self, most: int = WINDOW) -> None:
        self.most, self.used = most, 0
        self.maps: list[mmap.mmap] = []

    def map(self, path: Path) -> mmap.mmap:
        with path.open("rb") as file:
            self.maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return self.maps[-1]

    def about_to_read(self, size: int) -> None:
        """Pages that are let go are read again, from the disk or the system's cache, when something looks at them."""
        self.used += size
        if self.used > self.most:
            for m in self.maps if hasattr(mmap, "MADV_DONTNEED") else ():
                m.madvise(mmap.MADV_DONTNEED)
            self.used = size


class ShardedArray:
    """Pieces (rows_k, ...) one after the other as one array: a length, a shape, a dtype, and rows by position.

    `array[i]`, `array[i:j]` and `array[positions]` read the rows that they name and give them as a numpy array.
    """

    def __init__(self, pieces: Sequence[np.ndarray], window: Window | None = None) -> None:
        if not pieces:
            raise InputError("expected at least one shard, got none")
        self.pieces, self.window = list(pieces), Window() if window is None else window
        self.ends = np.cumsum([len(p) for p in pieces])
        self.dtype, self.shape = pieces[0].dtype, (int(self.ends[-1]), *pieces[0].shape[1:])
        self.row_bytes = self.dtype.itemsize * int(np.prod(self.shape[1:]))
        for k, piece in enumerate(pieces):
            if piece.dtype != self.dtype or piece.shape[1:] != self.shape[1:]:
                raise InputError(
                    f"shard {k}: expected rows of shape {self.shape[1:]} and dtype {self.dtype} as in the first, got "
                    f"{piece.shape[1:]} and {piece.dtype}"
                )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<ShardedArray {self.shape} {self.dtype} in {len(self.pieces)} pieces>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All of it in memory, where somebody insists."""
        return np.concatenate(self.pieces).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, which: Any) -> np.ndarray:
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1:
                return self._range(start, max(start, stop))
            which = np.arange(start, stop, step)
        elif isinstance(which, int | np.integer):
            return self[np.array([which])][0]
        at = np.asarray(which)
        if at.dtype == bool:
            at = np.flatnonzero(at)
        if len(at) and not -len(self) <= at.min() <= at.max() < len(self):
            raise IndexError(f"expected positions from 0 to {len(self) - 1}, got {at.min()} to {at.max()}")
        flat = np.where(at < 0, at + len(self), at).astype(np.int64, copy=False).reshape(-1)
        return self._rows(flat).reshape(*at.shape, *self.shape[1:])

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[i] for i in range(len(self)))

    def _range(self, start: int, stop: int) -> np.ndarray:
        self.window.about_to_read((stop - start) * self.row_bytes)
        first = int(np.searchsorted(self.ends, start, side="right"))
        parts = []
        for k in range(first, len(self.pieces)):
            begin = int(self.ends[k]) - len(self.pieces[k])
            if begin >= stop:
                break
            parts.append(self.pieces[k][max(0, start - begin) : stop - begin])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else self.pieces[0][:0]

    def _rows(self, at: np.ndarray) -> np.ndarray:
        order = np.argsort(at, kind="stable")  # each shard once, and its rows as they lie there
        ascending = at[order]
        out = np.empty((len(at), *self.shape[1:]), dtype=self.dtype)
        cuts = np.searchsorted(ascending, self.ends)
        step = max(1, self.window.most // (4 * max(self.row_bytes, PAGES)))
        for k, end in enumerate(cuts):
            begin = int(self.ends[k]) - len(self.pieces[k])
            for i in range(cuts[k - 1] if k else 0, end, step):
                some = slice(i, min(i + step, end))
                self.window.about_to_read((some.stop - some.start) * max(self.row_bytes, PAGES))
                out[order[some]] = self.pieces[k].take(ascending[some] - begin, axis=0)
        return out


class Column(NamedTuple):
    """Where the numbers of a column lie in one file: rows of `width` numbers each, or single ones (None)."""

    offset: int
    rows: int
    width: int | None
    dtype: np.dtype


class Shards:
    """A folder of shards: `shards["features"]` is a `ShardedArray`, or a plain array where a row is one number."""

    def __init__(self, path: Path, files: Sequence[Path], window: int = WINDOW) -> None:
        self.path, self.files = path, tuple(files)
        self.window = Window(window)
        self.places = [places_in(file) for file in self.files]
        self.rows = [rows_in(file) for file in self.files]
        self.columns = tuple(self.places[0])
        for file, found in zip(self.files, self.places, strict=True):
            if set(found) != set(self.columns):
                raise InputError(
                    f"{file}: expected the columns {', '.join(self.columns)} as in {self.files[0].name}, got "
                    f"{', '.join(found) or 'none'}"
                )
        self.maps = [self.window.map(file) for file in self.files]

    def __len__(self) -> int:
        return sum(self.rows)

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> "ShardedArray | np.ndarray":
        if name not in self.columns:
            raise InputError(f"{self.path}: expected a column {name!r} of numbers, got {', '.join(self.columns)}")
        pieces = [
            np.frombuffer(m, c.dtype, c.rows * (c.width or 1), c.offset).reshape(
                (c.rows,) if c.width is None else (c.rows, c.width)
            )
            for m, places in zip(self.maps, self.places, strict=True)
            for c in places[name]
        ]
        array = ShardedArray(pieces, self.window)
        return np.asarray(array) if array.ndim == 1 else array

    def texts(self, name: str, positions: np.ndarray) -> list[str] | None:
        """A column of texts, such as `id`, at these positions; None where there is no such column."""
        ends, out = np.cumsum(self.rows), [""] * len(positions)
        shard = np.searchsorted(ends, positions, side="right")
        for k in np.unique(shard):
            table = pyarrow().ipc.open_file(pyarrow().memory_map(str(self.files[k]))).read_all()
            if name not in table.column_names:
                return None
            mine = np.flatnonzero(shard == k)
            found = table.column(name).take(positions[mine] - (ends[k] - self.rows[k])).to_pylist()
            for i, text in zip(mine, found, strict=True):
                out[i] = str(text)
        return out

    def skipped(self) -> list[tuple[str, str]]:
        """The items that could not be embedded, and why."""
        notes = [pyarrow().ipc.open_file(pyarrow().memory_map(str(file))).schema.metadata for file in self.files]
        return [(name, why) for n in notes for name, why in json.loads((n or {}).get(b"skipped", b"[]"))]


def open_shards(path: str | Path, cache: str | Path | None = None, window: int = WINDOW) -> Shards:
    """The shards in a folder: its .arrow files, or its .parquet files, which are unpacked into `cache` once.

    `window` bounds how many bytes of the files are in memory at a time.
    """
    path = Path(path)
    if not path.is_dir():
        got = "a file" if path.exists() else "nothing there"
        raise InputError(f"{path}: expected a folder of .arrow or .parquet files, got {got}")
    index = path / "shards.json"
    if index.exists():
        told = json.loads(index.read_text(encoding="utf-8"))["files"]
        missing = [name for name in told if not (path / name).exists()]
        if missing:
            raise InputError(
                f"{path}: {len(missing)} of {len(told)} shards are missing, such as {missing[0]}; run the same "
                "`askless embed` again, which goes on where it was"
            )
        return Shards(path, [path / name for name in told], window)
    files = sorted(f for f in path.iterdir() if f.suffix in SUFFIXES and not f.name.startswith("."))
    suffixes = {f.suffix for f in files}
    if len(suffixes) != 1:
        got = "none" if not files else "both kinds"
        raise InputError(f"{path}: expected .arrow files or .parquet files, got {got}")
    if suffixes == {".parquet"}:
        if cache is None:
            raise InputError(f"{path}: Parquet is unpacked before it is read; pass cache=FOLDER for that")
        files = unpacked(files, Path(cache))
    return Shards(path, files, window)


def rows_in(path: Path) -> int:
    with pyarrow().memory_map(str(path)) as source:
        reader = pyarrow().ipc.open_file(source)
        return sum(reader.get_batch(k).num_rows for k in range(reader.num_record_batches))


def places_in(path: Path) -> dict[str, list[Column]]:
    """Where the columns of numbers lie in an Arrow file, by name, one place for each of its batches."""
    pa = pyarrow()
    try:
        with pa.memory_map(str(path)) as source:
            base = source.read_buffer(source.size()).address
            reader = pa.ipc.open_file(source)
            found: dict[str, list[Column]] = {}
            for k in range(reader.num_record_batches):
                batch = reader.get_batch(k)
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    place = place_of(path, name, column, base)
                    if place is not None:
                        found.setdefault(name, []).append(place)
            return found
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: expected an Arrow file, got something else ({error})") from None


def place_of(path: Path, name: str, column: Any, base: int) -> Column | None:
    """None for what is not numbers."""
    pa = pyarrow()
    kind = column.type
    width = kind.list_size if pa.types.is_fixed_size_list(kind) else None
    inner = kind.value_type if width is not None else kind
    if not (pa.types.is_floating(inner) or pa.types.is_integer(inner)):
        return None
    values = column.flatten() if width is not None else column
    if column.null_count or values.null_count:
        raise InputError(f"{path}: {name}: expected a number in every row, got nulls; fill or drop these rows")
    array = values.to_numpy(zero_copy_only=True)
    offset = array.ctypes.data - base
    if not 0 <= offset <= path.stat().st_size - array.nbytes:
        raise InputError(
            f"{path}: expected an uncompressed Arrow file, got a compressed one; write it without compression"
        )
    return Column(offset, len(column), width, array.dtype)


def write_shard(
    path: Path, columns: Mapping[str, np.ndarray | Sequence[str]], notes: Mapping[str, str] | None = None
) -> None:
    """One Arrow file, written whole: numbers (n,), vectors (n, d) as lists of fixed size, texts; and notes on the file."""
    write_batches(path, iter([columns]), notes)


def write_batches(path: Path, batches: Iterator[Mapping[str, Any]], notes: Mapping[str, str] | None = None) -> None:
    pa = pyarrow()

    def put(file: Any) -> None:
        writer = None
        for columns in batches:
            batch = pa.record_batch([as_arrow(values) for values in columns.values()], names=list(columns))
            if writer is None:
                writer = pa.ipc.new_file(file, batch.schema.with_metadata(notes))
            writer.write_batch(batch)
        if writer is not None:
            writer.close()

    write_whole(path, put)


def as_arrow(values: Any) -> Any:
    pa = pyarrow()
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(values).reshape(-1)), max(1, values.shape[1])
        )
    return pa.array(values)


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
    """The batches of a Parquet file; lists of numbers become matrices."""
    pa = pyarrow()
    try:
        source = pa.parquet.ParquetFile(file)
    except pa.ArrowInvalid as error:
        raise InputError(f"{file}: expected a Parquet file, got something else ({error})") from None
    with source:
        for batch in source.iter_batches(batch_size=2**14):
            yield {
                name: matrix_of(file, name, column)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }


def matrix_of(file: Path, name: str, column: Any) -> Any:
    """A column of lists of numbers of one length as a matrix; anything else as it is."""
    kind = pyarrow().types
    if not (kind.is_list(column.type) or kind.is_large_list(column.type) or kind.is_fixed_size_list(column.type)):
        return column
    numbers = kind.is_floating(column.type.value_type) or kind.is_integer(column.type.value_type)
    values = column.flatten()
    if not numbers or column.null_count or values.null_count or len(column) == 0:
        return column
    lengths = np.diff(column.offsets.to_numpy()) if not kind.is_fixed_size_list(column.type) else np.array([])
    if len(lengths) and lengths.min() != lengths.max():
        raise InputError(
            f"{file}: {name}: expected lists of one length, got {lengths.min()} to {lengths.max()} numbers"
        )
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
