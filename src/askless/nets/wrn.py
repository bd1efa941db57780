"""WRN-28-K, the wide residual network of FixMatch (Zagoruyko & Komodakis, BMVC 2016)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from askless.base.options import Count, Share, check_annotated
from askless.nets.checks import Net, image_shape

Variant = Literal["official", "leedoyup", "kekmodel"]
Entry = Literal["shared", "split", "raw"]
Norm = Callable[[int], nn.BatchNorm2d]

BLOCKS = 4  # of two convolutions per stage: 28 = 3 * 4 * 2 + 4


class WideResNet(Net):
    """WRN-28-`width`: conv3x3 to 16 channels; three stages of 4 pre-activation blocks of 16, 32 and 64 times `width`
    channels, strides 1, 2, 2; BN, LeakyReLU, global average pool; linear head on 64 `width` features.

    The implementations of FixMatch differ in how the first block of stages 2 and 3 treats its input (`wrn_variant`):

    - official (google-research/fixmatch): the 1x1 shortcut gets the raw input, conv1 the activated one;
    - leedoyup: both get the activated input, as in stage 1, where all three agree;
    - kekmodel: both get the raw input, and the block's first BN feeds nothing, so it gets no gradient.

    Convolutions start from N(0, 2 / (k^2 out)), the head from Xavier-normal (leedoyup: torch's default), biases from 0.
    `bn_momentum` is the weight of the newest batch. `slope` 0 is plain ReLU.
    """

    def __init__(
        self,
        shape: Any,
        classes: int,
        *,
        width: Count = 2,
        slope: Share = 0.1,
        bn_momentum: Share = 0.001,
        bn_eps: Share = 1e-5,
        wrn_variant: Variant = "official",
    ) -> None:
        super().__init__()
        channels, _, _ = image_shape("wrn", shape, smallest=4)
        check_annotated("wrn", WideResNet.__init__, locals())
        norm = partial(nn.BatchNorm2d, momentum=bn_momentum, eps=bn_eps)
        enter: dict[str, Entry] = {"official": "split", "leedoyup": "shared", "kekmodel": "raw"}
        self.slope = slope
        w = [16, 16 * width, 32 * width, 64 * width]
        self.stem = nn.Conv2d(channels, w[0], 3, padding=1, bias=False)
        self.stage1 = stage(w[0], w[1], 1, "shared", slope, norm)
        self.stage2 = stage(w[1], w[2], 2, enter[wrn_variant], slope, norm)
        self.stage3 = stage(w[2], w[3], 2, enter[wrn_variant], slope, norm)
        self.bn = norm(w[3])
        self.head = nn.Linear(w[3], classes)
        initialise(self, keep_head=wrn_variant == "leedoyup")

    def features(self, x: Tensor) -> Tensor:
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        return F.leaky_relu(self.bn(x), self.slope).mean(dim=(2, 3))  # (n, 64 width, h, w) -> (n, 64 width)


class Block(nn.Module):
    """x + conv2(act(bn2(conv1(act(bn1(x)))))), a 1x1 convolution on the shortcut where the shape changes.

    `entry` says what the branches get: "split" shortcut raw, conv1 activated; "shared" both activated; "raw" both raw.
    """

    def __init__(self, i: int, o: int, stride: int, entry: Entry, slope: float, norm: Norm) -> None:
        super().__init__()
        self.entry, self.slope = entry, slope
        self.bn1 = norm(i)
        self.conv1 = nn.Conv2d(i, o, 3, stride=stride, padding=1, bias=False)
        self.bn2 = norm(o)
        self.conv2 = nn.Conv2d(o, o, 3, padding=1, bias=False)
        self.shortcut = nn.Identity() if i == o and stride == 1 else nn.Conv2d(i, o, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        activated = x if self.entry == "raw" else F.leaky_relu(self.bn1(x), self.slope)
        skip = self.shortcut(activated if self.entry == "shared" else x)
        h = F.leaky_relu(self.bn2(self.conv1(activated)), self.slope)
        return skip + self.conv2(h)


def stage(i: int, o: int, stride: int, entry: Entry, slope: float, norm: Norm) -> nn.Sequential:
    first = Block(i, o, stride, entry, slope, norm)
    return nn.Sequential(first, *(Block(o, o, 1, "split", slope, norm) for _ in range(BLOCKS - 1)))


def initialise(net: WideResNet, keep_head: bool) -> None:
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if not keep_head:
        nn.init.xavier_normal_(net.head.weight)
    nn.init.zeros_(net.head.bias)
