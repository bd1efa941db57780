"""BALD: the items on which K draws of a network disagree most (Houlsby et al. 2011; Gal et al., ICML 2017)."""

import numpy as np
from scipy.special import kl_div

from askless.acquire.strategy import Selection, View, top
from askless.base.options import Several, options


def mutual_information(probs_by_pass: np.ndarray) -> np.ndarray:
    """I(y; w) in nats of each item (N, K, C) -> (N,): the entropy of the mean less the mean of the entropies.

    Computed as the mean divergence of the passes from their mean, a sum of terms >= 0: passes that agree give 0, and nothing
    cancels where they nearly do.

    >>> mutual_information(np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]]))
    array([0.69314718, 0.        ])
    """
    mean = probs_by_pass.mean(axis=1, keepdims=True)  # (N, 1, C)
    return np.maximum(kl_div(probs_by_pass, mean).sum(axis=2).mean(axis=1), 0)


@options
class BALD:
    """Largest mutual information between an item's label and the network's weights first.

    The weights are seen through `probs_by_pass` (N, K, C): K passes with dropout, each with its own units left out, or K
    networks. Where askless looks at the network itself, it makes `passes` of them: the network needs dropout. Scores are in
    nats, at most ln min(K, C).

    >>> p = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]]  # two passes: they disagree on item 0 only
    >>> picks = al.select(al.BALD(), 1, probs_by_pass=p)
    >>> picks.indices, picks.scores.round(3)  # ln 2
    (array([0]), array([0.693]))
    """

    passes: Several = 20
    name = "bald"
    needs = ("probs_by_pass",)
    equivariant = True

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        return top(view.by_rows(mutual_information, "probs_by_pass"), view.unlabelled, n, rng)
