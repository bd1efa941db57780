"""BatchNorm in other ways: leaving the running statistics alone, or over the batches of several processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode


@contextmanager
def statistics_kept(net: nn.Module) -> Iterator[None]:
    """Inside, BatchNorm in train mode normalises by the batch and does not update its running statistics."""
    layers = [m for m in net.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    for layer in layers:
        layer.track_running_stats = False
    try:
        yield
    finally:
        for layer in layers:
            layer.track_running_stats = True


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
    *,
    total: Callable[[Tensor], Tensor],
    world: int,
) -> Tensor:
    """What F.batch_norm in train mode returns for x (n, C, ...), with the statistics of `world` such batches.

    `total` sums a vector (C,) over the batches, and lets gradients through. The running statistics, where given, move.
    """
    axes, column = [0, *range(2, x.ndim)], (-1, *(1 for _ in x.shape[2:]))
    n = world * (x.numel() // x.shape[1])
    wide = x if x.dtype == torch.float64 else x.float()
    # float64 sums, as torch's own has them; and squares of deviations, because a difference of squares loses the digits.
    mean = total(wide.sum(axes, dtype=torch.float64)) / n
    centred = wide - mean.to(wide.dtype).view(column)
    var = total(centred.square().sum(axes, dtype=torch.float64)) / n
    out = centred * (var + eps).rsqrt().to(wide.dtype).view(column)
    if weight is not None:
        out = out * weight.view(column)
    if bias is not None:
        out = out + bias.view(column)
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((var * (n / (n - 1))).to(running_var.dtype), momentum)
    return out.to(x.dtype)


class Normalised(TorchFunctionMode):
    """Inside, every F.batch_norm in train mode is `norm(x, running_mean, running_var, weight, bias, momentum, eps)`.

    No layer is replaced: a network, its copies and layers with a BatchNorm inside are what they were, whatever happens.
    """

    def __init__(self, norm: Callable[..., Tensor]) -> None:
        super().__init__()
        self.norm = norm

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        given = kwargs or {}
        if func is F.batch_norm and given["training"]:
            return self.norm(*args, given["weight"], given["bias"], given["momentum"], given["eps"])
        return func(*args, **given)
