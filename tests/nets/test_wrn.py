"""WRN-28-K: its size by hand, its variants by their gradients, its start by its statistics."""

import pytest
import torch

from askless.nets import make
from askless.nets.wrn import Block


def wide(variant="official", **options):
    return make("wrn-28-2", classes=10, shape=(3, 16, 16), wrn_variant=variant, **options)


def parameters(net):
    return sum(p.numel() for p in net.parameters())


def by_hand(k, channels, classes):
    """Convolutions, two BN per block (weight and bias) and a last one, shortcuts where the shape changes, the head."""
    total, i = 9 * channels * 16, 16
    for o in (16 * k, 32 * k, 64 * k):
        total += i * o if i != o else 0
        for _ in range(4):
            total += 2 * i + 9 * i * o + 2 * o + 9 * o * o
            i = o
    return total + 2 * i + i * classes + classes


@pytest.mark.parametrize("variant", ["official", "leedoyup", "kekmodel"])
def test_the_number_of_parameters_is_the_well_known_one(variant):
    assert parameters(wide(variant)) == by_hand(2, 3, 10) == 1_467_610


def test_the_number_of_parameters_follows_width_channels_and_classes():
    assert parameters(make("wrn-28-1", classes=7, shape=(1, 8, 8))) == by_hand(1, 1, 7)
    assert parameters(make("wrn-28-3", classes=2, shape=(4, 8, 8))) == by_hand(3, 4, 2)


def without_gradient(net):
    net(torch.randn(4, 3, 16, 16)).square().sum().backward()
    return [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]


@pytest.mark.parametrize("variant", ["official", "leedoyup"])
def test_every_parameter_gets_a_gradient(variant):
    assert without_gradient(wide(variant)) == []


def test_kekmodel_leaves_the_first_norm_of_stages_2_and_3_unused():
    unused = [f"stage{s}.0.bn1.{kind}" for s in (2, 3) for kind in ("weight", "bias")]
    assert without_gradient(wide("kekmodel")) == unused


@pytest.mark.parametrize(
    ("variant", "entries"),
    [
        ("official", ["shared", "split", "split"]),
        ("leedoyup", ["shared", "shared", "shared"]),
        ("kekmodel", ["shared", "raw", "raw"]),
    ],
)
def test_the_variants_differ_in_the_first_block_of_a_stage(variant, entries):
    net = wide(variant)
    stages = [net.stage1, net.stage2, net.stage3]
    assert [s[0].entry for s in stages] == entries
    assert all(block.entry == "split" for s in stages for block in s[1:])


@pytest.mark.parametrize("entry", ["shared", "split", "raw"])
def test_a_block_feeds_its_branches_as_its_entry_says(entry):
    block = Block(3, 5, 2, entry, 0.1, torch.nn.BatchNorm2d).double()
    block.bn1.weight.data.uniform_(1, 2, generator=torch.Generator().manual_seed(0))
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def act(z):
        return torch.where(z > 0, z, 0.1 * z)

    a = act(block.bn1(x))
    to_shortcut, to_conv = {"shared": (a, a), "split": (x, a), "raw": (x, x)}[entry]
    expected = block.shortcut(to_shortcut) + block.conv2(act(block.bn2(block.conv1(to_conv))))
    torch.testing.assert_close(block(x), expected, rtol=0, atol=1e-12)


def test_convolutions_start_with_variance_2_over_fan_out():
    net = make("wrn-28-2", classes=10, shape=(3, 16, 16), seed=1)
    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            k, o = module.kernel_size[0], module.out_channels
            n = module.weight.numel()
            ratio = module.weight.square().mean().item() * k * k * o / 2
            assert abs(ratio - 1) < 5 * (2 / n) ** 0.5  # the mean of n squares of normals deviates by sqrt(2 / n)


def test_the_head_starts_xavier_normal_and_with_zero_bias():
    net = make("wrn-28-2", classes=100, shape=(3, 16, 16), seed=1)
    assert net.head.weight.square().mean().item() == pytest.approx(2 / (128 + 100), rel=0.05)
    assert not net.head.bias.any()


def test_leedoyup_starts_its_head_as_torch_does_and_with_zero_bias():
    net = make("wrn-28-2", classes=100, shape=(3, 16, 16), seed=1, wrn_variant="leedoyup")
    assert net.head.weight.abs().max().item() <= 128**-0.5  # uniform, unlike a normal of this size
    assert net.head.weight.square().mean().item() == pytest.approx(1 / (3 * 128), rel=0.05)
    assert not net.head.bias.any()


def test_momentum_eps_and_slope_reach_every_layer():
    net = wide(bn_momentum=0.25, bn_eps=1e-3, slope=0.0)
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(norms) == 25
    assert {(m.momentum, m.eps) for m in norms} == {(0.25, 1e-3)}
    assert {m.slope for m in net.modules() if hasattr(m, "slope")} == {0.0}
    assert (net.features(torch.randn(2, 3, 16, 16)) >= 0).all()
    assert wide().bn.momentum == 0.001
