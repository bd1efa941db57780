"""What is offered under which class, and whether the estimates of what is wrong hold."""

import math

import numpy as np
import pytest

from askless.run.steps.sorting import LEFT_OVER, place, surest_class, wrong_left

PROBS = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [math.nan] * 3])
CLASSES = np.array([0, 1, 2])


def test_each_item_is_offered_under_its_most_probable_class():
    placed = place(PROBS, CLASSES)
    assert placed.classes.tolist() == [0, 2, 2, LEFT_OVER]
    assert placed.probs.tolist() == [0.7, 0.7, 0.4, 0.0]
    assert placed.surest(2).tolist() == [1, 2]


def test_an_item_that_was_clicked_out_is_offered_under_its_next_class_and_then_is_left_over():
    assert place(PROBS, CLASSES, {0: {0}}).classes.tolist() == [1, 2, 2, LEFT_OVER]
    assert place(PROBS, CLASSES, {0: {0, 1}}).classes.tolist() == [2, 2, 2, LEFT_OVER]
    assert place(PROBS, CLASSES, {0: {0, 1, 2}}).classes.tolist() == [LEFT_OVER, 2, 2, LEFT_OVER]


def test_classes_that_were_merged_are_offered_together():
    placed = place(PROBS, np.array([0, 1, 1]))
    assert placed.classes.tolist() == [0, 1, 1, LEFT_OVER]
    assert placed.probs[2] == pytest.approx(0.7)


def test_without_items_there_is_no_class_to_sort():
    assert surest_class(place(np.zeros((0, 3)), CLASSES), 10) is None
    assert surest_class(place(PROBS[3:], CLASSES), 10) is None


@pytest.mark.parametrize(
    ("seen", "removed", "right", "n"), [(30, 0, 18, 20), (30, 4, 18, 20), (7, 7, 3, 9), (1, 0, 0, 1)]
)
def test_what_is_left_wrong_is_that_of_the_whole_sum(seen, removed, right, n):
    a, b = n - right + 0.5, right + 0.5

    def log_beta(x, y):
        return math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)

    p = {
        w: math.comb(seen, w) * math.exp(log_beta(w + a, seen - w + b) - log_beta(a, b))
        for w in range(removed, seen + 1)
    }
    weights = {w: value / (w + 1) for w, value in p.items()}
    found = wrong_left(seen, removed, right, n)
    expected = sum((w - removed) * value for w, value in weights.items()) / sum(weights.values())
    assert found.expected == pytest.approx(expected, abs=0.051)
    most = next(
        m for m in range(seen + 1) if sum(p[w] for w in p if w - removed <= m) >= 0.95 * sum(p.values()) - 1e-12
    )
    assert found.most == most


def test_without_check_items_nothing_is_told():
    assert wrong_left(100, 3, 0, 0) is None
    assert wrong_left(0, 0, 9, 10) is None


@pytest.mark.parametrize("care", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
def test_at_most_so_many_are_wrong_in_95_of_100_runs_however_careful_the_person_is(rate, care):
    rng = np.random.default_rng([int(100 * rate), int(100 * care)])
    runs, n, seen = 1500, 40, 300
    held = 0
    for _ in range(runs):
        right = n - rng.binomial(n, rate)
        wrong = rng.binomial(seen, rate)
        removed = rng.binomial(wrong, care)
        held += wrong - removed <= wrong_left(seen, removed, right, n).most
    # Jeffreys' bounds hold on average over the rates; at a single one they may be a little below.
    assert held / runs >= 0.93
