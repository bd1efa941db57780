"""Per-example gradient numbers from one forward pass, at the memory of one layer's gradient."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from askless.kernels.evaluation import after_each, call_with, layer_input
from askless.kernels.logits import Labelling, class_logits, cross_entropy
from askless.kernels.survey import Shapes, Site, fits

OnDelta = Callable[[Site, list[Tensor], Tensor], None]  # site, its input (to be emptied), gradient over the output


class Irregular(Exception):
    """A site did not run once over the whole batch, as the rules need: its rows are not the examples."""


class Sums(NamedTuple):
    """Sums over some layers, for m labels of each of n examples."""

    labels: Tensor  # (n, m)
    sq: Tensor  # (n, m) float64
    dot: Tensor | None  # (n, m) float64


def one_pass(
    model: nn.Module,
    sites: tuple[Site, ...],
    batch: Tensor,
    labelling: Labelling,
    along: Mapping[str, Tensor] | None,
) -> Sums:
    """||g||^2 and g . G over the parameters of the sites, g = grad CE(f(x), y): one forward pass, m backward passes.

    The parameters are constants here, so autograd spends nothing on their gradients; what passes through a layer on
    the way back is reduced at once by the layer's rules. `along` holds G by parameter name. Where a network sends
    only some of these examples through a site, or none, this raises `Irregular`.
    """
    n, column = len(batch), 0

    def reduce(site: Site, held: list[Tensor], delta: Tensor) -> None:
        a = held.pop() if column == m - 1 else held[0]  # as autograd frees what it has used
        for local, name in site.parameters.items():
            rule = site.rules.weight if local == "weight" else site.rules.bias
            s, d = rule(site.layer, a, delta, None if along is None else along[name])
            sq[:, column] += s
            if dot is not None and d is not None:
                dot[:, column] += d

    logits, leaves = _forward(model, sites, batch, reduce)
    labels = labelling(logits.detach())
    m = labels.shape[1]
    sq = torch.zeros(n, m, dtype=torch.float64, device=batch.device)
    dot = None if along is None else torch.zeros_like(sq)
    if logits.requires_grad:
        for column in range(m):
            loss = cross_entropy(logits, labels[:, column])
            torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=column < m - 1)
    return Sums(labels, sq, dot)


def _forward(
    model: nn.Module, sites: tuple[Site, ...], batch: Tensor, on_delta: OnDelta
) -> tuple[Tensor, list[Tensor]]:
    """The logits, and the tensors to differentiate by so that the backward pass meets every site."""
    leaves: list[Tensor] = []
    at = {site.layer: site for site in sites}
    calls: dict[nn.Module, list[Shapes]] = {layer: [] for layer in at}

    def watch(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor | None:
        held = [layer_input(args, kwargs).detach()]
        calls[layer].append((held[0].shape, output.shape))
        if not torch.is_grad_enabled():  # the model cut this part off, its gradient is zero
            return None
        if not output.requires_grad:  # a first layer
            leaves.append(output.new_zeros(()).requires_grad_())
            output = output.detach() + leaves[-1]  # a single number to differentiate by, not a second output
        output.register_hook(lambda delta: on_delta(at[layer], held, delta))
        return output

    constants = {name: p.detach() for name, p in model.named_parameters()}
    with after_each(at, watch):
        logits = class_logits(call_with(model, constants, batch))
    for site in sites:
        if not fits(site.layer, calls[site.layer], len(batch)):
            names = ", ".join(site.parameters.values())
            raise Irregular(f"the layer of {names} did not run once over all {len(batch)} examples of a batch")
    return logits, leaves
