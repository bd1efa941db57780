"""Passes that use the batch's statistics and leave the running ones alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


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
