r"""||g||^2 and g . G of one layer's parameter, for every example of a batch at once.

A layer gets a (its input) and delta (the gradient of the loss over its output) for n examples; g is the gradient of
one example's loss over one parameter of the layer, G any tensor of that parameter's shape, or None where no g . G is
wanted. Where T positions share the parameter (tokens, pixels), g is a sum over them,

    g = \sum_t delta_t a_t^T,  ||g||^2 = \sum_{t,t'} (delta_t . delta_t') (a_t . a_t'),  g . G = \sum_t delta_t . G a_t,

and a rule either forms g for a few examples at a time or uses the right-hand sides, whichever is cheaper.
"""

from collections.abc import Callable, Iterator
from itertools import product
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
OFFSET = 4  # multiplying and adding one pair of positions at one offset of a convolution's kernel


class Rules(NamedTuple):
    """How the layers of one type are taken."""

    weight: Callable[[Any, Tensor, Tensor, Tensor | None], Numbers]
    bias: Callable[[Any, Tensor, Tensor, Tensor | None], Numbers]


def rules_for(layer: nn.Module) -> Rules | None:
    """The rules of a layer, or None: its type has none, or its forward pass is not the one of that type."""
    for base, rules in RULES.items():
        if isinstance(layer, base) and _computes_as(layer, base):
            return rules if _is_plain(layer) else None
    return None


def _computes_as(layer: nn.Module, base: type[nn.Module]) -> bool:
    methods = [name for name in ("forward", "_conv_forward") if hasattr(base, name)]
    return all(getattr(type(layer), m) is getattr(base, m) and m not in vars(layer) for m in methods)


def _is_plain(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Embedding):
        return layer.max_norm is None and not layer.sparse and not layer.scale_grad_by_freq
    return True


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
    """g = sum_t delta_t patch_t^T, (O, I / groups, *kernel); a (n, I, *size), delta (n, O, *out)."""
    a = padded(layer, a)
    weight, I, O = layer.weight.numel(), layer.in_channels, layer.out_channels
    T, S = prod(delta.shape[2:]), prod(a.shape[2:])
    gram = S * S * I + T * T * (O + OFFSET * layer.groups * prod(layer.kernel_size))
    if gram + (0 if G is None else T * weight) < (T + WRITE) * weight:
        sq = few_at_a_time(lambda a, d: conv_gram(layer, a, d), S * S * layer.groups, a, delta).clamp_min(0)
        return sq, None if G is None else dots(delta, _apply(layer, a, G))
    return formed(lambda a, d: conv_gradients(layer, a, d), G, weight, a, delta)


def conv_gradients(layer: Conv, a: Tensor, delta: Tensor) -> Tensor:
    """Each example's weight gradient, by one convolution in which every example is a group of its own; a is padded."""
    n, (O, *rest) = len(a), layer.weight.shape
    if prod(layer.kernel_size) == 1:  # no neighbours: a product of matrices, for which the grouped kernels are slow
        a = a[:, :, *(slice(None, None, s) for s in layer.stride)]
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


def conv_gram(layer: Conv, a: Tensor, delta: Tensor) -> Tensor:
    """sum_{t,t'} (delta_t . delta_t') (patch_t . patch_t'), (n,), without patches; a is padded.

    patch_t . patch_t' is a sum over the offsets k of the kernel of products of pixels, A[s t + k, s t' + k], so one
    Gram matrix A of the pixels serves all offsets.
    """
    D, A = _pixel_gram(layer, delta), _pixel_gram(layer, a)  # (n, groups, *out, *out), (n, groups, *size, *size)
    total = torch.zeros(len(a), dtype=torch.float64, device=a.device)
    for offset in product(*map(range, layer.kernel_size)):
        at = tuple(
            slice(d * k, d * k + s * (o - 1) + 1, s)
            for d, k, s, o in zip(layer.dilation, offset, layer.stride, delta.shape[2:], strict=True)
        )
        total += dots(D, A[:, :, *at, *at])
    return total


def _pixel_gram(layer: Conv, a: Tensor) -> Tensor:
    n, size = len(a), a.shape[2:]
    pixels = a.reshape(n, layer.groups, -1, prod(size))  # (n, groups, channels, S)
    return (pixels.mT @ pixels).reshape(n, layer.groups, *size, *size)


def padded(layer: Conv, a: Tensor) -> Tensor:
    """The input with its padding made explicit, so that the convolution itself needs none."""
    if layer.padding == "valid":
        return a
    sides: list[int] = []
    for i in reversed(range(len(layer.kernel_size))):  # F.pad starts at the last axis
        if layer.padding == "same":
            both = layer.dilation[i] * (layer.kernel_size[i] - 1)
            sides += [both // 2, both - both // 2]
        else:
            sides += [int(layer.padding[i])] * 2
    return F.pad(a, sides, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)


def _apply(layer: Conv, a: Tensor, G: Tensor) -> Tensor:
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[a.ndim]
    return convolve(a, G, stride=layer.stride, dilation=layer.dilation, groups=layer.groups)


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
    nn.Conv1d: Rules(conv_weight, channel_bias),
    nn.Conv2d: Rules(conv_weight, channel_bias),
    nn.Conv3d: Rules(conv_weight, channel_bias),
    nn.BatchNorm1d: Rules(batch_norm_weight, channel_bias),
    nn.BatchNorm2d: Rules(batch_norm_weight, channel_bias),
    nn.BatchNorm3d: Rules(batch_norm_weight, channel_bias),
    nn.GroupNorm: Rules(group_norm_weight, channel_bias),
    nn.LayerNorm: Rules(layer_norm_weight, layer_norm_bias),
    nn.Embedding: Rules(embedding_weight, channel_bias),  # an embedding has no bias
}
