"""How sure a model may be, by the check items: they were never trained on, so they tell when its confidence is off."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

CAUTION = 2.0  # strength of the prior: a few check items move the confidence only a little
LEAST = 1e-8  # smallest probability, that of half precision
SHARPEST = 10.0


def sharpened(probs: np.ndarray, sharpness: float) -> np.ndarray:
    """Probabilities (n, C) to the power `sharpness`, again of sum 1: above 1 they are more certain, below 1 less. The most
    probable class stays the same, and so does every accuracy.

    >>> sharpened(np.array([[0.8, 0.2]]), 0.5).round(2)
    array([[0.67, 0.33]])
    """
    return np.asarray(softmax(sharpness * np.log(np.maximum(probs, LEAST)), axis=1))


def sharpness(probs: np.ndarray, truth: np.ndarray) -> float:
    """The power s that makes probabilities (n, C) of check items most plausible, given the columns `truth` (n,) of their
    true classes; 1 without items.

    It minimises - sum log p_s(truth) + CAUTION (log s)^2: temperature scaling (Guo et al., ICML 2017), with T = 1 / s and a
    prior that keeps a handful of right answers from making the model certain.

    >>> sure, unsure = np.array([[0.9, 0.1]] * 40), np.array([[0.6, 0.4]] * 40)
    >>> half_right, all_right = np.arange(40) % 2, np.zeros(40, int)
    >>> sharpness(sure, half_right) < 0.5, sharpness(unsure, all_right) > 3
    (True, True)
    """
    if len(truth) == 0:
        return 1.0
    logits, rows = np.log(np.maximum(probs, LEAST)), np.arange(len(truth))

    def loss(log_s: float) -> float:
        return CAUTION * log_s**2 - float(log_softmax(np.exp(log_s) * logits, axis=1)[rows, truth].sum())

    found = minimize_scalar(loss, bounds=(-np.log(SHARPEST), np.log(SHARPEST)), method="bounded")
    return float(np.exp(found.x))


def held_out(probs: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """(n, C): the probabilities of each check item, sharpened as all the *other* ones ask for, to measure calibration by."""
    rows = np.arange(len(truth))
    parts = (sharpened(probs[i : i + 1], sharpness(probs[rows != i], truth[rows != i])) for i in rows)
    return np.concatenate([probs[:0], *parts])
