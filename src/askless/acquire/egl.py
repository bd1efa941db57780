"""Expected gradient length (Settles et al., 2008; in CRC's form, over the model's own label distribution)."""

import functools
from typing import Literal

import numpy as np

from askless.acquire.strategy import Selection, View, top
from askless.base.options import options


@options
class EGL:
    """Largest sum_y p_y ||grad CE(x, y)||: the expectation of norms, not the norm of the expectation (which is 0).

    `layers="last"`: the head's weights and, with `bias`, its bias, in closed form from features and probs.
    `layers="all"`: from `grad_sq_by_class` (N, C), the squared gradient norm for every possible label, as
    `kernels.gradient_sq_by_class` gives it.

    >>> F, p = [[1.0], [1.0], [2.0]], [[0.9, 0.1], [0.5, 0.5], [0.5, 0.5]]
    >>> al.select(al.EGL(), 1, features=F, probs=p).indices
    array([2])
    """

    layers: Literal["last", "all"] = "last"
    bias: bool = True
    name = "egl"
    equivariant = True

    @property
    def needs(self) -> tuple[str, ...]:
        return ("features", "probs") if self.layers == "last" else ("probs", "grad_sq_by_class")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if self.layers == "last":
            scores = view.by_rows(functools.partial(expected_gradient_length, bias=self.bias), "features", "probs")
        else:
            scores = view.by_rows(lambda p, sq: (p * np.sqrt(sq)).sum(axis=1), "probs", "grad_sq_by_class")
        return top(scores, view.unlabelled, n, rng)


def expected_gradient_length(phi: np.ndarray, p: np.ndarray, bias: bool = True) -> np.ndarray:
    """sqrt(|phi|^2 + 1) * sum_y p_y sqrt(|p|^2 - 2 p_y + 1) for each row, (N,); without the 1 if there is no bias.

    >>> expected_gradient_length(np.array([[3.0, 4.0]]), np.array([[0.5, 0.5]]), bias=False)  # 5 * sqrt(0.5)
    array([3.53553391])
    """
    p_sq = np.einsum("ij,ij->i", p, p)[:, None]
    by_label = np.sqrt(np.maximum(p_sq - 2 * p + 1, 0))  # ||p - e_y||, (N, C)
    return np.sqrt(np.einsum("ij,ij->i", phi, phi) + bias) * (p * by_label).sum(axis=1)
