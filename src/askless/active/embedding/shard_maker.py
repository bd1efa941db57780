"""One part of a pool -> one shard: what a worker does, on this machine or another."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from askless import kernels
from askless.active.embedding.sources import Part
from askless.active.learner import ActiveLearner
from askless.base.engine import Tell
from askless.base.errors import InputError, ModelError
from askless.features.backbones.backbone import Backbone, stacked
from askless.features.frozen import Frozen, make_backbone
from askless.sources import Item, Skipped
from askless.sources.shards import write_shard

PASSES = 20  # with dropout, as BALD has them
OF_A_LEARNER = ("features", "probs", "grad_sq", "grad_dot")


@dataclass(frozen=True)
class Job:
    """What is computed of every item, and where to. With `learner`, a folder that `ActiveLearner.save` wrote, its network
    sees the items; else the backbone does."""

    out: str
    frozen: Frozen
    learner: str | None
    columns: tuple[str, ...]
    dtype: str
    size: tuple[int, int] | None
    batch: int


class ShardMaker:
    """Reads a part, computes the columns of its items batch by batch and writes its shard atomically. It has one
    copy of the network, made with the first part."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.columns: BackboneColumns | LearnerColumns | None = None

    def __call__(self, task: tuple[Part, str], tell: Tell) -> dict[str, Any]:
        """How many rows were written, and how many items could not be read; which, and why, stands in the shard."""
        part, file = task
        if self.columns is None:
            self.columns = BackboneColumns(self.job) if self.job.learner is None else LearnerColumns(self.job)
        ids, labels = [], []
        skipped: list[tuple[str, str]] = []
        columns: dict[str, list[np.ndarray]] = {}
        for batch in batches(part.read(self.columns.size), self.job.batch, skipped):
            ids += [item.id for item in batch]
            labels += [item.label for item in batch]
            for name, values in self.columns([item.content for item in batch]).items():
                check_numbers(name, values, columns.get(name, [values])[0].shape[1:], batch[0].id)
                columns.setdefault(name, []).append(values)
        joined = {name: np.concatenate(values) for name, values in columns.items()}
        notes = {"skipped": json.dumps(skipped)}
        write_shard(Path(self.job.out) / file, {"id": ids, "label": labels, **joined}, notes)
        return {"rows": len(ids), "skipped": len(skipped)}


def check_numbers(name: str, values: np.ndarray, shape: tuple[int, ...], item: str) -> None:
    """An error where rows would not go into one array, or would be worth nothing in it."""
    if values.shape[1:] != shape:
        raise InputError(
            f"{name}: expected {shape} numbers for every item, got {values.shape[1:]} from {item} on; images of several "
            "sizes need size, such as --size 64"
        )
    if not np.isfinite(values).all():
        raise InputError(f"{name}: expected finite numbers, got others at or soon after {item}; try dtype float32")


def batches(items: Iterator[Item | Skipped], size: int, skipped: list[tuple[str, str]]) -> Iterator[list[Item]]:
    """Lists of `size` items; those that could not be read are noted and left out."""
    batch: list[Item] = []
    for item in items:
        if isinstance(item, Skipped):
            skipped.append((item.path, item.reason))
            continue
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class BackboneColumns:
    """Features of a frozen backbone, as `Frozen` has them before they are standardised."""

    def __init__(self, job: Job) -> None:
        self.size, self.dtype = job.size, job.dtype
        self.backbone: Backbone = make_backbone(job.frozen, device=device())

    def __call__(self, items: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        features = self.backbone.embed(stacked(items, self.backbone.size))
        return {"features": narrowed(features.numpy(), self.dtype)}


class LearnerColumns:
    """What the network of a trained learner says of items from outside its pool."""

    def __init__(self, job: Job) -> None:
        assert job.learner is not None
        self.learner = ActiveLearner.load(job.learner, device=device())
        model = self.learner.model
        if model is None:
            raise ModelError(f"{job.learner}: expected a learner with a trained network, got one without; fit it first")
        self.model, self.columns, self.dtype = model.to(device()), job.columns, job.dtype
        shape = self.learner.pool.shape
        self.size = job.size or ((shape[1], shape[2]) if self.learner.pool.kind == "image" else None)
        views, labelled = self.learner.views, torch.from_numpy(self.learner.labelled)
        self.known = (views.plain(labelled), self.learner.known_labels)

    def __call__(self, items: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        x = self.learner.views.of(self.as_the_pool_has_them(np.stack(items)))
        seen = kernels.look(self.model, x, head=self.learner.head)
        probs = seen.logits.double().softmax(dim=1)
        found: dict[str, Any] = {"features": seen.features, "logits": seen.logits, "probs": probs}
        if "probs_by_pass" in self.columns:
            found["probs_by_pass"] = kernels.probs_by_pass(
                self.model, x, passes=PASSES, seed=self.learner.seed, head=self.learner.head
            )
        if {"grad_sq", "grad_dot"} & set(self.columns):
            stats = kernels.gradient_stats(self.model, x, against=self.known)
            found |= {"grad_sq": stats.sq, "grad_dot": stats.dot}
        if "grad_sq_by_class" in self.columns:
            found["grad_sq_by_class"] = kernels.gradient_sq_by_class(self.model, x)
        kept = {name: found[name].cpu().numpy() for name in self.columns}
        return {name: narrowed(a, self.dtype if name == "features" else "float32") for name, a in kept.items()}

    def as_the_pool_has_them(self, x: np.ndarray) -> np.ndarray:
        """Images that are read have three channels: grey ones, where the pool's are grey."""
        if self.learner.pool.kind == "image" and x.shape[1] == 3 and self.learner.pool.shape[0] == 1:
            return np.rint(np.einsum("nchw,c->nhw", x, [0.299, 0.587, 0.114]))[:, None].astype(np.uint8)
        return x


def narrowed(a: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):  # what does not fit is found by `check_numbers`
        return a.astype(dtype)


def device() -> str:
    """The GPU assigned to a worker, if any: Ray hides the others from it."""
    return "cuda" if torch.cuda.is_available() else "cpu"
