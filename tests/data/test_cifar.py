import os
import pickle
from collections import OrderedDict

import numpy as np
import pytest

from askless.base.errors import InputError
from askless.data import cifar10, cifar100
from askless.data.cifar import read_names, read_pickled


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
        read_pickled(tmp_path / "bad", "labels")
    assert not (tmp_path / "harm").exists()
    write_pickle(tmp_path / "odd", OrderedDict(a=1))
    with pytest.raises(InputError, match=r"it asks for collections.OrderedDict"):
        read_pickled(tmp_path / "odd", "labels")
    (tmp_path / "text").write_text("not a pickle")
    with pytest.raises(InputError, match="expected a pickled batch of CIFAR"):
        read_pickled(tmp_path / "text", "labels")


def test_the_official_python_2_pickles_are_understood(tmp_path):
    # What Python 2 wrote: protocol 2, byte strings for keys and for the array's memory, numpy.core.multiarray.
    data = bytes(range(256)) * 12
    official = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89T" + len(data).to_bytes(4, "little") + data + b"tbU\x06labels]K\x03au."
    )
    (tmp_path / "batch").write_bytes(official)
    pixels, labels = read_pickled(tmp_path / "batch", "labels")
    assert labels.tolist() == [3]
    assert pixels.tobytes() == data


def test_an_array_by_columns_is_understood(tmp_path):
    write_pickle(tmp_path / "batch", {"data": np.asfortranarray(batch(3)), "labels": [0, 1, 2]})
    assert np.array_equal(read_pickled(tmp_path / "batch", "labels")[0].reshape(3, -1), batch(3))


ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"  # before its state
BYTE = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
TEXT = b"X\xe8\x03\x00\x00" + b"x" * 1000
NO_ARRAY = r"expected a pickled dict with data \(N, 3072\) uint8 and labels, got another file"
HOSTILE = {
    "objects hidden in the state of bytes": (
        ARRAY
        + b"(K\x01K\x01K\x01\x86cnumpy\ndtype\nU\x02V8K\x00K\x01\x87R(K\x03U\x01|N"
        + b"U\x01a\x85}U\x01acnumpy\ndtype\nU\x02O8K\x00K\x01\x87RK\x00\x86sK\x08K\x01K\x00tb\x89U\x08AAAAAAAAtb",
        NO_ARRAY,
    ),
    "fields of bytes": (
        ARRAY + b"(K\x01K\x01K\x01\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NU\x01a\x85}K\x08K\x01K\x3ftb",
        NO_ARRAY,
    ),
    "an array of another dtype": (ARRAY + b"(K\x01K\x01K\x01\x86U\x02O8\x89U\x08AAAAAAAAtb", NO_ARRAY),
    "an array larger than its bytes": (
        ARRAY + b"(K\x01J\xff\xff\xff\x7fM\x00\x0c\x86" + BYTE + b"\x89U\x01Atb",
        NO_ARRAY,
    ),
    "a shape below nothing": (
        ARRAY + b"(K\x01J\xff\xff\xff\xffJ\xff\xff\xff\xff\x86" + BYTE + b"\x89U\x01Atb",
        NO_ARRAY,
    ),
    "a call of a program": (b"cposix\nsystem\nU\x04true\x85R", "it asks for posix.system"),
    "a program by its parts": (b"\x8c\x05posix\x8c\x06system\x93U\x04true\x85R", "it asks for posix.system"),
    "a call of what numpy has": (b"cnumpy\nndarray\nJ\xff\xff\xff\x7f\x85\x85R", NO_ARRAY),
    "an object by its class": (b"(inumpy\nndarray\n", "it has the opcode INST"),
    "state for a list": (b"]}b", NO_ARRAY),
    "a list that is not there": (b"K\x01K\x02a", NO_ARRAY),
    "keys that are tuples in tuples": (b"})" + b"\x85" * 100_000 + b"K\x01s", NO_ARRAY),
    "items of nothing": (b"00s", "it has the opcode POP"),
    "a mark that is not there": (b"e", NO_ARRAY),
    "values that are not there": (b"\x86\x86", NO_ARRAY),
    "a memo that is not there": (b"j\xff\xff\xff\x7f", "2147483647"),
    "a text made into bytes again and again": (
        b"(" + TEXT + b"q\x000" + b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R" * 100 + b"l",
        "it has the opcode POP",
    ),
    "bytes again and again": (
        TEXT + b"q\x00" + b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R" * 100,
        NO_ARRAY,
    ),
    "no end": (b"K\x01", "pickle exhausted before seeing STOP"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_pickle_is_refused_with_the_reason(tmp_path, case):
    content, reason = HOSTILE[case]
    end = b"" if case == "no end" else b"s."
    (tmp_path / "bad").write_bytes(b"\x80\x02}U\x04data" + content + end)
    with pytest.raises(InputError, match=reason) as refused:
        read_pickled(tmp_path / "bad", "labels")
    assert len(str(refused.value)) < 500 + len(str(tmp_path))


def test_a_far_place_in_the_memo_and_deep_lists_cost_nothing(tmp_path):
    deep = b"]" * 200_000 + b"a" * 199_999
    (tmp_path / "meta").write_bytes(b"\x80\x02}r\xff\xff\xff\x7fU\x10fine_label_names" + deep + b"U\x03cats.")
    assert read_names(tmp_path / "meta", "fine_label_names") == ("cat",)


def test_other_contents_are_refused(tmp_path, binary):
    write_pickle(tmp_path / "batch", {"data": batch(2)[:, :100], "labels": [1, 2]})
    with pytest.raises(InputError, match=NO_ARRAY):
        read_pickled(tmp_path / "batch", "labels")
    for labels in ([1], [1, "2"], [1, -1], [[], []]):
        write_pickle(tmp_path / "batch", {"data": batch(2), "labels": labels})
        with pytest.raises(
            InputError, match="labels: expected 2 whole numbers from 0 to 255, got others; fetch it again"
        ):
            read_pickled(tmp_path / "batch", "labels")
    write_pickle(tmp_path / "batch", [1, 2])
    with pytest.raises(InputError, match=NO_ARRAY):
        read_pickled(tmp_path / "batch", "labels")
    (binary / "data_batch_3.bin").write_bytes(b"x" * 3074)
    with pytest.raises(
        InputError, match=r"data_batch_3.bin: expected records of 3073 bytes, got 3074 bytes; download it again"
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
