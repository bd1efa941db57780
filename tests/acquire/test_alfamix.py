"""ALFA-Mix against the paper's formula, mixed anchor by anchor."""

import numpy as np
import pytest
from scipy.special import softmax

import askless as al
from askless.acquire.alfamix import flips_at


def pool(N=300, d=6, C=4, seed=0, sharp=1.0):
    rng = np.random.default_rng(seed)
    z, W, b = rng.normal(size=(N, d)) + 1, sharp * rng.normal(size=(d, C)), rng.normal(size=C)
    return z, z @ W + b, W, b


def flipped(z, W, b, anchors, eps):
    """Which items flip for some anchor: alpha element by element (Eq. 5), the mix, and the head."""
    f = z @ W + b
    predicted = f.argmax(axis=1)
    u = np.where(np.eye(W.shape[1], dtype=bool)[predicted], 0.0, softmax(f, axis=1))
    u[np.arange(len(z)), predicted] = -u.sum(axis=1)  # p - 1, without its rounding to 0 where p is close to 1
    g = u @ W.T
    out = np.zeros(len(z), dtype=bool)
    for anchor in anchors:
        way = anchor - z
        alpha = eps * np.linalg.norm(way, axis=1, keepdims=True) * g / (np.linalg.norm(g, axis=1, keepdims=True) * way)
        mixed = alpha * anchor + (1 - alpha) * z
        out |= (mixed @ W + b).argmax(axis=1) != predicted
    return out


@pytest.mark.parametrize("cap", [0.2, 0.5, 2.0])
@pytest.mark.parametrize("sharp", [1.0, 5.0])
def test_candidates_are_those_that_flip_when_mixed(cap, sharp):
    z, f, W, b = pool(sharp=sharp)
    labelled, labels = np.arange(20), np.arange(20) % 3
    anchors = [z[labelled[labels == c]].mean(axis=0) for c in range(3)]
    expected = flipped(z, W, b, anchors, cap / np.sqrt(6))
    expected[labelled] = False
    given = {"features": z, "logits": f, "labelled": labelled, "labels": labels}
    count = int(expected.sum())
    assert count > 3
    picks = al.select(al.ALFAMix(cap=cap), count, **given)  # as many as there are: all of them
    assert picks.info["candidates"] == count
    assert picks.info["anchors"] == 3
    assert sorted(picks.indices) == np.flatnonzero(expected).tolist()
    assert set(al.select(al.ALFAMix(cap=cap), 3, **given).indices) <= set(np.flatnonzero(expected))


def test_the_step_to_a_flip_is_where_the_head_changes_its_mind():
    z, f, W, b = pool()
    predicted = f.argmax(axis=1)
    g = (softmax(f, axis=1) - np.eye(4)[predicted]) @ W.T
    way = g / np.linalg.norm(g, axis=1, keepdims=True)
    t = flips_at(f, W.T @ W)[:, None]
    assert (((z + 0.999 * t * way) @ W + b).argmax(axis=1) == predicted).all()
    assert (((z + 1.001 * t * way) @ W + b).argmax(axis=1) != predicted).all()


def test_a_confident_row_keeps_its_digits():
    f = np.array([[2000.0, 0.0, -3.0], [20.0, 0.0, -3.0]])
    assert flips_at(f, np.eye(3))[0] == pytest.approx(100 * flips_at(f, np.eye(3))[1])


def test_a_head_that_moves_nothing_never_flips():
    assert flips_at(np.array([[1.0, 0.0]]), np.zeros((2, 2))).tolist() == [np.inf]
    assert flips_at(np.array([[1.0]]), np.eye(1)).tolist() == [np.inf]


def test_too_few_candidates_are_joined_by_those_that_flip_next():
    z, f, _, _ = pool()
    given = {"features": z, "logits": f, "labelled": np.arange(9), "labels": np.arange(9) % 3}
    none, all_of_them = al.select(al.ALFAMix(cap=0), 25, **given), al.select(al.ALFAMix(cap=0), 291, **given)
    assert none.info["candidates"] == 0
    assert sorted(none.scores) == sorted(all_of_them.scores)[-25:]


def test_clusters_of_candidates_get_a_pick_each():
    rng = np.random.default_rng(0)
    where = np.repeat(np.arange(6), 50)
    z = 20 * np.eye(6)[where] + rng.normal(size=(300, 6))
    given = {"features": z, "logits": z @ rng.normal(size=(6, 3)), "labelled": np.arange(3), "labels": np.arange(3)}
    assert sorted(where[al.select(al.ALFAMix(cap=100.0), 6, **given).indices]) == list(range(6))


def test_without_labels_the_mean_of_all_is_the_anchor():
    z, f, W, b = pool()
    expected = flipped(z, W, b, [z.mean(axis=0)], 0.2 / np.sqrt(6))
    assert al.select("alfamix", 3, features=z, logits=f).info["candidates"] == expected.sum()


def test_a_head_that_is_not_linear_is_said():
    z, f, _, _ = pool()
    assert "not linear" in al.select("alfamix", 3, features=z, logits=np.sin(f)).info["note"]
    assert "note" not in al.select("alfamix", 3, features=z, logits=f).info


@pytest.mark.parametrize("scale", [2.0**-400, 2.0**400])
def test_the_unit_of_the_features_does_not_matter(scale):
    z, f, _, _ = pool()
    given = {"logits": f, "labelled": np.arange(9), "labels": np.arange(9) % 3}
    plain, scaled = (al.select("alfamix", 9, features=x, **given) for x in (z, z * scale))
    assert plain.indices.tolist() == scaled.indices.tolist()


def test_a_few_rows_at_a_time_give_the_same_picks():
    z, f, _, _ = pool(N=500)
    given = {"features": z, "logits": f, "labelled": np.arange(9), "labels": np.arange(9) % 3}
    plenty, scarce = (al.select("alfamix", 30, max_memory=m, **given) for m in (2**28, 5000))
    assert plenty.indices.tolist() == scarce.indices.tolist()
