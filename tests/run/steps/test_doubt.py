"""Labels judged by the others: against hand-worked cases, an explicit leave-one-out, and planted flips."""

import time

import numpy as np
import pytest
from scipy.special import softmax

from askless.features.scaling import SHORT
from askless.run.steps import doubt


def blobs(n, classes=3, d=8, seed=0):
    """Rows around one point per class, and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return 4 * rng.normal(size=(classes, d))[y] + rng.normal(size=(n, d)), y


def test_a_label_is_suspect_when_another_class_is_twice_as_probable_and_the_least_probable_comes_first():
    probs = [[0.9, 0.1], [0.35, 0.65], [0.3, 0.7], [0.02, 0.98], [0.02, 0.98]]
    found = doubt.suspects([0, 0, 0, 0, 1], probs)
    assert found.order.tolist() == [3, 2]  # 0.65 is less than twice 0.35
    assert found.said.tolist() == [0, 1, 1, 1, 1]
    assert found.score == pytest.approx([0.1, 0.65, 0.7, 0.98, 0.02])


def test_labels_that_were_not_judged_are_no_suspects():
    found = doubt.suspects([0, 1], [[np.nan, np.nan], [0.9, 0.1]])
    assert found.order.tolist() == [1]
    assert np.isnan(found.score[0])
    assert doubt.suspects([], np.zeros((0, 0))).order.tolist() == []


def test_each_label_is_predicted_as_by_a_fit_without_it(monkeypatch):
    monkeypatch.setattr(doubt, "SMOOTHING", (0.3,))
    monkeypatch.setattr(doubt, "SHARPNESS", (2.0,))
    X, y = blobs(24)
    K = doubt.gaussian_kernel(X)
    lam, T, slow = 0.3 * np.trace(K + 1) / len(y), np.eye(3)[y], []
    for i in range(len(y)):
        rest = np.delete(np.arange(len(y)), i)
        alpha = np.linalg.solve((K + 1)[np.ix_(rest, rest)] + lam * np.eye(len(rest)), T[rest])
        slow.append((K + 1)[i, rest] @ alpha)
    assert doubt.left_out_of_all(K, y, 3) == pytest.approx(softmax(2 * np.array(slow), axis=1), abs=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("d", [8, 100])
def test_planted_flips_are_the_first_suspects(classes, d):
    X, y = blobs(120, classes, d)
    flips = np.random.default_rng(1).permutation(120)[:6]
    y[flips] = (y[flips] + 1) % classes
    found = doubt.suspects(y, doubt.left_out(doubt.compared(X), y, classes))
    assert set(found.order[:6]) == set(flips)
    assert len(found.order) <= 12


def test_of_two_copies_with_different_labels_at_least_the_wrong_one_is_doubted():
    X, y = blobs(60)
    X[1], y[1], y[0] = X[0], 1, 0  # row 0 is of class 0
    found = doubt.suspects(y, doubt.left_out(doubt.compared(X), y, 3))
    assert found.order[0] == 1


def test_nothing_but_copies_is_judged_without_a_warning():
    y = np.arange(20) % 2
    probs = doubt.left_out(doubt.compared(np.ones((20, 3))), y, 2)
    assert np.isfinite(probs).all()
    assert len(doubt.suspects(y, probs).order) == 0


def test_labels_are_not_judged_that_the_others_cannot_know():
    X, y = blobs(40)
    y[7] = 3
    probs = doubt.left_out(doubt.compared(X), y, 4)
    assert np.flatnonzero(np.isnan(probs[:, 0])).tolist() == [7]  # the only one of its class
    assert np.isnan(doubt.left_out(X[:9], y[:9], 4)).all()  # too few
    assert np.isnan(doubt.left_out(X[:20], np.zeros(20, int), 1)).all()  # one class


def test_more_labels_than_one_part_holds_are_judged_in_parts(monkeypatch):
    X, y = blobs(120)
    y[:4] = 3  # few, which stay together
    X[:4] += 30
    monkeypatch.setattr(doubt, "PART", 40)
    y[50] = (y[50] + 1) % 3
    found = doubt.suspects(y, doubt.left_out(doubt.compared(X), y, 4))
    assert found.order.tolist() == [50]
    assert not np.isnan(found.score).any()


def test_measured_numbers_count_alike_whatever_their_units():
    X, y = blobs(60, d=4)
    one = doubt.left_out(doubt.compared(X), y, 3)
    assert doubt.left_out(doubt.compared(X * [1, 1000, 1e-3, 5]), y, 3) == pytest.approx(one, abs=1e-4)
    assert doubt.MEASURED == SHORT


def test_a_thousand_labels_take_less_than_ten_eigendecompositions():
    """One is needed; the rest is products. As a ratio, for the machine may be busy with other things."""
    X, y = blobs(1000, 10, 1280)
    rows = doubt.compared(X.astype(np.float32))
    K = doubt.gaussian_kernel(rows)

    def seconds(call):
        begun = time.process_time()
        call()
        return time.process_time() - begun

    floor = min(seconds(lambda: np.linalg.eigh(K)) for _ in range(3))
    assert min(seconds(lambda: doubt.left_out(rows, y, 10)) for _ in range(3)) < 10 * floor
