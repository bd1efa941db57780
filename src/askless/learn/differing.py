"""Whether two views of an item ever differ: where they do not, the unlabelled items teach nothing."""

import copy
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from askless.base.errors import InputError
from askless.data import Views

ITEMS, DRAWS = 16, 8  # that are looked at, and how often


def check_differing(learner: str, net: nn.Module, views: Views, size: int, second: Literal["weak", "strong"]) -> None:
    """Refuses a training whose loss compares a weak view with the `second` one of the same item, if the two are always
    equal for items spread over the pool and the network sees the same input alike every time. The loss would then be 0, or
    push every prediction towards itself."""
    at = torch.from_numpy(np.linspace(0, size - 1, min(ITEMS, size), dtype=np.int64))
    generator = torch.Generator().manual_seed(0)
    for _ in range(DRAWS):
        x = views.weak(at, generator)
        if not torch.equal(x, getattr(views, second)(at, generator)):
            return
    if not passes_differ(net, x):
        other = "two weak views" if second == "weak" else "the weak and the strong view"
        raise InputError(
            f"{learner} needs views that differ: {other} of an item are equal here, so unlabelled items would "
            "teach nothing; use views with noise (PlainViews), a network with dropout, more views of a frozen backbone "
            "(Frozen(weak=2, strong=2)), or another learner (Supervised, LabelPropagation)"
        )


@torch.no_grad()
def passes_differ(net: nn.Module, x: Tensor) -> bool:
    """Whether the network in train mode gives other outputs when it sees x (n, ...) again, as with dropout."""
    net = copy.deepcopy(net).train()
    twice = torch.cat([x, x]).to(next(net.parameters()).device)  # BatchNorm refuses a single item
    with torch.random.fork_rng(devices=[]):
        return not torch.equal(net(twice), net(twice))
