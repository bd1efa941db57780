"""Do training dynamics and alignment rank query sets alike? Kendall's tau over random queries (dynamicAL, figure 2)."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kendalltau

from askless.base.rng import Seed, stream
from askless.theory.inputs import as_count, as_kernel, as_positions, as_rows


class Agreement(NamedTuple):
    """Kendall's tau and the numbers it ranks, one per drawn query.

    `p_value`: of no agreement. `dynamics` and `alignment` (draws,).

    >>> K, Y = np.diag([1.0, 2.0, 3.0, 4.0]), np.eye(4)[:, :2]
    >>> al.theory.dynamics_alignment_tau(K, -Y, Y, [0], 1, draws=10).tau
    1.0
    """

    tau: float
    p_value: float
    dynamics: np.ndarray  # (draws,)  G_MSE(S u Q)
    alignment: np.ndarray  # (draws,)  A(S u Q)


def dynamics_alignment_tau(
    K: Any, residual: Any, Y: Any, labelled: Any, size: int, draws: int = 150, seed: Seed = 0
) -> Agreement:
    """Kendall's tau between G_MSE(S u Q) and A(S u Q) over random queries Q of `size` items outside S = `labelled`.

    One kernel K (N, N) over all items, their residuals f - Y (N, C) and their labels Y (N, C) serve every query. nan where
    one of the two never changes.

    >>> K, Y = np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(4)
    >>> found = dynamics_alignment_tau(K, -Y, Y, labelled=[0], size=1, draws=20)  # f = 0: both are the same number
    >>> round(found.tau, 6)
    1.0
    """
    K = as_kernel(K)
    N = len(K)
    R, T = as_rows("residual", residual, N), as_rows("Y", Y, N)
    S = as_positions("labelled", labelled, N)
    others = np.setdiff1d(np.arange(N), S)
    as_count("size", size, 1, len(others))
    as_count("draws", draws, 2)
    rng = stream(seed, "queries")
    G, A = np.empty(draws), np.empty(draws)
    for i in range(draws):
        both = np.concatenate([S, rng.choice(others, size, replace=False)])
        part, r, y = K[np.ix_(both, both)], R[both], T[both]
        G[i], A[i] = np.sum(r * (part @ r)), np.sum(y * (part @ y))
    found = kendalltau(G, A)
    return Agreement(float(found.statistic), float(found.pvalue), G, A)
