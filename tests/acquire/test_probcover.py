"""ProbCover against all distances written out."""

import numpy as np
import pytest

import askless as al
from askless.acquire.clusters import Centred, cluster_of_each
from askless.acquire.probcover import pure_radius


def blobs(N=300, d=5, k=6, seed=0, spread=4.0):
    rng = np.random.default_rng(seed)
    where = rng.integers(k, size=N)
    return spread * rng.normal(size=(k, d))[where] + rng.normal(size=(N, d)), where


def distances(x, normalize):
    x = x / np.linalg.norm(x, axis=1, keepdims=True) if normalize else x
    return np.linalg.norm(x[:, None] - x[None], axis=2)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("labelled", [[], [3, 50, 120]])
def test_each_pick_covers_most_of_what_is_left(normalize, labelled):
    x, _ = blobs()
    delta = 0.3 if normalize else 2.5
    picks = al.select(al.ProbCover(delta=delta, normalize=normalize), 25, features=x, labelled=labelled)
    edge = distances(x, normalize) <= delta
    covered = edge[labelled].any(axis=0) if labelled else np.zeros(len(x), dtype=bool)
    free = np.setdiff1d(np.arange(len(x)), labelled)
    for pick, score in zip(picks.indices, picks.scores, strict=True):
        degree = (edge & ~covered).sum(axis=1)
        assert score == degree[pick] == degree[free].max()
        covered |= edge[pick]
        free = free[free != pick]
    assert picks.info["covered"] == pytest.approx(covered.mean())


def test_a_few_rows_at_a_time_give_the_same_picks():
    x, _ = blobs(N=500)
    strategy = al.ProbCover(delta=0.3)
    assert (
        al.select(strategy, 30, features=x).indices.tolist()
        == al.select(strategy, 30, features=x, max_memory=20_000).indices.tolist()
    )


def test_the_radius_is_the_largest_that_is_pure_enough():
    x, _ = blobs(N=400, spread=1.5)
    cluster, d = cluster_of_each(Centred(x, True, 2**28), 6, 0), distances(x, True)
    for alpha in (0.5, 0.9, 0.95, 1.0):
        delta = pure_radius(Centred(x, True, 2**28), cluster, alpha, np.random.default_rng(0), 2**28)
        purity, beyond = (
            1 - ((d <= radius) & (cluster[:, None] != cluster)).any(axis=1).mean() for radius in (delta, 1.001 * delta)
        )
        assert purity >= alpha > beyond


def test_clusters_far_apart_get_a_pick_each():
    x, where = blobs(N=600, k=8, d=16, spread=20.0)
    picks = al.select(al.ProbCover(classes=8), 8, features=x, seed=1)
    assert len(set(where[picks.indices])) == 8
    assert picks.info["covered"] > 0.9


def test_there_are_as_many_clusters_as_classes_are_known():
    x, where = blobs(N=600, k=4, d=16, spread=3.0)
    probs = np.full((600, 4), 0.25)

    def delta(strategy="probcover", **known):
        return al.select(strategy, 3, features=x, **known).info["delta"]

    four, ten = delta(al.ProbCover(classes=4)), delta(al.ProbCover(classes=10))
    assert four > 1.5 * ten
    assert delta(classes=4) == delta(probs=probs) == delta(logits=probs) == four
    some = np.concatenate([np.flatnonzero(where == k)[:3] for k in range(4)])
    assert delta(labelled=some, labels=where[some]) == four
    assert delta(al.ProbCover(classes=10), probs=probs) == delta() == ten
    assert "unknown, so 10 is assumed" in al.select("probcover", 3, features=x).info["note"]
    assert "note" not in al.select("probcover", 3, features=x, classes=4).info
    with pytest.raises(al.InputError, match=r"classes must be a whole number >= 1, got 2\.5"):
        al.select("probcover", 3, features=x, classes=2.5)


def test_loops_tell_how_many_classes_there_are():
    x, where = blobs(N=600, k=4, d=16, spread=3.0)
    options = {"net": "linear", "learner": al.Supervised(steps=2), "classes": 4}
    asks = [
        al.ActiveLearner(x.astype(np.float32), strategy=strategy, **options).ask(3)
        for strategy in ("probcover", al.ProbCover(classes=4))
    ]
    assert asks[0].info["delta"] == asks[1].info["delta"]
    labelled = np.concatenate([np.flatnonzero(where == c)[:3] for c in range(4)])
    y = np.full(600, -1)
    y[labelled] = where[labelled]
    model = al.ActiveClassifier(strategy="probcover").fit(x, y)
    by_four = al.ActiveClassifier(strategy=al.ProbCover(classes=4)).fit(x, y)
    assert model.ask(3).info["delta"] == by_four.ask(3).info["delta"]
    assert "unknown, so 10 is assumed" in model.fit(x, np.full(600, -1)).ask(3).info["note"]


@pytest.mark.parametrize("scale", [2.0**-400, 2.0**-100, 2.0**60, 2.0**480])
def test_features_that_float32_cannot_square_are_covered_alike(scale):
    x = blobs()[0].astype(np.float64)
    for delta in (None, 2.5):
        plain = al.select(al.ProbCover(delta=delta, normalize=False), 25, features=x)
        strategy = al.ProbCover(delta=delta and delta * scale, normalize=False)
        scaled = al.select(strategy, 25, features=x * scale)
        assert scaled.indices.tolist() == plain.indices.tolist()
        assert scaled.scores.tolist() == plain.scores.tolist()
        assert scaled.info["delta"] == pytest.approx(plain.info["delta"] * scale, rel=1e-4)


def test_a_radius_too_large_to_be_squared_covers_all():
    assert al.select(al.ProbCover(delta=1e200), 3, features=blobs()[0]).info["covered"] == 1


def test_once_all_is_covered_it_says_so():
    x, _ = blobs(N=40)
    picks = al.select(al.ProbCover(delta=2.0), 5, features=x)
    assert picks.scores.tolist() == [40, 0, 0, 0, 0]
    assert "the last 4 picks are random" in picks.info["note"]


def test_copies_are_covered_together():
    x, _ = blobs(N=60)
    picks = al.select(al.ProbCover(delta=0.0), 60, features=np.repeat(x, 3, axis=0).astype(np.float32))
    assert len(set(picks.indices // 3)) == 60
    assert (picks.scores == 3).all()


def test_in_large_pools_drawn_targets_are_covered():
    x, where = blobs(N=5000, k=8, d=16, spread=20.0)
    picks = al.select(al.ProbCover(classes=8, targets=500), 8, features=x)
    assert len(set(where[picks.indices])) == 8
    assert picks.scores.sum() <= 500
    lonely = np.vstack([x[:200], 100 * np.eye(16)[:3]])
    alone = al.select(al.ProbCover(delta=0.01, targets=100, normalize=False), 20, features=lonely)
    assert alone.scores.max() == 0, "a target that is alone must not count for the others it was drawn for"


def test_a_wrong_option_is_named():
    with pytest.raises(al.InputError, match="alpha must be a number from 0 to 1"):
        al.ProbCover(alpha=1.5)
    with pytest.raises(al.InputError, match="delta must be a number >= 0"):
        al.ProbCover(delta=-1.0)
