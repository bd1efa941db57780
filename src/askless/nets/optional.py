"""Networks of torchvision and timm, where those packages are installed (the extra `vision`)."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from askless.errors import InputError, ModelError, OptionError
from askless.nets.checks import image_shape

FRAGMENTS: list[torch.library.Library] = []  # operator schemas last as long as something refers to them


def torchvision_net(shape: Any, classes: int, *, name: str, **options: Any) -> nn.Module:
    """torchvision's model `name`; with `weights` it is pretrained, and its head is made anew where classes differ."""
    owner = f"torchvision/{name}"
    models = torchvision().models
    channels, _, _ = image_shape(owner, shape, smallest=1)
    if channels != 3:
        raise InputError(
            f"{owner}: expected 3 channels, got {channels}; repeat the grey channel three times, or use timm/NAME, "
            f"which takes any number"
        )
    if name not in models.list_models(module=models):
        raise OptionError(f"unknown net {owner!r}; torchvision.models.list_models() lists the known ones")
    if options.get("weights") is None:
        options["num_classes"] = classes
    return with_head(owner, built(owner, models.get_model, name, **options), classes)


def timm_net(shape: Any, classes: int, *, name: str, **options: Any) -> nn.Module:
    """timm's model `name` for these channels and classes; `pretrained=True` loads its weights."""
    owner = f"timm/{name}"
    torchvision()  # timm imports it
    timm = required("timm")
    channels, _, _ = image_shape(owner, shape, smallest=1)
    if not timm.is_model(name.split(".")[0]):
        raise OptionError(f"unknown net {owner!r}; timm.list_models() lists the known ones")
    model = built(owner, timm.create_model, name, num_classes=classes, in_chans=channels, **options)
    return with_head(owner, model, classes)


def torchvision() -> ModuleType:
    """The package torchvision, also where its compiled operators do not load.

    A wheel built for CUDA fails to import beside a CPU build of torch: it describes two operators that are not there.
    Naming their schemas is enough for models, datasets and transforms (nms itself stays missing).
    """
    try:
        return required("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    if not FRAGMENTS:
        FRAGMENTS.append(torch.library.Library("torchvision", "FRAGMENT"))
        for operator in ("nms", "qnms"):
            FRAGMENTS[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return required("torchvision")


def required(package: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ModelError(
            f"expected the package {package}, which cannot be imported ({error}); run `pip install askless[vision]`"
        ) from None


def built(owner: str, build: Callable[..., nn.Module], name: str, **options: Any) -> nn.Module:
    try:
        return build(name, **options)
    except Exception as error:  # whatever those packages raise: bad options, no network for the weights
        got = ", ".join(f"{option}={value!r}" for option, value in options.items())
        raise ModelError(
            f"{owner}: expected a network from options {got}, got {type(error).__name__}: {error}; check the options; "
            f"weights have to be downloaded once (HF_HUB_OFFLINE=1 makes timm fail at once without a network)"
        ) from error


def with_head(owner: str, model: nn.Module, classes: int) -> nn.Module:
    """The model, its last linear layer replaced where it does not put out `classes` numbers."""
    linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise ModelError(
            f"{owner}: expected a network that ends in a linear layer, got {type(model).__name__} without one; "
            f"choose another"
        )
    head = model.get_submodule(linears[-1])
    assert isinstance(head, nn.Linear)
    if head.out_features != classes:
        model.set_submodule(linears[-1], nn.Linear(head.in_features, classes, bias=head.bias is not None))
    return model
