"""The door: every array is checked here once, with a message that says what was expected, what came and what to do."""

import math
import sys
from typing import Any

import numpy as np

from askless.acquire.kernel import TableKernel
from askless.acquire.softmax import Softmax
from askless.acquire.strategy import Strategy, View
from askless.acquire.table import ARRAYS, PER_ITEM
from askless.base.errors import InputError
from askless.base.options import is_whole_number
from askless.base.plain import in_order, is_small, is_sparse, short, table_numbers
from askless.sources.shards import ShardedArray

TILE = 2**18  # numbers looked at in one go: they are looked at several times, so they should stay in the cache
SUM_TOLERANCE = 1e-3  # of a row of probabilities
SUM_TOLERANCE_16_BIT = 2e-2  # softmax outputs in bfloat16 have three digits
SYMMETRY_TOLERANCE = 1e-5  # of a kernel, relative to its largest entry
DIRECTIONS = 256  # of sparse features that do not fit in memory


def check_arrays(strategy: Strategy, arrays: dict[str, Any], pool: int | None, classes: int | None = None) -> View:
    """The arrays as a `View`, or an `InputError`; those in `wants` need not be there. Logits stand in for probabilities that
    were not given."""
    needs, wants = strategy.needs, tuple(getattr(strategy, "wants", ()))
    looked_at = {*needs, *wants}
    from_logits = "probs" in looked_at and arrays["probs"] is None and arrays["logits"] is not None
    if from_logits:
        needs, wants = (tuple("logits" if name == "probs" else name for name in names) for names in (needs, wants))
    check_there(strategy.name, needs, arrays)
    needs = (*needs, *(name for name in wants if arrays[name] is not None))
    per_item: dict[str, Any] = {
        k: as_array(k, v, k in needs) for k, v in arrays.items() if v is not None and k in PER_ITEM
    }
    N = pool_size({k: len(v) for k, v in per_item.items()}, pool)
    for name in needs:
        if isinstance(per_item.get(name), np.ndarray | ShardedArray):
            few_digits = getattr(getattr(arrays[name], "dtype", None), "itemsize", 8) <= 2
            check_values(name, per_item[name], SUM_TOLERANCE_16_BIT if few_digits else SUM_TOLERANCE)
    if "kernel" in needs and isinstance(per_item["kernel"], np.ndarray | ShardedArray):
        K = np.asarray(per_item["kernel"])
        check_kernel(K)
        per_item["kernel"] = TableKernel(K)
    if from_logits:
        per_item["probs"] = Softmax(per_item["logits"])
    both = {"probs", "grad_sq_by_class"} <= looked_at & set(per_item)
    if both and per_item["probs"].shape != per_item["grad_sq_by_class"].shape:
        raise InputError(
            f"grad_sq_by_class: expected one column per class, shape {per_item['probs'].shape} as probs has, got "
            f"{per_item['grad_sq_by_class'].shape}"
        )
    if isinstance(arrays["labelled"], set | frozenset) and arrays["labels"] is not None:
        raise InputError("labelled: expected a list, in the order of the labels, got a set; pass two lists")
    labelled = check_labelled(arrays["labelled"], N)
    labels = labels_of_labelled(strategy.name, arrays["labels"], labelled, "labels" in needs)
    if classes and labels is not None and (labels >= classes).any():
        place = int((labels >= classes).argmax())
        raise InputError(
            f"labels: expected class numbers from 0 to {classes - 1} for {classes} classes, got {labels[place]} at place "
            f"{place}; fix the label, or raise classes"
        )
    unlabelled = np.delete(np.arange(N), labelled)
    classes = classes or known_classes(per_item, labels)
    return View(N=N, labelled=labelled, unlabelled=unlabelled, labels=labels, classes=classes, **per_item)


def known_classes(per_item: dict[str, Any], labels: np.ndarray | None) -> int | None:
    """The columns of what is given per class, or else the classes among the labels; None where neither is there."""
    columns = [array.shape[-1] for name, array in per_item.items() if ARRAYS[name].shape.endswith("C)")]
    return columns[0] if columns else len(np.unique(labels)) if labels is not None and len(labels) else None


