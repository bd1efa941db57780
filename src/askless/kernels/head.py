"""The head: the last linear layer, whose input is the feature vector."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from askless.base.errors import ModelError
from askless.kernels.evaluation import after_each, evaluating, layer_input
from askless.kernels.inputs import Examples, place_of, rows, some
from askless.kernels.logits import described, output_of


class Call(NamedTuple):
    """One run of a layer."""

    name: str
    input: Tensor
    output: Tensor


def find_head(model: nn.Module, x: Examples, head: str | nn.Module | None = None) -> tuple[str, nn.Linear]:
    """Name and module of the linear layer whose output is the model's output.

    It is found in one forward pass of two examples of `x`: the last linear layer to run whose output equals the
    model's, up to a reshape. Where that fails, as in a model that ends in a softmax, pass `head`, a module's name or
    the module itself.

    >>> net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> find_head(net, torch.zeros(5, 4))
    ('2', Linear(in_features=3, out_features=2, bias=True))
    """
    probe = rows(x, 0, min(2, some(x)), place_of(model))
    with evaluating(model), torch.no_grad(), listening(model) as calls:
        output = output_of(model, probe)
    call = _last_call(model, probe, calls, output) if head is None else _call_of(named(model, head), calls)
    _check_call(call, calls, len(probe))
    return call.name, linear_layers(model)[call.name]


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers by name; a model that is itself one has the empty name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def named(model: nn.Module, head: str | nn.Module) -> str:
    """The name of the linear layer that `head` names or is."""
    linears = linear_layers(model)
    if isinstance(head, str):
        if head not in linears:
            raise ModelError(f"expected head to name a linear layer, got {head!r}; available: {_listed(linears)}")
        return head
    for name, module in linears.items():
        if module is head:
            return name
    raise ModelError(
        f"expected head to be a linear layer of this model, got {type(head).__name__}; available: {_listed(linears)}"
    )


@contextmanager
def listening(model: nn.Module, only: nn.Linear | None = None, kinds: Any = nn.Linear) -> Iterator[list[Call]]:
    """The calls of the layers of these kinds (or of one) made inside, in order, copied to the CPU: they may change in
    place."""
    calls: list[Call] = []
    names = {layer: name for name, layer in model.named_modules() if isinstance(layer, kinds) and only in (None, layer)}

    def note(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> None:
        calls.append(Call(names[layer], _copy(layer_input(args, kwargs)), _copy(output)))

    with after_each(names, note, first=False):
        yield calls


def _last_call(model: nn.Module, probe: Tensor, calls: list[Call], output: Any) -> Call:
    for call in reversed(calls):
        if isinstance(output, Tensor) and _same(call.output, output):
            return call
    convolution = _last_convolution(model, probe, output)
    if convolution is not None:
        raise ModelError(
            f"expected the model to end in a linear layer, got the convolution {convolution!r} in its place; if it is 1 x 1,"
            " pool and flatten before it and use nn.Linear with its weights, weight.flatten(1): the same function"
        )
    # Where some of the layers saw one vector per example, no other one can be the head.
    of_vectors = [call.name for call in calls if call.input.ndim == 2 and len(call.input) == len(probe)]
    ran = of_vectors or [call.name for call in calls]
    if not isinstance(output, Tensor):
        got = described(output)
    else:
        got = f"a tensor of shape {tuple(output.shape)} that no linear layer returned (a softmax or scaling after it?)"
    raise ModelError(
        f"expected the model to return the output of a linear layer, got {got}; "
        f'pass head="name", one of the linear layers that ran: {_listed(ran)}'
    )


def _last_convolution(model: nn.Module, probe: Tensor, output: Any) -> str | None:
    """The convolution whose output, or its mean over all places, is the model's output."""
    if not isinstance(output, Tensor):
        return None
    with evaluating(model), torch.no_grad(), listening(model, kinds=nn.Conv1d | nn.Conv2d | nn.Conv3d) as calls:
        model(probe)
    for name, _, out in reversed(calls):
        means = out.flatten(2).mean(dim=2) if out.ndim > 2 else out
        if _same(out, output) or (means.shape == output.shape and torch.allclose(means, output.cpu(), atol=1e-6)):
            return name
    return None


def _call_of(name: str, calls: list[Call]) -> Call:
    for call in reversed(calls):
        if call.name == name:
            return call
    ran = [call.name for call in calls]
    raise ModelError(f"expected layer {name!r} to run in a forward pass, it did not; those that ran: {_listed(ran)}")


def _check_call(call: Call, calls: list[Call], n: int) -> None:
    times = sum(other.name == call.name for other in calls)
    if times > 1:
        raise ModelError(f"expected the head {call.name!r} to run once, it ran {times} times; pass another head")
    if call.input.ndim != 2 or len(call.input) != n:
        raise ModelError(
            f"expected the head {call.name!r} to get one feature vector per example, shape ({n}, d), "
            f"got {tuple(call.input.shape)}; pool or flatten before it, or pass another head"
        )


def _same(a: Tensor, b: Tensor) -> bool:
    if a.numel() != b.numel() or not b.is_floating_point():
        return False
    cast = a.reshape(b.shape).to(b.dtype)  # the model may end in .float() or .half()
    return torch.allclose(cast, b.cpu(), rtol=0, atol=0, equal_nan=True)


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(names)) or "none"
