"""DCoM against all distances written out."""

import numpy as np
import pytest
from scipy.special import softmax

import askless as al
from askless.acquire.clusters import Centred
from askless.acquire.dcom import competence, pure_radii


def blobs(N=200, d=4, k=3, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    where = rng.integers(k, size=N)
    x = spread * rng.normal(size=(k, d))[where] + rng.normal(size=(N, d))
    return x, where, softmax(3 * np.eye(k)[where] + 1.5 * rng.normal(size=(N, k)), axis=1)


def distances(x):
    return np.linalg.norm(x[:, None] - x[None], axis=2)


def written_out(x, p, labelled, labels, n, delta, most=1.5, a=0.8, k=50.0):
    """Picks, scores, radii and competence, from (N, N) distances."""
    D, predicted = distances(x), p.argmax(axis=1)
    agree = 0.4 + 0.2 * (D[labelled] <= delta).any(axis=0).mean()
    radii = []
    for centre, label in zip(labelled, labels, strict=True):
        grid = np.append(np.sort(D[centre]) * (1 - 1e-4), most * delta)
        ok = [r for r in grid if r <= most * delta and (predicted[D[centre] <= r] == label).mean() >= agree]
        radii.append(max(ok))
    covered = (D[labelled] <= np.array(radii)[:, None]).any(axis=0)
    S = (1 + np.exp(-k * (1 - a))) / (1 + np.exp(-k * (covered.mean() - a)))
    top2 = np.sort(p, axis=1)[:, -2:]
    m = top2[:, 1] - top2[:, 0]
    mean = np.mean(radii)
    unsure, ball = (m.max() - m) / (m.max() - m.min()), mean >= D
    free, picks, scores = np.setdiff1d(np.arange(len(x)), labelled), [], []
    for _ in range(n):
        density = (ball & ~covered).sum(axis=1)
        score = S * unsure[free] / unsure[free].max() + (1 - S) * density[free] / max(1, density[free].max())
        picks.append(free[score.argmax()])
        scores.append(score.max())
        covered |= ball[picks[-1]]
        free = free[free != picks[-1]]
    return picks, scores, radii, S


@pytest.mark.parametrize("delta", [0.8, 1.5, 3.0])
@pytest.mark.parametrize("a", [0.2, 0.8])
def test_density_and_margin_are_mixed_by_competence(delta, a):
    x, where, p = blobs()
    labelled = np.array([3, 50, 77, 120, 150, 180])
    strategy = al.DCoM(delta=delta, centre=a, slope=10.0, normalize=False)
    picks = al.select(strategy, 10, features=x, probs=p, labelled=labelled, labels=where[labelled])
    expected, scores, radii, S = written_out(x, p, labelled, where[labelled], 10, delta, a=a, k=10.0)
    assert picks.info["competence"] == pytest.approx(S, rel=1e-6)
    assert picks.info["delta"] == pytest.approx(np.mean(radii), rel=1e-4)
    np.testing.assert_allclose(picks.scores, scores, rtol=1e-6)
    assert picks.indices.tolist() == expected


def test_radii_by_hand():
    # On a line around 0, the model's word from near to far: yes, yes, no, yes, no, no (label 1 is yes).
    x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0]])
    predicted = np.array([1, 1, 1, 0, 1, 0, 0])  # shares within 0..6: 1, 1, 1, 3/4, 4/5, 4/6, 4/7

    def radius(agree, most=100.0, label=1):
        args = np.array([0]), np.array([label]), np.arange(7), predicted, agree, most, 2**28
        return pure_radii(Centred(x, False, 2**28), *args)[0]

    assert radius(1.0) == pytest.approx(3, rel=2e-4)
    assert radius(0.8) == pytest.approx(5, rel=2e-4)
    assert radius(0.75) == pytest.approx(5, rel=2e-4)
    assert radius(0.6) == pytest.approx(6, rel=2e-4)
    assert radius(0.5) == 100
    assert radius(0.5, most=2.5) == 2.5
    assert radius(0.5, label=0) == 0  # the model gives the item itself another label


def test_a_few_rows_at_a_time_give_the_same_picks():
    x, where, p = blobs(N=400)
    labelled = np.arange(0, 40, 2)
    args = {"features": x, "probs": p, "labelled": labelled, "labels": where[labelled]}
    strategy = al.DCoM(delta=0.3)
    few, all_at_once = (al.select(strategy, 15, max_memory=m, **args) for m in (20_000, 2**28))
    assert few.indices.tolist() == all_at_once.indices.tolist()


def test_without_a_model_it_is_probcover():
    x, _, p = blobs()
    ours, theirs = (al.select(s, 12, features=x, classes=3) for s in ("dcom", "probcover"))
    degrees = ours.scores * theirs.scores  # each is divided by the largest degree: all scores are 1
    assert degrees.tolist() == theirs.scores.tolist()
    assert ours.info["competence"] == 0
    assert ours.info["covered"] == theirs.info["covered"]
    no_labels = al.select("dcom", 12, features=x, probs=p, classes=3)
    assert no_labels.indices.tolist() == ours.indices.tolist()


def test_once_all_is_covered_it_is_margin():
    x, where, p = blobs()
    labelled = np.arange(100)
    args = {"probs": p, "labelled": labelled, "labels": where[labelled]}
    picks = al.select(al.DCoM(delta=50.0, normalize=False), 10, features=x, **args)
    assert picks.info["competence"] > 0.99
    assert picks.indices.tolist() == al.select("margin", 10, **args).indices.tolist()


def test_competence_rises_with_coverage():
    values = [competence(c, 0.8, 50.0) for c in np.linspace(0, 1, 21)]
    assert values == sorted(values)
    assert values[-1] == 1
    assert competence(0.0, 1.0, 1e9) < 1e-300


def test_it_says_where_classes_are_not_known():
    x, _, _ = blobs()
    assert "unknown, so 10 is assumed" in al.select("dcom", 3, features=x).info["note"]