def check_there(strategy: str, needs: tuple[str, ...], arrays: dict[str, Any]) -> None:
    """An error that names what is missing of the arrays with a row per item, and how it is given."""
    missing = [name for name in needs if name in PER_ITEM and arrays[name] is None]
    if not missing:
        return
    what = " and ".join(f"{name} {ARRAYS[name].shape}, {ARRAYS[name].about}," for name in missing)
    ways = " and ".join(f"{name}= (--{name.replace('_', '-')})" for name in missing)
    ways += " or logits= (--logits)" if missing[-1] == "probs" else ""
    other = "random" if arrays["features"] is None else "coreset"
    raise InputError(
        f"{strategy} needs {what} which are missing; pass {ways}, or choose a strategy that needs less, such as {other}"
    )


def plain_array(name: str, given: Any) -> np.ndarray:
    """A numpy array of what came, or an error in words."""
    if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given):
        raise InputError(f"{name}: expected a plain array, got a masked one; fill it or drop the masked rows")
    if name == "features" and is_sparse(given):
        return written_out(given)
    torch = sys.modules.get("torch")  # not imported: who has not imported it has no tensor, and need not wait for it
    is_tensor = torch is not None and isinstance(given, torch.Tensor)
    sparse_tensor = is_tensor and given.layout != torch.strided  # type: ignore[union-attr]
    if sparse_tensor or hasattr(given, "toarray"):
        dense = "to_dense" if sparse_tensor else "toarray"
        raise InputError(f"{name}: expected a plain array, got a sparse one; pass {name}.{dense}()")
    try:
        if is_tensor:
            given = given.detach().cpu().resolve_conj().resolve_neg()
            return (given.float() if str(given.dtype) == "torch.bfloat16" else given).numpy()  # which numpy has not
        return np.asarray(table_numbers(name, given))
    except InputError:
        raise
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as error:
        got = f"{type(given).__name__}: {str(error).splitlines()[0]}"
        raise InputError(f"{name}: expected an array with rows of equal length, got {got}") from None


def written_out(features: Any) -> np.ndarray:
    """Sparse features (N, d) as an array; as their main directions (N, 256), which keep their products as far as so few
    can, where it would be too large."""
    if is_small(features):
        return np.asarray(features.toarray())
    coordinates = features.tocoo()
    finite = np.isfinite(coordinates.data)
    if not finite.all():
        bad, row = coordinates.data[~finite][0], coordinates.row[~finite][0]
        raise InputError(f"features: expected finite numbers, got {bad} in row {row}; remove or fix that row")
    from sklearn.decomposition import TruncatedSVD

    wide = min(DIRECTIONS, *features.shape)
    return np.asarray(TruncatedSVD(n_components=wide, random_state=0).fit_transform(features.astype(np.float32)))


