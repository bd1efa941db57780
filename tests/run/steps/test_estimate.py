import numpy as np
import pytest

from askless.base.errors import InputError
from askless.base.intervals import exact
from askless.run.steps.estimate import estimate, level_of_look, planned_looks


def test_without_confidence_it_is_the_plain_share_with_the_exact_interval():
    found = estimate([1] * 36 + [0] * 4, level=0.99)
    assert (found["n"], found["correct"], found["accuracy"], found["worth"]) == (40, 36, 0.9, 40)
    assert (found["low"], found["high"]) == exact(36, 40, 0.99)
    assert estimate([]) is None


def test_confidence_that_tells_right_from_wrong_moves_the_estimate_and_narrows_the_interval():
    """By hand: of 40 check items the model is sure to 0.9 of 30, all right, and to 0.1 of 10, all wrong: the slope is 1/0.8
    and R² is 1. Nine in ten others are like the 30: the share of those is the estimate, but for what 40 in 120 weigh."""
    right, sure = [1] * 30 + [0] * 10, [0.9] * 30 + [0.1] * 10
    others = [0.9] * 72 + [0.1] * 8
    found = estimate(right, sure, others)
    assert found["accuracy"] == pytest.approx((40 * 0.75 + 80 * 0.9) / 120)
    assert found["worth"] == pytest.approx(120)  # as if the 80 had labels, too
    assert (found["low"], found["high"]) == pytest.approx(exact(102, 120))


@pytest.mark.parametrize(
    "sure",
    [[0.7] * 40, [0.1] * 36 + [0.9] * 4, [0.1, 0.9] * 20],
    ids=["the same of all", "more of the wrong ones", "as much of right ones as of wrong ones"],
)
def test_confidence_that_tells_nothing_changes_nothing(sure):
    plain = estimate([1] * 36 + [0] * 4)
    assert estimate([1] * 36 + [0] * 4, sure, [0.99] * 500) == plain


@pytest.mark.parametrize(("n", "wrong"), [(29, 8), (40, 1), (40, 0), (40, 39)])
def test_few_check_items_or_hardly_any_wrong_leave_the_plain_share(n, wrong):
    right = [0] * wrong + [1] * (n - wrong)
    sure = np.linspace(0.2, 0.9, n)
    assert estimate(right, sure, [0.9] * 100) == estimate(right)


def test_the_order_of_the_items_does_not_matter():
    rng = np.random.default_rng(0)
    sure = rng.random(60)
    right, others, order = rng.random(60) < sure, rng.random(120), rng.permutation(60)
    found, again = estimate(right, sure, others), estimate(right[order], sure[order], rng.permutation(others))
    assert found == pytest.approx(again)
    assert found["worth"] > 60


@pytest.mark.parametrize("planned", [1, 4, 8, 30])
def test_the_risks_of_all_looks_add_up_to_the_whole(planned):
    risks = [1 - level_of_look(t, planned) for t in range(1, 200_000)]
    assert sum(risks) == pytest.approx(0.05, rel=1e-3)
    assert sum(risks) < 0.05
    assert risks == sorted(risks, reverse=True)


def test_a_look_is_numbered_from_one():
    with pytest.raises(InputError, match="from 1, got 0 and 8"):
        level_of_look(0, 8)


def test_the_looks_that_a_budget_plans():
    assert planned_looks(200, 0.2, 20) == 8
    assert planned_looks(210, 0.2, 20) == 9
    assert planned_looks(1, 0.9, 20) == 1


def simulated(rng, n, accuracy, distort):
    """A model that is right with probability a, Beta distributed, and says something else of how sure it is."""
    a = rng.beta(2 * accuracy, 2 * (1 - accuracy), 3 * n)
    return rng.random(n) < a[:n], distort(a[:n]), distort(a[n:])


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("accuracy", [0.6, 0.9])
@pytest.mark.parametrize(
    "distort",
    [lambda a: a, lambda a: a**0.2, lambda a: 0.5 + 0.2 * a],
    ids=["calibrated", "overconfident", "underconfident"],
)
def test_the_interval_covers_the_truth_as_often_as_it_says_however_the_model_is_calibrated(n, accuracy, distort):
    """In 600 simulations; at 93 % coverage the chance of fewer than 540 is one in a thousand, and the seed is fixed."""
    rng, covered, worth = np.random.default_rng(7), 0, []
    for _ in range(600):
        found = estimate(*simulated(rng, n, accuracy, distort))
        covered += found["low"] <= accuracy <= found["high"]
        worth.append(found["worth"] / n)
    assert covered >= 540
    assert np.mean(worth) > 1.1  # and it is worth a tenth of the labels more at least
