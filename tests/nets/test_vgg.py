"""VGG-11: its size by hand."""

from itertools import pairwise

import torch

from askless.nets import make


def test_the_number_of_parameters_is_eight_convolutions_with_norms_and_a_head():
    channels = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    by_hand = sum(9 * i * o + o + 2 * o for i, o in pairwise(channels)) + 512 * 10 + 10
    net = make("vgg-11", classes=10, shape=(3, 32, 32))
    assert sum(p.numel() for p in net.parameters()) == by_hand == 9_231_114


def test_larger_images_are_averaged_over_the_last_map():
    net = make("vgg-11", classes=10, shape=(3, 64, 64)).eval()
    x = torch.randn(1, 3, 64, 64)
    torch.testing.assert_close(net.features(x), net.body(x).flatten(2).mean(2))
    assert net.body(x).shape == (1, 512, 2, 2)
