"""Frozen backbones: every image is embedded once, in a few views, and cached; training then needs only a head.

A pool of images becomes cached views of feature vectors, which the same learners and strategies work on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from askless.base import digest
from askless.base.errors import InputError, OptionError, unknown
from askless.base.options import LATER, Count, CountOrZero, Share, options
from askless.base.rng import torch_stream
from askless.data import CachedViews, ImageViews, Pool, as_pool, data_home, views_for
from askless.features.backbones.backbone import Backbone
from askless.features.backbones.hugging_face import Pooling, hf_images
from askless.features.backbones.images import (
    LITE,
    efficientnet_lite,
    module_backbone,
    raw,
    timm_by_name,
    torchvision_by_name,
)
from askless.features.scaling import evened
from askless.features.stored import PLAIN, Piece, Progress, ViewKey, augmented, by_threads, is_whole, mapped, write_rows

BATCH = 64  # images that are embedded together
SAMPLE = 100_000  # items that mean and deviation are computed from, at most
FORMAT = 2  # of the cached embeddings
BYTES: dict[str, Any] = {"mean": 0.0, "std": 1 / 255}  # views of images with pixels from 0 to 255
IMAGE_BACKBONES = (*LITE, "raw")
TEXT_BACKBONES = ("tfidf", "minilm", "tfidf+minilm")
PACKAGES = ("timm", "torchvision", "hf")
BACKBONES = (*IMAGE_BACKBONES, *TEXT_BACKBONES, "timm/NAME", "torchvision/NAME", "hf/FOLDER_OR_NAME")


@options
class Frozen:
    """A backbone that is never trained. Pass it instead of a network's name.

    `backbone`: "efficientnet-lite0", "-lite1" or "-lite2" (the extra `pretrained`, no network needed), "timm/NAME" or
    "torchvision/NAME" (the extra `vision`), "hf/FOLDER" or "hf/NAME" (the extra `hf`, for texts, too), "raw" (the pixels
    themselves); for texts "tfidf" (their words), "minilm" (a sentence encoder, the extra `text`) or "tfidf+minilm"; or any
    module that turns normalised images into feature vectors.

    `weights`: a file or folder with the weights of a timm or torchvision model, instead of a download. `pooling`, for hf:
    "pooler", "cls", "mean", or "auto". Each image is embedded plain, in `weak` weakly and in `strong` strongly augmented
    views; 0 views of a kind means the plain one. With `plain`, the plain view, used for predictions, is also one of the
    weak ones. `hidden`: width of the head's hidden layer, 0 for a linear head. `size`: pixels to which images are resized,
    None for the backbone's default: 128 for lite0, 224 for lite1 and lite2. Features have unit length; they are centred on
    the pool's mean and scaled to one mean length. `cache`: folder for the embeddings, by default in the data home; they are
    looked up by the content of the images. `dropout`: of the head, for BALD and BatchBALD.

    `seed`: of the augmented views and of the head's first weights.

    >>> learner = al.ActiveLearner(al.data.digits(), net=al.Frozen(backbone="raw", weak=0, strong=0))
    >>> len(learner.ask(5))
    5
    """

    backbone: str | nn.Module = "efficientnet-lite2"
    weak: CountOrZero = 1
    strong: CountOrZero = 2
    hidden: CountOrZero = 0
    size: Count | None = None
    weights: str | Path | None = field(default=None, metadata=LATER)
    pooling: Pooling = field(default="auto", metadata=LATER)
    cache: str | Path | None = None
    seed: CountOrZero = 0
    dropout: Share = field(default=0.0, metadata=LATER)
    plain: bool = field(default=False, metadata=LATER)

    def __post_init__(self) -> None:
        package, _, name = self.backbone.partition("/") if isinstance(self.backbone, str) else ("", "", "")
        if self.weights is not None and package not in ("timm", "torchvision"):
            raise OptionError(
                "Frozen: weights work with timm/NAME or torchvision/NAME only; the other backbones have their own"
            )
        known = self.backbone in (*IMAGE_BACKBONES, *TEXT_BACKBONES) or (name and package in PACKAGES)
        if isinstance(self.backbone, str) and not known:
            raise OptionError(f"{unknown('backbone', self.backbone, BACKBONES)}, or a module")


def as_frozen(net: Any) -> Frozen | None:
    """The frozen backbone that a net is, or that "frozen:BACKBONE" stands for; None for a net that is trained itself."""
    if isinstance(net, str) and net.startswith("frozen:"):
        return Frozen(backbone=net.removeprefix("frozen:"))
    return net if isinstance(net, Frozen) else None


class FrozenViews(CachedViews):
    """Features in mapped files, as a backbone made them; what is looked up is standardised: less `mean`, by `scale`. `rows`:
    the row of the plain file that each item has, where the file has others too. `also_plain`: the plain view is
    one of the weak ones."""

    def __init__(
        self,
        plain: np.ndarray,
        augmented: Mapping[ViewKey, np.ndarray],
        *,
        hidden: bool = False,
        backbone: Backbone | None = None,
        rows: np.ndarray | None = None,
        also_plain: bool = False,
    ) -> None:
        self.backbone, self.rows = backbone, rows
        places = np.arange(len(plain)) if rows is None else rows
        few = places[np.unique(np.linspace(0, len(places) - 1, min(SAMPLE, len(places))).astype(np.int64))]
        self.mean, self.scale = evened(torch.from_numpy(plain[few]).float(), hidden)
        weak, strong = (
            [array for view, array in augmented.items() if view.kind == kind] for kind in ("weak", "strong")
        )
        super().__init__(plain, [*weak, plain] if also_plain else weak or [plain], strong or [plain])

    def standardised(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale

    def __len__(self) -> int:
        return len(self._plain) if self.rows is None else len(self.rows)

    def _rows(self, view: Tensor | np.ndarray, at: np.ndarray) -> Tensor:
        at = self.rows[at] if self.rows is not None and view is self._plain else at
        return self.standardised(self._ready(view[at]))


def frozen_views(pool: Pool, frozen: Frozen, progress: Progress | None = None) -> FrozenViews:
    """The pool's images as cached, standardised features."""
    if pool.kind == "features":
        raise InputError(
            "a frozen backbone embeds images, got a pool of features; use net='linear' or net='mlp' on them"
        )
    if not isinstance(views_for(pool), ImageViews):
        raise InputError(f"a frozen backbone embeds images, got a pool of {pool.kind} items")
    backbone = make_backbone(frozen, pool)
    # What the views and the backbone do, not only how they are called: options that change and code that does.
    pixels, few = ImageViews(pool, **BYTES), pool.take(torch.arange(min(4, len(pool))))
    drawn = [pixels.view(kind, few, torch.Generator().manual_seed(0)) for kind in ("weak", "strong")]
    looks = digest.of_tensors({"drawn": torch.stack(drawn).round().to(torch.uint8)})
    backbone = backbone._replace(name=f"{backbone.name} {coarsely(backbone.embed(pixels.view('plain', few)))}")
    content = content_key(pool)

    def stored(*key: Any) -> Path:
        return cache_folder(frozen) / f"{digest.of_text(FORMAT, *key)[:32]}.npy"

    paths = {
        view: stored(content, backbone.name, *view, frozen.seed, "" if view.kind == "plain" else looks)
        for view in (PLAIN, *augmented(frozen.weak, frozen.strong))
    }
    embed_views(pool, backbone, paths, frozen.seed, progress, shared=True)
    arrays = {view: mapped(path) for view, path in paths.items()}
    views = FrozenViews(arrays.pop(PLAIN), arrays, hidden=frozen.hidden > 0, backbone=backbone, also_plain=frozen.plain)

    mean, scale = views.mean, views.scale  # not the views themselves, which these functions belong to

    def embed_outside(x: Any) -> Tensor:
        images = outside_bytes(x, pool)
        parts = [backbone.embed(images[i : i + BATCH]) for i in range(0, len(images), BATCH)]
        return (torch.cat(parts).half().float() - mean) / scale

    def embed_test() -> Tensor:
        # The same images are measured in every round of every run: they are embedded once, as the pool's own are.
        assert pool.test is not None
        images = outside_bytes(pool.test[0], pool)
        path = stored(digest.of_tensors({"items": images}), backbone.name, "test")
        embed_views(as_pool(images, kind="image"), backbone, {PLAIN: path}, shared=True)
        return (torch.from_numpy(np.array(mapped(path))).float() - mean) / scale

    views._embed, views._test = embed_outside, None if pool.test is None else cache(embed_test)
    return views


