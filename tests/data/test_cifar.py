import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from askless.data import cifar10, cifar100
from askless.data.cifar import restricted_load
from askless.errors import InputError


def batch(n, seed=0):
    return np.random.default_rng(seed).integers(256, size=(n, 3072), dtype=np.uint8)


def write_pickle(path, content, protocol=2):
    with path.open("wb") as file:
        pickle.dump(content, file, protocol=protocol)


@pytest.fixture
def binary(tmp_path):
    for i in range(1, 7):
        name = "test_batch.bin" if i == 6 else f"data_batch_{i}.bin"
        labels = (np.arange(4, dtype=np.uint8) + i) % 10
        (tmp_path / name).write_bytes(np.concatenate([labels[:, None], batch(4, i)], axis=1).tobytes())
    return tmp_path


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_binary_and_pickled_batches_give_the_same_pool(tmp_path, protocol, binary):
    pickled = tmp_path / "py" / "cifar-10-batches-py"
    pickled.mkdir(parents=True)
    for i in range(1, 7):
        content = {
            "batch_label": f"batch {i}",
            "labels": [int(k) for k in (np.arange(4) + i) % 10],
            "data": batch(4, i),
            "filenames": ["a.png"] * 4,
        }
        write_pickle(pickled / ("test_batch" if i == 6 else f"data_batch_{i}"), content, protocol)
    one, two = cifar10(binary), cifar10(tmp_path / "py")
    assert one.x.shape == (20, 3, 32, 32)
    for a, b in ((one.x, two.x), (one.test[0], two.test[0]), (one.labels, two.labels), (one.test[1], two.test[1])):
        assert np.array_equal(a, b)
    assert one.x[4, 2, 31, 31] == batch(4, 2)[0, -1]
    assert one.classes[3] == "cat"
    assert one.flip


def test_cifar100_has_fine_and_coarse_labels_in_both_formats(tmp_path):
    binary, pickled = tmp_path / "binary", tmp_path / "pickled"
    binary.mkdir()
    pickled.mkdir()
    fine, coarse = np.array([7, 99, 0], np.uint8), np.array([1, 19, 0], np.uint8)
    for part in ("train", "test"):
        rows = np.concatenate([coarse[:, None], fine[:, None], batch(3)], axis=1)
        (binary / f"{part}.bin").write_bytes(rows.tobytes())
        content = {"data": batch(3), "fine_labels": fine.tolist(), "coarse_labels": coarse.tolist()}
        write_pickle(pickled / part, content)
    names = {"fine": [f"f{i}" for i in range(100)], "coarse": [f"c{i}" for i in range(20)]}
    for kind, each in names.items():
        (binary / f"{kind}_label_names.txt").write_text("\n".join(each) + "\n\n")
    write_pickle(pickled / "meta", {f"{kind}_label_names": each for kind, each in names.items()})
    for place in (binary, pickled):
        assert cifar100(place).labels.tolist() == [7, 99, 0]
        assert cifar100(place).classes[99] == "f99"
        assert cifar100(place, labels="coarse").labels.tolist() == [1, 19, 0]
        assert len(cifar100(place, labels="coarse").classes) == 20
        assert np.array_equal(cifar100(place).x.flatten(1), batch(3))
    (binary / "fine_label_names.txt").unlink()
    assert cifar100(binary).classes is None
    with pytest.raises(InputError, match="labels: expected 'fine' or 'coarse', got 'all'"):
        cifar100(binary, labels="all")


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_with_code_is_refused_and_does_nothing(tmp_path):
    write_pickle(tmp_path / "bad", {"data": Harmful(str(tmp_path / "harm"))})
    with pytest.raises(InputError, match=r"it asks for posix.mkdir\); it was not loaded"):
        restricted_load(tmp_path / "bad")
    assert not (tmp_path / "harm").exists()
    write_pickle(tmp_path / "odd", OrderedDict(a=1))
    with pytest.raises(InputError, match=r"it asks for collections.OrderedDict"):
        restricted_load(tmp_path / "odd")
    (tmp_path / "text").write_text("not a pickle")
    with pytest.raises(InputError, match="expected a pickled batch of CIFAR"):
        restricted_load(tmp_path / "text")


def test_the_official_python_2_pickles_are_understood(tmp_path):
    # What Python 2 wrote: protocol 2, byte strings for keys and for the array's memory, numpy.core.multiarray.
    data = bytes(range(256)) * 12
    official = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89T" + len(data).to_bytes(4, "little") + data + b"tbU\x06labels]K\x03au."
    )
    (tmp_path / "batch").write_bytes(official)
    content = restricted_load(tmp_path / "batch")
    assert content["labels"] == [3]
    assert content["data"].tobytes() == data


def test_other_contents_are_refused(tmp_path, binary):
    write_pickle(tmp_path / "batch", {"data": batch(2)[:, :100], "labels": [1, 2]})
    from askless.data.cifar import read_pickled

    with pytest.raises(InputError, match=r"expected a dict with data \(N, 3072\) uint8 and labels, got data, labels"):
        read_pickled(tmp_path / "batch", "labels")
    write_pickle(tmp_path / "batch", [1, 2])
    with pytest.raises(InputError, match="got list"):
        read_pickled(tmp_path / "batch", "labels")
    (binary / "data_batch_3.bin").write_bytes(b"x" * 3074)
    with pytest.raises(
        InputError, match=r"data_batch_3.bin: expected records of 3073 bytes, got 3074 bytes; fetch it anew"
    ):
        cifar10(binary)


def test_absent_files_say_how_to_get_them(tmp_path):
    with pytest.raises(
        InputError, match=r"cifar10: expected data_batch_1.bin to test_batch.bin \(6 files\) or data_batch_1"
    ):
        cifar10(tmp_path)
    with pytest.raises(
        InputError, match=r"cifar100: expected .* download https://www.cs.toronto.edu/~kriz/cifar-100-binary"
    ):
        cifar100(tmp_path)
