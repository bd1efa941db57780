"""Kernels of infinitely wide networks, in tiles of bounded memory."""

from collections.abc import Callable, Iterator
from math import isqrt, prod
from typing import get_args

import torch
from torch import Tensor

from askless.base.errors import InputError
from askless.base.options import check_choice, check_count
from askless.kernels.infinite_layers import Kind, kernel, pairs, twins
from askless.kernels.infinite_nets import InfiniteCNN, InfiniteMLP, InfiniteNet, largest_map
from askless.kernels.inputs import Examples, Place, rows, some

TILE = 2**17  # numbers of an array of pairs: larger tiles leave the cache, smaller ones are many
ARRAYS = 10  # of that size that are held at once
WINDOWS = 4  # copies of the first layer's windows
Progress = Callable[[int, int], None]


def infinite(
    x: Examples,
    x2: Examples | None = None,
    *,
    net: InfiniteNet | None = None,
    kind: Kind = "ntk",
    max_memory: int = 2**28,
    progress: Progress | None = None,
) -> Tensor:
    r"""The kernel of an infinitely wide ReLU network, (n, n2) in float64; x2=None means x2=x. No network is made.

    `net` is `InfiniteMLP(...)` (where it is None, with its default numbers) or `InfiniteCNN(...)`. `kind`: "ntk", the
    tangent kernel of one output, which `ntk(layers="all") / C` of a network of that shape comes to as it grows wide; or
    "nngp", the covariance of the outputs at initialisation. Whole numbers (pixels from 0 to 255) are taken as they are:
    with sigma_b = 0 a scale of the inputs is one of the kernel, otherwise divide first.

    Work on an image: n n2 depth, times the pixels of the maps with readout="flatten", times their square with "gap". It
    runs where x is, in tiles of at most `max_memory` bytes beside the inputs and the kernel; `progress(done, total)` is told
    how many pairs of items are done.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    >>> infinite(x, net=InfiniteMLP(depth=1, sigma_w=1.0)).round(decimals=4)  # 1/2, 4 (1/2) and 2 / (2 pi), per input
    tensor([[0.5000, 0.1592],
            [0.1592, 2.0000]], dtype=torch.float64)
    """
    X, net = prepared("x", x, net, kind, max_memory)
    if x2 is None:
        return kernel_matrix(X, X, net, kind, max_memory, progress, mirrored=True)
    X2, _ = prepared("x2", x2, net, kind, max_memory)
    if X2.shape[1:] != X.shape[1:]:
        raise InputError(f"x2: expected items of shape {tuple(X.shape[1:])}, as in x, got {tuple(X2.shape[1:])}")
    return kernel_matrix(X, X2.to(X.device), net, kind, max_memory, progress)


def diagonal(X: Tensor, net: InfiniteNet, kind: Kind, max_memory: int) -> Tensor:
    """K(x, x) of every item, (n,)."""
    step = max(1, _room(X, net, max_memory))
    return torch.cat([kernel(net, twins(net, part), kind) for part in X.split(step)])


def prepared(
    name: str, x: Examples, net: InfiniteNet | None, kind: Kind, max_memory: int
) -> tuple[Tensor, InfiniteNet]:
    """The items in float64, where they are, and the network; or an error in words."""
    net = InfiniteMLP() if net is None else net
    if not isinstance(net, InfiniteMLP | InfiniteCNN):
        raise InputError(
            f"net: expected InfiniteMLP(...) or InfiniteCNN(...), got {type(net).__name__}; a finite network goes into "
            'kernels.ntk(model, x, layers="all")'
        )
    check_choice("infinite", "kind", kind, get_args(Kind))
    check_count("infinite", "max_memory", max_memory)
    place = Place(x.device if isinstance(x, Tensor) else torch.device("cpu"), torch.float64)
    X = rows(x, 0, some(x), place).double()
    if X.ndim < 2 or X[0].numel() == 0:
        raise InputError(f"{name}: expected numbers for every item, shape (N, d) or (N, C, H, W), got {tuple(X.shape)}")
    finite = X.isfinite().flatten(1).all(dim=1)
    if not bool(finite.all()):
        raise InputError(f"{name}: expected finite numbers, got NaN or infinity in item {int(finite.long().argmin())}")
    if not _room(X, net, max_memory):
        raise InputError(
            f"{name}: expected one pair of images to fit in max_memory, {max_memory:,} bytes, got images of "
            f"{tuple(X.shape[1:])} that need {_bytes_each(X, net):,}; shrink them (torch.nn.functional.avg_pool2d), use a "
            'stride, readout="flatten", or raise max_memory'
        )
    return X, net


def _bytes_each(X: Tensor, net: InfiniteNet) -> int:
    """Bytes of one pair of items: arrays of its pixels or pairs of pixels, and the windows that the first layer sees."""
    if isinstance(net, InfiniteMLP):
        return 8 * ARRAYS
    windows = prod(map(net.convolutions()[0].side, X.shape[2:])) * X.shape[1] * net.kernel**2
    return 8 * (ARRAYS * _pixels(X, net) + WINDOWS * 2 * windows)


def _pixels(X: Tensor, net: InfiniteNet) -> int:
    """Numbers that stand for one pair of items in an array."""
    pixels = largest_map(net, tuple(X.shape[1:]))
    return pixels**2 if isinstance(net, InfiniteCNN) and net.readout == "gap" else pixels


def _room(X: Tensor, net: InfiniteNet, max_memory: int) -> int:
    """Pairs of items in a tile; 0 where not even one fits."""
    return min(max_memory // _bytes_each(X, net), max(1, TILE // _pixels(X, net)))


def kernel_matrix(
    A: Tensor,
    B: Tensor,
    net: InfiniteNet,
    kind: Kind,
    max_memory: int,
    progress: Progress | None = None,
    mirrored: bool = False,
) -> Tensor:
    """K(A, B), (a, b); with `mirrored`, B is A and half of it is computed."""
    K = torch.zeros(len(A), len(B), dtype=torch.float64)
    room, done = _room(A, net, max_memory), 0
    total = len(A) * (len(A) + 1) // 2 if mirrored else len(A) * len(B)
    for i, j in _corners(len(A), len(B), room, mirrored):
        tile = kernel(net, pairs(net, A[i], B[j]), kind).cpu()
        K[i, j] = tile
        done = min(total, done + tile.numel())
        if progress is not None:
            progress(done, total)
    if mirrored:
        for row in range(len(K)):  # in place: the kernel may be all that fits
            K[row + 1 :, row] = K[row, row + 1 :]
    return K


def _corners(a: int, b: int, room: int, mirrored: bool) -> Iterator[tuple[slice, slice]]:
    """Tiles of up to `room` pairs that cover (a, b), or at least its upper half: as square as can be, since a tile costs its
    sides, too."""
    wide = max(min(b, isqrt(room)), min(b, room // a))
    tall = max(1, room // wide)
    for i in range(0, a, tall):
        for j in range(i if mirrored else 0, b, wide):
            yield slice(i, i + tall), slice(j, j + wide)
