"""Views of a pool's items for the training loop: plain, weak and strong."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from askless.base.errors import InputError
from askless.data.augment import flip_and_crop
from askless.data.pool import Pool
from askless.data.randaugment import Policy, as_policy, rand_augment
from askless.data.rows import TILE, as_rows, positions, take_rows, torch_dtype
from askless.sources.layout import as_images

SAMPLE = 2000  # items of a Dataset that mean and standard deviation are computed from
# On floats that are not images, in standard deviations. .15: as Laine & Aila and Oliver et al. on whitened images.
WEAK_NOISE, STRONG_NOISE = 0.15, 0.5
BatchView = Callable[[Tensor, torch.Generator], Tensor]


class Views(Protocol):
    """What the training loop needs of its data; `indices` are positions in the pool. Views that have `labelled(indices,
    generator)` show labelled items by it, any other by `weak`.

    >>> views = al.data.views_for(al.data.digits())
    >>> views.plain([0, 1]).shape
    torch.Size([2, 1, 8, 8])
    """

    def __len__(self) -> int: ...

    def plain(self, indices: Any) -> Tensor: ...

    def weak(self, indices: Any, generator: torch.Generator) -> Tensor: ...

    def strong(self, indices: Any, generator: torch.Generator) -> Tensor: ...

    def of(self, x: Any) -> Tensor:
        """The plain view of items from outside the pool."""
        ...


class ImageViews:
    """Views of images, (n, C, H, W) float32, normalised by `mean` and `std` (per channel, of pixels in [0, 1]).

    Weak: mirrored with probability 1/2 where `pool.flip`, then shifted by up to `padding` pixels (an eighth of the
    shorter side by default) with the border reflected or zero, then Gaussian `noise` on the normalised pixels. Strong:
    RandAugment and Cutout by `policy` besides flip and shift; float images are rounded to 8 bits for it. Mean and
    standard deviation are the pool's by default. Views are made on `device`, by default where the pool is.

    >>> views = al.data.ImageViews(al.data.digits(), padding=1)
    >>> views.strong([0, 1], torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1, 8, 8])
    """

    def __init__(
        self,
        pool: Pool,
        *,
        policy: str | Policy = "kekmodel",
        padding: int | None = None,
        border: Literal["reflect", "zero"] = "reflect",
        noise: float = 0.0,
        mean: Sequence[float] | float | None = None,
        std: Sequence[float] | float | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if pool.kind != "image":
            raise InputError(f"ImageViews: expected a pool of images, got {pool.kind} items; use PlainViews")
        if len(pool.shape) != 3:
            raise InputError(f"ImageViews: expected images (C, H, W), got items of shape {pool.shape}")
        if border not in ("reflect", "zero"):
            raise InputError(f"border: expected 'reflect' or 'zero', got {border!r}")
        side = min(pool.shape[1:])
        self.pool, self.policy, self.noise, self.border = pool, as_policy(policy), noise, border
        self.padding = round(side / 8) if padding is None else padding
        if not 0 <= self.padding < side:
            raise InputError(f"padding: expected 0 to {side - 1} pixels for images of {side}, got {padding}")
        self.device = torch.device(device) if device is not None else None
        known = None if mean is not None and std is not None else pixel_statistics(pool)
        self.mean = per_channel("mean", mean, pool.shape[0]) if mean is not None or known is None else known[0]
        self.std = per_channel("std", std, pool.shape[0]) if std is not None or known is None else known[1]
        if (self.std <= 0).any():
            raise InputError(f"std: expected numbers > 0, got {self.std.tolist()}")

    def __len__(self) -> int:
        return len(self.pool)

    def plain(self, indices: Any) -> Tensor:
        return self.view("plain", self._take(indices))

    def weak(self, indices: Any, generator: torch.Generator) -> Tensor:
        return self.view("weak", self._take(indices), generator)

    def strong(self, indices: Any, generator: torch.Generator) -> Tensor:
        return self.view("strong", self._take(indices), generator)

    def view(self, kind: str, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The plain, a weak or a strong view of images that were taken from the pool."""
        if kind == "plain":
            return self._normalised(x)
        assert generator is not None
        if kind == "weak":
            x = self._normalised(self._flip_and_crop(x, generator))
            return add_noise(x, self.noise, generator) if self.noise else x
        x = as_bytes(x)
        if self.policy.weak_first:
            x = rand_augment(self._flip_and_crop(x, generator), generator, self.policy)
        else:
            x = self._flip_and_crop(rand_augment(x, generator, self.policy), generator)
        return self._normalised(x)

    def of(self, x: Any) -> Tensor:
        """The plain view of images from outside: (n, C, H, W), (n, H, W, C), (n, H, W), one (C, H, W), or a Dataset."""
        images = outside_rows(x)
        if tuple(images.shape) == self.pool.shape:
            images = images[None]
        if tuple(images.shape[1:]) != self.pool.shape:
            images = torch.as_tensor(as_images(images))
        if tuple(images.shape[1:]) != self.pool.shape:
            raise InputError(f"images: expected shape {self.pool.shape} as in the pool, got {tuple(images.shape[1:])}")
        if images.dtype != torch.uint8 and not images.is_floating_point():
            raise InputError(f"images: expected uint8, or float in [0, 1], got {images.dtype}; use x.astype('uint8')")
        check_range(images)
        return self._normalised(images.to(self.device) if self.device is not None else images)

    def _take(self, indices: Any) -> Tensor:
        x = self.pool.take(indices)
        return x if self.device is None else x.to(self.device)

    def _flip_and_crop(self, x: Tensor, generator: torch.Generator) -> Tensor:
        B, P = len(x), self.padding
        u = torch.rand(B, generator=generator, device=generator.device)
        shift = torch.randint(-P, P + 1, (2, B), generator=generator, device=generator.device)
        flipped, shift = ((u < 0.5) & self.pool.flip).to(x.device), shift.to(x.device)
        return flip_and_crop(x, flipped, shift[0], shift[1], reflect=self.border == "reflect")

    def _normalised(self, x: Tensor) -> Tensor:
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        mean, std = (t.to(x.device)[None, :, None, None] * scale for t in (self.mean, self.std))
        return x.to(torch.float32, copy=True).sub_(mean).div_(std)


