"""Pools from Arrow tables: Hugging Face data sets on disk or in memory, and Parquet files; of images, features or texts.

The files are read by pyarrow alone: whatever scripts lie beside them are never run, and nothing is downloaded or cached.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from askless.base.errors import InputError, some
from askless.data.folders import only_size
from askless.data.pool import Pool, encode_labels
from askless.sources import LABEL_NAMES, UnreadableError, as_size
from askless.sources.image_file import decode_image
from askless.sources.limits import check_bytes
from askless.sources.parquet import batches_of, class_names, damaged, named, open_parquet
from askless.sources.table import TEXT_NAMES, label_text

Progress = Callable[[int, int], None]
TEST_SPLITS = ("test", "validation", "valid", "val")
KINDS = ("image", "features", "text")
MARKS = ("dataset_info.json", "dataset_dict.json")  # by which a folder of `save_to_disk` is known


class Columns(NamedTuple):
    """Which columns are what; "" where there is none."""

    kind: str
    x: str
    label: str
    id: str


def hf(
    what: Any,
    image: str = "",
    features: str = "",
    text: str = "",
    label: str = "",
    id: str = "",
    size: int | tuple[int, int] | None = None,
    flip: bool = True,
    classes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Pool:
    """A Hugging Face data set: the folder that `save_to_disk` wrote, its Parquet files, or a Dataset or DatasetDict itself.

    The columns are found by their types: `image` (Image, or bytes of image files), `features` (lists of floats of one
    length) or `text` (text), `label` (ClassLabel, or a column label, class, category or target) and `id`; where several
    could be meant, name one. The split `train` is the pool, `test` (or else `validation`) is held out. `size` is that of
    `folder`. Unreadable images and rows without a value end in `pool.skipped`. Scripts are never run.
    """
    tables, name = tables_of(what)
    train = tables.pop("train", None)
    if train is None:
        train = tables.pop(next((s for s in tables if s not in TEST_SPLITS), next(iter(tables))))
    test = next((tables[split] for split in TEST_SPLITS if split in tables), None)
    columns = find_columns(name, train.schema, dict(zip(KINDS, (image, features, text), strict=True)), label, id)
    rows = read_rows(name, train, columns, size, progress)
    held = None if test is None else read_rows(name, test, columns, size, progress)
    if held is not None and columns.kind != "text" and held.x.shape[1:] != rows.x.shape[1:]:
        raise InputError(
            f"{name}: expected test items of shape {tuple(rows.x.shape[1:])} as in the pool, got {tuple(held.x.shape[1:])}"
            + ("; pass size=" if columns.kind == "image" else "")
        )
    known = tuple(classes) if classes is not None else all_names(train, columns, rows, held)
    return Pool(
        rows.x,
        encode_labels(rows.labels, known)[0],
        tuple(rows.ids),
        known or None,
        held_out(held, known),
        name,
        "image" if columns.kind == "image" else "features" if columns.kind == "features" else "text",
        flip,
        tuple(rows.skipped),
    )


def parquet(
    path: str | PathLike[str],
    image: str = "",
    features: str = "",
    text: str = "",
    label: str = "",
    id: str = "",
    size: int | tuple[int, int] | None = None,
    flip: bool = True,
    classes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Pool:
    """A Parquet file, or a folder of them: embeddings (a column of lists of floats), images or texts; options of `hf`."""
    return hf(path, image, features, text, label, id, size, flip, classes, progress)


# --- tables


def tables_of(what: Any) -> tuple[dict[str, Any], str]:
    """The table of each split, and a name for the whole."""
    if isinstance(what, str) or hasattr(what, "__fspath__"):
        return tables_at(Path(what)), Path(what).resolve().stem
    if isinstance(what, Mapping):  # a DatasetDict
        return {str(split): of_dataset(part) for split, part in what.items()}, "dataset"
    return {"train": of_dataset(what)}, "dataset"


def all_names(table: Any, columns: Columns, rows: "Rows", held: "Rows | None") -> tuple[str, ...]:
    """The classes in the order of their ClassLabel, and after them those that only occur."""
    said = class_names(table.schema).get(columns.label, [])
    seen = encode_labels([*rows.labels, *([] if held is None else held.labels)])[1]
    return (*said, *(name for name in seen if name not in said))


def with_names(table: Any, file: object = "the data set") -> Any:
    """The table with names in the place of the numbers of each ClassLabel: tables may number their classes otherwise."""
    arrow, classes = pyarrow(), class_names(table.schema)
    names = table.column_names
    if not classes or len(set(names)) < len(names):
        return table
    columns = dict(zip(names, table.columns, strict=True))
    for name in classes.keys() & columns.keys():
        values = [named(value, classes[name]) for value in plain_values(columns[name], file)]
        columns[name] = arrow.chunked_array([arrow.array(values, arrow.string())])
    return arrow.table(columns, metadata=table.schema.metadata)


def plain_values(column: Any, file: object) -> list[Any]:
    try:
        return column.to_pylist()
    except (ValueError, OverflowError) as error:  # such as texts that are not UTF-8, or dates beyond Python's
        raise damaged(file, error) from None


def of_dataset(dataset: Any) -> Any:
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "features"):
        raise InputError(f"expected a Dataset, a DatasetDict or a path, got {type(dataset).__name__}")
    if not hasattr(dataset, "__len__"):
        raise InputError("expected a Dataset with a length, got a stream; take some of it, and save_to_disk")
    table = dataset.with_format("arrow")[:]
    return with_names(table.replace_schema_metadata(dataset.features.arrow_schema.metadata))


def tables_at(path: Path) -> dict[str, Any]:
    arrow = pyarrow()
    if path.is_file():
        return {"train": parquet_table(arrow, [path])}
    if not path.is_dir():
        raise InputError(f"{path}: expected a Parquet file, or a folder of a Hugging Face data set, got nothing there")
    if (path / "dataset_dict.json").is_file():
        splits = read_json(path / "dataset_dict.json").get("splits", [])
        return {str(split): saved_table(arrow, path / str(split)) for split in splits}
    if (path / "state.json").is_file():
        return {"train": saved_table(arrow, path)}
    files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith("."))
    if not files:
        raise InputError(f"{path}: expected Parquet files, or what `save_to_disk` of Hugging Face writes, found none")
    by_split: dict[str, list[Path]] = {}
    for file in files:
        by_split.setdefault(split_of(file.relative_to(path)), []).append(file)
    return {split: parquet_table(arrow, group) for split, group in by_split.items()}


def split_of(file: Path) -> str:
    """The split that a name says, as Hugging Face writes it: data/train-00000-of-00002.parquet, test/0000.parquet."""
    said = [part.lower() for part in (*file.parts[:-1], file.stem.partition("-")[0])]
    return next((part for part in reversed(said) if part in ("train", *TEST_SPLITS)), "train")


def parquet_table(arrow: Any, files: list[Path]) -> Any:
    tables = []
    for file in files:
        with open_parquet(file) as opened:
            whole = arrow.Table.from_batches(batches_of(opened, file), opened.schema_arrow)
        tables.append(with_names(whole, file))
    try:
        return arrow.concat_tables(tables)
    except arrow.ArrowInvalid as error:
        raise InputError(
            f"{files[0].parent}: expected Parquet files with the same columns, got others ({error})"
        ) from None


def saved_table(arrow: Any, folder: Path) -> Any:
    """What `Dataset.save_to_disk` wrote: Arrow streams, mapped and not copied."""
    said = read_json(folder / "state.json").get("_data_files")
    files = said if isinstance(said, list) else []
    names = [str(one.get("filename")) if isinstance(one, dict) else "" for one in files]
    if not names or any(Path(name).name != name for name in names):
        raise InputError(
            f"{folder}: expected the files of a Hugging Face data set beside state.json, got {some(names) or 'none'}"
        )
    try:
        return arrow.concat_tables([with_names(stream_table(arrow, folder / name), folder / name) for name in names])
    except InputError:
        raise
    except (OSError, arrow.ArrowException, ValueError, OverflowError, MemoryError) as error:
        raise InputError(
            f"{folder}: expected a whole Hugging Face data set, got a damaged one ({str(error)[:300]})"
        ) from None


def stream_table(arrow: Any, file: Path) -> Any:
    """An Arrow stream; checked, since what lies in it is used where it lies."""
    batches, total = [], 0
    with arrow.ipc.open_stream(arrow.memory_map(str(file))) as stream:
        for batch in stream:
            total += batch.nbytes
            check_bytes(file, total - file.stat().st_size)  # what is packed in it: the rest is only mapped
            batch.validate(full=True)
            batches.append(batch)
        _ = stream.schema.names  # which may not be UTF-8
        return arrow.Table.from_batches(batches, stream.schema)


def read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected what Hugging Face writes, got another file ({error})") from None


def pyarrow() -> Any:
    try:
        import_module("pyarrow.ipc")
        return import_module("pyarrow")
    except ImportError:
        raise InputError("Arrow and Parquet files need pyarrow; run `pip install 'askless[parquet]'`") from None


# --- columns


def find_columns(name: str, schema: Any, given: Mapping[str, str], label: str, id: str) -> Columns:
    """The columns by their types; an error says which argument to pass where several could be meant."""
    if len(set(schema.names)) < len(schema.names):
        raise InputError(f"{name}: expected each column once, got {some(schema.names)}; rename one")
    for what, column in [*given.items(), ("label", label), ("id", id)]:
        if column and column not in schema.names:
            raise InputError(f"{name}: expected a column {column!r} as {what}, got {some(schema.names)}")
    names = set(schema.names)
    classes = [column for column in class_names(schema) if column in names]
    usual = [c for word in LABEL_NAMES for c in schema.names if c.lower() == word]
    labels = [label] if label else classes or usual[:1]
    if len(labels) > 1:
        raise InputError(f"{name}: each of {some(labels)} could be the labels; pass label='{labels[0]}', say")
    ids = [id] if id else [c for c in schema.names if c.lower() == "id"]
    taken = {*labels, *ids}
    fields = [field for field in schema if field.name not in taken and field.name not in classes]
    found = {
        "image": [f.name for f in fields if is_image(f.type)],
        "features": [f.name for f in fields if is_vector(f.type)],
        "text": [f.name for f in fields if str(f.type) in ("string", "large_string")],
    }
    chosen = [kind for kind in KINDS if given[kind]]
    if len(chosen) > 1:
        raise InputError(f"{name}: expected one of image=, features= and text=, got {' and '.join(chosen)}")
    kind = chosen[0] if chosen else next((kind for kind in KINDS if found[kind]), "")
    if not kind:
        raise InputError(f"{name}: expected a column of images, lists of floats or texts, got {some(schema.names)}")
    could = [given[kind]] if chosen else found[kind]
    if kind == "text" and len(could) > 1:
        could = [c for c in could if c.lower() in TEXT_NAMES] or could
    if len(could) > 1:
        raise InputError(f"{name}: each of {some(could)} could be the {kind}; pass {kind}='{could[0]}', say")
    return Columns(kind, could[0], labels[0] if labels else "", ids[0] if ids else "")


def is_image(kind: Any) -> bool:
    """Bytes, or a struct that has some, as Hugging Face writes images."""
    text = str(kind)
    return text in ("binary", "large_binary") or text.startswith(("struct<bytes: binary", "struct<path: string, bytes"))


def is_vector(kind: Any) -> bool:
    """A list of numbers; not one of lists."""
    text = str(kind)
    is_list = text.startswith(("list<", "large_list<", "fixed_size_list<")) and text.count("list<") == 1
    return is_list and any(f": {number}" in text for number in ("float", "double", "halffloat"))


# --- rows


class Rows(NamedTuple):
    x: Any
    labels: list[str]
    ids: list[str]
    skipped: list[tuple[str, str]]


def read_rows(
    name: str,
    table: Any,
    columns: Columns,
    size: int | tuple[int, int] | None,
    progress: Progress | None,
) -> Rows:
    if columns.x not in table.column_names:
        raise InputError(f"{name}: expected a column {columns.x!r} in every split, got {some(table.column_names)}")
    has_labels, has_ids = columns.label in table.column_names, columns.id in table.column_names
    labels = [label_text(v) for v in plain_values(table[columns.label], name)] if has_labels else [""] * len(table)
    ids = [str(v) for v in plain_values(table[columns.id], name)] if has_ids else [str(i) for i in range(len(table))]
    values, bad = {"image": images, "features": vectors, "text": texts}[columns.kind](
        name, table, columns.x, size, progress
    )
    skipped = [(ids[i], reason) for i, reason in bad.items()]
    kept = [i for i in range(len(table)) if i not in bad]
    if not kept:
        first = f"; the first, {skipped[0][0]}: {skipped[0][1]}" if skipped else ""
        raise InputError(f"{name}: expected rows that can be read, got none of {len(table)}{first}")
    return Rows(values, [labels[i] for i in kept], [ids[i] for i in kept], skipped)


def held_out(held: Rows | None, classes: Sequence[str]) -> tuple[Any, np.ndarray] | None:
    """The test items that have a label."""
    if held is None:
        return None
    labels = encode_labels(held.labels, classes)[0]
    there = np.flatnonzero(labels >= 0)
    if len(there) == 0:
        return None
    x = tuple(held.x[i] for i in there) if isinstance(held.x, tuple) else held.x[torch.from_numpy(there)]
    return x, labels[there]


def values_of(table: Any, column: str) -> Iterator[Any]:
    for batch in table.select([column]).to_batches(max_chunksize=256):
        yield from plain_values(batch.column(0), "the data set")


def images(name: str, table: Any, column: str, size: Any, progress: Progress | None) -> tuple[Any, dict[int, str]]:
    pixels: dict[int, np.ndarray] = {}
    bad: dict[int, str] = {}
    for i, value in enumerate(values_of(table, column)):
        content = value.get("bytes") if isinstance(value, dict) else value
        try:
            if not isinstance(content, bytes):
                raise UnreadableError("no bytes of an image; only data sets with their images inside can be read")
            pixels[i] = decode_image(io.BytesIO(content), as_size(size))
        except UnreadableError as error:
            bad[i] = str(error)
        if progress is not None:
            progress(i + 1, len(table))
    if pixels:
        only_size({i: (p.shape[0], p.shape[1]) for i, p in pixels.items()}, [str(i) for i in range(len(table))])
        return torch.from_numpy(np.stack(list(pixels.values()))).movedim(3, 1).contiguous(), bad
    return torch.empty(0, 3, 0, 0), bad


def vectors(name: str, table: Any, column: str, size: Any, progress: Progress | None) -> tuple[Any, dict[int, str]]:
    """(N, d) float32; rows of another length, without a value or not finite are bad."""
    bad: dict[int, str] = {}
    rows: list[np.ndarray] = []
    wide: int | None = None
    for i, value in enumerate(values_of(table, column)):
        if value is None or len(value) == 0 or any(v is None for v in value):
            bad[i] = "no features"
            continue
        with np.errstate(over="ignore"):  # numbers too large for float32 become infinite, which is noticed below
            row = np.asarray(value, np.float32)
        wide = len(row) if wide is None else wide
        if len(row) != wide:
            bad[i] = f"{len(row)} features; the first row has {wide}"
        elif not np.isfinite(row).all():
            bad[i] = "NaN or infinity in it"
        else:
            rows.append(row)
    return torch.from_numpy(np.stack(rows)) if rows else torch.empty(0, 0), bad


def texts(name: str, table: Any, column: str, size: Any, progress: Progress | None) -> tuple[Any, dict[int, str]]:
    values = list(values_of(table, column))
    bad = {i: "no text" for i, v in enumerate(values) if not isinstance(v, str) or not v.strip()}
    return tuple(v for i, v in enumerate(values) if i not in bad), bad
