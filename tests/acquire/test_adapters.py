"""askless' strategies in the loops of scikit-activeml and baal."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import askless as al
from askless.acquire.adapters.baal import Heuristic, probabilities
from askless.base.errors import AsklessError, InputError


def some_pool(n=40, labelled=(3, 8, 20)):
    """Features, probabilities of the unlabelled items, and a data set as baal's loop has it."""
    rng = np.random.default_rng(0)
    known = np.isin(np.arange(n), labelled)
    return rng.normal(size=(n, 5)), rng.dirichlet(np.ones(4), size=n), SimpleNamespace(labelled=known)


# --- baal ----------------------------------------------------------------------------------------------------------------


def test_ranks_are_positions_among_the_unlabelled_the_chosen_first():
    _, P, dataset = some_pool()
    pool = np.flatnonzero(~dataset.labelled)
    ranks, scores = Heuristic("margin", n=5, dataset=dataset).get_ranks(P[pool])
    theirs = al.select("margin", 5, probs=P, labelled=[3, 8, 20]).indices
    assert pool[ranks[:5]].tolist() == theirs.tolist()
    assert sorted(ranks.tolist()) == list(range(37))
    assert scores.shape == (37,)
    assert scores[ranks[:5]].min() > scores[ranks[5:]].max()


@pytest.mark.parametrize("strategy", ["askless", "badge", "coreset", "npc", "typiclust", "random"])
def test_features_are_those_of_all_items(strategy):
    F, P, dataset = some_pool()
    pool = np.flatnonzero(~dataset.labelled)
    made = Heuristic(strategy, n=6, dataset=dataset, features=lambda: F, seed=4)
    ranks = made(P[pool])
    assert len(set(ranks[:6].tolist())) == 6
    assert np.array_equal(ranks, Heuristic(strategy, n=6, dataset=dataset, features=F, seed=4)(P[pool]))
    if strategy == "coreset":
        theirs = al.select(strategy, 6, features=F, labelled=[3, 8, 20], seed=4).indices
        assert pool[ranks[:6]].tolist() == theirs.tolist()


def test_predictions_as_baal_gives_them():
    P = np.random.default_rng(0).dirichlet(np.ones(4), size=(6, 3)).transpose(0, 2, 1)  # (n, C, iterations)
    assert np.allclose(probabilities(P), P.mean(axis=2))
    assert np.allclose(probabilities(np.log(P) + 7), P.mean(axis=2))
    assert np.allclose(probabilities(part for part in (P[:2], P[2:])), P.mean(axis=2))
    with pytest.raises(InputError, match=r"expected predictions \(n, C\) or \(n, C, iterations\), got shape \(6,\)"):
        probabilities(np.ones(6))


def test_a_part_of_the_pool_is_refused():
    _, P, dataset = some_pool()
    with pytest.raises(InputError, match="predictions of the 37 unlabelled items, got 12; leave out max_sample"):
        Heuristic("margin", n=5, dataset=dataset).get_ranks(P[:12])


def test_a_strategy_with_a_memory_is_refused():
    with pytest.raises(
        InputError, match=r"albl learns from .* baal's loop does not pass on; use it in ActiveClassifier"
    ):
        Heuristic("albl", n=5, dataset=some_pool()[2])


# --- scikit-activeml -----------------------------------------------------------------------------------------------------


def test_without_scikit_activeml_the_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skactiveml.base", None)
    monkeypatch.delitem(sys.modules, "askless.acquire.adapters.scikit_activeml", raising=False)
    with pytest.raises(AsklessError, match="pip install scikit-activeml"):
        import askless.acquire.adapters.scikit_activeml  # noqa: F401


