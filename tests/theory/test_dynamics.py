import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import askless as al
from askless.theory import (
    approximation_ratio,
    approximation_ratio_from_sums,
    one_hot,
    softmax_residual,
    training_dynamics,
)


def small_network(seed: int = 0) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    return net, torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 1])


def full_kernel(net: nn.Module, x: Tensor) -> Tensor:
    J = al.kernels.jacobian(net, x)
    return torch.einsum("icp,jep->icje", J, J)


def squared_gradient(net: nn.Module, loss: Tensor) -> float:
    return sum(float(g.square().sum()) for g in torch.autograd.grad(loss, list(net.parameters())))


def test_both_kinds_of_kernel_equal_explicit_loops():
    rng = np.random.default_rng(0)
    J, R = rng.normal(size=(4, 3, 9)), rng.normal(size=(4, 3))
    K = np.einsum("icp,jep->icje", J, J)
    pairs = [(i, j) for i in range(4) for j in range(4)]
    full = sum(R[i, c] * K[i, c, j, e] * R[j, e] for i, j in pairs for c in range(3) for e in range(3))
    assert training_dynamics(K, R) == pytest.approx(full, rel=1e-12)
    one = K[:, 0, :, 0]
    assert training_dynamics(one, R) == pytest.approx(
        sum(one[i, j] * R[i, c] * R[j, c] for i, j in pairs for c in range(3)), rel=1e-12
    )
    alone = np.einsum("ij,ce->icje", one, np.eye(3))  # outputs that share a kernel and do not mix
    assert training_dynamics(alone, R) == pytest.approx(training_dynamics(one, R), rel=1e-12)


def test_cross_entropy_dynamics_are_the_squared_norm_of_the_summed_gradients():
    net, x, y = small_network()
    K, residual = full_kernel(net, x), softmax_residual(net(x), y)
    G = training_dynamics(K, residual)
    assert pytest.approx(squared_gradient(net, F.cross_entropy(net(x), y, reduction="sum")), rel=1e-10) == G
    assert pytest.approx(float(al.kernels.loss_gradients(net, x, y).sum(0).square().sum()), rel=1e-10) == G
    assert pytest.approx(float(al.kernels.gradient_stats(net, x, y, against=(x, y)).dot.sum()), rel=1e-10) == G


def test_squared_error_dynamics_are_the_squared_norm_of_its_gradient():
    net, x, y = small_network(1)
    Y = torch.from_numpy(one_hot(y, 3))
    G = training_dynamics(full_kernel(net, x), (net(x) - Y).detach())
    assert pytest.approx(squared_gradient(net, (net(x) - Y).square().sum() / 2), rel=1e-10) == G


def test_the_trace_kernel_over_c_is_exact_for_the_last_layer_and_only_near_for_all_layers():
    net, x, y = small_network()
    residual = softmax_residual(net(x), y)
    last = training_dynamics(al.kernels.ntk(net, x, layers="last") / 3, residual)
    head = [p.requires_grad_(name.startswith("2")) for name, p in net.named_parameters()]
    exact = sum(
        float(g.square().sum())
        for g in torch.autograd.grad(F.cross_entropy(net(x), y, reduction="sum"), [p for p in head if p.requires_grad])
    )
    assert last == pytest.approx(exact, rel=1e-10)
    net, x, y = small_network()
    near = training_dynamics(al.kernels.ntk(net, x, layers="all") / 3, residual)
    exact = training_dynamics(full_kernel(net, x), residual)
    assert near == pytest.approx(exact, rel=0.5)
    assert near != pytest.approx(exact, rel=1e-3)


def test_a_small_gradient_step_lowers_the_loss_by_the_dynamics():
    net, x, y = small_network(2)
    before = F.cross_entropy(net(x), y, reduction="sum")
    G, eta = training_dynamics(full_kernel(net, x), softmax_residual(net(x), y)), 1e-6
    grads = torch.autograd.grad(before, list(net.parameters()))
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads, strict=True):
            p -= eta * g
    fall = float((before - F.cross_entropy(net(x), y, reduction="sum")).detach())
    assert fall / eta == pytest.approx(G, rel=1e-3)


