import numpy as np
import pytest

from askless.learn.shares import balanced, drawn_to_equal, likeliest, wavering


def hard(counts):
    """The shares by certain predictions with so many rows of each class."""
    return likeliest(np.repeat(np.eye(len(counts)), counts, axis=0))


def test_shares_that_never_change_are_kept():
    shares = hard([6, 3, 1])
    assert wavering(shares, [shares, shares], np.arange(3)) == 0
    assert drawn_to_equal(shares, np.arange(3), 0) == pytest.approx([0.6, 0.3, 0.1])


def test_shares_are_drawn_to_equal_ones_as_far_as_they_waver():
    """By hand: shares (.6, .4), without halves of the labels (.7, .3) and (.5, .5): variance 1/2 (4 x .01) = .02, distance
    from equal 2 x .01 = .02, so all the way; with (.65, .35) and (.55, .45) a quarter of that variance and of the way."""
    shares, seen = hard([60, 40]), np.arange(2)
    assert wavering(shares, [hard([70, 30]), hard([50, 50])], seen) == pytest.approx(1)
    assert wavering(shares, [hard([65, 35]), hard([55, 45])], seen) == pytest.approx(0.25)
    assert drawn_to_equal(shares, seen, 0.25) == pytest.approx([0.575, 0.425])


def test_without_a_second_look_shares_are_equal_among_the_classes_seen():
    seen = np.array([0, 2])
    assert wavering(hard([8, 0, 2]), [], seen) == 1
    assert drawn_to_equal(hard([8, 0, 2]), seen, 1).tolist() == [0.5, 0, 0.5]
    assert wavering(hard([5, 5]), [hard([5, 5])] * 2, np.arange(2)) == 1


def test_balanced_rows_sum_to_one_and_columns_to_their_shares():
    probs = np.random.default_rng(0).dirichlet([5, 1, 1], 200)
    shares = np.array([0.2, 0.5, 0.3])
    out = balanced(probs, shares)
    assert out.sum(axis=1) == pytest.approx(1)
    assert out.mean(axis=0) == pytest.approx(shares, abs=1e-6)
    # What Sinkhorn finds is a scaling of columns and rows: the odds of two classes change alike in all rows.
    odds = (out[:, 0] / out[:, 1]) / (probs[:, 0] / probs[:, 1])
    assert odds == pytest.approx(odds[0], rel=1e-6)
    np.testing.assert_allclose(balanced(probs, probs.mean(axis=0)), probs, atol=1e-9)


def test_balanced_is_what_scaling_columns_and_rows_in_turn_comes_to():
    """The short way: every number is scaled in every sweep."""
    probs, shares = np.random.default_rng(0).dirichlet([0.3] * 5, 300), np.array([0.05, 0.5, 0.2, 0.2, 0.05])
    plain = np.maximum(probs, 1e-12)
    for _ in range(50):
        plain = plain * (300 * shares / plain.sum(axis=0))
        plain = plain / plain.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(balanced(probs, shares), plain, rtol=1e-9)
    certain = np.eye(5)[np.arange(300) % 5]
    assert np.isfinite(balanced(certain, shares)).all()


def test_a_class_that_no_row_has_stays_empty():
    out = balanced(np.array([[0.6, 0.4, 0], [0.3, 0.7, 0]]), np.array([0.5, 0.5, 0]))
    assert (out[:, 2] == 0).all()
    assert out.sum(axis=1) == pytest.approx(1)
