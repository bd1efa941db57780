"""Strategies among items whose pseudo-label is certain."""

import numpy as np
import pytest

import askless as al
from askless.base.errors import ModelError
from askless.bench.certain import Certain, certain

SURE, UNSURE, CHANGING = [[0.9, 0.1]] * 2, [[0.6, 0.4]] * 2, [[1.0, 0.0], [0.6, 0.4]]


def test_a_pseudo_label_is_certain_where_it_is_probable_and_the_passes_agree():
    passes = np.array([SURE, UNSURE, CHANGING, SURE[::-1]])
    assert certain(passes, 0.7, 0.05).tolist() == [True, False, False, True]
    assert certain(passes, 0.7, 0.2).tolist() == [True, False, True, True]
    assert certain(passes, 0.6, 0.0).tolist() == [True, True, False, True]


def test_the_passes_are_of_one_class_even_where_the_others_differ():
    passes = np.array([[[0.8, 0.2, 0.0], [0.8, 0.0, 0.2]]])
    assert certain(passes, 0.8, 0.0).tolist() == [True]


@pytest.mark.parametrize(("n", "picks"), [(1, [3]), (2, [3, 0]), (3, [3, 0, 2]), (4, [3, 0, 2, 1])])
def test_the_certain_ones_come_first_each_part_as_the_strategy_orders_it(n, picks):
    passes = np.array([SURE, UNSURE, CHANGING, SURE, SURE])
    sq, dot = np.array([1.0, 5.0, 3.0, 1.0, 9.0]), np.array([0.0, 0.0, 2.0, 1.0, 9.0])
    found = al.select(Certain(of=al.DynamicAL()), n, probs_by_pass=passes, grad_sq=sq, grad_dot=dot, labelled=[4])
    assert found.indices.tolist() == picks
    assert found.info["certain"] == 2


def test_without_a_threshold_it_is_the_strategy_itself():
    rng = np.random.default_rng(0)
    passes, sq, dot = rng.dirichlet(np.ones(3), (30, 4)), rng.random(30), rng.normal(size=30)
    every = Certain(of=al.DynamicAL(), confidence=0.0, deviation=1.0)
    arrays = {"grad_sq": sq, "grad_dot": dot, "labelled": [2, 7]}
    found = al.select(every, 9, probs_by_pass=passes, **arrays)
    assert found.indices.tolist() == al.select("dynamical", 9, **arrays).indices.tolist()


def test_a_network_without_dropout_is_refused_before_any_label():
    with pytest.raises(ModelError, match="certain dynamical"):
        al.ActiveLearner(al.data.digits(), net="small-cnn", strategy=Certain(of=al.DynamicAL()))


def test_a_network_with_dropout_is_seen_in_its_passes():
    def net(seed):
        return al.nets.make("small-cnn", classes=10, shape=(1, 8, 8), seed=seed, dropout=0.2)

    pool = al.data.subset(al.data.digits(), 60)
    learner = al.ActiveLearner(pool, net=net, strategy=Certain(of=al.DynamicAL(), passes=3), learner="supervised")
    assert learner.observe()["probs_by_pass"].shape == (60, 3, 10)
    learner.tell(range(10), pool.labels[:10])
    assert len(learner.ask(5)) == 5
