import copy
import json

import numpy as np
import pytest
import torch

import askless as al
from askless.learn import Auto, Course, Task
from askless.learn.auto import BEFORE, DECAYS, LEARNT, SPREAD, Classroom, Exam, Mixture, folds
from askless.learn.ground import Ground
from askless.learn.linear import logits
from askless.learn.propagation import neighbour_graph


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


def test_folds_leave_each_label_out_once():
    kept = list(folds(23, np.random.default_rng(0)))
    left_out = [np.setdiff1d(np.arange(23), keep) for keep in kept]
    assert sorted(np.concatenate(left_out).tolist()) == list(range(23))
    assert sorted(map(len, left_out)) == [2, 2, 2, 2, 2, 2, 2, 3, 3, 3]
    assert [len(keep) for keep in folds(2, np.random.default_rng(0))] == [1, 1]
    assert list(folds(1, np.random.default_rng(0))) == []


def classroom_of(x, y, labelled):
    loop = al.ActiveLearner(x, net="linear", classes=int(y.max()) + 1)
    ground = Ground.of(loop.first_network, loop.views, np.arange(len(x)), directions=256, k=15)
    return Classroom(ground, labelled, y[labelled], int(y.max()) + 1)


def test_labels_are_judged_by_those_who_have_not_seen_them():
    """Each answer to a label is what the classroom without it says; classes that it has never heard of do not count."""
    x, y = groups([20, 20, 20], apart=1.0)
    labelled = np.array([0, 1, 2, 3, 20, 21, 22, 23, 40])  # one of the third class
    room = classroom_of(x, y, labelled)
    keeps = list(folds(len(labelled), np.random.default_rng(0)))
    exam = Exam(room, iter(keeps), np.random.default_rng(1))
    said = exam.answers(lambda part: part.by_labels(1e-3, exam.rows))
    expected, labels = [], []
    for keep in keeps:
        part = room.less(keep)
        for i in np.setdiff1d(np.arange(len(labelled)), keep):
            if y[labelled[i]] in part.labels:
                expected.append(part.by_labels(1e-3, labelled[[i]])[0])
                labels.append(y[labelled[i]])
    np.testing.assert_allclose(said, expected, atol=1e-5)
    assert exam.labels.tolist() == labels
    assert len(labels) == 8
    assert 2 not in labels


def test_a_label_weighs_as_many_rows_as_it_is_nearest_to():
    x, y = np.array([[0.0], [0.1], [0.2], [5.0]], np.float32), np.array([0, 0, 0, 1])
    room = classroom_of(x, y, np.array([0, 2, 3]))
    exam = Exam(room, folds(3, np.random.default_rng(0)), np.random.default_rng(0))
    weights = dict(zip(exam.labels.tolist(), exam.weights.tolist(), strict=True))
    assert set(weights) == {0}  # the only label of class 1 has nobody to judge it
    assert exam.weights.sum() == 3


def test_no_label_weighs_more_than_the_root_of_their_number_times_the_mean():
    """36 of 42 rows lie around the first of seven labels: it would weigh 36 where the mean is 6."""
    rng = np.random.default_rng(0)
    x = np.concatenate([0.01 * rng.normal(size=(36, 5)), 10 * np.eye(5), -10 * np.eye(5)[:1]]).astype(np.float32)
    room = classroom_of(x, np.arange(42) % 2, np.array([0, 36, 37, 38, 39, 40, 41]))
    exam = Exam(room, folds(7, rng), rng)
    plain = [36, 1, 1, 1, 1, 1, 1]
    assert exam.weights.max() == pytest.approx(np.sqrt(7) * np.mean(plain))
    assert sorted(exam.weights)[:6] == [1] * 6


def test_heads_spread_alike_whatever_their_decay():
    x, y = groups([40] * 3, apart=1.0)
    room = classroom_of(x, y, one_of_each(y, 4))
    for head in room.heads.values():
        z = logits(room.ground.z, head)
        assert (z - z.mean(axis=1, keepdims=True)).std() == pytest.approx(SPREAD, rel=1e-5)


def test_labelled_copies_of_one_item_count_too():
    """Only one of several equal rows is nearest to anything; the others still count as one row each."""
    x, y = np.zeros((6, 2), np.float32), np.array([0, 0, 0, 1, 1, 1])
    room = classroom_of(x, y, np.array([0, 1, 3, 4]))
    exam = Exam(room, folds(4, np.random.default_rng(0)), np.random.default_rng(0))
    assert (exam.weights >= 1).all()
    assert np.isfinite(exam.mixture()).all()


def test_what_knows_the_left_out_labels_counts():
    """Classes that are two far ends each: the graph knows them, a straight border does not. And the reverse: neighbours that
    say nothing, and a border along one direction of many."""
    rng = np.random.default_rng(0)
    ends = rng.integers(4, size=400)
    x = (10 * np.array([[0, 0], [1, 1], [0, 1], [1, 0]])[ends] + rng.normal(size=(400, 2))).astype(np.float32)
    y = ends // 2
    graph = learn(x, y, rng.permutation(400)[:60]).learnt.metrics[-1]
    x = rng.normal(size=(400, 30)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    head = learn(x, y, rng.permutation(400)[:200]).learnt.metrics[-1]
    assert graph["graph"] > 5 * graph["alone"]
    assert head["alone"] > 3 * head["graph"]
    assert head["alone_decay"] in DECAYS
    assert head["decay"] in LEARNT


def test_the_mixture_is_learnt_where_there_is_no_label_and_the_label_where_there_is():
    """A head that can tell all rows apart gives back its targets: by hand, the weighed opinions."""
    x, y = np.eye(6, dtype=np.float32), np.array([0, 0, 0, 1, 1, 1])
    room = classroom_of(x, y, np.array([0, 5]))
    room.spread = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.4, 0.6], [0.2, 0.8], [0.1, 0.9]])
    weights, loss = room.taught(Mixture(1.0, 0.0, DECAYS[0]), np.arange(6), 1e-9)
    probs = torch.softmax(room.ground.z @ weights.slope + weights.offset, dim=1).numpy()
    assert probs[1:5] == pytest.approx(room.spread[1:5], abs=0.02)
    assert probs[[0, 5]] == pytest.approx(np.eye(2), abs=0.02)
    entropy = -(room.spread[1:5] * np.log(room.spread[1:5])).sum() / 6
    assert loss == pytest.approx(entropy, abs=0.02)


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
    monkeypatch.setattr("askless.learn.ground.neighbours", None)
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
    ground = Ground.of(nets[0], pool, at, directions=256, k=15)
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


