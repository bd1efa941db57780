"""Linear softmax heads on vectors, fitted by L-BFGS."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

ITERATIONS = 50  # of L-BFGS


class Weights(NamedTuple):
    """Of a linear head: `slope` (k, C) and `offset` (C,)."""

    slope: Tensor
    offset: Tensor


@torch.no_grad()
def fit_head(z: Tensor, targets: Tensor, decay: float, weights: Tensor | None = None) -> Weights:
    """The linear head of least mean cross-entropy to targets (n, C), whose rows sum to 1, plus decay / 2 |slope|^2.
    `weights` (n,), of mean 1: how much each row counts."""
    # A row per class: products and softmax over rows as short as a few classes are three to twenty times slower.
    (n, k), wanted = z.shape, targets.T.contiguous()
    C, each = len(wanted), torch.ones(n) if weights is None else weights
    weighed = wanted * each

    def parts(flat: Tensor) -> tuple[Tensor, Tensor]:
        return flat[: C * k].view(C, k), flat[C * k :]

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        slope, offset = parts(torch.from_numpy(flat).float())
        log_probs = torch.log_softmax(torch.addmm(offset[:, None], slope, z.T), dim=0)  # (C, n)
        loss = -torch.vdot(weighed.flatten(), log_probs.flatten()) / n + decay / 2 * slope.square().sum()
        off = log_probs.exp_().sub_(wanted).mul_(each / n)
        gradient = torch.cat([torch.addmm(slope, off, z, beta=decay).flatten(), off.sum(dim=1)])
        return float(loss), gradient.double().numpy()

    options = {"maxiter": ITERATIONS, "gtol": 1e-6}
    found = minimize(loss_and_gradient, np.zeros((k + 1) * C), jac=True, method="L-BFGS-B", options=options)
    slope, offset = parts(torch.from_numpy(found.x).float())
    return Weights(slope.T, offset)


def logits(z: Tensor, weights: Weights) -> np.ndarray:
    """(n, C) in float64."""
    return (z @ weights.slope + weights.offset).double().numpy()


def one_hot(labels: np.ndarray, classes: int) -> Tensor:
    return nn.functional.one_hot(torch.from_numpy(labels), classes).float()
