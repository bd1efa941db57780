"""`make`: every name, every message."""

import numpy as np
import pytest
import torch
from torch import nn

from askless.base.errors import InputError, OptionError
from askless.nets import NETS, make
from askless.nets.wrn import WideResNet

IMAGE_NETS = [
    "wrn-28-1",
    "wrn-28-2",
    "resnet-18",
    "resnet-18-imagenet",
    "vgg-11",
    "tutorial-cnn",
    "cnn-gap",
    "small-cnn",
]
SMALLEST = {
    "wrn-28-1": 4,
    "wrn-28-2": 4,
    "resnet-18": 8,
    "vgg-11": 32,
    "tutorial-cnn": 16,
    "cnn-gap": 1,
    "small-cnn": 8,
}
SMALLEST["resnet-18-imagenet"] = 32
FEATURES = {"wrn-28-1": 64, "wrn-28-2": 128, "resnet-18": 512, "resnet-18-imagenet": 512, "vgg-11": 512}
FEATURES |= {"tutorial-cnn": 84, "cnn-gap": 128, "small-cnn": 64}


def features_and_output(net, x):
    """What the head gets and what the net returns."""
    seen = []
    net.head.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    with torch.no_grad():
        output = net(x)
    return seen[0], output


@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 32, 32), (3, 35, 47)])
@pytest.mark.parametrize("name", IMAGE_NETS)
def test_the_head_gets_one_feature_vector_per_image_of_any_colour_and_size(name, shape):
    net = make(name, classes=7, shape=shape)
    features, output = features_and_output(net, torch.randn(2, *shape))
    assert features.shape == (2, FEATURES[name])
    assert output.shape == (2, 7)
    assert torch.equal(net.head(features), output)


@pytest.mark.parametrize("name", IMAGE_NETS)
def test_the_smallest_images_work_in_training_and_smaller_ones_are_refused(name):
    side = SMALLEST[name]
    net = make(name, classes=3, shape=(1, side, side))
    net(torch.randn(4, 1, side, side)).sum().backward()
    if side > 1:
        message = f"expected images of at least {side} x {side} pixels, got {side - 1} x {side}; enlarge them, or use"
        with pytest.raises(InputError, match=message):
            make(name, classes=3, shape=(1, side - 1, side))


@pytest.mark.parametrize("name", ["mlp", "linear"])
@pytest.mark.parametrize("shape", [(5,), (3, 4, 6)])
def test_vectors_and_images_are_flattened(name, shape):
    features, output = features_and_output(make(name, classes=4, shape=shape), torch.randn(2, *shape))
    assert features.shape == (2, 128 if name == "mlp" else int(np.prod(shape)))
    assert output.shape == (2, 4)


@pytest.mark.parametrize(("width", "d"), [(2, 128), (8, 512), (10, 640)])
def test_wide_nets_have_64_features_per_unit_of_width(width, d):
    with torch.device("meta"):
        assert WideResNet((3, 32, 32), 10, width=width).head.in_features == d


@pytest.mark.parametrize("name", [*IMAGE_NETS, "mlp", "linear"])
def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone(name):
    before = torch.random.get_rng_state()
    first, again, other = (make(name, classes=3, shape=(1, 32, 32), seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.random.get_rng_state(), before)
    states = first.state_dict()
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in states.items())
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_generator_in_place_of_the_seed_advances():
    rng = np.random.default_rng(0)
    first, second = (make("linear", classes=3, shape=(4,), seed=rng) for _ in range(2))
    assert not torch.equal(first.head.weight, second.head.weight)


def test_nets_are_made_on_the_cpu_whatever_the_default_device():
    with torch.device("meta"):
        assert make("linear", classes=3, shape=(4,)).head.weight.device.type == "cpu"


