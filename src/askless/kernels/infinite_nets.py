"""Infinitely wide ReLU networks, by their options: fully connected, and convolutional."""

import math
from typing import Literal, NamedTuple

from askless.base.errors import InputError, OptionError
from askless.base.options import Count, CountOrZero, NotNegative, check_count, options


class Conv(NamedTuple):
    """One convolution, with square windows; zeros around the image."""

    kernel: int
    padding: int
    stride: int

    def side(self, before: int) -> int:
        """The side of the map after it.

        >>> Conv(3, 1, 2).side(8)
        4
        """
        return (before + 2 * self.padding - self.kernel) // self.stride + 1


@options
class InfiniteMLP:
    r"""A fully connected ReLU network with `depth` hidden layers of infinite width, on flattened inputs.

    Every layer, the last one too, is $z = \sigma_w W a / \sqrt{fan\,in} + \sigma_b b$ with W, b ~ N(0, 1). With the default
    numbers the size of the input is kept from layer to layer, and the kernel grows with the square of the input's scale.

    >>> al.kernels.infinite(torch.ones(2, 3), net=InfiniteMLP(depth=1)).shape
    torch.Size([2, 2])
    """

    depth: Count = 2
    sigma_w: NotNegative = math.sqrt(2.0)
    sigma_b: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_layers("InfiniteMLP", self.sigma_w, self.sigma_b)

    def convolutions(self) -> tuple[Conv, ...]:
        return ()


@options
class InfiniteCNN:
    r"""`depth` convolutions of infinitely many channels, each with ReLU, then a linear layer; on images (C, H, W).

    Windows are `kernel` x `kernel`, with `padding` zeros on every side and a step of `stride`: one number for all layers or
    one for each, as in `nn.Conv2d`. `readout`: "gap" averages the last map over its pixels, and costs the square of the
    number of pixels for every pair of images; "flatten" gives each pixel its own weights, and costs the number of pixels,
    but then sees only what stands at the same place. `sigma_w` and `sigma_b` as in `InfiniteMLP`, fan in = C kernel².

    >>> al.kernels.infinite(torch.ones(2, 1, 4, 4), net=InfiniteCNN(depth=1)).shape
    torch.Size([2, 2])
    """

    depth: Count = 2
    kernel: Count = 3
    padding: CountOrZero = 1
    stride: int | tuple[int, ...] = 1
    readout: Literal["gap", "flatten"] = "gap"
    sigma_w: NotNegative = math.sqrt(2.0)
    sigma_b: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_layers("InfiniteCNN", self.sigma_w, self.sigma_b)
        if isinstance(self.stride, tuple) and len(self.stride) != self.depth:
            raise OptionError(f"InfiniteCNN: expected one stride for each of {self.depth} layers, got {self.stride!r}")
        for stride in self.stride if isinstance(self.stride, tuple) else (self.stride,):
            check_count("InfiniteCNN", "stride", stride)

    def convolutions(self) -> tuple[Conv, ...]:
        """Every convolution, the first one first."""
        strides = self.stride if isinstance(self.stride, tuple) else (self.stride,) * self.depth
        return tuple(Conv(self.kernel, self.padding, stride) for stride in strides)


InfiniteNet = InfiniteMLP | InfiniteCNN


def check_layers(owner: str, sigma_w: float, sigma_b: float) -> None:
    if sigma_w == 0 or not math.isfinite(sigma_w) or not math.isfinite(sigma_b):
        raise InputError(f"{owner}: expected 0 < sigma_w and finite numbers, got sigma_w={sigma_w}, sigma_b={sigma_b}")


def largest_map(net: InfiniteNet, shape: tuple[int, ...]) -> int:
    """Pixels of the largest map that a kernel of images (C, H, W) runs over, with its padding; 1 for an `InfiniteMLP`."""
    if isinstance(net, InfiniteMLP):
        return 1
    if len(shape) != 3:
        raise InputError(f"InfiniteCNN: expected images, shape (N, C, H, W), got items of shape {tuple(shape)}")
    sides, largest = list(shape[1:]), 1
    for i, conv in enumerate(net.convolutions()):
        if i:  # the first layer looks at patches: its padding costs nothing
            largest = max(largest, math.prod(side + 2 * conv.padding for side in sides))
        sides = [conv.side(side) for side in sides]
        if min(sides) < 1:
            raise InputError(
                f"InfiniteCNN: expected images with at least a pixel left after every layer, got {tuple(shape)}, of which "
                f"layer {i + 1} leaves none; use larger images, fewer layers, more padding or smaller strides"
            )
        largest = max(largest, math.prod(sides))
    return largest
