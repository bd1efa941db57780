"""SVHN: cropped street-view house numbers, in MATLAB's format."""

from os import PathLike
from pathlib import Path

import numpy as np
import torch

from askless.data.fetch import locate
from askless.data.idx import DIGIT_CLASSES
from askless.data.pool import Pool
from askless.errors import InputError


def svhn(path: str | PathLike[str] | None = None) -> Pool:
    """SVHN: 73,257 images and 26,032 for test, (3, 32, 32) uint8, without the "extra" ones; flips off."""
    place = locate("svhn", path)
    x, y = read_mat(place / "train_32x32.mat")
    test_x, test_y = read_mat(place / "test_32x32.mat")
    return Pool(torch.from_numpy(x), y, None, DIGIT_CLASSES, (torch.from_numpy(test_x), test_y), "svhn", "image", False)


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3, 32, 32) pixels and (N,) labels; the file has X (32, 32, 3, N) and y (N, 1) from 1 to 10, where 10 is a 0."""
    from scipy.io import loadmat

    try:
        content = loadmat(path, appendmat=False, variable_names=("X", "y"))
    except OSError:
        raise
    except Exception as error:  # scipy raises whatever the damaged bytes lead to
        raise InputError(
            f"{path}: expected a MATLAB file, got a damaged or other one ({error}); fetch it anew"
        ) from None
    x, y = content.get("X"), content.get("y")
    if x is None or y is None or x.ndim != 4 or x.shape[2] != 3 or y.size != x.shape[3] or x.dtype != np.uint8:
        found = ", ".join(f"{k} {v.shape}" for k, v in content.items() if isinstance(v, np.ndarray))
        raise InputError(f"{path}: expected X (32, 32, 3, N) uint8 and y (N, 1), got {found or 'neither'}")
    labels = y.reshape(-1).astype(np.int64)
    if labels.min() < 1 or labels.max() > 10:
        raise InputError(f"{path}: expected labels from 1 to 10, got {labels.min()} to {labels.max()}")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), labels % 10
