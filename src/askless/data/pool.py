"""The pool: all items, with permanent numbers 0..N-1, and their known labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from askless.base.errors import InputError
from askless.data.rows import KINDS, Kind, Rows, as_rows, item_shape, normalised, positions, take_rows
from askless.sources.layout import Layout
from askless.sources.names import check_names, in_order, label_numbers


@dataclass(frozen=True, eq=False, repr=False)
class Pool:
    """N items and their known labels; make one with `as_pool` or a source such as `digits()`.

    `x`: images (N, C, H, W), uint8 or float in [0, 1]; features (N, d), float; tokens (N, T), int64; N texts; anything
    else with N rows; or a Dataset whose items are read on access. `labels` (N,) int64, -1 = unknown: for the oracle and
    earlier labels, never shown to a strategy. `flip`: whether a mirrored image keeps its class. `test` = (x, y) is held
    out. `skipped` lists files that were left out and why, `columns` the other columns of a manifest.

    `ids` are the items' names and `classes` those of the classes; `kind` says what x holds.

    >>> Pool(np.eye(3, dtype=np.float32), labels=np.array([0, 1, -1]), classes=("cat", "dog"), kind="features")
    <Pool pool: 3 features items of 3, 2 with a label, 2 classes>
    """

    x: Any  # Rows; which of them, only `kind` knows
    labels: np.ndarray | Any = None  # None becomes (N,) of -1
    ids: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    test: Any = None
    name: str = "pool"
    kind: Kind = "other"
    flip: bool = True
    skipped: tuple[tuple[str, str], ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        N = len(self.x)
        if N == 0:
            raise InputError(f"{self.name}: the pool is empty; expected at least one item")
        if self.kind not in KINDS:
            raise InputError(f"{self.name}: kind must be one of {', '.join(KINDS)}, got {self.kind!r}")
        classes = None if self.classes is None else check_names("classes", self.classes)
        given = np.full(N, -1, np.int64) if self.labels is None else as_numpy(self.labels)
        labels = label_numbers("labels", given, N, classes)
        self._set(classes=classes, labels=labels)
        if self.ids is not None:
            self._set(ids=check_names("ids", self.ids, N))
        if self.test is not None:
            self._set(test=self._checked_test(*self.test))
        for column, values in self.columns.items():
            if len(values) != N:
                raise InputError(f"column {column!r}: expected one value per item, {N}, got {len(values)}")

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        known = int((self.labels >= 0).sum())
        classes = "" if self.n_classes is None else f", {self.n_classes} classes"
        test = "" if self.test is None else f", {len(self.test[1])} for test"
        shape = "" if self.kind == "text" else f" of {' x '.join(str(n) for n in self.shape) or '1'}"
        return f"<Pool {self.name}: {len(self)} {self.kind} items{shape}, {known} with a label{classes}{test}>"

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of one item."""
        return item_shape(self.x)

    @property
    def n_classes(self) -> int | None:
        """The number of classes: of class names, else the largest known label plus one, else None."""
        if self.classes is not None:
            return len(self.classes)
        largest = max(int(self.labels.max()), -1 if self.test is None else int(self.test[1].max()))
        return None if largest < 0 else largest + 1

    def take(self, indices: Any) -> Tensor:
        """The items at these positions, (n, ...); a Dataset reads only those items. uint8 stays uint8.

        >>> as_pool(np.eye(3, dtype=np.float32)).take([2, 0]).tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        """
        if self.kind == "text":
            raise InputError("texts are not numbers; embed them with net='frozen:tfidf', or read the texts in pool.x")
        return take_rows(self.x, positions(indices, len(self)), self.shape)

    def _checked_test(self, x: Any, y: Any) -> tuple[Any, np.ndarray]:
        labels = label_numbers("test labels", as_numpy(y), len(x), self.classes)
        if (labels < 0).any():
            raise InputError(f"test labels: expected a label for every item, got -1 at place {(labels < 0).argmax()}")
        if self.kind != "text" and tuple(x.shape[1:]) != self.shape:
            raise InputError(f"test items: expected shape {self.shape} as in the pool, got {tuple(x.shape[1:])}")
        return x, labels

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def as_pool(
    data: Any,
    labels: Any = None,
    *,
    test: Any = None,
    ids: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    name: str = "pool",
    kind: Kind | None = None,
    layout: Layout = "auto",
    flip: bool = True,
) -> Pool:
    """A Pool from a Pool, an array, a tensor, a pair (x, y), or a Dataset.

    Without `kind`: uint8 with three or four axes, and floats with four, are images; floats with two axes are
    features; whole numbers with two axes are tokens; the rest is "other". A Dataset of uint8 arrays or Pillow images
    holds images; one of floats is "other", because its own transforms have been applied. A list of texts holds texts.
    Float images must be in [0, 1]. Labels may be whole numbers, -1 = unknown, or class names, "" = unknown; a
    Dataset's are found in its attribute `targets` or `labels`, otherwise use `labels_of`. `test` is a pair (x, y), or
    a Dataset that is then read into memory.

    >>> as_pool((np.zeros((4, 8, 8), np.uint8), [0, 1, -1, 1]))
    <Pool pool: 4 image items of 1 x 8 x 8, 3 with a label, 2 classes>
    """
    if isinstance(data, Pool):
        if any(option is not None for option in (labels, test, ids, classes, kind)):
            raise InputError("got a Pool together with other options; change it with dataclasses.replace(pool, ...)")
        return data
    data, labels = split_pair(data, labels)
    if (
        isinstance(data, list)
        and [getattr(part, "ndim", 0) > 0 for part in data] == [True, True]
        and (data[0].ndim > data[1].ndim and len(data[0]) == len(data[1]))
    ):
        raise InputError("expected a pair (x, y), got a list of two arrays; pass the tuple (x, y)")
    rows, kind = normalised(as_rows(data), kind, layout)
    if labels is None:
        labels = dataset_labels(rows)
    held_out, test_labels = None, None
    if test is not None:
        test_data, test_labels = split_pair(test, None)
        test_rows, _ = normalised(as_rows(test_data), kind, layout)
        test_labels = labels_of(test_rows) if test_labels is None else test_labels
        held_out = test_rows if kind == "text" else take_rows(test_rows, np.arange(len(test_rows)))
    labels, test_labels, classes = encoded(labels, test_labels, classes)
    return Pool(
        rows,
        labels,
        None if ids is None else tuple(ids),
        None if classes is None else tuple(classes),
        None if held_out is None else (held_out, test_labels),
        name,
        kind,
        flip,
    )


