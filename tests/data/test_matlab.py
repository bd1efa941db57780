import numpy as np
import pytest
from scipy.io import savemat

from askless.data import svhn
from askless.errors import InputError


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
    with pytest.raises(InputError, match="expected a MATLAB file, got a damaged or other one"):
        svhn(tmp_path)


def test_absent_files_say_how_to_get_them(tmp_path):
    message = r"svhn: expected train_32x32.mat to test_32x32.mat .* download http://ufldl.stanford.edu/housenumbers/train_32x32"
    with pytest.raises(InputError, match=message):
        svhn(tmp_path)
