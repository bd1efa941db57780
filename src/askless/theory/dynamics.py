"""Training dynamics G: how fast the training loss falls per unit of step size (dynamicAL, eq. 8 and appendix A.3).

G = ||sum of the items' loss gradients||^2 = sum over items and outputs of d_i K_ij d_j, with d the derivative of the loss
by the outputs: f - Y for the squared error 1/2 ||f - Y||^2, softmax(f) - Y for the cross entropy.
"""

import math
from typing import Any

import numpy as np
from scipy.special import softmax

from askless.base.errors import InputError
from askless.theory.inputs import as_kernel, as_numbers, as_rows, one_hot


def training_dynamics(K: Any, residual: Any) -> float:
    r"""$G = Tr[R^T K R]$ for the residuals R (n, C), or (n,), under a kernel K.

    K (n, n) is the kernel of one output: exact where the outputs share it and do not mix, as for a last layer or a very
    wide network (eq. 2). A trace kernel summed over C outputs (`askless.kernels.ntk`) is divided by C first. K (n, C, n, C)
    is the full kernel, K[i, c, j, e] = grad f_c(x_i) . grad f_e(x_j), with which G is exact for every network.

    >>> training_dynamics([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0])
    2.0
    >>> training_dynamics(np.ones((1, 2, 1, 2)), [[0.5, 0.25]])  # outputs that move together
    0.5625
    """
    K = as_numbers("K", K)
    if K.ndim == 4:
        n, C = K.shape[:2]
        if K.shape != (n, C, n, C):
            raise InputError(f"K: expected a full kernel of shape (n, C, n, C), got {K.shape}")
        r = as_rows("residual", residual, n)
        if r.shape != (n, C):
            raise InputError(f"residual: expected shape {(n, C)}, as the kernel has, got {r.shape}")
        K, r = as_kernel(K.reshape(n * C, n * C)), r.reshape(n * C, 1)
    else:
        K = as_kernel(K)
        r = as_rows("residual", residual, len(K))
    return float(np.sum(r * (K @ r)))


def softmax_residual(logits: Any, Y: Any) -> np.ndarray:
    """softmax(f) - Y (n, C), the derivative of the cross entropy by the logits; Y (n, C), or class numbers (n,).

    >>> softmax_residual([[0.0, 0.0]], [1])
    array([[ 0.5, -0.5]])
    """
    f = as_numbers("logits", logits)
    if f.ndim != 2:
        raise InputError(f"logits: expected shape (n, C), got {f.shape}")
    targets = as_numbers("Y", Y)
    targets = one_hot(targets, f.shape[1]) if targets.ndim == 1 else targets
    if targets.shape != f.shape:
        raise InputError(f"Y: expected shape {f.shape} as the logits have, or ({len(f)},), got {targets.shape}")
    return softmax(f, axis=1) - targets


def approximation_ratio(G_pool: Any, g_S: Any) -> float:
    r"""$R(Q|S) = \sum_u \Delta(u|S) / \Delta(Q|S)$ for the gradients G_pool (q, p) of a query Q and the sum g_S (p,) over S.

    Delta(u|S) = ||g_u||^2 + 2 g_u . g_S is what one item adds to G(S) = ||g_S||^2, Delta(Q|S) what all of Q adds; the
    ratio is 1 where the terms g_u . g_u' between different items cancel (eq. 14). nan where Q adds nothing.

    >>> approximation_ratio([[1.0, 0.0], [1.0, 1.0]], [1.0, 0.0])  # (1 + 2) + (2 + 2) over |(3, 1)|^2 - 1
    0.777...
    """
    G, g = as_numbers("G_pool", G_pool), as_numbers("g_S", g_S)
    if G.ndim != 2 or g.shape != G.shape[1:]:
        raise InputError(f"expected G_pool (q, p) and g_S (p,), got {G.shape} and {g.shape}")
    total = G.sum(0)
    return approximation_ratio_from_sums(np.sum(G * G), total @ g, total @ total)


def approximation_ratio_from_sums(sum_sq: float, sum_dot: float, sq_sum: float) -> float:
    r"""The same from `sum_sq` $\sum_u ||g_u||^2$, `sum_dot` $\sum_u g_u \cdot g_S$ and `sq_sum` $||\sum_u g_u||^2$.

    The first two are sums over Q of what `askless.kernels.gradient_stats` gives against S, the third is the sum of its `dot`
    for Q against Q itself: nobody needs to hold the gradients.

    >>> approximation_ratio_from_sums(3.0, 2.0, 5.0)  # the example above
    0.777...
    """
    together = float(sq_sum) + 2 * float(sum_dot)
    return (float(sum_sq) + 2 * float(sum_dot)) / together if together else math.nan
