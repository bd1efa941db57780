"""Arrow's tables: Parquet files, and data sets of Hugging Face on disk or in memory -> rows of images, features or texts.

The files are read by pyarrow alone: whatever scripts lie beside them are never run, and nothing is downloaded or cached.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askless.base.errors import InputError, some
from askless.sources.items import Item, Skipped, Source
from askless.sources.limits import check_bytes
from askless.sources.names import LABEL_NAMES, TEST_NAMES, TEXT_NAMES, label_text, usual_column

ROWS = 256  # that are read at a time
ROW_BYTES = 64  # at least, of a row as a Python object
KINDS = {"image": "encoded", "features": "features", "text": "texts"}  # what a column may be -> the kind of the source
MARKS = ("dataset_info.json", "dataset_dict.json")  # by which a folder of `save_to_disk` is known


def pyarrow() -> Any:
    try:
        import_module("pyarrow.parquet")
        import_module("pyarrow.ipc")
        return import_module("pyarrow")
    except ImportError:
        raise InputError("Arrow and Parquet files need pyarrow; run `pip install 'askless[parquet]'`") from None


@contextmanager
def refusing_bad_arrow(file: object, what: str = "a Parquet file, got another, or a damaged one") -> Iterator[None]:
    """Whatever pyarrow says of a file becomes an error that names it."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{file}: expected {what.partition(',')[0]}, found nothing there") from None
    except (pyarrow().ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise InputError(f"{file}: expected {what} ({str(error)[:300] or type(error).__name__})") from None


class TablePart(NamedTuple):
    """A part of a table: its schema, and its record batches, read as they are asked for; `columns` are those wanted."""

    file: object
    schema: Any
    batches: Callable[[list[str]], Iterator[Any]]


def parquet_part(file: Path) -> TablePart:
    with refusing_bad_arrow(file), pyarrow().parquet.ParquetFile(file) as opened:
        schema = opened.schema_arrow
        _ = schema.names  # which may not be UTF-8

    def batches(columns: list[str]) -> Iterator[Any]:
        with refusing_bad_arrow(file), pyarrow().parquet.ParquetFile(file) as opened:
            yield from checked(opened.iter_batches(batch_size=ROWS, columns=columns), file)

    return TablePart(file, schema, batches)


def checked(batches: Iterator[Any], file: object, mapped: int = 0) -> Iterator[Any]:
    """Record batches, until they take more than a file may: values that repeat are stored once, and few bytes can stand for
    very many rows. `mapped` bytes lie in the file as they are."""
    total = 0
    for batch in batches:
        total += max(batch.nbytes, ROW_BYTES * batch.num_rows)
        check_bytes(file, total - mapped)
        batch.validate(full=True)
        yield batch


def saved_parts(folder: Path) -> list[TablePart]:
    """What `Dataset.save_to_disk` wrote: Arrow streams, mapped and not copied."""
    said = read_json(folder / "state.json").get("_data_files")
    files = said if isinstance(said, list) else []
    names = [str(one.get("filename")) if isinstance(one, dict) else "" for one in files]
    if not names or any(Path(name).name != name for name in names):
        raise InputError(
            f"{folder}: expected the files of a Hugging Face data set beside state.json, got {some(names) or 'none'}"
        )
    return [stream_part(folder / name) for name in names]


def stream_part(file: Path) -> TablePart:
    what = "a whole Hugging Face data set, got a damaged one"

    def batches(columns: list[str]) -> Iterator[Any]:
        with refusing_bad_arrow(file, what), pyarrow().ipc.open_stream(pyarrow().memory_map(str(file))) as stream:
            for batch in checked(stream, file, file.stat().st_size):
                for start in range(0, batch.num_rows, ROWS):
                    yield batch.select(columns).slice(start, ROWS)

    with refusing_bad_arrow(file, what), pyarrow().ipc.open_stream(pyarrow().memory_map(str(file))) as stream:
        schema = stream.schema
        _ = schema.names  # which may not be UTF-8
        return TablePart(file, schema, batches)


def of_dataset(dataset: Any) -> list[TablePart]:
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "features"):
        raise InputError(f"expected a Dataset, a DatasetDict or a path, got {type(dataset).__name__}")
    if not hasattr(dataset, "__len__"):
        raise InputError("expected a Dataset with a length, got a stream; take a part of it, and save_to_disk")
    table = dataset.with_format("arrow")[:]
    schema = table.schema.with_metadata(dataset.features.arrow_schema.metadata)
    return [
        TablePart("the data set", schema, lambda columns: iter(table.select(columns).to_batches(max_chunksize=ROWS)))
    ]


