"""Weights of predictors, fitted on labels that they were not trained on; with one predictor, a temperature."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

LEAST, MOST = 0.01, 10.0
CAUTION = 0.5  # strength of the prior, in labels


def strengths(
    opinions: Sequence[np.ndarray], labels: np.ndarray, before: Sequence[float], weights: np.ndarray | None = None
) -> tuple[np.ndarray, float]:
    r"""The weights a (K,) of K predictors whose logits (n, C) were made without the labels (n,), and their loss.

    They minimise the cross-entropy between the labels and softmax(a_1 z_1 + ... + a_K z_K) plus a prior,
    CAUTION / m |log a - log b|^2, with b (K,) the weights given as `before`. `weights` w (n,): how much each label counts;
    together they are worth m = (sum w)^2 / sum w^2 labels that count alike (Kish 1965). Without labels, a = b.

    With K = 1 this is a temperature, 1 / a (Guo et al., ICML 2017); with more, stacking. The prior alone keeps a model that
    is right about a few labels from being certain: targets smoothed as in Platt scaling made it far too modest as well.
    """
    z, first = np.stack(opinions), np.log(np.asarray(before, dtype=np.float64))  # (K, n, C)
    _, n, classes = z.shape
    if n == 0 or classes < 2:
        return np.exp(first), 0.0
    shares = np.ones(n) / n if weights is None else weights / weights.sum()
    m = 1 / float(shares @ shares)
    targets = np.eye(classes)[labels]

    def loss_and_gradient(log_a: np.ndarray) -> tuple[float, np.ndarray]:
        a, off = np.exp(log_a), log_a - first
        log_probs = log_softmax(np.tensordot(a, z, axes=1), axis=1)
        loss = -float(shares @ (targets * log_probs).sum(axis=1))
        slope = a * np.einsum("nc,knc->k", shares[:, None] * (np.exp(log_probs) - targets), z)
        return loss + CAUTION / m * float(off @ off), slope + 2 * CAUTION / m * off

    bounds = [(np.log(LEAST), np.log(MOST))] * len(z)
    found = minimize(loss_and_gradient, first, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.exp(found.x), float(found.fun)
