import numpy as np
import pytest
from scipy.special import softmax

from askless.learn.temperature import LEAST, MOST, temperature


def drawn(logits, rng):
    """Labels as often right as these logits say."""
    return np.array([rng.choice(logits.shape[1], p=p) for p in softmax(logits, axis=1)])


@pytest.mark.parametrize("times", [0.4, 1.0, 3.0])
def test_logits_that_are_too_large_or_too_small_are_brought_back(times):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20_000, 4))
    assert temperature(times * logits, drawn(logits, rng)) == pytest.approx(times, rel=0.05)


def test_two_classes_by_hand():
    """Three of four labels are right and all logits are 1 apart; Platt takes each for right with probability 5/6. The mean
    target is p = (3 * 5/6 + 1/6) / 4 = 2/3, which softmax reaches at 1 / T = log(p / (1 - p)) = log 2."""
    logits = np.array([[1.0, 0.0]] * 4)
    assert temperature(logits, np.array([0, 0, 0, 1])) == pytest.approx(1 / np.log(2), rel=1e-3)


def test_a_label_that_weighs_nothing_says_nothing():
    logits = np.array([[1.0, 0.0]] * 4)
    all_right = temperature(logits, np.zeros(4, int))
    assert temperature(logits, np.array([0, 0, 0, 1]), np.array([1.0, 1, 1, 0])) == pytest.approx(all_right, rel=1e-3)


def test_a_few_labels_that_are_all_right_do_not_make_it_certain():
    logits = np.array([[1.0, 0.0]] * 4)
    t = temperature(logits, np.zeros(4, int))
    assert softmax(logits / t, axis=1)[0, 0] == pytest.approx(5 / 6, abs=1e-3)


def test_it_stays_in_its_bounds_and_is_1_without_labels():
    assert temperature(np.empty((0, 3)), np.empty(0, int)) == 1.0
    assert temperature(np.ones((5, 1)), np.zeros(5, int)) == 1.0
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, 3))
    assert LEAST <= temperature(1e-3 * logits, logits.argmax(axis=1)) < 2 * LEAST
    assert MOST / 2 < temperature(100 * logits, logits.argmin(axis=1)) <= MOST
