"""Agreement of any number of people: by hand, by a slow reference, and by what must hold."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from askless.run.steps.agreement import MISSING, confusion_of, krippendorff, what_others_say
from askless.run.steps.measure import cohens_kappa

_ = MISSING
# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", section C: four observers, twelve units, nominal 0.743.
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
).T


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def slow_alpha(answers):
    """By the coincidences of every ordered pair of answers to an item."""
    pairs = Counter()
    for row in answers.tolist():
        given = [label for label in row if label != MISSING]
        for a, b in permutations(given, 2):
            pairs[a, b] += 1 / (len(given) - 1)
    n, total = Counter(), sum(pairs.values())
    for (a, _b), weight in pairs.items():
        n[a] += weight
    observed = sum(weight for (a, b), weight in pairs.items() if a != b)
    expected = sum(n[a] * n[b] for a, b in permutations(n, 2)) / (total - 1)
    return 1 - observed / expected


def noisy(rng, items=60, people=4, classes=3, wrong=0.3, missing=0.3):
    truth = rng.integers(classes, size=(items, 1))
    said = np.where(rng.random((items, people)) < wrong, rng.integers(classes, size=(items, people)), truth)
    return np.where(rng.random((items, people)) < missing, MISSING, said)


def test_alpha_is_the_published_one():
    found = krippendorff(PUBLISHED)
    assert (found.items, round(found.alpha, 3)) == (11, 0.743)  # one unit has a single answer
    assert found.low < found.alpha < found.high


def test_alpha_is_the_slow_reference(rng):
    for _i in range(5):
        answers = noisy(rng)
        assert krippendorff(answers).alpha == pytest.approx(slow_alpha(answers), abs=1e-12)


def test_alpha_does_not_depend_on_the_order_of_people_items_or_on_the_numbers_of_classes(rng):
    answers = noisy(rng)
    alpha = krippendorff(answers).alpha
    assert krippendorff(answers[rng.permutation(60)]).alpha == pytest.approx(alpha)
    assert krippendorff(answers[:, ::-1]).alpha == pytest.approx(alpha)
    assert krippendorff(np.where(answers == MISSING, MISSING, 7 - answers)).alpha == pytest.approx(alpha)


def test_full_agreement_is_one_and_chance_is_near_zero(rng):
    same = np.repeat(rng.integers(3, size=(50, 1)), 3, axis=1)
    assert krippendorff(same)[1:] == (1.0, 1.0, 1.0)
    chance = krippendorff(rng.integers(3, size=(2000, 3)))
    assert abs(chance.alpha) < 0.03
    assert chance.low < 0 < chance.high


def test_of_two_people_with_many_answers_alpha_is_close_to_kappa(rng):
    answers = noisy(rng, items=2000, people=2, missing=0)
    assert krippendorff(answers).alpha == pytest.approx(cohens_kappa(*answers.T), abs=2e-3)


@pytest.mark.parametrize("answers", [np.zeros((0, 2), int), [[0, _], [_, 1]], [[1, 1], [1, 1]]])
def test_alpha_is_not_defined_without_pairs_or_with_one_class_only(answers):
    assert krippendorff(answers).alpha is None


def test_the_interval_covers_what_many_items_give(rng):
    truth = krippendorff(noisy(rng, items=50_000)).alpha
    found = [krippendorff(noisy(rng, items=80)) for _i in range(100)]
    assert sum(one.low <= truth <= one.high for one in found) >= 88
    assert krippendorff(noisy(np.random.default_rng(1))) == krippendorff(noisy(np.random.default_rng(1)))


def test_what_others_say_is_the_decision_or_their_majority():
    answers = {
        1: {"ann": 0, "bo": 1},
        2: {"ann": 0, "bo": 1, "cy": 1},
        3: {"ann": 0, "bo": 0, "cy": 1},  # the others are split
        4: {"bo": 1},
        5: {"ann": 0},
    }
    assert what_others_say(answers, {}, "ann") == {1: 1, 2: 1}
    assert what_others_say(answers, {2: 0, 5: 2}, "ann") == {1: 1, 2: 0, 5: 2}


def test_a_person_is_confused_where_the_others_say_something_else():
    own = {1: 0, 2: 0, 3: 0, 4: 0, 5: 1}
    (zero,) = confusion_of(own, {1: 0, 2: 2, 3: 2, 4: 1})
    assert (zero.items, zero.same, zero.instead, zero.times) == (4, 1, 2, 2)
    assert confusion_of(own, {}) == []
