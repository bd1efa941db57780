"""The small convolutional networks, by hand counts."""

import pytest
import torch

from askless.nets import make


def parameters(net):
    return sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize(("channels", "side", "flat"), [(3, 32, 16 * 25), (1, 28, 16 * 16), (1, 16, 16)])
def test_the_tutorial_net_fits_its_flattened_size_to_the_image(channels, side, flat):
    by_hand = (25 * channels + 1) * 6 + (25 * 6 + 1) * 16 + (flat + 1) * 120 + (120 + 1) * 84 + (84 + 1) * 10
    net = make("tutorial-cnn", classes=10, shape=(channels, side, side))
    assert parameters(net) == by_hand
    if (channels, side) == (3, 32):
        assert by_hand == 62_006
    assert net(torch.randn(2, channels, side, side)).shape == (2, 10)


def test_cnn_gap_is_three_convolutions_and_a_head():
    by_hand = (9 * 3 + 1) * 32 + (9 * 32 + 1) * 64 + (9 * 64 + 1) * 128 + (128 + 1) * 10
    assert parameters(make("cnn-gap", classes=10, shape=(3, 8, 8))) == by_hand


@pytest.mark.parametrize("w", [16, 24])
def test_small_cnn_has_four_features_per_unit_of_width(w):
    convolutions = 9 * (1 * w + w * w + w * 2 * w + 4 * w * w + 2 * w * 4 * w)
    norms = 2 * (w + w + 2 * w + 2 * w + 4 * w)
    net = make("small-cnn", classes=10, shape=(1, 8, 8), width=w)
    assert parameters(net) == convolutions + norms + 4 * w * 10 + 10
    assert net.features(torch.randn(2, 1, 8, 8)).shape == (2, 4 * w)


def test_small_cnn_takes_its_norm_momentum():
    net = make("small-cnn", classes=10, shape=(1, 8, 8), bn_momentum=0.01)
    assert {m.momentum for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)} == {0.01}
