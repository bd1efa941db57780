"""The learning rate that the labelled items' kernel admits (CRC remark 2, NPC section 6)."""

from typing import NamedTuple

import torch
from torch import Tensor


class Admissible(NamedTuple):
    """A stable rate, how slowly the slowest mode shrinks, and the eigenvalues."""

    lr: float
    slowest: float
    lambda_min: float
    lambda_max: float


def admissible_rate(phi: Tensor, momentum: float = 0.0, bias: bool = True) -> Admissible:
    """What gradient descent on the mean cross entropy of n items with features phi (n, d) admits for the last layer.

    The linearised loss has curvature at most H = h lambda_max(K) / n with K = phi phi^T (+ 1) and h = 1/2, the bound of the
    softmax cross entropy. Nesterov's steps with momentum m converge below 2 (1 + m) / ((1 + 2 m) H); nine tenths of that
    are taken. `slowest` is the factor by which a plain step of 1 / H shrinks the slowest mode (the smallest non-zero
    eigenvalue), 1 - lambda_min / lambda_max: the better conditioned the labelled items, the faster, which is what NPC and
    CRC choose for.

    >>> admissible_rate(torch.eye(2), bias=False).lr  # lambda_max = 1: .9 * 2 / (1/2 * 1 / 2)
    7.2
    """
    from askless.linalg import gram_score

    phi = phi.double()
    if bias:
        phi = torch.cat([phi, phi.new_ones(len(phi), 1)], dim=1)
    top = float(torch.linalg.matrix_norm(phi, ord=2) ** 2)
    if top == 0:
        return Admissible(float("inf"), 1.0, 0.0, 0.0)
    low, curvature = gram_score(phi).value, 0.5 * top / len(phi)
    lr = 0.9 * 2 * (1 + momentum) / ((1 + 2 * momentum) * curvature)
    return Admissible(lr, 1 - low / top, low, top)
