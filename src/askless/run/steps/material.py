"""Images -> what the model sees, once: embeddings of a frozen backbone, or small pixels for a network of its own.

Written chunk by chunk into files of the run, so that one that was stopped goes on where it was. Runs in the worker.
"""

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.files import write_whole
from askless.base.machine import cores
from askless.run.pictures import Pictures
from askless.run.settings import Settings
from askless.sources import UnreadableError, read_image, real_file

if TYPE_CHECKING:
    from askless.features.backbones import Backbone

CHUNK = 32  # images that are read and embedded together
TINY = 16  # side of the thumbnails that near-duplicates are found by
FROZEN_SIZE, OWN_SIZE = 128, 32  # sides of images for a backbone, and for a network trained from scratch
Reader = Callable[[int], np.ndarray]  # item -> (H, W, 3) uint8, or an UnreadableError


class Material:
    """What was read of each item: `x` (N, ...) embeddings float16 or pixels uint8, `tiny` (N, 16, 16, 3) uint8."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / "material.json").read_text(encoding="utf-8"))
        self.x = np.load(folder / self.about["file"], mmap_mode="r", allow_pickle=False)
        self.tiny = np.load(folder / "tiny.npy", mmap_mode="r", allow_pickle=False)

    @property
    def done(self) -> bool:
        return self.about["done"] == len(self.x)


def backbone_of(settings: Settings) -> "Backbone | None":
    """The frozen backbone of a run, if it has one."""
    from askless.features.frozen import Frozen, make_backbone

    if not settings.frozen:
        return None
    name = settings.net.removeprefix("frozen:")
    return make_backbone(Frozen(backbone=name, size=raw_side(settings), weights=settings.weights or None))


def image_side(settings: Settings, backbone: "Backbone | None") -> int:
    """The side in pixels that images are read at: what was asked for, else what the backbone sees."""
    if settings.size or backbone is None:
        return settings.size or OWN_SIZE
    return FROZEN_SIZE if settings.net == "frozen:raw" else backbone.size or FROZEN_SIZE


def prepare(
    folder: Path,
    n_items: int,
    settings: Settings,
    read: Reader,
    bad: Callable[[int, str], None],
    progress: Callable[[int, int], None],
    skip: frozenset[int] = frozenset(),
    backbone: "Backbone | None" = None,
) -> None:
    """Reads every item that has not been read yet. `bad(item, reason)` is told what cannot be read. `backbone`: that of the
    settings, where it has been made already."""
    folder.mkdir(exist_ok=True, mode=0o700)
    backbone = backbone_of(settings) if backbone is None else backbone
    side = image_side(settings, backbone)
    about = start(folder, n_items, side, backbone)
    x = np.load(folder / about["file"], mmap_mode="r+", allow_pickle=False)
    tiny = np.load(folder / "tiny.npy", mmap_mode="r+", allow_pickle=False)

    def one_chunk(first: int) -> list[tuple[int, str]]:
        items = [i for i in range(first, min(first + CHUNK, n_items)) if i not in skip]
        pixels, good, problems = [], [], []
        for i in items:
            try:
                image = read(i)
            except UnreadableError as error:
                problems.append((i, str(error)))
                continue
            good.append(i)
            pixels.append(fitted(image, side))
            tiny[i] = fitted(image, TINY)
        if good:
            stack = np.stack(pixels).transpose(0, 3, 1, 2)  # (n, H, W, 3) -> (n, 3, H, W)
            x[good] = stack if backbone is None else embedded(backbone, stack)
        return problems

    firsts = range(about["done"], n_items, CHUNK)
    with ThreadPoolExecutor(max_workers=cores()) as pool:
        for first, problems in zip(firsts, in_order(pool, one_chunk, firsts), strict=True):
            for item, reason in problems:
                bad(item, reason)
            about["done"] = min(first + CHUNK, n_items)
            if (first // CHUNK) % 8 == 7 or about["done"] == n_items:
                x.flush(), tiny.flush()
                write_about(folder, about)
            progress(about["done"], n_items)


def keep_features(folder: Path, arrays: Any, paths: list[str]) -> None:
    """A run on features has nothing to embed: the rows of its items are kept as they are."""
    folder.mkdir(exist_ok=True, mode=0o700)
    place = {name: i for i, name in enumerate(arrays.ids)}
    keep_rows(folder, np.asarray(arrays.x[[place[path] for path in paths]], np.float32), "features")


def keep_rows(folder: Path, rows: np.ndarray, name: str) -> None:
    """Features (N, d) of every item, and no pictures."""
    write_whole(folder / "embeddings.npy", lambda file: np.save(file, rows, allow_pickle=False))
    tiny = np.zeros((len(rows), TINY, TINY, 3), np.uint8)
    write_whole(folder / "tiny.npy", lambda file: np.save(file, tiny, allow_pickle=False))
    write_about(folder, {"name": name, "file": "embeddings.npy", "side": 0, "done": len(rows)})


def raw_side(settings: Settings) -> int | None:
    """Pixels as features are taken from small images: 16 x 16 x 3 numbers."""
    return 16 if settings.net == "frozen:raw" else settings.size or None


def in_order(pool: ThreadPoolExecutor, function: Callable[[int], Any], values: Iterable[int]) -> Iterable[Any]:
    """The results of some calls at a time, in order; no more are under way than there are threads."""
    waiting: list[Any] = []
    for value in values:
        waiting.append(pool.submit(function, value))
        if len(waiting) > cores():
            yield waiting.pop(0).result()
    for future in waiting:
        yield future.result()


def embedded(backbone: Any, stack: np.ndarray) -> np.ndarray:
    import torch

    return backbone.embed(torch.from_numpy(np.ascontiguousarray(stack))).half().numpy()


def start(folder: Path, n_items: int, side: int, backbone: Any) -> dict[str, Any]:
    """What has been done before with the same backbone and size, or new empty files."""
    name = f"pixels {side}" if backbone is None else f"{backbone.name} from {side}"
    try:
        about = json.loads((folder / "material.json").read_text(encoding="utf-8"))
        x = np.load(folder / about["file"], mmap_mode="r", allow_pickle=False)
        tiny = np.load(folder / "tiny.npy", mmap_mode="r", allow_pickle=False)
        if about["name"] == name and len(x) == len(tiny) == n_items and about["done"] in range(n_items + 1):
            return dict(about)
    except Exception:  # missing, or damaged, which fails in many ways
        pass
    about = {"name": name, "file": "pixels.npy" if backbone is None else "embeddings.npy", "side": side, "done": 0}
    shape: tuple[int, ...] = (n_items, 3, side, side)
    if backbone is not None:
        shape = (n_items, embedded(backbone, np.zeros((1, 3, side, side), np.uint8)).shape[1])
    dtype = np.uint8 if backbone is None else np.float16
    for file, file_shape, file_dtype in (
        (about["file"], shape, dtype),
        ("tiny.npy", (n_items, TINY, TINY, 3), np.uint8),
    ):
        np.lib.format.open_memmap(folder / str(file), mode="w+", dtype=file_dtype, shape=file_shape).flush()
        if hasattr(os, "posix_fallocate"):  # a full disk is told now, and does not end the process later
            with (folder / str(file)).open("r+b") as whole:
                os.posix_fallocate(whole.fileno(), 0, os.fstat(whole.fileno()).st_size)
        os.chmod(folder / str(file), 0o600)
    write_about(folder, about)
    return about


def write_about(folder: Path, about: dict[str, Any]) -> None:
    write_whole(folder / "material.json", lambda file: file.write(json.dumps(about).encode()))


def fitted(image: np.ndarray, side: int) -> np.ndarray:
    """(side, side, 3): scaled to cover the square, the centre cut out."""
    if image.shape[:2] == (side, side):
        return image
    from PIL import Image, ImageOps

    return np.asarray(ImageOps.fit(Image.fromarray(image), (side, side), Image.Resampling.BICUBIC))


def reader(pictures: Pictures, side: int) -> Reader:
    """Reads items at about the size that is needed."""

    def read(item: int) -> np.ndarray:
        if pictures.kind == "files":
            return read_image(real_file(pictures.root, pictures.paths[item], pictures.follow_links), (side, side))
        row = pictures.row(item)
        return row if row.ndim == 3 else np.repeat(row[:, :, None], 3, axis=2)

    return read


def look_alikes(
    tiny: np.ndarray, x: np.ndarray, held: list[int], others: list[int], pictures: bool = True
) -> list[int]:
    """Those of `others` that look almost the same as one of `held`: thumbnails that correlate above .99, and embeddings
    (where there are any) whose cosine is above .95. Without pictures, rows of features that are equal but for rounding."""
    if not held or not others:
        return []
    if not pictures:
        known = directions(x[held])
        tiles = (others[i : i + 1024] for i in range(0, len(others), 1024))
        same = [(directions(x[tile]) @ known.T > 1 - 1e-6).any(axis=1) for tile in tiles]
        return [others[i] for i in np.flatnonzero(np.concatenate(same))]
    found: list[int] = []
    of_held = [directions(a[held]) for a in ((tiny, x) if x.ndim == 2 else (tiny,))]
    for i in range(0, len(others), 1024):
        part = others[i : i + 1024]
        alike = directions(tiny[part]) @ of_held[0].T > 0.99
        if x.ndim == 2:
            alike &= directions(x[part]) @ of_held[1].T > 0.95
        found += [item for item, any_alike in zip(part, alike.any(axis=1), strict=True) if any_alike]
    return found


def directions(rows: np.ndarray) -> np.ndarray:
    """Rows (n, ...) as centred vectors of length 1; constant rows become 0."""
    flat = rows.reshape(len(rows), -1).astype(np.float32)
    flat -= flat.mean(axis=1, keepdims=True)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)


def flat_map(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(N, 2) positions from 0 to 1 by the two main directions of variation; NaN for items that are not known."""
    import torch

    rows = torch.from_numpy(np.asarray(x[known]).reshape(len(known), -1).astype(np.float32))
    rows = (rows - rows.mean(dim=0)) / rows.std(dim=0).clamp(min=1e-6) if len(known) > 1 else rows * 0
    # Eigenvectors of the smaller of the two second-moment matrices.
    if rows.shape[1] <= len(rows):
        vectors = torch.linalg.eigh(rows.T @ rows)[1][:, -2:].flip(1)
        place = rows @ vectors
    else:
        values, left = torch.linalg.eigh(rows @ rows.T)
        place = (left * values.clamp(min=0).sqrt())[:, -2:].flip(1)
    if place.shape[1] < 2:
        place = torch.nn.functional.pad(place, (0, 2 - place.shape[1]))
    place = place * torch.where((place**3).sum(dim=0) < 0, -1.0, 1.0)  # eigenvectors come with either sign
    ranks = place.argsort(dim=0).argsort(dim=0).float() / max(len(rows) - 1, 1)
    low, high = place.amin(dim=0), place.amax(dim=0)
    spread = (place - low) / (high - low).clamp(min=1e-9)
    result = np.full((len(x), 2), np.nan, np.float32)
    result[known] = (0.5 * ranks + 0.5 * spread).numpy()  # half by rank, so that outliers do not squeeze all others
    return result
