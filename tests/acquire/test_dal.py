import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import askless as al
from askless.acquire.dal import mlp


def groups(N=300, seed=0):
    """Three groups of one size, far apart; the first is labelled."""
    rng = np.random.default_rng(seed)
    where = np.arange(N) % 3
    return 6 * np.eye(8)[where] + rng.normal(size=(N, 8)), where


@pytest.mark.parametrize("classifier", ["mlp", "logistic"])
def test_it_asks_for_what_does_not_look_labelled(classifier):
    x, where = groups()
    labelled = np.flatnonzero(where == 0)[:30]
    picks = al.select(
        al.DAL(classifier=classifier, sub_batches=4, epochs=40, width=32), 20, features=x, labelled=labelled
    )
    assert set(where[picks.indices]) == {1, 2}
    assert picks.info["parts"] == 4


def test_parts_keep_a_batch_from_piling_up_in_one_place():
    x, where = groups()
    x[where == 2] *= 2.5  # further out than the others: what a single classifier is surest of
    labelled = np.flatnonzero(where == 0)[:30]
    once, often = (
        al.select(al.DAL(classifier="logistic", sub_batches=k), 20, features=x, labelled=labelled).indices
        for k in (1, 20)
    )
    share = [(where[at] == 1).mean() for at in (once, often)]
    assert share[0] < 0.1  # 0 in sixty draws
    assert share[1] > 0.1  # at least .2


def test_by_logistic_regression_written_out():
    x, where = groups()
    labelled = list(np.flatnonzero(where == 0)[:20])
    picks = al.select(al.DAL(classifier="logistic", sub_batches=6), 6, features=x, labelled=labelled)
    rows = (x - x.mean(axis=0)) / (x - x.mean(axis=0)).std()
    known = list(labelled)
    for pick, score in zip(picks.indices, picks.scores, strict=True):
        y = np.ones(len(x), dtype=int)
        y[known] = 0
        model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(rows, y)
        odds = model.decision_function(rows)
        odds[known] = -np.inf
        assert odds.argmax() == pick
        assert score == pytest.approx(odds.max(), rel=1e-3)
        known.append(pick)


def test_the_network_learns_what_no_line_could():
    """Labelled items in the middle, unlabelled ones all around."""
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 2 * np.pi, 400), np.where(np.arange(400) < 100, 0.3, 1.0)
    rows = torch.from_numpy(np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)).float()
    score = mlp(rows, torch.arange(400) >= 100, 64, 100, seed=0)(rows)
    assert score[100:].min() > score[:100].max()


def test_without_labels_the_first_part_is_random():
    x, _ = groups()
    picks = al.select(al.DAL(epochs=20, width=32), 20, features=x)
    assert np.isinf(picks.scores[:2]).all()
    assert np.isfinite(picks.scores[2:]).all()
    assert al.select(al.DAL(epochs=20, width=32), 20, features=x, seed=1).indices[0] != picks.indices[0]


def test_it_leaves_the_global_generators_alone():
    x, _ = groups(60)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    al.select(al.DAL(epochs=5), 6, features=x, labelled=[0, 3])
    assert torch.equal(before, torch.get_rng_state())
    assert (np.random.get_state()[1] == numpy_before).all()  # noqa: NPY002


def test_it_works_where_gradients_are_off():
    x, _ = groups(60)
    plain = al.select(al.DAL(epochs=5), 6, features=x, labelled=[0, 3]).indices
    with torch.no_grad():
        assert (al.select(al.DAL(epochs=5), 6, features=x, labelled=[0, 3]).indices == plain).all()


def test_a_wrong_option_is_named():
    with pytest.raises(al.OptionError, match="classifier must be one of mlp, logistic"):
        al.DAL(classifier="svm")
