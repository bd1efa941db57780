r"""||g||^2 and g . G of one layer's parameter, for every example of a batch at once.

A layer gets a (its input) and delta (the gradient of the loss over its output) for n examples; g is the gradient of
one example's loss over one parameter of the layer, G any tensor of that parameter's shape, or None where no g . G is
wanted. Where T positions share the parameter (tokens, pixels), g is a sum over them,

    g = \sum_t delta_t a_t^T,  ||g||^2 = \sum_{t,t'} (delta_t . delta_t') (a_t . a_t'),  g . G = \sum_t delta_t . G a_t,

and a rule either forms g for a few examples at a time or uses the right-hand sides, whichever is cheaper.
"""

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
Numbers = tuple[Tensor, Tensor | None]  # sq (n,), dot (n,) or None, both float64

SLICE = 2**20  # numbers in a temporary: few enough to stay in the cache
FEW = 16  # examples in a slice at most
# Costs in multiplications of a matrix product, fitted roughly to one CPU core:
WRITE = 64  # writing and reading one entry of a formed g
COPY = 16  # copying one number of a patch
PAIR = 24  # multiplying and adding one pair of positions at one offset of a convolution's kernel


class Rules(NamedTuple):
    """How the layers of one type are taken."""

    weight: Callable[[Any, Tensor, Tensor, Tensor | None], Numbers]
    bias: Callable[[Any, Tensor, Tensor, Tensor | None], Numbers]


def rules_for(layer: nn.Module) -> Rules | None:
    """The rules of a layer, or None: its type has none, or its forward pass is not the one of that type."""
    for base, rules in RULES.items():
        if isinstance(layer, base) and _computes_as(layer, base):
            return None if isinstance(layer, nn.Embedding) and _is_special(layer) else rules
    return None


def _computes_as(layer: nn.Module, base: type[nn.Module]) -> bool:
    methods = [name for name in ("forward", "_conv_forward") if hasattr(base, name)]
    return all(getattr(type(layer), m) is getattr(base, m) and m not in vars(layer) for m in methods)


def _is_special(layer: nn.Embedding) -> bool:
    return layer.max_norm is not None or layer.sparse or layer.scale_grad_by_freq


# --- linear -----------------------------------------------------------------------------------------------------------


