"""Random projections of gradients, by forward mode: features whose inner product is close to the kernel."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from math import ceil, sqrt
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import jvp

from askless.base.errors import InputError, ModelError, first_line
from askless.base.options import check_count
from askless.base.rng import Seed, stream, torch_stream
from askless.kernels import reference
from askless.kernels.evaluation import after_each, call_with, differentiating, layer_input
from askless.kernels.inputs import Examples, batches, place_of, rows, some
from askless.kernels.logits import as_labels, class_logits, count_classes, known
from askless.kernels.reference import tolerance, trainable

Parameters = dict[str, Tensor]


def gradient_features(
    model: nn.Module,
    x: Examples,
    dim: int = 512,
    *,
    seed: Seed = 0,
    of: Literal["logits", "loss"] = "logits",
    labels: Any = None,
    batch_size: int = 256,
) -> Tensor:
    r"""z(x) with $E\langle z(x), z(x') \rangle$ the gradients' inner product over all trainable parameters.

    "logits": $z(x) = [J(x) v_1; \ldots; J(x) v_k] / \sqrt k$, J the (C, P) Jacobian, v_j ~ N(0, I), k = ceil(dim / C);
    (N, k C), the inner product estimates the trace kernel of `ntk(layers="all")`. "loss": $z_j(x) = g \cdot v_j /
    \sqrt{dim}$ with g the gradient of the cross entropy at `labels`, or at the pseudo label; (N, dim), estimates
    $g \cdot g'$. The relative error falls as 1 / sqrt(number of directions).

    The directions are drawn again from the seed for each batch, one at a time, so memory is that of one forward pass
    and two more copies of the parameters. Time: one forward-mode pass per direction, each about 3 forward passes.

    >>> net, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> al.kernels.gradient_features(net, x, dim=30).shape
    torch.Size([4, 30])
    """
    n = some(x)
    check_count("gradient_features", "dim", dim)
    if of not in ("logits", "loss"):
        raise InputError(f'of must be "logits" or "loss", got {of!r}')
    if of == "logits" and labels is not None:
        raise InputError('expected labels only with of="loss", got labels with of="logits"; drop them')
    start = int(stream(seed, "projection").integers(2**62))  # once: a generator advances
    place = place_of(model)
    with differentiating(model), padding_constant(model):
        C = check_forward_mode(model, rows(x, 0, min(2, n), place))
        y = None if labels is None else as_labels(labels, n, C)
        k = ceil(dim / C) if of == "logits" else dim
        parts = []
        for i, batch in enumerate(batches(x, batch_size, place)):
            f = _logits(model, batch) if of == "logits" else _losses(model, batch, y, i * batch_size)
            parts.append(_project(model, f, k, start))
    return torch.cat(parts)


def direction(parameters: Parameters, seed: int, j: int) -> Parameters:
    """v_j ~ N(0, I) in the shape of the parameters; drawn on the CPU, so that every device sees the same."""
    generator = torch_stream(seed, f"direction {j}")
    return {
        name: torch.randn(p.shape, generator=generator, dtype=p.dtype).to(p.device) for name, p in parameters.items()
    }


def padding_constant(model: nn.Module) -> AbstractContextManager[None]:
    """Inside, the padding word of an embedding does not move: backward mode leaves it out, forward mode would not."""

    def hold(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor:
        padding = layer_input(args, kwargs) == layer.padding_idx
        return torch.where(padding[..., None], output.detach(), output)

    padded = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.padding_idx is not None]
    return after_each(padded, hold)


def check_forward_mode(model: nn.Module, first: Tensor) -> int:
    """The number of classes, once J v of a weighted sum of logits is g . v of backward mode for these few examples."""
    C = count_classes(model, first)  # what is wrong with the model itself comes out here
    parameters = trainable(model)
    v = direction(dict(parameters), 0, 0)
    advice = 'use ntk(layers="all") or gradient_stats, which need only backward mode'
    try:
        Jv = forward_mode(model, _logits(model, first), v)  # (n, C)
    except RuntimeError as error:
        raise ModelError(
            f"expected a model that torch can differentiate in forward mode, got: {first_line(error)}; {advice}"
        ) from error
    w = torch.linspace(1, 2, C, dtype=Jv.dtype, device=Jv.device)
    g = reference.gradients(model, parameters, lambda f, _: f @ w, first, first)  # (n, P)
    off = Jv @ w - g @ torch.cat([piece.flatten() for piece in v.values()])
    if not bool((off.abs() <= tolerance(model, Jv) * g.norm(dim=1)).all()):
        raise ModelError(f"expected forward and backward mode to agree on the model, they differ; {advice}")
    return C


def forward_mode(model: nn.Module, f: Callable[[Parameters], Tensor], v: Parameters) -> Tensor:
    """J v, J the Jacobian of f at the model's parameters; in the shape of f."""
    parameters = {name: p.detach() for name, p in trainable(model).items()}
    return jvp(f, (parameters,), (v,))[1].detach()


def _project(model: nn.Module, f: Callable[[Parameters], Tensor], k: int, seed: int) -> Tensor:
    """[J v_1, ..., J v_k] / sqrt(k), J the Jacobian of f (n,) or (n, C) -> (n, k) or (n, k*C)."""
    parameters: Parameters = dict(trainable(model))
    columns = [forward_mode(model, f, direction(parameters, seed, j)).cpu() for j in range(k)]
    return torch.stack(columns, dim=1).flatten(1) / sqrt(k)


def _logits(model: nn.Module, batch: Tensor) -> Callable[[Parameters], Tensor]:
    def logits(parameters: Parameters) -> Tensor:
        buffers = {name: b.clone() for name, b in model.named_buffers()}  # made in here, forward mode lets them change
        return class_logits(call_with(model, {**buffers, **parameters}, batch))

    return logits


def _losses(model: nn.Module, batch: Tensor, y: Tensor | None, start: int) -> Callable[[Parameters], Tensor]:
    def losses(parameters: Parameters) -> Tensor:
        logits = _logits(model, batch)(parameters)
        label = known(y, start, len(batch))(logits.detach())[:, 0]
        return F.cross_entropy(logits, label, reduction="none")

    return losses
