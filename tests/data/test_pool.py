from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array

from askless.base.errors import InputError
from askless.data import Pool, as_pool, encode_labels, labels_of


class Pairs:
    """A Dataset that counts what is read."""

    def __init__(self, items, targets=None):
        self.items, self.read = items, []
        if targets is not None:
            self.targets = targets

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        self.read.append(i)
        return self.items[i]


# --- kinds


@pytest.mark.parametrize(
    ("x", "kind", "shape"),
    [
        (np.zeros((4, 8, 8), np.uint8), "image", (1, 8, 8)),
        (np.zeros((4, 8, 8, 3), np.uint8), "image", (3, 8, 8)),
        (torch.zeros(4, 3, 8, 8, dtype=torch.uint8), "image", (3, 8, 8)),
        (np.zeros((4, 3, 8, 8)), "image", (3, 8, 8)),
        (np.zeros((4, 6)), "features", (6,)),
        (np.zeros((4, 6), np.float16), "features", (6,)),
        (np.zeros((4, 6), bool), "features", (6,)),
        (np.zeros((4, 6), np.int32), "tokens", (6,)),
        (np.zeros((4, 6), np.uint16), "tokens", (6,)),
        (np.zeros((4, 6, 5)), "other", (6, 5)),
        (np.zeros((4, 6, 5), np.int64), "other", (6, 5)),
        ([[1.0, 2.0], [3.0, 4.0]], "features", (2,)),
        ([[1, 2], [3, 4]], "tokens", (2,)),
    ],
)
def test_kind_and_shape_follow_from_dtype_and_axes(x, kind, shape):
    pool = as_pool(x)
    assert (pool.kind, pool.shape, len(pool)) == (kind, shape, len(x))
    assert tuple(pool.take([1, 0]).shape) == (2, *shape)


def test_kind_can_be_said():
    flat = np.zeros((4, 6), np.uint8)
    assert as_pool(flat, kind="features").take([0]).dtype == torch.float32
    assert as_pool(flat, kind="tokens").take([0]).dtype == torch.int64
    assert as_pool(flat, kind="image").shape == (1, 4, 6)
    assert as_pool(np.zeros((4, 8, 8)), kind="image").shape == (1, 8, 8)


def test_arrays_of_odd_dtypes_become_tensors():
    assert as_pool(np.ones((3, 2), ">f4")).take([0]).dtype == torch.float32
    assert as_pool(np.ones((3, 2), np.longdouble)).take([0]).dtype == torch.float64
    assert as_pool(np.ones((3, 2, 2), np.uint32)).take([0]).dtype == torch.int64


def test_a_table_with_to_numpy_is_its_numbers():
    class Table:
        def to_numpy(self):
            return np.eye(2)

    assert as_pool(Table()).take([1]).tolist() == [[0, 1]]


def test_a_read_only_array_is_neither_copied_nor_written():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    x.setflags(write=False)
    pool = as_pool(x)
    assert pool.x is x
    assert pool.take([2]).tolist() == [[6, 7, 8]]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((4, 6), np.uint8), r"could be one image or 4 rows of features; pass kind='image' or kind='features'"),
        (np.zeros(4), r"expected rows \(N, ...\), got shape \(4,\); use x\[:, None\]"),
        (np.zeros((0, 3)), r"the pool is empty, shape \(0, 3\)"),
        (np.array([["a", "b"]]), "expected numbers, got an array of dtype <U1"),
        (torch.zeros(2, 2, dtype=torch.complex64), "expected numbers, got an array of dtype torch.complex64"),
        (np.array([[1.0, 2.0], [np.nan, 1.0]]), "got NaN or infinity in row 1; remove or fix that row"),
        ([[1.0], [1.0, 2.0]], "expected rows of equal length, got a ragged list"),
        (
            csr_array((2**15, 2**15)),
            r"sparse array of shape .* too large to make dense; use sklearn.*TruncatedSVD\(256\)",
        ),
        ("photos", r"got the path 'photos'; use data.load\(path\)"),
        ({"x": 1}, r"expected an array, tensor, pair \(x, y\) or a Dataset .* got dict"),
        (iter([1]), "got list_iterator"),
        ([], "the pool is empty"),
    ],
)
def test_what_cannot_be_a_pool_is_refused(x, message):
    with pytest.raises(InputError, match=message):
        as_pool(x)


def test_images_of_whole_numbers_other_than_bytes_are_refused():
    with pytest.raises(InputError, match=r"expected uint8, or float in \[0, 1\], got int64; use x.astype\('uint8'\)"):
        as_pool(np.zeros((2, 3, 4, 4), np.int64), kind="image")
    with pytest.raises(InputError, match=r"features: expected two axes, \(N, d\), got shape \(2, 3, 4\)"):
        as_pool(np.zeros((2, 3, 4)), kind="features")


