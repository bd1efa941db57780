"""DropQuery against the paper's steps, written out."""

import numpy as np
import pytest
from scipy.special import softmax

import askless as al
from askless.acquire.dropquery import changed
from askless.acquire.head import linear_head


def pool(N=300, d=8, C=3, seed=0):
    rng = np.random.default_rng(seed)
    z, W, b = rng.normal(size=(N, d)), rng.normal(size=(d, C)), rng.normal(size=C)
    return z, z @ W + b, W, b


def test_passes_are_dropout_on_the_features_before_the_head():
    z, f, W, b = pool()
    head = linear_head(z, f, np.random.default_rng(0))
    ours = changed(z, f.argmax(axis=1), head, 5, 0.5, np.random.default_rng(1))
    kept = np.random.default_rng(1).random((300, 5, 8), dtype=np.float32) >= 0.5
    expected = np.zeros(300)
    for i in range(300):
        for m in range(5):
            expected[i] += (kept[i, m] * z[i] / 0.5 @ W + b).argmax() != f[i].argmax()
    np.testing.assert_allclose(ours, expected / 5)


def test_nothing_changes_where_nothing_is_dropped():
    z, f, _, _ = pool()
    picks = al.select(al.DropQuery(drop=0.0), 5, features=z, logits=f)
    assert picks.info["candidates"] == 0
    assert picks.scores.tolist() == [0] * 5


def test_candidates_change_in_more_than_rho_of_the_passes():
    z, f, _, _ = pool()
    by_rho = [
        al.select(al.DropQuery(passes=4, rho=rho), 3, features=z, logits=f) for rho in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    counts = [picks.info["candidates"] for picks in by_rho]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    for picks, rho in zip(by_rho[:-1], (0.0, 0.25, 0.5, 0.75), strict=True):
        assert (picks.scores > rho).all()


def by_pass(changes, passes=4):
    """Probabilities (N, passes, 2) of items that are class 0 but for their first so many passes."""
    other = np.arange(passes) < np.array(changes)[:, None]
    return np.stack([~other, other], axis=2).astype(float)


def test_the_candidate_nearest_to_each_centre_is_picked():
    angles = np.array([0.0, 0.1, 0.3, 2.0, 2.1, 2.3, 1.0])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.arange(1, 8)[:, None]
    P = by_pass([4, 4, 4, 3, 3, 3, 2])  # the last one changes in half of the passes: not more
    given = {"features": x, "probs": np.tile([1.0, 0.0], (7, 1)), "probs_by_pass": P}
    picks = al.select(al.DropQuery(by="passes"), 2, **given)
    assert sorted(picks.indices) == [1, 4]
    assert picks.info["candidates"] == 6
    assert sorted(picks.scores) == [0.75, 1.0]


def test_fewer_candidates_than_picks_are_joined_by_those_with_the_most_changes():
    P = by_pass([0, 1, 4, 2, 0, 1, 3])
    given = {"features": pool(N=7)[0], "probs": np.tile([1.0, 0.0], (7, 1)), "probs_by_pass": P}
    assert sorted(al.select(al.DropQuery(by="passes"), 3, **given).indices) == [2, 3, 6]
    assert sorted(al.select(al.DropQuery(by="passes"), 5, **given).indices) == [1, 2, 3, 5, 6]


def test_clusters_of_candidates_get_a_pick_each():
    rng = np.random.default_rng(0)
    where = np.repeat(np.arange(6), 50)
    x = 20 * np.eye(6)[where] + rng.normal(size=(300, 6))
    P = softmax(rng.normal(size=(300, 9, 3)), axis=2)
    picks = al.select(al.DropQuery(by="passes"), 6, features=x, probs=P.mean(axis=1), probs_by_pass=P)
    assert sorted(where[picks.indices]) == list(range(6))


def test_a_head_that_is_not_linear_is_said():
    z, f, _, _ = pool()
    assert "not linear" in al.select("dropquery", 3, features=z, logits=np.sin(f)).info["note"]
    assert "note" not in al.select("dropquery", 3, features=z, logits=f).info


def test_copies_of_a_candidate_are_picked_once_each():
    z, f, _, _ = pool(N=20)
    picks = al.select(al.DropQuery(rho=0.0), 60, features=np.repeat(z, 4, axis=0), logits=np.repeat(f, 4, axis=0))
    assert len(set(picks.indices)) == 60


@pytest.mark.parametrize("strategy", [al.DropQuery(), al.DropQuery(by="passes")])
def test_a_few_rows_at_a_time_give_the_same_picks(strategy):
    z, f, _, _ = pool(N=500)
    P = softmax(f[:, None] + np.random.default_rng(0).normal(size=(500, 5, 3)), axis=2)
    given = {"features": z, "logits": f, "probs": softmax(f, axis=1), "probs_by_pass": P}
    plenty, scarce = (al.select(strategy, 30, max_memory=m, **given) for m in (2**28, 5000))
    assert plenty.indices.tolist() == scarce.indices.tolist()
    np.testing.assert_array_equal(plenty.scores, scarce.scores)
