"""Networks that are never trained: images or texts -> feature vectors."""

from askless.features.backbones.backbone import Backbone, TextBackbone, resized, stacked
from askless.features.backbones.hugging_face import Pooling, copy_hf, hf_images, hf_texts
from askless.features.backbones.images import (
    efficientnet_lite0,
    module_backbone,
    raw,
    timm_by_name,
    torchvision_by_name,
)

__all__ = [
    "Backbone",
    "TextBackbone",
    "Pooling",
    # by name
    "efficientnet_lite0",
    "copy_hf",
    "hf_images",
    "hf_texts",
    "raw",
    "timm_by_name",
    "torchvision_by_name",
    # around a module
    "module_backbone",
    # images as they take them
    "resized",
    "stacked",
]