def split_pair(data: Any, labels: Any) -> tuple[Any, Any]:
    """x and y of a pair (x, y) or of a TensorDataset with two tensors; anything else as it is."""
    if hasattr(data, "tensors") and isinstance(data.tensors, tuple) and len(data.tensors) <= 2:
        data = data.tensors if len(data.tensors) == 2 else data.tensors[0]
    if not isinstance(data, tuple) or len(data) != 2 or all(isinstance(one, str) for one in data):
        return data, labels
    if labels is not None:
        raise InputError("got labels twice: in the pair (x, y) and as labels=; pass one of them")
    return data


def labels_of(dataset: Rows) -> np.ndarray:
    """(N,) labels of a Dataset whose items are (x, y): from `targets` or `labels`, else by reading each item once.

    >>> labels_of([("an image", 1), ("another", 0)]).tolist()
    [1, 0]
    """
    known = dataset_labels(dataset)
    if known is not None:
        return known
    labels = []
    for i in range(len(dataset)):
        item = dataset[i]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise InputError(f"item {i}: expected a pair (x, y), got {type(item).__name__}; pass the labels separately")
        labels.append(int(item[1]))
    return np.array(labels, np.int64)


def dataset_labels(x: Rows) -> np.ndarray | None:
    """A Dataset's `targets` or `labels`, if there is one per item."""
    for attribute in ("targets", "labels"):
        given = getattr(x, attribute, None)
        if given is not None and hasattr(given, "__len__") and len(given) == len(x):
            return as_numpy(given)
    return None


def encode_labels(names: Sequence[str], classes: Sequence[str] | None = None) -> tuple[np.ndarray, tuple[str, ...]]:
    """(N,) positions in `classes` (by default all names, in order) and those classes; "" becomes -1.

    >>> encode_labels(["dog", "", "cat"])
    (array([ 1, -1,  0]), ('cat', 'dog'))
    """
    known = in_order(names) if classes is None else tuple(classes)
    place = {name: i for i, name in enumerate(known)} | {"": -1}
    for i, name in enumerate(names):
        if name not in place:
            raise InputError(f"label {name!r} of item {i} is not one of the classes {', '.join(known)}; add the class")
    return np.array([place[name] for name in names], np.int64), known


def encoded(labels: Any, test_labels: Any, classes: Sequence[str] | None) -> tuple[Any, Any, Sequence[str] | None]:
    """Labels and test labels as numbers: class names are looked up in `classes`, by default all names that occur."""
    given = {k: as_numpy(v) for k, v in (("pool", labels), ("test", test_labels)) if v is not None}
    names = {k: [str(name) for name in v] for k, v in given.items() if holds_text(v)}
    if names and classes is None:
        classes = in_order(name for part in names.values() for name in part)
    numbers = given | {k: encode_labels(part, classes)[0] for k, part in names.items()}
    return numbers.get("pool"), numbers.get("test"), classes


def holds_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and all(isinstance(name, str) for name in labels.flat))


def as_numpy(given: Any) -> np.ndarray:
    return given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
