from dataclasses import replace

import numpy as np
import pytest
import torch

from askless.theory import Descent, check_descent, wide_relu, wide_relu_kernel


def sphere(seed: int, n: int = 20, d: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.sign(rng.normal(size=n))


def descend(share: float, width: int, layers: str = "first", seed: int = 0, steps: int = 60, n: int = 20) -> Descent:
    """Steps of `share` / lambda_max at the start."""
    X, y = sphere(seed, n)
    net = wide_relu(10, width, layers, seed)
    top = float(torch.linalg.eigvalsh(net.kernel(torch.from_numpy(X)))[-1])
    return check_descent(X, y, share / top, steps, net)


@pytest.mark.parametrize("layers", ["first", "both"])
def test_kernel_and_step_equal_autograd(layers):
    X, y = (torch.from_numpy(a) for a in sphere(0, n=6, d=4))
    net = replace(wide_relu(4, 9, layers, seed=3), a=torch.linspace(-2, 3, 9).double())  # as after some training
    W, a = net.W.clone().requires_grad_(), net.a.clone().requires_grad_()
    trained = [W, a] if layers == "both" else [W]

    def forward() -> torch.Tensor:
        return torch.relu(X @ W.T) @ a / 3

    assert torch.allclose(net(X), forward(), atol=1e-14)
    J = torch.stack([torch.cat([g.flatten() for g in torch.autograd.grad(f, trained)]) for f in _each(forward)])
    assert torch.allclose(net.kernel(X), J @ J.T, atol=1e-13)
    grads = torch.autograd.grad((forward() - y).square().sum() / 2, trained)
    after = net.step(X, net(X) - y, 0.1)
    assert torch.allclose(after.W, W - 0.1 * grads[0], atol=1e-14)
    assert torch.allclose(after.a, a - 0.1 * grads[1] if layers == "both" else a, atol=1e-14)


def _each(forward):
    return (forward()[i] for i in range(6))


@pytest.mark.parametrize("layers", ["first", "both"])
def test_the_finite_kernel_tends_to_the_infinite_one_with_the_root_of_the_width(layers):
    X = np.random.default_rng(0).normal(size=(8, 5))
    limit = wide_relu_kernel(X, layers=layers)

    def gap(width: int) -> float:
        gaps = [wide_relu(5, width, layers, seed).kernel(torch.from_numpy(X)).numpy() - limit for seed in range(20)]
        return float(np.sqrt(np.mean(np.square(gaps))))

    assert gap(30_000) < 0.02 * np.abs(limit).max()
    assert 5 < gap(300) / gap(30_000) < 20  # 10 for the root; no root at all would be 1, the width itself 100


def test_the_infinite_kernel_is_the_expectation_and_positive_definite():
    X, _ = sphere(0)
    K = wide_relu_kernel(X)
    theta = np.arccos(np.clip(X @ X.T, -1, 1))
    assert np.allclose(K, X @ X.T * (np.pi - theta) / (2 * np.pi), atol=1e-7)
    assert np.linalg.eigvalsh(K)[0] > 0.02
    assert np.allclose(wide_relu_kernel(X[:3], X, layers="both"), wide_relu_kernel(X, layers="both")[:3], atol=1e-14)
    assert np.allclose(np.diag(wide_relu_kernel(3 * X, layers="both")), 9.0)
    opposite = wide_relu_kernel([[1.0, 0.0]], [[-2.0, 0.0], [0.0, 0.0]], layers="both")
    assert np.allclose(opposite, 0.0, atol=1e-12)


@pytest.mark.parametrize("layers", ["first", "both"])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_theorem_1_holds_at_every_step_of_a_wide_network(layers, share):
    for seed in range(3):
        found = descend(share, width=2000, layers=layers, seed=seed)
        assert found.assured.all()
        assert found.holds.all()
        assert (found.lambda_min > 0.02).all()
        assert len(found.loss) == 61
        assert found.bound == pytest.approx((1 - share / found.lambda_max[0] * found.lambda_min) * found.loss[:-1])


def test_theorem_1_fails_with_a_step_far_too_large():
    for layers in ("first", "both"):
        found = descend(8.0, width=2000, layers=layers, steps=10)
        assert not found.holds.all()
        assert not found.assured.any()
        assert found.loss.max() > found.loss[0]  # at once, unless the labels hardly see the top eigenvector


def test_where_step_and_remainder_are_small_enough_the_bound_always_follows():
    assured, failed = 0, 0
    for seed in range(30):
        found = descend((0.2, 1.0, 1.9, 2.2)[seed % 4], width=(4, 30, 300)[seed % 3], seed=seed, steps=30)
        assert (found.holds | ~found.assured).all()
        assured, failed = assured + int(found.assured.sum()), failed + int((~found.holds).sum())
    assert assured > 100
    assert failed > 10


def test_the_remainder_vanishes_with_the_width():
    gaps = [
        np.mean([descend(1.0, width, seed=s, steps=10).remainder.mean() for s in range(3)]) for width in (100, 10_000)
    ]
    assert gaps[1] < gaps[0] / 4


def test_a_loss_beyond_all_numbers_ends_the_check():
    X, y = sphere(0)
    found = check_descent(X, y, 1e6, 500, wide_relu(10, 50, "both"))
    assert len(found.holds) < 500
    assert len(found.loss) == len(found.holds) + 1
    assert not found.holds[-1]
