"""Whole gradients, one row per example: exact for every network, at the memory of examples x parameters."""

import logging
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from askless.base.errors import first_line
from askless.kernels import reference
from askless.kernels.evaluation import call_with
from askless.kernels.logits import class_logits
from askless.kernels.reference import Objective, tolerance

logger = logging.getLogger(__name__)

GradientRows = Callable[[Tensor, Tensor], Tensor]  # batch (b, ...), labels (b,) -> (b, P)


def gradient_rows(
    model: nn.Module, parameters: Mapping[str, Tensor], objective: Objective, batch: Tensor, labels: Tensor
) -> GradientRows:
    """The function (batch, labels) -> rows grad objective(f(x_i), y_i), (b, P) in the model's dtype.

    It is vmap over grad where that agrees with plain autograd on the small `batch` given here, else a loop.
    """
    looped = partial(reference.gradients, model, parameters, objective)
    mapped = by_vmap(model, parameters, objective)
    try:
        trial = mapped(batch, labels)
    except Exception as error:  # vmap has no list of what it cannot do; a fault of the model itself rises in the loop
        logger.info("vmap cannot take this model (%s); looping over the examples", first_line(error))
        return looped
    exact = looped(batch, labels)
    if not bool((trial - exact).norm() <= tolerance(model, exact) * exact.norm()):
        logger.info("vmap disagrees with autograd on this model; looping over the examples")
        return looped
    return mapped


def by_vmap(model: nn.Module, parameters: Mapping[str, Tensor], objective: Objective) -> GradientRows:
    """All examples of the batch at once; the remaining parameters are constants."""
    constants = {name: p.detach() for name, p in model.named_parameters()}
    chosen = {name: constants[name] for name in parameters}

    def value(variables: dict[str, Tensor], x: Tensor, label: Tensor) -> Tensor:
        logits = class_logits(call_with(model, {**constants, **variables}, x[None]))
        return objective(logits[0], label)

    rows = vmap(grad(value), in_dims=(None, 0, 0))

    def compute(batch: Tensor, labels: Tensor) -> Tensor:
        grads = rows(chosen, batch, labels)
        return torch.cat([grads[name].detach().flatten(1) for name in chosen], dim=1)

    return compute
