"""The door of every net: the shape of its inputs."""

from typing import Any

from askless.base.errors import InputError
from askless.base.options import check_count

Shape = tuple[int, ...]


def input_shape(owner: str, shape: Any) -> Shape:
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
            f"{owner}: expected images, shape (channels, height, width), got {shape!r}; vectors go with 'mlp' or 'linear'"
        )
    channels, height, width = sides
    if min(height, width) < smallest:
        raise InputError(
            f"{owner}: expected images of at least {smallest} x {smallest} pixels, got {height} x {width}; "
            f"enlarge them, or use 'small-cnn' (from 8 pixels) or 'mlp'"
        )
    return channels, height, width
