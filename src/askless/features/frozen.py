"""Frozen backbones: every image is embedded once, in a few views, and cached; training then needs only a head.

A pool of images becomes cached views of feature vectors, which the same learners and strategies work on.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from askless.base import digest
from askless.base.errors import AsklessError, InputError, OptionError, unknown
from askless.base.files import write_whole
from askless.base.options import LATER, Count, CountOrZero, Share, options
from askless.base.rng import torch_stream
from askless.data import CachedViews, ImageViews, Pool, data_home, views_for
from askless.features.backbones import (
    Backbone,
    Pooling,
    efficientnet_lite0,
    hf_images,
    module_backbone,
    raw,
    timm_by_name,
    torchvision_by_name,
)

Progress = Callable[[int, int], None]
# Mean squared length of the features of a linear head, and of one with a hidden layer: so the learners' default learning
# rate suits every width; chosen on CIFAR-10 among a few values.
SQ_LENGTH = (1000.0, 33.0)
FORMAT = 1  # of the cached embeddings
BACKBONES = ("efficientnet-lite0", "raw", "tfidf", "timm/NAME", "torchvision/NAME", "hf/FOLDER_OR_NAME")


@options
class Frozen:
    """A backbone that is never trained, in place of a network's name.

    `backbone`: "efficientnet-lite0" (the extra `pretrained`, no network needed), "timm/NAME" or "torchvision/NAME" (the
    extra `vision`), "hf/FOLDER" or "hf/NAME" (the extra `hf`, for texts, too), "raw" (the pixels themselves), "tfidf" (the
    words of texts), or any module that turns normalised images into feature vectors. `weights`: a file or folder with those
    of a timm or torchvision model, in place of a download. `pooling`, of hf: "pooler", "cls", "mean", or "auto". Each image
    is embedded plain, in `weak` weakly and in `strong` strongly augmented views; 0 views of a kind means the plain one.
    `hidden`: width of the head's hidden layer, 0 for a linear head. `size`: pixels that images are resized to, None for the
    backbone's own choice. Features are standardised by the pool's mean and deviation, and scaled to one mean length.
    `cache`: folder for the embeddings, by default in the data home; they are found again by the content of the images.
    `dropout`: of the head, which BALD and BatchBALD need.
    """

    backbone: str | nn.Module = "efficientnet-lite0"
    weak: CountOrZero = 1
    strong: CountOrZero = 2
    hidden: CountOrZero = 0
    size: Count | None = None
    weights: str | Path | None = field(default=None, metadata=LATER)
    pooling: Pooling = field(default="auto", metadata=LATER)
    cache: str | Path | None = None
    seed: CountOrZero = 0
    dropout: Share = field(default=0.0, metadata=LATER)

    def __post_init__(self) -> None:
        package, _, name = self.backbone.partition("/") if isinstance(self.backbone, str) else ("", "", "")
        if self.weights is not None and package not in ("timm", "torchvision"):
            raise OptionError(
                "Frozen: weights go with timm/NAME or torchvision/NAME; the other backbones have their own"
            )
        by_name = name and package in ("timm", "torchvision", "hf")
        if isinstance(self.backbone, str) and self.backbone not in BACKBONES[:3] and not by_name:
            raise OptionError(f"{unknown('backbone', self.backbone, BACKBONES)}, or a module")


def as_frozen(net: Any) -> Frozen | None:
    """The frozen backbone that a net is, or that "frozen:BACKBONE" stands for; None for a net that is trained itself."""
    if isinstance(net, str) and net.startswith("frozen:"):
        return Frozen(backbone=net.removeprefix("frozen:"))
    return net if isinstance(net, Frozen) else None


class FrozenViews(CachedViews):
    """Cached features, and how they are made: by a backbone, less `mean`, by `scale`."""

    backbone: Backbone
    mean: Tensor
    scale: Tensor


def frozen_views(pool: Pool, frozen: Frozen, progress: Progress | None = None, batch: int = 64) -> FrozenViews:
    """The pool's images as cached, standardised features."""
    if pool.kind == "features":
        raise InputError(
            "a frozen backbone embeds images, got a pool of features; use net='linear' or net='mlp' on them"
        )
    views = views_for(pool)
    if not isinstance(views, ImageViews):
        raise InputError(f"a frozen backbone embeds images, got a pool of {pool.kind} items")
    backbone = make_backbone(frozen, pool)
    kinds = [("plain", 1), ("weak", frozen.weak), ("strong", frozen.strong)]
    total = len(pool) * sum(count for _, count in kinds)
    folder = Path(frozen.cache) if frozen.cache is not None else data_home() / "embeddings"
    content = content_key(pool)
    # What the views and the backbone do, not only how they are called: options that change and code that does.
    few = torch.arange(min(4, len(pool)))
    drawn = [image_maker(pool, kind, torch.Generator().manual_seed(0))(few) for kind in ("weak", "strong")]
    looks = digest.of_tensors({"drawn": torch.stack(drawn).round().to(torch.uint8)})
    probe = image_maker(pool, "plain", torch.Generator())(few)
    backbone = backbone._replace(name=f"{backbone.name} {coarsely(backbone.embed(probe))}")
    stored: dict[str, list[np.ndarray]] = {"plain": [], "weak": [], "strong": []}
    done = 0
    for kind, count in kinds:
        for v in range(count):
            key = digest.of_text(FORMAT, content, backbone.name, kind, v, frozen.seed, "" if kind == "plain" else looks)
            path = folder / f"{key[:32]}.npy"
            if not is_whole(path, len(pool)):
                make = image_maker(pool, kind, torch_stream(frozen.seed, f"{kind} {v}"))
                starts = range(0, len(pool), batch)
                parts = [torch.arange(start, min(start + batch, len(pool))) for start in starts]
                rows = []
                for start, images in zip(starts, one_ahead(make, parts), strict=True):
                    rows.append(backbone.embed(images).half().numpy())
                    if progress is not None:
                        progress(done + start, total)
                save_array(path, np.concatenate(rows))
            stored[kind].append(np.load(path, mmap_mode="r", allow_pickle=False))
            done += len(pool)
            if progress is not None:
                progress(done, total)
    plain = torch.from_numpy(np.array(stored["plain"][0], dtype=np.float32))
    mean, scale = standardisation(plain, frozen.hidden > 0)

    def ready(x: np.ndarray) -> Tensor:
        return (torch.from_numpy(np.array(x, dtype=np.float32)) - mean) / scale

    weak = torch.stack([ready(x) for x in stored["weak"] or stored["plain"]])
    strong = torch.stack([ready(x) for x in stored["strong"] or stored["plain"]])

    def embed_outside(x: Any) -> Tensor:
        images = as_bytes(x, pool)
        parts = [backbone.embed(images[i : i + batch]) for i in range(0, len(images), batch)]
        return (torch.cat(parts).half().float() - mean) / scale

    def embed_test() -> Tensor:
        # The same images are measured in every round of every run: they are embedded once, as the pool's own are.
        assert pool.test is not None
        images = as_bytes(pool.test[0], pool)
        path = (
            folder / f"{digest.of_text(FORMAT, digest.of_tensors({'items': images}), backbone.name, 'test')[:32]}.npy"
        )
        if not is_whole(path, len(images)):
            parts = [backbone.embed(images[i : i + batch]).half().numpy() for i in range(0, len(images), batch)]
            save_array(path, np.concatenate(parts))
        return ready(np.load(path, mmap_mode="r", allow_pickle=False))

    test = None if pool.test is None else cache(embed_test)
    made = FrozenViews(ready(stored["plain"][0]), weak, strong, embed=embed_outside, test=test)
    made.backbone, made.mean, made.scale = backbone, mean, scale
    return made


