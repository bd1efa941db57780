"""How sure a model may be: one number that its logits are divided by, from labels that it has not learnt from."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

LEAST, MOST = 0.1, 10.0


def temperature(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float:
    r"""The T of least cross-entropy between labels (n,) and softmax(logits / T), logits (n, C) of a model that has not seen
    them; 1 without labels (Guo et al., ICML 2017). `weights` (n,): how much each label counts.

    Each label is taken to be right with probability (n + 1) / (n + 2), as Platt does: a model that is right about the few
    labels there are is not certain of everything.
    """
    n, classes = logits.shape
    if n == 0 or classes < 2:
        return 1.0
    shares = np.ones(n) / n if weights is None else weights / weights.sum()
    targets = np.full((n, classes), 1 / (n + 2) / (classes - 1))
    targets[np.arange(n), labels] = (n + 1) / (n + 2)

    def cross_entropy(log_t: float) -> float:
        return -float(shares @ (targets * log_softmax(logits * np.exp(-log_t), axis=1)).sum(axis=1))

    found = minimize_scalar(cross_entropy, bounds=(np.log(LEAST), np.log(MOST)), method="bounded")
    return float(np.exp(found.x))
