import math

import numpy as np
import pytest
import torch

from askless.theory import (
    Bounds,
    alignment,
    convergence_bounds,
    generalisation_bound,
    generalisation_bounds,
    sharp_convergence_bounds,
    sharp_generalisation_bounds,
)


def test_alignment_is_the_sum_over_pairs_of_kernel_times_label_product():
    rng = np.random.default_rng(0)
    phi, Y = rng.normal(size=(5, 7)), rng.normal(size=(5, 3))
    K = phi @ phi.T
    by_hand = sum(K[i, j] * Y[i, c] * Y[j, c] for i in range(5) for j in range(5) for c in range(3))
    assert alignment(K, Y) == pytest.approx(by_hand, rel=1e-12)
    assert alignment(torch.from_numpy(K), torch.from_numpy(Y)) == alignment(K, Y)


def test_the_bound_is_the_formula_with_an_explicit_inverse():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        phi, Y = rng.normal(size=(6, 9)), np.eye(3)[rng.integers(0, 3, 6)]
        K = phi @ phi.T
        direct = math.sqrt(2 * np.trace(Y.T @ np.linalg.inv(K) @ Y) / 6)
        assert generalisation_bound(K, Y) == pytest.approx(direct, rel=1e-9)


def test_a_singular_kernel_has_a_finite_bound_only_for_labels_in_its_range():
    rng = np.random.default_rng(0)
    phi, w = rng.normal(size=(7, 3)), rng.normal(size=3)
    K = phi @ phi.T
    assert generalisation_bound(K, phi @ w) == pytest.approx(math.sqrt(2 * w @ w / 7), rel=1e-8)
    assert generalisation_bound(K, rng.normal(size=7)) == math.inf
    assert generalisation_bounds(K, phi @ w).holds()
    assert sharp_generalisation_bounds(K, phi @ w).holds()
    outside = generalisation_bounds(K, rng.normal(size=7))
    assert outside.upper == outside.value == math.inf > outside.lower


def test_labels_of_zero_and_kernels_of_zero():
    assert generalisation_bounds(np.eye(2), np.zeros(2)) == (0.0, 0.0, 0.0)
    assert generalisation_bound(np.zeros((2, 2)), np.ones(2)) == math.inf
    assert generalisation_bounds(np.zeros((2, 2)), np.ones(2)) == (math.inf, math.inf, math.inf)


def test_theorem_1_bounds_the_residual_on_every_kernel(kernels_and_labels):
    for i, (K, Y) in enumerate(kernels_and_labels):
        top = np.linalg.eigvalsh(K)[-1]
        for t in (1, 2, 17, 1000):
            eta = (1.0, 0.5, 0.01)[i % 3] / top
            paper, sharp = convergence_bounds(K, Y, eta, t), sharp_convergence_bounds(K, Y, eta, t)
            assert paper.holds(), (i, t, paper)
            assert sharp.holds(), (i, t, sharp)
            slack = 1e-9 * np.sum(Y**2)
            assert paper.lower - slack <= sharp.lower <= sharp.upper + slack <= paper.upper + 2 * slack


def test_theorem_2_bounds_b_on_every_kernel(kernels_and_labels):
    for i, (K, Y) in enumerate(kernels_and_labels):
        paper, sharp = generalisation_bounds(K, Y), sharp_generalisation_bounds(K, Y)
        assert math.isfinite(paper.value)
        assert paper.holds(1e-6), (i, paper)  # conditions up to 1e10 leave the inverse six digits
        assert sharp.holds(1e-6), (i, sharp)
        assert sharp.lower == paper.lower
        assert sharp.upper <= paper.upper * (1 + 1e-12)


def test_the_residual_of_theorem_1_is_that_of_gradient_descent_from_zero():
    rng = np.random.default_rng(3)
    phi, Y = rng.normal(size=(5, 6)), rng.normal(size=(5, 2))
    K = phi @ phi.T
    eta, f = 0.7 / np.linalg.eigvalsh(K)[-1], np.zeros((5, 2))
    for t in range(1, 30):
        f = f - eta * K @ (f - Y)
        bounds = convergence_bounds(K, Y, eta, t)
        assert bounds.value == pytest.approx(np.sum((f - Y) ** 2), rel=1e-9)
        assert sharp_convergence_bounds(K, Y, eta, t).value == bounds.value
        assert bounds.lower == pytest.approx(np.sum(Y**2) - 2 * t * eta * alignment(K, Y))
        assert bounds.upper == pytest.approx(np.sum(Y**2) - eta * alignment(K, Y))


def test_the_sharp_bounds_are_reached():
    K = np.diag([1.0, 2.0, 10.0])
    on_one, on_both_ends = np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0])
    assert sharp_convergence_bounds(K, on_one, 0.05, 7).lower == pytest.approx(0.9**14)
    ends = sharp_convergence_bounds(K, on_both_ends, 0.05, 7)
    assert ends.value == pytest.approx(ends.upper, rel=1e-12)
    kantorovich = sharp_generalisation_bounds(K, on_both_ends)
    assert kantorovich.value == pytest.approx(kantorovich.upper, rel=1e-12)
    assert generalisation_bounds(K, on_both_ends).upper > 1.5 * kantorovich.value


def test_a_larger_alignment_does_not_imply_a_smaller_bound():
    # What the theorems do not promise: between the bounds lies the condition number.
    K = np.diag([0.01, 1.0, 10.0])
    mixed, middle = np.sqrt([0.1, 0.0, 0.9]), np.array([0.0, 1.0, 0.0])
    assert alignment(K, mixed) > 8 * alignment(K, middle)
    assert generalisation_bound(K, mixed) > 3 * generalisation_bound(K, middle)


def test_each_class_pair_of_the_printed_proof_of_theorem_2_can_fail_though_the_sum_holds():
    # Appendix B.2 bounds sum_k,k' a_k b_k' termwise; with one class on the small and one on the large mode a term is 1/100.
    K, Y = np.diag([1.0, 100.0]), np.eye(2)
    a, b = K @ Y**2, np.linalg.inv(K) @ Y**2  # lambda_i (v_i Y_k)^2 and its inverse, by mode and class
    assert a.sum(0)[0] * b.sum(0)[1] < 0.02
    assert generalisation_bounds(K, Y).holds()


def test_bounds_that_fail_say_so():
    assert Bounds(1.0, 2.0, 3.0).holds()
    assert not Bounds(1.0, 3.1, 3.0).holds()
    assert not Bounds(1.0, 0.9, 3.0).holds()
    assert not Bounds(math.inf, 1.0, math.inf).holds()