# --- labels, names, test


def test_a_pair_brings_its_labels_and_unknown_stays_unknown():
    pool = as_pool((np.zeros((3, 2)), [2, -1, 0]))
    assert pool.labels.dtype == np.int64
    assert pool.labels.tolist() == [2, -1, 0]
    assert pool.n_classes == 3
    assert as_pool(np.zeros((3, 2))).labels.tolist() == [-1, -1, -1]
    assert as_pool(np.zeros((3, 2))).n_classes is None
    assert as_pool((np.zeros((3, 2)), torch.tensor([[1], [0], [1]]))).labels.tolist() == [1, 0, 1]


def test_labels_may_be_class_names():
    pool = as_pool((np.zeros((4, 2)), ["dog", "", "cat", "dog"]), test=(np.zeros((1, 2)), ["emu"]))
    assert pool.classes == ("cat", "dog", "emu")
    assert pool.labels.tolist() == [1, -1, 0, 1]
    assert pool.test[1].tolist() == [2]
    assert as_pool((np.zeros((2, 2)), np.array(["b", "a"], dtype=object))).labels.tolist() == [1, 0]
    given = as_pool(np.zeros((2, 2)), np.array(["b", "a"]), classes=["b", "a"])
    assert given.labels.tolist() == [0, 1]


def test_labels_are_a_copy():
    given = np.array([0, 1])
    pool = as_pool((np.zeros((2, 2)), given))
    given[0] = 5
    assert pool.labels[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [0, 1]}, r"labels: expected one per item, shape \(3,\), got \(2,\)"),
        ({"labels": [0, 1, -2]}, "labels: expected whole numbers >= -1, got -2 at place 2"),
        ({"labels": [0.0, 1.0, 0.5]}, r"labels: expected whole numbers, -1 = unknown, got dtype float64"),
        (
            {"labels": [0, 1, 2], "classes": ["a", "b"]},
            "expected numbers below 2, the number of classes, got 2 at place 2",
        ),
        ({"labels": ["a", "b", "c"], "classes": ["a", "b"]}, "label 'c' of item 2 is not one of the classes a, b"),
        ({"ids": ["a", "b"]}, "ids: expected one per item, 3, got 2"),
        ({"ids": ["a", "b", "a"]}, "ids: expected each name once, got 'a' twice"),
        ({"ids": ["a", "b", 3]}, "ids: expected text, got 3"),
        ({"classes": ["a", "a"]}, "classes: expected each name once"),
        ({"kind": "audio"}, "kind must be one of image, features, tokens, text, other, got 'audio'"),
        ({"test": (np.zeros((2, 5)), [0, 1])}, r"test items: expected shape \(2,\) as in the pool, got \(5,\)"),
        ({"test": (np.zeros((2, 2)), [0, -1])}, "test labels: expected a label for every item, got -1 at place 1"),
        ({"test": (np.zeros((2, 2)), [0])}, r"test labels: expected one per item, shape \(2,\), got \(1,\)"),
    ],
)
def test_wrong_labels_names_and_test_sets_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        as_pool(np.zeros((3, 2)), **options)


def test_labels_given_twice_are_refused():
    with pytest.raises(InputError, match="got labels twice"):
        as_pool((np.zeros((2, 2)), [0, 1]), labels=[0, 1])


def test_a_pool_passes_through_but_takes_no_options():
    pool = as_pool(np.zeros((2, 2)))
    assert as_pool(pool) is pool
    with pytest.raises(InputError, match="got a Pool together with other options"):
        as_pool(pool, labels=[0, 1])


def test_a_pool_can_be_made_directly_and_is_checked():
    with pytest.raises(InputError, match="p: the pool is empty"):
        Pool(torch.zeros(0, 2), name="p")
    with pytest.raises(InputError, match="column 'group': expected one value per item, 2, got 1"):
        Pool(torch.zeros(2, 2), columns={"group": ("a",)})
    assert replace(Pool(torch.zeros(2, 2)), labels=np.array([1, 0])).labels.tolist() == [1, 0]


def test_encode_labels_keeps_the_order_of_given_classes():
    labels, classes = encode_labels(["b", "", "a"], ["b", "a", "c"])
    assert labels.tolist() == [0, -1, 1]
    assert classes == ("b", "a", "c")


# --- take


