"""NTK look-ahead against kernel ridge regression that is trained from scratch for every candidate."""

import numpy as np
import pytest

import askless as al


def pool(N=40, d=4, C=3, L=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, d)) + 1, rng.permutation(N)[:L], rng.integers(C, size=L)


def krr(x, labelled, Y, ridge):
    """Outputs (N, C) of kernel ridge regression on [phi, 1] [phi, 1]^T."""
    x = np.column_stack([x, np.ones(len(x))])
    K = x @ x.T
    lam = ridge * np.diag(K).mean()
    return K[:, labelled] @ np.linalg.solve(K[np.ix_(labelled, labelled)] + lam * np.eye(len(labelled)), Y)


def retrained_changes(x, labelled, Y, free, ridge):
    """Sum over `free` of the squared change of the outputs, for each of them learnt with its predicted label."""
    f = krr(x, labelled, Y, ridge)
    onehot = np.eye(Y.shape[1])[f.argmax(axis=1)]
    more = [krr(x, np.append(labelled, a), np.vstack([Y, onehot[a]]), ridge) for a in free]
    return np.array([((g - f)[free] ** 2).sum() for g in more]), onehot


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_knows_what_retraining_would_change(ridge, seed):
    x, labelled, y = pool(seed=seed)
    free = np.setdiff1d(np.arange(40), labelled)
    picks = al.select(
        al.LookAhead(batch="top", ridge=ridge), len(free), features=x, labelled=labelled, labels=y, seed=seed
    )
    expected, _ = retrained_changes(x, labelled, np.eye(3)[y], free, ridge)
    by_item = np.zeros(40)
    by_item[picks.indices] = picks.scores
    np.testing.assert_allclose(by_item[free], expected, rtol=1e-8)
    assert (np.diff(picks.scores) <= 0).all()


def test_a_batch_learns_each_pick_with_its_predicted_label():
    x, labelled, y = pool()
    picks = al.select("lookahead", 8, features=x, labelled=labelled, labels=y)
    free, Y = np.setdiff1d(np.arange(40), labelled), np.eye(3)[y]
    left = np.ones(len(free), dtype=bool)
    for pick, score in zip(picks.indices, picks.scores, strict=True):
        changes, onehot = retrained_changes(x, labelled, Y, free, 0.01)
        best = free[left][changes[left].argmax()]
        assert pick == best
        assert score == pytest.approx(changes[free == pick][0], rel=1e-8)
        labelled, Y = np.append(labelled, pick), np.vstack([Y, onehot[pick]])
        left &= free != pick


def test_two_items_by_hand():
    # No labels, ridge lam = mean of |[phi, 1]|^2 = (2 + 5) / 2 times 2: G = 1 / 7, A(a) = sum_x (a.x)^2 / (7 + a.a)^2.
    x = np.array([[1.0], [2.0]])
    picks = al.select(al.LookAhead(ridge=2.0, batch="top"), 2, features=x)
    assert picks.indices.tolist() == [1, 0]
    assert picks.scores == pytest.approx([(3**2 + 5**2) / 12**2, (2**2 + 3**2) / 9**2])


def test_copies_are_not_asked_for_twice():
    x, labelled, y = pool()
    twice, at = np.vstack([x, x]), np.concatenate([labelled, labelled + 40])
    args = {"features": twice, "labelled": at, "labels": np.concatenate([y, y])}
    greedy = al.select("lookahead", 8, **args)
    assert len(set(greedy.indices % 40)) == 8
    assert len(set(al.select(al.LookAhead(batch="top"), 8, **args).indices % 40)) == 4


def test_names_of_classes_do_not_matter():
    x, labelled, y = pool()
    plain = al.select("lookahead", 8, features=x, labelled=labelled, labels=y)
    renamed = al.select("lookahead", 8, features=x, labelled=labelled, labels=np.array([7, 2, 40])[y])
    assert plain.indices.tolist() == renamed.indices.tolist()


def test_wide_features_are_taken_in_directions_that_fit():
    x, labelled, y = pool()
    wide = x @ np.linalg.qr(np.random.default_rng(0).normal(size=(300, 4))).Q.T
    args = {"labelled": labelled, "labels": y}
    fits = al.select("lookahead", 8, features=wide, max_memory=48 * 11**2, **args)
    assert "10 main directions" in fits.info["note"]
    assert fits.indices.tolist() == al.select("lookahead", 8, features=x, **args).indices.tolist()


def test_it_asks_for_the_labels():
    x, labelled, _ = pool()
    with pytest.raises(al.InputError, match="lookahead needs labels"):
        al.select("lookahead", 2, features=x, labelled=labelled)
