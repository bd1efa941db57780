"""What every net has: a head on its features, and a door for the shape of its inputs."""

from typing import Any

from torch import Tensor, nn

from askless.base.errors import InputError
from askless.base.options import check_count


class Net(nn.Module):
    """A network that ends in a linear layer, `head`, on its `features`: those of `body`, or as a net has them."""

    body: nn.Module
    head: nn.Linear

    def features(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def input_shape(owner: str, shape: Any) -> tuple[int, ...]:
    """(channels, height, width) or (d,), as a tuple of ints."""
    try:
        sides = tuple(shape)
    except TypeError:
        sides = ()
    if len(sides) not in (1, 3):
        raise InputError(
            f"{owner}: expected shape (channels, height, width) or (d,), got {shape!r}; leave out the batch axis"
        )
    for side in sides:
        check_count(owner, "every entry of shape", side)
    return tuple(int(side) for side in sides)


def image_shape(owner: str, shape: Any, smallest: int) -> tuple[int, int, int]:
    """(channels, height, width) with sides of at least `smallest` pixels."""
    sides = input_shape(owner, shape)
    if len(sides) != 3:
        raise InputError(
            f"{owner}: expected images, shape (channels, height, width), got {shape!r}; for vectors use 'mlp' or 'linear'"
        )
    channels, height, width = sides
    if min(height, width) < smallest:
        raise InputError(
            f"{owner}: expected images of at least {smallest} x {smallest} pixels, got {height} x {width}; "
            f"enlarge them, or use 'small-cnn' (from 8 pixels) or 'mlp'"
        )
    return channels, height, width
