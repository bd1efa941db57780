import torch
from torch import nn

from askless.learn.ema import Average


def net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_parameters_are_averaged_and_buffers_copied():
    live = net()
    average = Average(live, decay=0.9, warm_up=False)
    before = [p.clone() for p in live.parameters()]
    with torch.no_grad():
        for p in live.parameters():
            p.add_(1.0)
        live[1].running_mean.fill_(7.0)
    average.update(live, step=0)
    for old, mean in zip(before, average.model.parameters(), strict=True):
        assert torch.allclose(mean, old + 0.1, atol=1e-6)
        assert not mean.requires_grad
    assert (average.model[1].running_mean == 7).all()


def test_the_average_starts_as_a_copy_and_is_another_network():
    live = net()
    average = Average(live, 0.999)
    for p, q in zip(live.parameters(), average.model.parameters(), strict=True):
        assert torch.equal(p, q)
        assert p is not q


def test_warm_up_forgets_the_random_start_and_ends():
    average = Average(net(), 0.999)
    assert average.decay_at(0) == 0.1
    assert average.decay_at(90) == 0.91
    assert average.decay_at(10**5) == 0.999
    assert Average(net(), 0.999, warm_up=False).decay_at(0) == 0.999
