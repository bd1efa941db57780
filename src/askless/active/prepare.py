"""What a loop starts from: class names, views, the first network."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from askless import kernels, nets
from askless.acquire import Strategy
from askless.base.errors import InputError, ModelError, first_line
from askless.base.files import in_full
from askless.data import Pool, views_for
from askless.features.frozen import Frozen, as_frozen, frozen_views
from askless.features.scaling import SHORT
from askless.features.text_backbone import text_views
from askless.kernels.evaluation import evaluating
from askless.kernels.logits import probabilities

SAMPLE = 10_000  # items that a network is measured by, at most

Net = str | nn.Module | Frozen | Callable[[int], nn.Module]


def class_names(classes: int | Sequence[str] | None, pool: Pool) -> tuple[str, ...]:
    """The classes' names; numbers stand for themselves."""
    if classes is None:
        classes = pool.classes if pool.classes is not None else pool.n_classes
    if classes is None:
        raise InputError("the pool does not know its classes; pass classes=10, or classes=['cat', 'dog']")
    if isinstance(classes, str):
        raise InputError(
            f"classes: expected their number or their names, got the text {classes!r}; pass ['cat', 'dog']"
        )
    if isinstance(classes, int | np.integer):
        known = pool.classes or ()
        classes = known if len(known) == classes else [str(number) for number in range(classes)]
    names = tuple(map(str, classes))
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError(
            f"expected at least two classes with distinct names, got {', '.join(names) or 'none'}; pass "
            "classes=['cat', 'dog']"
        )
    return names


def default_net(pool: Pool) -> str:
    """What is trained where nobody says: a small network on images, a linear head on vectors; on short ones, which are
    measured numbers rather than what an encoder made of something, with curved borders."""
    if pool.kind not in ("features", "other") or len(pool.shape) != 1:
        return "small-cnn"
    return "waves" if pool.shape[0] <= SHORT else "linear"


def default_learner(net: Net, pool: Pool) -> str:
    """What trains a net where nobody says."""
    frozen = as_frozen(net)
    has_linear_head = net in ("linear", "waves") and len(pool.shape) == 1 if frozen is None else not frozen.hidden
    return "auto" if has_linear_head else "fixmatch"


def net_in_full(net: Net) -> Net:
    """The net with folders and files named in full, because a saved learner may resume from anywhere."""
    if isinstance(net, str):
        return in_full(net)
    if not isinstance(net, Frozen) or not isinstance(net.backbone, str):
        return net
    weights = None if net.weights is None else Path(net.weights).resolve()
    return replace(net, backbone=in_full(net.backbone), weights=weights)


def make_views(pool: Pool, net: Net, views: Any, progress: Callable[[int, int], None] | None) -> Any:
    if views is not None:
        return views
    frozen = as_frozen(net)
    if pool.kind != "text":
        return views_for(pool) if frozen is None else frozen_views(pool, frozen, progress)
    if frozen is None:
        raise InputError("a network needs embedded texts; use net='frozen:tfidf' for a head on their words")
    return text_views(pool, frozen, progress)


def first_network(pool: Pool, net: Net, views: Any, classes: int, seed: int) -> nn.Module:
    """The network before any training, with weights drawn from the seed unless it is a module."""
    if isinstance(net, nn.Module):
        return copy.deepcopy(net)
    if isinstance(net, type):
        raise InputError(
            f"net: expected a module or a function that makes one from a seed, got the class {net.__name__}; "
            f"pass {net.__name__}(...), or lambda seed: {net.__name__}(...)"
        )
    if callable(net):
        return made_by(net, seed)
    frozen = as_frozen(net)
    if frozen is None:
        made = nets.make(str(net), classes=classes, shape=pool.shape, seed=seed)
        if isinstance(made, nets.Waves):
            made.measure(
                views.plain(torch.linspace(0, len(pool) - 1, min(SAMPLE, len(pool)), dtype=torch.float64).long())
            )
        return made
    name, options = head_of(frozen)
    shape = tuple(views.plain(torch.arange(1)).shape[1:])
    return nets.make(name, classes=classes, shape=shape, dropout=frozen.dropout, seed=seed, **options)


def head_of(frozen: Frozen) -> tuple[str, dict[str, Any]]:
    """The name of the network on frozen features, and its options beside dropout, which only its training has."""
    return ("mlp", {"hidden": [frozen.hidden]}) if frozen.hidden else ("linear", {})


def made_by(make: Callable[[int], nn.Module], seed: int) -> nn.Module:
    """The module that `make(seed)` returns; layers that it makes without a look at the seed draw from it too."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)
        net = make(seed)
    if not isinstance(net, nn.Module):
        raise InputError(f"net: expected a function that makes a module from a seed, got {type(net).__name__} from it")
    return net


def check_passes(strategy: Strategy, net: nn.Module | None, views: Any) -> None:
    """A strategy that looks at passes with dropout gets a network that has it; said before anything is trained."""
    if "probs_by_pass" not in strategy.needs:
        return
    if net is None:
        raise InputError(
            f"the strategy {strategy.name} needs a network with dropout, and label propagation has no network; use another "
            "strategy, or a learner that trains a network"
        )
    try:
        kernels.check_dropout(net, views.plain(torch.arange(1)))
    except ModelError as error:
        raise ModelError(f"the strategy {strategy.name}: {error}") from None


def check_device(device: str, there: bool = False) -> None:
    """An error where torch knows no such device or, with `there`, where this machine has none."""
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise InputError(
            f"device: expected 'cpu', 'cuda', 'cuda:1' or the like, got {device!r}; pass one of these"
        ) from None
    if there and kind == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device: expected a GPU that torch can use, found none for {device!r}; pass device='cpu'")


def check_network(net: nn.Module, views: Any, classes: int) -> None:
    """One item through the network, so that what does not fit is said before any label is asked for."""
    if not any(True for _ in net.parameters()):
        raise ModelError("expected a network with parameters to train, got one without")
    try:
        logits = probabilities(net, views.plain(torch.arange(1)))
    except ModelError:
        raise
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        shape = tuple(views.plain(torch.arange(1)).shape[1:])
        raise ModelError(
            f"the network cannot take items of shape {shape}: {first_line(error)}; use a network for such items"
        ) from error
    if logits.shape != (1, classes):
        raise ModelError(
            f"expected one output per class, {classes}, got an output of shape {logits.shape[1:]} per item; end the "
            f"network in a linear layer with {classes} outputs"
        )
    with evaluating(net), torch.no_grad():
        some = net(views.plain(torch.arange(min(8, len(views)))))
    if bool((some >= 0).all()) and torch.allclose(some.sum(dim=1), torch.ones(len(some), dtype=some.dtype), atol=1e-4):
        raise ModelError(
            "expected a network that returns logits, got rows >= 0 that sum to 1, as after a softmax; remove the softmax, "
            "which the loss already contains"
        )
