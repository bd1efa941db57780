"""Looking at a network without disturbing it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from askless.base.errors import ModelError


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every submodule's flag, the buffers and all that is global are as before.

    The flags are set one by one: `model.eval()` may be overridden to do more (merge weights, say), and a model may
    hold a mixture of flags that `model.train()` would flatten.
    """
    _refuse_batch_statistics(model)
    flags = [(module, module.training) for module in model.modules()]
    cuda = list({p.device for p in model.parameters() if p.device.type == "cuda"})
    fast_attention = torch.backends.mha.get_fastpath_enabled()
    # The fused attention route skips submodules and therefore their hooks.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        for module, _ in flags:
            module.training = False
        with torch.random.fork_rng(devices=cuda), _keeping_buffers(model):
            yield
    finally:
        for module, flag in flags:
            module.training = flag
        torch.backends.mha.set_fastpath_enabled(fast_attention)


@contextmanager
def differentiating(model: nn.Module) -> Iterator[None]:
    """`evaluating`, with gradients on and attention written out, since the fused kernels lack vmap and forward mode."""
    with evaluating(model), torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        yield


@contextmanager
def after_each(layers: Iterable[nn.Module], hook: Callable[..., Any], first: bool = True) -> Iterator[None]:
    """Inside, `hook(layer, args, kwargs, output)` runs after every run of one of the layers, before other hooks of theirs
    or, without `first`, after them."""
    handles = [layer.register_forward_hook(hook, with_kwargs=True, prepend=first) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def layer_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The one input of a layer, given by position or by name."""
    return args[0] if args else kwargs["input"]


def call_with(model: nn.Module, tensors: Mapping[str, Tensor], batch: Tensor) -> Any:
    """model(batch), with other tensors for the parameters and buffers of these names, wherever in the model they are.

    torch would tie the names of shared tensors itself, but a module that has two names is then exchanged twice, and what
    torch puts back is the first exchange: the model would keep a constant in place of its parameter.
    """
    own = (*model.named_parameters(), *model.named_buffers())
    other = {tensor: tensors[name] for name, tensor in own if name in tensors}
    places = {
        f"{prefix}.{local}" if prefix else local: other[tensor]
        for prefix, module in model.named_modules()  # each module once, by its first name
        for local, tensor in (*module._parameters.items(), *module._buffers.items())
        if tensor is not None and tensor in other
    }
    return functional_call(model, places, (batch,), tie_weights=False)


@contextmanager
def _keeping_buffers(model: nn.Module) -> Iterator[None]:
    """Buffers that a forward pass writes to (a counter, a running mean of its own) get their values back.

    Written in place or replaced, told by value: a write through `.data` leaves no trace in the version. One that was
    replaced by another shape stays, a cache that grew: the model may have noted elsewhere how far it reaches.
    """
    kept = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and not is_lazy(buffer) and buffer.layout == torch.strided
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, value in kept:
                now = module._buffers.get(name)
                if now is not None and now is not buffer and now.shape == value.shape:
                    module._buffers[name] = buffer
                if buffer.shape == value.shape and not torch.equal(buffer, value):
                    buffer.copy_(value)


def _refuse_batch_statistics(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.running_mean is None:
            raise ModelError(
                f"expected batch norm with running statistics, got layer {name!r} with track_running_stats=False: "
                "an example's output then depends on its batch; use track_running_stats=True, GroupNorm or LayerNorm"
            )
