import struct
import zlib

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from askless.base.errors import InputError
from askless.data import svhn
from askless.data.matlab import read_mat


def write(root, x, y):
    for part in ("train", "test"):
        savemat(root / f"{part}_32x32.mat", {"X": x, "y": y}, do_compression=True)


def test_images_are_turned_and_ten_is_a_zero(tmp_path):
    x = np.random.default_rng(0).integers(256, size=(32, 32, 3, 4), dtype=np.uint8)
    write(tmp_path, x, np.array([[1], [10], [9], [10]]))
    pool = svhn(tmp_path)
    assert pool.x.shape == (4, 3, 32, 32)
    assert pool.x[2, 1, 5, 7] == x[5, 7, 1, 2]
    assert pool.labels.tolist() == pool.test[1].tolist() == [1, 0, 9, 0]
    assert pool.classes[0] == "0"
    assert not pool.flip


def test_other_contents_are_refused(tmp_path):
    x = np.zeros((32, 32, 3, 2), np.uint8)
    write(tmp_path, x, np.array([[0], [1]]))
    with pytest.raises(InputError, match="expected labels from 1 to 10, got 0 to 1"):
        svhn(tmp_path)
    write(tmp_path, x[..., 0], np.array([[1], [1]]))
    with pytest.raises(
        InputError, match=r"expected X \(32, 32, 3, N\) uint8 and y \(N, 1\), got X \(32, 32, 3\), y \(2, 1\)"
    ):
        svhn(tmp_path)
    (tmp_path / "train_32x32.mat").write_text("not MATLAB " * 50)
    with pytest.raises(InputError, match="expected a MATLAB file, got another or a damaged one"):
        svhn(tmp_path)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("labels", ["uint8", "float64", "int64", ">i4"])
def test_numbers_are_read_as_scipy_reads_them(tmp_path, packed, labels):
    x = np.random.default_rng(0).integers(256, size=(5, 4, 3, 3), dtype=np.uint8)
    more = {"notes": "text", "cells": np.array([1, "a"], object), "z": 1j}
    savemat(tmp_path / "a.mat", {**more, "X": x, "y": np.array([[3], [1], [10]], labels)}, do_compression=packed)
    pixels, y = read_mat(tmp_path / "a.mat")
    seen = loadmat(tmp_path / "a.mat", variable_names=("X", "y"))
    assert np.array_equal(pixels, seen["X"].transpose(3, 2, 0, 1))
    assert y.tolist() == (seen["y"][:, 0] % 10).tolist() == [3, 1, 0]


def element(kind, content):
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def mat(*matrices):
    return b"MATLAB 5.0".ljust(124) + b"\0\1IM" + b"".join(matrices)


def head(kind, name, *shape):
    flags, sides = struct.pack("<II", kind, 0), struct.pack(f"<{len(shape)}i", *shape)
    return element(6, flags) + element(5, sides) + element(1, name)


def test_cells_in_cells_are_not_entered(tmp_path):
    """With scipy's reader this file ends the process."""
    inner, heads = element(14, head(9, b"", 1, 1) + element(2, b"\1")), []
    size = len(inner)
    for _ in range(20_000):
        heads.append(struct.pack("<II", 14, len(head(1, b"", 1, 1)) + size) + head(1, b"", 1, 1))
        size += len(heads[-1])
    cells = head(1, b"X", 1, 1) + b"".join(reversed(heads)) + inner
    (tmp_path / "a.mat").write_bytes(mat(element(14, cells)))
    with pytest.raises(
        InputError, match=r"got another or a damaged one \(X is not an array of numbers\); fetch it again"
    ):
        read_mat(tmp_path / "a.mat")


def test_what_does_not_fit_or_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "a.mat"
    for shape, reason in (((2**31 - 1,) * 4, "has 1 numbers for shape"), ((-1, -1), "X is not an array of numbers")):
        file.write_bytes(mat(element(14, head(9, b"X", *shape) + element(2, b"\1"))))
        with pytest.raises(InputError, match=reason):
            read_mat(file)
    file.write_bytes(mat(struct.pack("<II", 14, 2**31)))
    with pytest.raises(InputError, match="it ends too early"):
        read_mat(file)
    bomb = element(14, head(9, b"X", 1, 10_000_000) + element(2, bytes(10_000_000)))
    file.write_bytes(mat(element(15, zlib.compress(bomb))))
    monkeypatch.setenv("ASKLESS_MAX_BYTES", "1,000,000")
    with pytest.raises(InputError, match=r"expected at most 1,000,000 bytes .* ASKLESS_MAX_BYTES to a larger number"):
        read_mat(file)


def test_absent_files_say_how_to_get_them(tmp_path):
    message = r"svhn: expected train_32x32.mat to test_32x32.mat .* download http://ufldl.stanford.edu/housenumbers/train_32x32"
    with pytest.raises(InputError, match=message):
        svhn(tmp_path)