def as_array(name: str, given: Any, needed: bool) -> Any:
    """A numpy array of numbers with the number of axes that `name` has; the data are shared where possible.

    Rows in shards stay where they are: strategies ask for them by slices and positions, as they do of a mapped array.
    """
    if name == "kernel" and hasattr(given, "blocks"):  # computed when parts of it are asked for
        return given
    array: Any = given if isinstance(given, ShardedArray) else plain_array(name, given)
    if array.dtype.kind not in "fiub":
        todo = "convert it, for example with np.stack(...).astype('float32')"
        if isinstance(given, str) or hasattr(given, "__fspath__"):
            todo = f"pass np.load({str(given)!r})"
        raise InputError(f"{name}: expected numbers, got an array of dtype {array.dtype}; {todo}")
    if array.ndim != len(ARRAYS[name].shape.strip("(,)").split(",")):
        hint = f"; pass {name}.reshape(len({name}), -1)" if name == "features" and array.ndim else ""
        hint = "; pass np.column_stack([1 - p, p]) for two classes" if name == "probs" and array.ndim == 1 else hint
        raise InputError(f"{name}: expected shape {ARRAYS[name].shape}, got {array.shape}{hint}")
    if 0 in array.shape[1:]:
        raise InputError(f"{name}: expected at least one column, got shape {array.shape}")
    if not needed:
        return array
    if isinstance(array, ShardedArray) and array.dtype.kind != "f":
        raise InputError(f"{name}: expected shards of floats, got {array.dtype}; write them as float16 or float32")
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def pool_size(lengths: dict[str, int], pool: int | None) -> int:
    """N, on which all arrays must agree."""
    if pool is not None:
        if not is_whole_number(pool):
            raise InputError(f"pool: expected the number of items, got {short(pool)}; pass pool=len(X), or features=X")
        lengths = {**lengths, "pool": int(pool)}
    if not lengths:
        raise InputError("expected at least one array of the pool, or pool=N, got none; pass for example features=F")
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(
            f"expected all arrays to have the same number of rows, got {sizes}; compute all of them for the same items, in "
            "the same order"
        )
    N = next(iter(lengths.values()))
    if N < 1:
        raise InputError("the pool is empty (0 rows); there is nothing to choose from")
    return N


