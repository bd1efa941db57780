import math

import numpy as np
import pytest

from askless.theory import mmd, mmd_squared


def brute_force(K: np.ndarray, m: int) -> float:
    """Means over pairs of different items, written out (METHODS 6)."""
    n = len(K)
    a = sum(K[i, j] for i in range(m) for j in range(m) if i != j)
    b = sum(K[i, j] for i in range(n) for j in range(n) if i != j)
    c = sum(K[i, j] for i in range(m) for j in range(n) if i != j)
    return a / (m**2 - m) + b / (n**2 - n) - 2 * c / (m * (n - 1))


def test_it_equals_the_double_loop():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 12))
        phi = rng.normal(size=(n, 4))
        for m in range(2, n + 1):
            expected = brute_force(phi @ phi.T, m)
            assert mmd_squared(phi @ phi.T, m) == pytest.approx(expected, abs=1e-12)
            assert mmd(phi @ phi.T, m) == pytest.approx(math.sqrt(max(expected, 0.0)), abs=1e-6)


def test_the_mean_is_zero_when_all_items_come_from_one_distribution():
    rng = np.random.default_rng(0)
    phis = rng.normal(loc=1.0, size=(4000, 12, 3))
    found = np.array([mmd_squared(phi @ phi.T, 5) for phi in phis])
    assert abs(found.mean()) < 4 * found.std() / math.sqrt(len(found))
    assert (found < 0).any()


def test_it_sees_another_distribution():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(200, 3))
    same = mmd(phi @ phi.T, 100)
    phi[100:] += 3.0
    assert mmd(phi @ phi.T, 100) > 1.0 > same


def test_another_distribution_leaves_a_bias_of_order_one_over_n():
    # For queries from r the mean is ((n - m)^2 MMD^2(p, r) + (n - m) (E_pp - E_rr)) / (n (n - 1)), with E_pp and E_rr the
    # mean kernel of two items of p and of r; here MMD^2 = E_rr = 4 and E_pp = 0. The paper calls the estimate unbiased.
    rng = np.random.default_rng(0)
    n, m = 10, 6
    phis = rng.normal(size=(20_000, n, 2))
    phis[:, m:, 0] += 2.0
    found = np.array([mmd_squared(phi @ phi.T, m) for phi in phis])
    expected = ((n - m) ** 2 * 4.0 - (n - m) * 4.0) / (n * (n - 1))
    assert found.mean() == pytest.approx(expected, abs=4 * found.std() / math.sqrt(len(found)))


def test_all_items_against_themselves_differ_by_nothing():
    phi = np.random.default_rng(0).normal(size=(6, 3))
    assert mmd_squared(phi @ phi.T, 6) == pytest.approx(0.0, abs=1e-12)
    assert mmd(phi @ phi.T, 6) < 1e-6
