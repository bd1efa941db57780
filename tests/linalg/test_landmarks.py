import numpy as np
import pytest
import torch

from askless.linalg.landmarks import partial_cholesky


def gram(n, d, seed=0):
    F = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return F @ F.T


def factor(K, k, order=None):
    return partial_cholesky(K.diagonal(), lambda i: K[:, i], k, order)


@pytest.mark.parametrize("order", [None, np.array([3, 1, 7, 0, 2, 4, 5, 6, 8])])
def test_it_is_the_nystroem_approximation(order):
    K = gram(9, 9)
    found = factor(K, 4, order)
    S = found.items.tolist()
    expected = K[:, S] @ torch.linalg.solve(K[S][:, S], K[S])
    torch.testing.assert_close(found.features @ found.features.T, expected, rtol=1e-10, atol=1e-10)
    assert found.left == pytest.approx(float((K - expected).trace() / K.trace()), rel=1e-10)
    assert order is None or S == [3, 1, 7, 0]


def test_what_is_left_is_positive_and_its_trace_bounds_every_entry():
    K = gram(12, 12)
    last = 1.0
    for k in (1, 3, 6, 11, 12):
        found = factor(K, k)
        off = K - found.features @ found.features.T
        assert torch.linalg.eigvalsh(off)[0] > -1e-12 * K.trace()
        assert off.abs().max() <= found.left * K.trace() + 1e-12
        assert found.left <= last
        last = found.left
    assert last < 1e-15


@pytest.mark.own_seed("in a given order a small pivot may leave more than the tolerance, and one more item is taken")
def test_it_ends_with_the_rank_and_takes_no_copy():
    K = gram(6, 4)
    K = K[[0, 1, 2, 3, 4, 5, 0, 1]][:, [0, 1, 2, 3, 4, 5, 0, 1]]
    for order in (None, np.array([0, 6, 1, 7, 2, 3, 4, 5])):
        found = factor(K, 8, order)
        assert found.features.shape == (8, 4)
        assert len({i % 6 for i in found.items.tolist()}) == 4
        torch.testing.assert_close(found.features @ found.features.T, K, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.features[:2], found.features[6:], rtol=0, atol=1e-7)


def test_each_next_landmark_is_what_the_others_span_least():
    K = torch.diag(torch.tensor([1.0, 9.0, 4.0]))
    found = factor(K, 2)
    assert found.items.tolist() == [1, 2]
    assert found.left == pytest.approx(1 / 14)


def test_a_kernel_of_zeros_has_no_features():
    found = factor(torch.zeros(3, 3), 2)
    assert found.features.shape == (3, 0)
    assert found.left == 0