class PlainViews:
    """Views of features, tokens or a Dataset's own tensors.

    `weak` and `strong` are functions (batch, generator) -> batch. Without them, floats get Gaussian noise, in units of each
    entry's standard deviation over the pool: `weak_noise` in the weak view; `noise` in the strong one, where a share
    `dropout` of the entries is then set to zero. Labelled items are shown without noise. Tokens look the same in every
    view.

    `device`: where the views are made.

    >>> views = al.data.PlainViews(al.data.two_moons(n=50), weak_noise=0.1, noise=0.3)
    >>> views.strong([0, 1], torch.Generator().manual_seed(0)).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        pool: Pool,
        weak: BatchView | None = None,
        strong: BatchView | None = None,
        *,
        weak_noise: float | None = None,
        noise: float | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
    ) -> None:
        for name, own, given in (("weak", weak, weak_noise), ("strong", strong, noise or dropout)):
            if given and (own is not None or not pool.take([0]).is_floating_point()):
                which = f"together with {name}=" if own is not None else "for whole numbers"
                raise InputError(f"PlainViews: noise and dropout make views of floats, got them {which}; drop them")
        self._noise = {"weak": WEAK_NOISE if weak_noise is None else weak_noise}
        self._noise["strong"] = STRONG_NOISE if noise is None else noise
        if min(self._noise.values()) < 0 or not 0 <= dropout < 1:
            raise InputError(
                f"PlainViews: expected weak_noise and noise >= 0 and 0 <= dropout < 1, got {self._noise['weak']}, "
                f"{self._noise['strong']} and {dropout}"
            )
        self.pool, self.device = pool, torch.device(device) if device is not None else None
        self._own_weak, self._own_strong, self._dropout = weak, strong, dropout

    def __len__(self) -> int:
        return len(self.pool)

    def plain(self, indices: Any) -> Tensor:
        return self._ready(self.pool.take(indices))

    def weak(self, indices: Any, generator: torch.Generator) -> Tensor:
        x = self.plain(indices)
        return self._noisy(x, "weak", generator) if self._own_weak is None else self._own_weak(x, generator)

    def strong(self, indices: Any, generator: torch.Generator) -> Tensor:
        x = self.plain(indices)
        if self._own_strong is not None:
            return self._own_strong(x, generator)
        x = self._noisy(x, "strong", generator)
        if self._dropout:
            kept = torch.rand(x.shape, generator=generator, device=generator.device).to(x.device) >= self._dropout
            x = x * kept / (1 - self._dropout)  # the expectation stays
        return x

    def labelled(self, indices: Any, generator: torch.Generator) -> Tensor:
        """The weak view where it is one of your own, else the items as they are."""
        return self.plain(indices) if self._own_weak is None else self.weak(indices, generator)

    def _noisy(self, x: Tensor, kind: str, generator: torch.Generator) -> Tensor:
        noise = self._noise[kind]
        return add_noise(x, noise * self._std.to(x.device), generator) if noise and x.is_floating_point() else x

    @cached_property
    def _std(self) -> Tensor:
        """Each entry's standard deviation over a sample of the pool; exactly 0 where it is constant."""
        n = min(SAMPLE, len(self.pool))
        x = self.pool.take(np.linspace(0, len(self.pool) - 1, n, dtype=np.int64)).double()
        x -= x[:1].clone()  # small numbers: no digits are lost in the squares
        return (x.square().sum(dim=0) / n - (x.sum(dim=0) / n).square()).clamp(min=0).sqrt().float()

    def of(self, x: Any) -> Tensor:
        """The plain view of items from outside: an array or tensor (n, ...), or a Dataset."""
        rows = outside_rows(x)
        if tuple(rows.shape) == self.pool.shape:
            rows = rows[None]
        if rows.ndim != len(self.pool.shape) + 1 or (
            self.pool.kind == "features" and rows.shape[1:] != self.pool.shape
        ):
            raise InputError(
                f"items: expected shape {self.pool.shape} as in the pool, got {tuple(rows.shape[1:])}; prepare them like "
                "the pool"
            )
        if self.pool.kind == "features" and not (finite := rows.isfinite().all(dim=1)).all():
            raise InputError(
                f"items: expected finite numbers, got a nan or an infinity in row {int(finite.long().argmin())}; fix or "
                "leave out the row"
            )
        return self._ready(rows)

    def _ready(self, x: Tensor) -> Tensor:
        x = x if self.device is None else x.to(self.device)
        is_number = x.is_floating_point() or x.dtype == torch.bool or self.pool.kind == "features"
        return x.float() if is_number else x


