"""How sure a model may be, by the check items."""

import numpy as np
import pytest
from scipy.special import softmax

from askless.run.steps.confidence import CAUTION, held_out, sharpened, sharpness
from askless.run.steps.measure import calibration_error


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_two_answers_by_hand():
    """One of two answers of log odds b is right: the loss is 2 log(1 + exp(sb)) - sb + CAUTION (log s)^2."""
    b = np.log(0.9 / 0.1)
    probs, truth = np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])
    s = sharpness(probs, truth)
    slope = s * b * (2 / (1 + np.exp(-s * b)) - 1) + 2 * CAUTION * np.log(s)
    assert slope == pytest.approx(0, abs=1e-4)
    assert s < 1


def test_powers_undo_each_other_and_keep_the_best_class(rng):
    probs = softmax(rng.normal(size=(50, 4)), axis=1)
    again = sharpened(sharpened(probs, 2.5), 1 / 2.5)
    np.testing.assert_allclose(again, probs, atol=1e-6)
    assert (sharpened(probs, 0.1).argmax(axis=1) == probs.argmax(axis=1)).all()
    np.testing.assert_allclose(sharpened(probs, 1.0), probs)
    np.testing.assert_allclose(sharpened(probs, 3.0).sum(axis=1), 1)


def test_nothing_is_learnt_from_nothing_and_extremes_stay_finite():
    assert sharpness(np.empty((0, 3)), np.empty(0, np.int64)) == 1
    sure = np.array([[1.0, 0.0]] * 500)
    assert 0.1 <= sharpness(sure, np.ones(500, np.int64)) < 0.2
    assert 1 <= sharpness(sure, np.zeros(500, np.int64)) <= 10
    assert np.isfinite(sharpened(sure, 10.0)).all()


def test_a_model_that_is_too_sure_is_calibrated_on_items_that_it_was_not_fitted_on(rng):
    logits = rng.normal(size=(3000, 3))
    truth = np.array([rng.choice(3, p=p) for p in softmax(logits, axis=1)])
    too_sure = softmax(3 * logits, axis=1)
    s = sharpness(too_sure[:300], truth[:300])
    assert s == pytest.approx(1 / 3, rel=0.25)
    rest = slice(300, None)

    def error(probs):
        return calibration_error(probs.max(axis=1), (probs.argmax(axis=1) == truth[rest]).astype(float))

    assert error(sharpened(too_sure[rest], s)) < 0.3 * error(too_sure[rest])


def test_no_check_item_has_a_say_in_its_own_confidence(rng):
    probs, truth = softmax(rng.normal(size=(12, 3)), axis=1), rng.integers(3, size=12)
    found = held_out(probs, truth)
    for i in (0, 5, 11):
        changed = truth.copy()
        changed[i] = (changed[i] + 1) % 3
        assert (held_out(probs, changed)[i] == found[i]).all()
        assert (held_out(probs, changed)[i - 1] != found[i - 1]).any()
    assert held_out(probs[:0], truth[:0]).shape == (0, 3)
