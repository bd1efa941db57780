import json

import numpy as np
import pytest
import torch

import askless as al
from askless.run import Settings
from askless.run.settings import LEARNERS
from askless.run.steps import embedding, one_round
from askless.run.steps.one_round import finite, make_learner, next_batch, run_pool


class Rows:
    """What was made of the items, in memory."""

    def __init__(self, x):
        self.x, self.side = x, 0


@pytest.fixture(scope="module")
def base():
    y = np.arange(60) % 3
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    x[np.arange(60), y] += 6
    return run_pool(Rows(x), SETTINGS, [i for i in range(60) if i >= 10], {})


SETTINGS = Settings("x", net="linear", learner="supervised", steps=20, strategy="margin")
NAMES = ("a", "b", "c")


def test_the_pool_knows_items_by_their_numbers(base):
    assert base.items.tolist() == list(range(10, 60))
    assert base.positions()[10] == 0
    rows = np.asarray(base.ready(base.items))
    assert rows.mean(axis=0) == pytest.approx(0, abs=1e-5)
    assert np.asarray(base.ready(np.array([3]))).shape == (1, 5)  # a check image, by the same mean and scale


@pytest.mark.parametrize(
    ("labels", "strategy"), [({}, "askless"), ({10: 0, 11: 0}, "askless"), ({10: 0, 11: 1}, "margin")]
)
def test_before_two_classes_are_known_the_collection_is_covered(base, labels, strategy):
    assert make_learner(base, SETTINGS, NAMES, labels, None).strategy.name == strategy


def test_random_stays_random(base):
    settings = Settings("x", net="linear", strategy="random")
    assert make_learner(base, settings, NAMES, {}, None).strategy.name == "random"


def test_labels_of_items_outside_the_pool_are_not_trained_on(base):
    learner = make_learner(base, SETTINGS, NAMES, {3: 0, 10: 1, 20: 2}, None)
    assert learner.labels == {0: 1, 10: 2}


def test_the_order_in_which_labels_came_does_not_matter(base):
    one = make_learner(base, SETTINGS, NAMES, {10: 1, 20: 2, 30: 0}, None)
    other = make_learner(base, SETTINGS, NAMES, {30: 0, 10: 1, 20: 2}, None)
    assert list(one.labels.items()) == list(other.labels.items())


def test_a_round_leaves_its_files_and_the_same_again(base, tmp_path):
    labels = {i: i % 3 for i in range(10, 22)}
    results, seen = [], []

    def watch(*where):
        seen.append(where)

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        learner = make_learner(base, SETTINGS, NAMES, labels, None)
        metrics = one_round.fit_round(
            learner, base, 60, np.arange(60), np.arange(10), {}, [0, 1, 2], None, tmp_path / name, watch
        )
        assert seen[-1][:2] == (20, 20)
        with np.load(tmp_path / name / "predictions.npz", allow_pickle=False) as file:
            results.append({key: file[key] for key in file.files})
        assert json.loads((tmp_path / name / "metrics.json").read_text())["labels"] == metrics["labels"] == 12
    one, two = results
    assert all((one[key] == two[key]).all() for key in one)
    assert one["probs"].shape == (60, 3)
    assert (one["held"] == np.arange(10)).all()
    assert (one["held_best"] == one["probs"][:10].argmax(axis=1)).all()
    assert sum(metrics["mix"].values()) == pytest.approx(1)


def test_check_items_set_how_sure_the_model_is_and_nothing_else(base, tmp_path):
    labels, found = {i: i % 3 for i in range(10, 22)}, {}
    for name, checks in (("none", {}), ("right", True), ("wrong", False)):
        (tmp_path / name).mkdir()
        if name != "none":
            best = found["none"]["held_best"].tolist()
            checks = {i: best[i] if checks else (best[i] + 1) % 3 for i in range(10)}
        learner = make_learner(base, SETTINGS, NAMES, labels, None)
        numbers = base, 60, np.arange(60), np.arange(10), checks, [0, 1, 2], None, tmp_path / name
        one_round.fit_round(learner, *numbers, lambda *_: None)
        with np.load(tmp_path / name / "predictions.npz", allow_pickle=False) as file:
            found[name] = {key: file[key] for key in file.files}
        found[name]["learner"] = {
            path.name: path.read_bytes() for path in (tmp_path / name / "learner").glob("*.safetensors")
        }
    none, right, wrong = found.values()
    assert none["learner"]
    assert wrong["sharpness"] < none["sharpness"] == 1 < right["sharpness"]
    assert wrong["probs"].max(axis=1).mean() < none["probs"].max(axis=1).mean() < right["probs"].max(axis=1).mean()
    for other in (right, wrong):
        assert (other["held_best"] == none["held_best"]).all()
        assert (other["held_sure"] == none["held_sure"]).all()
        assert other["learner"] == none["learner"]


