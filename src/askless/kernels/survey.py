"""Which layers of a network the rules can take, and which parameters are left over."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from askless.kernels.evaluation import after_each, layer_input
from askless.kernels.layer_rules import Rules, rules_for
from askless.kernels.reference import trainable

Shapes = tuple[torch.Size, torch.Size]


@dataclass(frozen=True)
class Site:
    """A layer that the rules can take."""

    layer: nn.Module
    rules: Rules
    parameters: dict[str, str]  # "weight" and "bias", those that are trained -> name in the model


def survey(model: nn.Module, probes: Sequence[Tensor]) -> tuple[tuple[Site, ...], tuple[str, ...]]:
    """The sites, and the names of the trainable parameters without a rule, by running `probes`, batches of differing length.

    A layer has a site if its type has rules, it ran once in each probe with the batch along the first axis of input and
    output, and its parameters are its own. Uses that leave no trace here, such as F.linear(x, layer.weight), are found
    by the route's check against autograd, and runs that differ with the examples by `one_pass`.
    """
    candidates = _candidates(model)
    for probe in probes:
        calls = _calls(model, list(candidates), probe)
        candidates = {layer: site for layer, site in candidates.items() if fits(layer, calls[layer], len(probe))}
    sites = tuple(candidates.values())
    ruled = {name for site in sites for name in site.parameters.values()}
    return sites, tuple(name for name in trainable(model) if name not in ruled)


def _candidates(model: nn.Module) -> dict[nn.Module, Site]:
    names = {p: name for name, p in trainable(model).items()}
    owners = Counter(p for module in model.modules() for p in module._parameters.values() if p is not None)
    found = {}
    for layer in model.modules():
        own = {local: p for local, p in layer._parameters.items() if p in names}
        rules = rules_for(layer)
        if own and rules and own.keys() <= {"weight", "bias"} and all(owners[p] == 1 for p in own.values()):
            found[layer] = Site(layer, rules, {local: names[p] for local, p in own.items()})
    return found


def _calls(model: nn.Module, layers: Sequence[nn.Module], probe: Tensor) -> dict[nn.Module, list[Shapes]]:
    """The shapes of input and output of every run of every layer."""
    calls: dict[nn.Module, list[Shapes]] = {layer: [] for layer in layers}

    def note(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        calls[layer].append((layer_input(args, kwargs).shape, output.shape))

    with after_each(layers, note), torch.no_grad():
        model(probe)
    return calls


def fits(layer: nn.Module, calls: list[Shapes], n: int) -> bool:
    """Whether the layer ran once, on all n examples."""
    if len(calls) != 1:
        return False
    [(before, after)] = calls
    return len(before) >= _axes(layer) and before[0] == n and after[0] == n


def _axes(layer: nn.Module) -> int:
    """The fewest axes of a batched input; with fewer the layer took a single example."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return 2 + len(layer.kernel_size)
    if isinstance(layer, nn.LayerNorm):
        return 1 + len(layer.normalized_shape)
    return 1 if isinstance(layer, nn.Embedding) else 2
