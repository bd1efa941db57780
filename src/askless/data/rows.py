"""Arrays, tensors, lists and Datasets as people have them -> the rows of a pool."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from askless.base.errors import InputError
from askless.base.plain import in_order, is_small, is_sparse, table_numbers
from askless.sources.image_file import pixels_of
from askless.sources.layout import Layout, as_images

Kind = Literal["image", "features", "tokens", "text", "other"]
KINDS = ("image", "features", "tokens", "text", "other")
TILE = 4096


class Items(Protocol):
    """Anything with a length and positions, such as a torch Dataset; an item is x, or (x, y)."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Rows = Tensor | np.ndarray | Items


class Chosen:
    """A Dataset made of some items of another one, in the order of `places`."""

    def __init__(self, items: Items, places: np.ndarray) -> None:
        self.items, self.places = items, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Any:
        return self.items[int(self.places[index])]


def as_rows(data: Any) -> Rows:
    """A tensor, an array, or a Dataset; everything else is refused with what to do about it."""
    if isinstance(data, Tensor):
        return data.detach()
    if is_sparse(data):
        if not is_small(data):
            raise InputError(
                f"expected dense rows, got a sparse array of shape {data.shape}, which is too large to make dense; use "
                "sklearn.decomposition.TruncatedSVD(256).fit_transform(x)"
            )
        data = data.toarray()
    data = table_numbers("pool", data)
    if hasattr(data, "to_numpy"):
        data = data.to_numpy()
    if isinstance(data, np.ndarray) and data.dtype.kind in "UO" and data.ndim == 1:
        data = data.tolist()
    if is_texts(data):
        return tuple(map(str, data))
    if isinstance(data, list) and data and isinstance(data[0], int | float | list):
        try:
            data = np.asarray(data)
        except ValueError as error:
            raise InputError(f"expected rows of equal length, got a ragged list ({error}); pad the rows") from None
    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, str | bytes) or hasattr(data, "__fspath__"):
        raise InputError(
            f"expected an array, a pair (x, y) or a Dataset, got the path {str(data)!r}; use data.load(path)"
        )
    if hasattr(data, "dataset") and hasattr(data, "batch_size"):
        raise InputError(f"expected items by position, got {type(data).__name__}, which has batches; pass its .dataset")
    if isinstance(data, Mapping) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise InputError(
            f"expected an array, tensor, pair (x, y) or a Dataset with a length and positions, got "
            f"{type(data).__name__}; read it into a list first"
        )
    if len(data) == 0:
        raise InputError("the pool is empty; expected at least one item")
    return data


def is_texts(data: Any) -> bool:
    return isinstance(data, list | tuple) and len(data) > 0 and all(isinstance(text, str) for text in data)


def normalised(x: Rows, kind: Kind | None, layout: Layout) -> tuple[Rows, Kind]:
    """The rows in the form that Pool documents, and their kind."""
    if is_texts(x):
        if kind not in (None, "text"):
            raise InputError(f"expected {kind} items, got texts; leave kind out")
        return x, "text"
    if not isinstance(x, Tensor | np.ndarray):
        return x, kind or kind_of_items(x)
    shape, letter = tuple(x.shape), dtype_letter(x)
    if letter not in "fiub":
        raise InputError(f"expected numbers, got an array of dtype {x.dtype}; convert it, for example to float32")
    if x.ndim < 2:
        raise InputError(f"expected rows (N, ...), got shape {shape}; use x[:, None] for one number per item")
    if len(x) == 0:
        raise InputError(f"the pool is empty, shape {shape}; expected at least one item")
    kind = kind or guess_kind(x)
    if kind == "image":
        if letter != "f" and not is_uint8(x):
            raise InputError(f"images: expected uint8, or float in [0, 1], got {x.dtype}; use x.astype('uint8')")
        x = as_images(x[None] if x.ndim == 2 else x, layout)
    elif kind in ("features", "tokens") and x.ndim != 2:
        raise InputError(
            f"{kind}: expected two axes, {'(N, d)' if kind == 'features' else '(N, T)'}, got shape {shape}"
        )
    x = as_tensor_or_map(x, kind)
    if letter == "f":
        check_finite(x)
    return x, kind


def guess_kind(x: Tensor | np.ndarray) -> Kind:
    """Image, features, tokens or other, by dtype and number of axes."""
    letter = dtype_letter(x)
    if is_uint8(x) and x.ndim == 2:
        raise InputError(
            f"uint8 of shape {tuple(x.shape)} could be one image or {len(x)} rows of features; pass kind='image' or "
            "kind='features'"
        )
    if x.ndim == 2:
        return "tokens" if letter in "iu" else "features"
    if (is_uint8(x) and x.ndim in (3, 4)) or (letter == "f" and x.ndim == 4):
        return "image"
    return "other"


def as_tensor_or_map(x: Tensor | np.ndarray, kind: Kind) -> Tensor | np.ndarray:
    """A tensor that shares the memory where it can; arrays that may not be written to (mapped files) stay arrays."""
    to_float = kind == "features" and dtype_letter(x) != "f"
    to_int = kind == "tokens" and str(x.dtype) not in ("int64", "torch.int64")
    if isinstance(x, Tensor):
        return (x.float() if to_float else x.long() if to_int else x).contiguous()
    x = x.astype(np.float32 if to_float else np.int64 if to_int else torch_dtype(x), copy=False)
    return torch.from_numpy(np.ascontiguousarray(x)) if x.flags.writeable else x