def test_take_accepts_lists_arrays_and_tensors_and_keeps_bytes():
    x = torch.arange(4 * 3 * 2 * 2, dtype=torch.uint8).reshape(4, 3, 2, 2)
    pool = as_pool(x)
    for indices in ([3, 1, 3], np.array([3, 1, 3]), torch.tensor([3, 1, 3])):
        assert torch.equal(pool.take(indices), x[[3, 1, 3]])
    assert pool.take([]).shape == (0, 3, 2, 2)
    assert pool.take([0]).dtype == torch.uint8


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([0, 4], "expected positions from 0 to 3, got 4"),
        ([-1], "expected positions from 0 to 3, got -1"),
        ([0.5], r"expected whole numbers \(n,\), got float64"),
        ([True, False, True, True], r"use np.flatnonzero\(mask\) for a mask"),
        ([[0, 1]], r"got int64 of shape \(1, 2\)"),
    ],
)
def test_take_refuses_places_outside_the_pool(indices, message):
    with pytest.raises(InputError, match=message):
        as_pool(np.zeros((4, 2))).take(indices)


# --- Datasets


def test_a_dataset_is_read_only_where_it_is_taken():
    dataset = Pairs([(torch.full((3,), float(i)), i % 2) for i in range(100)])
    pool = as_pool(dataset)
    assert pool.kind == "features"
    dataset.read.clear()
    assert pool.take([7, 3])[:, 0].tolist() == [7, 3]
    assert set(dataset.read) <= {0, 3, 7}


def test_a_dataset_of_pillow_images_and_byte_arrays_holds_images():
    grey = Pairs([Image.new("L", (5, 4), i) for i in range(3)])
    colour = Pairs([Image.new("RGBA", (5, 4), (i, 0, 0, 255)) for i in range(3)])
    assert (as_pool(grey).kind, as_pool(grey).shape) == ("image", (1, 4, 5))
    assert (as_pool(colour).kind, as_pool(colour).shape) == ("image", (3, 4, 5))
    assert as_pool(colour).take([2])[0, 0, 0, 0] == 2
    assert as_pool(Pairs([np.zeros((4, 5), np.uint8)])).shape == (1, 4, 5)
    assert as_pool(Pairs([np.zeros((4, 5, 3), np.uint8)])).shape == (3, 4, 5)


def test_a_dataset_of_floats_is_left_alone():
    pool = as_pool(Pairs([(np.zeros((3, 4, 4)), 0)]))
    assert pool.kind == "other"
    assert pool.take([0]).dtype == torch.float32


def test_labels_of_a_dataset_come_from_targets_or_by_reading():
    items = [(torch.zeros(2), i % 3) for i in range(6)]
    assert as_pool(Pairs(items, targets=[0, 1, 2, 0, 1, 2])).labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert as_pool(Pairs(items)).labels.tolist() == [-1] * 6
    assert labels_of(Pairs(items)).tolist() == [0, 1, 2, 0, 1, 2]
    assert as_pool(Pairs(items), labels_of(Pairs(items))).n_classes == 3


def test_a_tensor_dataset_is_unpacked():
    x, y = torch.randn(5, 2), torch.arange(5)
    pool = as_pool(torch.utils.data.TensorDataset(x, y))
    assert isinstance(pool.x, torch.Tensor)
    assert pool.labels.tolist() == [0, 1, 2, 3, 4]
    assert as_pool(torch.utils.data.TensorDataset(x)).labels.tolist() == [-1] * 5


def test_the_test_set_may_be_a_dataset():
    items = [(torch.full((2,), float(i)), i % 2) for i in range(4)]
    pool = as_pool(Pairs(items), test=Pairs(items))
    assert pool.test[0][:, 0].tolist() == [0, 1, 2, 3]
    assert pool.test[1].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            [{"image": 1, "label": 2}],
            r"item 0: expected x or \(x, y\), got dict with keys image, label; wrap the dataset",
        ),
        ([("text", 1)], "item 0: expected a tensor, array, Pillow image or number, got str; add a transform"),
        ([()], "item 0: expected x or .* got an empty tuple"),
    ],
)
def test_a_dataset_of_unknown_items_is_refused(items, message):
    with pytest.raises(InputError, match=message):
        as_pool(Pairs(items))


def test_items_of_different_shapes_are_named():
    pool = as_pool(Pairs([torch.zeros(2), torch.zeros(2), torch.zeros(3)]))
    with pytest.raises(
        InputError, match=r"item 2: expected shape \(2,\), as item 0 has, got \(3,\); make all items one size"
    ):
        pool.take([1, 2])


def test_a_dataset_without_labels_says_so():
    with pytest.raises(InputError, match=r"item 0: expected a pair \(x, y\), got Tensor; pass the labels separately"):
        labels_of(Pairs([torch.zeros(2)]))


def test_repr_says_what_there_is():
    pool = as_pool((np.zeros((2, 3)), [0, -1]), test=(np.zeros((4, 3)), [0, 1, 1, 0]), name="mine")
    assert repr(pool) == "<Pool mine: 2 features items of 3, 1 with a label, 2 classes, 4 for test>"
