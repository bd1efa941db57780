"""DIRECT on graphs of one line that can be followed by hand, and against thresholds tried out one by one."""

import numpy as np
import pytest

import askless as al
from askless.acquire.direct import alternating, sides, threshold, uncertain_region

AROUND = al.DIRECT(explore=0.0)


def line(N=10):
    """Two classes; item i is the (i + 1)-th likeliest of class 0, and class 1 has them in the opposite order."""
    p = np.linspace(0.95, 0.05, N)
    return np.column_stack([p, 1 - p])


def test_picks_lie_around_the_border_that_labels_show():
    # Class 0 ends after its label at 4: 3 and 5 are next. Class 1, seen from the right, ends after 7: 6 and 8 are next.
    picks = al.select(AROUND, 4, probs=line(), labelled=[1, 4, 7, 9], labels=[0, 0, 1, 1])
    assert sorted(picks.indices) == [3, 5, 6, 8]


def test_a_wrong_label_does_not_move_the_border():
    # Item 0 is said to be of class 1: the border with the fewest errors is still between 4 and 7.
    picks = al.select(AROUND, 4, probs=line(), labelled=[0, 1, 4, 7, 9], labels=[1, 0, 0, 1, 1])
    assert sorted(picks.indices) == [3, 5, 6, 8]


def test_a_class_without_labels_is_looked_for_where_it_is_likeliest():
    p = np.array([[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1], [0.5, 0.1, 0.4], [0.2, 0.7, 0.1], [0.4, 0.4, 0.2]])
    # Class 2 has no label: 3 comes first by p_2 - max p. Class 0 ends after item 0, class 1 after item 2: 1 and 4 are next.
    for seed in range(5):
        picks = al.select(AROUND, 3, probs=p, labelled=[0, 2], labels=[0, 1], seed=seed)
        assert sorted(picks.indices) == [1, 3, 4]


def test_half_is_drawn_from_the_region_where_the_border_may_lie():
    found = [
        al.select("direct", 4, probs=line(40), labelled=[10, 29], labels=[0, 1], seed=seed).indices[:2]
        for seed in range(60)
    ]
    drawn = set(np.concatenate(found).tolist())
    assert drawn == set(range(11, 29))  # with labels 0 ... 0 (10) and (29) 1 ... 1 both classes' border lies between


def test_a_noisy_region_reaches_from_the_first_contradiction_to_the_last():
    assert uncertain_region(np.array([1, 0, 1, 0, -1, 0, 1, 0, -1, -1])) == (2, 8)
    assert uncertain_region(np.array([0, 0, -1, 0])) == (0, 2)
    assert uncertain_region(np.array([1, 0, 0])) == (0, 2)
    assert uncertain_region(np.array([-1, 0, 1])) == (0, 2)
    assert uncertain_region(np.zeros(5)) == (0, 4)


def test_the_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(200):
        w = rng.integers(-1, 2, size=rng.integers(1, 12))
        right = [(w[:j] > 0).sum() + (w[j:] < 0).sum() for j in range(len(w) + 1)]
        assert threshold(w) == int(np.argmax(right))


@pytest.mark.parametrize("at", range(6))
def test_items_on_both_sides_take_turns(at):
    out = alternating(np.arange(5), at)
    assert sorted(out) == list(range(5))
    for side in (out[out < at][::-1], out[out >= at]):
        assert side.tolist() == sorted(side)
    both = min(at, 5 - at)
    assert (out[: 2 * both : 2] < at).all()
    assert (out[1 : 2 * both : 2] >= at).all()


def test_every_class_has_its_share():
    rng = np.random.default_rng(0)
    where = np.repeat([0, 1, 2], [900, 80, 20])  # rare classes, well told apart
    p = np.full((1000, 3), 0.1) + 0.7 * np.eye(3)[where] + 1e-3 * rng.random((1000, 3))
    p /= p.sum(axis=1, keepdims=True)
    labelled = np.array([0, 450, 899, 900, 979, 980])
    picks = al.select("direct", 30, probs=p, labelled=labelled, labels=where[labelled])
    share = np.bincount(where[picks.indices], minlength=3) / 30
    assert share[2] > 5 * 0.02


def test_labels_beyond_the_columns_are_of_other_classes():
    assert sides(np.array([5, 0, -1]), 0).tolist() == [-1, 1, 0]
    assert len(al.select("direct", 6, probs=line(), labelled=[1, 4], labels=[9, 0])) == 6