def torch_dtype(array: np.ndarray) -> np.dtype:
    """The nearest dtype that torch works with everywhere: native byte order, no unsigned numbers but uint8."""
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        return np.dtype(np.int64)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return np.dtype(np.float64)
    return array.dtype.newbyteorder("=")


def dtype_letter(x: Tensor | np.ndarray) -> str:
    """numpy's letter for the kind of number: f, i, u, b, or something else."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind
    if x.dtype.is_complex:
        return "c"
    return "f" if x.dtype.is_floating_point else "b" if x.dtype == torch.bool else "i"


def is_uint8(x: Tensor | np.ndarray) -> bool:
    return str(x.dtype) in ("uint8", "torch.uint8")


def check_finite(x: Tensor | np.ndarray) -> None:
    for start in range(0, len(x), TILE):
        part = x[start : start + TILE]
        finite = torch.isfinite(part) if isinstance(part, Tensor) else torch.from_numpy(np.isfinite(part))
        rows = finite.reshape(len(part), -1).all(dim=1)
        if not rows.all():
            row = start + int((~rows).int().argmax())
            raise InputError(f"expected finite numbers, got NaN or infinity in row {row}; remove or fix that row")


# --- positions and items


def positions(indices: Any, N: int, what: str = "indices") -> np.ndarray:
    """A flat int64 array of places below N, from a list, set, array, tensor or selection."""
    indices = in_order(what, indices)
    at = indices.detach().cpu().numpy() if isinstance(indices, Tensor) else np.asarray(indices)
    if at.size == 0:
        return np.empty(0, np.int64)
    if at.dtype.kind not in "iu" or at.ndim != 1:
        hint = "; use np.flatnonzero(mask) for a mask" if at.dtype.kind == "b" else ""
        raise InputError(f"{what}: expected whole numbers (n,), got {at.dtype} of shape {at.shape}{hint}")
    if at.min() < 0 or at.max() >= N:
        bad = at.min() if at.min() < 0 else at.max()
        raise InputError(f"{what}: expected positions from 0 to {N - 1}, got {bad}")
    return at.astype(np.int64, copy=False)


def rows_at(x: Rows, at: np.ndarray) -> Rows:
    """The rows at these places; nothing of a Dataset is read."""
    if isinstance(x, Tensor):
        return x.index_select(0, torch.from_numpy(at).to(x.device))
    if isinstance(x, tuple):
        return tuple(x[i] for i in at)
    return x[at] if isinstance(x, np.ndarray) else Chosen(x, at)


def take_rows(x: Rows, at: np.ndarray, shape: tuple[int, ...] | None = None) -> Tensor:
    """The rows at these places as one tensor; of a Dataset only those items are read."""
    if isinstance(x, Tensor):
        return x.index_select(0, torch.from_numpy(at).to(x.device))
    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(x[at]))
    items = [as_item(x[int(i)], int(i)) for i in at]
    shape = item_shape(x) if shape is None else shape
    for i, item in zip(at, items, strict=True):
        if tuple(item.shape) != shape:
            raise InputError(
                f"item {i}: expected shape {shape}, as item 0 has, got {tuple(item.shape)}; make all items one size in the "
                "dataset, for example by resizing or padding"
            )
    return torch.stack(items) if items else torch.empty(0, *shape)


def item_shape(x: Rows) -> tuple[int, ...]:
    if isinstance(x, Tensor | np.ndarray):
        return tuple(x.shape[1:])
    if isinstance(x[0], str):
        return ()
    return tuple(as_item(x[0], 0).shape)


def as_item(item: Any, i: int) -> Tensor:
    """The x of a Dataset's item as a tensor; a Pillow image or uint8 array as (C, H, W)."""
    if isinstance(item, tuple) or (isinstance(item, list) and item and not isinstance(item[0], int | float)):
        if not item:
            raise InputError(f"item {i}: expected x or (x, y), got an empty {type(item).__name__}")
        item = item[0]
    if isinstance(item, Mapping):
        raise InputError(
            f"item {i}: expected x or (x, y), got {type(item).__name__} with keys {', '.join(map(str, item))}; "
            "wrap the dataset so that it returns (x, y)"
        )
    if isinstance(item, Tensor):
        x = item.detach()
    else:
        is_picture = type(item).__module__.partition(".")[0] == "PIL"
        array = pixels_of(item, grey=True) if is_picture else np.array(item)
        if array.dtype.kind not in "fiub":
            raise InputError(
                f"item {i}: expected a tensor, array, Pillow image or number, got {type(item).__name__}; "
                "add a transform to the dataset that returns a tensor"
            )
        x = torch.from_numpy(array.astype(torch_dtype(array), copy=False))
    if x.dtype == torch.uint8 and x.ndim == 2:
        return x[None]
    if x.dtype == torch.uint8 and x.ndim == 3 and x.shape[0] not in (1, 3) and x.shape[2] in (1, 3):
        return x.movedim(2, 0)
    return x.float() if x.dtype == torch.float64 else x


def kind_of_items(x: Items) -> Kind:
    first = as_item(x[0], 0)
    if first.dtype == torch.uint8 and first.ndim == 3:
        return "image"
    if first.ndim == 1:
        return "features" if first.is_floating_point() else "tokens"
    return "other"