def check_values(name: str, array: np.ndarray, sum_tolerance: float) -> None:
    """No NaN or infinity; no feature too large to be squared, nor all of them too small; probabilities that sum to one;
    squared norms not negative."""
    rule = ARRAYS[name].rule
    most = {8: 1e150, 4: 1e18}.get(array.dtype.itemsize, np.inf)  # of features
    reached = 0.0
    step = max(1, TILE // math.prod(array.shape[1:]))
    for i in range(0, len(array), step):
        part = array[i : i + step]
        finite = np.isfinite(part)
        if not finite.all():
            bad = part[~finite][0]  # in the order of the rows
            row = i + first_row(~finite)
            raise InputError(f"{name}: expected finite numbers, got {bad} in row {row}; remove or fix that row")
        if rule == "features":
            reached = max(reached, float(part.max()), -float(part.min()))
            if reached > most:
                row = first_row(np.abs(part) > most)
                raise InputError(
                    f"features: expected numbers up to {most:g} ({array.dtype}), whose squares do not overflow, got "
                    f"{np.abs(part[row]).max():.6g} in row {i + row}; rescale the features"
                )
        elif rule == "probabilities":
            check_sums(name, part, i, sum_tolerance)
        elif rule == "squares" and (part < 0).any():
            row = first_row(part < 0)
            raise InputError(f"{name}: expected squared norms >= 0, got {part[row].min()} in row {i + row}")
    if 0 < reached < 1 / most:
        raise InputError(
            f"features: expected numbers of at least {1 / most:g} ({array.dtype}), whose squares do not round to 0, got "
            f"none above {reached:.6g}; rescale the features"
        )


def first_row(wrong: np.ndarray) -> int:
    """The first row (of any number of axes) in which something is wrong."""
    return int(wrong.reshape(len(wrong), -1).any(axis=1).argmax())


def check_sums(name: str, part: np.ndarray, start: int, tolerance: float) -> None:
    """Probabilities over the last axis, >= 0 and with a sum of 1; the first row is number `start`."""
    wrong = (np.abs(part.sum(axis=-1, dtype=np.float64) - 1) > tolerance) | (part < 0).any(axis=-1)
    if not wrong.any():
        return
    expected, todo = "rows >= 0 that sum to 1", "pass logits= if these are not probabilities"
    if part.shape[1] == 1:
        todo = "pass np.hstack([1 - p, p]) for two classes"
    if part.ndim == 3:
        expected = "(items, passes, classes) with probabilities >= 0 that sum to 1 over the classes"
        todo = "pass softmax(logits), with the axes in this order"
    at = np.unravel_index(int(wrong.argmax()), wrong.shape)  # the row, and where there are such the pass
    bad, which_pass = part[at], "".join(f", pass {k}" for k in at[1:])
    raise InputError(
        f"{name}: expected {expected}, got row {start + at[0]}{which_pass} with sum {bad.sum():.6g} and "
        f"smallest entry {bad.min():.6g}; {todo}"
    )


def check_kernel(K: np.ndarray) -> None:
    """Square, symmetric but for rounding, and with no item of negative length."""
    N = len(K)
    if K.shape != (N, N):
        raise InputError(f"kernel: expected one row and one column per item, (N, N), got shape {K.shape}")
    if (K.diagonal() < 0).any():
        row = int((K.diagonal() < 0).argmax())
        raise InputError(f"kernel: expected K(x, x) >= 0 on the diagonal, got {K[row, row]:.6g} in row {row}")
    largest = float(K.diagonal().max())  # no entry of a kernel is larger
    tolerance = max(SYMMETRY_TOLERANCE, 8 * float(np.finfo(K.dtype).eps)) * largest
    step = max(1, TILE // N)
    for i in range(0, N, step):
        off = np.abs(K[i : i + step].astype(np.float64) - K[:, i : i + step].T)
        if off.max() > tolerance:
            row, column = divmod(int(off.argmax()), N)
            raise InputError(
                f"kernel: expected a symmetric array, got {K[i + row, column]:.6g} in row {i + row}, column {column} and "
                f"{K[column, i + row]:.6g} in the mirrored place; pass (K + K.T) / 2 if that is what you mean"
            )


def check_labelled(given: Any, N: int) -> np.ndarray:
    """Distinct positions (L,) below N; None is none."""
    array = whole_numbers("labelled", given)
    outside = (array < 0) | (array >= N)
    if outside.any():
        raise InputError(
            f"labelled: expected positions from 0 to {N - 1}, got {array[outside.argmax()]} at place {outside.argmax()}; "
            "pass positions in the whole pool"
        )
    values, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        times = "twice" if counts.max() == 2 else f"{counts.max()} times"
        raise InputError(
            f"labelled: expected each position once, got position {values[counts.argmax()]} {times}; keep one, and its label"
        )
    return array


def labels_of_labelled(strategy: str, given: Any, labelled: np.ndarray, needed: bool) -> np.ndarray | None:
    """One whole number >= 0 per labelled item, or None where they are not needed."""
    if given is None:
        if needed and len(labelled):
            raise InputError(
                f"{strategy} needs labels (L,) of the {len(labelled)} labelled items, which are missing; pass labels= "
                "(--labels)"
            )
        return np.empty(0, dtype=np.int64) if needed else None
    array = whole_numbers("labels", given)
    if len(array) != len(labelled):
        raise InputError(
            f"labels: expected one per labelled item, {len(labelled)}, got {len(array)}; pass labels[labelled] of all labels"
        )
    if (array < 0).any():
        raise InputError(f"labels: expected whole numbers >= 0, got {array.min()} at place {array.argmin()}")
    return array


def whole_numbers(name: str, given: Any) -> np.ndarray:
    """A flat int64 array; lists, arrays and tensors of whole numbers."""
    if given is None:
        return np.empty(0, dtype=np.int64)
    if name == "labelled":
        given = in_order(name, given)
    array = plain_array(name, given)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if name == "labels" and array.ndim == 2:
        raise InputError(
            f"labels: expected one class number per item, got shape {array.shape}; pass labels.argmax(axis=1)"
        )
    if array.dtype.kind not in "iu":
        hint = f"pass np.array({name}, dtype=int)"
        if array.dtype.kind == "b":
            hint = "use np.flatnonzero(mask) for a mask"
        elif name == "labels" and array.dtype.kind in "OSU":
            hint = "number the classes, as np.unique(labels, return_inverse=True)[1] does"
        raise InputError(f"{name}: expected whole numbers, got an array of dtype {array.dtype}; {hint}")
    if array.ndim != 1:
        raise InputError(f"{name}: expected one axis, got shape {array.shape}; pass np.ravel({name})")
    return array.astype(np.int64)
