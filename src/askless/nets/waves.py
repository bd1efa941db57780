"""Curved borders for vectors of a few measured numbers, with nothing but a linear layer to train."""

from math import pi, prod
from typing import Any

import torch
from torch import Tensor, nn

from askless.base.options import Count, check_annotated
from askless.linalg.scale import divisor
from askless.nets.checks import Net, input_shape

SQ_LENGTH = 1000.0  # mean squared length of the features, so that the learners' default learning rate suits them
SOME = 1000  # rows that distances are measured on


class Waves(Net):
    """A linear head on the input and on `waves` random cosines of it (Rahimi & Recht, NeurIPS 2007), both of one length.

    The cosines turn over about half the distance between two items, which `measure` takes from rows of the pool; until then
    inputs are taken to be around 0 and about that far apart.

    `shape`: of one input, (d,). `classes`: how many outputs.

    >>> al.nets.make("waves", shape=(2,), classes=3)(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    middle: Tensor
    reach: Tensor
    directions: Tensor
    phases: Tensor

    def __init__(self, shape: Any, classes: int, *, waves: Count = 192) -> None:
        super().__init__()
        check_annotated("waves", Waves.__init__, locals())
        d = prod(input_shape("waves", shape))
        self.register_buffer("middle", torch.zeros(d))
        self.register_buffer("reach", torch.ones(()))
        self.register_buffer("directions", torch.randn(d, waves))
        self.register_buffer("phases", 2 * pi * torch.rand(waves))
        self.head = nn.Linear(d + waves, classes)

    @torch.no_grad()
    def measure(self, rows: Tensor) -> None:
        """Sets middle and reach by the rows (n, d) of a pool."""
        rows = rows.flatten(1).float()
        self.middle.copy_(rows.mean(dim=0))
        few = rows[torch.linspace(0, len(rows) - 1, min(SOME, len(rows))).long()]
        unit = divisor(few)
        self.reach.fill_(unit * float(torch.pdist(few / unit).median() / 2) or 1.0 if len(few) > 1 else 1.0)

    def features(self, x: Tensor) -> Tensor:
        z = (x.flatten(1) - self.middle) / self.reach
        cosines = torch.cos(z @ self.directions + self.phases) * (2 / self.phases.numel()) ** 0.5
        return (SQ_LENGTH / 2) ** 0.5 * torch.cat([z / 2**0.5, cosines], dim=1)
