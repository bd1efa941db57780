"""Fully connected nets: sizes by hand."""

import torch

from askless.nets import make


def parameters(net):
    return sum(p.numel() for p in net.parameters())


def test_hidden_sizes_make_the_layers():
    assert parameters(make("mlp", classes=3, shape=(4,), hidden=[5, 6])) == 5 * 5 + 6 * 6 + 7 * 3
    assert parameters(make("mlp", classes=3, shape=(1, 2, 2), hidden=())) == 5 * 3


def test_linear_is_one_matrix_and_a_bias():
    net = make("linear", classes=3, shape=(2, 3, 4))
    x = torch.randn(5, 2, 3, 4)
    torch.testing.assert_close(net(x), x.reshape(5, 24) @ net.head.weight.T + net.head.bias)
