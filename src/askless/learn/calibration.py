"""BatchNorm statistics of a pool, for a network that has not been trained yet."""

import copy
from typing import TypeGuard

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from askless.data import Views


@torch.no_grad()
def calibrated(net: nn.Module, views: Views, size: int, items: int = 1024, batch: int = 128) -> nn.Module:
    """A copy whose BatchNorm layers that have seen no data yet have the statistics of up to `items` items, spread over a
    pool of `size`; the network itself where it has no such layer.

    Each layer gets the mean over batches of what it would normalise by in training; dropout is off.
    """
    if not any(unseen(layer) for layer in net.modules()):
        return net
    net = copy.deepcopy(net).eval()
    layers = {m: m.momentum for m in net.modules() if unseen(m)}
    for layer in layers:
        layer.momentum = None  # the plain mean over batches
        layer.train()
    at = torch.from_numpy(np.linspace(0, size - 1, min(items, size), dtype=np.int64))
    device, k = next(net.parameters()).device, -(-len(at) // batch)
    for i in range(k):  # every k-th one: a pool may be sorted by class
        x = views.plain(at[i::k]).to(device)
        net(x if len(x) > 1 else torch.cat([x, x]))  # a single item has no variance
    for layer, momentum in layers.items():
        layer.momentum = momentum
    return net.eval()


def unseen(layer: nn.Module) -> TypeGuard[_BatchNorm]:
    """Whether it is a BatchNorm layer whose running statistics are those it was made with."""
    if not isinstance(layer, _BatchNorm) or layer.running_mean is None or layer.running_var is None:
        return False
    return not layer.running_mean.any() and bool((layer.running_var == 1).all())
