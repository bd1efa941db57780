import math

import numpy as np
import pytest
import torch
from torch import nn

import askless as al
from askless.theory import descent_rate, spectrum


def test_two_unit_items_have_eigenvalues_one_plus_and_minus_their_inner_product():
    found = spectrum(np.array([[1.0, 0.6], [0.6, 1.0]]))
    assert found.rank == 2
    assert found.lambda_min == pytest.approx(0.4)
    assert found.lambda_max == pytest.approx(1.6)
    assert found.condition == pytest.approx(4.0)


def test_the_spectrum_equals_the_score_of_the_rows_it_is_made_of():
    for seed, (n, p) in enumerate([(5, 9), (9, 5), (6, 6)]):
        phi = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, p)))
        score, found = al.linalg.gram_score(phi), spectrum(phi @ phi.T)
        assert found.rank == score.rank == min(n, p)
        assert found.lambda_min == pytest.approx(score.value, rel=1e-8)


def test_a_kernel_of_zeros_has_rank_zero():
    assert spectrum(np.zeros((3, 3))) == (0, 0.0, 0.0, math.inf)


def test_a_duplicate_lowers_the_rank_and_distinct_items_in_general_position_keep_it():
    # METHODS 7.2: NPC's proposition 1 says that distinct items suffice; d + 2 of them never do.
    phi = np.hstack([np.random.default_rng(0).normal(size=(6, 4)), np.ones((6, 1))])
    assert spectrum(phi[:5] @ phi[:5].T).rank == 5
    twice = phi[[0, 1, 2, 3, 0]]
    assert spectrum(twice @ twice.T).rank == 4
    assert spectrum(phi @ phi.T).rank == 5 < 6


def test_the_last_layers_smallest_eigenvalue_is_below_that_of_the_whole_network():
    # METHODS 7.3: Weyl; NPC prints the inequality the other way round.
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 3)).double()
    x = torch.randn(8, 6, dtype=torch.float64)
    last, everything = (spectrum(al.kernels.ntk(net, x, layers=layers)) for layers in ("last", "all"))
    assert last.rank == everything.rank == 8
    assert last.lambda_min < everything.lambda_min


def test_more_items_never_raise_the_smallest_eigenvalue():
    phi = np.random.default_rng(0).normal(size=(20, 40))
    K = phi @ phi.T
    lows = [spectrum(K[:n, :n]).lambda_min for n in range(1, 21)]
    assert (np.diff(lows) <= 1e-12).all()


def test_descent_shrinks_the_residual_as_the_rate_says():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(6, 8))
    K, start = phi @ phi.T, rng.normal(size=6)
    for share in (0.3, 0.9, 0.999):
        rate = descent_rate(K, share * 2 / spectrum(K).lambda_max, shrink=0.05)
        V = np.linalg.eigh(K)[1]
        r = start
        for _ in range(int(rate.steps)):
            after = r - rate.eta * K @ r
            assert np.linalg.norm(after) <= rate.factor * np.linalg.norm(r) * (1 + 1e-12)
            r, before = after, r
        shares, earlier = (np.abs(V.T @ v) / np.abs(V.T @ start) for v in (r, before))
        assert shares.max() <= 0.05 * (1 + 1e-9) < earlier.max() * (1 + 2e-9)
        assert rate.slowest == pytest.approx(1 - rate.eta * spectrum(K).lambda_min)
        assert rate.eta_max == pytest.approx(2 / spectrum(K).lambda_max)


def test_beyond_the_largest_step_it_diverges():
    K = np.diag([1.0, 3.0])
    assert descent_rate(K, 0.66).factor < 1
    assert descent_rate(K, 0.67).factor > 1
    assert descent_rate(K, 0.67).steps == math.inf


def test_the_default_step_has_the_smallest_factor():
    K = np.diag([1.0, 2.0, 4.0])
    best = descent_rate(K)
    assert best.factor == pytest.approx((4 - 1) / (4 + 1))
    assert all(descent_rate(K, eta).factor >= best.factor - 1e-12 for eta in np.linspace(0.01, 0.49, 49))


def test_modes_that_never_move_are_left_out_of_the_rate():
    assert descent_rate(np.diag([0.0, 1.0, 2.0]), 0.5).factor == pytest.approx(0.5)


def test_a_perturbed_kernel_has_eigenvalues_within_the_norm_of_what_was_added():
    # CRC's proposition 1, by Weyl: what the empirical kernel says of the true one.
    rng = np.random.default_rng(0)
    for n in (2, 5, 20):
        K, N = (m @ m.T for m in rng.normal(size=(2, n, n)))
        N = N - rng.normal() * np.eye(n)  # symmetric, of either sign
        moved = np.linalg.eigvalsh(K + N) - np.linalg.eigvalsh(K)
        assert np.abs(moved).max() <= np.linalg.norm(N, 2) * (1 + 1e-12)