def standardisation(plain: Tensor, hidden: bool = False) -> tuple[Tensor, Tensor]:
    """What to subtract from features (n, d) and to divide them by: each column's mean and deviation, and one number that
    gives the rows the mean squared length that a head, with a hidden layer or linear, learns well from."""
    mean, std = plain.mean(dim=0), plain.std(dim=0)
    # A column that hardly varies in the pool may do so outside: it is measured by the others' deviation.
    std = torch.where(std > 0.01 * std.mean(), std, std.mean().clamp(min=1e-12))
    return mean, std * (plain.shape[1] / SQ_LENGTH[hidden]) ** 0.5


def make_backbone(frozen: Frozen, pool: Pool | None = None, device: str = "cpu") -> Backbone:
    """The function that embeds images, by name or around a module (which needs the pool, and stays where it is)."""
    if isinstance(frozen.backbone, nn.Module):
        assert pool is not None
        views = ImageViews(pool)
        return module_backbone(frozen.backbone, views.mean, views.std, frozen.size)
    if frozen.backbone == "tfidf":
        raise OptionError("the backbone tfidf embeds texts, got images; use another one, as efficientnet-lite0")
    if frozen.backbone == "raw":
        return raw(frozen.size)
    if frozen.backbone == "efficientnet-lite0":
        return efficientnet_lite0(frozen.size or 128, device)
    package, _, name = frozen.backbone.partition("/")
    if package == "hf":
        return hf_images(name, frozen.size, frozen.pooling, device)
    by_name = timm_by_name if package == "timm" else torchvision_by_name
    return by_name(name, frozen.size, frozen.weights, device)