def splits_at(path: Path) -> dict[str, list[TablePart]]:
    """The parts of each split of a Parquet file, or of a folder of them or of a Hugging Face data set."""
    if path.is_file():
        return {"train": [parquet_part(path)]}
    if not path.is_dir():
        raise InputError(
            f"{path}: expected a Parquet file, or a folder of a Hugging Face data set, found nothing there"
        )
    if (path / "dataset_dict.json").is_file():
        splits = read_json(path / "dataset_dict.json").get("splits", [])
        return {str(split): saved_parts(path / str(split)) for split in splits}
    if (path / "state.json").is_file():
        return {"train": saved_parts(path)}
    files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith("."))
    if not files:
        raise InputError(f"{path}: expected Parquet files, or a data set that `save_to_disk` wrote, found none")
    by_split: dict[str, list[TablePart]] = {}
    for file in files:
        by_split.setdefault(split_of(file.relative_to(path)), []).append(parquet_part(file))
    return by_split


def is_dataset(path: Path) -> bool:
    """Whether a folder is one of Parquet files, or that of a Hugging Face data set."""
    has_parquet = any(path.glob("*.parquet")) or any(path.glob("*/*.parquet"))
    return has_parquet or any((path / mark).is_file() for mark in MARKS)


def split_of(file: Path) -> str:
    """The split that a name says, as Hugging Face writes it: data/train-00000-of-00002.parquet, test/0000.parquet."""
    said = [part.lower() for part in (*file.parts[:-1], file.stem.partition("-")[0])]
    return next((part for part in reversed(said) if part in ("train", *TEST_NAMES)), "train")


def read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: expected a file written by Hugging Face, got another one ({error})") from None


# --- columns


class Columns(NamedTuple):
    """Which columns are what; "" where there is none."""

    kind: str
    x: str
    label: str
    id: str


def find_columns(name: str, schema: Any, given: Mapping[str, str], label: str, id: str) -> Columns:
    """The columns by their types; an error says which argument to pass where several could be meant."""
    if len(set(schema.names)) < len(schema.names):
        raise InputError(f"{name}: expected each column once, got {some(schema.names)}; rename one")
    for what, column in [*given.items(), ("label", label), ("id", id)]:
        if column and column not in schema.names:
            raise InputError(f"{name}: expected a column {column!r} as {what}, got {some(schema.names)}")
    classes = [column for column in class_names(schema) if column in schema.names]
    usual = usual_column(schema.names, LABEL_NAMES)
    labels = [label] if label else classes or [usual] * bool(usual)
    if len(labels) > 1:
        raise InputError(f"{name}: each of {some(labels)} could be the labels; pass one, as label='{labels[0]}'")
    id = id or usual_column(schema.names, ("id",))
    fields = [field for field in schema if field.name not in {*labels, *classes, id}]
    found = {
        "image": [f.name for f in fields if is_image(f.type)],
        "features": [f.name for f in fields if is_vector(f.type)],
        "text": [f.name for f in fields if str(f.type) in ("string", "large_string")],
    }
    chosen = [kind for kind in KINDS if given.get(kind)]
    if len(chosen) > 1:
        raise InputError(f"{name}: expected one of image=, features= and text=, got {' and '.join(chosen)}")
    kind = chosen[0] if chosen else next((kind for kind in KINDS if found[kind]), "")
    if not kind:
        raise InputError(f"{name}: expected a column of images, lists of floats or texts, got {some(schema.names)}")
    could = [given[kind]] if chosen else found[kind]
    if kind == "text" and len(could) > 1:
        could = [c for c in could if c.lower() in TEXT_NAMES] or could
    if len(could) > 1:
        raise InputError(f"{name}: each of {some(could)} could be the {kind}; pass one, as {kind}='{could[0]}'")
    return Columns(kind, could[0], labels[0] if labels else "", id)


def is_image(kind: Any) -> bool:
    """Bytes, or a struct that has some, as Hugging Face writes images."""
    text = str(kind)
    return text in ("binary", "large_binary") or text.startswith(("struct<bytes: binary", "struct<path: string, bytes"))


def is_vector(kind: Any) -> bool:
    """A list of floats; not one of lists."""
    return is_list(kind) and pyarrow().types.is_floating(kind.value_type)


def is_list(kind: Any) -> bool:
    types = pyarrow().types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def is_simple(kind: Any) -> bool:
    return str(kind).startswith(
        ("string", "large_string", "int", "uint", "float", "double", "bool", "dictionary<values=string")
    )


