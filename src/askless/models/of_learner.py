"""What a learner has to hand out: its network, what stands before it, and what is known of both."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askless.base.errors import ModelError
from askless.base.intervals import share
from askless.base.machine import versions
from askless.data import ImageViews, PlainViews
from askless.features.backbones import Backbone
from askless.features.frozen import Frozen, FrozenViews, as_frozen
from askless.features.text_backbone import Embedder, TextViews
from askless.kernels.logits import probabilities
from askless.learn.label_propagation import Neighbours
from askless.models.folder import OWN, Trained, image_preprocess, text_preprocess

PACKAGES = ("torch", "numpy", "timm", "torchvision", "transformers")
TENSORS = "as the network takes it: whatever prepared the data has to prepare it here, too"


def trained_model(learner: Any) -> Trained:
    """The model of an `ActiveLearner` (which lives above this floor), ready to be written."""
    if not learner.is_fitted:
        raise ModelError("the learner has not been trained yet; tell it some labels and call fit()")
    network = learner.learnt.as_network().cpu().eval()
    pool, views, net = learner.pool, learner.views, learner.net
    backbone: Backbone | None = None
    features: tuple[Tensor, Tensor] | None = None
    texts: Embedder | None = None
    kind: str = pool.kind
    preprocess: dict[str, Any] = {"input": TENSORS}
    if isinstance(views, FrozenViews):
        backbone, features = own_copy(views.backbone), (views.mean, views.scale)
        preprocess = image_preprocess(list(pool.shape[1:]), pool.shape[0])
        preprocess |= {"input": "as the backbone wants it, from pixels 0..255"}
    elif isinstance(views, TextViews):
        texts, features = views.backbone, (views.mean, views.scale)
        preprocess = text_preprocess(texts.name)
    elif isinstance(views, ImageViews):
        preprocess = image_preprocess(list(pool.shape[1:]), pool.shape[0])
        preprocess |= {"mean": views.mean.tolist(), "std": views.std.tolist()}
        preprocess |= {"input": "pixels / 255, then (x - mean) / std"}
    elif isinstance(views, PlainViews) and kind == "features":
        preprocess = {"input": "the features themselves"}
    elif kind in ("image", "text"):
        kind = "other"  # views of the user's own: what they do is not known here
    taken = views.plain(torch.arange(1))
    frozen = as_frozen(net)
    config: dict[str, Any] = {
        "net": "neighbours" if isinstance(network, Neighbours) else network_name(net, frozen),
        "module": type(network).__name__,
        "options": network.options if isinstance(network, Neighbours) else head_options(frozen),
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
    at = np.unique(np.linspace(0, len(pool) - 1, 8).astype(np.int64))
    said = probabilities(network, views.plain(torch.from_numpy(at)))
    return Trained(network, config, preprocess, kind, features, backbone, texts, as_read(learner, kind, at), said)


def head_options(frozen: Frozen | None) -> dict[str, Any]:
    return {"hidden": [frozen.hidden]} if frozen is not None and frozen.hidden else {}


def network_name(net: Any, frozen: Frozen | None) -> str | None:
    """The name by which `nets.make` makes it again; None for a module of the user's own."""
    if frozen is not None:
        return "mlp" if frozen.hidden else "linear"
    return net if isinstance(net, str) else None


def own_copy(backbone: Backbone) -> Backbone:
    """The same around a copy of its module, which may be the user's and in training."""
    if backbone.module is None:
        return backbone
    return backbone._replace(module=copy.deepcopy(backbone.module).cpu().eval())


def measured(learner: Any) -> dict[str, Any] | None:
    """Accuracy on the pool's held-out test items; None where it has none."""
    if learner.pool.test is None:
        return None
    right = learner.predict_test().argmax(axis=1) == learner.pool.test[1]
    found = share(int(right.sum()), len(right))
    return None if found is None else {"on": "held-out test items", **found}


def as_read(learner: Any, kind: str, at: np.ndarray) -> Tensor | list[str]:
    """Items of the pool as they are read from a file."""
    if kind == "text":
        return [str(learner.pool.x[i]) for i in at]
    if kind == "image":
        x = learner.pool.take(at)
        return x if x.dtype == torch.uint8 else (x * 255).round().clamp(0, 255).to(torch.uint8)
    rows: Tensor = learner.views.plain(torch.from_numpy(at))
    return rows
