import re

import numpy as np
import pytest

from askless.run.steps.reasons import between, count_alike, eigenvalue_gains, regions

WHERE = (
    r"(typical of ([2-9]|\d\d+) similar images|fills a gap in the batch|"
    r"(unlike anything labelled so far: )?farther from every label than [5-9]\d % of the images)"
)
KNOWN = (
    r"drawn at random",
    rf"({WHERE}; )?the model hesitates between (red|green|blue|grey) and (red|green|blue|grey)",
    WHERE,
    r"random check image",
    r"adds more variety than a random image would",
)


def test_the_model_hesitates_between_the_two_most_probable_classes():
    names = ["cat", "dog", "owl"]
    assert between(np.array([0.3, 0.2, 0.5]), names) == "the model hesitates between owl and cat"
    assert between(np.array([0.05, 0.05, 0.9]), names) is None
    assert between(np.array([0.65, 0.35, 0.0]), names) is None
    assert between(np.array([0.64, 0.36, 0.0]), names) == "the model hesitates between cat and dog"


def test_an_item_far_from_all_labels_is_unlike_them_and_the_share_is_true():
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(50, 3)), rng.normal(size=(5, 3)) + 20]).astype(np.float32)
    labelled, picks = np.arange(3), np.array([52, 4])
    gaps = np.linalg.norm(features[:, None] - features[labelled], axis=2).min(axis=1)
    share = int(100 * (gaps < gaps[52]).mean())
    far, _ = regions(features, labelled, picks)
    assert share >= 90
    assert far == f"unlike anything labelled so far: farther from every label than {share} % of the images"


def test_an_item_is_typical_of_those_that_are_nearest_to_it():
    rng = np.random.default_rng(0)
    features = np.concatenate([rng.normal(size=(30, 3)), rng.normal(size=(12, 3)) + 50]).astype(np.float32)
    assert regions(features, np.array([], np.int64), np.array([2, 33]), "text") == [
        "typical of 29 similar texts",
        "typical of 11 similar texts",
    ]
    centres = features[[2, 33, 5]]
    nearest = np.linalg.norm(features[:, None] - centres, axis=2).argmin(axis=1)
    assert count_alike(features, np.array([5]), np.array([2, 33])) == ([(nearest == 0).sum() - 1, 11], "")


def test_of_a_large_collection_only_some_are_looked_at_and_the_reason_says_about(monkeypatch):
    monkeypatch.setattr("askless.run.steps.reasons.COUNTED", 100)
    features = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    (text,) = regions(features, np.array([], np.int64), np.array([7]))
    assert text == "typical of about 1,000 similar images"


def test_an_item_that_nothing_resembles_fills_a_gap():
    features = np.array([[0.0], [1.0], [1.1], [0.9]], np.float32)
    assert regions(features, np.array([1, 2]), np.array([3]))[0] == "farther from every label than 50 % of the images"
    assert (
        regions(np.eye(4, dtype=np.float32), np.array([], np.int64), np.arange(4)) == ["fills a gap in the batch"] * 4
    )


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
        assert "adds more variety than a random image would" in texts
    run.close()
