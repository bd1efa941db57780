"""The empirical neural tangent kernel, traced over the classes."""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from askless.base.errors import InputError
from askless.base.options import check_count
from askless.kernels.evaluation import differentiating
from askless.kernels.features import features
from askless.kernels.head import find_head
from askless.kernels.inputs import Examples, place_of, rows, some
from askless.kernels.logits import count_classes, one_logit
from askless.kernels.per_example import gradient_rows
from askless.kernels.reference import trainable

BLOCK = 2**14  # parameters that are turned to float64 at a time


def ntk(
    model: nn.Module,
    x: Examples,
    x2: Examples | None = None,
    *,
    layers: Literal["last", "all"] = "last",
    head: str | nn.Module | None = None,
    batch_size: int = 256,
    max_memory: int = 2**28,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    r"""Trace kernel $K(x, x') = \sum_c \nabla f_c(x) \cdot \nabla f_c(x')$, (n, n2) in float64; x2=None means x2=x.

    "last" takes the gradient over the head's weight and bias, where K = C (phi . phi' + 1), without the 1 if the head
    has no bias; `head` as in `find_head`. "all" takes it over every trainable parameter, exactly, from gradients of at
    most `max_memory` bytes at a time: with B bytes per gradient, about C n (1 + n B / (2 max_memory)) backward passes.
    `progress(done, total)` receives how many of the C outputs are done.

    >>> net = nn.Linear(2, 3)
    >>> ntk(net, torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
    tensor([[18.,  9.],
            [ 9.,  6.]], dtype=torch.float64)
    """
    if layers == "last":
        return last_layer_ntk(model, x, x2, head=head, batch_size=batch_size)
    if layers == "all":
        return all_layer_ntk(model, x, x2, max_memory=max_memory, progress=progress)
    raise InputError(f'layers must be "last" or "all", got {layers!r}')


def last_layer_ntk(
    model: nn.Module, x: Examples, x2: Examples | None, *, head: str | nn.Module | None, batch_size: int
) -> Tensor:
    """C (phi . phi' + 1): the gradient of f_c over W is phi in row c, over b it is e_c."""
    _, layer = find_head(model, x, head)
    Phi = features(model, x, head=layer, batch_size=batch_size).double()
    Phi2 = Phi if x2 is None else features(model, x2, head=layer, batch_size=batch_size).double()
    K = layer.out_features * (Phi @ Phi2.T + (0.0 if layer.bias is None else 1.0))
    return (K + K.T) / 2 if x2 is None else K


def all_layer_ntk(
    model: nn.Module,
    x: Examples,
    x2: Examples | None,
    *,
    max_memory: int,
    progress: Callable[[int, int], None] | None = None,
) -> Tensor:
    """sum_c G_c(x) G_c(x2)^T, G_c (n, P) the gradients of logit c.

    One logit at a time makes the tiles C times taller than whole Jacobians would, and gradients are computed again
    once per tile of rows: so the rows get most of the memory, and the columns pass by in small steps.
    """
    check_count("ntk", "max_memory", max_memory)
    place, parameters = place_of(model), trainable(model)
    room = max_memory // sum(p.numel() * p.element_size() for p in parameters.values())  # gradients
    step = max(1, min(64, room // 8))  # computed at a time
    tall = max(1, room - 2 * step)  # kept
    with differentiating(model):
        X = rows(x, 0, some(x), place)
        X2 = None if x2 is None else rows(x2, 0, some(x2), place)
        each = by_logit(model, parameters, X[:2])
        K = torch.zeros(len(X), len(X if X2 is None else X2), dtype=torch.float64)
        for c, G in enumerate(each):
            K += gram(G, X, X2, tall, step)
            if progress is not None:
                progress(c + 1, len(each))
    return K


def gram(G: Callable[[Tensor], Tensor], X: Tensor, X2: Tensor | None, tall: int, step: int) -> Tensor:
    """G(X) G(X2)^T, (n, n2) float64, from `tall` rows of G kept and `step` computed at a time; X2=None means X2=X."""
    columns = X if X2 is None else X2
    K = torch.zeros(len(X), len(columns), dtype=torch.float64)
    for i in range(0, len(X), tall):
        A = fill(G, X[i : i + tall], step)
        end, done = i + len(A), 0
        if X2 is None:  # the columns before these rows are the mirror of what is there
            K[i:end, i:end], done = inner(A, A), end
        for j in range(done, len(columns), step):
            part = columns[j : j + step]
            K[i:end, j : j + len(part)] = inner(A, G(part))
    return K.triu() + K.triu(1).T if X2 is None else K


def fill(G: Callable[[Tensor], Tensor], X: Tensor, step: int) -> Tensor:
    """G(X), without holding it twice."""
    A = torch.empty(0)
    for i in range(0, len(X), step):
        part = G(X[i : i + step])
        if i == 0:
            A = part.new_empty(len(X), part.shape[1])
        A[i : i + len(part)] = part
    return A


def by_logit(model: nn.Module, parameters: Mapping[str, Tensor], probe: Tensor) -> list[Callable[[Tensor], Tensor]]:
    """For each logit c the function X -> G_c(X), (n, P), by the way that is right for the examples of `probe`."""

    def all_of(c: int, X: Tensor) -> Tensor:
        return torch.full((len(X),), c, device=X.device)

    C = count_classes(model, probe)
    compute = gradient_rows(model, parameters, one_logit, probe, all_of(0, probe))
    return [lambda X, c=c: compute(X, all_of(c, X)) for c in range(C)]  # type: ignore[misc]


def inner(A: Tensor, B: Tensor) -> Tensor:
    """A B^T in float64, without a float64 copy of A or B. (a, P), (b, P) -> (a, b)."""
    K = torch.zeros(len(A), len(B), dtype=torch.float64, device=A.device)
    for a, b in zip(A.split(BLOCK, dim=1), B.split(BLOCK, dim=1), strict=True):
        K += a.double() @ b.double().T
    return K.cpu()
