"""Image operations on a batch, one parameter per image: the 14 of RandAugment as Pillow does them, Cutout, flip and crop.

Images are (B, C, H, W) uint8 with C = 1 (grey) or 3 (RGB); a parameter is a (B,) float64 tensor on the same device.
With another number of channels, "grey" is their mean and `color` changes nothing.
Each operation equals Pillow's on every image, up to the rounding of its arithmetic (tests/data/test_augment.py).
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

# --- brightness, colour, contrast, sharpness: a blend with a degenerate image (ImageEnhance)


def blend(degenerate: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """degenerate + factor (x - degenerate), clipped and truncated to uint8."""
    base = degenerate.float()
    mixed = base + per_image(factor).float() * (x.float() - base)
    return mixed.clamp_(0, 255).to(torch.uint8)


def black(x: Tensor) -> Tensor:
    return x.new_zeros(())


def colourless(x: Tensor) -> Tensor:
    return grey(x) if x.shape[1] == 3 else x


def mean_grey(x: Tensor) -> Tensor:
    """(B, 1, 1, 1): the mean grey level, rounded."""
    levels = grey(x).flatten(1)  # (B, H W)
    n = levels.shape[1]
    return per_image((2 * levels.sum(dim=1, dtype=torch.int64) + n) // (2 * n))


def smoothed(x: Tensor) -> Tensor:
    """By the 3 x 3 kernel of ones with 5 in the middle, over 13; the border stays."""
    if min(x.shape[2:]) < 3:
        return x
    wide = x.to(torch.int16)
    rows = wide[:, :, :-2] + wide[:, :, 1:-1] + wide[:, :, 2:]  # (B, C, H - 2, W)
    box = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * wide[:, :, 1:-1, 1:-1]  # (B, C, H - 2, W - 2)
    out = x.clone()
    out[:, :, 1:-1, 1:-1] = torch.div(2 * box + 13, 26, rounding_mode="floor").to(torch.uint8)  # box / 13, rounded
    return out


def grey(x: Tensor) -> Tensor:
    """(B, 1, H, W) uint8 luma, with ITU-R 601 weights in 16-bit fixed point as Pillow has them."""
    if x.shape[1] == 1:
        return x
    if x.shape[1] != 3:
        return x.float().mean(dim=1, keepdim=True).round_().to(torch.uint8)
    r, g, b = x.int().unbind(dim=1)
    return ((19595 * r + 38470 * g + 7471 * b + 32768) >> 16).to(torch.uint8)[:, None]


DEGENERATE: dict[str, Callable[[Tensor], Tensor]] = {
    "brightness": black,
    "color": colourless,
    "contrast": mean_grey,
    "sharpness": smoothed,
}


# --- tone curves (ImageOps)


def autocontrast(x: Tensor, _: Tensor) -> Tensor:
    """Each channel stretched so that its darkest pixel is 0 and its lightest 255; a constant channel stays."""
    flat = x.flatten(2)
    low, high = (t[..., None, None].double() for t in (flat.amin(dim=2), flat.amax(dim=2)))  # (B, C, 1, 1)
    scale = torch.full_like(high, 255.0) / (high - low)  # a true division: a number over a tensor would be a reciprocal
    stretched = (x * scale - low * scale).clamp_(0, 255)
    return torch.where(high > low, stretched.nan_to_num_(0.0), x.double()).to(torch.uint8)


def equalize(x: Tensor, _: Tensor) -> Tensor:
    """Each channel through its cumulated histogram, in steps of a 255th of its pixels without the lightest level.

    An image with fewer than 256 pixels below its lightest level has a step of 0 and stays: so do 8 x 8 digits.
    """
    B, C, H, W = x.shape
    if H * W < 256:
        return x
    flat = x.reshape(B * C, H * W).long()
    rows = torch.arange(B * C, device=x.device)[:, None]
    histogram = torch.bincount((flat + 256 * rows).flatten(), minlength=256 * B * C).view(B * C, 256)
    lightest = histogram.gather(1, flat.amax(dim=1, keepdim=True))
    step = (H * W - lightest) // 255  # (B C, 1)
    below = histogram.cumsum(dim=1) - histogram
    table = ((step // 2 + below) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, table, torch.arange(256, device=x.device))
    return table.to(torch.uint8).gather(1, flat).view(B, C, H, W)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Only the highest `bits` bits of each pixel."""
    dropped = torch.pow(2.0, 8 - bits.floor())  # 2^(8 - bits) levels become one
    return x & per_image(256 - dropped).to(torch.uint8)


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Pixels from `threshold` up are inverted."""
    bound = per_image(threshold.ceil()).to(torch.int16)  # x >= t is x >= ceil(t) for whole x
    return x ^ ((x.to(torch.int16) >= bound).to(torch.uint8) * 255)  # x ^ 255 = 255 - x


CURVES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
}


# --- geometry: nearest pixel, black outside (Image.transform)

# A map is (n, 6): a, b, c, d, e, f; the pixel at (column u, row v) comes from (a u + b v + c, d u + e v + f).


def rotation(degrees: Tensor, height: int, width: int) -> Tensor:
    """Counter-clockwise about the centre."""
    angle = -torch.deg2rad(degrees.double())
    cos, sin = angle.cos(), angle.sin()
    cx, cy = width / 2, height / 2
    return torch.stack([cos, sin, cx - cos * cx - sin * cy, -sin, cos, cy + sin * cx - cos * cy], dim=1)


def with_entry(place: int, values: Tensor) -> Tensor:
    """The identity map with one entry per image set to a value."""
    maps = values.new_tensor([1, 0, 0, 0, 1, 0], dtype=torch.float64).repeat(len(values), 1)
    maps[:, place] = values.double()
    return maps


MAPS: dict[str, Callable[[Tensor, int, int], Tensor]] = {  # (parameter, height, width) -> (n, 6)
    "rotate": rotation,
    "shear_x": lambda amount, height, width: with_entry(1, amount),
    "shear_y": lambda amount, height, width: with_entry(3, amount),
    "translate_x": lambda pixels, height, width: with_entry(2, pixels),
    "translate_y": lambda pixels, height, width: with_entry(5, pixels),
}


def fixed_point(maps: Tensor) -> Tensor:
    """(n, 6) int64: maps measured at pixel centres, in units of 1 / 65536."""
    centred = maps.double().clone()
    centred[:, 2] += (maps[:, 0] + maps[:, 1]) / 2
    centred[:, 5] += (maps[:, 3] + maps[:, 4]) / 2
    return torch.floor(centred * 65536 + 0.5).long()


def affine(x: Tensor, maps: Tensor) -> Tensor:
    """Each image through its map (B, 6), floats or what `fixed_point` made of them.

    In 16.16 fixed point, as Pillow does it, so that the nearest pixel is the same one also at ties.
    """
    height, width = x.shape[2:]
    whole = fixed_point(maps) if maps.is_floating_point() else maps
    a, b, c, d, e, f = whole.t()[:, :, None, None]  # six of (B, 1, 1)
    u, v = count_to(width, x.device)[None, None, :], count_to(height, x.device)[None, :, None]
    column = (a * u + (b * v + c)) >> 16  # (B, H, W)
    row = (d * u + (e * v + f)) >> 16
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    source = (row * width + column) * inside
    return gather_pixels(x, source) * inside[:, None]


@lru_cache(maxsize=32)
def count_to(n: int, device: torch.device) -> Tensor:
    """0, 1, ..., n - 1: made once, because for small images that takes as long as any other operation; not to be changed."""
    return torch.arange(n, device=device)


def gather_pixels(x: Tensor, source: Tensor) -> Tensor:
    """(B, C, H', W'): for each image, the pixels at the places `source` (B, H', W') = row W + column."""
    B, C, _, _ = x.shape
    _, height, width = source.shape
    places = source.reshape(B, 1, height * width).expand(B, C, -1)
    return x.flatten(2).gather(2, places).view(B, C, height, width)


# --- Cutout


def cutout(x: Tensor, top: Tensor, left: Tensor, bottom: Tensor, right: Tensor, fill: Tensor) -> Tensor:
    """Rows top..bottom-1, columns left..right-1 of each image replaced by the colour `fill` (C,)."""
    v, u = count_to(x.shape[2], x.device)[None, :], count_to(x.shape[3], x.device)[None, :]
    rows = (v >= top[:, None]) & (v < bottom[:, None])  # (B, H)
    columns = (u >= left[:, None]) & (u < right[:, None])  # (B, W)
    inside = rows[:, None, :, None] & columns[:, None, None, :]
    return x * ~inside + fill.to(x.dtype)[None, :, None, None] * inside  # ten times as fast as torch.where on uint8


# --- the weak view


def flip_and_crop(x: Tensor, flipped: Tensor, down: Tensor, right: Tensor, reflect: bool = True) -> Tensor:
    """Mirror the images marked in `flipped` (B,), then show the window moved by (down, right) whole pixels.

    The same as padding and cropping; what lies beyond the edge is the reflection (without repeating the edge), or 0.
    Works for uint8 and float, in one gather.
    """
    height, width = x.shape[2:]
    rows = count_to(height, x.device)[None, :] + down[:, None]  # (B, H)
    columns = count_to(width, x.device)[None, :] + right[:, None]  # (B, W)
    inside = None
    if not reflect:
        inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
    rows, columns = reflected(rows, height), reflected(columns, width)
    columns = torch.where(flipped[:, None], width - 1 - columns, columns)
    out = gather_pixels(x, rows[:, :, None] * width + columns[:, None, :])
    return out if inside is None else out * inside[:, None]


def reflected(place: Tensor, length: int) -> Tensor:
    """-1 -> 1, length -> length - 2: places mirrored at the edges, once."""
    place = place.abs()
    return (length - 1 - (length - 1 - place).abs()).clamp_(min=0)


def per_image(values: Tensor) -> Tensor:
    return values[:, None, None, None]
