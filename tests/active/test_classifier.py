"""ActiveClassifier is a classifier as scikit-learn means it, and asks for labels as askless does."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import askless as al
from askless.acquire import STRATEGIES
from askless.active.classifier import is_unlabelled
from askless.base.errors import InputError

FEW = al.Supervised(steps=40, batch=16, lr=0.1)


def blobs(n=120, labels=12, seed=0):
    """Three heaps of which a few items have a label: X, the true classes, y with -1."""
    X, truth = make_blobs(n, centers=3, n_features=4, random_state=seed)
    y = np.full(n, -1)
    y[:labels] = truth[:labels]
    return X, truth, y


# --- scikit-learn's own checks ----------------------------------------------------------------------------------------

NOT_A_CLASS = {"check_classifiers_classes": "it fits classes -1 and 1, and -1 means unlabelled here"}


@parametrize_with_checks(
    [al.ActiveClassifier(), al.ActiveClassifier(LogisticRegression())], expected_failed_checks=lambda made: NOT_A_CLASS
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@parametrize_with_checks([al.ActiveClassifier(unlabelled=-99)])
def test_with_another_mark_no_check_is_expected_to_fail(estimator, check):
    if getattr(check, "func", check).__name__ == "check_classifiers_classes":
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [al.ActiveClassifier(al.Supervised(steps=100, lr=0.1)), al.ActiveClassifier(al.FixMatch(steps=100, lr=0.1))],
    expected_failed_checks=lambda made: NOT_A_CLASS,
)
def test_scikit_learns_checks_of_trained_heads(estimator, check):
    check(estimator)


# --- learning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator", [None, FEW, al.FixMatch(steps=40, batch=16, lr=0.1), LogisticRegression()], ids=str
)
def test_few_labels_are_enough_on_heaps(estimator):
    X, truth, y = blobs()
    model = al.ActiveClassifier(estimator).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.labelled_.tolist() == list(range(12))
    assert model.score(X, truth) > 0.95
    P = model.predict_proba(X)
    assert np.allclose(P.sum(axis=1), 1)
    assert (model.classes_[P.argmax(axis=1)] == model.predict(X)).all()


def test_unlabelled_rows_teach_by_default():
    X, truth = make_moons(400, noise=0.06, random_state=0)
    y = np.full(400, -1)
    for c in (0, 1):
        y[np.flatnonzero(truth == c)[:3]] = c
    alone = y >= 0
    assert al.ActiveClassifier().fit(X, y).score(X, truth) > 0.95
    assert al.ActiveClassifier().fit(X[alone], y[alone]).score(X, truth) < 0.9


def test_another_classifier_is_cloned_and_sees_the_labelled_rows_as_they_are():
    X, _, y = blobs()
    given = LogisticRegression()
    model = al.ActiveClassifier(given).fit(X, y)
    alone = LogisticRegression().fit(X[:12], y[:12])
    assert np.allclose(model.predict_proba(X), alone.predict_proba(X))
    assert not hasattr(given, "coef_")


def test_a_classifier_without_probabilities_predicts_and_has_none():
    X, truth, y = blobs()
    model = al.ActiveClassifier(LinearSVC()).fit(X, y)
    assert model.score(X, truth) > 0.9
    assert not hasattr(model, "predict_proba")
    assert len(model.ask(3)) == 3
    with pytest.raises(ValueError, match="needs probs, which requires an estimator with predict_proba"):
        model.set_params(strategy="margin").ask(3)


# --- labels -----------------------------------------------------------------------------------------------------------


def test_strings_are_marked_by_the_text_of_the_mark():
    X, truth, y = blobs()
    names = np.array(["ant", "bee", "cat"])
    mixed = [names[c] if c >= 0 else -1 for c in y]  # numpy makes "-1" of -1
    as_objects = np.array(mixed, dtype=object)
    marked = np.where(y >= 0, names[y], "?")
    models = [al.ActiveClassifier().fit(X, given) for given in (mixed, as_objects)]
    models.append(al.ActiveClassifier(unlabelled="?").fit(X, marked))
    for model in models:
        assert model.classes_.tolist() == ["ant", "bee", "cat"]
        assert (model.predict(X) == names[truth]).mean() > 0.95


def test_what_counts_as_unlabelled():
    assert is_unlabelled(np.array([-1, 0, 1]), -1).tolist() == [True, False, False]
    assert is_unlabelled(np.array([-1.0, 0.0]), -1).tolist() == [True, False]
    assert is_unlabelled(np.array([-1, 0]), "?").tolist() == [False, False]
    assert is_unlabelled(np.array(["a", -1, None], dtype=object), -1).tolist() == [False, True, False]


def test_one_class_is_always_predicted_and_no_label_can_be_asked_from():
    X, _, y = blobs()
    one = al.ActiveClassifier().fit(X, np.where(y == 1, 1, -1))
    assert set(one.predict(X)) == {1}
    assert one.predict_proba(X).tolist() == [[1.0]] * len(X)
    none = al.ActiveClassifier().fit(X, np.full(len(X), -1))
    assert len(none.ask(4)) == 4
    assert len(none.query(X[:50], 4)) == 4
    with pytest.raises(ValueError, match=r"label the rows that ask\(n\) returns, and fit again"):
        none.predict(X)
    for model in (one, none):
        with pytest.raises(ValueError, match="margin needs probs, which requires labels of two classes"):
            model.set_params(strategy="margin").ask(1)


def test_the_score_leaves_unlabelled_rows_out():
    X, truth, y = blobs()
    model = al.ActiveClassifier().fit(X, y)
    assert model.score(X, y) == (model.predict(X[:12]) == truth[:12]).mean()
    with pytest.raises(ValueError, match="score needs labelled rows, got 5 without"):
        model.score(X[:5], np.full(5, -1))


# --- asking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if "bald" not in name])  # no passes with dropout
def test_every_strategy_asks_for_unlabelled_rows(strategy):
    X, _, y = blobs()
    quick = al.DAL(epochs=2, width=16) if strategy == "dal" else strategy
    model = al.ActiveClassifier(FEW, strategy=quick).fit(X, y)
    picks = model.ask(6).indices
    assert len(set(picks.tolist())) == 6
    assert (y[picks] == -1).all()
    assert np.array_equal(picks, model.ask(6).indices)
    if strategy == "albl":  # see below
        return
    others = model.query(X[50:90], 6).indices
    assert len(set(others.tolist())) == 6
    assert others.min() >= 0
    assert others.max() < 40


def test_the_strategy_sees_what_the_head_sees():
    """The arrays, and the picks, are those of a loop on the same rows."""
    X, _, y = blobs()
    model = al.ActiveClassifier(FEW).fit(X, y)
    rows = model._standardised(X).astype(np.float32)
    learner = al.ActiveLearner(rows, learner=FEW, classes=3, seed=model._seed)
    learner.tell(np.arange(12), y[:12])
    learner.fit()
    head = model.estimator_
    np.testing.assert_allclose(head.predict_proba(rows), learner.predict_pool(), atol=1e-6)
    for strategy in (al.BADGE(), al.DynamicAL(), al.DynamicAL(redundancy="exact"), al.EGL(layers="all"), al.Margin()):
        learner.strategy = strategy
        assert model.set_params(strategy=strategy).ask(5).indices.tolist() == learner.ask(5).indices.tolist()


def test_a_learner_goes_by_its_name():
    X, _, y = blobs()
    by_name, by_object = (al.ActiveClassifier(e).fit(X, y) for e in ("label-propagation", al.LabelPropagation()))
    assert np.array_equal(by_name.predict_proba(X), by_object.predict_proba(X))
    assert by_name.ask(4).indices.tolist() == by_object.ask(4).indices.tolist()
    with pytest.raises(ValueError, match="unknown learner 'fixmach'; did you mean 'fixmatch'"):
        al.ActiveClassifier("fixmach").fit(X, y)


def test_margin_asks_where_the_two_best_classes_are_closest():
    X, _, y = blobs()
    model = al.ActiveClassifier(LogisticRegression(), strategy=al.Margin()).fit(X, y)
    P = np.sort(model.predict_proba(X), axis=1)
    margin = np.where(y == -1, P[:, -1] - P[:, -2], np.inf)
    assert model.ask(5).indices.tolist() == np.argsort(margin)[:5].tolist()


def test_a_query_looks_at_what_is_labelled_elsewhere():
    """Three places, two of them labelled in the fitted rows: the new row at the third comes first."""
    X = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 0.1], [10.0, 0.1]])
    model = al.ActiveClassifier(LogisticRegression(), strategy="coreset").fit(X, [0, 1, -1, -1])
    assert model.query([[0.0, 0.2], [10.0, 0.2], [5.0, 9.0]], 1).indices.tolist() == [2]


def test_asking_learns_more_than_chance_and_refuses_nonsense():
    X, truth = load_digits(return_X_y=True)
    X, truth = X[:500], truth[:500]

    def after(strategy, random_state):
        y = np.full(500, -1)
        for _ in range(3):
            picks = al.ActiveClassifier(strategy=strategy, random_state=random_state).fit(X, y).ask(10).indices
            y[picks] = truth[picks]
        return al.ActiveClassifier(random_state=random_state).fit(X, y).score(X, truth)

    chance = [after("random", seed) for seed in range(5)]  # a single draw may be lucky
    assert after("askless", 0) > np.mean(chance) + 0.02
    model = al.ActiveClassifier().fit(X, np.where(np.arange(500) < 20, truth, -1))
    with pytest.raises(ValueError, match=r"n must be a whole number >= 0, got 2\.5"):
        model.ask(2.5)
    with pytest.raises(ValueError, match="n = 481 exceeds the 480 unlabelled items"):
        model.ask(481)
    model = al.ActiveClassifier("label-propagation").fit(X, np.where(np.arange(500) < 20, truth, -1))
    with pytest.raises(ValueError, match="needs gradients as features"):
        model.set_params(strategy=al.DynamicAL(redundancy="exact")).ask(1)
    with pytest.raises(ValueError, match="crc needs kernel, which requires a network, in an ActiveLearner"):
        model.set_params(strategy=al.CRC(by="kernel")).ask(1)
    with pytest.raises(ValueError, match="expected a learner such as FixMatch"):
        al.ActiveClassifier(3).fit(X, truth)
    with pytest.raises(NotFittedError):
        al.ActiveClassifier().ask(1)


# --- at home in scikit-learn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [None, FEW, LogisticRegression()], ids=lambda made: type(made).__name__)
def test_the_same_random_state_gives_the_same_and_a_pickle_too(estimator):
    X, _, y = blobs()
    one, two = (al.ActiveClassifier(estimator, strategy="npc", random_state=3).fit(X, y) for _ in range(2))
    three = pickle.loads(pickle.dumps(one))
    for other in (two, three, clone(one).fit(X, y)):
        assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
        assert np.array_equal(one.ask(5).indices, other.ask(5).indices)


@pytest.mark.entropy
def test_random_states_of_every_kind():
    X, _, y = blobs()
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    picks = [
        al.ActiveClassifier(strategy="random", random_state=state).fit(X, y).ask(20).indices.tolist()
        for state in (0, 1, None, None, np.random.RandomState(5), np.random.RandomState(5))
    ]
    assert picks[0] != picks[1]
    assert picks[2] != picks[3]
    assert picks[4] == picks[5]
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    with pytest.raises(ValueError, match="seed must be a whole number"):
        al.ActiveClassifier(random_state=-3).fit(X, y)


def test_pipelines_grids_and_folds_of_half_labelled_rows():
    X, truth, y = blobs(labels=60)
    pipe = make_pipeline(StandardScaler(), al.ActiveClassifier(LogisticRegression()))
    grid = GridSearchCV(
        pipe,
        [
            {"activeclassifier__estimator__C": [1e-6, 1.0]},
            {"activeclassifier__estimator": [al.LabelPropagation(metric="euclidean")]},
        ],
        cv=3,
    )
    grid.fit(X, y)
    assert grid.best_score_ > 0.95
    assert grid.best_params_ != {"activeclassifier__estimator__C": 1e-6}
    assert grid.best_estimator_.score(X, truth) > 0.95
    assert len(grid.best_estimator_[-1].ask(4)) == 4
    assert cross_val_score(al.ActiveClassifier(), X, y, cv=3).min() > 0.9


def test_frames_keep_their_columns():
    pandas = pytest.importorskip("pandas")
    X, truth, y = blobs()
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = al.ActiveClassifier().fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.score(frame, pandas.Series(truth)) > 0.95
    assert len(model.query(frame, 2)) == 2


# --- a strategy with a memory ------------------------------------------------------------------------------------------


def albl_rounds(model, X, truth, y, rounds=3):
    """So many rounds of four labels; what was asked and said of it."""
    told, y = [], y.copy()
    for _ in range(rounds):
        picks = model.fit(X, y).ask(4)
        told.append(what(picks))
        y[picks.indices] = truth[picks.indices]
    return told


def what(picks):
    return {"batch": picks.indices.tolist()} | {name: picks.info[name] for name in ("drawn", "log_weights", "chances")}


def test_albl_learns_from_the_labels_that_it_asked_for():
    X, truth, y = blobs()
    model = al.ActiveClassifier(LogisticRegression(), strategy="albl")
    states = albl_rounds(model, X, truth, y)
    assert states[0]["log_weights"] == [0, 0]
    assert states[1]["log_weights"] != [0, 0]
    assert len(model._loop.asks) == 3
    assert model.strategy == "albl"


def test_albl_begins_anew_with_other_rows_or_fewer_labels_and_not_when_it_is_asked_or_fitted_twice():
    X, truth, y = blobs()
    model = al.ActiveClassifier(LogisticRegression(), strategy="albl")
    states = albl_rounds(model, X, truth, y)
    assert albl_rounds(model, X, truth, y) == states
    assert albl_rounds(model, X + 1, truth, y)[0]["log_weights"] == [0, 0]
    more = y.copy()
    picks = model.fit(X, y).ask(4).indices
    assert np.array_equal(model.fit(X, y).ask(4).indices, picks)
    more[picks] = truth[picks]
    assert what(model.fit(X, more).fit(X, more).ask(4)) == what(model.ask(4)) == states[1]
    copied = pickle.loads(pickle.dumps(model))
    assert what(copied.ask(4)) == states[1]
    assert clone(model).fit(X, more).ask(4).info["log_weights"] == [0, 0]
    assert len(model.set_params(strategy="coreset").ask(4)) == 4


def test_a_strategy_with_a_memory_refuses_rows_that_were_not_fitted():
    X, _, y = blobs()
    model = al.ActiveClassifier(strategy="albl").fit(X[:60], y[:60])
    with pytest.raises(InputError, match=r"albl remembers earlier picks.*fit all rows and use ask\(n\)"):
        model.query(X[60:], 4)


def test_what_a_strategy_of_ones_own_calls_its_state_is_its_own_affair():
    class Last:
        name, needs = "last", ("features",)

        def select(self, view, n, rng):
            return al.Selection(view.unlabelled[-n:], None, {"state": {"round": 1}})

    X, truth, y = blobs()
    model = al.ActiveClassifier(LogisticRegression(), strategy=Last()).fit(X, y)
    picks = model.ask(4).indices
    y[picks] = truth[picks]
    assert len(model.fit(X, y).ask(4)) == 4
