"""A trained classifier as one module, from what is read from a file to logits and probabilities."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Normalise(nn.Module):
    """(x - shift) / scale."""

    shift: Tensor
    scale: Tensor

    def __init__(self, shift: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.shift) / self.scale


def pixels_by(mean: Sequence[float], std: Sequence[float]) -> Normalise:
    """Pixels 0..255 -> by the mean and deviation of each channel, which are of pixels from 0 to 1."""
    shift, scale = (torch.tensor(v, dtype=torch.float32)[None, :, None, None] * 255 for v in (mean, std))
    return Normalise(shift, scale)


class Resize(nn.Module):
    """Images of one size -> size x size pixels, as `resized` does it. Resizing is linear in the rows and in the columns, so
    for images of a known size it is a product with two matrices, which every runtime computes alike."""

    rows: Tensor
    columns: Tensor

    def __init__(self, height: int, width: int, size: int) -> None:
        super().__init__()
        smaller = size < min(height, width)  # as in `resized`
        for name, side in (("rows", height), ("columns", width)):
            lines = torch.eye(side)[None, None]  # an image of which every column is one bright row
            matrix = F.interpolate(lines, size=(size, side), mode="bicubic", align_corners=False, antialias=smaller)
            self.register_buffer(name, matrix[0, 0].contiguous())  # (size, side)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows @ x @ self.columns.T  # (s, H) (n, C, H, W) (W, s)


class Whole(nn.Module):
    """Items as they are read (pixels 0..255 of any type, or numbers) -> logits (n, C) and probabilities (n, C).

    `before` runs on items as floats; `network` is the part that was trained; its logits are multiplied by `sharpness`.
    """

    def __init__(self, before: nn.Module, network: nn.Module, sharpness: float = 1.0, numbers: bool = True) -> None:
        super().__init__()
        self.before, self.network, self.sharpness, self.numbers = before, copy.deepcopy(network), sharpness, numbers

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.sharpness * self.network(self.before(x.float() if self.numbers else x)).float()
        return logits, logits.softmax(dim=1)


def with_backbone(eye: nn.Module, size: int | None, shape: Sequence[int], mean: Tensor, scale: Tensor) -> nn.Module:
    """Pixels of images of `shape` -> standardised features of a backbone."""
    _, height, width = shape
    resize: nn.Module = nn.Identity()
    if size is not None and (height, width) != (size, size):
        resize = Resize(height, width, size)
    return nn.Sequential(resize, copy.deepcopy(eye), Normalise(mean, scale))
