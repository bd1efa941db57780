"""NTK look-ahead: the items whose label would change the model's outputs most (Mohamadi et al., NeurIPS 2022)."""

import dataclasses
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from askless.acquire.main_directions import Rows
from askless.acquire.strategy import Selection, View, first_of_the_largest, top
from askless.base.options import Between, Count, options

TILE = 2**22  # bytes of rows and outputs at a time


@options
class LookAhead:
    r"""The "most likely model output change": how far retraining with an item and its predicted label would move the outputs
    over the unlabelled pool U,

    $$A(a) = \sum_{x \in U} |f_{L \cup (a, \hat y(a))}(x) - f_L(x)|^2, \qquad \hat y(a) = \arg\max_c f_L(a)_c.$$

    f is what the tangent kernel of a linear head on frozen features, $K = \tilde\Phi \tilde\Phi^\top$ with
    $\tilde\Phi = [\Phi, 1]$, learns from one-hot labels by squared loss: kernel ridge regression, its `ridge` in units of
    the mean squared length of the rows. One more label is then a rank-one update, so that every retraining is exact: with
    $G = (\tilde\Phi_L^\top \tilde\Phi_L + \lambda)^{-1}$ and $S = \sum_{x \in U} \tilde\phi \tilde\phi^\top$,

    $$A(a) = \frac{a^\top G S G a}{(1 + a^\top G a)^2} |\hat y(a) - f_L(a)|^2.$$

    `batch="top"` takes the n largest, as the paper does where labels come batch by batch. `batch="greedy"` retrains after
    each pick with its predicted label, so that a batch does not ask for the same thing twice. The pool that is summed over
    stays the same. Without labels f is 0, and what decides is how far an item reaches.

    Cost: N d^2 once, and N d C for each pick of `"greedy"`. Three matrices of d x d must fit in half of `max_memory` (2^28
    bytes: d = 2,364); wider features are taken in their main directions, as many as fit or `directions`, and `info["kept"]`
    says how much of their squared length is left. Scores are A(a) at the moment of choice.

    >>> F = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]
    >>> al.select(al.LookAhead(), 1, features=F, probs=p, labelled=[0], labels=[0]).indices
    array([2])
    """

    ridge: Annotated[float, Between(1e-6, 1e6)] = 0.01
    batch: Literal["greedy", "top"] = "greedy"
    directions: Count | None = None
    name = "lookahead"
    needs = ("features", "labels")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        most = max(1, int((view.max_memory / 48) ** 0.5) - 1)
        phi = Rows(view["features"], min(most, self.directions or most), True, rng)
        info: dict[str, Any] = {}
        if phi.basis is not None:
            info["kept"] = phi.kept
            info["note"] = f"features are reduced to {phi.width - 1} main directions, {phi.kept:.0%} of their length"
        known, y = np.unique(view["labels"], return_inverse=True)
        Y = torch.eye(max(1, len(known)), dtype=torch.float64)[y]
        ahead = OneMore(phi, view.labelled, Y, view.unlabelled, self.ridge)
        if self.batch == "top":
            change = np.zeros(view.N)
            change[view.unlabelled] = ahead.changes()
            return dataclasses.replace(top(change, view.unlabelled, n, rng), info=info)
        ties = rng.random(len(view.unlabelled))
        picks, scores, free = np.empty(n, dtype=np.int64), np.empty(n), np.zeros(len(ties))
        for i in range(n):
            changes = ahead.changes() + free
            best = first_of_the_largest(changes, ties)
            picks[i], scores[i] = view.unlabelled[best], changes[best]
            free[best] = -np.inf
            if i + 1 < n:
                ahead.learn(best)
            view.report(i + 1, n)
        return Selection(picks, scores, info)


class OneMore:
    """Ridge regression on rows phi of labelled items with targets Y (L, C), and what one more label would change.

    Of each candidate a it holds `reach` = a^T G a and `moved` = a^T G S G a. Learning a* subtracts v v^T / (1 + a*^T G a*),
    v = G a*, from G: both follow from the inner products with v and with t = G S G a*.
    """

    def __init__(self, phi: Rows, labelled: np.ndarray, Y: Tensor, candidates: np.ndarray, ridge: float) -> None:
        self.phi, self.candidates = phi, candidates
        d, C = phi.width, Y.shape[1]
        self.step = max(1, TILE // (8 * (2 * d + C)))
        G, self.W = torch.zeros(d, d, dtype=torch.float64), torch.zeros(d, C, dtype=torch.float64)
        for part in self._parts(len(labelled)):
            rows = phi(labelled[part])
            G += rows.T @ rows
            self.W += rows.T @ Y[part]
        S = torch.zeros_like(G)
        for part in self._parts(len(candidates)):
            rows = phi(candidates[part])
            S += rows.T @ rows
        mean_sq = float(G.trace() + S.trace()) / (len(labelled) + len(candidates))
        G.diagonal().add_(ridge * mean_sq)
        self.G = torch.cholesky_inverse(torch.linalg.cholesky(G))
        self.W = self.G @ self.W  # (d, C)
        self.GSG = self.G @ S @ self.G
        self.reach, self.moved = np.empty(len(candidates)), np.empty(len(candidates))
        for part in self._parts(len(candidates)):
            rows = phi(candidates[part])
            for out, matrix in ((self.reach, self.G), (self.moved, self.GSG)):
                out[part] = torch.einsum("kd,kd->k", rows @ matrix, rows).numpy()

    def changes(self) -> np.ndarray:
        """A(a) of every candidate."""
        away = np.empty(len(self.candidates))  # |y^ - f|^2
        for part in self._parts(len(away)):
            f = self.phi(self.candidates[part]) @ self.W
            away[part] = (f.square().sum(dim=1) - 2 * f.amax(dim=1) + 1).numpy()
        return np.maximum(self.moved, 0) / (1 + np.maximum(self.reach, 0)) ** 2 * np.maximum(away, 0)

    def learn(self, which: int) -> None:
        """Retrains with one more candidate and its predicted label."""
        a = self.phi(self.candidates[which : which + 1])[0]
        v, t, more = self.G @ a, self.GSG @ a, 1 + float(self.reach[which])
        moved = float(self.moved[which])
        error = -(a @ self.W)
        error[(-error).argmax()] += 1  # y^ - f
        self.W += torch.outer(v, error) / more
        z = t / more - v * (moved / (2 * more**2))
        self.G -= torch.outer(v, v) / more
        self.GSG -= torch.outer(v, z) + torch.outer(z, v)
        for part in self._parts(len(self.candidates)):
            on_v, on_z = (self.phi(self.candidates[part]) @ torch.stack([v, z], dim=1)).numpy().T
            self.reach[part] -= on_v**2 / more
            self.moved[part] -= 2 * on_v * on_z

    def _parts(self, many: int) -> list[slice]:
        return [slice(i, i + self.step) for i in range(0, many, self.step)]
