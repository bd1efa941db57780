"""The statistics that an untrained network's BatchNorm gets from the pool."""

import pytest
import torch
from torch import nn

from askless.learn.calibration import calibrated, unseen


class Items:
    def __init__(self, x):
        self.x = x

    def plain(self, indices):
        return self.x[indices]


def sorted_clouds(n=300):
    """Two clouds, one behind the other."""
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[n // 2 :] += 4
    return x


def net(momentum=0.001):
    body = nn.Linear(3, 3, bias=False)
    nn.init.eye_(body.weight)
    return nn.Sequential(body, nn.BatchNorm1d(3, momentum=momentum), nn.Dropout(0.5), nn.Linear(3, 2)).double()


def test_the_statistics_are_those_of_the_pool_even_where_it_is_sorted():
    x, model = sorted_clouds(), net()
    seen = calibrated(model, Items(x), len(x), batch=100)
    torch.testing.assert_close(seen[1].running_mean, x.mean(0), rtol=0.05, atol=0)
    torch.testing.assert_close(seen[1].running_var, x.var(0), rtol=0.1, atol=0)
    assert seen[1].momentum == 0.001
    assert not any(m.training for m in seen.modules())


def test_a_single_batch_gives_exactly_its_statistics():
    x = sorted_clouds(100)
    seen = calibrated(net(), Items(x), len(x))
    torch.testing.assert_close(seen[1].running_mean, x.mean(0))
    torch.testing.assert_close(seen[1].running_var, x.var(0))


def test_the_network_itself_does_not_change():
    x, model = sorted_clouds(), net().train()
    state = torch.random.get_rng_state()
    calibrated(model, Items(x), len(x))
    assert model.training
    assert unseen(model[1])
    assert torch.equal(torch.random.get_rng_state(), state)  # dropout is off


def test_layers_that_have_seen_data_keep_their_statistics():
    model = net()
    model[1].running_mean.fill_(0.5)
    assert calibrated(model, Items(sorted_clouds()), 300) is model
    assert calibrated(nn.Linear(3, 2), Items(sorted_clouds()), 300).training  # nothing to calibrate: the network itself
    two = nn.Sequential(model, nn.BatchNorm1d(2).double())
    seen = calibrated(two, Items(sorted_clouds()), 300)
    assert seen[0][1].running_mean.tolist() == [0.5] * 3
    assert not unseen(seen[1])


@pytest.mark.parametrize("n", [1, 2])
def test_tiny_pools(n):
    seen = calibrated(net(), Items(sorted_clouds(10)[:n]), n)
    assert seen[1].running_var.isfinite().all()
