import numpy as np
import pytest

from askless.theory import alignment, dynamics_alignment_tau, training_dynamics


def items(seed: int = 0, N: int = 40):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(N, 6))
    return phi @ phi.T, rng.normal(size=(N, 3)), np.eye(3)[rng.integers(0, 3, N)]


def test_the_numbers_are_those_of_the_sub_kernels_and_the_tau_counts_pairs():
    K, R, Y = items()
    S = np.array([3, 7, 11])
    found = dynamics_alignment_tau(K, R, Y, S, size=5, draws=30, seed=1)
    from askless.base.rng import stream

    rng, others = stream(1, "queries"), np.setdiff1d(np.arange(40), S)
    for G, A in zip(found.dynamics, found.alignment, strict=True):
        both = np.concatenate([S, rng.choice(others, 5, replace=False)])
        assert pytest.approx(training_dynamics(K[np.ix_(both, both)], R[both]), rel=1e-12) == G
        assert pytest.approx(alignment(K[np.ix_(both, both)], Y[both]), rel=1e-12) == A
    signs = [
        np.sign(found.dynamics[i] - found.dynamics[j]) * np.sign(found.alignment[i] - found.alignment[j])
        for i in range(30)
        for j in range(i)
    ]
    assert found.tau == pytest.approx(np.mean(signs))


def test_the_same_seed_draws_the_same_queries():
    K, R, Y = items()
    first, again, other = (dynamics_alignment_tau(K, R, Y, [0], 4, draws=5, seed=s).dynamics for s in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_before_training_from_zero_both_are_one_number_and_unrelated_residuals_agree_by_chance_only():
    K, R, Y = items(N=120)
    assert dynamics_alignment_tau(K, -Y, Y, np.arange(20), 30).tau == pytest.approx(1.0)
    assert abs(dynamics_alignment_tau(K, R, Y, np.arange(20), 30).tau) < 0.3
