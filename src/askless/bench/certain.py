"""Uncertainty-aware pseudo-labels, as UPS selects them (Rizve et al., ICLR 2021), for a strategy that relies on them."""

import numpy as np

from askless.acquire import Selection, Strategy, View, looks_at
from askless.acquire.two_level import choose_among
from askless.base.options import NotNegative, Several, Share, options


@options
class Certain:
    """What `of` chooses among the items whose pseudo-label is certain; where these are too few, of the others too.

    The network looks at every item in `passes` with dropout, of mean probabilities p. The pseudo-label y = argmax p is
    certain where p_y >= `confidence` and the standard deviation of its probability over the passes is <= `deviation`: the
    two thresholds of UPS, with its values. The network needs dropout.
    """

    of: Strategy
    confidence: Share = 0.7
    deviation: NotNegative = 0.05
    passes: Several = 10

    @property
    def name(self) -> str:
        return f"certain {self.of.name}"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*looks_at(self.of), "probs_by_pass")))

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        sure = certain(view["probs_by_pass"], self.confidence, self.deviation)[view.unlabelled]
        parts = [view.unlabelled[sure], view.unlabelled[~sure]]
        first = min(n, len(parts[0]))
        chosen = [
            choose_among(self.of, part, view, many, rng).indices
            for part, many in zip(parts, (first, n - first), strict=True)
            if many
        ]
        return Selection(np.concatenate([np.empty(0, np.int64), *chosen]), None, {"certain": len(parts[0])})


def certain(probs_by_pass: np.ndarray, confidence: float, deviation: float) -> np.ndarray:
    """Whether the pseudo-label of each item (N, K, C) is certain, (N,).

    >>> certain(np.array([[[0.9, 0.1], [0.8, 0.2]], [[1.0, 0.0], [0.5, 0.5]], [[0.6, 0.4], [0.6, 0.4]]]), 0.7, 0.05)
    array([ True, False, False])
    """
    guess = probs_by_pass.mean(axis=1).argmax(axis=1)
    of_guess = np.take_along_axis(probs_by_pass, guess[:, None, None], axis=2)[:, :, 0]  # (N, K, C) -> (N, K)
    return (of_guess.mean(axis=1) >= confidence) & (of_guess.std(axis=1) <= deviation)
