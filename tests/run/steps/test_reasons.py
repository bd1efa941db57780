import re

import numpy as np
import pytest

from askless.run.steps.reasons import between, eigenvalue_gains, regions

KNOWN = (
    r"drawn at random",
    r"stands for ([2-9]|\d\d+) images like it(; the model hesitates between \w+ and \w+)?",
    r"(near other labels|covers a new region: .*); the model hesitates between \w+ and \w+",
    r"random check image",
    r"near other labels",
    r"covers a new region: typical of a group of images without a label",
    r"covers a new region: farther from every label than (5\d|[6-9]\d|100)% of the images",
    r"raises the smallest eigenvalue \(\S+ with a random image, \S+ with this\)",
    r"the model hesitates between (red|green|blue|grey) and (red|green|blue|grey)",
)


def test_the_model_hesitates_between_the_two_most_probable_classes():
    names = ["cat", "dog", "owl"]
    assert between(np.array([0.3, 0.2, 0.5]), names) == "the model hesitates between owl and cat"
    assert between(np.array([0.05, 0.05, 0.9]), names) is None
    assert between(np.array([0.65, 0.35, 0.0]), names) is None
    assert between(np.array([0.64, 0.36, 0.0]), names) == "the model hesitates between cat and dog"


def test_items_far_from_all_labels_cover_a_new_region():
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(50, 3)), rng.normal(size=(5, 3)) + 20]).astype(np.float32)
    far, near = regions(features, np.arange(3), np.array([52, 4]))
    share = int(re.fullmatch(r"covers a new region: farther from every label than (\d+)% of the images", far).group(1))
    assert share >= 90
    beside = np.argsort(np.linalg.norm(features - features[0], axis=1))[1]
    assert "new region" not in regions(features, np.arange(1), np.array([beside]))[0]
    assert near


def test_before_there_are_labels_everything_is_new():
    (text,) = regions(np.eye(4, dtype=np.float32), np.array([], np.int64), np.array([2]))
    assert text == "covers a new region: typical of a group of images without a label"


def test_the_gain_of_a_pick_is_what_it_does_to_the_smallest_eigenvalue():
    features = np.eye(6, dtype=np.float32)
    features[5] = features[0] + 0.1 * features[3]  # nearly a copy of a labelled one, which adds little
    gains = eigenvalue_gains(features, np.array([0, 1]), np.array([2, 5]), seed=0)
    rows = np.hstack([features[[0, 1, 2, 5]], np.ones((4, 1))])
    assert gains[0][1] == pytest.approx(np.linalg.eigvalsh(rows @ rows.T)[0], abs=1e-9)
    assert gains[1][0] > gains[1][1]  # a random one would be better than the copy


def test_without_others_to_compare_with_there_is_no_gain():
    assert eigenvalue_gains(np.eye(3, dtype=np.float32), np.array([0]), np.array([1, 2]), seed=0) == [(0.0, 0.0)] * 2


@pytest.mark.parametrize("strategy", ["askless", "npc", "margin", "coreset", "random"])
def test_the_reasons_of_a_run_make_sense(shapes, tmp_path, strategy):
    run = shapes.start(tmp_path / "run", strategy=strategy, learner="supervised", budget=20, batch=8)
    shapes.finish(run)
    with run.store.look() as db:
        rows = db.execute("SELECT kind, round, reason FROM task").fetchall()
    for row in rows:
        assert any(re.fullmatch(known, row["reason"]) for known in KNOWN), row["reason"]
        assert (row["reason"] == "random check image") == (row["kind"] == "check")
    texts = {row["reason"] for row in rows if row["kind"] == "train"}
    if strategy == "random":
        assert texts == {"drawn at random"}
    if strategy == "npc":
        raised = [re.findall(r"\((\S+) with a random image, (\S+) with", text) for text in texts]
        pairs = [(float(low), float(high)) for found in raised for low, high in found]
        assert pairs
        assert all(high >= low for low, high in pairs)
    run.close()