@pytest.mark.parametrize("name", ["wrn-40-2", "wrn-28-0", "wrn-28-K", "timm/", "other/resnet", "", None])
def test_an_unknown_name_is_answered_with_the_known_ones(name):
    with pytest.raises(OptionError, match=f"unknown net {name!r}; ") as refused:
        make(name, classes=3, shape=(1, 32, 32))
    assert f"the known ones are {', '.join(NETS)}, and for learners frozen:BACKBONE" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "near"), [("resnet18", "resnet-18"), ("Linear", "linear"), ("small_cnn", "small-cnn")]
)
def test_an_unknown_name_is_answered_with_the_nearest_first(name, near):
    with pytest.raises(OptionError, match=f"unknown net '{name}'; did you mean '{near}'. the known ones are "):
        make(name, classes=3, shape=(1, 32, 32))


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("wrn-28-2", "slope, bn_momentum, bn_eps, wrn_variant"),
        ("resnet-18", "dropout, bn_momentum"),
        ("mlp", "hidden, dropout"),
        ("linear", "dropout"),
    ],
)
def test_an_unknown_option_is_answered_with_the_known_ones(name, known):
    with pytest.raises(OptionError, match=f"{name}: unknown option 'depth'; its options are {known}$"):
        make(name, classes=3, shape=(1, 32, 32), depth=3)


def test_an_option_settled_by_the_name_cannot_be_changed():
    with pytest.raises(OptionError, match="wrn-28-2: unknown option 'width'"):
        make("wrn-28-2", classes=3, shape=(1, 32, 32), width=3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("wrn-28-2", {"slope": -1}, "wrn: slope must be a number from 0 to 1, got -1"),
        ("wrn-28-2", {"bn_momentum": 2}, "wrn: bn_momentum must be a number from 0 to 1, got 2"),
        ("wrn-28-2", {"bn_eps": "x"}, "wrn: bn_eps must be a number from 0 to 1, got 'x'"),
        (
            "wrn-28-2",
            {"wrn_variant": "x"},
            "wrn: wrn_variant must be one of official, leedoyup, kekmodel, got 'x'",
        ),
        ("resnet-18", {"dropout": 1.5}, "resnet-18: dropout must be a number from 0 to 1, got 1.5"),
        ("vgg-11", {"bn_momentum": None}, "vgg-11: bn_momentum must be a number from 0 to 1, got None"),
        ("small-cnn", {"width": 2.5}, "small-cnn: width must be a whole number >= 1, got 2.5"),
        ("mlp", {"hidden": 8}, r"mlp: expected hidden to be a sequence of sizes such as \(128, 128\), got 8"),
        ("mlp", {"hidden": (8, 0)}, "mlp: every size in hidden must be a whole number >= 1, got 0"),
    ],
)
def test_a_bad_option_value_is_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        make(name, classes=3, shape=(1, 32, 32), **options)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (
            (4, 3, 32, 32),
            r"small-cnn: expected shape \(channels, height, width\) or \(d,\), got .*leave out the batch axis",
        ),
        (32, "small-cnn: expected shape"),
        ((1, 32, 0), "small-cnn: every entry of shape must be a whole number >= 1, got 0"),
        ((64,), r"small-cnn: expected images, shape \(channels, height, width\), got \(64,\); for vectors use 'mlp'"),
    ],
)
def test_a_bad_shape_is_refused(shape, message):
    with pytest.raises(InputError, match=message):
        make("small-cnn", classes=3, shape=shape)


@pytest.mark.parametrize("classes", [1, 0, 2.0, True, "3"])
def test_fewer_than_two_classes_are_refused(classes):
    with pytest.raises(InputError, match=f"linear: classes must be a whole number >= 2, got {classes!r}"):
        make("linear", classes=classes, shape=(4,))


def test_the_last_module_of_every_net_is_its_head():
    for name in [*IMAGE_NETS, "mlp", "linear"]:
        *_, last = make(name, classes=3, shape=(1, 32, 32)).modules()
        assert isinstance(last, nn.Linear), name
        assert last.out_features == 3
