"""Examples from a tensor, an array or a dataset, batch by batch, where the model is."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from askless.base.errors import InputError
from askless.base.options import check_count
from askless.base.plain import short


class Examples(Protocol):
    """A tensor, an array, or anything with a length whose items are x or (x, y, ...)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any: ...


class Place(NamedTuple):
    device: torch.device
    dtype: torch.dtype


def place_of(model: nn.Module) -> Place:
    """Where the model's numbers live: device and floating dtype of its first parameter, else buffer."""
    if not isinstance(model, nn.Module):
        raise InputError(f"expected a torch module first, got {short(model)}; pass (model, x)")
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            return Place(tensor.device, tensor.dtype)
    return Place(torch.device("cpu"), torch.get_default_dtype())


def count(x: Examples) -> int:
    """How many examples, also none."""
    if not (hasattr(x, "__len__") and hasattr(x, "__getitem__")) or isinstance(x, dict | str):
        todo = "pass (model, x), in this order" if isinstance(x, nn.Module) else "collect it into one first"
        raise InputError(f"expected a tensor, an array or a dataset with a length, got {type(x).__name__}; {todo}")
    if getattr(x, "ndim", 1) == 0:
        raise InputError("expected examples along the first axis, got a single number; pass an array of examples")
    return len(x)


def some(x: Examples) -> int:
    """How many examples, at least one."""
    n = count(x)
    if n == 0:
        raise InputError("expected at least one example, got none; check what was passed as x")
    return n


def rows(x: Examples, start: int, stop: int, place: Place) -> Tensor:
    """Examples start..stop-1 as one tensor on the model's device; floats in its dtype, whole numbers as they are."""
    return _taken(x, slice(start, stop), range(start, stop), place)


def spread(x: Examples, k: int, place: Place) -> Tensor:
    """The same of k examples, evenly from the first to the last; of all where there are fewer."""
    n = some(x)
    k = min(k, n)
    at = [i * (n - 1) // max(1, k - 1) for i in range(k)]
    return _taken(x, at, at, place)


def batches(x: Examples, size: int, place: Place) -> Iterator[Tensor]:
    """All examples in order, `size` at a time. (A DataLoader would draw from the global generator.)"""
    check_count("kernels", "batch_size", size)
    n = count(x)
    return (rows(x, start, min(start + size, n), place) for start in range(0, n, size))


def _taken(x: Examples, at: slice | list[int], positions: Sequence[int], place: Place) -> Tensor:
    """x[at], where `positions` are the same written out."""
    if isinstance(x, Tensor):
        batch = _plain(x[at])
    elif isinstance(x, np.ndarray):
        batch = _tensor(x[at])
    elif hasattr(x, "__getitems__"):  # torch's protocol for several items at once; a tensor is taken as the batch
        items = x.__getitems__(list(positions))
        batch = items.detach() if isinstance(items, Tensor) else _stack([_first(item) for item in items])
    else:
        batch = _stack([_first(x[i]) for i in positions])
    return batch.to(place.device, place.dtype if batch.is_floating_point() else batch.dtype)


def _plain(x: Tensor) -> Tensor:
    """Without history; a tensor made in inference mode is copied, since autograd refuses it."""
    return x.clone() if x.is_inference() else x.detach()


def _tensor(array: np.ndarray) -> Tensor:
    if array.dtype.kind not in "biufc":
        raise InputError(f"expected an array of numbers, got dtype {array.dtype}; convert it to float or int")
    return torch.from_numpy(np.array(array))  # a copy: the array may be read-only


def _first(item: Any) -> Tensor:
    is_pair = isinstance(item, tuple) or (isinstance(item, list) and not isinstance(item[0], int | float))
    x = item[0] if is_pair else item
    x = np.asarray(x) if isinstance(x, list) else x
    if isinstance(x, Tensor):
        return _plain(x)
    if isinstance(x, np.ndarray | np.generic | int | float):
        return _tensor(np.asarray(x))
    raise InputError(
        f"expected items x or (x, y, ...) with x a tensor or array, got {type(x).__name__}; transform it to a tensor"
    )


def _stack(items: list[Tensor]) -> Tensor:
    shapes = {tuple(item.shape) for item in items}
    if len(shapes) > 1:
        raise InputError(f"expected items of one shape, got {sorted(shapes)}; resize or pad them to one shape")
    return torch.stack(items)