def as_bytes(x: Any, pool: Pool) -> Tensor:
    """Images from outside as the pool has them, as bytes."""
    plain = ImageViews(pool, mean=0.0, std=1 / 255).of(x)  # 0..255
    return plain.round().clamp(0, 255).to(torch.uint8)


def image_maker(pool: Pool, kind: str, generator: torch.Generator) -> Callable[[Tensor], Tensor]:
    """Positions -> images 0..255 in one kind of view."""
    pixels = ImageViews(pool, mean=0.0, std=1 / 255)
    if kind == "plain":
        return pixels.plain
    return lambda at: getattr(pixels, kind)(at, generator)


def one_ahead(make: Callable[[Tensor], Tensor], parts: Sequence[Tensor]) -> Iterator[Tensor]:
    """make(part) for each part in order: the next one is under way, in a thread, while the last is used. Images of a lazy
    pool are so read while the backbone runs; the draws of augmentation stay in order."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        waiting = [thread.submit(make, part) for part in parts[:1]]
        for part in parts[1:]:
            ready = waiting.pop().result()
            waiting.append(thread.submit(make, part))
            yield ready
        yield from (last.result() for last in waiting)


def coarsely(x: Tensor) -> str:
    """A text of some of these numbers, the same on machines that differ in the last digits."""
    some = x.flatten()[:: max(1, x.numel() // 16)]
    return f"{tuple(x.shape)} {[round(float(v), 1) + 0.0 for v in some / x.abs().max().clamp(min=1e-12)]}"


def content_key(pool: Pool) -> str:
    """A hash of the pool's items."""
    tiles = (pool.take(np.arange(i, min(i + 1024, len(pool)))) for i in range(0, len(pool), 1024))
    return digest.of_text([digest.of_tensors({"items": tile}) for tile in tiles])


def is_whole(path: Path, rows: int) -> bool:
    """Whether the file holds an array of so many rows; one that was damaged is made anew."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False).shape[:1] == (rows,)
    except (OSError, ValueError, EOFError):
        return False


def save_array(path: Path, array: np.ndarray) -> None:
    try:
        write_whole(path, lambda file: np.save(file, array, allow_pickle=False))
    except OSError as error:
        raise AsklessError(
            f"the embeddings {path} could not be written ({error}); make room, or pass another cache="
        ) from error
