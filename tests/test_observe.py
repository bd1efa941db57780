import numpy as np
import pytest
import torch

import askless as al
from askless.observe import head_gradients, passes_of


def test_gradients_of_a_head_are_those_of_a_linear_network():
    torch.manual_seed(0)
    net, x = torch.nn.Linear(6, 4), torch.randn(50, 6)
    labelled, labels = np.array([3, 10, 41]), np.array([0, 2, 2])
    probs = net(x).detach().double().softmax(dim=1).numpy()
    sq, dot = head_gradients(x.numpy(), probs, labelled, labels)
    stats = al.kernels.gradient_stats(net, x, against=(x[labelled], torch.from_numpy(labels)))
    assert sq == pytest.approx(np.asarray(stats.sq), rel=1e-4)
    assert dot == pytest.approx(np.asarray(stats.dot), rel=1e-4, abs=1e-5)


def test_without_labels_the_product_is_zero():
    x, probs = np.random.default_rng(0).normal(size=(5, 3)), np.full((5, 2), 0.5)
    none = np.empty(0, dtype=np.int64)
    assert (head_gradients(x, probs, none, none)[1] == 0).all()


@pytest.mark.parametrize("layers", ["last", "all"])
def test_a_strategy_gets_what_it_wants_too(layers):
    pool = al.data.subset(al.data.digits(), 60)
    learner = al.ActiveLearner(pool, net="linear", learner=al.Supervised(steps=5), classes=10, layers=layers)
    assert learner.strategy == al.Askless()
    assert set(learner.observe()) == {"features"}  # nobody has learnt anything yet
    learner.tell(range(20), pool.labels[:20])
    even = al.select(al.Askless(trust=float("inf")), 5, features=learner.observe()["features"], labelled=range(20))
    assert learner.ask(5).info["unsure"] == even.info["unsure"] == [1.0] * 5
    learner.fit()
    seen = learner.observe()
    assert set(seen) == {"features", "labels", "probs"}
    assert seen["probs"].shape == (60, 10)
    assert max(learner.ask(5).info["unsure"]) < 1


def test_what_is_said_of_each_pick_stays_with_it_beside_random_ones():
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(60, 3)), rng.normal(size=(60, 3)) + 3]).astype(np.float32)
    learner = al.ActiveLearner(x, net="linear", learner=al.Supervised(steps=30), classes=2, random_share=0.5)
    learner.tell([0, 1, 100, 101], [0, 0, 1, 1])
    learner.fit()
    picks = learner.ask(20)
    chosen = picks.indices[: len(picks) - len(picks.info["random"])]
    top = np.sort(learner.predict_pool()[chosen], axis=1)
    assert picks.info["unsure"] == pytest.approx(np.maximum(1 - (top[:, 1] - top[:, 0]), 0.01), abs=1e-5)
    assert len(picks.info["stands_for"]) == len(chosen) == 10


def test_label_propagation_shows_dynamical_the_gradients_of_a_head():
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(40, 3)), rng.normal(size=(40, 3)) + 4]).astype(np.float32)
    learner = al.ActiveLearner(
        x, net="linear", learner=al.LabelPropagation(neighbours=5), strategy="dynamical", classes=2
    )
    assert len(learner.ask(3)) == 3
    learner.tell([0, 50], [0, 1])
    learner.fit()
    seen = learner.observe()
    assert set(seen) == {"grad_sq", "grad_dot"}
    assert (seen["grad_sq"] >= 0).all()
    assert len(learner.ask(3)) == 3


def test_bald_in_the_loop():
    pool = al.data.subset(al.data.digits(), 80)
    net = al.nets.make("mlp", classes=10, shape=pool.shape, hidden=(32,), dropout=0.3)
    learner = al.ActiveLearner(pool, net=net, learner=al.Supervised(steps=20), strategy=al.BALD(passes=6), classes=10)
    assert learner.observe()["probs_by_pass"].shape == (80, 6, 10)  # before any label
    learner.tell(range(20), pool.labels[:20])
    learner.fit()
    probs = al.kernels.probs_by_pass(learner.model, learner.views.plain(torch.arange(80)), passes=6, seed=0)
    assert torch.equal(learner.observe()["probs_by_pass"], probs)
    assert (learner.ask(5).indices == learner.ask(5).indices).all()
    assert not set(learner.ask(5, exclude=[30, 31]).indices) & {30, 31}


def test_how_many_passes_a_strategy_wants():
    assert passes_of(al.BatchBALD()) == 100
    assert passes_of(al.TwoLevel(of=al.BALD(passes=7))) == 7
    assert passes_of(al.ALBL(arms=(al.BALD(passes=30), al.Random(), al.BatchBALD(passes=12)))) == 30


def test_a_frozen_head_with_dropout(tmp_path):
    pool = al.data.subset(al.data.digits(), 40)
    net = al.Frozen(backbone="raw", weak=0, strong=0, cache=tmp_path, dropout=0.25)
    learner = al.ActiveLearner(pool, net=net, learner=al.Supervised(steps=5), strategy="batchbald", classes=10)
    assert len(learner.ask(3)) == 3
    learner.save(tmp_path / "saved")
    again = al.ActiveLearner.load(tmp_path / "saved")
    assert again.strategy == al.BatchBALD()
    assert (again.ask(3).indices == learner.ask(3).indices).all()


def test_a_network_without_dropout_is_refused_before_anything_is_trained():
    pool = al.data.subset(al.data.digits(), 40)
    for strategy in ("bald", "batchbald", al.ALBL(arms=(al.BALD(), al.Random()))):
        with pytest.raises(al.ModelError, match=r"the strategy (bald|batchbald|albl): expected a network with dropout"):
            al.ActiveLearner(pool, net="small-cnn", strategy=strategy, classes=10)
    with pytest.raises(al.InputError, match="label propagation has no network"):
        al.ActiveLearner(
            pool.x.flatten(1).float(), net="linear", learner=al.LabelPropagation(), strategy="bald", classes=10
        )


def test_label_propagation_refuses_what_needs_gradients_as_features():
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    exact = al.DynamicAL(redundancy="exact")
    learner = al.ActiveLearner(x, net="linear", learner=al.LabelPropagation(), strategy=exact, classes=2)
    with pytest.raises(al.InputError, match="label propagation has not"):
        learner.ask(3)
