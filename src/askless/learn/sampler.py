"""Endless streams of positions: fresh permutations, one after the other."""

import torch
from torch import Tensor


class Shuffled:
    """Batches of any size from `items` (n,): every item once before any comes again.

    Works for fewer items than a batch holds: then a batch spans several permutations.
    """

    def __init__(self, items: Tensor, generator: torch.Generator) -> None:
        if len(items) == 0:
            raise ValueError("expected at least one item to draw from, got none")
        self.items, self.generator = items, generator
        self.left = items[:0]

    def take(self, size: int) -> Tensor:
        while len(self.left) < size:
            order = torch.randperm(len(self.items), generator=self.generator)
            self.left = torch.cat([self.left, self.items[order]])
        batch, self.left = self.left[:size], self.left[size:]
        return batch

    def state_dict(self) -> dict[str, Tensor]:
        return {"left": self.left.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.left = state["left"].clone()
        self.generator.set_state(state["generator"])
