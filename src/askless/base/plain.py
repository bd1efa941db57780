"""Positions, tables and sparse arrays as people have them -> plain numpy arrays, or a sentence."""

from numbers import Real
from typing import Any

import numpy as np

from askless.base.errors import InputError, some

DENSE = 2**28  # bytes that a sparse array may take when it is written out


def in_order(name: str, given: Any) -> Any:
    """Positions that a set holds, ascending; anything else as it is. An index of pandas names rows and is refused."""
    if hasattr(given, "get_indexer"):
        raise InputError(
            f"{name}: expected positions from 0, got a pandas index, which holds labels of rows; pass "
            "np.flatnonzero(df.index.isin(these))"
        )
    if isinstance(given, set | frozenset):
        return np.array(sorted(given, key=str) if any(isinstance(one, str) for one in given) else sorted(given))
    return given


def table_numbers(name: str, given: Any) -> Any:
    """The numbers of a table of pandas or polars; anything else as it is.

    An error names the first column that holds something else.
    """
    if not (hasattr(given, "columns") and hasattr(given, "to_numpy")):
        return given
    array = np.asarray(given.to_numpy())
    if array.dtype.kind in "fiub" or array.ndim != 2:
        return array
    bad = [c for c, column in zip(given.columns, array.T, strict=True) if not all(map(is_number, column))]
    if bad:
        column = array[:, list(given.columns).index(bad[0])]
        raise InputError(
            f"{name}: expected columns of numbers, got {next(v for v in column if not is_number(v))!r} in column "
            f"{some(map(repr, bad))}; drop what is not a number, or encode it, as pandas.get_dummies does"
        )
    return array.astype(np.float64)


def is_number(value: object) -> bool:
    return isinstance(value, Real | np.bool_)


def is_sparse(given: Any) -> bool:
    """Whether this is a sparse array or matrix of scipy."""
    return hasattr(given, "toarray") and hasattr(given, "nnz")


def is_small(given: Any) -> bool:
    """Whether a sparse array may be written out."""
    return int(np.prod(given.shape)) * given.dtype.itemsize <= DENSE


def short(value: object) -> str:
    """A value for a message: numbers and texts as they are, of an array its shape, of anything long its type.

    >>> short(2.5), short(np.zeros((3, 2)))
    ('2.5', 'an array of shape (3, 2)')
    """
    if getattr(value, "shape", ()):
        return f"an array of shape {tuple(value.shape)}"  # type: ignore[attr-defined]
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"a {type(value).__name__}"
