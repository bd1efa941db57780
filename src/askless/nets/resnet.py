"""ResNet-18 (He et al., CVPR 2016), with the stem for small images or the one for ImageNet."""

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from askless.base.options import Share, check_annotated
from askless.nets.checks import Net, image_shape

Stem = Literal["cifar", "imagenet"]


class ResNet18(Net):
    """Four stages of two basic blocks, 64 to 512 channels; global average pool; linear head on 512 features.

    `stem` "cifar" is conv3x3 without pooling; "imagenet" is conv7x7 of stride 2 and max-pool 3 of stride 2, so that
    images of 299 pixels end as 10 x 10 maps. `dropout` acts before stage 4 and before the head, as dynamicAL has it (0.5)
    for Caltech-101. Weights start as torch's layers do.
    """

    def __init__(
        self, shape: Any, classes: int, *, stem: Stem = "cifar", dropout: Share = 0.0, bn_momentum: Share = 0.1
    ) -> None:
        super().__init__()
        check_annotated("resnet-18", ResNet18.__init__, locals())
        owner, smallest = ("resnet-18", 8) if stem == "cifar" else ("resnet-18-imagenet", 32)
        channels, _, _ = image_shape(owner, shape, smallest)
        self.dropout, momentum = dropout, bn_momentum
        if stem == "cifar":
            first, last = nn.Conv2d(channels, 64, 3, padding=1, bias=False), []
        else:
            first, last = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False), [nn.MaxPool2d(3, 2, padding=1)]
        self.stem = nn.Sequential(first, nn.BatchNorm2d(64, momentum=momentum), nn.ReLU(), *last)
        self.stage1 = stage(64, 64, 1, momentum)
        self.stage2 = stage(64, 128, 2, momentum)
        self.stage3 = stage(128, 256, 2, momentum)
        self.stage4 = stage(256, 512, 2, momentum)
        self.head = nn.Linear(512, classes)

    def features(self, x: Tensor) -> Tensor:
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        x = self.stage4(F.dropout(x, self.dropout, self.training))
        return F.dropout(x.mean(dim=(2, 3)), self.dropout, self.training)  # (n, 512, h, w) -> (n, 512)


class Block(nn.Module):
    """relu(shortcut(x) + bn2(conv2(relu(bn1(conv1(x)))))); the shortcut is conv1x1 and BN where the shape changes."""

    def __init__(self, i: int, o: int, stride: int, momentum: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(o, momentum=momentum)
        self.conv2 = nn.Conv2d(o, o, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(o, momentum=momentum)
        if i == o and stride == 1:
            self.shortcut: nn.Module = nn.Identity()
        else:
            self.shortcut = nn.Sequential(
                nn.Conv2d(i, o, 1, stride=stride, bias=False), nn.BatchNorm2d(o, momentum=momentum)
            )

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.shortcut(x) + self.bn2(self.conv2(h)))


def stage(i: int, o: int, stride: int, momentum: float) -> nn.Sequential:
    return nn.Sequential(Block(i, o, stride, momentum), Block(o, o, 1, momentum))
