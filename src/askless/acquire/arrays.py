"""The door: every array is checked here once, with a message that says what was expected, what came and what to do."""

from typing import Any

import numpy as np
import torch

from askless.acquire.strategy import View
from askless.errors import InputError

SHAPES = {
    "features": "(N, d)",
    "probs": "(N, C)",
    "logits": "(N, C)",
    "grad_sq": "(N,)",
    "grad_dot": "(N,)",
    "grad_sq_by_class": "(N, C)",
}
TILE = 2**24  # numbers looked at in one go
SUM_TOLERANCE = 1e-3  # softmax outputs in float16 are off by about so much


def check_arrays(needs: tuple[str, ...], arrays: dict[str, Any], pool: int | None) -> View:
    """The arrays as a `View`, or an `InputError`."""
    known = ", ".join(arrays)
    for name in needs:
        if name not in arrays:
            raise InputError(f"the strategy needs an array {name!r}, which nobody can give; the arrays are {known}")
        if arrays[name] is None and name not in ("labelled", "labels"):
            raise InputError(
                f"the strategy needs {name} {SHAPES[name]}, which was not given; it needs {', '.join(needs)}"
            )
    per_item: dict[str, Any] = {k: as_array(k, v) for k, v in arrays.items() if v is not None and k in SHAPES}
    N = pool_size({k: len(v) for k, v in per_item.items()}, pool)
    for name in needs:
        if name in per_item:
            check_values(name, per_item[name])
    if {"probs", "grad_sq_by_class"} <= set(needs) and per_item["probs"].shape != per_item["grad_sq_by_class"].shape:
        raise InputError(
            f"grad_sq_by_class: expected one column per class, shape {per_item['probs'].shape} as probs has, got "
            f"{per_item['grad_sq_by_class'].shape}"
        )
    labelled = check_labelled(arrays["labelled"], N)
    labels = check_labels(arrays["labels"], labelled, "labels" in needs)
    unlabelled = np.setdiff1d(np.arange(N), labelled, assume_unique=True)
    return View(N=N, labelled=labelled, unlabelled=unlabelled, labels=labels, **per_item)


def as_array(name: str, given: Any) -> np.ndarray:
    """A numpy array of numbers with the number of axes that `name` has; the data are shared where possible."""
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu()
        given = given.float() if given.dtype == torch.bfloat16 else given
        array = given.numpy()
    else:
        try:
            array = np.asarray(given)
        except ValueError as error:
            raise InputError(f"{name}: expected rows of equal length, got {type(given).__name__}: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"{name}: expected numbers, got an array of dtype {array.dtype}; convert it, for example with "
            f"np.stack(...).astype('float32')"
        )
    if array.ndim != len(SHAPES[name].strip("(,)").split(",")):
        raise InputError(f"{name}: expected shape {SHAPES[name]}, got {array.shape}")
    if array.ndim == 2 and array.shape[1] == 0:
        raise InputError(f"{name}: expected at least one column, got shape {array.shape}")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def pool_size(lengths: dict[str, int], pool: int | None) -> int:
    """N, on which all arrays must agree."""
    if pool is not None:
        lengths = {**lengths, "pool": int(pool)}
    if not lengths:
        raise InputError("expected at least one array of the pool, or pool=N, got none; pass for example features=F")
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"expected all arrays to have the same number of rows, got {sizes}")
    N = next(iter(lengths.values()))
    if N < 1:
        raise InputError("the pool is empty (0 rows); there is nothing to choose from")
    return N


def check_values(name: str, array: np.ndarray) -> None:
    """No NaN or infinity; probabilities between 0 and 1 that sum to one; squared norms not negative."""
    step = max(1, TILE // (array.shape[1] if array.ndim == 2 else 1))
    for i in range(0, len(array), step):
        part = array[i : i + step]
        finite = np.isfinite(part)
        if not finite.all():
            row = i + int(np.argmin(finite.reshape(len(part), -1).all(axis=1)))
            bad = array[row] if array.ndim == 1 else array[row][~np.isfinite(array[row])][0]
            raise InputError(f"{name}: expected finite numbers, got {bad} in row {row}; remove or mend that row")
        if name == "probs":
            wrong = (np.abs(part.sum(axis=1, dtype=np.float64) - 1) > SUM_TOLERANCE) | (part < 0).any(axis=1)
            if wrong.any():
                row = i + int(wrong.argmax())
                raise InputError(
                    f"probs: expected rows >= 0 that sum to 1, got row {row} with sum {array[row].sum():.6g} and smallest "
                    f"entry {array[row].min():.6g}; pass logits= if these are not probabilities"
                )
        if name.startswith("grad_sq") and (part < 0).any():
            row = i + int((part < 0).reshape(len(part), -1).any(axis=1).argmax())
            raise InputError(f"{name}: expected squared norms >= 0, got {array[row].min()} in row {row}")


def check_labelled(given: Any, N: int) -> np.ndarray:
    """Distinct positions (L,) below N; None is none."""
    array = whole_numbers("labelled", given)
    outside = (array < 0) | (array >= N)
    if outside.any():
        raise InputError(
            f"labelled: expected positions from 0 to {N - 1}, got {array[outside.argmax()]} at place {outside.argmax()}"
        )
    values, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"labelled: expected each position once, got {values[counts.argmax()]} {counts.max()} times")
    return array


def check_labels(given: Any, labelled: np.ndarray, needed: bool) -> np.ndarray | None:
    """One whole number >= 0 per labelled item, or None where they are not needed."""
    if given is None:
        if needed and len(labelled):
            raise InputError(
                f"the strategy needs labels (L,) for the {len(labelled)} labelled items, which were not given"
            )
        return np.empty(0, dtype=np.int64) if needed else None
    array = whole_numbers("labels", given)
    if len(array) != len(labelled):
        raise InputError(f"labels: expected one per labelled item, {len(labelled)}, got {len(array)}")
    if (array < 0).any():
        raise InputError(f"labels: expected whole numbers >= 0, got {array.min()} at place {array.argmin()}")
    return array


def whole_numbers(name: str, given: Any) -> np.ndarray:
    """A flat int64 array; lists, arrays and tensors of whole numbers."""
    if given is None:
        return np.empty(0, dtype=np.int64)
    array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        hint = "; use np.flatnonzero(mask) for a mask" if array.dtype.kind == "b" else ""
        raise InputError(f"{name}: expected whole numbers, got an array of dtype {array.dtype}{hint}")
    if array.ndim != 1:
        raise InputError(f"{name}: expected one axis, got shape {array.shape}")
    return array.astype(np.int64)
