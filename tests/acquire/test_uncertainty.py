import numpy as np
import pytest

import askless as al
from askless.acquire.uncertainty import entropy, entropy_of_logits, margin

P = np.array([[0.6, 0.3, 0.1], [0.4, 0.35, 0.25], [0.5, 0.49, 0.01], [1.0, 0.0, 0.0]])


def test_each_measure_orders_a_hand_worked_case():
    assert al.select("confidence", 4, probs=P).indices.tolist() == [1, 2, 0, 3]
    assert al.select("margin", 4, probs=P).indices.tolist() == [2, 1, 0, 3]
    assert al.select("entropy", 4, probs=P).indices.tolist() == [1, 0, 2, 3]


def test_certain_rows_have_zero_entropy_and_no_nan():
    assert entropy(P)[3] == 0
    assert entropy_of_logits(np.array([[800.0, 0.0], [0.0, 0.0]])) == pytest.approx([0, np.log(2)])


def test_entropy_from_logits_equals_entropy_from_probabilities():
    logits = np.random.default_rng(0).normal(size=(20, 5))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(entropy(probs), entropy_of_logits(logits))


def test_margins_of_logits_and_of_probabilities_rank_differently():
    # f1 - f2 = ln(p1 / p2): row 0 has the smaller difference, row 1 the smaller ratio.
    probs = np.array([[0.30, 0.20, 0.25, 0.25], [0.9, 0.1, 0.0, 0.0]])
    probs = np.array([[0.36, 0.32, 0.32], [0.51, 0.465, 0.025]])
    on_probs = al.select("margin", 1, probs=probs).indices
    on_logits = al.select(al.Margin(on="logit"), 1, logits=np.log(probs)).indices
    assert on_probs.tolist() == [0]
    assert on_logits.tolist() == [1]
    assert np.allclose(margin(np.log(probs)), np.log(probs[:, 0] / np.sort(probs, axis=1)[:, -2]))


def test_scores_are_higher_for_better_picks():
    picks = al.select("margin", 4, probs=P)
    assert (np.diff(picks.scores) <= 0).all()
    assert picks.scores[0] == pytest.approx(-0.01)


def test_ties_fall_in_random_order():
    probs = np.full((40, 2), 0.5)
    assert len({int(al.select("margin", 1, probs=probs, seed=s).indices[0]) for s in range(30)}) > 5


def test_a_single_class_leaves_nothing_to_compare():
    assert len(al.select("margin", 2, probs=np.ones((5, 1)))) == 2


@pytest.mark.parametrize("n", [0, 1, 7, 199, 200])
def test_the_best_n_are_the_beginning_of_all_in_order_with_ties_at_random(n):
    from askless.acquire.strategy import top

    scores = np.random.default_rng(0).integers(5, size=300).astype(np.float64)
    scores[::7] = -np.inf
    allowed = np.arange(50, 250)
    picks = top(scores, allowed, n, np.random.default_rng(1))
    order = np.lexsort((np.random.default_rng(1).random(200), -scores[allowed]))[:n]
    assert np.array_equal(picks.indices, allowed[order])
    assert np.array_equal(picks.scores, scores[allowed[order]])
