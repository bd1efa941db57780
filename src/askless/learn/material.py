"""What a loss may draw from: labelled and unlabelled items in weak and strong views."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from askless.base import digest
from askless.base.rng import Seed, torch_stream
from askless.learn.ranks import ALONE, Ranks
from askless.learn.sampler import Shuffled


class Views(Protocol):
    """How items of the pool look in training (see `askless.data.views`). One that has `labelled(indices, generator)` shows
    labelled items by it, any other by `weak`."""

    def plain(self, indices: Tensor) -> Tensor: ...

    def weak(self, indices: Tensor, generator: torch.Generator) -> Tensor: ...

    def strong(self, indices: Tensor, generator: torch.Generator) -> Tensor: ...


class Material:
    """The labelled items, the whole pool (labelled items included, as FixMatch has it), and their views.

    All ranks draw the same positions and each keeps its part. A batch consists of `blocks` equal parts whose views are drawn
    from one generator each, so that it does not matter which process makes which block.
    """

    def __init__(
        self,
        views: Views,
        size: int,
        labelled: np.ndarray,
        labels: np.ndarray,
        seed: Seed,
        device: torch.device,
        ranks: Ranks = ALONE,
        blocks: int = 1,
    ) -> None:
        self.views, self.size, self.device, self.ranks = views, size, device, ranks
        self.blocks = blocks
        self.mine = ranks.mine(torch.arange(blocks)).tolist()  # the blocks that are made here
        self.generators = [torch_stream(seed, f"views {block}" if block else "views") for block in self.mine]
        self._labelled = Shuffled(torch.from_numpy(labelled), torch_stream(seed, "labelled order"))
        self._pool = Shuffled(torch.arange(size), torch_stream(seed, "pool order"))
        self._label_of = torch.full((size,), -1, dtype=torch.int64)
        self._label_of[torch.from_numpy(labelled)] = torch.from_numpy(labels)

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

    def fingerprint(self, most: int = 256) -> str:
        """A hash of items spread evenly over the pool and of labelled ones, which tells one pool from another; of a Dataset
        whose items are never the same twice, only their shape."""
        spread = torch.linspace(0, self.size - 1, min(most, self.size)).long()
        items = torch.cat([spread, self._labelled.items[:most]])
        first, again = (digest.of_tensors({"items": self.views.plain(items)}) for _ in range(2))
        return first if first == again else digest.of_text(self.views.plain(items[:1]).shape)

    def class_counts(self, classes: int) -> np.ndarray:
        """How many labelled items each class has, (classes,)."""
        return np.bincount(self._label_of[self._labelled.items].numpy(), minlength=classes).astype(np.float64)

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
