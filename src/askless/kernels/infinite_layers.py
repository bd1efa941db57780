r"""The layers of an infinitely wide ReLU network, as maps of kernels.

At infinite width the pre-activations of two inputs are Gaussian, with variances p, q and covariance c, and the next layer
needs only E[relu(u) relu(v)] and E[1(u > 0) 1(v > 0)], which the angle of the two gives in closed form (Cho & Saul, 2009;
Jacot et al., 2018; Arora et al., 2019). What is carried from layer to layer is p, q, the tangent kernel T and, instead of c,

    delta = p + q - 2 c = E (u - v)^2.

A kernel from arccos(c / sqrt(p q)) is wrong in the eighth digit where two inputs are equal, and copies would then look
different enough to count in a rank; delta is 0 there and stays 0, and nothing is subtracted from anything near to it.
It is also linear in everything that a convolution does to c.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from askless.kernels.infinite_nets import Conv, InfiniteMLP, InfiniteNet

Kind = Literal["ntk", "nngp"]
Axes = tuple[tuple[int, ...], ...]  # the axes along which a window moves, those of one side of it together

NEAR = 1e-3  # squared distances below this share of the squared lengths are computed from differences
HAIR = 8 * torch.finfo(torch.float64).eps
GATHERED = 2**16  # numbers gathered for them at a time


class Layout(NamedTuple):
    """Where the pixels stand in arrays of pairs, for images: `pairs` for delta and T, `rows` for p, `columns` for q."""

    pairs: Axes = ()
    rows: Axes = ()
    columns: Axes = ()

    @property
    def pixels(self) -> tuple[int, ...]:
        return tuple(axis for group in self.pairs for axis in group)


NO_PIXELS = Layout()
SAME_PIXEL = Layout(((0,), (1,)), ((0,), (1,)), ((0,), (1,)))  # (H, W, a, b), or (H, W, a)
ALL_PIXELS = Layout(((1, 4), (2, 5)), ((1,), (2,)), ((4,), (5,)))  # (a, H, W, b, H, W)
ALL_PIXELS_OF_ONE = Layout(((1, 3), (2, 4)), ((1,), (2,)), ((3,), (4,)))  # (a, H, W, H, W)


class Pairs(NamedTuple):
    """What the first layer sees: squared distances and squared lengths per number of fan in, p and q broadcasting."""

    delta: Tensor
    p: Tensor
    q: Tensor
    layout: Layout


def pairs(net: InfiniteNet, A: Tensor, B: Tensor) -> Pairs:
    """Every item of A (a, ...) with every item of B (b, ...)."""
    if isinstance(net, InfiniteMLP):
        A, B = A.flatten(1), B.flatten(1)
        return Pairs(sq_distances(A, B) / A.shape[1], _mean_sq(A)[:, None], _mean_sq(B), NO_PIXELS)
    A, B = windows(A, net.convolutions()[0]), windows(B, net.convolutions()[0])  # (a, H, W, m)
    p, q, m = _mean_sq(A), _mean_sq(B), A.shape[-1]
    if net.readout == "flatten":
        A, B = A.permute(1, 2, 0, 3), B.permute(1, 2, 0, 3)  # (H, W, a, m)
        return Pairs(sq_distances(A, B) / m, p.permute(1, 2, 0)[..., None], q.permute(1, 2, 0)[:, :, None], SAME_PIXEL)
    delta = sq_distances(A.flatten(0, 2), B.flatten(0, 2)).reshape(*p.shape, *q.shape) / m  # (a, H, W, b, H, W)
    return Pairs(delta, p[..., None, None, None], q[None, None, None], ALL_PIXELS)


def twins(net: InfiniteNet, A: Tensor) -> Pairs:
    """Every item of A (a, ...) with itself."""
    if isinstance(net, InfiniteMLP):
        p = _mean_sq(A.flatten(1))
        return Pairs(torch.zeros_like(p), p, p, NO_PIXELS)
    A = windows(A, net.convolutions()[0])
    p, (a, h, w, m) = _mean_sq(A), A.shape
    if net.readout == "flatten":
        p = p.permute(1, 2, 0)
        return Pairs(torch.zeros_like(p), p, p, SAME_PIXEL)
    rows = A.flatten(1, 2)
    delta = sq_distances(rows, rows).reshape(a, h, w, h, w) / m
    return Pairs(delta, p[..., None, None], p[:, None, None], ALL_PIXELS_OF_ONE)


def kernel(net: InfiniteNet, start: Pairs, kind: Kind) -> Tensor:
    """The kernel of the network's output: (a, b) of `pairs`, (a,) of `twins`."""
    w, b = net.sigma_w**2, net.sigma_b**2
    delta, p, q, layout = start
    delta, p, q = w * delta, w * p + b, w * q + b
    T = (p + q - delta) / 2 if kind == "ntk" else None
    after = [*net.convolutions()[1:], None] if layout.pairs else [None] * net.depth
    for i, conv in enumerate(after):
        delta, T = through_relu(delta, T, p, q)
        p, q = p / 2, q / 2
        if i == net.depth - 1:
            break
        if conv is not None:
            delta, T = convolve(delta, p, q, layout, conv), None if T is None else _means(T, layout.pairs, conv)
            p, q = _means(p, layout.rows, conv), _means(q, layout.columns, conv)
        delta, p, q = w * delta, w * p + b, w * q + b
        if T is not None:
            T = T.mul_(w).add_(p / 2).add_(q / 2).sub_(delta, alpha=0.5)
    K = w * _readout((p + q - delta) / 2, layout) + b
    return K if T is None else K + w * _readout(T, layout)


