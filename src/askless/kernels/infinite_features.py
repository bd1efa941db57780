"""Features whose inner products are the kernel of an infinitely wide network, from landmarks."""

from typing import Literal

import torch

from askless.base.options import check_choice, check_count
from askless.base.rng import Seed, stream
from askless.kernels.infinite import Progress, diagonal, kernel_matrix, prepared
from askless.kernels.infinite_layers import Kind
from askless.kernels.infinite_nets import InfiniteNet
from askless.kernels.inputs import Examples
from askless.linalg.landmarks import Landmarks, partial_cholesky


def infinite_features(
    x: Examples,
    dim: int = 512,
    *,
    net: InfiniteNet | None = None,
    kind: Kind = "ntk",
    landmarks: Literal["greedy", "random"] = "greedy",
    seed: Seed = 0,
    max_memory: int = 2**28,
    progress: Progress | None = None,
) -> Landmarks:
    """Features (N, k), k <= dim, of every item: their inner products are near to `infinite(x, net=net)`, float64.

    They come from `dim` items as landmarks (Nyström): "greedy" takes next whatever the others span least (a Cholesky
    factorisation with pivots, no randomness), "random" draws them by `seed`. `left` is the share of the kernel's trace
    that is missing; no entry is off by more than left times the trace. With dim >= N nothing is, and k is the rank.

    N dim kernel entries and N dim² / 2 products, in `max_memory` bytes beside the features and the inputs;
    `progress(done, total)` counts landmarks. Strategies take them as they take any: with NPC and CRC use `bias=False`,
    since the kernel has the last layer's bias inside.

    >>> found = infinite_features(torch.eye(3), 2)
    >>> found.features.shape, found.items.tolist()
    (torch.Size([3, 2]), [0, 1])
    """
    check_count("infinite_features", "dim", dim)
    check_choice("infinite_features", "landmarks", landmarks, ("greedy", "random"))
    X, net = prepared("x", x, net, kind, max_memory)
    order = stream(seed, "landmarks").permutation(len(X)) if landmarks == "random" else None

    def column(i: int) -> torch.Tensor:
        return kernel_matrix(X, X[i : i + 1], net, kind, max_memory)[:, 0]

    return partial_cholesky(diagonal(X, net, kind, max_memory).cpu(), column, dim, order, progress)
