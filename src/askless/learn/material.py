"""What a loss may draw from: labelled and unlabelled items in weak and strong views."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from askless.base import digest
from askless.base.rng import Seed, torch_stream
from askless.learn.learner import Task
from askless.learn.ranks import ALONE, Ranks

SAMPLE = 256  # items that tell one pool from another


class Material:
    """The labelled items, the whole pool (labelled items included, as FixMatch has it), and their views.

    All ranks draw the same positions and each keeps its part. A batch consists of `blocks` equal parts whose views are drawn
    from one generator each, so that it does not matter which process makes which block.
    """

    def __init__(self, task: Task, seed: Seed, device: torch.device, ranks: Ranks = ALONE, blocks: int = 1) -> None:
        self.views, self.size, self.device, self.ranks = task.views, task.size, device, ranks
        self.blocks = blocks
        self.mine = ranks.mine(torch.arange(blocks)).tolist()  # the blocks that are made here
        self.generators = [torch_stream(seed, f"views {block}" if block else "views") for block in self.mine]
        self._labelled = Shuffled(torch.from_numpy(task.labelled), torch_stream(seed, "labelled order"))
        self._pool = Shuffled(torch.arange(task.size), torch_stream(seed, "pool order"))
        self._label_of = torch.full((task.size,), -1, dtype=torch.int64)
        self._label_of[self._labelled.items] = torch.from_numpy(task.labels)

    def labelled(self, size: int) -> tuple[Tensor, Tensor]:
        """Views (size, ...) of labelled items, weak ones of images, and their labels (size,): this rank's part of W size."""
        items = self.ranks.mine(self._labelled.take(self.ranks.world * size))
        shown = getattr(self.views, "labelled", self.views.weak)
        return self._by_blocks(shown, items), self._label_of[items].to(self.device)

    def plain_labelled(self) -> Tensor:
        """Every labelled item as it is, in the order given."""
        return self.views.plain(self._labelled.items).to(self.device)

    def plain_labels(self) -> Tensor:
        """Their labels, in that order."""
        return self._label_of[self._labelled.items]

    def fingerprint(self) -> str:
        """A hash of items spread evenly over the pool and of labelled ones, which tells one pool from another; of a Dataset
        whose items are never the same twice, only their shape."""
        spread = torch.linspace(0, self.size - 1, min(SAMPLE, self.size)).long()
        items = torch.cat([spread, self._labelled.items[:SAMPLE]])
        first, again = (digest.of_tensors({"items": self.views.plain(items)}) for _ in range(2))
        return first if first == again else digest.of_text(self.views.plain(items[:1]).shape)

    def class_counts(self, classes: int) -> np.ndarray:
        """How many labelled items each class has, (classes,)."""
        return np.bincount(self.plain_labels().numpy(), minlength=classes).astype(np.float64)

    def unlabelled(self, size: int) -> Tensor:
        """Positions (size,) of items of the pool: this rank's part of W size positions."""
        return self.ranks.mine(self._pool.take(self.ranks.world * size))

    def weak(self, items: Tensor) -> Tensor:
        return self._by_blocks(self.views.weak, items)

    def strong(self, items: Tensor) -> Tensor:
        return self._by_blocks(self.views.strong, items)

    def _by_blocks(self, view: Callable[[Tensor, torch.Generator], Tensor], items: Tensor) -> Tensor:
        parts = items.tensor_split(len(self.generators))
        return torch.cat([view(part, g) for part, g in zip(parts, self.generators, strict=True)]).to(self.device)

    def state_dict(self) -> dict[str, object]:
        return {
            "generator": self.ranks.gather(torch.stack([g.get_state() for g in self.generators])),  # (blocks, state)
            "labelled": self._labelled.state_dict(),
            "pool": self._pool.state_dict(),
        }

    def load_state_dict(self, state: dict) -> None:
        saved = torch.atleast_2d(state["generator"])
        for block, generator in zip(self.mine, self.generators, strict=True):
            generator.set_state(saved[block].clone())  # torch crashes on a part of a tensor
        self._labelled.load_state_dict(state["labelled"])
        self._pool.load_state_dict(state["pool"])


class Shuffled:
    """Batches of any size from `items` (n,): every item once before any comes again.

    Works for fewer items than a batch holds: then a batch spans several permutations.
    """

    def __init__(self, items: Tensor, generator: torch.Generator) -> None:
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
