"""The parts of a tangent kernel that CRC judges groups by: that of some fixed items, and of each group with them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.utils.data import Subset

from askless.base.errors import InputError
from askless.base.options import check_count
from askless.kernels.evaluation import differentiating
from askless.kernels.features import features
from askless.kernels.head import find_head
from askless.kernels.inputs import Examples, place_of, rows, some
from askless.kernels.ntk import by_logit, fill, gram, inner
from askless.kernels.reference import trainable
from askless.linalg import Blocks


def group_blocks(
    model: nn.Module,
    x: Examples,
    fixed: Any,
    groups: Any,
    *,
    layers: Literal["last", "all"] = "all",
    head: str | nn.Module | None = None,
    batch_size: int = 256,
    max_memory: int = 2**28,
    progress: Callable[[int, int], None] | None = None,
) -> Blocks:
    r"""K_LL (l, l), K_GL (m, q, l) and K_GG (m, q, q) in float64, of $K(x, x') = \sum_c \nabla f_c(x) \cdot \nabla f_c(x')$.

    `fixed` (l,) and `groups` (m, q) are positions in x. These are the entries of `ntk(model, x, layers=layers)` that say
    how well each group is conditioned beside the fixed items, without those between groups: m q (l + q) and not (m q)^2
    of them. With "all" the fixed items' gradients of one logit are kept, in tiles where they exceed `max_memory` bytes,
    and the groups pass by once per logit and tile; one group's gradients are always held at once.

    >>> K = group_blocks(nn.Linear(2, 3), torch.tensor([[1.0, 2.0], [0.0, 1.0]]), [0], [[1]])
    >>> K.LL.item(), K.GL.item(), K.GG.item()
    (18.0, 9.0, 6.0)
    """
    n = some(x)
    check_count("group_blocks", "max_memory", max_memory)
    fixed, groups = positions("fixed", fixed, 1, n), positions("groups", groups, 2, n)
    if layers == "last":
        return last_layer_blocks(model, x, fixed, groups, head, batch_size)
    if layers == "all":
        return all_layer_blocks(model, x, fixed, groups, max_memory, progress)
    raise InputError(f'layers must be "last" or "all", got {layers!r}')


def positions(name: str, given: Any, axes: int, n: int) -> np.ndarray:
    at = np.asarray(given)
    if at.ndim != axes or (at.size and (at.dtype.kind not in "iu" or at.min() < 0 or at.max() >= n)):
        shape = "(l,)" if axes == 1 else "(m, q)"
        raise InputError(
            f"{name}: expected positions {shape} from 0 to {n - 1}, got shape {at.shape}, dtype {at.dtype}, "
            f"values {at.min() if at.size else '-'} to {at.max() if at.size else '-'}"
        )
    return at.astype(np.int64)


def last_layer_blocks(
    model: nn.Module, x: Examples, fixed: np.ndarray, groups: np.ndarray, head: str | nn.Module | None, batch_size: int
) -> Blocks:
    """C (phi . phi' + 1), as `last_layer_ntk` has it, from the features."""
    _, layer = find_head(model, x, head)
    at = np.concatenate([fixed, groups.reshape(-1)])
    if len(at) == 0:
        return empty_blocks(0, groups)
    Phi = features(model, Subset(x, at.tolist()), head=layer, batch_size=batch_size).double()  # type: ignore[arg-type]
    L, G = Phi[: len(fixed)], Phi[len(fixed) :].reshape(*groups.shape, Phi.shape[1])
    C, one = layer.out_features, 0.0 if layer.bias is None else 1.0
    return Blocks(C * (L @ L.T + one), C * (G @ L.T + one), C * (G @ G.mT + one))


def all_layer_blocks(
    model: nn.Module,
    x: Examples,
    fixed: np.ndarray,
    groups: np.ndarray,
    max_memory: int,
    progress: Callable[[int, int], None] | None,
) -> Blocks:
    """sum_c of the blocks of G_c G_c^T, G_c (n, P) the gradients of logit c."""
    place, parameters = place_of(model), trainable(model)
    (m, q), l = groups.shape, len(fixed)
    room = max_memory // sum(p.numel() * p.element_size() for p in parameters.values())  # gradients
    step = max(1, min(64, room // 8))  # computed at a time
    per = max(1, step // max(1, q))  # groups held at a time
    tall = max(1, room - 2 * step - per * q)  # fixed items kept
    stream: Any = Subset(x, groups.reshape(-1).tolist())  # type: ignore[arg-type]
    LL, GL, GG, _ = empty_blocks(l, groups)
    with differentiating(model):
        probe = rows(x, 0, min(2, some(x)), place)
        each = by_logit(model, parameters, probe)
        XL = rows(Subset(x, fixed.tolist()), 0, l, place) if l else probe[:0]  # type: ignore[arg-type]
        tiles = range(0, max(1, l), tall)
        done, total = 0, len(each) * len(tiles) * m
        for G in each:
            if l:
                LL += gram(G, XL, None, tall, step)
            for i in tiles:
                A = fill(G, XL[i : i + tall], step)
                for g in range(0, m, per):
                    k = min(per, m - g)  # groups
                    B = fill(G, rows(stream, g * q, (g + k) * q, place), step)  # (k*q, P)
                    if l:
                        GL[g : g + k, :, i : i + tall] += inner(B, A).reshape(k, q, -1)
                    if i == 0:  # (k*q, k*q) -> (k, q, q), the blocks on the diagonal
                        GG[g : g + k] += inner(B, B).reshape(k, q, k, q).diagonal(dim1=0, dim2=2).permute(2, 0, 1)
                    done += k
                    if progress is not None:
                        progress(done, total)
    return Blocks(LL, GL, GG)


def empty_blocks(l: int, groups: np.ndarray) -> Blocks:
    m, q = groups.shape
    zeros = partial(torch.zeros, dtype=torch.float64)
    return Blocks(zeros(l, l), zeros(m, q, l), zeros(m, q, q))
