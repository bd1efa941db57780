"""An item -> a picture for the browser: always encoded again, never the bytes of the user's file."""

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from io import BytesIO
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

from askless.base.errors import InputError
from askless.base.files import part_of
from askless.run.steps.index import Kind
from askless.sources import UnreadableError, as_8_bit, open_image, read_arrays, real_file
from askless.sources.image_file import pixels_of_row

FULL, THUMB = 2048, 256  # pixels of the longer side, at most
QUALITY = 90
NEARLY = 0.9  # a JPEG that comes out so near the limit by itself, when decoded at half its size, is not scaled at all
AT_ONCE = 4  # pictures that are decoded at a time: each may take 300 MB
PNG, JPEG = "image/png", "image/jpeg"
# How a whole file of each type starts and ends.
ENDS = {PNG: (b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"), JPEG: (b"\xff\xd8\xff", b"\xff\xd9")}


class NoPictureError(InputError):
    """An item that nobody has, or one that has no picture because it is a text or a row of features."""


Key = tuple[str, int, bool]  # size, item, whether its file was replaced


class Picture(NamedTuple):
    content: bytes
    content_type: str


class Pictures:
    """The pictures of items 0..N-1, from any number of threads.

    `root` and `kind` are those of the index, and `paths` the items' in order. A file is looked up again each time it is
    read, and must still be inside the root unless `follow_links`. Small pictures stay in `cache`/thumbs, and the latest
    of both sizes in memory, up to `memory` bytes.
    """

    def __init__(
        self,
        kind: Kind,
        root: Path,
        paths: Sequence[str],
        cache: Path,
        follow_links: bool = False,
        memory: int = 64 * 2**20,
    ) -> None:
        self.kind, self.root, self.paths, self.follow_links = kind, Path(root), paths, follow_links
        self.thumbs = Path(cache) / "thumbs"
        self._kept = Kept(memory)
        self._decoding = BoundedSemaphore(AT_ONCE)
        self._loading = Lock()

    @property
    def has_pictures(self) -> bool:
        """Whether there is anything to see: features and texts have no pictures."""
        return self.kind in ("files", "images")

    def full(self, item: int) -> Picture:
        """The picture of at most 2048 pixels a side; PNG if it is small or from an array, else JPEG.

        UnreadableError if it cannot be read any more, NoPictureError if there is no such item or nothing to see.
        """
        self._check(item)
        return self._kept.get(("full", item, self.is_replaced(item)), lambda: self._made(item, FULL))

    def thumb(self, item: int) -> Picture:
        """The picture of at most 256 pixels a side; errors as `full`."""
        self._check(item)
        return self._kept.get(("thumb", item, self.is_replaced(item)), lambda: self._stored(item))

    def is_replaced(self, item: int) -> bool:
        """Whether the item's file has another size than when the run was made; False where that is not known, or it is
        gone."""
        if self.kind != "files" or self._sizes is None:
            return False
        with suppress(OSError, ValueError):
            return os.path.getsize(os.path.join(self.root, self.paths[item])) != self._sizes[item]
        return False

    def bytes_of(self, items: Sequence[int]) -> int | None:
        """How large these files are together; None where that is not known."""
        if self.kind != "files" or self._sizes is None:
            return None
        return int(self._sizes[list(items)].sum())

    @cached_property
    def _sizes(self) -> np.ndarray | None:
        """Those of the index; None in a run of before they were kept, or where the file is damaged."""
        try:
            sizes = np.load(self.thumbs.parent.with_name("sizes.npy"), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return sizes if sizes.shape == (len(self.paths),) else None

    def _check(self, item: int) -> None:
        if not self.has_pictures:
            got = "a text" if self.kind == "texts" else "a row of features"
            raise NoPictureError(f"item {item}: expected an image, got {got}, which cannot be shown as an image")
        if not 0 <= item < len(self.paths):
            raise NoPictureError(f"item {item}: expected a number from 0 to {len(self.paths) - 1}")

    def _stored(self, item: int) -> Picture:
        """The small picture from the cache; made where there is none or a damaged one."""
        file = self.thumbs / str(item)
        if self.is_replaced(item):
            return self._made(item, THUMB)
        with suppress(OSError):
            content = file.read_bytes()
            for content_type, (start, end) in ENDS.items():
                if content.startswith(start) and content.endswith(end):
                    return Picture(content, content_type)
        picture = self._made(item, THUMB)
        with suppress(OSError):  # a full disk: it is made again next time
            store(picture.content, file)
        return picture

    def _made(self, item: int, limit: int) -> Picture:
        with self._decoding:
            try:
                file = self.file(item)
                if file is None:
                    return encoded(shrunk(Image.fromarray(self.row(item)), limit), PNG)
                return from_file(file, limit)
            except MemoryError:
                raise UnreadableError("too large for this computer's memory") from None

    def file(self, item: int) -> str | None:
        """The item's image file, with no link in its path; None where it is a row of an array."""
        return real_file(self.root, self.paths[item], self.follow_links) if self.kind == "files" else None

    def row(self, item: int) -> np.ndarray:
        """(H, W) or (H, W, 3) uint8: the item's row of an array of images."""
        return pixels_of_row(self.numbers(item))

    def numbers(self, item: int) -> np.ndarray:
        """The item's row of an array of images or features, as it is there."""
        with self._loading:  # the first one reads the file
            x, row = self._rows
        if self.paths[item] not in row:
            raise UnreadableError(f"row {self.paths[item]!r} is no longer in the file")
        return np.asarray(x[row[self.paths[item]]])

    @cached_property
    def _rows(self) -> tuple[np.ndarray, dict[str, int]]:
        """(N, ...) and the place of each id in it."""
        try:
            found = read_arrays(self.root)
        except InputError as error:
            raise UnreadableError(str(error)) from None
        if found.kind != self.kind:
            raise UnreadableError(f"the file no longer has {self.kind}")
        return found.array, {item.id: item.content for item in found.read()[0]}


def from_file(file: str, limit: int) -> Picture:
    """The picture of an image file at most `limit` pixels a side; `file` is a real path and must be no link."""
    with open_image(file, follow=False) as image:
        is_small = max(image.size) <= THUMB
        enough = NEARLY * min(1.0, limit / max(image.size))
        image.draft(None, (int(image.width * enough) or 1, int(image.height * enough) or 1))
        upright = as_8_bit(ImageOps.exif_transpose(image))
        return encoded(shrunk(upright, limit), PNG if is_small else JPEG)


def shrunk(image: Image.Image, limit: int) -> Image.Image:
    """The image, or a smaller copy with the same proportions."""
    if max(image.size) > limit:
        image.thumbnail((limit, limit), Image.Resampling.BICUBIC, reducing_gap=2.0)
    return image


def encoded(image: Image.Image, content_type: str) -> Picture:
    """The pixels alone: no EXIF, no place, no comment, no colour profile."""
    image.info = {}
    out = BytesIO()
    if content_type == PNG:
        image.save(out, "PNG")
    else:
        image.save(out, "JPEG", quality=QUALITY)
    return Picture(out.getvalue(), content_type)


def store(content: bytes, file: Path) -> None:
    """Writes the file whole, readable for its owner only; not synced, for it can be made again."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = part_of(file)
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(content)
        os.replace(beside, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


class Kept:
    """The latest results, up to this many bytes; two threads that ask for the same one compute it once."""

    def __init__(self, memory: int) -> None:
        self.memory, self.used = memory, 0
        self.lock = Lock()
        self.done: OrderedDict[Key, Picture] = OrderedDict()
        self.making: dict[Key, Future[Picture]] = {}

    def get(self, key: Key, make: Callable[[], Picture]) -> Picture:
        with self.lock:
            if key in self.done:
                self.done.move_to_end(key)
                return self.done[key]
            waiting = self.making.get(key)
            if waiting is None:
                mine = self.making[key] = Future()
        if waiting is not None:
            return waiting.result()
        try:
            picture = make()
        except BaseException as error:
            with self.lock:
                del self.making[key]
            mine.set_exception(error)
            raise
        with self.lock:
            del self.making[key]
            self.done[key] = picture
            self.used += len(picture.content)
            while self.used > self.memory:
                _, oldest = self.done.popitem(last=False)
                self.used -= len(oldest.content)
        mine.set_result(picture)
        return picture
