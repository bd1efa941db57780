"""What a strategy may see of a trained network: only the arrays that it needs, batch by batch."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from askless import kernels
from askless.acquire import DynamicAL, Strategy, looks_at
from askless.base.rng import Seed
from askless.learn.material import Views
from askless.linalg import Blocks


class PlainItems:
    """Items of a pool as they are, un-augmented, for the functions of `kernels`."""

    def __init__(self, views: Views, positions: np.ndarray) -> None:
        self.views, self.positions = views, torch.from_numpy(positions)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, i: int) -> Tensor:
        return self.views.plain(self.positions[i : i + 1])[0]

    def __getitems__(self, indices: list[int]) -> Tensor:
        """Several items in one go, as torch's own loaders would ask for them."""
        return self.views.plain(self.positions[indices])


@dataclass(frozen=True)
class PoolKernel:
    """The tangent kernel of these items of a pool, over the last or all layers, computed when parts of it are asked for
    (an `acquire.kernel.Kernel`)."""

    model: nn.Module
    views: Views
    positions: np.ndarray
    layers: Literal["last", "all"] = "all"
    head: str | None = None
    batch_size: int = 256

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, positions: np.ndarray, /) -> "PoolKernel":
        return replace(self, positions=self.positions[positions])

    def blocks(
        self,
        fixed: np.ndarray,
        groups: np.ndarray,
        max_memory: int = 2**28,
        progress: Callable[[int, int], None] | None = None,
    ) -> Blocks:
        return kernels.group_blocks(
            self.model,
            PlainItems(self.views, self.positions),
            fixed,
            groups,
            layers=self.layers,
            head=self.head,
            batch_size=self.batch_size,
            max_memory=max_memory,
            progress=progress,
        )


def observe(
    model: nn.Module,
    views: Views,
    size: int,
    strategy: Strategy,
    labelled: np.ndarray,
    labels: np.ndarray,
    *,
    layers: Literal["last", "all"] = "last",
    dim: int = 512,
    head: str | None = None,
    seed: Seed = 0,
    batch_size: int = 256,
) -> dict[str, Any]:
    """The arrays in `strategy.needs` and `wants`, of all `size` items, seen by `model` in eval mode.

    `layers="all"` gives NPC, CRC and others gradient features of the whole network (a projection to about `dim` numbers)
    in place of the last layer's input: see `without_bias`. DynamicAL's features are those of the loss gradients. `kernel` is
    exact, over the last or all layers. `probs_by_pass` are of as many passes with dropout as the strategy says.
    """
    needs = looks_at(strategy)
    everything = PlainItems(views, np.arange(size))
    arrays: dict[str, Any] = {"labels": labels}
    of_loss = isinstance(strategy, DynamicAL)
    if {"logits", "probs"} & set(needs) or ("features" in needs and layers == "last" and not of_loss):
        look = kernels.look(model, everything, head=head, batch_size=batch_size)
        arrays |= {"features": look.features, "logits": look.logits, "probs": look.logits.double().softmax(dim=1)}
    if "features" in needs and (of_loss or layers == "all"):
        of: Literal["loss", "logits"] = "loss" if of_loss else "logits"
        arrays["features"] = kernels.gradient_features(model, everything, dim, seed=seed, of=of, batch_size=batch_size)
    if "probs_by_pass" in needs:
        arrays["probs_by_pass"] = kernels.probs_by_pass(
            model, everything, passes=passes_of(strategy), seed=seed, head=head, batch_size=batch_size
        )
    if {"grad_sq", "grad_dot"} & set(needs):
        against = (PlainItems(views, labelled), labels)
        stats = kernels.gradient_stats(model, everything, against=against, batch_size=batch_size)
        arrays |= {"grad_sq": stats.sq, "grad_dot": stats.dot}
    if "grad_sq_by_class" in needs:
        arrays["grad_sq_by_class"] = kernels.gradient_sq_by_class(model, everything, batch_size=batch_size)
    if "kernel" in needs:
        arrays["kernel"] = PoolKernel(model, views, np.arange(size), layers, head, batch_size)
    return {name: arrays[name] for name in needs}


def without_bias(strategy: Any) -> Any:
    """The strategy, and those it is made of, with `bias=False` where it has that option: gradient features of all layers
    hold the gradient of the head's bias already, so no 1 is appended."""
    names = [f.name for f in fields(strategy)] if is_dataclass(strategy) else []
    changed: dict[str, Any] = {"bias": False} if "bias" in names else {}
    changed |= {"of": without_bias(strategy.of)} if "of" in names else {}
    changed |= {"arms": tuple(map(without_bias, strategy.arms))} if "arms" in names else {}
    return replace(strategy, **changed) if changed else strategy


def passes_of(strategy: Any) -> int:
    """How many passes with dropout a strategy wants to see: what its option says, or the most of those it is made of."""
    parts = (*getattr(strategy, "arms", ()), *([strategy.of] if hasattr(strategy, "of") else []))
    return max([getattr(strategy, "passes", 0), *map(passes_of, parts)])


def head_gradients(
    features: np.ndarray, probs: np.ndarray, labelled: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """||g_u||^2 and g_u . g_S, (N,) each, as `kernels.gradient_stats` has them, for a linear head with these probabilities:
    g_u = (p_u - e) x [phi_u, 1], e the most probable class of an item and the label of a labelled one."""
    guess = np.eye(probs.shape[1])[probs.argmax(axis=1)] - probs
    known = np.eye(probs.shape[1])[labels] - probs[labelled]
    total = known.T @ features[labelled].astype(np.float64), known.sum(axis=0)  # g_S: (C, d) and the bias (C,)
    length = np.einsum("nd,nd->n", features, features, dtype=np.float64) + 1
    return (guess**2).sum(axis=1) * length, (guess * (features @ total[0].T + total[1])).sum(axis=1)
