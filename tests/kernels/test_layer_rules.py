import pytest
import torch
from torch import nn

from askless.kernels import gradient_stats, layer_rules, loss_gradients
from askless.kernels.layer_rules import given, padded, rules_for

SHARED = ["conv and batch norm", "residual", "grouped conv", "conv1d", "conv3d", "tokens"]


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("way", ["formed", "pairs of positions"])
def test_both_ways_of_a_rule_are_exact(net, monkeypatch, name, way):
    never = {"formed": "conv_gram", "pairs of positions": "formed"}[way]
    monkeypatch.setattr(layer_rules, "WRITE", -(10**9) if way == "formed" else 10**9)
    monkeypatch.setattr(layer_rules, never, lambda *_: pytest.fail(f"{never} was used"))
    case = net(name)
    g = loss_gradients(case.model, case.x)
    stats = gradient_stats(case.model, case.x, against=(case.x, None))
    torch.testing.assert_close(stats.sq, g.square().sum(1), rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(stats.dot, g @ g.sum(0), rtol=1e-8, atol=1e-12)


def test_the_cheaper_way_is_taken(monkeypatch):
    ways = []
    for name in ("conv_gram", "conv_gradients"):
        real = getattr(layer_rules, name)
        monkeypatch.setattr(layer_rules, name, lambda *args, n=name, f=real: ways.append(n) or f(*args))
    for channels, size in ((64, 4), (4, 16)):
        layer = nn.Conv2d(channels, channels, 3, padding=1)
        layer_rules.conv_weight(layer, torch.randn(2, channels, size, size), torch.randn(2, channels, size, size), None)
    assert ways == ["conv_gram", "conv_gradients"]


def test_long_float32_gradients_lose_nothing_in_the_sum():
    g = torch.full((1, 5_000_000), 0.1)
    exact = 5_000_000 * float(g[0, 0]) ** 2
    sq, dot = given(g, g[0])
    assert sq.item() == pytest.approx(exact, rel=2e-6)
    assert dot.item() == pytest.approx(exact, rel=2e-6)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", ["same", "valid", (1, 2)])
def test_padding_made_explicit_leaves_the_convolution_as_it_was(mode, padding):
    conv = nn.Conv2d(2, 3, (2, 3), padding=padding, dilation=(3, 2), padding_mode=mode)
    bare = nn.Conv2d(2, 3, (2, 3), dilation=(3, 2))
    bare.load_state_dict(conv.state_dict())
    x = torch.randn(2, 2, 7, 8)
    torch.testing.assert_close(bare(padded(conv, x)), conv(x))


def test_layers_that_compute_something_else_have_no_rules():
    class Doubled(nn.Conv2d):
        def _conv_forward(self, *args):
            return 2 * super()._conv_forward(*args)

    patched = nn.Linear(2, 2)
    patched.forward = lambda x: x
    for layer in (Doubled(1, 1, 1), patched, nn.Embedding(3, 2, max_norm=1.0), nn.Embedding(3, 2, sparse=True)):
        assert rules_for(layer) is None
    assert rules_for(nn.ConvTranspose2d(1, 1, 1)) is None
    assert rules_for(nn.Embedding(3, 2)) is not None
