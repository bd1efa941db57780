"""`make`: a network by name. And the table of the names."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from askless.base.errors import OptionError, unknown
from askless.base.options import check_count
from askless.base.rng import Seed, stream
from askless.nets.checks import input_shape
from askless.nets.cnn import CNNGap, SmallCNN, TutorialCNN
from askless.nets.mlp import MLP, Linear
from askless.nets.optional import timm_net, torchvision_net
from askless.nets.resnet import ResNet18
from askless.nets.vgg import VGG11
from askless.nets.waves import Waves
from askless.nets.wrn import WideResNet


class NetInfo(NamedTuple):
    """A row of the table: who builds it, and what it is for."""

    build: Callable[..., nn.Module]
    about: str


NETS: dict[str, NetInfo] = {
    "wrn-28-K": NetInfo(
        WideResNet, "wide residual net of FixMatch, K = 2, 8, 10, ...; 64 K features; images from 4 pixels"
    ),
    "resnet-18": NetInfo(partial(ResNet18, stem="cifar"), "3x3 stem; 512 features; images from 8 pixels"),
    "resnet-18-imagenet": NetInfo(
        partial(ResNet18, stem="imagenet"), "7x7 stem and max-pool; 512 features; from 32 pixels"
    ),
    "vgg-11": NetInfo(VGG11, "with BN and one linear layer; 512 features; from 32 pixels"),
    "tutorial-cnn": NetInfo(TutorialCNN, "PyTorch's tutorial net; 84 features; from 16 pixels"),
    "cnn-gap": NetInfo(CNNGap, "three convolutions and global average pooling; 128 features"),
    "small-cnn": NetInfo(SmallCNN, "quick on a processor; 4 width features; from 8 pixels"),
    "mlp": NetInfo(MLP, "hidden layers on images or vectors"),
    "linear": NetInfo(Linear, "logistic regression on images or vectors"),
    "waves": NetInfo(Waves, "logistic regression on vectors and on random cosines of them: curved borders"),
    "torchvision/NAME": NetInfo(torchvision_net, "any classifier of torchvision, where installed"),
    "timm/NAME": NetInfo(timm_net, "any classifier of timm, where installed"),
}


def make(name: str, *, classes: int, shape: Any, seed: Seed = 0, **options: Any) -> nn.Module:
    """The network called `name`, with weights drawn from `seed`, for inputs of `shape`: (channels, height, width) or (d,).

    It ends in a linear layer of `classes` outputs, fed by one feature vector per example. Names are the keys of `NETS`,
    with K and NAME filled in; options are the keyword arguments of the class behind the name.

    >>> make("wrn-28-2", classes=10, shape=(3, 32, 32)).head
    Linear(in_features=128, out_features=10, bias=True)
    >>> make("mlp", classes=3, shape=(4,), hidden=(8,)).head
    Linear(in_features=8, out_features=3, bias=True)
    """
    build = builder(name)
    check_count(name, "classes", classes, least=2)
    input_shape(name, shape)
    check_options(name, build, options)
    start = int(stream(seed, "init").integers(2**63 - 1))
    # The layers draw from torch's default generator: lend it the stream and put it back. Not torch.manual_seed, which
    # would reseed GPUs too.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(start)
        return build(shape, classes, **options)


def builder(name: str) -> Callable[..., nn.Module]:
    """Who builds the network called `name`."""
    wide = re.fullmatch(r"wrn-28-([1-9][0-9]*)", name) if isinstance(name, str) else None
    if wide:
        return partial(WideResNet, width=int(wide[1]))
    package, _, model = name.partition("/") if isinstance(name, str) else ("", "", "")
    if model and f"{package}/NAME" in NETS:
        return partial(NETS[f"{package}/NAME"].build, name=model)
    if name not in NETS or name.endswith(("K", "NAME")):
        raise OptionError(f"{unknown('net', name, NETS)}, and for learners frozen:BACKBONE")
    return NETS[name].build


def check_options(name: str, build: Callable[..., nn.Module], options: dict[str, Any]) -> None:
    """Every option is a keyword of the builder that the name has not already settled."""
    parameters = inspect.signature(build).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return  # another package's options: it checks them itself
    settled = build.keywords if isinstance(build, partial) else {}
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in settled]
    for option in options:
        if option not in known:
            raise OptionError(f"{name}: unknown option {option!r}; its options are {', '.join(known) or 'none'}")