class CachedViews:
    """Views computed once and looked up: `plain` (N, ...), `weak` and `strong` some arrays of that shape each, floats.

    A draw picks one of the weak (or strong) views for each item by itself. `embed` makes the plain view of items from
    outside; without it they must be embedded already. `test` gives the pool's test items, embedded once.

    `device`: where they are kept.

    >>> views = al.data.CachedViews(np.zeros((5, 3)), [np.ones((5, 3))], [np.ones((5, 3))])
    >>> views.weak([4], torch.Generator().manual_seed(0))
    tensor([[1., 1., 1.]])
    """

    def __init__(
        self,
        plain: Any,
        weak: Any,
        strong: Any,
        *,
        embed: Callable[[Any], Tensor] | None = None,
        test: Callable[[], Tensor] | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self._test = test
        self._plain = as_stored(plain)
        self._weak, self._strong = ([as_stored(view) for view in views] for views in (weak, strong))
        shape = (len(self), *self._plain.shape[1:])
        for name, views, given in (("weak", self._weak, weak), ("strong", self._strong, strong)):
            if not views or any(view is not self._plain and tuple(view.shape) != shape for view in views):
                raise InputError(
                    f"CachedViews: expected {name} of shape (views, {', '.join(map(str, shape))}) to go with plain, "
                    f"got {tuple(np.shape(given))}"
                )
        self._embed, self.device = embed, torch.device(device) if device is not None else None

    def __len__(self) -> int:
        return len(self._plain)

    def plain(self, indices: Any) -> Tensor:
        return self._rows(self._plain, positions(indices, len(self)))

    def weak(self, indices: Any, generator: torch.Generator) -> Tensor:
        return self._draw(self._weak, indices, generator)

    def strong(self, indices: Any, generator: torch.Generator) -> Tensor:
        return self._draw(self._strong, indices, generator)

    def of(self, x: Any) -> Tensor:
        rows = as_stored(x) if self._embed is None else self._embed(x)
        if tuple(rows.shape[1:]) != tuple(self._plain.shape[1:]):
            raise InputError(
                f"items: expected shape {tuple(self._plain.shape[1:])} as the cached views have, got {tuple(rows.shape[1:])}"
            )
        return self._ready(rows)

    def test(self) -> Tensor | None:
        """The pool's test items as inputs of the network; None if only `of` can make them."""
        return None if self._test is None else self._ready(self._test())

    def _draw(self, views: Sequence[Any], indices: Any, generator: torch.Generator) -> Tensor:
        at = positions(indices, len(self))
        which = torch.randint(len(views), (len(at),), generator=generator, device=generator.device).cpu()
        drawn = self._rows(views[0], at)
        for v in range(1, len(views)):
            here = which == v
            drawn[here.to(drawn.device)] = self._rows(views[v], at[here.numpy()])
        return drawn

    def _rows(self, view: Tensor | np.ndarray, at: np.ndarray) -> Tensor:
        """The items at these places in one of the arrays."""
        return self._ready(view[at])

    def _ready(self, x: Tensor | np.ndarray) -> Tensor:
        rows = x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
        return rows.to(self.device or rows.device, torch.float32)


def views_for(pool: Pool, **options: Any) -> ImageViews | PlainViews:
    """ImageViews for a pool of images, PlainViews for any other; `options` are theirs.

    >>> type(al.data.views_for(al.data.digits(), policy="official")).__name__
    'ImageViews'
    """
    return ImageViews(pool, **options) if pool.kind == "image" else PlainViews(pool, **options)


def outside_rows(x: Any) -> Tensor:
    """Items from outside the pool as one tensor: of an array, a list, or all of a Dataset."""
    rows = as_rows(x)
    if isinstance(rows, np.ndarray):
        return torch.from_numpy(np.array(rows, torch_dtype(rows)))
    return rows if isinstance(rows, Tensor) else take_rows(rows, np.arange(len(rows)))


def pixel_statistics(pool: Pool) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel (C,), of pixels in [0, 1], over the pool (a Dataset: over a sample)."""
    at = np.arange(len(pool))
    if not isinstance(pool.x, Tensor | np.ndarray):
        at = np.unique(np.linspace(0, len(pool) - 1, min(SAMPLE, len(pool))).astype(np.int64))
    total = torch.zeros(2, pool.shape[0], dtype=torch.float64)
    for start in range(0, len(at), TILE):
        x = pool.take(at[start : start + TILE])
        check_range(x)
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        pixels = x.transpose(0, 1).flatten(1).float().div_(scale)  # (C, n H W)
        total += torch.stack([pixels.sum(dim=1), pixels.square().sum(dim=1)]).double().cpu()
    mean, square = total / (len(at) * pool.shape[1] * pool.shape[2])
    std = (square - mean.square()).clamp(min=0).sqrt()
    return mean.float(), torch.where(std > 1e-4, std, 1.0).float()  # a constant channel is only centred


def check_range(x: Tensor) -> None:
    """Floats outside [0, 1] would be taken for other pixels than they are."""
    if x.dtype != torch.uint8 and x.numel() and (x.min() < 0 or x.max() > 1):
        raise InputError(
            f"images: expected uint8, or float in [0, 1], got floats from {x.min():.4g} to {x.max():.4g}; "
            "scale them, or pass kind='other' for images that are already normalised"
        )


def per_channel(name: str, given: Sequence[float] | float | None, C: int) -> Tensor:
    values = torch.as_tensor(given, dtype=torch.float32).flatten()
    if len(values) not in (1, C):
        raise InputError(f"{name}: expected one number, or one per channel, {C}, got {len(values)}")
    return values.expand(C).clone()


def as_bytes(x: Tensor) -> Tensor:
    return x if x.dtype == torch.uint8 else (x * 255).round_().clamp_(0, 255).to(torch.uint8)


def add_noise(x: Tensor, scale: Tensor | float, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(x.shape, generator=generator, device=generator.device).to(x.device)
    return x + scale * drawn


def as_stored(given: Any) -> Any:
    """Tensors as they are; arrays as tensors where they may be written to, else (mapped files) as they are."""
    if isinstance(given, Tensor):
        return given.detach()
    array = np.asarray(given)
    if array.dtype.kind != "f":
        raise InputError(f"CachedViews: expected floats, got dtype {array.dtype}")
    return torch.from_numpy(array) if array.flags.writeable else array
