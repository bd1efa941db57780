"""The learning rate that the labelled items' kernel admits (CRC remark 2, NPC section 6)."""

from typing import NamedTuple

import torch
from torch import Tensor


class Admissible(NamedTuple):
    """The largest stable rate, the factor by which each step then shrinks the slowest mode, and the eigenvalues."""

    lr: float
    slowest: float
    lambda_min: float
    lambda_max: float


def admissible_rate(phi: Tensor, momentum: float = 0.0, bias: bool = True) -> Admissible:
    """What gradient descent on the mean cross entropy of n items with features phi (n, d) admits for the last layer.

    The linearised loss has curvature at most h lambda_max(K) / n with K = phi phi^T (+ 1) and h = 1/2, the bound of the
    softmax cross entropy; with heavy-ball momentum m steps below 2 (1 + m) n / (h lambda_max) converge. The slowest
    mode of K (its smallest non-zero eigenvalue) then shrinks by 1 - lr h lambda_min / n a step without momentum: the
    better conditioned the labelled items, the faster, which is what NPC and CRC choose for.

    >>> admissible_rate(torch.eye(2), bias=False).lr  # lambda_max = 1: 2 * 2 / (1/2 * 1)
    8.0
    """
    from askless.linalg import gram_score

    phi = phi.double()
    if bias:
        phi = torch.cat([phi, phi.new_ones(len(phi), 1)], dim=1)
    n, h = len(phi), 0.5
    top = float(torch.linalg.matrix_norm(phi, ord=2) ** 2)
    low = gram_score(phi).value
    lr = 2 * (1 + momentum) * n / (h * top) if top > 0 else float("inf")
    return Admissible(lr, 1 - min(lr, 2 * n / (h * top) / 2 if top > 0 else 0.0) * h * low / n, low, top)
