"""How far a file may expand when it is read: a few kilobytes can stand for more than any memory holds.

The one home of these limits. Each can be raised by an environment variable, which the message of a refusal names.
"""

import gzip
import os
import zlib
from functools import partial
from pathlib import Path

from PIL import Image

from askless.base.errors import InputError, OptionError

MAX_BYTES = 4 * 2**30  # that a compressed file, an array or a member of an archive unpacks to: ASKLESS_MAX_BYTES
# Of one image, ASKLESS_MAX_PIXELS: Pillow's own limit, about 89 million pixels, unless that is set.
CHUNK = 2**20


def most_bytes() -> int:
    return whole_number("ASKLESS_MAX_BYTES") or MAX_BYTES


def most_pixels() -> int | None:
    """The limit of an image; also given to Pillow, which has none but a global one and refuses above twice of it."""
    given = whole_number("ASKLESS_MAX_PIXELS")
    if given:
        Image.MAX_IMAGE_PIXELS = given
    return Image.MAX_IMAGE_PIXELS


def whole_number(name: str) -> int:
    """What an environment variable says, 0 where it is not set."""
    text = os.environ.get(name, "").replace("_", "").replace(",", "").strip()
    if text and not (text.isdecimal() and int(text) > 0):
        raise OptionError(f"{name}: expected a whole number > 0, got {os.environ[name]!r}; correct or unset it")
    return int(text or 0)


def check_bytes(what: object, count: int) -> None:
    """An error where `what` would take more than the limit."""
    if count > most_bytes():
        raise InputError(
            f"{what}: expected at most {most_bytes():,} bytes once unpacked, got more; if you expect more, set the "
            "environment variable ASKLESS_MAX_BYTES to a larger number"
        )


class Gunzipped(gzip.GzipFile):
    """A packed stream that stops at the limit with an error."""

    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size)
        check_bytes(getattr(self.fileobj, "name", "the archive"), self.tell())
        return part


def read_plain(path: Path) -> bytes:
    """What a file holds, unpacked where it is a .gz file."""
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with Gunzipped(path) as file:
            return b"".join(iter(partial(file.read, CHUNK), b""))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            f"{path}: expected a complete .gz file, got a damaged one ({error}); download it again"
        ) from None
