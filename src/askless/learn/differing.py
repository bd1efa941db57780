"""Whether two views of an item ever differ: where they do not, the unlabelled items teach nothing."""

from typing import Literal

import torch
from torch import Tensor, nn

from askless.errors import InputError
from askless.learn.batchnorm import statistics_kept
from askless.learn.material import Views

ITEMS = 16  # that are looked at


def check_differing(learner: str, net: nn.Module, views: Views, size: int, second: Literal["weak", "strong"]) -> None:
    """Refuses a training whose loss compares a weak view with the `second` one of the same item, if the two are equal for
    items spread over the pool and the network sees the same input alike every time. The loss would then be 0, or push
    every prediction towards itself."""
    at = torch.linspace(0, size - 1, min(ITEMS, size)).long()
    generator = torch.Generator().manual_seed(0)
    x, again = views.weak(at, generator), getattr(views, second)(at, generator)
    if torch.equal(x, again) and not passes_differ(net, x):
        other = "two weak views" if second == "weak" else "the weak and the strong view"
        raise InputError(
            f"{learner} needs views that differ: {other} of an item are equal here, so that the unlabelled items would "
            "teach nothing; use views with noise (PlainViews), a network with dropout, more views of a frozen backbone "
            "(Frozen(weak=2, strong=2)), or another learner (Supervised, LabelPropagation)"
        )


@torch.no_grad()
def passes_differ(net: nn.Module, x: Tensor) -> bool:
    """Whether the network in train mode gives other outputs when it sees x (n, ...) again, as with dropout."""
    parameter = next(net.parameters())
    twice = torch.cat([x, x]).to(parameter.device)  # BatchNorm refuses a single item
    was = net.training
    with torch.random.fork_rng(devices=[]), statistics_kept(net):
        net.train()
        first, second = net(twice), net(twice)
    net.train(was)
    return not torch.equal(first, second)
