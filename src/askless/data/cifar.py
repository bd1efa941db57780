"""CIFAR-10 and CIFAR-100: the binary batches and the pickled ones."""

import pickle
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from askless.data.fetch import locate
from askless.data.pool import Pool
from askless.errors import InputError

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32

# All that a pickled array needs; numpy has had its modules under two names.
RECONSTRUCT = np.empty(0).__reduce__()[0]
ALLOWED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): RECONSTRUCT,
}


def cifar10(path: str | PathLike[str] | None = None) -> Pool:
    """CIFAR-10: 50,000 images and 10,000 for test, (3, 32, 32) uint8, 10 classes."""
    place = locate("cifar10", path)
    if (place / "data_batch_1.bin").exists():
        train = [read_records(place / f"data_batch_{i}.bin", label_bytes=1) for i in range(1, 6)]
        test = read_records(place / "test_batch.bin", label_bytes=1)
        return from_batches("cifar10", [(x, y[:, 0]) for x, y in train], (test[0], test[1][:, 0]), CIFAR10_CLASSES)
    pickled = [read_pickled(place / f"data_batch_{i}", "labels") for i in range(1, 6)]
    return from_batches("cifar10", pickled, read_pickled(place / "test_batch", "labels"), CIFAR10_CLASSES)


def cifar100(path: str | PathLike[str] | None = None, labels: Literal["fine", "coarse"] = "fine") -> Pool:
    """CIFAR-100: 50,000 images and 10,000 for test, (3, 32, 32) uint8, 100 fine or 20 coarse classes."""
    if labels not in ("fine", "coarse"):
        raise InputError(f"labels: expected 'fine' or 'coarse', got {labels!r}")
    place = locate("cifar100", path)
    if (place / "train.bin").exists():
        column = 1 if labels == "fine" else 0
        (x, y), (test_x, test_y) = (read_records(place / f"{part}.bin", label_bytes=2) for part in ("train", "test"))
        names = place / f"{labels}_label_names.txt"
        classes = tuple(names.read_text().split()) if names.exists() else None
        return from_batches("cifar100", [(x, y[:, column])], (test_x, test_y[:, column]), classes)
    classes = tuple(str(name) for name in restricted_load(place / "meta")[f"{labels}_label_names"])
    train, test = (read_pickled(place / part, f"{labels}_labels") for part in ("train", "test"))
    return from_batches("cifar100", [train], test, classes)


def from_batches(
    name: str,
    train: list[tuple[np.ndarray, np.ndarray]],
    test: tuple[np.ndarray, np.ndarray],
    classes: tuple[str, ...] | None,
) -> Pool:
    x, y = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return Pool(torch.from_numpy(x), y, None, classes, (torch.from_numpy(test[0]), test[1]), name, "image")


def read_records(path: Path, label_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N, label_bytes) labels of a binary batch: each record is labels, then R, G, B planes."""
    content = np.fromfile(path, np.uint8)
    record = label_bytes + PIXELS
    if len(content) == 0 or len(content) % record:
        raise InputError(f"{path}: expected records of {record} bytes, got {len(content)} bytes; fetch it anew")
    rows = content.reshape(-1, record)
    return rows[:, label_bytes:].reshape(-1, 3, 32, 32).copy(), rows[:, :label_bytes].astype(np.int64)


def read_pickled(path: Path, key: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N,) labels of a pickled batch."""
    batch = restricted_load(path)
    data = batch.get("data") if isinstance(batch, dict) else None
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (PIXELS,) or key not in batch:
        found = ", ".join(map(str, batch)) if isinstance(batch, dict) else type(batch).__name__
        raise InputError(f"{path}: expected a dict with data (N, {PIXELS}) uint8 and {key}, got {found}")
    return data.reshape(-1, 3, 32, 32), np.asarray(batch[key], np.int64)


class RestrictedUnpickler(pickle.Unpickler):
    """Unpickles arrays and plain containers; a file that names anything else, such as code to run, is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in old protocols
            return lambda text, encoding: str(text).encode(encoding)
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return ALLOWED[module, name]


def restricted_load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return RestrictedUnpickler(file, encoding="latin1").load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise almost anything
        raise InputError(
            f"{path}: expected a pickled batch of CIFAR with arrays and lists only, got another file ({error}); it was not "
            "loaded; fetch the official one"
        ) from None