def test_choosing_leaves_out_what_was_asked_without_a_label(base):
    learner = make_learner(base, SETTINGS, NAMES, {}, None)
    out = list(range(10, 50))
    picks, _ = next_batch(learner, base, 5, NAMES, trained=False, out=[3, *out])
    assert len({pick.item for pick in picks}) == 5
    assert all(50 <= pick.item < 60 for pick in picks)
    assert all(pick.reason for pick in picks)


def test_scores_that_are_not_finite_are_left_out():
    assert [finite(x) for x in (1.5, float("nan"), float("inf"))] == [1.5, None, None]


def test_pixels_become_a_pool_of_images():
    x = np.random.default_rng(0).integers(0, 255, (20, 3, 8, 8)).astype(np.uint8)
    base = run_pool(Rows(x), Settings("x", net="small-cnn", size=8), range(5, 20), {})
    assert base.pool.kind == "image"
    assert (np.asarray(base.ready(np.array([0, 7]))) == x[[0, 7]]).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_run_trains_exactly_what_an_active_learner_with_the_same_images_trains(learner, tmp_path):
    """The same weights and the same picks, from the run's files and from a pool in memory."""
    images = np.random.default_rng(0).integers(0, 255, (70, 3, 24, 24)).astype(np.uint8)
    settings = Settings("x", net="frozen:raw", size=24, learner=learner, steps=12)
    items, cache = [i for i in range(70) if i % 5], tmp_path / "cache"

    def read(item, side):
        return images[item].transpose(1, 2, 0)

    embedding.embed_images(cache, 70, settings, read, None, lambda done, total: None)
    views = embedding.view_paths(cache, settings, items)
    before = run_pool(embedding.CachedItems(cache), settings, items, views)
    first, _ = next_batch(make_learner(before, settings, NAMES, {}, None), before, 6, NAMES, trained=False, out=[])
    embedding.embed_augmented(cache, settings, items, read, None, lambda done, total: None)
    base = run_pool(embedding.CachedItems(cache), settings, items, views)
    assert (before.augmented, base.augmented) == (False, bool(views))
    labels = {item: item % 3 for item in items[::4]}
    ours = make_learner(base, settings, NAMES, labels, None)
    weak, strong = al.learn.LEARNERS[learner].embedded_views
    net = al.Frozen(backbone="raw", size=16, weak=weak, strong=strong, plain=True, cache=tmp_path / "other")
    theirs = al.ActiveLearner(
        al.data.as_pool(images[items]), net=net, learner=one_round.training(settings), classes=NAMES, seed=settings.seed
    )
    assert [pick.item for pick in first] == [items[i] for i in theirs.ask(6).indices]
    theirs.tell([items.index(item) for item in labels], list(labels.values()))
    ours.fit(), theirs.fit()
    one, other = (learner.learnt.as_network().state_dict() for learner in (ours, theirs))
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert (ours.ask(6).indices == theirs.ask(6).indices).all()
    assert (np.asarray(base.pool.x) == theirs.views.plain(torch.arange(len(items))).numpy()).all()


def test_a_strategy_that_learns_from_its_batches_goes_on_over_rounds(base, tmp_path):
    settings = Settings("x", net="linear", learner="supervised", steps=5, strategy="albl")
    labels, before, weights = {10: 1, 11: 2, 12: 0}, None, []
    for number in range(3):
        learner = make_learner(base, settings, NAMES, labels, before)
        learner.fit()
        next_batch(learner, base, 4, NAMES, True, list(labels))
        weights.append(learner.asks[-1].info["log_weights"])
        before = learner.save(tmp_path / str(number), pool=False)
        labels |= {int(base.items[i]): int(base.items[i]) % 3 for i in learner.asks[-1].indices}
    assert weights[0] == [0, 0]
    assert weights[1] != weights[0]
    assert weights[2] not in weights[:2]
    assert len(make_learner(base, settings, (*NAMES, "d"), labels, before).history) == 3  # a class came in