def linear_weight(layer: nn.Linear, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g = sum_t delta_t a_t^T, (O, I); a (n, ..., I), delta (n, ..., O)."""
    n, O, I = len(a), layer.out_features, layer.in_features
    a, delta = a.reshape(n, -1, I), delta.reshape(n, -1, O)  # (n, T, I), (n, T, O)
    T = a.shape[1]
    if T == 1:
        return dots(a, a) * dots(delta, delta), None if G is None else dots(delta, a @ G.T)
    if T * T * (O + I) + (0 if G is None else T * O * I) < (T + WRITE) * O * I:
        sq = few_at_a_time(lambda a, d: dots(a @ a.mT, d @ d.mT), T * T, a, delta)
        return sq.clamp_min(0), None if G is None else dots(delta, a @ G.T)
    return formed(lambda a, d: d.mT @ a, G, O * I, a, delta)


def last_axis_bias(layer: nn.Linear, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g = sum_t delta_t; delta (n, ..., O)."""
    return given(delta.reshape(len(delta), -1, delta.shape[-1]).sum(1), G)


# --- convolution ------------------------------------------------------------------------------------------------------


def conv_weight(layer: Conv, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g = sum_t delta_t patch_t^T, (O, I / groups, *kernel); a (n, I, *size), delta (n, O, *out).

    Three ways, by their multiplications for one example: g formed, or ||g||^2 from the products of all pairs of pixels,
    or of all pairs of patches; g . G is then a convolution with G, as dear as forming g.
    """
    weight, I, O, K = layer.weight.numel(), layer.in_channels, layer.out_channels, prod(layer.kernel_size)
    T, S = prod(delta.shape[2:]), prod(a.shape[2:])
    unfolded = 0 if layer.groups > 1 else T * K * I  # numbers in the patches
    along = 0 if G is None else T * weight
    form = (T + WRITE) * weight + COPY * unfolded
    pixels = S * S * I + T * T * O + PAIR * layer.groups * S * T * sum(layer.kernel_size) + along
    patch = T * T * (K * I + O) + COPY * unfolded + along
    if layer.groups == 1 and patch < min(form, pixels):
        sq = few_at_a_time(lambda a, d: patch_gram(layer, a, d), T * (K * I + 2 * T), a, delta)
    elif pixels < form:
        sq = few_at_a_time(lambda a, d: pixel_gram(layer, a, d), 2 * layer.groups * max(S, T) ** 2, a, delta)
    elif layer.groups == 1:
        G = None if G is None else _channels_last(G).reshape(O, -1)  # (O, I, *kernel) -> (O, K I)
        return formed(lambda a, d: d.flatten(2) @ patches(layer, a), G, max(weight, unfolded), a, delta)
    else:
        return formed(lambda a, d: grouped_gradients(layer, a, d), G, weight, a, delta)
    return sq.clamp_min(0), None if G is None else _along(layer, a, delta, G)


def patches(layer: Conv, a: Tensor) -> Tensor:
    """What each position of the output is computed from, (n, T, K I), for a layer without groups."""
    a = _channels_last(padded(layer, a))  # (n, *size, I): copied I numbers at a time
    for axis, (k, s, d) in enumerate(zip(layer.kernel_size, layer.stride, layer.dilation, strict=True), start=1):
        a = a.unfold(axis, d * (k - 1) + 1, s)[..., ::d]
    n, T = len(a), prod(a.shape[1 : 1 + len(layer.kernel_size)])
    return a.movedim(1 + len(layer.kernel_size), -1).reshape(n, T, -1)  # (n, *out, I, *kernel) -> (n, T, K I)


def _channels_last(a: Tensor) -> Tensor:
    return a.movedim(1, -1).contiguous()


def grouped_gradients(layer: Conv, a: Tensor, delta: Tensor) -> Tensor:
    """Each example's weight gradient, by one convolution in which every group of every example is a group of its own."""
    n, (O, *rest) = len(a), layer.weight.shape
    a = padded(layer, a)
    if prod(layer.kernel_size) == 1:  # no neighbours: a product of matrices, for which the grouped kernels are slow
        met = (slice(None), slice(None), *(slice(None, None, s) for s in layer.stride))
        a = a[met]
        pixels, delta = a.reshape(n, layer.groups, rest[0], -1), delta.reshape(n, layer.groups, O // layer.groups, -1)
        return (delta @ pixels.mT).reshape(n, O, *rest)  # (n, groups, O/groups, T) (n, groups, T, I/groups)
    backward = {3: conv1d_weight, 4: conv2d_weight, 5: conv3d_weight}[a.ndim]
    g = backward(
        a.reshape(1, -1, *a.shape[2:]),  # (n, I, *size) -> (1, n*I, *size)
        (n * O, *rest),
        delta.reshape(1, -1, *delta.shape[2:]),  # (n, O, *out) -> (1, n*O, *out)
        stride=layer.stride,
        padding=0,
        dilation=layer.dilation,
        groups=n * layer.groups,
    )
    return g.reshape(n, O, *rest)


def patch_gram(layer: Conv, a: Tensor, delta: Tensor) -> Tensor:
    """sum_{t,t'} (delta_t . delta_t') (patch_t . patch_t'), (n,), for a layer without groups."""
    u, d = patches(layer, a), delta.flatten(2)  # (n, T, K I), (n, O, T)
    return dots(u @ u.mT, d.mT @ d)


def pixel_gram(layer: Conv, a: Tensor, delta: Tensor) -> Tensor:
    """The same without patches.

    patch_t . patch_t' is the sum over the offsets k of the kernel of A[s t + k, s t' + k], A the Gram matrix of the pixels,
    so one A serves all offsets. The sum is taken one axis at a time, 3 + 3 terms for a kernel of 3 x 3 instead of 9.
    """
    before = [left for left, _ in _padding(layer)]
    if layer.padding_mode != "zeros":  # zeros add nothing, and need not be there
        a, before = padded(layer, a), [0] * len(before)
    D, A = _products(layer, delta), _products(layer, a)  # (n, groups, *out, *out), (n, groups, *size, *size)
    axes, out = len(layer.kernel_size), delta.shape[2:]

    def shifts(axis: int) -> Iterator[tuple[slice, slice]]:
        """By offset k: the outputs t whose pixel s t + d k is not padding, and these pixels."""
        k, s, d = layer.kernel_size[axis], layer.stride[axis], layer.dilation[axis]
        for at in range(-before[axis], d * k - before[axis], d):
            first = max(0, -(at // s))
            last = min(out[axis] - 1, (a.shape[2 + axis] - 1 - at) // s)
            if first <= last:
                yield slice(first, last + 1), slice(s * first + at, s * last + at + 1, s)

    for axis in reversed(range(1, axes)):
        shape = list(A.shape)
        shape[2 + axis] = shape[2 + axes + axis] = out[axis]
        total = A.new_zeros(shape)
        for outputs, pixels in shifts(axis):
            total[_both(axis, axes, outputs)] += A[_both(axis, axes, pixels)]
        A = total
    sq = torch.zeros(len(a), dtype=torch.float64, device=a.device)
    for outputs, pixels in shifts(0):
        sq += dots(D[_both(0, axes, outputs)], A[_both(0, axes, pixels)])
    return sq


def _both(axis: int, axes: int, at: slice) -> tuple[slice, ...]:
    """`at` along an axis of t and the same axis of t', of (n, groups, *t, *t')."""
    index = [slice(None)] * (2 + 2 * axes)
    index[2 + axis] = index[2 + axes + axis] = at
    return tuple(index)


def _products(layer: Conv, a: Tensor) -> Tensor:
    n, size = len(a), a.shape[2:]
    pixels = a.reshape(n, layer.groups, -1, prod(size))  # (n, groups, channels, S)
    return (pixels.mT @ pixels).reshape(n, layer.groups, *size, *size)


def _along(layer: Conv, a: Tensor, delta: Tensor, G: Tensor) -> Tensor:
    """g . G = sum_t delta_t . G patch_t, (n,)."""
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[a.ndim]
    if layer.padding_mode == "zeros":
        out = convolve(a, G, None, layer.stride, layer.padding, layer.dilation, layer.groups)
    else:
        out = convolve(padded(layer, a), G, None, layer.stride, 0, layer.dilation, layer.groups)
    return few_at_a_time(lambda d, o: dots(d.movedim(1, -1), o.movedim(1, -1)), out[0].numel(), delta, out)


def padded(layer: Conv, a: Tensor) -> Tensor:
    """The input with its padding made explicit, so that the convolution itself needs none."""
    sides = [side for both in reversed(_padding(layer)) for side in both]  # F.pad starts at the last axis
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(a, sides, mode=mode) if any(sides) else a


def _padding(layer: Conv) -> list[tuple[int, int]]:
    """How much is added before and after each axis."""
    if layer.padding == "valid":
        return [(0, 0)] * len(layer.kernel_size)
    if layer.padding == "same":
        both = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        return [(b // 2, b - b // 2) for b in both]
    return [(int(side), int(side)) for side in layer.padding]


def channel_bias(layer: nn.Module, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g = sum over positions of delta; delta (n, channels, ...)."""
    return given(over_positions(delta), G)


# --- normalisation: in evaluation, an affine map of something free of the parameters ----------------------------------


def batch_norm_weight(layer: nn.BatchNorm2d, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g_c = sum_t delta_ct (a_ct - mean_c) / sqrt(var_c + eps), with the running mean and variance."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    mean = layer.running_mean.reshape(-1, *[1] * (a.ndim - 2))
    g = few_at_a_time(lambda a, d: over_positions((a - mean) * d), a[0].numel(), a, delta)
    return given(g * torch.rsqrt(layer.running_var + layer.eps), G)


def group_norm_weight(layer: nn.GroupNorm, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g_c = sum_t delta_ct a^_ct, a^ normalised within each group of channels."""
    return given(over_positions(F.group_norm(a, layer.num_groups, eps=layer.eps) * delta), G)


def layer_norm_weight(layer: nn.LayerNorm, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g = sum_t delta_t a^_t, a^ normalised over the trailing axes."""
    shape = layer.normalized_shape
    g = F.layer_norm(a, shape, eps=layer.eps) * delta
    return given(g.reshape(len(a), -1, *shape).sum(1), G)


def layer_norm_bias(layer: nn.LayerNorm, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g = sum_t delta_t over the leading axes."""
    return given(delta.reshape(len(a), -1, *layer.normalized_shape).sum(1), G)


# --- embedding --------------------------------------------------------------------------------------------------------


def embedding_weight(layer: nn.Embedding, a: Tensor, delta: Tensor, G: Tensor | None) -> Numbers:
    """g_v = sum of delta_t over the positions t of word v; a (n, ...) whole numbers, delta (n, ..., d).

    ||g||^2 = sum over the pairs t, t' of the same word of delta_t . delta_t'. The padding word has no gradient.
    """
    n = len(a)
    words, delta = a.reshape(n, -1), delta.reshape(n, -1, delta.shape[-1])  # (n, T), (n, T, d)
    if layer.padding_idx is not None:
        delta = delta * (words != layer.padding_idx)[:, :, None]
    sq = few_at_a_time(lambda w, d: dots(d @ d.mT, _same_word(w).to(d.dtype)), words.shape[1] ** 2, words, delta)
    return sq.clamp_min(0), None if G is None else dots(delta, F.embedding(words, G))


def _same_word(words: Tensor) -> Tensor:
    return words[:, :, None] == words[:, None, :]  # (n, T) -> (n, T, T)


# --- reductions -------------------------------------------------------------------------------------------------------


def given(g: Tensor, G: Tensor | None) -> Numbers:
    """The numbers of gradients that are there, (n, ...)."""
    return dots(g, g), None if G is None else dots(g, G.expand_as(g))


def formed(form: Callable[..., Tensor], G: Tensor | None, numel: int, *tensors: Tensor) -> Numbers:
    """The numbers of gradients that are formed and forgotten, a few examples at a time."""
    parts = [given(form(*some), G) for some in _slices(numel, tensors)]
    sq = torch.cat([sq for sq, _ in parts])
    return sq, None if G is None else torch.cat([dot for _, dot in parts if dot is not None])


def few_at_a_time(function: Callable[..., Tensor], numel: int, *tensors: Tensor) -> Tensor:
    """function(*tensors), which makes temporaries of `numel` per example, in slices of the examples."""
    return torch.cat([function(*some) for some in _slices(numel, tensors)])


def _slices(numel: int, tensors: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
    few = max(1, min(FEW, SLICE // numel))
    return zip(*(tensor.split(few) for tensor in tensors), strict=True)


def over_positions(g: Tensor) -> Tensor:
    """(n, channels, ...) -> (n, channels)."""
    return g.reshape(*g.shape[:2], -1).sum(2)


def dots(a: Tensor, b: Tensor) -> Tensor:
    """Sum of products, (n, ...), (n, ...) -> (n,) float64.

    vecdot adds up in a tree, which keeps float32 exact to 1e-6; a norm or a matrix product of ten million does not,
    it is 1 % off. What is added to this sum, over slices and layers, is added in float64.
    """
    return torch.linalg.vecdot(a.flatten(1), b.flatten(1)).double()


RULES: dict[type[nn.Module], Rules] = {
    nn.Linear: Rules(linear_weight, last_axis_bias),
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), Rules(conv_weight, channel_bias)),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), Rules(batch_norm_weight, channel_bias)),
    nn.GroupNorm: Rules(group_norm_weight, channel_bias),
    nn.LayerNorm: Rules(layer_norm_weight, layer_norm_bias),
    nn.Embedding: Rules(embedding_weight, channel_bias),  # an embedding has no bias
}
