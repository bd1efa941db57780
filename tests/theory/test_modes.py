import numpy as np
import pytest
import torch

import askless as al
from askless.theory import Modes, modes, spectrum
from askless.theory.modes import of_basis
from askless.theory.spectrum import eigenbasis


def pool(n=40, d=12, seed=0):
    """A kernel of rank d with eigenvalues over two orders, and class numbers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.geomspace(1, 0.1, d)
    return x @ x.T, rng.integers(0, 3, n)


def coefficients(K, S, ridge):
    """v_k^T f for f = K(:, S) (K(S, S) + ridge)^+ v_k(S), mode by mode: the short slow version."""
    values, V = np.linalg.eigh(K)
    V = V[:, values > 1e-9 * values[-1]][:, ::-1]
    inverse = np.linalg.pinv(K[np.ix_(S, S)] + ridge * np.eye(len(S)), rcond=1e-10, hermitian=True)
    return np.array([v @ K[:, S] @ inverse @ v[S] for v in V.T])


def test_items_that_are_modes_are_learnt_wholly_and_the_others_not_at_all():
    found = modes(np.diag([2.0, 8.0, 6.0]), [0, 1, 2], [2])
    assert found.values == pytest.approx([8 / 3, 2, 2 / 3])
    assert found.learned.tolist() == [0, 1, 0]
    assert found.power == pytest.approx([1 / 3] * 3)
    assert found.share == pytest.approx(1 / 3)


def test_a_random_item_learns_each_mode_by_its_eigenvalue():
    # 4 / (4 + 2) + 1 / (1 + 2) = 1
    assert modes(np.diag([4.0, 1.0]), None, [1]).expected == pytest.approx([2 / 3, 1 / 3])


def test_with_one_eigenvalue_a_random_batch_learns_its_share_of_the_items():
    found = modes(3 * np.eye(8), np.arange(8), [1, 4])
    assert found.expected == pytest.approx([2 / 8] * 8)
    assert sorted(found.learned.round(12)) == [0] * 6 + [1] * 2


@pytest.mark.parametrize("ridge", [0.0, 0.3, 50.0])
def test_a_pool_that_is_all_labelled_learns_every_mode_as_far_as_the_ridge_lets_it(ridge):
    K, y = pool()
    found = modes(K, y, np.arange(40), ridge=ridge)
    assert found.learned == pytest.approx(found.values / (found.values + ridge / 40))
    assert found.expected == pytest.approx(found.learned)


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("batch", [[5], [3, 1, 30], list(range(9)), list(range(5, 30))])
def test_what_is_learned_is_the_coefficient_of_kernel_regression_on_each_mode(batch, ridge):
    K, y = pool()
    found = modes(K, y, batch, ridge=ridge)
    assert len(found.values) == 12
    assert found.learned == pytest.approx(coefficients(K, batch, ridge), abs=1e-8)
    assert (found.learned >= 0).all()
    assert (found.learned <= 1 + 1e-12).all()


def test_the_modes_learned_add_up_to_the_rank_of_the_batch_and_no_batch_learns_more():
    K, y = pool()
    K[7], K[:, 7] = K[3], K[:, 3]  # a copy
    K[7, 7] = K[3, 3]
    for batch in ([3, 5, 9], [3, 7, 9], [30, 31], range(20)):
        found = modes(K, y, list(batch))
        assert found.learned.sum() == pytest.approx(spectrum(K[np.ix_(list(batch), list(batch))]).rank)
        assert found.expected.sum() == pytest.approx(min(len(batch), 12))
        assert modes(K, y, list(batch), ridge=0.1).learned.sum() < found.learned.sum()


@pytest.mark.parametrize(("p", "ridge"), [(20, 0.0), (20, 2.0), (45, 0.0)])
def test_the_mean_over_random_batches_is_what_the_theory_expects(p, ridge):
    """Gaussian designs; the theory is that of large n and p, and right to three hundredths for 20 labels."""
    found = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(120, 60)) * np.geomspace(1, 0.05, 60)
        basis = eigenbasis(x @ x.T)
        found += [of_basis(basis, None, rng.choice(120, p, replace=False), ridge) for _ in range(5)]
    learned, expected = (np.mean([getattr(one, name) for one in found], axis=0) for name in ("learned", "expected"))
    assert learned == pytest.approx(expected, abs=0.03)
    assert np.mean([one.share for one in found]) == pytest.approx(
        np.mean([one.expected_share for one in found]), abs=0.015
    )


def test_for_a_large_pool_the_expectation_is_bordelons():
    """kappa = ridge + kappa sum_k lambda_k / (p lambda_k + kappa), and p lambda_k / (p lambda_k + kappa) is learned."""
    values, p, ridge = np.geomspace(1, 0.01, 30), 10, 0.5
    kappa = 1.0
    for _ in range(1000):
        kappa = ridge + kappa * (values / (p * values + kappa)).sum()
    n = 1500
    x = np.random.default_rng(0).normal(size=(n, 30))
    x = np.linalg.qr(x)[0] * np.sqrt(n * values)
    found = modes(x @ x.T, None, range(p), ridge=ridge)
    assert found.expected == pytest.approx(p * values / (p * values + kappa), rel=0.01)


def test_the_order_of_the_items_and_the_scale_of_the_kernel_change_nothing():
    K, y = pool()
    batch = [4, 9, 17, 2]
    found = modes(K, y, batch)
    order = np.random.default_rng(0).permutation(40)
    place = np.argsort(order)
    for other in (
        modes(K, y, batch[::-1]),
        modes(K[np.ix_(order, order)], y[order], place[batch]),
        modes(1e-6 * K, y, batch)._replace(values=found.values),
        modes(K, 7 - 3 * np.eye(3)[y], batch),
    ):
        for a, b in zip(other, found, strict=True):
            assert a == pytest.approx(b)
    with_ridge, larger = modes(K, y, batch, ridge=0.2), modes(50 * K, y, batch, ridge=10.0)
    assert larger.learned == pytest.approx(with_ridge.learned)
    assert larger.expected == pytest.approx(with_ridge.expected)


def test_power_is_the_share_of_the_centred_target_and_what_the_kernel_cannot_reach_is_missing():
    K, y = pool()
    V = np.linalg.eigh(K)[1][:, :-13:-1]
    Y = np.eye(3)[y] - np.eye(3)[y].mean(axis=0)
    found = modes(K, y, [0])
    assert found.power == pytest.approx(np.square(V.T @ Y).sum(axis=1) / np.square(Y).sum())
    assert found.power.sum() < 1
    assert modes(K, V[:, 1] - V[:, 1].mean(), [0]).power.argmax() == 1
    assert modes(K, np.zeros(40, dtype=int), [0]).power.tolist() == [0] * 12  # one class: there is nothing to learn


def test_without_a_target_its_power_is_that_of_a_function_of_the_kernel():
    K, _ = pool()
    found = modes(K, None, [0, 5])
    assert found.power == pytest.approx(found.values / found.values.sum())
    explained = K[:, [0, 5]] @ np.linalg.inv(K[np.ix_([0, 5], [0, 5])]) @ K[[0, 5]]  # of the prior variance
    assert found.share == pytest.approx(np.trace(explained) / np.trace(K))


def test_breadth_is_the_number_of_modes_where_all_are_learned_alike():
    even = Modes(np.ones(4), np.ones(4) / 4, np.array([0.5, 0.5, 0.5, 0]), np.zeros(4))
    assert even.breadth == pytest.approx(3)
    assert modes(np.diag([4.0, 1.0]), None, [0]).breadth == 1


def test_a_kernel_of_zeros_has_no_modes():
    found = modes(np.zeros((3, 3)), [0, 1, 2], [0])
    assert [len(part) for part in found] == [0] * 4
    assert found.share == found.breadth == 0


def test_torch_lists_and_selections_are_taken():
    K, y = pool()
    picks = al.select("random", 4, pool=40, seed=0)
    found = modes(K, y, picks)
    for given in (
        modes(torch.from_numpy(K), torch.from_numpy(y), torch.from_numpy(picks.indices)),
        modes(K.tolist(), y.tolist(), picks.indices.tolist()),
    ):
        assert repr(given) == repr(found)
    assert repr(found).startswith("Modes(12 modes; the batch learns 0.")


def test_what_cannot_be_used_is_refused_in_words():
    K, y = pool()
    for batch in ([40], [0, 0], [-1], [0.5], [[0, 1]]):
        with pytest.raises(al.InputError, match="batch: expected different positions from 0 to 39"):
            modes(K, y, batch)
    with pytest.raises(al.InputError, match="batch: expected at least one position, got none"):
        modes(K, y, [])
    for ridge in (-1.0, float("nan"), float("inf")):
        with pytest.raises(al.InputError, match="ridge: expected a finite number >= 0, got"):
            modes(K, y, [0], ridge=ridge)
    with pytest.raises(al.InputError, match=r"y: expected one row per item of the kernel, shape \(40, C\)"):
        modes(K, y[:39], [0])
    with pytest.raises(al.InputError, match="labels: expected class numbers from 0"):
        modes(K, np.where(y == 0, -1, y), [0])
