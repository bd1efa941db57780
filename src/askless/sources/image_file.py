"""One image file -> pixels, whatever its format, mode, depth and orientation."""

import os
import stat
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader, BytesIO
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin, TiffImagePlugin, UnidentifiedImageError, WebPImagePlugin

from askless.base.errors import InputError
from askless.sources.items import Item, Skipped
from askless.sources.limits import most_pixels

NOT_READ = (".heic", ".heif", ".avif", ".jxl", ".jp2", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")
# All that is ever tried, whatever a file is called: Pillow would run Ghostscript on PostScript that is named x.png.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", WebPImagePlugin.WebPImageFile.format, TiffImagePlugin.TiffImageFile.format)
ORIENTATION = 0x0112
TAIL = 65_536  # bytes


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
    with refusing_bad_image(), open_file(path) as file:
        return decode_image(file, size)


def decode_image(file: BinaryIO, size: tuple[int, int] | None = None) -> np.ndarray:
    """The same of an open file, or of bytes in memory."""
    with open_stream(file) as image:
        if size is not None:
            image.draft("RGB", (2 * max(size), 2 * max(size)))  # JPEG: decode at a fraction of the work
        upright = ImageOps.exif_transpose(image)
        if size is not None and (upright.height, upright.width) != size:
            upright = ImageOps.fit(as_8_bit(upright), (size[1], size[0]), Image.Resampling.BICUBIC)
        return pixels_of(upright)


def image_size(path: str | PathLike[str]) -> tuple[int, int]:
    """(H, W) as it will be read, from the header alone."""
    with open_image(path) as image:
        turned = orientation(image) in (5, 6, 7, 8)  # those that swap the sides
        return (image.width, image.height) if turned else (image.height, image.width)


def decoded(item: Item, size: tuple[int, int] | None = None) -> Item | Skipped:
    """The item with its pixels (3, H, W) in place of its file or bytes, or why there are none."""
    try:
        is_file = isinstance(item.content, str)
        pixels = read_image(item.content, size) if is_file else decode_image(BytesIO(item.content), size)
    except UnreadableError as error:
        return Skipped(item.id, "unreadable", str(error))
    return item._replace(content=np.moveaxis(pixels, 2, 0), height=pixels.shape[0], width=pixels.shape[1])


def measured(item: Item) -> Item | Skipped:
    """The item with the size of its picture, from the header of its file alone; or why it cannot be read."""
    try:
        height, width = image_size(item.content)
    except UnreadableError as error:
        return Skipped(item.id, "unreadable", str(error))
    except MemoryError:
        return Skipped(item.id, "unreadable", "too large for this computer's memory")
    return item._replace(height=height, width=width)


@contextmanager
def open_image(path: str | PathLike[str], follow: bool = True) -> Iterator[Image.Image]:
    """An image file, opened but not decoded; whatever goes wrong with it inside the block is an UnreadableError."""
    with refusing_bad_image(), open_file(path, follow) as file, open_stream(file) as image:
        yield image


@contextmanager
def open_stream(file: BinaryIO) -> Iterator[Image.Image]:
    limit = most_pixels()
    with refusing_bad_image(), Image.open(file, formats=FORMATS) as image:
        if limit is not None and image.width * image.height > limit:  # Pillow itself refuses above twice the limit
            raise Image.DecompressionBombError
        yield image


def open_file(path: str | PathLike[str], follow: bool = True) -> BufferedReader:
    """A regular file, opened to be read; pipes and devices are refused without waiting for them, links unless `follow`."""
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOCTTY"))
    number = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise UnreadableError("not a regular file")
    return os.fdopen(number, "rb")


def orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 to 8, without decoding any pixels."""
    if isinstance(image, PngImagePlugin.PngImageFile) and "exif" not in image.info:
        late = late_png_exif(image)
        if late:
            image.info["exif"] = late
        return Image.Image.getexif(image).get(ORIENTATION, 1)  # PngImageFile's own would decode the image to look there
    return image.getexif().get(ORIENTATION, 1)


def late_png_exif(image: PngImagePlugin.PngImageFile) -> bytes:
    """The EXIF block of a PNG that has it behind its pixels, as ImageMagick writes it; b"" if there is none."""
    file = image.fp
    assert file is not None
    here = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - TAIL))
    tail = file.read()
    file.seek(here)
    at = tail.find(b"eXIf", 4)
    while at >= 0:
        size = int.from_bytes(tail[at - 4 : at], "big")
        if zlib.crc32(tail[at : at + 4 + size]) == int.from_bytes(tail[at + 4 + size : at + 8 + size], "big"):
            return b"Exif\0\0" + tail[at + 4 : at + 4 + size]
        at = tail.find(b"eXIf", at + 4)  # chance bytes among the pixels
    return b""


@contextmanager
def refusing_bad_image() -> Iterator[None]:
    """Whatever Pillow says about a damaged, unknown or enormous file becomes an UnreadableError with a short reason."""
    with PILLOW_QUIET:
        try:
            yield
        except (UnreadableError, MemoryError):
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            raise UnreadableError(
                f"more than {Image.MAX_IMAGE_PIXELS} pixels (a decompression bomb?); scale it down, or raise the limit with "
                "the environment variable ASKLESS_MAX_PIXELS"
            ) from None
        except UnidentifiedImageError:
            raise UnreadableError("not an image, or an unknown format") from None
        except Exception as error:  # each of Pillow's decoders has its own errors for damaged files
            raise UnreadableError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None


class PillowQuiet:
    """While anybody reads, Pillow's warnings are off: odd tags in a file are not the reader's concern.

    Python keeps one list of filters for all threads, so the first reader sets it and the last one puts it back.
    """

    def __init__(self) -> None:
        self.lock, self.readers, self.before = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if self.readers == 0:
                self.before.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self.readers += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.readers -= 1
            if self.readers == 0:
                self.before.close()


PILLOW_QUIET = PillowQuiet()


def pixels_of(image: Image.Image, grey: bool = False) -> np.ndarray:
    """(H, W, 3) uint8 of a Pillow image of any mode; with `grey`, one-channel images give (H, W)."""
    image = as_8_bit(image)
    return np.array(image if grey and image.mode == "L" else image.convert("RGB"))


def pixels_of_row(row: np.ndarray) -> np.ndarray:
    """(H, W) or (H, W, 3) uint8 from (C, H, W), uint8 or numbers in [0, 1]."""
    if row.dtype != np.uint8:
        if not (row.min() >= 0 and row.max() <= 1):
            raise UnreadableError(f"pixels from {row.min():g} to {row.max():g}; expected [0, 1]")
        row = np.rint(row.astype(np.float32) * 255).astype(np.uint8)
    return np.ascontiguousarray(row[0] if len(row) == 1 else np.moveaxis(row, 0, 2))


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


def named_like_image(path: Path) -> bool:
    """Also of a format that is not read here."""
    return path.suffix.lower() in SUFFIXES + NOT_READ
