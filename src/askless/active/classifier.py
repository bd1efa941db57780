"""`ActiveClassifier`: an `ActiveLearner` as a scikit-learn classifier that also learns from unlabelled rows and asks for
labels."""

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import nn

from askless.acquire import Name, Selection, Strategy, as_strategy, uses_history
from askless.active.learner import ActiveLearner
from askless.base.errors import InputError
from askless.base.rng import drawn_seed, stream
from askless.data import as_pool
from askless.features.scaling import scaling
from askless.learn import Learner
from askless.learn.observe import WithoutNetwork, wants_gradients


def _can(method: str) -> Any:
    """Whether the estimator has this method: askless' own learners have all, other classifiers may not."""

    def check(self: "ActiveClassifier") -> bool:
        return self._is_own or hasattr(self.estimator, method)

    return check


class ActiveClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier that trains on labelled and unlabelled rows, and picks the rows to label next.

        model = ActiveClassifier().fit(X, y)      # y == -1: not labelled yet
        model.predict(X_new)
        picks = model.ask(10).indices             # rows of X; label them, fit again

    `estimator`: one of askless' learners (Auto, LabelPropagation, FixMatch, Supervised, MeanTeacher, PiModel), as an object
    or by name ("fixmatch"), trains on all rows; by default Auto. The networks are those of `ActiveLearner`: "waves" for
    rows of at most 64 numbers, else "linear". Any other scikit-learn classifier is cloned and trained on the labelled rows.
    `strategy`: a name or an object, as in `select`. `unlabelled`: the mark for "not labelled yet" in `y`, as a number or as
    text: -1 among integers, "-1" among strings. `random_state`: a number or a RandomState; None draws a new one for each
    `fit`.

    askless' learners and the strategy see the rows minus the mean of all rows in `fit`. Rows of at most 64 numbers count as
    measurements: each column is divided by its standard deviation. Longer rows count as features of an encoder: all are
    divided by one number. Other classifiers see the rows unchanged. Rows are dense numbers (n, d).

    A strategy that learns from earlier picks (albl) continues while `fit` gets the same rows with more labels; other rows
    or fewer labels restart it.

    After `fit`: `classes_`, `n_features_in_`, `labelled_` (positions of the labelled rows), `estimator_`. `fit` also takes
    rows without any label, which allow only `ask`, and rows of one class, which is then always predicted.

    >>> X, y = np.random.default_rng(0).normal(size=(60, 3)), np.full(60, -1)
    >>> y[:6] = X[:6, 0] > 0
    >>> model = al.ActiveClassifier().fit(X, y)
    >>> len(model.ask(2)), model.predict(X).shape
    (2, (60,))
    """

    _X: np.ndarray  # the rows of the last fit, and the loop over them
    _loop: ActiveLearner
    labelled_: np.ndarray

    def __init__(
        self,
        estimator: Any = None,
        *,
        strategy: Name | Strategy = "askless",
        unlabelled: Any = -1,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.unlabelled = unlabelled
        self.random_state = random_state

    # --- scikit-learn's side --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> "ActiveClassifier":
        """Train on rows X (n, d); a row is labelled if its y (n,) is not `unlabelled`."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        if len(y) != len(X):
            raise InputError(f"expected one y per row of X, {len(X)}, got {len(y)}")
        labelled = np.flatnonzero(~is_unlabelled(y, self.unlabelled))
        known = y[labelled]
        if len(known):
            check_classification_targets(known)
        known = known.astype(str) if known.dtype.kind == "O" and any(isinstance(v, str) for v in known) else known
        # The same rows with more labels: a strategy that learns from earlier picks continues.
        goes_on = hasattr(self, "_loop") and np.array_equal(X, self._X) and np.isin(self.labelled_, labelled).all()
        asks = self._loop.asks if goes_on else []
        self.labelled_, self._X = labelled, X
        self.classes_, self._labels = np.unique(known, return_inverse=True)
        self._seed = seed_of(self.random_state)
        rows = torch.from_numpy(X if X.flags.writeable else X.copy())
        self._scale = tuple(t.numpy() for t in scaling(rows))
        self._loop = self._loop_over(X, labelled)
        self._loop.asks = asks
        self._fit_estimator(X, known)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        X = self._checked(X)
        if self.estimator_ is None or self._is_own:
            return self.classes_[self._proba(X).argmax(axis=1)]
        return self.estimator_.predict(X)

    @available_if(_can("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, C), in the order of `classes_`."""
        return self._proba(self._checked(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows, so that folds of a partly labelled y can be scored."""
        y = np.asarray(y)
        known = ~is_unlabelled(y, self.unlabelled)
        if not known.any():
            raise InputError(f"score needs labelled rows, got {len(y)} without labels; pass labelled ones")
        rows = X.iloc[known] if hasattr(X, "iloc") else np.asarray(X)[known]
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(super().score(rows, y[known], weight))

    # --- asking ---------------------------------------------------------------------------------------------------------

    def ask(self, n: int) -> Selection:
        """The n rows of the fitted X to label next, best first: `.indices` are positions among all its rows."""
        check_is_fitted(self, "labelled_")
        if getattr(self, "_asks_by", None) != self.strategy:
            self._asks_by, self._loop.asks = self.strategy, []
        self._loop.strategy = self._strategy()
        return self._loop.ask(n)

    def query(self, X: Any, n: int) -> Selection:
        """The n rows of another, unlabelled X to label next, given the labels so far: `.indices` are positions in that X."""
        X = self._checked(X, ask=True)
        strategy, L = self._strategy(), len(self.labelled_)
        if uses_history(strategy):
            raise InputError(
                f"{strategy.name} remembers earlier picks by their position in the fitted rows, which rows of another X "
                "lack; fit all rows and use ask(n), or use another strategy"
            )
        rows = np.concatenate([self._X[self.labelled_], X])
        loop = self._loop_over(rows, np.arange(L))
        loop.strategy = strategy
        if self._loop.model is not None:
            loop.learnt = loop.learner.start(self._loop.model, loop.task)
        elif self._loop.learnt is not None:
            loop.learnt = self._seen(rows)
        picks = loop.ask(n)
        return Selection(picks.indices - L, picks.scores, picks.info)

    def _strategy(self) -> Strategy:
        """The strategy, if this estimator provides what it needs."""
        strategy = as_strategy(self.strategy)
        trained = self._loop.model is not None
        if wants_gradients(strategy) and not trained:
            raise InputError(
                f"{strategy.name} with redundancy={strategy.redundancy!r} needs gradients as features, which only a trained "  # type: ignore[attr-defined]
                "head has; use redundancy='none', or estimator='fixmatch'"
            )
        seen = {"features", "labels"}
        if len(self.classes_) >= 2 and hasattr(self, "predict_proba"):
            seen |= {"probs", "logits", "grad_sq", "grad_dot", "grad_sq_by_class"} | ({"kernel"} if trained else set())
        missing = [name for name in strategy.needs if name not in seen]
        if missing:
            why = "labels of two classes" if len(self.classes_) < 2 else "an estimator with predict_proba"
            why = "a network with dropout, in an ActiveLearner" if "probs_by_pass" in missing else why
            why = "a network, in an ActiveLearner" if "kernel" in missing else why
            raise InputError(
                f"the strategy {strategy.name} needs {', '.join(missing)}, which requires {why}; use another one, "
                "such as askless, coreset or typiclust"
            )
        return strategy

    # --- inside -----------------------------------------------------------------------------------------------------------

    @property
    def _is_own(self) -> bool:
        given = self.estimator
        return given is None or isinstance(given, str) or (isinstance(given, Learner) and not isinstance(given, type))

    def _loop_over(self, X: np.ndarray, labelled: np.ndarray) -> ActiveLearner:
        """A loop over these rows; those at `labelled` have the labels of the fitted ones. For another classifier, the loop
        gets its predictions and does not use its own learner."""
        loop = ActiveLearner(
            as_pool(self._standardised(X).astype(np.float32), kind="features"),
            learner=self.estimator if self._is_own else None,
            strategy="random",
            classes=max(len(self.classes_), 2),
            seed=self._seed,
        )
        loop.are_classes_known = len(self.classes_) >= 2
        loop.labels = dict(zip(labelled.tolist(), self._labels.tolist(), strict=True))
        return loop

    def _fit_estimator(self, X: np.ndarray, known: np.ndarray) -> None:
        self.estimator_: Any = None
        if len(self.classes_) < 2:
            return
        if self._is_own:
            learnt = self._loop.fit()
            self.estimator_ = learnt if learnt.model is None else Network(learnt.as_network())
            return
        if not (hasattr(self.estimator, "fit") and hasattr(self.estimator, "get_params")):
            raise InputError(
                "estimator: expected a learner such as FixMatch(steps=500), or a scikit-learn classifier, got "
                f"{self.estimator!r}"
            )
        model = clone(self.estimator)
        if "random_state" in model.get_params(deep=False) and model.get_params(deep=False)["random_state"] is None:
            model.set_params(random_state=self._seed % 2**32)
        self.estimator_ = model.fit(X[self.labelled_], known)
        self._loop.learnt = self._seen(X)

    def _seen(self, X: np.ndarray) -> Any:
        """The arrays of these rows for a strategy."""
        probs: Any = self._proba(X) if hasattr(self, "predict_proba") else None
        return WithoutNetwork(
            self._standardised(X), None if probs is None else probs / probs.sum(axis=1, keepdims=True)
        )

    def _checked(self, X: Any, ask: bool = False) -> np.ndarray:
        check_is_fitted(self, "labelled_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if len(self.classes_) == 0 and not ask:
            raise InputError(
                "no row had a label, so there is nothing to predict; label the rows that ask(n) returns, and fit again"
            )
        return X

    def _standardised(self, X: np.ndarray) -> np.ndarray:
        mean, scale = self._scale
        return (X - mean) / scale

    def _proba(self, X: np.ndarray) -> np.ndarray:
        if self.estimator_ is None:  # one class
            return np.ones((len(X), 1))
        proba: np.ndarray = self.estimator_.predict_proba(self._standardised(X) if self._is_own else X)
        return proba


class Network:
    """A trained network in float64, so that the prediction for a row does not depend on the other rows."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.double().eval()

    @torch.no_grad()
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model(torch.from_numpy(X)).softmax(dim=1).numpy()


def is_unlabelled(y: np.ndarray, mark: Any) -> np.ndarray:
    """Where y is the mark, as a number or as text: numpy turns ["cat", -1] into text.

    >>> is_unlabelled(np.array(["cat", "-1"]), -1)
    array([False,  True])
    """
    if y.dtype.kind in "OUS":
        return np.array([str(value) == str(mark) for value in y.ravel()], dtype=bool)
    return np.asarray(y == mark) & np.ones(y.shape, dtype=bool)


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn calls random_state; a RandomState is drawn from, and advances."""
    if random_state is None:
        return drawn_seed()
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    stream(random_state, "check")  # refuses what is not a seed
    return int(stream(random_state, "classifier").integers(2**62))
