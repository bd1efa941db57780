"""BAIT: the batch that determines the last layer best, by Fisher information (Ash et al., NeurIPS 2021)."""

from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy.linalg import helmert
from torch import Tensor

from askless.acquire.main_directions import Rows
from askless.acquire.strategy import Selection, View, drawn, first_of_the_largest, top
from askless.base.options import Between, Count, options

TILE = 2**21  # bytes of small matrices at a time
LEAST = (
    1e-6  # of the mean eigenvalue of w I: the least lambda; M^-1 I M^-1 starts at 1 / lambda^2 and loses these digits
)


@options
class BAIT:
    r"""The n items whose labels lower $\operatorname{tr}(M^{-1} I)$ most, chosen greedily: 2 n are added one by one, then n
    are taken out again.

    Of a linear softmax head on phi the Fisher information of an item is $I(x) = (\operatorname{diag} p - p p^\top) \otimes
    \phi \phi^\top$. I is its mean over the pool, labelled items included, and

    $$M = \lambda + \frac{1}{L + n} \Big(\sum_{x \in L} I(x) + w \sum_{x \in S} I(x)\Big), \qquad w = n.$$

    w = n is what the authors' code does; `weights="equal"` has w = 1: labelled and new items count alike. How much `lam`
    (lambda) weighs depends on the scale of the features; a millionth of the pool's own information is the least that
    float64 bears (`info["lam"]`, where it is raised). `bias=True` adds a column of ones to the features, as a head with a
    bias has it.

    The matrices have D = (C - 1) d rows (a softmax does not see what all classes share, so one class is left out; this is
    exact), and several of them must fit in half of `max_memory`: 2^28 bytes have room for D = 1,831. Where D is larger,
    features are taken in their main directions, as many as fit or `directions`; `info["kept"]` says how much of their
    squared length is left. Each candidate has 3 (C - 1)^2 numbers; where these do not fit in the other half, candidates are
    drawn at random, `info["candidates"]` of them but at least 4 n. Cost: N D^2 once, then N C^2 (C + d) + C D^2 for each of
    the 3 n steps.

    Scores are by how much each pick lowered the trace when it was added. `info`: the `trace` in the end and `trace_before`.

    >>> F, p = [[0.1], [1.0], [2.0]], [[0.5, 0.5], [0.9, 0.1], [0.5, 0.5]]
    >>> al.select(al.BAIT(), 1, features=F, probs=p).indices
    array([2])
    """

    lam: Annotated[float, Between(1e-9, 1e9)] = 1.0
    weights: Literal["authors", "equal"] = "authors"
    bias: bool = False
    directions: Count | None = None
    name = "bait"
    needs = ("features", "probs")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        c = view["probs"].shape[1] - 1
        if n == 0 or c == 0:  # of one class no label tells anything
            return top(np.zeros(view.N), view.unlabelled, n, rng)
        most = max(1, int((view.max_memory / 80) ** 0.5) // c - self.bias)
        phi = Rows(view["features"], min(most, self.directions or most), self.bias, rng)
        room = view.max_memory // 2 // (8 * (phi.width + 3 * c * c + 1))
        among = view.unlabelled[drawn(len(view.unlabelled), max(4 * n, room), rng)]
        L = len(view.labelled)
        lam, w = self.lam / phi.scale**2, n if self.weights == "authors" else 1
        pool_fisher = fisher(view, phi, np.arange(view.N)) / view.N
        M = fisher(view, phi, view.labelled) / (L + n)
        least = LEAST * w * float(pool_fisher.diagonal().mean())
        M.diagonal().add_(max(lam, least))
        information = Information(phi(among), by_class(view["probs"], among) * (w / (L + n)), M, pool_fisher)
        before = information.trace
        chosen, gains = forward_backward(information, n, rng.random(len(among)), view)
        info: dict[str, Any] = {"trace_before": before, "trace": information.trace}
        notes = []
        if least > lam:
            info["lam"] = least * phi.scale**2
            notes.append(
                f"the features are long: lam is raised to {info['lam']:.3g}, {LEAST:g} of the information of a batch"
            )
        if phi.basis is not None:
            info["kept"] = phi.kept
            notes.append(
                f"features are reduced to {phi.width - self.bias} main directions, {phi.kept:.0%} of their length"
            )
        if len(among) < len(view.unlabelled):
            info["candidates"] = len(among)
            notes.append(f"{len(among)} candidates are drawn at random, because max_memory has no room for more")
        if notes:
            info["note"] = "; ".join(notes)
        return Selection(among[chosen], gains, info)


def forward_backward(information: "Information", n: int, ties: np.ndarray, view: View) -> tuple[np.ndarray, np.ndarray]:
    """Positions (n,) among the candidates, and how much each lowered the trace when it was added."""
    N = len(ties)
    chosen: list[int] = []
    gains: list[float] = []
    free = np.zeros(N)
    for _ in range(min(2 * n, N)):
        lowers = information.lowers(+1) + free
        best = first_of_the_largest(lowers, ties)
        chosen.append(best)
        gains.append(float(lowers[best]))
        free[best] = -np.inf
        information.change(best, +1)
        view.report(min(n, len(chosen) // 2), n)
    while len(chosen) > n:
        at = np.array(chosen)
        worst = first_of_the_largest(information.lowers(-1, at), -ties[at])
        information.change(chosen.pop(worst), -1)
        del gains[worst]
    return np.array(chosen, dtype=np.int64), np.array(gains)


class Information:
    r"""$\operatorname{tr}(M^{-1} F)$ as items x with $I(x) = P \otimes \phi \phi^\top$ are added to M or taken out.

    With $U = M^{-1} (1 \otimes \phi)$, $B = (1 \otimes \phi)^\top M^{-1} (1 \otimes \phi)$ and
    $T = (1 \otimes \phi)^\top M^{-1} F M^{-1} (1 \otimes \phi)$, all of c x c but U, Woodbury's identity gives for s = 1
    (added) and s = -1 (taken out)

    $$(M + s I(x))^{-1} = M^{-1} - U X U^\top, \qquad X = s (1 + s P B)^{-1} P,$$

    so the trace falls by $\operatorname{tr}(X T)$. B and T of every candidate are held and follow each change.
    """

    def __init__(self, phi: Tensor, P: Tensor, M: Tensor, F: Tensor) -> None:
        """phi (N, d), P (N, c, c), M and F (c d, c d), all in float64."""
        self.phi, self.P = phi, P
        (N, d), c = phi.shape, P.shape[1]
        self.shape = c, d
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(M))
        self.trace = float((self.inverse * F).sum())
        self.sandwich = self.inverse @ F @ self.inverse
        self.B, self.T = (torch.empty(N, c, c, dtype=torch.float64) for _ in range(2))
        self.step = max(1, TILE // (8 * c * max(c, d)))
        for i in range(0, N, self.step):
            part = slice(i, i + self.step)
            for out, matrix in ((self.B, self.inverse), (self.T, self.sandwich)):
                for a in range(c):  # (k, d) (d, c d) -> (k, c, d), then with phi
                    rows = (phi[part] @ matrix[a * d : (a + 1) * d]).reshape(-1, c, d)
                    out[part, a] = torch.einsum("kbd,kd->kb", rows, phi[part])

    def lowers(self, sign: int, at: np.ndarray | None = None) -> np.ndarray:
        """By how much the trace falls if a candidate is added (+1) or taken out (-1): of all, or of those at `at`."""
        some = torch.arange(len(self.P)) if at is None else torch.from_numpy(at)
        out = torch.empty(len(some), dtype=torch.float64)
        for i in range(0, len(some), self.step):
            part = some[i : i + self.step]
            out[i : i + self.step] = (self._X(part, sign) * self.T[part]).sum(dim=(1, 2))
        return out.numpy()

    def change(self, which: int, sign: int) -> None:
        """Adds a candidate to M, or takes it out."""
        c, d = self.shape
        X, T = self._X(torch.tensor([which]), sign)[0], self.T[which].clone()
        U, G = ((m.reshape(c * d, c, d) @ self.phi[which]) for m in (self.inverse, self.sandwich))  # (c d, c)
        self.trace -= float((X * T).sum())
        XU, Z = U @ X, G @ X - U @ (X @ T @ X) / 2
        self.inverse -= XU @ U.T
        self.sandwich -= Z @ U.T + U @ Z.T
        left, right = (m.reshape(c, d, c).movedim(1, 0).reshape(d, c * c) for m in (U, Z))
        for i in range(0, len(self.P), self.step):
            part = slice(i, i + self.step)
            u, z = ((self.phi[part] @ m).reshape(-1, c, c) for m in (left, right))
            self.B[part] -= u @ X @ u.mT
            cross = z @ u.mT
            self.T[part] -= cross + cross.mT

    def _X(self, part: Tensor, sign: int) -> Tensor:
        P = self.P[part]
        one = torch.eye(self.shape[0], dtype=torch.float64)
        X = torch.linalg.solve(one + sign * (P @ self.B[part]), sign * P)
        return (X + X.mT) / 2


def by_class(probs: np.ndarray, positions: np.ndarray) -> Tensor:
    """Q^T (diag p - p p^T) Q of these items, (k, C - 1, C - 1), Q orthonormal columns that are orthogonal to 1."""
    p = np.asarray(probs[positions], dtype=np.float64)
    p /= p.sum(axis=1, keepdims=True)
    C = p.shape[1]
    Q = helmert(C).T
    mean = p @ Q
    squares = (p @ (Q[:, :, None] * Q[:, None, :]).reshape(C, -1)).reshape(len(p), C - 1, C - 1)
    return torch.from_numpy(squares - mean[:, :, None] * mean[:, None, :])


def fisher(view: View, phi: Rows, positions: np.ndarray) -> Tensor:
    """Sum of the Fisher information of these items, (c d, c d), a few rows at a time."""
    c, d = view["probs"].shape[1] - 1, phi.width
    out = torch.zeros(c, d, c, d, dtype=torch.float64)
    step = max(1, TILE // (8 * (c * c + d)))
    for i in range(0, len(positions), step):
        some = positions[i : i + step]
        rows, P = phi(some), by_class(view["probs"], some)
        for a in range(c):
            for b in range(a + 1):
                out[a, :, b] += rows.T @ (P[:, a, b, None] * rows)
    for a in range(c):
        for b in range(a):
            out[b, :, a] = out[a, :, b].T
    return out.reshape(c * d, c * d)