def a_problem():
    from skactiveml.classifier import SklearnClassifier
    from sklearn.datasets import make_blobs
    from sklearn.linear_model import LogisticRegression

    X, truth = make_blobs(80, centers=3, cluster_std=3, random_state=0)
    y = np.where(np.arange(80) < 9, truth, np.nan)
    return X, y, SklearnClassifier(LogisticRegression(), classes=[0, 1, 2], random_state=0).fit(X, y)


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_margin_in_scikit_activemls_loop_picks_what_theirs_picks():
    from skactiveml.pool import UncertaintySampling
    from sklearn.base import clone

    from askless.acquire.adapters.scikit_activeml import Query

    X, y, clf = a_problem()
    mine = Query("margin", random_state=0)
    theirs = UncertaintySampling("margin_sampling", random_state=0).query(X, y, clf, fit_clf=False, batch_size=7)
    picks, utilities = mine.query(X, y, clf, batch_size=7, return_utilities=True)
    assert picks.tolist() == theirs.tolist()
    assert clone(mine).query(X, y, clf, batch_size=7).tolist() == picks.tolist()
    assert utilities.shape == (7, 80)
    assert np.isnan(utilities[:, :9]).all()  # labelled
    assert np.isnan(utilities[1:, picks[0]]).all()  # taken by then
    among = np.arange(30, 60)
    assert set(mine.query(X, y, clf, candidates=among, batch_size=5)) <= set(among.tolist())
    assert mine.query(X, y, clf, candidates=X[30:60], batch_size=5).max() < 30
    with pytest.raises(ValueError, match="needs probs"):
        mine.query(X, y, batch_size=5)


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("strategy", ["askless", "badge", "coreset", "npc", "typiclust", "random", "egl"])
def test_strategies_in_scikit_activemls_loop(strategy):
    from askless.acquire.adapters.scikit_activeml import Query

    X, y, clf = a_problem()
    picks = Query(strategy, random_state=1).query(X, y, clf, batch_size=6)
    assert len(set(picks.tolist())) == 6
    assert np.isnan(y[picks]).all()
    assert np.array_equal(picks, Query(strategy, random_state=1).query(X, y, clf, batch_size=6))


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_a_strategy_with_a_memory_is_refused_in_scikit_activemls_loop():
    from askless.acquire.adapters.scikit_activeml import Query

    X, y, clf = a_problem()
    with pytest.raises(InputError, match=r"albl learns from .* scikit-activeml's loop does not pass on"):
        Query("albl", random_state=0).query(X, y, clf, batch_size=6)


@pytest.mark.ecosystem
@pytest.mark.filterwarnings("default")
def test_labels_are_numbered_as_the_columns_of_the_classifier():
    from skactiveml.classifier import SklearnClassifier
    from sklearn.linear_model import LogisticRegression

    from askless.acquire.adapters.scikit_activeml import Query

    class Spy:
        name, needs = "spy", ("probs", "labels")

        def select(self, view, n, rng):
            seen.append((view.labels.tolist(), view.probs.shape[1]))
            return al.Selection(view.unlabelled[:n])

    seen = []
    X = np.random.default_rng(0).normal(size=(20, 2))
    for classes, missing in ((np.array([0.0, 1.0, 2.0]), np.nan), (np.array(["ant", "bee", "cat"], object), None)):
        y = np.full(20, missing, dtype=classes.dtype)
        y[:4] = classes[[2, 0, 2, 0]]
        clf = SklearnClassifier(LogisticRegression(), classes=classes.tolist(), missing_label=missing).fit(X, y)
        Query(Spy(), missing_label=missing, random_state=0).query(X, y, clf, batch_size=2)
        other = np.where(np.arange(20) == 5, "dog" if missing is None else 7.0, y)
        with pytest.raises(InputError, match=r"expected labels of clf's classes, .*; fit clf on this y"):
            Query(Spy(), missing_label=missing, random_state=0).query(X, other, clf, batch_size=2)
    assert seen == [([2, 0, 2, 0], 3)] * 2
    y = np.where(np.arange(20) < 4, [1.0, 5.0] * 10, np.nan)
    for unfitted in (None, SklearnClassifier(LogisticRegression())):
        assert len(Query("coreset", random_state=0).query(X, y, unfitted, batch_size=2)) == 2
