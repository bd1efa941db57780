import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from askless.learn.strengths import CAUTION, LEAST, MOST, strengths


def drawn(logits, rng):
    """Labels as often right as these logits say."""
    return np.array([rng.choice(logits.shape[1], p=p) for p in softmax(logits, axis=1)])


@pytest.mark.parametrize("times", [0.4, 1.0, 3.0])
def test_logits_that_are_too_large_or_too_small_are_brought_back(times):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 4))
    (a,), _ = strengths([times * logits], drawn(logits, rng), [1.0])
    assert 1 / a == pytest.approx(times, rel=0.05)


def test_opinions_count_as_much_as_they_do_in_what_is_true():
    rng = np.random.default_rng(0)
    one, two, nothing = rng.normal(size=(3, 20_000, 4))
    found, _ = strengths([one, two, nothing], drawn(1.5 * one + 0.5 * two, rng), [1.0, 1.0, 1.0])
    assert found == pytest.approx([1.5, 0.5, 0], abs=0.05)


def test_they_minimise_what_is_written():
    """A slow search by function values alone finds nothing better."""
    rng = np.random.default_rng(0)
    z, labels, weights, before = rng.normal(size=(2, 12, 3)), rng.integers(3, size=12), rng.random(12), [1.0, 0.2]
    found, loss = strengths(list(z), labels, before, weights)
    m = weights.sum() ** 2 / (weights**2).sum()

    def written(log_a):
        rows = log_softmax(np.tensordot(np.exp(log_a), z, axes=1), axis=1)[np.arange(12), labels]
        return -(weights / weights.sum()) @ rows + CAUTION / m * ((log_a - np.log(before)) ** 2).sum()

    slow = minimize(written, np.log(before), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    assert np.exp(slow.x) == pytest.approx(found, rel=1e-3)
    assert slow.fun == pytest.approx(loss, abs=1e-8)


def test_a_label_that_weighs_nothing_says_nothing():
    logits = np.array([[1.0, 0.0]] * 4)
    all_right, _ = strengths([logits[:3]], np.zeros(3, int), [1.0])
    weighed, _ = strengths([logits], np.array([0, 0, 0, 1]), [1.0], np.array([1.0, 1, 1, 0]))
    assert weighed == pytest.approx(all_right, rel=1e-6)


def test_one_label_that_outweighs_the_rest_is_worth_one():
    logits = np.array([[1.0, 0.0]] * 400)
    one, _ = strengths([logits[:1]], np.zeros(1, int), [1.0])
    many, _ = strengths([logits], np.zeros(400, int), [1.0], np.array([1.0, *[1e-9] * 399]))
    assert many == pytest.approx(one, rel=1e-4)


def test_a_few_labels_that_are_all_right_do_not_make_it_certain():
    """With p what the model then says: (1 - p) a d = 2 CAUTION / n log a, the prior's slope against the labels'."""
    for n in (4, 400):
        (a,), _ = strengths([np.array([[1.0, 0.0]] * n)], np.zeros(n, int), [1.0])
        assert 1 < a < MOST
        assert a / (1 + np.exp(a)) == pytest.approx(2 * CAUTION / n * np.log(a), rel=1e-3)


def test_what_few_labels_say_is_neither_certain_nor_modest():
    """Twelve labels at a time, with logits as sharp as the labels: over many draws the model is as sure as it is right."""
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(300):
        logits = rng.normal(scale=2, size=(12, 4))
        (a,), _ = strengths([logits], drawn(logits, rng), [1.0])
        gaps.append(np.log(a))
    assert abs(np.mean(gaps)) < 0.1


def test_they_stay_in_their_bounds_and_are_those_before_without_labels():
    nothing = np.empty((0, 3))
    found, loss = strengths([nothing, nothing], np.empty(0, int), [0.8, 0.2])
    assert (found.tolist(), loss) == (pytest.approx([0.8, 0.2]), 0)
    assert strengths([np.ones((5, 1))], np.zeros(5, int), [1.0])[0].tolist() == [1]
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2000, 3))
    (most,), _ = strengths([1e-3 * logits], logits.argmax(axis=1), [1.0])
    (least,), _ = strengths([100 * logits], logits.argmin(axis=1), [1.0])
    assert most == pytest.approx(MOST)
    assert least == pytest.approx(LEAST)
