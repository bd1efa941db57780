"""An exponential moving average of a network's parameters."""

import copy

import torch
from torch import nn


class Average:
    """`model`: parameters averaged with decay, buffers (BatchNorm's statistics) copied from the live network.

    It starts as a copy. With `warm_up` the decay of step t is at most (1 + t) / (10 + t), so that a short training is not
    averaged with its random start; from some thousand steps on that is no different.
    """

    def __init__(self, net: nn.Module, decay: float, warm_up: bool = True) -> None:
        self.decay, self.warm_up = decay, warm_up
        self.model = copy.deepcopy(net).requires_grad_(False)

    def decay_at(self, step: int) -> float:
        return min(self.decay, (1 + step) / (10 + step)) if self.warm_up else self.decay

    @torch.no_grad()
    def update(self, net: nn.Module, step: int) -> None:
        """average <- decay * average + (1 - decay) * parameters, after the step numbered `step` (from 0)."""
        averages = [p.detach() for p in self.model.parameters()]
        live = [p.detach() for p in net.parameters()]
        torch._foreach_lerp_(averages, live, 1 - self.decay_at(step))
        for mine, theirs in zip(self.model.buffers(), net.buffers(), strict=True):
            mine.copy_(theirs)
