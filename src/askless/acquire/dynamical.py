"""dynamicAL: choose what raises the training dynamics most (Wang et al., NeurIPS 2022)."""

from dataclasses import field
from typing import Literal

import numpy as np

from askless.acquire.strategy import Selection, View, top
from askless.base.options import LATER, Count, NotNegative, options


@options
class DynamicAL:
    """Largest Delta(u | S) = ||g_u||^2 + gamma g_u . g_S, with g_S the summed gradient of the labelled set.

    g_u is the gradient of the cross entropy at the pseudo label, over all parameters (`kernels.gradient_stats`). With
    gamma = 2 it is what the squared gradient norm G(S) = ||g_S||^2 gains from u; 0 and infinity keep one term only.

    `redundancy`: the sum over a batch leaves out the cross terms g_u . g_u'. "exact" adds 2 g_u . (sum of those chosen),
    the greedy choice for the true gain of the whole batch. "penalise" chooses in chunks of `chunk` items and subtracts
    g_u . (mean gradient) of every chunk chosen so far, as the authors' code does (`wo_de_inf=0`, `grad_update_size`); the
    paper has no such term. `chunk=None` is n // 10, the 50 of 500 in their script; the last chunk may be smaller.
    Both need `features` whose inner products are those of the g_u (`kernels.gradient_features(..., of="loss")`).

    >>> picks = al.select(al.DynamicAL(), 1, grad_sq=[1.0, 4.0, 1.0], grad_dot=[0.0, -3.0, 2.0])
    >>> picks.indices, picks.scores  # 1 + 2 (2)
    (array([2]), array([5.]))
    """

    gamma: NotNegative = 2.0
    redundancy: Literal["none", "penalise", "exact"] = "none"
    chunk: Count | None = field(default=None, metadata=LATER)
    name = "dynamical"
    equivariant = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (
            *(("grad_sq",) if self.gamma < np.inf else ()),
            *(("grad_dot",) if self.gamma > 0 else ()),
            *(("features",) if self.redundancy != "none" else ()),
        )

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        scores = self.gain(view)
        if self.redundancy == "none":
            return top(scores, view.unlabelled, n, rng)
        size = 1 if self.redundancy == "exact" else self.chunk or max(1, n // 10)
        weight = 2.0 if self.redundancy == "exact" else -1.0
        scores, free = scores.copy(), view.unlabelled
        picks, gains = np.empty(0, dtype=np.int64), np.empty(0)
        while len(picks) < n:
            chosen = top(scores, free, min(size, n - len(picks)), rng).indices
            picks, gains = np.append(picks, chosen), np.append(gains, scores[chosen])
            free = free[~np.isin(free, chosen)]
            mean = view["features"][chosen].astype(np.float64).mean(axis=0)
            scores += weight * view.by_rows(lambda g, mean=mean: g @ mean, "features")  # one more term of the sum
            view.report(len(picks), n)
        return Selection(picks, gains)

    def gain(self, view: View) -> np.ndarray:
        """Delta(u | S) of every item, (N,)."""
        if self.gamma == np.inf:
            return view["grad_dot"].astype(np.float64)
        sq = view["grad_sq"].astype(np.float64)
        return sq if self.gamma == 0 else sq + self.gamma * view["grad_dot"].astype(np.float64)
