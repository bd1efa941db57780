"""Which predictions from elsewhere can be trusted, as check items show."""

import numpy as np
import pytest

from askless.run.steps.trust import bounds, levels, needed, right_at_least, trusted


def test_all_right_bounds_the_share_by_hand():
    """40 of 40 would come of a share p with probability p ** 40."""
    assert right_at_least(40, 40, 0.05) == pytest.approx(0.05 ** (1 / 40))
    assert right_at_least(0, 40, 0.05) == 0


def test_levels_are_the_fifths_of_all_predictions():
    assert levels(np.arange(10) / 10) == [0.0, 0.2, 0.4, 0.6, 0.8]
    assert levels(np.ones(7)) == [1.0]


def test_the_most_predictions_that_are_right_often_enough_are_trusted():
    """The surer half is always right, the other never: of the levels 0, 0.2, 0.4, 0.6 and 0.8 the last two hold."""
    confidence = np.arange(1000) / 1000
    found = trusted(bounds(confidence, confidence, confidence >= 0.5), 0.95)
    assert found is not None
    assert (found.confidence, found.n, found.correct) == (0.6, 400, 400)
    assert found.low == pytest.approx(0.01 ** (1 / 400))


def test_too_few_check_items_trust_nothing():
    sure = np.ones(needed(0.9) - 1)
    assert needed(0.9) == 44
    assert trusted(bounds(np.arange(100) / 100, sure, sure == 1), 0.9) is None
    assert trusted(bounds(np.arange(100) / 100, np.ones(44), np.ones(44, bool)), 0.9) is not None
    assert bounds(np.empty(0), np.empty(0), np.empty(0, bool)) == []


@pytest.mark.parametrize("skill", [0.6, 0.8, 0.9])
def test_what_is_trusted_is_right_as_often_as_was_wanted(skill):
    """In 500 draws of 100 check items at most one in twenty may promise too much; three deviations above are allowed."""
    rng, wanted, broken = np.random.default_rng(0), 0.85, 0
    confidence = rng.random(5000)
    right = rng.random(5000) < skill + (1 - skill) * confidence
    for _ in range(500):
        check = rng.choice(5000, 100, replace=False)
        found = trusted(bounds(confidence, confidence[check], right[check]), wanted)
        broken += found is not None and right[confidence >= found.confidence].mean() < wanted
    assert broken <= 25 + 3 * np.sqrt(500 * 0.05 * 0.95)
