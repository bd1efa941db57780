import dataclasses
import json

import numpy as np
import pytest
import torch

import askless as al
from askless.base.rng import stream
from askless.learn.observe import head_gradients, passes_of, without_bias


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
    with pytest.raises(al.InputError, match="label propagation does not have"):
        learner.ask(3)


def small_case(strategy, layers="all", **options):
    """A trained convolutional network on digits, of which 10 are labelled."""
    pool = al.data.subset(al.data.digits(), 150)
    learner = al.ActiveLearner(
        pool, net="small-cnn", learner=al.Supervised(steps=20), strategy=strategy, classes=10, layers=layers, **options
    )
    learner.tell(range(10), pool.labels[:10])
    learner.fit()
    return learner


def groups_of(picks):
    return {tuple(group) for group in picks.indices.reshape(-1, 2).tolist()}


def test_crc_over_all_layers_is_exact_and_the_projection_is_not():
    exact = small_case(al.CRC(group=2, by="kernel"))
    projected = small_case(al.CRC(group=2))
    K = al.kernels.ntk(exact.model, exact.views.plain(torch.arange(150)), layers="all").numpy()
    picks = exact.ask(28)
    order = stream(int(stream(0, "ask 10").integers(2**62)), "select").permutation(np.arange(10, 150))
    groups = order.reshape(-1, 2)
    sets = [np.concatenate([np.arange(10), g]) for g in groups]
    smallest = [np.linalg.eigvalsh(K[np.ix_(s, s)])[0] for s in sets]
    best = groups[np.argsort(smallest)[::-1][:14]]
    assert picks.indices.tolist() == best.reshape(-1).tolist()
    union = np.concatenate([np.arange(10), picks.indices])
    assert picks.info["lambda_min"] == pytest.approx(np.linalg.eigvalsh(K[np.ix_(union, union)])[0], rel=1e-5)
    assert len(groups_of(projected.ask(28)) & groups_of(picks)) <= 10


@pytest.mark.parametrize("layers", ["last", "all"])
def test_a_kernel_leaves_out_what_is_excluded(layers):
    learner = small_case(al.CRC(group=2, by="kernel"), layers)
    out = learner.ask(8).indices[:4]
    there = np.setdiff1d(np.arange(150), out)
    K = al.kernels.ntk(learner.model, learner.views.plain(torch.from_numpy(there)), layers=layers)
    seed = int(stream(0, "ask 10").integers(2**62))
    labelled = np.searchsorted(there, np.arange(10))
    expected = al.select(learner.strategy, 8, kernel=K, labelled=labelled, seed=seed)
    assert np.array_equal(learner.ask(8, exclude=out).indices, there[expected.indices])


@pytest.mark.parametrize("strategy", [al.NPC(draws=20), al.CRC(group=2)], ids=repr)
def test_features_of_all_layers_get_no_second_bias(strategy):
    learner = small_case(strategy, width=40)
    seen = learner.observe()["features"]
    assert seen.shape == (150, 40)
    seed = int(stream(0, "ask 10").integers(2**62))
    bare = dataclasses.replace(strategy, bias=False)
    expected = al.select(bare, 6, features=seen, labelled=range(10), seed=seed)
    picks = learner.ask(6)
    assert np.array_equal(picks.indices, expected.indices)
    assert (picks.info["lambda_min"], picks.info["rank"]) == (expected.info["lambda_min"], expected.info["rank"])
    assert learner.strategy == strategy
    last = small_case(strategy, "last")
    with_bias = al.select(strategy, 6, features=last.observe()["features"], labelled=range(10), seed=seed)
    assert last.ask(6).info["lambda_min"] == with_bias.info["lambda_min"]


def test_strategies_inside_others_lose_their_bias_too():
    assert without_bias(al.Random()) == al.Random()
    assert without_bias(al.TwoLevel(of=al.NPC())) == al.TwoLevel(of=al.NPC(bias=False))
    arms = al.ALBL(arms=(al.Margin(), al.CRC(group=3)))
    assert without_bias(arms) == al.ALBL(arms=(al.Margin(), al.CRC(group=3, bias=False)))


def test_label_propagation_sees_items_and_keeps_the_bias():
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    options = {
        "net": "linear",
        "learner": al.LabelPropagation(neighbours=5),
        "classes": 2,
        "strategy": al.NPC(draws=20),
    }
    one, two = (al.ActiveLearner(x, layers=layers, **options) for layers in ("last", "all"))
    assert one.ask(3).info["lambda_min"] == two.ask(3).info["lambda_min"]


def test_the_width_is_saved_and_older_saves_lack_it(tmp_path):
    learner = small_case(al.NPC(draws=20), width=40)
    learner.save(tmp_path)
    again = al.ActiveLearner.load(tmp_path)
    assert again.width == 40
    assert np.array_equal(again.ask(4).indices, learner.ask(4).indices)
    state = json.loads((tmp_path / "learner.json").read_text())
    del state["plain"]["width"], state["plain"]["calibrate"]
    (tmp_path / "learner.json").write_text(json.dumps(state))
    older = al.ActiveLearner.load(tmp_path)
    assert (older.width, older.calibrate) == (512, False)  # which it did not do
    with pytest.raises(al.InputError, match="ActiveLearner: width must be a whole number >= 1, got 0"):
        small_case("random", width=0)
