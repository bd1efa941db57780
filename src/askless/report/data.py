"""The files of a report: its facts as JSON, and pages, all written atomically."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from askless.base.files import write_whole


def as_data(value: Any, also: Callable[[Any], dict[str, Any]] = lambda value: {}) -> Any:
    """Facts as what JSON knows: records and named tuples as objects, arrays as lists, NaN as null, infinity as "inf".
    `also` adds fields to a record.

    >>> as_data({"a": np.array([1.0, math.nan, math.inf]), "b": (Path("x"), True)})
    {'a': [1.0, None, 'inf'], 'b': ['x', True]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)} | also(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict() | also(value)
    elif isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): as_data(v, also) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(v, also) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else f"{value:g}"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def json_text(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write each file atomically, in this order: a page comes after the files it refers to."""
    for name, text in texts.items():
        data = text.encode()
        write_whole(folder / name, lambda file, data=data: file.write(data))  # type: ignore[misc]
