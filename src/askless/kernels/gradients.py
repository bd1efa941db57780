"""Numbers about each example's gradient over the whole network, without the gradients."""

from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor, nn
from typing_extensions import NamedTuple  # typing's is not generic before Python 3.11

from askless.base.errors import InputError
from askless.kernels.evaluation import differentiating
from askless.kernels.inputs import Examples, batches, count, place_of, some
from askless.kernels.logits import as_labels, class_logits, cross_entropy, every_class, known
from askless.kernels.reference import trainable
from askless.kernels.route import choose_route, sums_by_batch

Dot = TypeVar("Dot", Tensor, None)


class GradientStats(NamedTuple, Generic[Dot]):
    """Per example, float64.

    `sq` (N,): the squared length of each gradient. `dot` (N,): its product with g_S; None where nothing was given to
    compare with.

    >>> net, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> found = al.kernels.gradient_stats(net, x)
    >>> found.sq.shape, found.dot
    (torch.Size([4]), None)
    """

    sq: Tensor  # (N,)  ||g_u||^2
    dot: Dot  # (N,)  g_u . g_S, or None without `against`


@overload
def gradient_stats(
    model: nn.Module, x: Examples, labels: Any = None, against: None = None, *, batch_size: int = 128
) -> GradientStats[None]: ...


@overload
def gradient_stats(
    model: nn.Module, x: Examples, labels: Any = None, *, against: tuple[Examples, Any], batch_size: int = 128
) -> GradientStats[Tensor]: ...


@overload
def gradient_stats(
    model: nn.Module, x: Examples, labels: Any, against: tuple[Examples, Any], *, batch_size: int = 128
) -> GradientStats[Tensor]: ...


def gradient_stats(
    model: nn.Module,
    x: Examples,
    labels: Any = None,
    against: tuple[Examples, Any] | None = None,
    *,
    batch_size: int = 128,
) -> GradientStats[Any]:
    r"""$||g_u||^2$ and $g_u \cdot g_S$ for every example u of `x`, as dynamicAL needs them.

    $g_u = \nabla CE(f(x_u), y_u)$ over all trainable parameters, y_u from `labels` (N,) or else argmax f(x_u);
    $g_S = \sum_{s \in S} g_s$ for `against` = (xs, ys), ys None for pseudo labels. So G(S) = ||g_S||^2 is the sum of
    `dot` over u in S. An empty S gives zeros.

    The cost is about one forward and one backward pass. Layers without a rule (see `survey`), such as attention, add
    the cost of whole gradients of their parameters; so do all layers of a network that sends examples through different
    layers or changes their order.

    >>> net = nn.Linear(1, 2)
    >>> _ = net.weight.data.zero_(), net.bias.data.zero_()          # p = (1/2, 1/2), so |p - e_y|^2 = 1/2
    >>> x = torch.tensor([[1.0], [2.0]])
    >>> gradient_stats(net, x, [0, 1], against=(x, [0, 1]))         # |p - e_y|^2 (x^2 + 1); g_1 . g_2 = -(1 2 + 1) / 2
    GradientStats(sq=tensor([1.0000, 2.5000], dtype=torch.float64), dot=tensor([-0.5000,  1.0000], dtype=torch.float64))
    """
    n = some(x)
    if against is not None and not (isinstance(against, tuple | list) and len(against) == 2):
        raise InputError(f"expected against=(xs, ys), got {type(against).__name__}; pass ys=None for pseudo labels")
    with differentiating(model):
        route = choose_route(model, x)
        y = None if labels is None else as_labels(labels, n, route.classes)
        along = None if against is None else gradient_sum(model, *against, classes=route.classes, batch_size=batch_size)
        pieces = enumerate(batches(x, batch_size, place_of(model)))
        labelled = ((batch, known(y, i * batch_size, len(batch))) for i, batch in pieces)
        parts = list(sums_by_batch(model, route, labelled, along))
    sq = torch.cat([part.sq[:, 0] for part in parts]).cpu()
    dot = None if along is None else torch.cat([part.dot[:, 0] for part in parts if part.dot is not None]).cpu()
    return GradientStats(sq, dot)


def gradient_sq_by_class(model: nn.Module, x: Examples, *, batch_size: int = 128) -> Tensor:
    r"""$||\nabla CE(f(x), y)||^2$ over all trainable parameters for every possible label y, (N, C) float64.

    One forward and C backward passes; EGL over all layers is the sum over y of p_y times the root.

    >>> net, x = torch.nn.Linear(2, 3), torch.ones(4, 2)
    >>> al.kernels.gradient_sq_by_class(net, x).shape
    torch.Size([4, 3])
    """
    some(x)
    with differentiating(model):
        route = choose_route(model, x)
        labelled = ((batch, every_class) for batch in batches(x, batch_size, place_of(model)))
        parts = [sums.sq for sums in sums_by_batch(model, route, labelled, None)]
    return torch.cat(parts).cpu()


def gradient_sum(model: nn.Module, xs: Examples, ys: Any, *, classes: int, batch_size: int) -> dict[str, Tensor]:
    """g_S by parameter name, by plain autograd batch by batch, summed in float64, in the parameter's dtype."""
    y = None if ys is None else as_labels(ys, count(xs), classes)
    parameters = trainable(model)
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    for i, batch in enumerate(batches(xs, batch_size, place_of(model))):
        logits = class_logits(model(batch))
        if not logits.requires_grad:  # the model cut itself off
            continue
        labels = known(y, i * batch_size, len(batch))(logits.detach())[:, 0]
        grads = torch.autograd.grad(
            cross_entropy(logits, labels), list(parameters.values()), allow_unused=True, materialize_grads=True
        )
        for name, g in zip(parameters, grads, strict=True):
            total[name] += g
        del grads, logits  # before the next batch, and before the sums are copied
    return {name: total.pop(name).to(p.dtype) for name, p in parameters.items()}