def class_names(schema: Any) -> dict[str, list[str]]:
    """The names of the classes of each column that Hugging Face's `datasets` wrote as a ClassLabel."""
    try:
        said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = said.get("info", {}).get("features", {})
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and "names" in feature
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}


def class_name(value: Any, names: list[str]) -> str:
    """The class that a label says by its number or as text; "" where it is unknown (None, NaN, "", or -1).

    >>> [class_name(value, ["neg", "pos"]) for value in (1, -1, "pos", None)]
    ['pos', '', 'pos', '']
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else ""
    return label_text(value)


# --- rows


def records(part: TablePart, columns: list[str]) -> Iterator[dict[str, Any]]:
    """The rows as dicts, a batch at a time; classes by their names."""
    classes = class_names(part.schema)
    for batch in part.batches(columns):
        with refusing_bad_arrow(part.file):  # such as texts that are not UTF-8, or dates beyond Python's
            rows = batch.to_pylist()
        for row in rows:
            yield {name: class_name(value, classes[name]) if name in classes else value for name, value in row.items()}


def parquet_records(file: Path) -> tuple[list[str], Iterator[dict[str, Any]]]:
    """The columns of texts, numbers and truth values of a Parquet file."""
    part = parquet_part(file)
    simple = [field.name for field in part.schema if is_simple(field.type)]
    return simple, records(part, simple)


def arrow_source(what: Any, given: Mapping[str, str], label: str = "", id: str = "") -> Source:
    """A Parquet file, a folder of them, or a data set of Hugging Face: the split `train`, and `test` (or else validation)
    but for its rows without a label. `given` names the column of kind image, features or text where several could be it."""
    path = Path(what) if isinstance(what, str) or hasattr(what, "__fspath__") else None
    name = "dataset" if path is None else path.resolve().stem
    if path is not None:
        splits = splits_at(path)
    else:
        datasets = what if isinstance(what, Mapping) else {"train": what}
        splits = {str(split): of_dataset(part) for split, part in datasets.items()}
    if not splits:
        raise InputError(f"{name}: expected a data set with splits, got none")
    test = next((split for split in TEST_NAMES if split in splits), "test")
    train = "train" if "train" in splits else next((s for s in splits if s not in TEST_NAMES), next(iter(splits)))
    schema = splits[train][0].schema
    columns = find_columns(name, schema, given, label, id)

    def found() -> Iterator[Item | Skipped]:
        yield from split_items(name, splits[train], columns, "train")
        for each in split_items(name, splits[test], columns, test) if test in splits and test != train else ():
            if isinstance(each, Skipped) or each.label:
                yield each

    kind: Any = KINDS[columns.kind]
    classes = tuple(class_names(schema).get(columns.label, []))
    return Source(kind, path or Path(name), found(), test, classes, column=columns.x)


def split_items(
    name: str, parts: list[TablePart], columns: Columns, split: str = "", prefix: str = ""
) -> Iterator[Item | Skipped]:
    """The rows of a split, called by their ids, or their numbers where they have none."""
    place = 0
    for part in parts:
        if columns.x not in part.schema.names:
            raise InputError(f"{name}: expected a column {columns.x!r} in every split, got {some(part.schema.names)}")
        useful = [column for column in columns[1:] if column in part.schema.names]
        for row in records(part, useful):
            own = prefix + str(place if row.get(columns.id) is None else row[columns.id])
            value, reason = USABLE[columns.kind](row[columns.x])
            place += 1
            label = label_text(row.get(columns.label))
            yield Skipped(own, "unreadable", reason) if reason else Item(own, value, label, split)


def usable_image(value: Any) -> tuple[Any, str]:
    content = value.get("bytes") if isinstance(value, dict) else value
    is_bytes = isinstance(content, bytes)
    return content, "" if is_bytes else "no image bytes; only data sets that contain their images can be read"


def usable_text(value: Any) -> tuple[Any, str]:
    return value, "" if isinstance(value, str) and value.strip() else "no text"


def usable_vector(value: Any) -> tuple[Any, str]:
    """(d,) float32, and what is wrong with it."""
    if value is None or len(value) == 0 or any(v is None for v in value):
        return None, "no features"
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinite
        row = np.asarray(value, np.float32)
    return row, "" if np.isfinite(row).all() else "contains NaN or infinity"


USABLE = {"image": usable_image, "features": usable_vector, "text": usable_text}
