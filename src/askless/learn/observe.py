"""What a strategy may see of what was learnt: only the arrays that it looks at, of a network batch by batch."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from askless import kernels
from askless.acquire import DynamicAL, Strategy, looks_at
from askless.base.errors import InputError
from askless.base.rng import Seed
from askless.data import Views
from askless.linalg import Blocks

BATCH = 256  # items whose gradients are computed together


class Sight(NamedTuple):
    """How a network is looked at: `layers="all"` shows NPC, CRC and others gradient features of the whole network (a
    projection to about `width` numbers) in place of the last layer's input; `head` names the last layer."""

    layers: Literal["last", "all"] = "last"
    width: int = 512
    head: str | None = None
    seed: Seed = 0


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
    sight: Sight,
) -> dict[str, Any]:
    """The arrays in `strategy.needs` and `wants`, of all `size` items, seen by `model` in eval mode.

    DynamicAL's features are those of the loss gradients. `kernel` is exact, over the last or all layers. `probs_by_pass` are
    of as many passes with dropout as the strategy says.
    """
    layers, width, head, seed = sight
    needs = looks_at(strategy)
    everything = PlainItems(views, np.arange(size))
    arrays: dict[str, Any] = {"labels": labels}
    of_loss = isinstance(strategy, DynamicAL)
    if {"logits", "probs"} & set(needs) or ("features" in needs and layers == "last" and not of_loss):
        look = kernels.look(model, everything, head=head)
        arrays |= {"features": look.features, "logits": look.logits, "probs": look.logits.double().softmax(dim=1)}
    if "features" in needs and (of_loss or layers == "all"):
        of: Literal["loss", "logits"] = "loss" if of_loss else "logits"
        arrays["features"] = kernels.gradient_features(model, everything, width, seed=seed, of=of)
    if "probs_by_pass" in needs:
        passes = passes_of(strategy)
        arrays["probs_by_pass"] = kernels.probs_by_pass(model, everything, passes=passes, seed=seed, head=head)
    if {"grad_sq", "grad_dot"} & set(needs):
        against = (PlainItems(views, labelled), labels)
        stats = kernels.gradient_stats(model, everything, against=against, batch_size=BATCH)
        arrays |= {"grad_sq": stats.sq, "grad_dot": stats.dot}
    if "grad_sq_by_class" in needs:
        arrays["grad_sq_by_class"] = kernels.gradient_sq_by_class(model, everything, batch_size=BATCH)
    if "kernel" in needs:
        arrays["kernel"] = PoolKernel(model, views, np.arange(size), layers, head)
    return {name: arrays[name] for name in needs}


@dataclass(frozen=True)
class WithoutNetwork:
    """Feature vectors (N, d) and their probabilities (N, C), or None, of something that has no network. Gradients are those
    of a linear head that had these probabilities."""

    features: np.ndarray
    probs: Any
    model = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self.features)} items>"

    @property
    def metrics(self) -> list[dict[str, float]]:
        return []

    def predict_pool(self, at: np.ndarray | None = None) -> np.ndarray:
        return self.probs if at is None else self.probs[at]

    def observe(self, strategy: Strategy, labelled: np.ndarray, labels: np.ndarray, sight: Sight) -> dict[str, Any]:
        """The arrays in `strategy.needs` and `wants`."""
        features, probs, names = self.features, self.probs, looks_at(strategy)
        arrays: dict[str, Any] = {"features": features, "labels": labels}
        if probs is not None:
            arrays |= {"probs": probs, "logits": np.log(np.maximum(probs, 1e-12))}
            if {"grad_sq", "grad_dot"} & {*names} and not wants_gradients(strategy):
                arrays["grad_sq"], arrays["grad_dot"] = head_gradients(features, probs, labelled, labels)
            if "grad_sq_by_class" in names:  # |p - e_c|^2 |[phi, 1]|^2
                length = np.einsum("nd,nd->n", features, features, dtype=np.float64) + 1
                arrays["grad_sq_by_class"] = ((probs**2).sum(axis=1, keepdims=True) - 2 * probs + 1) * length[:, None]
        missing = [name for name in strategy.needs if name not in arrays]
        if missing:
            raise InputError(
                f"the strategy {strategy.name} needs {', '.join(missing)}, which label propagation does not have (it has no "
                "network); use another strategy, or a learner that trains a network"
            )
        return {name: arrays[name] for name in names if name in arrays}


def wants_gradients(strategy: Strategy) -> bool:
    """Whether the features it looks at are gradients of the loss."""
    return isinstance(strategy, DynamicAL) and "features" in strategy.needs


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
