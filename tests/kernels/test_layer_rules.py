import pytest
import torch
from torch import nn

from askless.kernels import gradient_stats, layer_rules, loss_gradients, route
from askless.kernels.layer_rules import given, padded, rules_for

SHARED = ["conv and batch norm", "residual", "grouped conv", "conv1d", "conv3d", "tokens"]


WAYS = {  # what the other ways of a rule cost -> the function that then does the convolutions
    "formed": ({"PAIR": 10**9, "WRITE": -(10**9)}, "formed"),
    "pairs of pixels": ({"PAIR": -(10**9), "WRITE": 10**9}, "pixel_gram"),
    "pairs of patches": ({"PAIR": 10**9, "WRITE": 10**9}, "patch_gram"),
}


@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_a_rule_is_exact(net, monkeypatch, name, way, layout):
    costs, function = WAYS[way]
    used = []
    for cost, value in costs.items():
        monkeypatch.setattr(layer_rules, cost, value)
    for other in ("formed", "pixel_gram", "patch_gram"):
        real = getattr(layer_rules, other)
        monkeypatch.setattr(layer_rules, other, lambda *args, n=other, f=real: used.append(n) or f(*args))
    if layout == "channels first":
        monkeypatch.setattr(route, "in_channels_last", lambda *_: False)
    case = net(name)
    g = loss_gradients(case.model, case.x)
    stats = gradient_stats(case.model, case.x, against=(case.x, None))
    torch.testing.assert_close(stats.sq, g.square().sum(1), rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(stats.dot, g @ g.sum(0), rtol=1e-8, atol=1e-12)
    if name != "tokens":  # which has linear layers only
        others = {"formed", "pixel_gram"} if name == "grouped conv" and way == "pairs of patches" else set()
        assert {function} <= set(used) <= {function, *others}  # patches are for layers without groups


def test_the_cheapest_way_is_taken(monkeypatch):
    ways = []
    for name in ("pixel_gram", "patch_gram", "formed"):
        real = getattr(layer_rules, name)
        monkeypatch.setattr(layer_rules, name, lambda *args, n=name, f=real: ways.append(n) or f(*args))
    for channels, size, stride in ((256, 4, 1), (64, 8, 2), (4, 16, 1)):
        layer = nn.Conv2d(channels, channels, 3, padding=1, stride=stride)
        a = torch.randn(2, channels, size, size)
        layer_rules.conv_weight(layer, a, torch.randn_like(layer(a)), None)
    assert ways == ["pixel_gram", "patch_gram", "formed"]


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(2, 3, 3, padding=1),
        nn.Conv2d(2, 3, 3, padding=2, stride=3),
        nn.Conv2d(2, 3, (1, 3), padding=(0, 3), stride=(1, 7)),  # some outputs see nothing but padding
        nn.Conv2d(2, 3, (2, 3), padding="same", dilation=(3, 2)),
        nn.Conv2d(2, 3, 3, padding=1, stride=2, padding_mode="replicate"),
        nn.Conv2d(2, 3, 1, stride=(2, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [(1, 1), (2, 5), (6, 3)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
def test_all_ways_agree_with_autograd_at_the_edges(conv, size, layout):
    conv = conv.double()
    a = torch.randn(3, 2, *size, dtype=torch.float64).contiguous(memory_format=layout)
    delta = torch.randn_like(conv(a))
    G = torch.randn_like(conv.weight)
    g = torch.stack(
        [torch.autograd.grad(conv(x[None]), conv.weight, d[None])[0] for x, d in zip(a, delta, strict=True)]
    )
    for sq in (layer_rules.pixel_gram(conv, a, delta), layer_rules.patch_gram(conv, a, delta)):
        torch.testing.assert_close(sq, g.square().sum((1, 2, 3, 4)))
    by_hand = delta.flatten(2) @ layer_rules.patches(conv, a)  # (n, O, K I)
    torch.testing.assert_close(by_hand, g.movedim(2, -1).flatten(2))
    torch.testing.assert_close(layer_rules._along(conv, a, delta, G), (g * G).sum((1, 2, 3, 4)))


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