def embed_views(
    pool: Pool,
    backbone: Backbone,
    paths: Mapping[ViewKey, Path],
    seed: int = 0,
    progress: Progress | None = None,
    *,
    threads: int = 1,
    mend: Callable[[np.ndarray, np.ndarray], None] = lambda at, rows: None,
    shared: bool = False,
) -> None:
    """Writes the features (N, d) float16 of the pool's images, for each view that is not there yet, in one pass over the
    images: some threads read, one augments, some embed. `mend(positions, rows)` may change rows before they are written."""
    missing = [view for view, path in paths.items() if not is_whole(path, len(pool))]
    before, total = len(pool) * (len(paths) - len(missing)), len(pool) * len(paths)
    pixels = ImageViews(pool, **BYTES)

    def pieces(done: int, state: list[str] | None) -> Iterator[Piece]:
        generators = [torch_stream(seed, f"{view.kind} {view.number}") for view in missing]
        for generator, text in zip(generators, state or (), strict=False):
            generator.set_state(torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8))

        def drawn(taken: tuple[np.ndarray, Tensor]) -> tuple[np.ndarray, list[Tensor], list[str]]:
            images = [
                pixels.view(v.kind, taken[1], generator) for v, generator in zip(missing, generators, strict=True)
            ]
            return taken[0], images, [generator.get_state().numpy().tobytes().hex() for generator in generators]

        def embedded(drawn: tuple[np.ndarray, list[Tensor], list[str]]) -> Piece:
            at, images, after = drawn
            rows = [backbone.embed(x).half().numpy() for x in images]
            for array in rows:
                mend(at, array)
            return Piece(rows, after)

        parts = (np.arange(start, min(start + BATCH, len(pool))) for start in range(done, len(pool), BATCH))
        taken = by_threads(lambda at: (at, pool.take(at)), parts, threads)
        yield from by_threads(embedded, map(drawn, taken), threads)

    def told(done: int, n: int) -> None:
        if progress is not None:
            progress(before + done * len(missing), total)

    if missing:
        made_by = digest.of_text(FORMAT, backbone.name, BATCH, seed, missing)
        write_rows([paths[view] for view in missing], len(pool), made_by, pieces, told, shared)
    told(len(pool) if missing else 0, len(pool))


