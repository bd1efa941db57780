import math

import numpy as np
import pytest
from scipy.linalg import expm

from askless.theory import (
    linearised_predictions,
    linearised_residuals,
    loss_curves,
    spectrum,
    steps_to_loss,
    steps_to_minimum,
)


def problem(seed: int, n: int = 7, p: int = 12):
    """A linear model f = phi w, with train and test items; n > p makes the kernel singular."""
    rng = np.random.default_rng(seed)
    phi, phi_test = rng.normal(size=(n, p)), rng.normal(size=(5, p))
    w, Y, Y_test = rng.normal(size=(p, 2)), rng.normal(size=(n, 2)), rng.normal(size=(5, 2))
    return phi, phi_test, w, Y, Y_test


@pytest.mark.parametrize(("n", "p"), [(7, 12), (12, 7), (8, 8)])
def test_everything_equals_an_explicit_loop_of_gradient_descent(n, p):
    for seed in range(5):
        phi, phi_test, w, Y, Y_test = problem(seed, n, p)
        K, K_test = phi @ phi.T, phi_test @ phi.T
        eta = (0.2, 0.9, 1.7)[seed % 3] / spectrum(K).lambda_max
        r0, f0 = phi @ w - Y, phi_test @ w
        times = np.arange(60)
        residuals = linearised_residuals(K, r0, times, eta)
        predictions = linearised_predictions(K, K_test, r0, times, eta, f_test=f0)
        curves = loss_curves(K, K_test, r0, f0 - Y_test, times, eta)
        for t in times:
            r, f = phi @ w - Y, phi_test @ w
            assert np.allclose(residuals[t], r, atol=1e-10)
            assert np.allclose(predictions[t], f, atol=1e-9)
            assert curves.train[t] == pytest.approx(np.sum(r**2) / (2 * n), rel=1e-9, abs=1e-14)
            assert curves.test[t] == pytest.approx(np.sum((f - Y_test) ** 2) / 10, rel=1e-8)
            w = w - eta * phi.T @ r


def test_flow_is_the_matrix_exponential_of_the_papers():
    phi, phi_test, w, Y, _ = problem(0)
    K, K_test, eta = phi @ phi.T, phi_test @ phi.T, 0.03
    r0 = phi @ w - Y
    for t in (0.0, 0.5, 20.0):
        left = expm(-eta * K * t)
        assert np.allclose(linearised_residuals(K, r0, [t], eta, how="flow")[0], left @ r0, atol=1e-10)
        expected = phi_test @ w + K_test @ np.linalg.inv(K) @ (np.eye(7) - left) @ (Y - phi @ w)
        found = linearised_predictions(K, K_test, r0, [t], eta, f_test=phi_test @ w, how="flow")
        assert np.allclose(found[0], expected, atol=1e-9)


def test_small_steps_approach_the_flow_and_long_training_kernel_regression():
    phi, phi_test, w, Y, _ = problem(1)
    K, K_test, r0 = phi @ phi.T, phi_test @ phi.T, phi @ w - Y
    flow = linearised_predictions(K, K_test, r0, [1.0], 0.05, how="flow")
    # In m steps (1 - x/m)^m for e^-x: 0.05 x e^-x / (2 m lambda) of each eigenvalue, times |K_test| |r0| of some hundreds.
    steps = linearised_predictions(K, K_test, r0, [10**6], 0.05 / 10**6)
    assert np.allclose(steps, flow, atol=1e-4)
    end = linearised_predictions(K, K_test, r0, [1e9], 0.01, how="flow")[0]
    assert np.allclose(end, -K_test @ np.linalg.solve(K, r0), atol=1e-8)


def test_tiny_eigenvalues_keep_their_digits():
    # 1 - (1 - x)^t for x = 1e-14 is t x; by subtraction it would be rounding.
    found = linearised_predictions([[1e-14]], [[1e-14]], [-1.0], [3], eta=1.0)
    assert float(found[0, 0, 0]) == pytest.approx(3e-14, rel=1e-9, abs=0)


def test_what_the_kernel_cannot_learn_stays():
    phi, _, w, Y, _ = problem(2, n=12, p=7)
    K, r0 = phi @ phi.T, phi @ w - Y
    end = linearised_residuals(K, r0, [10**6], 1 / spectrum(K).lambda_max)[0]
    outside = r0 - phi @ np.linalg.lstsq(phi, r0, rcond=None)[0]
    assert np.allclose(end, outside, atol=1e-9)
    for_ever = linearised_residuals(K, r0, [1e20], 1.0, how="flow")[0]  # rounding among the eigenvalues would show
    assert np.allclose(for_ever, outside, atol=1e-9)
    rest = float(np.sum(outside**2)) / 24
    assert steps_to_loss(K, r0, 0.99 * rest, 0.001) == math.inf
    assert math.isfinite(steps_to_loss(K, r0, 1.01 * rest, 0.001))


def test_the_steps_to_a_loss_are_the_first_at_which_the_curve_is_there():
    for seed in range(10):
        phi, phi_test, w, Y, _ = problem(seed)
        K, r0 = phi @ phi.T, phi @ w - Y
        eta = (0.3, 1.0, 1.9)[seed % 3] / spectrum(K).lambda_max
        train = loss_curves(K, phi_test @ phi.T, r0, 0.0, np.arange(3000), eta).train
        for target in (2 * train[0], 0.999 * train[0], 0.5 * train[0], 0.01 * train[0]):
            k = steps_to_loss(K, r0, target, eta)
            assert k == np.flatnonzero(train <= target)[0]


def test_the_minimum_of_the_test_loss_is_found_and_known_to_lie_at_the_end():
    found = []
    for seed in range(10):
        phi, phi_test, w, Y, Y_test = problem(seed)
        K, K_test = phi @ phi.T, phi_test @ phi.T
        r0, s0, eta = phi @ w - Y, phi_test @ w - Y_test, 1 / spectrum(K).lambda_max
        best = steps_to_minimum(K, K_test, r0, s0, eta, max_steps=400)
        losses = [0.0] * 401
        for t in range(401):
            losses[t] = float(np.sum((phi_test @ w - Y_test) ** 2)) / 10
            w = w - eta * phi.T @ (phi @ w - Y)
        assert best.loss == pytest.approx(min(losses), rel=1e-9)
        assert losses[best.step] == pytest.approx(min(losses), rel=1e-9)
        assert best.at_end == (best.step == 400)
        found.append(best.step)
    assert len(set(found)) > 3


def test_many_times_in_tiles_equal_the_same_at_once(monkeypatch):
    from askless.theory import linearised

    phi, phi_test, w, Y, Y_test = problem(0)
    arguments = phi @ phi.T, phi_test @ phi.T, phi @ w - Y, phi_test @ w - Y_test, np.arange(50), 0.01
    whole = loss_curves(*arguments)
    monkeypatch.setattr(linearised, "TILE", 30)
    for a, b in zip(whole, loss_curves(*arguments), strict=True):
        assert np.allclose(a, b, rtol=1e-12)
