"""A learner's model as a folder: its network, what stands before it, and what is known of both."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from askless.active.prepare import head_of
from askless.base.errors import ModelError
from askless.base.intervals import share
from askless.base.machine import versions
from askless.data import ImageViews, PlainViews
from askless.features.backbones.backbone import Backbone, TextBackbone
from askless.features.frozen import FrozenViews, as_frozen
from askless.features.text_backbone import TextViews
from askless.kernels.logits import probabilities
from askless.learn.label_propagation import Neighbours
from askless.models.folder import OWN, Items, Trained, image_preprocess, text_preprocess, write_model

if TYPE_CHECKING:
    from askless.active.learner import ActiveLearner

PACKAGES = ("torch", "numpy", "timm", "torchvision", "transformers")
TENSORS = "as the network takes it: prepare it as the training data were prepared"


def export_model(learner: "ActiveLearner", out: str | Path, to: str = "model", overwrite: bool = False) -> Path:
    """Writes the learner's model; see `ActiveLearner.export`."""
    trained = trained_model(learner)
    at = np.unique(np.linspace(0, len(learner.pool) - 1, 8).astype(np.int64))
    said = probabilities(trained.network, learner.views.plain(torch.from_numpy(at)))
    return write_model(out, trained, to, overwrite, as_read(learner, trained.kind, at), said)


def trained_model(learner: "ActiveLearner") -> Trained:
    if learner.learnt is None:
        raise ModelError("the learner has not been trained yet; tell it some labels and call fit()")
    network = learner.learnt.as_network().cpu().eval()
    pool, views, net = learner.pool, learner.views, learner.net
    backbone: Backbone | None = None
    features: tuple[Tensor, Tensor] | None = None
    texts: TextBackbone | None = None
    kind: str = pool.kind
    preprocess: dict[str, Any] = {"input": TENSORS}
    if isinstance(views, FrozenViews):
        assert views.backbone is not None
        backbone, features = own_copy(views.backbone), (views.mean, views.scale)
        preprocess = image_preprocess(list(pool.shape[1:]), pool.shape[0])
    elif isinstance(views, TextViews):
        texts, features = views.backbone, (views.mean, views.scale)
        preprocess = text_preprocess(texts.name)
    elif isinstance(views, ImageViews):
        preprocess = image_preprocess(list(pool.shape[1:]), pool.shape[0], views)
    elif isinstance(views, PlainViews) and kind == "features":
        preprocess = {"input": "the features themselves"}
    elif kind in ("image", "text"):
        kind = "other"  # views of the user's own: what they do is not known here
    taken = views.plain(torch.arange(1))
    frozen = as_frozen(net)
    name, options = (net if isinstance(net, str) else None, {}) if frozen is None else head_of(frozen)
    if isinstance(network, Neighbours):
        name, options = "neighbours", network.options
    config: dict[str, Any] = {
        "net": name,  # None: a module of the user's own
        "module": type(network).__name__,
        "options": options,
        "backbone": None if frozen is None else frozen.backbone if isinstance(frozen.backbone, str) else OWN,
        "backbone_size": None if frozen is None else frozen.size,
        "pooling": "auto" if frozen is None else frozen.pooling,
        "shape": list(taken.shape[1:]),
        "classes": list(learner.class_names),
        "features": kind == "features" and backbone is None,
        "kind": kind,
        "labels": len(learner.labels),
        "unlabelled": len(pool) - len(learner.labels),
        "learner": type(learner.learner).__name__,
        "strategy": learner.strategy.name,
        "seed": learner.seed,
        "measure": measured(learner),
        "versions": versions(PACKAGES),
    }
    if texts is not None:
        config["text"] = ""  # no column: it was a list
    return Trained(network, config, preprocess, features, backbone, texts)


def own_copy(backbone: Backbone) -> Backbone:
    """The same around a copy of its module, which may be the user's and in training."""
    return backbone._replace(module=copy.deepcopy(backbone.module).cpu().eval())


def measured(learner: "ActiveLearner") -> dict[str, Any] | None:
    """Accuracy on the pool's held-out test items; None where it has none."""
    if learner.pool.test is None:
        return None
    right = learner.predict_test().argmax(axis=1) == learner.pool.test[1]
    return {"on": "held-out test items", **found} if (found := share(int(right.sum()), len(right))) else None


def as_read(learner: "ActiveLearner", kind: str, at: np.ndarray) -> Items:
    """Items of the pool as they are read from a file."""
    if kind == "text":
        return [str(learner.pool.x[i]) for i in at]
    if kind != "image":
        return learner.views.plain(torch.from_numpy(at)).numpy()
    x = learner.pool.take(at)
    return (x if x.dtype == torch.uint8 else (x * 255).round().clamp(0, 255).to(torch.uint8)).numpy()
