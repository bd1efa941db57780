import numpy as np
import pytest
import torch
from torch import nn

from askless.base.errors import InputError
from askless.kernels import group_blocks, ntk

FIXED, GROUPS = np.array([4, 0]), np.array([[1, 5], [3, 2]])


def close(blocks, K, fixed=FIXED, groups=GROUPS):
    """Whether these are the parts of the whole kernel K (n, n)."""
    K = K.numpy()
    parts = (K[np.ix_(fixed, fixed)], K[groups[..., None], fixed], K[groups[..., None], groups[:, None]])
    for found, part in zip(blocks[:3], parts, strict=True):
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, torch.from_numpy(part), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("layers", ["last", "all"])
def test_blocks_are_parts_of_the_whole_kernel(case, layers):
    close(group_blocks(case.model, case.x, FIXED, GROUPS, layers=layers), ntk(case.model, case.x, layers=layers))
    assert case.model.training


@pytest.mark.parametrize("layers", ["last", "all"])
def test_any_number_of_fixed_items_groups_and_tiles(net, layers):
    case = net("residual")
    K = ntk(case.model, case.x, layers=layers)
    bytes_each = 8 * sum(p.numel() for p in case.model.parameters())
    none = np.empty(0, dtype=np.int64)
    for fixed, groups in (
        (none, GROUPS),
        (FIXED, GROUPS.reshape(1, 4)),
        (FIXED, GROUPS.reshape(4, 1)),
        (np.arange(5), np.array([[5]])),
        (np.arange(6), np.empty((0, 3), dtype=np.int64)),
        (none, none.reshape(0, 0)),
    ):
        for max_memory in (1, 4 * bytes_each, 20 * bytes_each, 2**28):
            blocks = group_blocks(case.model, case.x, fixed, groups, layers=layers, max_memory=max_memory)
            close(blocks, K, fixed, groups)


def test_a_dataset_of_items_is_read_by_position():
    class Items(torch.utils.data.Dataset):
        def __init__(self, x):
            self.x = x

        def __len__(self):
            return len(self.x)

        def __getitem__(self, i):
            return self.x[i], 0

    generator = torch.Generator().manual_seed(0)
    net, x = nn.Linear(3, 2), torch.randn(6, 3, generator=generator)
    for layers in ("last", "all"):
        close(group_blocks(net, Items(x), FIXED, GROUPS, layers=layers), ntk(net, x, layers=layers))


def test_progress_counts_groups_per_output_and_tile():
    told = []
    net, x = nn.Linear(2, 3), torch.ones(6, 2)
    group_blocks(net, x, FIXED, GROUPS, progress=lambda *numbers: told.append(numbers))
    assert told == [(2, 6), (4, 6), (6, 6)]
    told.clear()
    group_blocks(net, x, FIXED, GROUPS, max_memory=1, progress=lambda *numbers: told.append(numbers))
    assert told == [(i, 12) for i in range(1, 13)]


@pytest.mark.parametrize(
    ("fixed", "groups", "message"),
    [
        ([6], [[0]], r"fixed: expected positions \(l,\) from 0 to 5, got shape \(1,\), dtype int64, values 6 to 6"),
        ([0], [1, 2], r"groups: expected positions \(m, q\) from 0 to 5, got shape \(2,\)"),
        ([0.5], [[1]], "fixed: expected positions .* dtype float64"),
    ],
)
def test_positions_that_do_not_exist_are_refused(fixed, groups, message):
    with pytest.raises(InputError, match=message):
        group_blocks(nn.Linear(2, 2), torch.zeros(6, 2), fixed, groups)


def test_other_options_are_refused():
    with pytest.raises(InputError, match=r'layers must be "last" or "all", got \'first\''):
        group_blocks(nn.Linear(2, 2), torch.zeros(6, 2), [0], [[1]], layers="first")
    with pytest.raises(InputError, match="max_memory must be a whole number >= 1, got 0"):
        group_blocks(nn.Linear(2, 2), torch.zeros(6, 2), [0], [[1]], max_memory=0)
