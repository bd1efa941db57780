"""Image arrays as people have them -> (N, C, H, W)."""

from typing import TYPE_CHECKING, Literal, Union

import numpy as np

from askless.base.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

Layout = Literal["auto", "chw", "hwc"]
Array = Union["Tensor", np.ndarray]

CHANNELS = (1, 3)


def as_images(x: Array, layout: Layout = "auto") -> Array:
    """(N, C, H, W) from (N, C, H, W), (N, H, W, C) or (N, H, W); the data are shared where possible.

    "auto" takes the axis of length 1 or 3 as the channels and refuses where two axes could be it, or none.

    >>> as_images(np.zeros((5, 32, 32, 3), np.uint8)).shape
    (5, 3, 32, 32)
    """
    if layout not in ("auto", "chw", "hwc"):
        raise InputError(f"layout: expected 'auto', 'chw' or 'hwc', got {layout!r}")
    shape = tuple(x.shape)
    if x.ndim == 3:
        if layout == "auto" and shape[-1] in CHANNELS:
            raise InputError(
                f"shape {shape} could be one image {shape} or {shape[0]} grey images of {shape[1]} x {shape[2]}; "
                "pass x[None] for one image, x[:, None] for grey ones"
            )
        return x[:, None]  # (N, H, W) -> (N, 1, H, W)
    if x.ndim != 4:
        raise InputError(f"images: expected shape (N, C, H, W), (N, H, W, C) or (N, H, W), got {shape}")
    if min(shape[1:]) == 0:
        raise InputError(f"images: expected at least one pixel and one channel, got shape {shape}")
    channels_first = layout == "chw" if layout != "auto" else guess_channels_first(shape)
    if channels_first:
        return x
    return np.moveaxis(x, 3, 1) if isinstance(x, np.ndarray) else x.movedim(3, 1)


def guess_channels_first(shape: tuple[int, ...]) -> bool:
    first, last = shape[1] in CHANNELS, shape[3] in CHANNELS
    if first == last:
        both = "both axis 1 and axis 3 could be the channels" if first else "no axis has 1 or 3 channels"
        raise InputError(
            f"images of shape {shape}: {both}; pass layout='chw' for (N, C, H, W) or layout='hwc' for (N, H, W, C)"
        )
    return first
