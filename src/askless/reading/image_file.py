"""One image file -> pixels, whatever its format, mode, depth and orientation."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from askless.errors import InputError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")


class UnreadableError(InputError):
    """A file that is no image Pillow can read, or one too large to open safely; the text is the reason."""


def as_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    """(height, width) from a side or a pair."""
    pair = (size, size) if isinstance(size, int) else size
    if pair is None:
        return None
    if len(pair) != 2 or not all(isinstance(n, int) and n > 0 for n in pair):
        raise InputError(f"size: expected pixels, a whole number > 0 or (height, width), got {size!r}")
    return pair[0], pair[1]


def read_image(path: str | PathLike[str], size: tuple[int, int] | None = None) -> np.ndarray:
    """(H, W, 3) uint8: the first frame, turned as its EXIF tag says, scaled and centre-cropped to `size` = (H, W)."""
    with refusing_damage(), Image.open(path) as image:
        if size is not None:
            image.draft("RGB", (2 * max(size), 2 * max(size)))  # JPEG: decode at a fraction of the work
        upright = ImageOps.exif_transpose(image)
        if size is not None and (upright.height, upright.width) != size:
            upright = ImageOps.fit(as_8_bit(upright), (size[1], size[0]), Image.Resampling.BICUBIC)
        return pixels_of(upright)


def image_size(path: str | PathLike[str]) -> tuple[int, int]:
    """(H, W) as it will be read, from the header alone."""
    with refusing_damage(), Image.open(path) as image:
        turned = image.getexif().get(0x0112, 1) in (5, 6, 7, 8)  # the EXIF orientations that swap the sides
        return (image.width, image.height) if turned else (image.height, image.width)


@contextmanager
def refusing_damage() -> Iterator[None]:
    """Whatever Pillow says about a damaged, unknown or enormous file becomes an UnreadableError with a short reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd tags in a file are not the reader's concern
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            yield
        except (UnreadableError, MemoryError):
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise UnreadableError(f"more than {Image.MAX_IMAGE_PIXELS} pixels (a decompression bomb?)") from None
        except UnidentifiedImageError:
            raise UnreadableError("not an image, or an unknown format") from None
        except Exception as error:  # each of Pillow's decoders has its own errors for damaged files
            raise UnreadableError(str(error) or type(error).__name__) from None


def pixels_of(image: Image.Image, grey: bool = False) -> np.ndarray:
    """(H, W, 3) uint8 of a Pillow image of any mode; with `grey`, one-channel images give (H, W)."""
    image = as_8_bit(image)
    return np.array(image if grey and image.mode == "L" else image.convert("RGB"))


def as_8_bit(image: Image.Image) -> Image.Image:
    """The image as L or RGB: 16 bits are scaled to 8, float images in [0, 1] to 0..255, transparency shows white."""
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(grey_8_bit(np.asarray(image)))
    if image.mode in ("L", "RGB"):
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.has_transparency_data:
        colour = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), colour).convert("RGB")
    return image.convert("RGB")


def grey_8_bit(values: np.ndarray) -> np.ndarray:
    """(H, W) uint8 from 16-bit or float grey values."""
    low, high = values.min(), values.max()
    if values.dtype.kind == "f":
        if not (low >= 0 and high <= 1):
            raise UnreadableError(
                f"float pixels from {low:g} to {high:g}; expected [0, 1], or save it with 8 or 16 bits"
            )
        return np.rint(values * 255).astype(np.uint8)
    if low < 0 or high > 65535:
        raise UnreadableError(f"pixels from {low} to {high}; expected 8 or 16 bits, 0 to 65535")
    if values.dtype.itemsize > 2 and high <= 255:  # mode I with 8-bit content
        return values.astype(np.uint8)
    return np.rint(values / 257).astype(np.uint8)


def has_image_suffix(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES
