import pytest
import torch
import torch.nn.functional as F
from torch import nn

import askless as al
from askless.base.errors import ModelError

P = al.kernels.probs_by_pass


def net_with(*layers, d=6, classes=3):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(d, 32), nn.ReLU(), *layers, nn.Linear(32, classes))


def x(n=40, *shape):
    return torch.randn(n, *(shape or (6,)), generator=torch.Generator().manual_seed(1))


def test_a_pass_is_one_network_with_some_units_left_out():
    """What comes out is the network with the same 32 hidden units zeroed, or doubled, for every example."""
    net = net_with(nn.Dropout(0.5))
    seen = {}
    net[2].register_forward_hook(lambda _, args, out: seen.setdefault("mask", []).append((out / args[0])[:, :]))
    probs = P(net, x(), passes=4, batch_size=40)
    masks = [m for m in seen["mask"] if len(m) == 40 and not (m[m.isfinite()] == 1).all()]
    for k, mask in enumerate(masks):
        unit = torch.stack([column[column.isfinite()][0] if column.isfinite().any() else column.new_tensor(0.0)
                            for column in mask.T])  # fmt: skip
        assert set(unit.tolist()) <= {0.0, 2.0}
        logits = net[3](torch.relu(net[0](x())) * unit)
        assert probs[:, k] == pytest.approx(logits.softmax(dim=1).detach(), abs=1e-6)
    assert len(masks) == 4


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(6, 32), nn.Linear(32, 3)

    def forward(self, x):
        return self.head(F.dropout(self.first(x), 0.4, training=self.training))


IMAGES = nn.Sequential(
    nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.Dropout2d(0.3), nn.AlphaDropout(0.2), nn.Flatten(), nn.Linear(8 * 36, 3)
)


@pytest.mark.parametrize(
    ("net", "items"),
    [
        (net_with(nn.Dropout(0.5)), x()),
        (net_with(nn.Dropout(0.5, inplace=True), nn.Dropout(0.1)), x()),
        (Functional(), x()),
        (IMAGES, x(40, 2, 8, 8)),
        (al.nets.make("small-cnn", classes=3, shape=(1, 8, 8), dropout=0.3), x(40, 1, 8, 8)),
        (al.nets.make("resnet-18", classes=3, shape=(1, 8, 8), dropout=0.5), x(6, 1, 8, 8)),
        (al.nets.make("mlp", classes=3, shape=(6,), dropout=0.3), x()),
        (al.nets.make("linear", classes=3, shape=(6,), dropout=0.3), x()),
    ],
    ids=["module", "two, one in place", "function", "channels and alpha", "small-cnn", "resnet-18", "mlp", "linear"],
)
def test_the_batches_do_not_matter_and_nothing_is_touched(net, items):
    net.train()
    weights = {k: v.clone() for k, v in net.state_dict().items()}
    state = torch.get_rng_state()
    probs = P(net, items, passes=5, seed=3)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(v, weights[k]) for k, v in net.state_dict().items()), "batch norm moved"
    assert all(m.training for m in net.modules())
    n = len(items)
    assert probs.shape == (n, 5, 3)
    assert probs.dtype == torch.float32
    assert probs.sum(dim=2) == pytest.approx(torch.ones(n, 5))
    assert probs == pytest.approx(P(net, items, passes=5, seed=3, batch_size=7), abs=1e-6)
    assert probs[3:5] == pytest.approx(P(net, items[3:5], passes=5, seed=3), abs=1e-6)
    assert probs[:, :2] == pytest.approx(P(net, items, passes=2, seed=3), abs=1e-6), "more passes change the first ones"
    assert (probs[:, 0] - probs[:, 1]).abs().max() > 1e-3
    assert (probs - P(net, items, passes=5, seed=4)).abs().max() > 1e-3


def test_the_mean_over_passes_of_a_linear_layer_is_that_of_torch():
    """Without a softmax the expectation of dropout is the input; here by the logits' ratio in two classes."""
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(50, 2))
    items = x(3, 50)
    logits = P(net, items, passes=400).double().log()
    mean = (logits[..., 0] - logits[..., 1]).mean(dim=1)
    f = net.eval()(items).double()
    spread = (logits[..., 0] - logits[..., 1]).std(dim=1)
    assert ((mean - (f[:, 0] - f[:, 1])).abs() < 5 * spread / 400**0.5).all()


@pytest.mark.parametrize("net", [net_with(), net_with(nn.Dropout(0.0)), al.nets.make("mlp", classes=3, shape=(6,))])
def test_a_network_without_dropout_is_refused(net):
    with pytest.raises(ModelError, match="expected a network with dropout"):
        P(net, x())


def test_dropout_across_examples_is_refused():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            return self.head(F.dropout(x.T, 0.5, self.training).T)

    with pytest.raises(ModelError, match="one row per example"):
        P(Mixed(), x())


@pytest.mark.parametrize("name", ["mlp", "linear", "small-cnn"])
def test_no_dropout_leaves_a_network_as_it_was(name):
    shape = (1, 8, 8)
    net, dropped = (al.nets.make(name, classes=3, shape=shape, seed=2, **o) for o in ({}, {"dropout": 0.2}))
    assert "Dropout" not in repr(net)
    items = x(5, *shape)
    assert torch.equal(net.eval()(items), dropped.eval()(items)), "the same first weights"
    assert not torch.equal(dropped.train()(items), dropped(items))
    with pytest.raises(al.InputError, match="dropout must be a number from 0 to 1"):
        al.nets.make(name, classes=3, shape=shape, dropout=1.5)
