"""ResNet-18: both stems, by hand counts; dropout as for Caltech-101."""

import pytest
import torch

from askless.base.errors import OptionError
from askless.nets import make
from askless.nets.resnet import ResNet18


def parameters(net):
    return sum(p.numel() for p in net.parameters())


def by_hand(kernel, channels, classes):
    """A stem, four stages of two blocks of two convolutions with BN, three shortcuts with BN, the head."""
    total, i = kernel**2 * channels * 64 + 128, 64
    for o in (64, 128, 256, 512):
        total += 9 * i * o + 3 * 9 * o * o + 4 * 2 * o
        total += i * o + 2 * o if i != o else 0
        i = o
    return total + 512 * classes + classes


def test_the_small_stem_has_the_well_known_number_of_parameters():
    assert parameters(make("resnet-18", classes=10, shape=(3, 32, 32))) == by_hand(3, 3, 10) == 11_173_962


def test_the_imagenet_stem_has_the_well_known_number_of_parameters():
    assert parameters(make("resnet-18-imagenet", classes=1000, shape=(3, 64, 64))) == by_hand(7, 3, 1000) == 11_689_512


def test_every_parameter_gets_a_gradient():
    net = make("resnet-18", classes=10, shape=(1, 8, 8))
    net(torch.randn(4, 1, 8, 8)).square().sum().backward()
    assert [name for name, p in net.named_parameters() if not p.grad.any()] == []


def test_the_stems_shrink_the_image_8_and_32_times():
    for name, side in (("resnet-18", 32), ("resnet-18-imagenet", 128)):
        net, sizes = make(name, classes=2, shape=(1, side, side)), []
        net.stage4.register_forward_hook(lambda m, args, output, sizes=sizes: sizes.append(tuple(output.shape[2:])))
        with torch.no_grad():
            net(torch.randn(1, 1, side, side))
        assert sizes == [(4, 4)]


def test_dropout_acts_twice_in_training_and_never_in_evaluation():
    net = make("resnet-18-imagenet", classes=2, shape=(1, 64, 64), dropout=0.5)
    x, seen = torch.randn(8, 1, 64, 64), []
    net.stage4.register_forward_pre_hook(lambda m, args: seen.append((args[0] == 0).float().mean().item()))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        before_head = (net.features(x) == 0).float().mean().item()
        assert not torch.equal(net(x), net(x))
    assert seen[0] > 0.6  # half of it by dropout, and ReLU's zeros
    assert 0.4 < before_head < 0.6
    net.eval()
    assert torch.equal(net(x), net(x))


def test_an_unknown_stem_is_refused():
    with pytest.raises(OptionError, match="resnet-18: stem must be one of cifar, imagenet, got 'x'"):
        ResNet18((3, 32, 32), 10, stem="x")
