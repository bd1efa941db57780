"""Parquet files of users -> columns as plain values; the classes that Hugging Face writes beside them become names."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from askless.base.errors import InputError
from askless.sources.limits import check_bytes
from askless.sources.table import label_text

ROWS = 1024  # that are read at a time
ROW_BYTES = 64  # at least, of a row as a Python object


def open_parquet(file: Path) -> Any:
    """pyarrow's reader of the file; close it."""
    try:
        parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    except ImportError:
        raise InputError("Parquet files need pyarrow, which is not installed; pip install 'askless[parquet]'") from None
    try:
        opened = parquet.ParquetFile(file)
        _ = opened.schema_arrow.names  # which may not be UTF-8
        return opened
    except FileNotFoundError:
        raise InputError(f"{file}: expected a Parquet file, got nothing there") from None
    except (arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise damaged(file, error) from None


def damaged(file: object, error: BaseException) -> InputError:
    return InputError(
        f"{file}: expected a Parquet file, got another, or a damaged one ({str(error)[:300] or type(error).__name__})"
    )


def batches_of(table: Any, file: object, columns: list[str] | None = None, rows: int = ROWS) -> Iterator[Any]:
    """The record batches of an opened file, checked, until they take more than a file may: values that repeat are stored
    once, and few bytes can stand for very many rows."""
    arrow = import_module("pyarrow")
    total = 0
    try:
        for batch in table.iter_batches(batch_size=rows, columns=columns):
            total += max(batch.nbytes, ROW_BYTES * batch.num_rows)
            check_bytes(file, total)
            batch.validate(full=True)
            yield batch
    except InputError:
        raise
    except (arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise damaged(file, error) from None


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


def named(value: Any, names: list[str] | None) -> str:
    """A label as text: "" where it is unknown (None, NaN, "", or -1), a class's name by its number.

    >>> named(1, ["neg", "pos"]), named(-1, ["neg", "pos"]), named(7, None), named(None, None)
    ('pos', '', '7', '')
    """
    if names is not None and isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else ""
    return label_text(value)


def records(table: Any, file: object, columns: list[str]) -> Iterator[dict[str, Any]]:
    """The rows as dicts, a batch at a time."""
    for batch in batches_of(table, file, columns):
        try:
            yield from batch.to_pylist()
        except (ValueError, OverflowError) as error:  # such as texts that are not UTF-8, or dates beyond Python's
            raise damaged(file, error) from None
