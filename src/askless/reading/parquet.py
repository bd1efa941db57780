"""Parquet files of users -> columns as plain values; the classes that Hugging Face writes beside them become names."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from askless.errors import InputError
from askless.reading.table import label_text

ROWS = 1024  # that are read at a time


def open_parquet(file: Path) -> Any:
    """pyarrow's reader of the file; close it."""
    try:
        parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    except ImportError:
        raise InputError("Parquet files need pyarrow, which is not installed; pip install 'askless[parquet]'") from None
    try:
        return parquet.ParquetFile(file)
    except FileNotFoundError:
        raise InputError(f"{file}: expected a Parquet file, got nothing there") from None
    except (arrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{file}: expected a Parquet file, got another, or a damaged one ({error})") from None


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
    except (ValueError, AttributeError, TypeError):
        return {}


def named(value: Any, names: list[str] | None) -> str:
    """A label as text: "" where it is unknown (None, NaN, "", or -1), a class's name by its number.

    >>> named(1, ["neg", "pos"]), named(-1, ["neg", "pos"]), named(7, None), named(None, None)
    ('pos', '', '7', '')
    """
    if names is not None and isinstance(value, int) and not isinstance(value, bool):
        return names[value] if 0 <= value < len(names) else ""
    return label_text(value)


def records(table: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    """The rows as dicts, a batch at a time."""
    for batch in table.iter_batches(batch_size=ROWS, columns=columns):
        yield from batch.to_pylist()
