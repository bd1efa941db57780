"""Uncertainty Herding against all kernel values written out."""

import numpy as np
import pytest
from scipy.special import softmax

import askless as al
from askless.acquire.uherding import calibrated, calibration_error, tempered


def pool(N=300, d=5, k=4, seed=0):
    """Features, logits and labels of k groups."""
    rng = np.random.default_rng(seed)
    y = rng.integers(k, size=N)
    return 3 * rng.normal(size=(k, d))[y] + rng.normal(size=(N, d)), 2 * np.eye(k)[y] + 2 * rng.normal(size=(N, k)), y


def distances(x):
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.linalg.norm(x[:, None] - x[None], axis=2)


def test_each_pick_adds_most_uncertainty_coverage():
    x, f, y = pool()
    labelled = np.arange(0, 300, 30)
    picks = al.select("uherding", 25, features=x, logits=f, labelled=labelled, labels=y[labelled])
    apart = distances(x)
    of_labelled = apart[np.ix_(labelled, labelled)] + np.diag(np.full(10, np.inf))
    sigma, T = picks.info["lengthscale"], picks.info["temperature"]
    assert sigma == pytest.approx(of_labelled.min(), rel=1e-4)
    two = np.sort(softmax(f / T, axis=1), axis=1)[:, -2:]
    w = 1 - (two[:, 1] - two[:, 0])
    w, K = w / w.sum(), np.exp(-((apart / sigma) ** 2))
    best, free = K[:, labelled].max(axis=1), np.setdiff1d(np.arange(300), labelled)
    for pick, score in zip(picks.indices, picks.scores, strict=True):
        gain = w @ np.maximum(K - best[:, None], 0)
        assert score == pytest.approx(gain[pick], abs=2e-6 / sigma**2)
        assert gain[pick] >= gain[free].max() - 2e-6 / sigma**2
        best, free = np.maximum(best, K[:, pick]), free[free != pick]


def test_the_temperature_is_that_of_the_least_calibration_error():
    rng = np.random.default_rng(0)
    f = 3 * rng.normal(size=(4000, 3))
    y = np.array([rng.choice(3, p=p) for p in softmax(f / 4, axis=1)])
    assert calibrated(softmax(f, axis=1), y) == pytest.approx(4, abs=0.5)
    errors = [calibration_error(softmax(f / T, axis=1), y) for T in np.arange(1, 20, 0.1)]
    assert calibrated(softmax(f, axis=1), y) == pytest.approx(1 + 0.1 * np.argmin(errors))


def test_a_model_that_fits_its_labels_stays_as_it_is():
    f = 5 * np.eye(3)[[0, 1, 2, 0]]
    assert calibrated(softmax(f, axis=1), np.array([0, 1, 2, 0])) == 1


def test_tempering_is_softmax_of_the_divided_logits():
    f = np.random.default_rng(0).normal(size=(20, 4)) * 5
    for T in (0.1, 1.0, 7.0):
        np.testing.assert_allclose(tempered(softmax(f, axis=1), T), softmax(f / T, axis=1), atol=1e-12)
    assert tempered(np.array([[0.2, 0.8]]), 0).tolist() == [[0, 1]]


@pytest.mark.parametrize("given", [{}, {"probs": np.full((300, 4), 0.25)}])
def test_without_labels_it_is_maxherding(given):
    x, _, _ = pool()
    ours, plain = al.select("uherding", 15, features=x, **given), al.select("maxherding", 15, features=x)
    assert ours.indices.tolist() == plain.indices.tolist()
    assert ours.info["lengthscale"] == ours.info["temperature"] == 1


def test_the_unsure_of_two_equal_groups_is_asked_first():
    angles = np.array([0.0, 0.01, 0.02, 2.0, 2.01, 2.02, 4.0])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    probs = np.array([[0.99, 0.01]] * 3 + [[0.6, 0.4]] * 3 + [[0.5, 0.5]])
    given = {"features": x, "probs": probs, "labelled": [6], "labels": [0]}
    assert al.select(al.UHerding(temperature=1), 1, **given).indices.tolist() == [4]


def test_copies_among_the_labelled_do_not_shrink_the_lengthscale():
    x, _, _ = pool(N=40)
    x = np.vstack([x, x[:2]])
    with_copies = al.select("uherding", 3, features=x, labelled=[0, 1, 40, 41])
    assert with_copies.info["lengthscale"] == pytest.approx(distances(x)[0, 1], rel=1e-4)
    assert al.select("uherding", 3, features=x, labelled=[0, 40]).info["lengthscale"] == 1


def test_a_model_that_is_certain_of_all_leaves_coverage():
    x, _, _ = pool()
    given = {"features": x, "labelled": [0, 1], "labels": [0, 1]}
    sure = al.select(al.UHerding(lengthscale=1.0), 9, probs=np.eye(2)[np.arange(300) % 2], **given)
    assert sure.indices.tolist() == al.select("maxherding", 9, **given).indices.tolist()


def test_a_few_rows_at_a_time_give_the_same_picks():
    x, f, y = pool(N=500)
    given = {"features": x, "logits": f, "labelled": np.arange(9), "labels": y[:9]}
    plenty, scarce = (al.select("uherding", 30, max_memory=m, **given) for m in (2**28, 20_000))
    assert plenty.indices.tolist() == scarce.indices.tolist()