def cache_folder(frozen: Frozen) -> Path:
    return Path(frozen.cache) if frozen.cache is not None else data_home() / "embeddings"


def make_backbone(frozen: Frozen, pool: Pool | None = None, device: str = "cpu") -> Backbone:
    """The function that embeds images, by name or around a module (which needs the pool, and stays where it is)."""
    if isinstance(frozen.backbone, nn.Module):
        assert pool is not None
        views = ImageViews(pool)
        return module_backbone(frozen.backbone, views.mean, views.std, frozen.size)
    if frozen.backbone in TEXT_BACKBONES:
        raise OptionError(
            f"the backbone {frozen.backbone} embeds texts, got images; use one for images, such as efficientnet-lite2"
        )
    if frozen.backbone == "raw":
        return raw(frozen.size)
    if frozen.backbone in LITE:
        return efficientnet_lite(frozen.backbone, frozen.size, device)
    package, _, name = frozen.backbone.partition("/")
    if package == "hf":
        return hf_images(name, frozen.size, frozen.pooling, device)
    by_name = timm_by_name if package == "timm" else torchvision_by_name
    return by_name(name, frozen.size, frozen.weights, device)


def outside_bytes(x: Any, pool: Pool) -> Tensor:
    """Images from outside as the pool has them, as bytes."""
    return ImageViews(pool, **BYTES).of(x).round().clamp(0, 255).to(torch.uint8)


def coarsely(x: Tensor) -> str:
    """A text of some of these numbers, the same on machines that differ in the last digits."""
    some = x.flatten()[:: max(1, x.numel() // 16)]
    return f"{tuple(x.shape)} {[round(float(v), 1) + 0.0 for v in some / x.abs().max().clamp(min=1e-12)]}"


def content_key(pool: Pool) -> str:
    """A hash of the pool's items."""
    tiles = (pool.take(np.arange(i, min(i + 1024, len(pool)))) for i in range(0, len(pool), 1024))
    return digest.of_text([digest.of_tensors({"items": tile}) for tile in tiles])