def test_the_softmax_residual_takes_class_numbers_or_rows():
    logits = np.random.default_rng(0).normal(size=(4, 3))
    y = np.array([2, 0, 1, 1])
    residual = softmax_residual(logits, y)
    assert np.array_equal(residual, softmax_residual(torch.from_numpy(logits), np.eye(3)[y]))
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - np.eye(3)[y]
    assert np.allclose(residual, expected, atol=1e-14)
    assert np.isfinite(softmax_residual([[1e4, -1e4]], [0])).all()


def test_the_approximation_ratio_equals_its_definition():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        G, g = rng.normal(size=(5, 8)), rng.normal(size=8)
        dynamics = [np.sum((g + u) ** 2) - np.sum(g**2) for u in G]
        expected = sum(dynamics) / (np.sum((g + G.sum(0)) ** 2) - np.sum(g**2))
        assert approximation_ratio(torch.from_numpy(G), g) == pytest.approx(expected, rel=1e-9)
        total = G.sum(0)
        assert approximation_ratio_from_sums(np.sum(G**2), np.sum(G @ g), total @ total) == pytest.approx(expected)


def test_the_ratio_is_one_for_one_item_and_for_orthogonal_gradients():
    g = np.array([1.0, -2.0, 3.0])
    assert approximation_ratio([[0.5, 1.0, 2.0]], g) == pytest.approx(1.0)
    assert approximation_ratio(np.diag([1.0, 2.0, 3.0]), g) == pytest.approx(1.0)
    assert approximation_ratio(np.ones((4, 3)), np.zeros(3)) == pytest.approx(1 / 4)  # all alike: 4 of 16
    assert math.isnan(approximation_ratio(np.zeros((2, 3)), g))


def test_the_three_sums_come_from_gradient_stats():
    net, x, y = small_network()
    g_S = al.kernels.loss_gradients(net, x[:2], y[:2]).sum(0)
    query = x[2:]
    stats = al.kernels.gradient_stats(net, query, against=(x[:2], y[:2]))
    own = al.kernels.gradient_stats(net, query, against=(query, None))
    ratio = approximation_ratio_from_sums(float(stats.sq.sum()), float(stats.dot.sum()), float(own.dot.sum()))
    assert ratio == pytest.approx(approximation_ratio(al.kernels.loss_gradients(net, query), g_S), rel=1e-9)


def test_the_ratio_comes_near_one_as_training_on_digits_converges():
    """dynamicAL's figure 4, small. It stays near one without becoming one: the cross terms do not vanish."""
    from sklearn.datasets import load_digits

    images, classes = load_digits(return_X_y=True)
    x, y = torch.from_numpy(images / 16).float(), torch.from_numpy(classes)
    medians: dict[int, list[float]] = {0: [], 10: [], 300: []}
    for seed in range(2):
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
        order = rng.permutation(len(x))
        S, pool = order[:200], order[200:500]
        optimiser = torch.optim.Adam(net.parameters(), lr=5e-3)
        for epoch in range(301):
            if epoch in medians:
                G = al.kernels.loss_gradients(net, x[pool])
                g_S = al.kernels.loss_gradients(net, x[S], y[S]).sum(0)
                queries = [rng.choice(len(pool), 50, replace=False) for _ in range(40)]
                medians[epoch].append(float(np.median([approximation_ratio(G[q], g_S) for q in queries])))
            optimiser.zero_grad()
            F.cross_entropy(net(x[S]), y[S]).backward()
            optimiser.step()
    gaps = {epoch: max(abs(r - 1) for r in found) for epoch, found in medians.items()}
    # Over forty seeds: .84 to 10 at first, .21 to 1.07 after ten epochs, at most .33 in the end.
    assert gaps[0] > 0.7 > 0.4 > gaps[300]
    assert gaps[10] > gaps[300]