def through_relu(delta: Tensor, T: Tensor | None, p: Tensor, q: Tensor) -> tuple[Tensor, Tensor | None]:
    r"""delta of relu(u), relu(v) and T E[1(u > 0) 1(v > 0)]; their variances are p / 2 and q / 2. Writes into T.

    With the angle theta of u and v, E[1 1] = (pi - theta) / 2 pi and E[relu relu] = sqrt(p q) kappa / 2, where
    kappa = (sin theta + (pi - theta) cos theta) / pi. So the new delta is (sqrt p - sqrt q)^2 / 2 + sqrt(p q) (1 - kappa).
    The angle comes from s = sin^2(theta / 2), by the law of cosines.
    """
    root_p, root_q = p.sqrt(), q.sqrt()
    root = root_p * root_q
    gap = (root_p - root_q).square_()
    # A hair off delta and off 1: what is parallel or opposite but for rounding, becomes so, where the root would magnify it.
    # Where p or q is 0 there is no angle; whatever s is there, it meets a root and a T of 0.
    s = (delta * (1 - HAIR)).sub_(gap).div_((4 * root).clamp_(min=1e-300)).clamp_(0, 1)
    cos_half = (1 - 2 * HAIR - s).clamp_(min=0).sqrt_()
    sin_half = s.sqrt()
    theta = torch.atan2(sin_half, cos_half).mul_(2)
    if T is not None:
        T = T.mul_(theta.div(-2 * math.pi).add_(0.5))
    away = s.mul_(2 * math.pi).sub_(sin_half.mul_(cos_half).mul_(2))  # pi (1 - kappa) = 2 pi s - sin + theta cos
    cos = cos_half.square_().mul_(2).sub_(1)
    away = away.add_(theta.mul_(cos)).div_(math.pi)
    return away.mul_(root).add_(gap, alpha=0.5), T


def convolve(delta: Tensor, p: Tensor, q: Tensor, layout: Layout, conv: Conv) -> Tensor:
    """delta of the means over windows. Outside the images u and v are 0, so that delta is q, p or 0 there: p + q."""
    if conv.padding:
        outer = _padded(p, layout.rows, conv.padding) + _padded(q, layout.columns, conv.padding)
        inside: list[slice] = [slice(None)] * outer.ndim
        for axis in layout.pixels:
            inside[axis] = slice(conv.padding, outer.shape[axis] - conv.padding)
        outer[tuple(inside)] = delta
        delta = outer
    return window_means(delta, layout.pairs, conv)


def window_means(X: Tensor, axes: Axes, conv: Conv) -> Tensor:
    """The mean over windows that move along each group of axes together, one side of the window after the other."""
    for group in axes:
        reach = (X.shape[group[0]] - conv.kernel) // conv.stride * conv.stride + 1
        parts = []
        for offset in range(conv.kernel):
            where: list[slice] = [slice(None)] * X.ndim
            for axis in group:
                where[axis] = slice(offset, offset + reach, conv.stride)
            parts.append(X[tuple(where)])
        total = parts[0].clone()
        for part in parts[1:]:
            total += part
        X = total
    return X.div_(conv.kernel ** len(axes))


def windows(X: Tensor, conv: Conv) -> Tensor:
    """What each window of the first layer sees: (n, C, H, W) -> (n, H', W', C kernel²)."""
    n, _, h, w = X.shape
    columns = F.unfold(X, conv.kernel, padding=conv.padding, stride=conv.stride)  # (n, m, H' W')
    return columns.mT.reshape(n, conv.side(h), conv.side(w), columns.shape[1]).contiguous()


def sq_distances(A: Tensor, B: Tensor) -> Tensor:
    """|a - b|^2, (..., a, m), (..., b, m) -> (..., a, b): by products, and again from differences where rows are near."""
    sq_a, sq_b = _sq(A)[..., :, None], _sq(B)[..., None, :]
    D = (A @ B.mT).mul_(-2).add_(sq_a).add_(sq_b)
    near = torch.nonzero(D.lt(NEAR * sq_a + NEAR * sq_b))
    for some in near.split(max(1, GATHERED // A.shape[-1])):
        *batch, i, j = some.unbind(1)
        both, of_a, of_b = (*batch, i, j), (*batch, i), (*batch, j)
        D[both] = (A[of_a] - B[of_b]).square().sum(-1)
    return D


def _means(X: Tensor, axes: Axes, conv: Conv) -> Tensor:
    return window_means(_padded(X, axes, conv.padding), axes, conv)


def _padded(X: Tensor, axes: Axes, width: int) -> Tensor:
    """X with `width` zeros before and after along the axes."""
    if width == 0:
        return X
    around: list[int] = [0] * (2 * X.ndim)
    for axis in (axis for group in axes for axis in group):
        around[2 * (X.ndim - 1 - axis)] = around[2 * (X.ndim - 1 - axis) + 1] = width  # last axis first
    return F.pad(X, around)


def _readout(X: Tensor, layout: Layout) -> Tensor:
    """The mean over the pixels, or over the pairs of pixels."""
    return X.mean(dim=layout.pixels) if layout.pairs else X


def _sq(X: Tensor) -> Tensor:
    """|x|^2 of every row, without an array of squares: a row may be a large image."""
    return torch.einsum("...m,...m->...", X, X)


def _mean_sq(X: Tensor) -> Tensor:
    return _sq(X) / X.shape[-1]
