import numpy as np
import pytest

from askless.base.errors import InputError
from askless.sources.arrays import read_arrays

IMAGES = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)


def rows(source):
    return [item[:3] for item in source.found]


def is_on_disk(x):
    while x is not None and not isinstance(x, np.memmap):
        x = x.base
    return x is not None


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    ("x", "kind", "shape"),
    [
        (IMAGES, "images", (2, 3, 4, 5)),
        (IMAGES.transpose(0, 3, 1, 2), "images", (2, 3, 4, 5)),
        (np.asfortranarray(IMAGES), "images", (2, 3, 4, 5)),
        (IMAGES[..., 0], "images", (2, 1, 4, 5)),
        (IMAGES / 255, "images", (2, 3, 4, 5)),
        (IMAGES.reshape(2, -1).astype(">f4"), "features", (2, 60)),
        (np.eye(2, dtype=np.float16), "features", (2, 2)),
    ],
)
def test_images_and_features_are_told_apart(tmp_path, save, x, kind, shape):
    save(tmp_path / "a.npz", X=x, y=[0, 1])
    found = read_arrays(tmp_path / "a.npz")
    assert (found.kind, found.array.shape) == (kind, shape)
    moved = np.moveaxis(x, 3, 1) if x.shape[1:] == (4, 5, 3) else x
    assert np.array_equal(found.array, moved.reshape(shape))
    assert is_on_disk(found.array) == (save is np.savez)  # what is not compressed is not loaded


def test_npy_stays_on_disk_and_has_its_ids_beside_it(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    assert rows(read_arrays(tmp_path / "a.npy")) == [("0", 0, ""), ("1", 1, "")]
    (tmp_path / "ids.txt").write_text("é\nb\n", encoding="utf-8")
    found = read_arrays(tmp_path / "a.npy")
    assert (rows(found), found.classes) == ([("é", 0, ""), ("b", 1, "")], ())
    assert is_on_disk(found.array)
    (tmp_path / "ids.txt").write_bytes(b"\xff\n\xfe\n")
    with pytest.raises(InputError, match=r"ids.txt: expected UTF-8 text"):
        read_arrays(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("x", "y"), [("x", "y"), ("x_train", "y_train"), ("f_train", "y_train"), ("train_images", "train_labels")]
)
def test_other_names_are_known(tmp_path, x, y):
    np.savez(tmp_path / "a.npz", **{x: IMAGES, y: [[3], [-1]], "test_images": IMAGES})
    found = read_arrays(tmp_path / "a.npz")
    assert (rows(found), found.classes) == ([("0", 0, "3"), ("1", 1, "")], ("3",))
    assert found.hints == ("not used from a.npz: test_images",)


def test_labels_are_named_by_the_file_or_by_themselves(tmp_path):
    np.savez(tmp_path / "a.npz", X=IMAGES, y=[1, -1], classes=["cat", "dog"])
    assert rows(read_arrays(tmp_path / "a.npz")) == [("0", 0, "dog"), ("1", 1, "")]
    assert read_arrays(tmp_path / "a.npz").classes == ("cat", "dog")
    np.savez(tmp_path / "b.npz", X=IMAGES, y=np.array([1, 0], np.uint8))
    assert rows(read_arrays(tmp_path / "b.npz")) == [("0", 0, "1"), ("1", 1, "0")]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": IMAGES, "b": IMAGES}, "expected an array named X, x, x_train, f_train, train_images, got a, b; rename"),
        ({"X": np.zeros((2, 3), np.uint8)}, r"float features \(N, d\), got uint8 of shape \(2, 3\); convert it"),
        ({"X": np.zeros((2, 3), int)}, r"got int64 of shape \(2, 3\)"),
        ({"X": np.zeros((2, 3, 4, 5, 6))}, r"got float64 of shape \(2, 3, 4, 5, 6\)"),
        ({"X": np.float64(3)}, r"expected rows \(N, ...\), got shape \(\)"),
        ({"X": np.zeros((0, 3))}, r"expected rows \(N, ...\), got shape \(0, 3\)"),
        ({"X": np.zeros((2, 7, 4, 5), np.uint8)}, "no axis has 1 or 3 channels"),
        ({"X": IMAGES, "y": [1, 2, 3]}, r"labels: expected one per item, shape \(2,\), got \(3,\)"),
        ({"X": IMAGES, "y": np.eye(2, dtype=int)}, r"labels: expected one per item, shape \(2,\), got \(2, 2\)"),
        ({"X": IMAGES, "y": [0.5, 1]}, "labels: expected whole numbers, -1 = unknown, got dtype float64"),
        ({"X": IMAGES, "y": [-2, 1]}, "labels: expected whole numbers >= -1, got -2"),
        ({"X": IMAGES, "y": [0, 1], "classes": ["a"]}, "below 1, the number of classes, got 1"),
        ({"X": IMAGES, "ids": ["a", "a"]}, "ids: expected each name once, got 'a' twice"),
        ({"X": IMAGES, "ids": ["a"]}, "ids: expected one per item, 2, got 1"),
        ({"X": IMAGES, "ids": [0.5, 1]}, r"ids: expected texts \(n,\), got float64"),
        ({"X": IMAGES, "ids": ["a", "\udcff"]}, "ids: expected Unicode text, got"),
        ({"X": IMAGES, "classes": np.array([{}])}, "classes holds Python objects, which askless never unpickles"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_arrays(tmp_path / "a.npz")


def cut(content):
    return content[: len(content) // 2]


def flip(content):
    """A byte of the first array's data is changed."""
    return content[:200] + bytes([content[200] ^ 255]) + content[201:]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("damage", [cut, lambda content: b"", lambda content: b"PK\3\4" + bytes(99)])
def test_damaged_files_are_refused(tmp_path, save, damage):
    save(tmp_path / "a.npz", X=IMAGES)
    (tmp_path / "a.npz").write_bytes(damage((tmp_path / "a.npz").read_bytes()))
    with pytest.raises(InputError, match=r"expected an .npz file of plain arrays, got another"):
        read_arrays(tmp_path / "a.npz")


def test_a_compressed_array_that_was_changed_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.random.default_rng(0).random((40, 3)))
    (tmp_path / "a.npz").write_bytes(flip((tmp_path / "a.npz").read_bytes()))
    with pytest.raises(InputError, match=r"expected an .npz file of plain arrays, got another"):
        read_arrays(tmp_path / "a.npz")


def test_the_name_must_tell_the_format(tmp_path):
    np.save(tmp_path / "a.npy", IMAGES)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"expected an .npz file of plain arrays, got another"):
        read_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=IMAGES)
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    with pytest.raises(InputError):
        read_arrays(tmp_path / "b.npy")
