import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from askless.base.errors import InputError
from askless.kernels import features
from askless.kernels.inputs import batches, place_of, rows, spread


class Bare(Dataset):
    """Gives x alone, as an array."""

    def __init__(self, x):
        self.x = np.asarray(x)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


def test_tensor_array_and_dataset_are_the_same_examples():
    x = torch.arange(12.0).reshape(4, 3)
    readonly = x.numpy().copy()
    readonly.setflags(write=False)
    labelled = TensorDataset(x, torch.zeros(4))
    model = nn.Linear(3, 2)
    for kind in (x, x.double(), x.numpy(), readonly, labelled, Bare(x), list(x), Subset(labelled, range(4))):
        pieces = list(batches(kind, 3, place_of(model)))
        assert [len(piece) for piece in pieces] == [3, 1]
        assert torch.equal(torch.cat(pieces), x)
        assert torch.equal(features(model, kind), x)


def test_a_few_examples_are_spread_over_all_of_them():
    x = torch.arange(101.0)[:, None]
    place = place_of(nn.Linear(1, 1))
    for kind in (x, x.numpy(), TensorDataset(x, x), list(x)):
        assert spread(kind, 6, place)[:, 0].tolist() == [0, 20, 40, 60, 80, 100]
        assert spread(kind, 1, place)[:, 0].tolist() == [0]
    assert spread(x[:7], 6, place)[:, 0].tolist() == [0, 1, 2, 3, 4, 6]
    assert spread(x[:2], 6, place)[:, 0].tolist() == [0, 1]


def test_several_items_are_read_in_one_go_where_the_dataset_can():
    class Batched(Bare):
        def __getitem__(self, i):
            raise AssertionError("read one by one")

        def __getitems__(self, indices):
            return torch.from_numpy(self.x[indices])

    x = torch.arange(12.0).reshape(4, 3)
    assert torch.equal(features(nn.Linear(3, 2), Batched(x), batch_size=3), x)


def test_floats_take_the_models_dtype_and_whole_numbers_keep_theirs():
    place = place_of(nn.Linear(1, 1).double())
    assert rows(np.zeros((2, 3), dtype=np.float32), 0, 2, place).dtype == torch.float64
    assert rows(np.zeros((2, 3), dtype=np.int32), 0, 2, place).dtype == torch.int32
    assert rows([1, 2, 3], 0, 2, place).tolist() == [1, 2]


def test_a_model_without_numbers_is_on_the_cpu():
    assert place_of(nn.ReLU()) == (torch.device("cpu"), torch.float32)
    assert place_of(nn.BatchNorm1d(2, affine=False).double()).dtype == torch.float64


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (Stream(), "a dataset with a length, got Stream"),
        ({"a": 1}, "a dataset with a length, got dict"),
        (torch.tensor(1.0), "got a single number"),
        (torch.zeros(0, 3), "at least one example, got none"),
        ([{"image": 1}], "x a tensor or array, got dict"),
        ([torch.zeros(3), torch.zeros(4)], r"items of one shape, got \[\(3,\), \(4,\)\]"),
        (np.array([["a", "b", "c"]]), "an array of numbers, got dtype <U1"),
    ],
)
def test_what_is_no_set_of_examples_is_refused(x, message):
    with pytest.raises(InputError, match=message):
        features(nn.Linear(3, 2), x)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, None])
def test_a_batch_size_below_one_is_refused(size):
    with pytest.raises(InputError, match="batch_size must be a whole number >= 1, got"):
        features(nn.Linear(3, 2), torch.zeros(2, 3), batch_size=size)
