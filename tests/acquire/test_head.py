"""The head behind features and logits."""

import numpy as np
import pytest

import askless as al
from askless.acquire.head import linear_head


def layer(N=200, d=6, C=3, seed=0):
    rng = np.random.default_rng(seed)
    z, W, b = rng.normal(size=(N, d)) + 5, rng.normal(size=(d, C)), rng.normal(size=C)
    return z, W, b


def found(z, f):
    return linear_head(z, f, np.random.default_rng(0))


@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-10), (np.float32, 1e-4)])
def test_a_linear_layer_is_found_again(dtype, digits):
    z, W, b = layer()
    head = found(z.astype(dtype), (z @ W + b).astype(dtype))
    np.testing.assert_allclose(head.W / head.unit, W, atol=digits)
    np.testing.assert_allclose(head.b, b, atol=30 * digits)
    assert head.known
    assert head.notes == []


def test_drawn_rows_are_enough():
    z, W, b = layer(N=5000)
    head = found(z, z @ W + b)
    np.testing.assert_allclose(head.W / head.unit, W, atol=1e-10)


@pytest.mark.parametrize("scale", [2.0**-480, 2.0**480])
def test_the_unit_of_the_features_does_not_matter(scale):
    z, W, b = layer()
    plain, scaled = found(z, z @ W + b), found(z * scale, z @ W + b)
    np.testing.assert_allclose(scaled.W, plain.W, rtol=1e-9)


def test_logits_that_are_not_linear_are_named():
    z, W, b = layer()
    assert "not linear in the features" in found(z, np.sin(z @ W + b)).notes[0]


def test_features_that_leave_the_head_open_are_named():
    z, W, b = layer(N=5)
    assert "too few directions" in found(z, z @ W + b).notes[0]
    z, W, b = layer()
    z[:, 1] = z[:, 0]  # dropped by itself, its weight would matter
    assert not found(z, z @ W + b).known
    z, W, b = layer()
    z[:, 1] = 0  # as a unit that is never active: no weight of it matters
    assert found(z, z @ W + b).known


def test_a_constant_pool_has_a_constant_head():
    head = found(np.ones((9, 4)), np.tile([1.0, 2.0], (9, 1)))
    assert head.notes == []
    np.testing.assert_allclose(np.ones(4) @ head.W + head.b, [1, 2])


@pytest.mark.parametrize("net", ["linear", "mlp"])
@pytest.mark.parametrize("strategy", ["dropquery", "alfamix"])
def test_a_loop_shows_both_sides_of_one_linear_layer(strategy, net):
    x = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    net = al.nets.make(net, classes=3, shape=(6,), **({"hidden": (16,)} if net == "mlp" else {}))
    learner = al.ActiveLearner(x, net=net, learner=al.Supervised(steps=5), strategy=strategy, classes=3)
    first = learner.ask(6)
    learner.tell(first.indices, np.arange(6) % 3)
    learner.fit()
    assert "not linear" not in learner.ask(6).info.get("note", "")
