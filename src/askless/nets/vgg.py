"""VGG-11 with batch normalisation and a single linear layer (Simonyan & Zisserman, ICLR 2015; head as for CIFAR-10)."""

from typing import Any

from torch import Tensor, nn

from askless.base.options import Share, check_annotated
from askless.nets.checks import Net, image_shape

STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # channels; a 2x2 max-pool ends each stage


class VGG11(Net):
    """Eight times conv3x3, BN, ReLU, with five max-pools; global average pool; linear head on 512 features.

    At 32 pixels the last map is 1 x 1 and the average is the map itself. Weights start as torch's layers do.
    """

    def __init__(self, shape: Any, classes: int, *, bn_momentum: Share = 0.1) -> None:
        super().__init__()
        channels, _, _ = image_shape("vgg-11", shape, smallest=32)
        check_annotated("vgg-11", VGG11.__init__, locals())
        layers: list[nn.Module] = []
        i = channels
        for stage in STAGES:
            for o in stage:
                layers += [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o, momentum=bn_momentum), nn.ReLU()]
                i = o
            layers.append(nn.MaxPool2d(2))
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(512, classes)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).mean(dim=(2, 3))  # (n, 512, h, w) -> (n, 512)
