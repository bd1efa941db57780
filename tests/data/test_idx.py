import gzip

import numpy as np
import pytest

from askless.base.errors import InputError
from askless.data import fashion_mnist, mnist
from askless.data.fetch import IDX
from askless.data.idx import read_idx


def idx_bytes(array):
    sizes = b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return [rng.integers(256, size=(20, 28, 28)), np.arange(20) % 10, rng.integers(256, size=(7, 28, 28)), np.arange(7)]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("loader", "flip"), [(mnist, False), (fashion_mnist, True)])
def test_the_four_files_are_read_plain_or_gzipped(tmp_path, arrays, zipped, loader, flip):
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    for name, array in zip(IDX, arrays, strict=True):
        content = idx_bytes(array)
        place = tmp_path / "MNIST" / "raw" / (f"{name}.gz" if zipped else name)
        place.write_bytes(gzip.compress(content) if zipped else content)
    pool = loader(tmp_path)
    assert np.array_equal(pool.x[:, 0].numpy(), arrays[0])
    assert np.array_equal(pool.labels, arrays[1])
    assert np.array_equal(pool.test[0][:, 0].numpy(), arrays[2])
    assert np.array_equal(pool.test[1], arrays[3])
    assert (pool.shape, pool.flip, len(pool.classes)) == ((1, 28, 28), flip, 10)


def test_files_that_do_not_belong_together_are_refused(tmp_path, arrays):
    arrays[1] = arrays[1][:5]
    for name, array in zip(IDX, arrays, strict=True):
        (tmp_path / name).write_bytes(idx_bytes(array))
    with pytest.raises(
        InputError, match=r"expected images \(N, H, W\) and labels \(N,\), got \(20, 28, 28\) and \(5,\)"
    ):
        mnist(tmp_path)


def test_damaged_files_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"PK\3\4 something else")
    with pytest.raises(InputError, match="expected an idx file of bytes, got one that starts with 50 4b 03 04"):
        read_idx(tmp_path / "a")
    whole = idx_bytes(np.zeros((3, 4)))
    for cut in (5, 9, len(whole) - 1):
        (tmp_path / "a").write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"bytes for shape .* download it again"):
            read_idx(tmp_path / "a")
    (tmp_path / "a.gz").write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(InputError, match=r"expected a complete \.gz file, got a damaged one"):
        read_idx(tmp_path / "a.gz")


def test_absent_files_say_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("ASKLESS_DATA", str(tmp_path))
    message = (
        r"mnist: expected train-images-idx3-ubyte to .* \(4 files\) in .*, found none; run `askless data fetch mnist`"
    )
    with pytest.raises(InputError, match=message):
        mnist()