def test_what_was_found_is_logged_and_watched(tmp_path):
    x, y = groups([30] * 2)
    seen = []
    net = al.nets.make("linear", classes=2, shape=(12,), seed=0)
    task = Task(al.data.views_for(al.data.as_pool(x)), 60, one_of_each(y, 3), np.repeat([0, 1], 3), 2)
    course = Course(log=tmp_path / "log.jsonl", watch=lambda *at: seen.append(at))
    learnt = Auto().fit(copy.deepcopy(net), task, course=course)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines == learnt.metrics == [numbers for _, _, numbers in seen]
    assert [(done, total) for done, total, _ in seen] == [(1, 1)]
    assert set(lines[0]) >= {"graph", "alone", "alone_decay", "decay", "temperature", "loss"}


def test_one_label_leaves_what_was_thought_before():
    x, y = groups([20] * 2)
    numbers = learn(x, y, np.array([0])).learnt.metrics[-1]
    assert (numbers["graph"], numbers["alone"]) == pytest.approx(BEFORE)
    assert (numbers["alone_decay"], numbers["decay"], numbers["temperature"]) == (DECAYS[0], LEARNT[0], 1)


@pytest.mark.parametrize("net", ["linear", "waves"])
@pytest.mark.parametrize("scale", [2.0**-100, 1e-30, 1e-18, 1e6, 1e20, 2.0**100])
def test_features_of_any_scale_are_learnt_alike(net, scale):
    x, y = groups([30] * 3, apart=1.5)

    def learnt(scale):
        loop = al.ActiveLearner(x * np.float32(scale), net=net, learner="auto", strategy="margin", classes=3)
        loop.tell(one_of_each(y, 3), y[one_of_each(y, 3)])
        loop.fit()
        return loop

    plain, scaled = learnt(1), learnt(scale)
    assert (plain.predict_pool().argmax(axis=1) == y).mean() > 0.7
    if np.log2(scale) % 1 == 0:  # no digit of the features changes
        assert (scaled.predict_pool() == plain.predict_pool()).all()
        assert (scaled.ask(5).indices == plain.ask(5).indices).all()
    else:
        assert scaled.predict_pool() == pytest.approx(plain.predict_pool(), abs=0.05)


@pytest.mark.parametrize("net", ["linear", "waves"])
def test_a_row_far_beyond_all_others_spoils_nothing(net, caplog):
    x, y = groups([30] * 3, apart=2.0)
    far = x.copy()
    far[7] *= 1e4
    found = []
    for rows, labelled in ((x, one_of_each(y, 3)), (far, one_of_each(y, 3)), (far, np.append(one_of_each(y, 3), 7))):
        loop = al.ActiveLearner(rows, net=net, learner="auto", classes=3)
        loop.tell(labelled, y[labelled])
        loop.fit()
        found.append((loop.predict_pool().argmax(axis=1) == y).mean())
        assert loop.learnt.metrics[-1].get("far", 0) == (rows is far)
    assert min(found[1:]) > found[0] - 0.05
    assert [record.getMessage()[:93] for record in caplog.records] == 2 * [
        "1 of 90 rows lie more than 100 times as far out as the others, the first is row 7; auto treat"
    ]


def test_a_far_row_that_was_not_drawn_is_moved_when_it_gets_a_label():
    x, y = groups([60] * 3, apart=3.0)
    at = np.sort(al.base.rng.stream(0, "items").permutation(len(x))[:90])
    row = int(np.setdiff1d(np.arange(len(x)), at)[0])
    x[row] *= 1e4
    loop = learn(x, y, at[:: len(at) // 9], Auto(items=90))
    assert "far" not in loop.learnt.metrics[-1]
    ground = loop.learnt.ground
    loop.tell([row], [y[row]])
    loop.fit()
    assert loop.learnt.metrics[-1]["far"] == 1
    assert loop.learnt.ground is ground
    assert (loop.predict_pool().argmax(axis=1) == y).mean() > 0.9


def test_the_main_directions_of_very_wide_rows_are_found_nearly(monkeypatch):
    x, y = groups([30] * 4, d=60)
    exact = learn(x, y, one_of_each(y, 3), Auto(directions=8)).predict_pool()
    monkeypatch.setattr("askless.learn.ground.WIDE", 20)
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
    with pytest.raises(al.ModelError, match="auto trains a linear head on feature vectors, got a larger network"):
        al.ActiveLearner(x, net="mlp", learner="auto", classes=2)
    with pytest.raises(al.ModelError, match="got a larger network"):
        al.ActiveLearner(x, net=torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh()), learner="auto", classes=2)
    images = np.zeros((20, 3, 8, 8), np.uint8)
    with pytest.raises(al.ModelError, match="got a larger network; use net='linear', 'waves' or"):
        al.ActiveLearner(images, net="small-cnn", learner="auto", classes=2)
