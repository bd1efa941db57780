"""Maximum mean discrepancy between the first labelled items and all of them, under a kernel (dynamicAL, appendix D.1)."""

import math
from typing import Any

from askless.theory.inputs import as_count, as_kernel


def mmd_squared(K: Any, m: int) -> float:
    r"""$a / (m^2 - m) + b / (n^2 - n) - 2 c / (m (n - 1))$, for S0 the first m of the n items of K (n, n). Can be negative.

    a and b are the sums of K over different items of S0 and of S; c is the sum over S0 x S without the m pairs of an item
    with itself, since S0 is part of S. The mean is zero where all items come from one distribution, and with m = n it is
    zero itself.

    >>> mmd_squared([[9.0, 1.0, 2.0], [1.0, 9.0, 3.0], [2.0, 3.0, 9.0]], 2)  # a = 2, b = 12, c = 1 + 2 + 1 + 3 = 7
    -0.5
    """
    K = as_kernel(K)
    n = len(K)
    m = as_count("m (the items of S0, which come first)", m, 2, n)
    a = K[:m, :m].sum() - K[:m, :m].trace()
    b = K.sum() - K.trace()
    c = K[:m].sum() - K[:m, :m].trace()
    return float(a / (m * m - m) + b / (n * n - n) - 2 * c / (m * (n - 1)))


def mmd(K: Any, m: int) -> float:
    """The root of `mmd_squared`, 0 where that is negative.

    >>> mmd([[9.0, 3.0, 2.0], [3.0, 9.0, 1.0], [2.0, 1.0, 9.0]], 2)  # a = 6, b = 12, c = 9: 3 + 2 - 4.5
    0.707...
    """
    return math.sqrt(max(mmd_squared(K, m), 0.0))
