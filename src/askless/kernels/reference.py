"""Gradients of single examples by plain autograd: slow and obviously right.

The fast routes are tested against these, check themselves against them on a few examples of each call, and fall
back to them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from askless.base.errors import ModelError
from askless.kernels.evaluation import differentiating
from askless.kernels.inputs import Examples, place_of, rows, some
from askless.kernels.logits import as_labels, class_logits, count_classes, cross_entropy, logits_of, one_logit

Objective = Callable[[Tensor, Tensor], Tensor]  # logits (C,), label () -> ()


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that gradients are taken of, each once, in the order of all P-vectors here."""
    chosen = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not chosen:
        raise ModelError("expected a model with trainable parameters, got none; set requires_grad on some of them")
    return chosen


def gradient_by_name(
    model: nn.Module, parameters: Mapping[str, Tensor], objective: Objective, x: Tensor, label: Tensor
) -> dict[str, Tensor]:
    """grad of objective(f(x), label) by parameter, for one example x without batch axis."""
    value = objective(class_logits(model(x[None]))[0], label)
    tensors = list(parameters.values())
    if not value.requires_grad:
        grads = [torch.zeros_like(p) for p in tensors]
    else:
        grads = list(torch.autograd.grad(value, tensors, allow_unused=True, materialize_grads=True))
    return {name: g.detach() for name, g in zip(parameters, grads, strict=True)}


def gradients(
    model: nn.Module, parameters: Mapping[str, Tensor], objective: Objective, batch: Tensor, labels: Tensor
) -> Tensor:
    """The same as one row for every example of a batch, one after the other, (b, P)."""
    each = (gradient_by_name(model, parameters, objective, x, y) for x, y in zip(batch, labels, strict=True))
    return torch.stack([torch.cat([g.flatten() for g in by_name.values()]) for by_name in each])


def jacobian(model: nn.Module, x: Examples) -> Tensor:
    """grad f_c(x_i) over all trainable parameters, (n, C, P), one backward pass for every logit of every example.

    >>> net, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> al.kernels.jacobian(net, x).shape
    torch.Size([4, 3, 9])
    """
    with differentiating(model):
        batch = rows(x, 0, some(x), place_of(model))
        C = count_classes(model, batch)
        parameters = trainable(model)
        labels = torch.arange(C, device=batch.device).expand(len(batch), C)
        J = [gradients(model, parameters, one_logit, batch, labels[:, c]) for c in range(C)]
    return torch.stack(J, dim=1).cpu()


def loss_gradients(model: nn.Module, x: Examples, labels: Any = None) -> Tensor:
    """grad CE(f(x_i), y_i) over all trainable parameters, (n, P); y_i = argmax f(x_i) where labels is None.

    >>> net, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> al.kernels.loss_gradients(net, x, torch.tensor([0, 1, 2, 0])).shape
    torch.Size([4, 9])
    """
    with differentiating(model):
        batch = rows(x, 0, some(x), place_of(model))
        logits = logits_of(model, batch)
        y = logits.argmax(1) if labels is None else as_labels(labels, *logits.shape).to(batch.device)
        return gradients(model, trainable(model), cross_entropy, batch, y).cpu()


def tolerance(model: nn.Module, output: Tensor) -> float:
    """How far, relatively, a fast route may be from the reference and still be trusted: as the coarsest dtype says.

    The output alone does not tell: a bfloat16 network may end in .float().
    """
    dtypes = {t.dtype for t in (*model.parameters(), output) if t.is_floating_point()}
    return max({torch.float64: 1e-6, torch.float32: 1e-3}.get(dtype, 5e-2) for dtype in dtypes)
