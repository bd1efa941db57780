"""Least confidence, margin and entropy: the items the model is least sure of, one by one."""

from typing import Literal

import numpy as np
from scipy.special import log_softmax, xlogy

from askless.acquire.strategy import Selection, View, top
from askless.base.options import options

On = Literal["prob", "logit"]


def margin(outputs: np.ndarray) -> np.ndarray:
    """Largest minus second largest entry of each row (N, C) -> (N,); infinite where there is only one class.

    >>> margin(np.array([[0.75, 0.25, 0.0]]))
    array([0.5])
    """
    if outputs.shape[1] < 2:
        return np.full(len(outputs), np.inf)
    second, first = np.partition(outputs, -2, axis=1)[:, -2:].T
    return first - second


def entropy(probs: np.ndarray) -> np.ndarray:
    """-sum_c p_c ln p_c of each row (N, C) -> (N,), with 0 ln 0 = 0.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([0.        , 0.69314718])
    """
    return np.maximum(-xlogy(probs, probs).sum(axis=1), 0)


def entropy_of_logits(logits: np.ndarray) -> np.ndarray:
    """The entropy of softmax(logits), exact where probabilities would round to 0 or 1."""
    log_p = log_softmax(logits, axis=1)
    return np.maximum(-(np.exp(log_p) * log_p).sum(axis=1), 0)


@options
class Uncertainty:
    """What the three share: `on` decides which array is looked at, and the least sure come first."""

    on: On = "prob"
    equivariant = True

    @property
    def needs(self) -> tuple[str, ...]:
        return ("probs",) if self.on == "prob" else ("logits",)

    def unsure(self, outputs: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        return top(view.by_rows(self.unsure, *self.needs), view.unlabelled, n, rng)


@options
class Confidence(Uncertainty):
    """Smallest max_c p_c (or max_c f_c with `on="logit"`) first.

    `on`: whether p or the logits are looked at.

    >>> al.select(al.Confidence(), 1, probs=[[0.9, 0.1], [0.6, 0.4]]).indices
    array([1])
    """

    name = "confidence"

    def unsure(self, outputs: np.ndarray) -> np.ndarray:
        return -outputs.max(axis=1)


@options
class Margin(Uncertainty):
    """Smallest p_(1) - p_(2) first. NPC's paper takes the margin of the logits, another ranking beyond two classes.

    `on`: whether p or the logits are looked at.

    >>> al.select(al.Margin(), 1, probs=[[0.4, 0.3, 0.3], [0.5, 0.45, 0.05]]).indices
    array([1])
    """

    name = "margin"

    def unsure(self, outputs: np.ndarray) -> np.ndarray:
        return -margin(outputs)


@options
class Entropy(Uncertainty):
    """Largest entropy of p first; from logits it is the same number without rounding at certainty.

    `on`: whether p is given, or the logits.

    >>> al.select(al.Entropy(), 1, probs=[[0.4, 0.3, 0.3], [0.5, 0.45, 0.05]]).indices
    array([0])
    """

    name = "entropy"

    def unsure(self, outputs: np.ndarray) -> np.ndarray:
        return entropy(outputs) if self.on == "prob" else entropy_of_logits(outputs)
