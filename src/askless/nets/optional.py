"""Networks of torchvision and timm, where those packages are installed (the extra `vision`)."""

import pickle
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from askless.base.errors import InputError, ModelError, OptionError, first_line
from askless.base.machine import required
from askless.nets.checks import image_shape
from askless.nets.hub import can_ask_hub, downloaded_before
from askless.nets.weights import is_local, load_weights, read_weights

FRAGMENTS: list[torch.library.Library] = []  # operator schemas last as long as something refers to them
# Names of layers in the published weights of DenseNet, "denselayer1.norm.1.weight", where the network says "norm1".
OLD_NAME = re.compile(r"^(.*denselayer\d+\.(?:norm|relu|conv))\.([12]\.\w+)$")
AUXILIARY = ("aux1", "aux2", "AuxLogits")  # second heads of torchvision's Inception models, used in their training only


def torchvision_net(shape: Any, classes: int, *, name: str, **options: Any) -> nn.Module:
    """torchvision's model `name`; with `weights` (a file, a folder, or a name that torchvision knows) it is pretrained, and
    it gets a new head if the classes differ."""
    owner = f"torchvision/{name}"
    models = torchvision().models
    channels, height, width = image_shape(owner, shape, smallest=1)
    if channels != 3:
        raise InputError(
            f"{owner}: expected 3 channels, got {channels}; repeat the grey channel three times, or use timm/NAME, "
            f"which takes any number"
        )
    check_torchvision_name(models, name)
    weights = options.pop("weights", None)
    options = {"num_classes": classes, **torchvision_sides(name, height, width, weights is not None), **options}
    model = with_head(owner, built(owner, models.get_model, name, **options), classes)
    if weights is not None:
        load_weights(owner, model, torchvision_weights(models, name, weights), [last_linear(owner, model), *AUXILIARY])
    return model


def check_torchvision_name(models: Any, name: str) -> None:
    if name not in models.list_models(module=models):
        raise OptionError(f"unknown net 'torchvision/{name}'; torchvision.models.list_models() lists the known ones")


def torchvision_weights(models: Any, name: str, weights: Any) -> dict[str, Tensor]:
    """Weights of torchvision's model `name`, from a file or folder, or by a name that torchvision knows, as DEFAULT: those
    are downloaded once, and nothing but tensors is ever unpickled."""
    owner = f"torchvision/{name}"
    try:
        if is_local(weights):
            found = read_weights(weights)
        else:
            known = models.get_model_weights(name).verify(weights)
            found = known.get_state_dict(progress=False, check_hash=True, weights_only=True, map_location="cpu")
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{owner}: expected only tensors, got a file that runs code when loaded ({first_line(error)}); remove it from "
            f"{torch.hub.get_dir()}, or pass the weights as a file"
        ) from None
    except ModelError:
        raise
    except Exception as error:  # whatever torchvision raises: an unknown name, no network
        raise ModelError(
            f"{owner}: expected weights {weights!r}, got {type(error).__name__}: {first_line(error)}; check the name; "
            "download the weights once, or pass a file"
        ) from error
    return {OLD_NAME.sub(r"\1\2", layer): tensor for layer, tensor in found.items()}


def torchvision_sides(name: str, height: int, width: int, pretrained: bool) -> dict[str, Any]:
    """Options of the models that need the image size, or that would return more than logits."""
    if name in ("googlenet", "inception_v3"):  # of which the published weights want pixels from -1 to 1
        return {"aux_logits": False, "init_weights": True, "transform_input": pretrained}
    if name.startswith("vit_"):
        return {"image_size": height}
    return {"input_size": (height, width)} if name.startswith("maxvit") else {}


def timm_net(shape: Any, classes: int, *, name: str, **options: Any) -> nn.Module:
    """timm's model `name` for these channels and classes; `pretrained=True` loads its weights, `weights` those of a file or
    folder, and a head of other classes is replaced."""
    owner = f"timm/{name}"
    timm = timm_package()
    channels, height, width = image_shape(owner, shape, smallest=1)
    check_timm_name(timm, name)
    file = options.pop("weights", None)
    if file is None and options.get("pretrained") and not can_ask_hub():
        file, options["pretrained"] = downloaded_before(owner, hub_name(timm, name)), False
    if has_fixed_size(timm, name):
        options = {"img_size": (height, width), **options}
    model = built(owner, timm.create_model, name, num_classes=classes, in_chans=channels, **options)
    if file is not None:
        load_weights(owner, model, read_weights(file), timm_heads(model))
    return with_head(owner, model, classes)


def timm_package() -> ModuleType:
    torchvision()  # timm imports it, and may need its guard
    return required("timm", "vision")


def check_timm_name(timm: Any, name: str) -> None:
    if not timm.is_model(name.split(".")[0]):
        raise OptionError(f"unknown net 'timm/{name}'; timm.list_models() lists the known ones")


def has_fixed_size(timm: Any, name: str) -> bool:
    """Whether a timm model works at one image size only, set when it is created."""
    config = timm.get_pretrained_cfg(name)
    return config is not None and bool(config.fixed_input_size)


def hub_name(timm: Any, name: str) -> str | None:
    """Where the hub has the weights of a model of timm."""
    config = timm.get_pretrained_cfg(name)
    repository = None if config is None else config.hf_hub_id
    return f"{repository}{config.architecture}.{config.tag}" if repository and repository.endswith("/") else repository


def timm_heads(model: nn.Module) -> list[str]:
    """The names of the layers that a timm model replaces for other classes."""
    names = getattr(model, "pretrained_cfg", {}).get("classifier") or "head"
    return [names] if isinstance(names, str) else list(names)


def torchvision() -> ModuleType:
    """The package torchvision, also where its compiled operators do not load.

    A wheel built for CUDA fails to import beside a CPU build of torch: it describes two operators that are not there.
    Naming their schemas is enough for models, datasets and transforms (nms itself stays missing).
    """
    try:
        return required("torchvision", "vision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    if not FRAGMENTS:
        FRAGMENTS.append(torch.library.Library("torchvision", "FRAGMENT"))
        for operator in ("nms", "qnms"):
            FRAGMENTS[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return required("torchvision", "vision")


def built(owner: str, build: Callable[..., nn.Module], name: str, **options: Any) -> nn.Module:
    try:
        return build(name, **options)
    except Exception as error:  # whatever those packages raise: bad options, no network for the weights
        got = ", ".join(f"{option}={value!r}" for option, value in options.items())
        raise ModelError(
            f"{owner}: expected a network from options {got}, got {type(error).__name__}: {error}; check the options; "
            f"download the weights once (HF_HUB_OFFLINE=1 makes timm fail at once without a network)"
        ) from error


def with_head(owner: str, model: nn.Module, classes: int) -> nn.Module:
    """The model, its last linear layer replaced where it does not put out `classes` numbers."""
    name = last_linear(owner, model)
    head = model.get_submodule(name)
    assert isinstance(head, nn.Linear)
    if head.out_features != classes:
        model.set_submodule(name, nn.Linear(head.in_features, classes, bias=head.bias is not None))
    return model


def last_linear(owner: str, model: nn.Module) -> str:
    """The name of the head: the linear layer that the model lists last."""
    linears = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linears:
        raise ModelError(
            f"{owner}: expected a network that ends in a linear layer, got {type(model).__name__} without one; "
            f"choose another"
        )
    return linears[-1]
