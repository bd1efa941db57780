import copy
import json

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax

import askless as al
from askless.learn import Auto, Course, Task
from askless.learn.auto import Ground, Space, fit_head, folds, logits, one_hot
from askless.learn.propagation import neighbour_graph, neighbours


def groups(counts, d=12, apart=6.0, seed=0):
    """Rows around one middle for each class, and the classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    return (rng.normal(size=(len(y), d)) + apart * rng.normal(size=(len(counts), d))[y]).astype(np.float32), y


def learn(x, y, labelled, learner=None, **options):
    loop = al.ActiveLearner(x, net="linear", learner=learner or Auto(), classes=int(y.max()) + 1)
    loop.tell(labelled, y[labelled])
    loop.fit(**options)
    return loop


def one_of_each(y, n=1):
    return np.concatenate([np.flatnonzero(y == c)[:n] for c in np.unique(y)])


def test_a_head_is_the_minimum_that_scipy_finds():
    rng = np.random.default_rng(0)
    z, targets = rng.normal(size=(30, 3)), rng.dirichlet(np.ones(4), 30)

    def loss(w):
        slope = w[:12].reshape(3, 4)
        return -(targets * log_softmax(z @ slope + w[12:], axis=1)).sum(axis=1).mean() + 0.05 * (slope**2).sum()

    best = minimize(loss, np.zeros(16), method="BFGS", options={"gtol": 1e-9})
    found = fit_head(torch.from_numpy(z).float(), torch.from_numpy(targets).float(), 0.1)
    assert found.slope.numpy() == pytest.approx(best.x[:12].reshape(3, 4), abs=1e-3)
    assert found.offset.numpy() == pytest.approx(best.x[12:], abs=1e-3)
    again = fit_head(torch.from_numpy(z).float(), torch.from_numpy(targets).float(), 0.1, found)
    assert again.slope.numpy() == pytest.approx(found.slope.numpy(), abs=1e-3)


def test_the_head_of_whole_rows_answers_as_the_one_in_the_space():
    rows = torch.randn(50, 9) * torch.linspace(0.1, 3, 9) + 2
    space = Space.of(rows, 4)
    z = space.into(rows)
    assert z.shape == (50, 4)
    weights = fit_head(z, one_hot(np.arange(50) % 3, 3), 1e-3)
    head = torch.nn.Linear(9, 3)
    space.put(weights, head)
    with torch.no_grad():
        assert head(rows).numpy() == pytest.approx(logits(z, weights), abs=1e-3)
    whole = Space.of(rows, 9).into(rows)
    assert whole.square().sum(dim=1).mean() == pytest.approx(1, abs=1e-5)


def test_folds_leave_each_label_out_once_and_no_class_twice_as_often():
    labels = np.repeat([0, 1, 2], [10, 5, 5])
    kept = list(folds(labels, np.random.default_rng(0)))
    left_out = [np.setdiff1d(np.arange(20), keep) for keep in kept]
    assert sorted(np.concatenate(left_out).tolist()) == list(range(20))
    assert all(np.bincount(labels[out], minlength=3).tolist() == [2, 1, 1] for out in left_out)
    assert [keep.tolist() for keep in folds(np.zeros(2, int), np.random.default_rng(0))] != []
    assert list(folds(np.zeros(1, int), np.random.default_rng(0))) == []


def test_it_learns_from_the_items_without_a_label():
    """Ten classes that overlap, two labels each: the head knows more than one that saw the labels alone."""
    x, y = groups([60] * 10, d=8, apart=1.2)
    labelled = one_of_each(y, 2)
    ours = (learn(x, y, labelled).predict_pool().argmax(axis=1) == y).mean()
    alone = learn(x, y, labelled, al.Supervised(steps=300))
    assert ours > (alone.predict_pool().argmax(axis=1) == y).mean()


def test_equal_classes_are_kept_equal_and_a_long_tail_long():
    x, y = groups([50] * 4)
    loop = learn(x, y, one_of_each(y, 5))
    assert (loop.predict_pool().argmax(axis=1) == y).all()
    x, y = groups([300, 60, 20, 6])
    loop = learn(x, y, one_of_each(y, 5))
    assert loop.learnt.metrics[-1]["toward_equal"] < 0.05
    assert (loop.predict_pool().argmax(axis=1) == y).mean() > 0.99


def test_borders_may_be_curved():
    """Two moons of four labels each: no straight line divides them, and a linear head does not even with all items."""
    pool = al.data.two_moons(400, seed=0)
    x, y = np.asarray(pool.x), pool.labels
    labelled = np.flatnonzero(np.arange(len(y)) % 100 == 50)
    right = {}
    for net in ("linear", None):
        loop = al.ActiveLearner(x, net=net, classes=2)
        loop.tell(labelled, y[labelled])
        loop.fit()
        right[loop.net] = (loop.predict_pool().argmax(axis=1) == y).mean()
    assert right["waves"] > 0.99 > 0.95 > right["linear"]


def test_what_is_handed_out_needs_neither_pool_nor_graph(tmp_path):
    x, y = groups([40] * 3)
    loop = learn(x, y, one_of_each(y, 3))
    new = groups([40] * 3)[0][::7] + 0.1
    network = loop.learnt.as_network()
    assert sum(p.numel() for p in network.parameters()) == 3 * 13
    loop.export(tmp_path / "out")
    np.testing.assert_allclose(al.load(tmp_path / "out").predict_proba(new), loop.predict_proba(new), atol=1e-5)


def test_the_same_seed_gives_the_same_head_and_the_graph_is_made_once(monkeypatch):
    x, y = groups([40] * 3, apart=2)
    labelled = one_of_each(y, 4)
    one, two = (learn(x, y, labelled).model.state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)
    loop = learn(x, y, labelled)
    monkeypatch.setattr("askless.learn.auto.neighbours", lambda *_, **options: 1 / 0 if options else neighbours(*_))
    loop.tell([0, 1], y[[0, 1]])
    loop.fit()


def test_it_is_as_sure_as_it_is_right():
    """Classes that overlap: what the head says of items without a label comes true as often as it says, within 5 points."""
    x, y = groups([400] * 4, d=6, apart=1.2)
    loop = learn(x, y, np.random.default_rng(0).permutation(len(y))[:200])
    probs = loop.predict_pool()
    right = probs.argmax(axis=1) == y
    assert probs.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.05)
    assert loop.learnt.metrics[-1]["temperature"] != 1


def test_of_a_larger_pool_some_are_learnt_from_and_all_that_have_a_label():
    x, y = groups([100] * 3)
    labelled = one_of_each(y, 2)
    loop = learn(x, y, labelled, Auto(items=60))
    ground = loop.learnt.ground
    assert len(ground.at) == 60
    whole = ground.including(loop.model, loop.task)
    missing = np.setdiff1d(labelled, ground.at)
    assert len(missing) > 0
    assert whole.at.tolist() == [*ground.at, *missing]
    assert (loop.predict_pool().argmax(axis=1) == y).all()


def test_what_is_known_of_a_larger_pool_is_kept_and_joined_by_new_labels():
    """The graph with those that came later is the one of all; a learner that begins with all labels gets the same head."""
    x, y = groups([100] * 3, apart=2)
    loop = learn(x, y, one_of_each(y, 2), Auto(items=60))
    ground = loop.learnt.ground
    labelled = one_of_each(y, 5)
    loop.tell(labelled, y[labelled])
    whole = ground.including(loop.model, loop.task)
    direct = neighbour_graph(whole.z).toarray()
    np.testing.assert_allclose(whole.graph.toarray(), direct, atol=1e-4)
    loop.fit()
    assert loop.learnt.ground is ground
    fresh = learn(x, y, loop.labelled, Auto(items=60))
    assert all(torch.equal(a, b) for a, b in zip(loop.model.parameters(), fresh.model.parameters(), strict=True))


def test_what_is_known_of_other_items_or_by_another_network_is_found_again():
    x = groups([30] * 2, d=3)[0]
    loop = al.ActiveLearner(x, net="waves", learner="auto", classes=2)
    pool, at = loop.views, np.arange(40)
    nets = [al.nets.make("waves", classes=2, shape=(3,), seed=seed) for seed in (0, 1)]
    ground = Ground.of(nets[0], pool, at, Auto())
    assert ground.is_of(nets[0], pool, at)
    assert not ground.is_of(nets[0], pool, at + 1)
    assert not ground.is_of(nets[1], pool, at)
    assert not ground.is_of(al.nets.make("linear", classes=2, shape=(3,)), pool, at)


def test_new_waves_in_every_round_are_learnt_as_well_as_the_first():
    pool = al.data.two_moons(400, seed=0)
    x, y = np.asarray(pool.x), pool.labels
    loop = al.ActiveLearner(x, classes=2, fresh="new")
    for labelled in (np.flatnonzero(np.arange(len(y)) % 100 == 50), [0]):
        loop.tell(labelled, y[labelled])
        loop.fit()
        assert (loop.predict_pool().argmax(axis=1) == y).mean() > 0.99


def test_rounds_are_logged_and_watched(tmp_path):
    x, y = groups([30] * 2)
    seen = []
    net = al.nets.make("linear", classes=2, shape=(12,), seed=0)
    task = Task(al.data.views_for(al.data.as_pool(x)), 60, one_of_each(y, 3), np.repeat([0, 1], 3), 2)
    course = Course(log=tmp_path / "log.jsonl", watch=lambda *at: seen.append(at))
    learnt = Auto(rounds=2).fit(copy.deepcopy(net), task, course=course)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines == learnt.metrics == [numbers for _, _, numbers in seen]
    assert [(done, total) for done, total, _ in seen] == [(1, 2), (2, 2)]


@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e18])
def test_features_of_any_scale_are_learnt_alike(scale):
    x, y = groups([30] * 3)
    assert (learn(x * np.float32(scale), y, one_of_each(y, 3)).predict_pool().argmax(axis=1) == y).all()


def test_the_main_directions_of_very_wide_rows_are_found_nearly(monkeypatch):
    x, y = groups([30] * 4, d=60)
    exact = learn(x, y, one_of_each(y, 3), Auto(directions=8)).predict_pool()
    monkeypatch.setattr("askless.learn.auto.WIDE", 20)
    assert (learn(x, y, one_of_each(y, 3), Auto(directions=8)).predict_pool().argmax(1) == exact.argmax(1)).all()


@pytest.mark.parametrize("labels", [[0], [0, 0], [0, 1], [0, 1, 1]])
def test_a_few_labels_are_enough(labels):
    x = groups([20] * 3)[0]
    loop = al.ActiveLearner(x, net="linear", learner="auto", classes=3)
    loop.tell(range(len(labels)), labels)
    loop.fit()
    probs = loop.predict_pool()
    assert np.isfinite(probs).all()
    assert probs.sum(axis=1) == pytest.approx(1)


def test_what_it_cannot_train_is_refused_with_a_way_out():
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    with pytest.raises(al.ModelError, match="auto trains a linear head on feature vectors, got a network that is more"):
        al.ActiveLearner(x, net="mlp", learner="auto", classes=2)
    with pytest.raises(al.ModelError, match="got a network that is more"):
        al.ActiveLearner(x, net=torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh()), learner="auto", classes=2)
    images = np.zeros((20, 3, 8, 8), np.uint8)
    with pytest.raises(al.ModelError, match="got a network that is more than that; use net='linear', 'waves' or"):
        al.ActiveLearner(images, net="small-cnn", learner="auto", classes=2)
