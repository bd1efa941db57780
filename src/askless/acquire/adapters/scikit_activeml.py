"""askless' strategies in scikit-activeml's loop. Importing this file imports scikit-activeml."""

from typing import Any

import numpy as np

from askless.acquire import Name, Strategy, as_strategy, looks_at, select
from askless.acquire.adapters import check_no_memory
from askless.base.errors import AsklessError, InputError

try:
    from skactiveml.base import SingleAnnotatorPoolQueryStrategy
    from skactiveml.utils import MISSING_LABEL, is_labeled
except ImportError as error:
    raise AsklessError(f"scikit-activeml cannot be imported ({error}); run `pip install scikit-activeml`") from None


class Query(SingleAnnotatorPoolQueryStrategy):
    """`query(X, y, clf)` by a strategy of askless: a name or an object. `X` are its features, and where it looks at
    probabilities they are those of `clf`, a fitted classifier; without one they must not be needed.

        qs = Query("badge", random_state=0)
        picks = qs.query(X, y, clf.fit(X, y), batch_size=10)
    """

    def __init__(
        self, strategy: Name | Strategy = "askless", missing_label: Any = MISSING_LABEL, random_state: Any = None
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.strategy = strategy

    def query(
        self,
        X: Any,
        y: Any,
        clf: Any = None,
        candidates: Any = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Any:
        """Positions (batch_size,) in X, best first; with `candidates` as rows, positions among these. Utilities, where they
        are asked for, are (batch_size, n): what the strategy says of its picks, 0 for the rows that it leaves, NaN for those
        that cannot be picked."""
        X, y, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True
        )
        strategy = as_strategy(self.strategy)
        check_no_memory(strategy, "scikit-activeml's loop")
        rows, at = self._transform_candidates(candidates, X, y, allow_only_unlabeled=True)
        labelled = np.flatnonzero(is_labeled(y, self.missing_label_))
        places = len(rows) if at is None else len(X)
        at = np.arange(len(rows)) if at is None else np.asarray(at)
        seen = np.concatenate([X[labelled], rows])  # what is labelled, then what may be picked
        arrays: dict[str, Any] = {"features": seen}
        if clf is not None and {"probs", "logits"} & set(looks_at(strategy)):
            arrays["probs"] = clf.predict_proba(seen)
            arrays["logits"] = np.log(np.maximum(arrays["probs"], 1e-12))
        L = len(labelled)
        picks = select(
            strategy,
            batch_size,
            seed=int(self.random_state_.randint(2**31 - 1)),
            labelled=np.arange(L),
            labels=class_numbers(y[labelled], clf),
            classes=len(clf.classes_) if hasattr(clf, "classes_") else None,
            **arrays,
        )
        chosen = at[picks.indices - L]
        if not return_utilities:
            return chosen
        utilities = np.full((batch_size, places), np.nan)
        utilities[:, at] = 0
        scores = np.ones(batch_size) if picks.scores is None else picks.scores
        for k in range(batch_size):
            utilities[k:, chosen[k]] = np.where(np.arange(k, batch_size) == k, scores[k], np.nan)
        return chosen, utilities


def class_numbers(y: np.ndarray, clf: Any) -> np.ndarray:
    """Labels (L,) as the columns that `clf` gives their classes; without a fitted one they are numbered as they are
    sorted."""
    known = getattr(clf, "classes_", np.unique(y))
    column = {label: i for i, label in enumerate(np.asarray(known).tolist())}
    unknown = [label for label in y.tolist() if label not in column]
    if unknown:
        raise InputError(
            f"y: expected labels of clf's classes, {', '.join(map(str, column))}, got {unknown[0]!r}; fit clf on this y"
        )
    return np.array([column[label] for label in y.tolist()], dtype=np.int64)
