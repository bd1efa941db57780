"""`ActiveClassifier`: askless as a scikit-learn classifier, which learns from unlabelled rows too and asks for labels."""

import dataclasses
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from askless import nets
from askless.acquire import DynamicAL, Selection, Strategy, looks_at, make, select
from askless.active.observe import head_gradients
from askless.base.errors import InputError
from askless.base.options import check_count
from askless.base.rng import stream
from askless.data import as_pool, views_for
from askless.features.frozen import standardisation
from askless.learn import LabelPropagation, Training, fit

DEFAULT = LabelPropagation(metric="euclidean")  # on digits with 2 labels a class .90, a linear head .67


def _can(method: str) -> Any:
    """Whether what learns has this method: askless' own learners have all, another classifier perhaps not."""

    def check(self: "ActiveClassifier") -> bool:
        return self.estimator is None or is_own(self.estimator) or hasattr(self.estimator, method)

    return check


class ActiveClassifier(ClassifierMixin, BaseEstimator):
    """A scikit-learn classifier that trains on labelled and unlabelled rows, and says which rows to label next.

        model = ActiveClassifier().fit(X, y)      # y == -1: not labelled yet
        model.predict(X_new)
        picks = model.ask(10).indices             # rows of X; label them, fit again

    `estimator`: what learns. One of askless' learners (LabelPropagation, FixMatch, Supervised, MeanTeacher, PiModel) trains
    on all rows, the last four as a linear head; by default label propagation. Any other scikit-learn classifier is cloned
    and trained on the labelled rows. `strategy`: a name or an object, as in `select`. `unlabelled`: what stands in `y` for
    "not labelled yet", as a number or as text: -1 marks rows among integers, and "-1" among strings. `random_state`: a
    number or a RandomState; None draws a new one for each `fit`.

    askless' learners and the strategy see the rows standardised, column by column, by mean and deviation of all rows that
    `fit` was given; the other classifier sees them as they are. Rows are dense numbers (n, d).

    A strategy that learns from the labels it asked for (albl) goes on doing so while `fit` gets the same rows with more
    labels; other rows, or fewer labels, begin anew.

    After `fit`: `classes_`, `n_features_in_`, `labelled_` (positions of the labelled rows), `estimator_`. `fit` takes rows
    without any label too, and rows of one class: the first can only be asked from, the second is always predicted.
    """

    _asks_by: Any  # the strategy at the last fit, and what it remembers: of the labels so far, and of the last ask
    _memory: dict[str, Any] | None
    _next_memory: dict[str, Any] | None

    def __init__(
        self,
        estimator: Any = None,
        *,
        strategy: str | Strategy = "askless",
        unlabelled: Any = -1,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.strategy = strategy
        self.unlabelled = unlabelled
        self.random_state = random_state

    # --- scikit-learn's side --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> "ActiveClassifier":
        """Trains on rows X (n, d) of which those have a label whose y (n,) is not `unlabelled`."""
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        if len(y) != len(X):
            raise InputError(f"expected one y per row of X, {len(X)}, got {len(y)}")
        labelled = np.flatnonzero(~is_unlabelled(y, self.unlabelled))
        self._remember(X, labelled)
        self.labelled_ = labelled
        known = y[self.labelled_]
        if len(known):
            check_classification_targets(known)
        known = known.astype(str) if known.dtype.kind == "O" and any(isinstance(v, str) for v in known) else known
        self.classes_, self._labels = np.unique(known, return_inverse=True)
        self._seed = seed_of(self.random_state)
        self._X = X
        rows = torch.from_numpy(X if X.flags.writeable else X.copy())
        self._scale = tuple(t.numpy() for t in standardisation(rows))
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
        """Accuracy on the rows that have a label: folds of a half-labelled y can be scored."""
        y = np.asarray(y)
        known = ~is_unlabelled(y, self.unlabelled)
        if not known.any():
            raise InputError(f"score needs rows with a label, got {len(y)} without; pass labelled ones")
        rows = X.iloc[known] if hasattr(X, "iloc") else np.asarray(X)[known]
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(super().score(rows, y[known], weight))

    # --- asking ---------------------------------------------------------------------------------------------------------

    def ask(self, n: int) -> Selection:
        """The n rows of the fitted X to label next, best first: `.indices` are positions among all its rows."""
        check_is_fitted(self, "labelled_")
        strategy = self._strategy()
        if self._memory is not None and self._asks_by == self.strategy:
            strategy = dataclasses.replace(strategy, state=self._memory)  # type: ignore[type-var]
        picks = self._select(strategy, self._X, self.labelled_, n)
        remembers = hasattr(strategy, "state") and self._asks_by == self.strategy
        self._next_memory = picks.info.get("state") if remembers else None
        return picks

    def query(self, X: Any, n: int) -> Selection:
        """The n rows of another, unlabelled X to label next, beside what is labelled: `.indices` are positions in it."""
        X = self._checked(X, ask=True)
        strategy, L = self._strategy(), len(self.labelled_)
        if hasattr(strategy, "state"):
            raise InputError(
                f"{strategy.name} remembers what it asked for, by its position in the fitted rows, which rows of another X "
                "have not; fit all rows and use ask(n), or another strategy"
            )
        picks = self._select(strategy, np.concatenate([self._X[self.labelled_], X]), np.arange(L), n)
        return Selection(picks.indices - L, picks.scores, picks.info)

    def _strategy(self) -> Strategy:
        return make(self.strategy) if isinstance(self.strategy, str) else self.strategy

    def _remember(self, X: np.ndarray, labelled: np.ndarray) -> None:
        """What a strategy with a memory said last counts once labels of its batch came in; for other rows nothing does."""
        if (
            not hasattr(self, "_X")
            or self._asks_by != self.strategy
            or not np.array_equal(X, self._X)
            or not np.isin(self.labelled_, labelled).all()
        ):
            self._asks_by, self._memory, self._next_memory = self.strategy, None, None
        elif self._next_memory is not None and np.isin(self._next_memory["batch"], labelled).any():
            self._memory, self._next_memory = self._next_memory, None

    def _select(self, strategy: Strategy, X: np.ndarray, labelled: np.ndarray, n: int) -> Selection:
        check_count("ActiveClassifier", "n", n, least=0)
        seed = int(stream(self._seed, f"ask {len(labelled)}").integers(2**62))
        arrays = self._arrays(X, labelled, looks_at(strategy))
        missing = [name for name in strategy.needs if name not in arrays]
        if isinstance(strategy, DynamicAL) and "features" in strategy.needs:
            raise InputError(
                f"{strategy.name} with redundancy={strategy.redundancy!r} needs gradients as features, which are not kept "
                "here; use redundancy='none', or ActiveLearner"
            )
        if missing:
            why = "labels of two classes" if len(self.classes_) < 2 else "an estimator that has predict_proba"
            why = "a network with dropout, in an ActiveLearner" if "probs_by_pass" in missing else why
            why = "a network, in an ActiveLearner" if "kernel" in missing else why
            raise InputError(
                f"the strategy {strategy.name} needs {', '.join(missing)}, for which there must be {why}; use another one, "
                "such as askless, coreset or typiclust"
            )
        classes = len(self.classes_) if len(self.classes_) >= 2 else None
        return select(strategy, n, seed=seed, labelled=labelled, pool=len(X), classes=classes, **arrays)

    def _arrays(self, X: np.ndarray, labelled: np.ndarray, names: tuple[str, ...]) -> dict[str, Any]:
        """What a strategy may look at; probabilities only where two classes have labels. The gradients are those of a linear
        head with these probabilities."""
        features = self._standardised(X)
        arrays: dict[str, Any] = {"features": features, "labels": self._labels}
        if len(self.classes_) >= 2 and hasattr(self, "predict_proba") and set(names) - {"features", "labels"}:
            probs = self._proba(X)
            probs = probs / probs.sum(axis=1, keepdims=True)
            arrays |= {"probs": probs, "logits": np.log(np.maximum(probs, 1e-12))}
            if {"grad_sq", "grad_dot"} & set(names):
                sq, dot = head_gradients(features, probs, labelled, self._labels)
                arrays |= {"grad_sq": sq, "grad_dot": dot}
            if "grad_sq_by_class" in names:  # |p - e_c|^2 |[phi, 1]|^2
                length = (features**2).sum(axis=1) + 1
                apart = (probs**2).sum(axis=1, keepdims=True) - 2 * probs + 1
                arrays["grad_sq_by_class"] = apart * length[:, None]
        return {name: arrays[name] for name in names if name in arrays}

    # --- inside -----------------------------------------------------------------------------------------------------------

    @property
    def _is_own(self) -> bool:
        return self.estimator is None or is_own(self.estimator)

    def _fit_estimator(self, X: np.ndarray, known: np.ndarray) -> None:
        learner = DEFAULT if self.estimator is None else self.estimator
        C = len(self.classes_)
        self.estimator_: Any = None
        if C < 2:
            return
        if isinstance(learner, LabelPropagation):
            self.estimator_ = learner.fit(self._standardised(X), self.labelled_, self._labels, C)
        elif isinstance(learner, Training):
            self.estimator_ = Head.trained(learner, self._standardised(X), self.labelled_, self._labels, C, self._seed)
        elif hasattr(learner, "fit") and hasattr(learner, "get_params"):
            model = clone(learner)
            if "random_state" in model.get_params(deep=False) and model.get_params(deep=False)["random_state"] is None:
                model.set_params(random_state=self._seed % 2**32)
            self.estimator_ = model.fit(X[self.labelled_], known)
        else:
            raise InputError(
                f"estimator: expected a learner such as FixMatch(steps=500), or a scikit-learn classifier, got {learner!r}"
            )

    def _checked(self, X: Any, ask: bool = False) -> np.ndarray:
        check_is_fitted(self, "labelled_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        if len(self.classes_) == 0 and not ask:
            raise InputError(
                "no row had a label, so there is nothing to predict; label what ask(n) names, and fit again"
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


class Head:
    """A linear head: plain arrays `coef` (C, d) and `intercept` (C,)."""

    def __init__(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef, self.intercept = coef, intercept

    @classmethod
    def trained(
        cls, learner: Training, X: np.ndarray, labelled: np.ndarray, labels: np.ndarray, classes: int, seed: int
    ) -> "Head":
        pool = as_pool(X.astype(np.float32), kind="features")
        net = nets.make("linear", classes=classes, shape=pool.shape, seed=seed)
        model = fit(net, learner, views_for(pool), len(X), labelled, labels, classes, seed=seed).model
        weight, bias = (p.detach().double().numpy() for p in model.parameters())
        return cls(weight, bias)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return softmax(X @ self.coef.T + self.intercept, axis=1)


def is_own(estimator: Any) -> bool:
    return isinstance(estimator, LabelPropagation | Training)


def is_unlabelled(y: np.ndarray, mark: Any) -> np.ndarray:
    """Where y is the mark, as a number or as text: numpy makes text of ["cat", -1].

    >>> is_unlabelled(np.array(["cat", "-1"]), -1)
    array([False,  True])
    """
    if y.dtype.kind in "OUS":
        return np.array([str(value) == str(mark) for value in y.ravel()], dtype=bool)
    return np.asarray(y == mark) & np.ones(y.shape, dtype=bool)


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn calls random_state; a RandomState is drawn from, and advances."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    stream(random_state, "check")  # refuses what is not a seed
    return int(stream(random_state, "classifier").integers(2**62))
