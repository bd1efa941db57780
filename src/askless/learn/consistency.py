"""What Mean Teacher and the Pi-model share: a consistency loss with a weight that ramps up (Oliver et al., 2018)."""

import math
from collections.abc import Callable
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from askless.base.options import Between, Count, NotNegative, options
from askless.data import Views
from askless.learn.differing import check_differing
from askless.learn.material import Material
from askless.learn.schedule import Schedule
from askless.learn.training import Optimiser, Training


@options
class Consistency(Training):
    """Options of both: Adam, and `weight` reached by exp(-5 (1 - t)^2), t running from 0 to 1 over `ramp` of the steps."""

    weight: NotNegative = 8.0
    ramp: Annotated[float, Between(1e-9, 1)] = 0.4
    batch: Count = 50
    optimiser: Optimiser = "adam"
    weight_decay: NotNegative = 0.0
    schedule: Schedule = "drop"
    embedded_views = (2, 0)

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        check_differing(type(self).__name__, net, views, size, "weak")

    def weight_at(self, step: int) -> float:
        t = min(step / (self.ramp * self.horizon_steps), 1.0)
        return self.weight * math.exp(-5 * (1 - t) ** 2)


def consistency_loss(
    net: nn.Module, target_of: Callable[[Tensor], Tensor], material: Material, options: Consistency, step: int
) -> tuple[Tensor, dict[str, float]]:
    """mean over all 2 B items of: CE on the labelled ones, c(t) |softmax(f(u)) - softmax(target(u))|^2 / K on the others.

    `net` sees one weak view of B labelled and B other items, `target_of` another view of the same; no gradient flows
    through the target.
    """
    B = options.batch
    x, y = material.labelled(B)
    items = material.unlabelled(B)
    logits = net(torch.cat([x, material.weak(items)]))
    with torch.no_grad():
        target = target_of(torch.cat([x, material.weak(items)]))
    labelled = F.cross_entropy(logits[:B], y, reduction="sum") / (2 * B)
    squares = (logits[B:].softmax(dim=1) - target[B:].softmax(dim=1)).square().mean(dim=1)  # (B, K) -> (B,)
    unlabelled = squares.sum() / (2 * B)
    c = options.weight_at(step)
    numbers = {"labelled": labelled.item(), "unlabelled": unlabelled.item(), "consistency_weight": c}
    return labelled + c * unlabelled, numbers
