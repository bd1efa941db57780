import numpy as np
import pytest

from askless.run.steps.forecast import AHEAD, POWERS, SHARES, curve_weights, forecast, too_early


def rounds(errors, n=40):
    """(T, n) what models with so many errors have right: the errors of a better one are among those of a worse one."""
    return np.array([[i >= wrong for i in range(n)] for wrong in errors])


LABELS = [20, 40, 60, 80, 100, 120, 140, 160]
RISING = rounds([200, 120, 90, 75, 66, 60, 55, 50], 500)
FLAT = rounds([100] * 8, 500)


def test_a_curve_that_still_rises_promises_more_than_one_that_is_flat():
    rising, flat = (forecast(LABELS, right, accuracy=0.9, worth=500) for right in (RISING, FLAT))
    for more, none in zip(rising, flat, strict=True):
        assert more.gain > none.gain
        assert more.gain_low > none.gain_low
    assert flat[0].gain == pytest.approx(0, abs=0.005)
    assert flat[-1].gain_high < 0.04


def test_more_labels_bring_more_and_every_number_lies_in_its_interval():
    found = forecast(LABELS, RISING, accuracy=0.9, worth=500)
    assert [row.labels for row in found] == list(AHEAD)
    assert found[0].gain < found[1].gain < found[2].gain < 0.1
    for row in found:
        assert row.gain_low < row.gain < row.gain_high
        assert row.low < row.accuracy < row.high
        assert row.accuracy == pytest.approx(0.9 + row.gain, abs=0.01)


def test_few_check_items_leave_more_open_than_many():
    few, many = (forecast(LABELS, right, 0.9, right.shape[1]) for right in (RISING[:, ::25], RISING))
    for a, b in zip(few, many, strict=True):
        assert a.high - a.low > b.high - b.low
        assert a.gain_high - a.gain_low > b.gain_high - b.gain_low


def test_the_weights_are_those_of_the_curve_that_was_seen():
    """Errors 0.4 m^-0.5 / 10^-0.5 without a floor, on very many items: the power and the share are found again."""
    labels = np.array([25, 50, 75, 100])
    right = rounds((100_000 * 0.2 * (labels / 100) ** -0.5).astype(int), 100_000)
    weights = curve_weights(labels, right)
    assert weights.shape == (len(SHARES), len(POWERS))
    assert weights.sum() == pytest.approx(1)
    best = np.unravel_index(weights.argmax(), weights.shape)
    assert SHARES[best[0]] * (4 ** POWERS[best[1]] - 1) == pytest.approx(
        1, abs=0.1
    )  # 4 times the labels: half the error


def test_the_same_rounds_give_the_same_forecast_whatever_the_order_of_the_items():
    order = np.random.default_rng(0).permutation(500)
    again = forecast(LABELS, RISING[:, order], 0.9, 500)
    for one, other in zip(forecast(LABELS, RISING, 0.9, 500), again, strict=True):
        assert one == pytest.approx(other)


@pytest.mark.parametrize(
    ("labels", "n_check", "why"),
    [
        ([20, 40, 60], 19, "a forecast needs 20 labelled check images, and this run has 19"),
        ([20], 40, "a forecast needs 3 measured rounds, and this run has 1"),
        ([20, 40, 40], 40, "a forecast needs 3 measured rounds, and this run has 2"),
    ],
)
def test_it_says_plainly_when_it_is_too_early(labels, n_check, why):
    assert too_early(labels, n_check) == why
    assert too_early([20, 40, 60], 20) is None
