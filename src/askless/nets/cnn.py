"""Three small convolutional networks: PyTorch's tutorial net, one with global average pooling, one for tiny images."""

from typing import Any

import torch
from torch import Tensor, nn

from askless.base.options import Count, Share, check_annotated
from askless.nets.checks import Net, image_shape


class TutorialCNN(Net):
    """conv 6@5x5, pool, conv 16@5x5, pool, linear 120, 84, head: the net of PyTorch's tutorial, which dynamicAL uses."""

    def __init__(self, shape: Any, classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("tutorial-cnn", shape, smallest=16)
        flat = 16 * after_two_pools(height) * after_two_pools(width)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(flat, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        )
        self.head = nn.Linear(84, classes)


def after_two_pools(side: int) -> int:
    """The side of the map after (conv 5x5, pool 2x2) twice.

    >>> after_two_pools(32), after_two_pools(28), after_two_pools(16)
    (5, 4, 1)
    """
    return ((side - 4) // 2 - 4) // 2


class CNNGap(Net):
    """conv3x3 of 32, 64, 128 channels with ReLU, all at full size; global average pool; head. Of dynamicAL's NTK figures."""

    def __init__(self, shape: Any, classes: int) -> None:
        super().__init__()
        channels, _, _ = image_shape("cnn-gap", shape, smallest=1)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 128, 3, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Linear(128, classes)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).mean(dim=(2, 3))  # (n, 128, h, w) -> (n, 128)


class SmallCNN(Net):
    """For images of 8 to 32 pixels and a CPU: conv3x3, BN, ReLU five times.

    Two blocks of `width` channels at full size, two of twice as many at half, one of four times as many at a quarter
    (max-pools between); global average pool; head on 4 `width` features. `dropout` acts on whole channels after each
    max-pool, and before the head.
    """

    def __init__(
        self, shape: Any, classes: int, *, width: Count = 16, bn_momentum: Share = 0.1, dropout: Share = 0.0
    ) -> None:
        super().__init__()
        channels, _, _ = image_shape("small-cnn", shape, smallest=8)
        check_annotated("small-cnn", SmallCNN.__init__, locals())
        w, momentum = width, bn_momentum
        leave_out = [nn.Dropout2d(dropout)] if dropout else []
        self.body = nn.Sequential(
            conv_bn_relu(channels, w, momentum),
            conv_bn_relu(w, w, momentum),
            nn.MaxPool2d(2),
            *leave_out,
            conv_bn_relu(w, 2 * w, momentum),
            conv_bn_relu(2 * w, 2 * w, momentum),
            nn.MaxPool2d(2),
            *leave_out,
            conv_bn_relu(2 * w, 4 * w, momentum),
        )
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.head = nn.Linear(4 * w, classes)

    def features(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)  # a third less time on a processor
        x = self.body(x).mean(dim=(2, 3))  # (n, 4 width, h, w) -> (n, 4 width)
        return x if self.dropout is None else self.dropout(x)


def conv_bn_relu(i: int, o: int, momentum: float) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o, momentum=momentum), nn.ReLU())
