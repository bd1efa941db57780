"""askless' strategies in baal's loop. Nothing of baal is imported: its loop asks a heuristic for ranks, no more."""

from typing import Any

import numpy as np

from askless.acquire import Name, Strategy, as_strategy, looks_at, select
from askless.acquire.adapters import check_no_memory
from askless.base.errors import InputError


class Heuristic:
    """A heuristic for baal's `ActiveLearningLoop`, by a strategy of askless: a name or an object.

        heuristic = Heuristic("badge", n=10, dataset=dataset, features=features, seed=0)
        loop = ActiveLearningLoop(dataset, get_probabilities, heuristic, query_size=10)

    `n`: how many are chosen at a time, the loop's `query_size`. `dataset`: the loop's own, which knows what is labelled.
    `features` (N, d): one row for each of its items, labelled or not, or a function that gives them, as a network that is
    trained between the steps sees them; needed by strategies that look at features.
    """

    def __init__(
        self, strategy: Name | Strategy = "askless", *, n: int, dataset: Any, features: Any = None, seed: int = 0
    ) -> None:
        self.strategy = as_strategy(strategy)
        check_no_memory(self.strategy, "baal's loop")
        self.n, self.dataset, self.features, self.seed = n, dataset, features, seed

    def get_ranks(self, predictions: Any, target_predictions: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Positions in the pool of unlabelled items, the chosen n first, best first; and a score for each of the pool: what
        the strategy said of its picks, and less than that for the others. `predictions`: logits or probabilities
        (pool, C) or (pool, C, iterations), or a generator of such, as baal gives them."""
        probs = probabilities(predictions)
        is_labelled = np.asarray(self.dataset.labelled, dtype=bool)
        labelled, pool = np.flatnonzero(is_labelled), np.flatnonzero(~is_labelled)
        if len(probs) != len(pool):
            raise InputError(
                f"expected predictions of the {len(pool)} unlabelled items, got {len(probs)}; leave out max_sample"
            )
        # Of labelled items the loop predicts nothing: their class is known, so the model is sure of them.
        everywhere = np.eye(probs.shape[1])[np.zeros(len(is_labelled), dtype=int)]
        everywhere[pool] = probs
        arrays: dict[str, Any] = {"probs": everywhere, "logits": np.log(np.maximum(everywhere, 1e-12))}
        if self.features is not None and "features" in looks_at(self.strategy):
            arrays["features"] = self.features() if callable(self.features) else self.features
        n = min(self.n, len(pool))
        picks = select(self.strategy, n, seed=self.seed, labelled=labelled, **arrays)
        chosen = np.searchsorted(pool, picks.indices)
        rest = np.setdiff1d(np.arange(len(pool)), chosen)
        scores = np.arange(n, 0, -1.0) if picks.scores is None else picks.scores
        all_scores = np.full(len(pool), float(np.min(scores, initial=0.0)) - 1)
        all_scores[chosen] = scores
        return np.concatenate([chosen, rest]), all_scores

    def __call__(self, predictions: Any, target_predictions: Any = None) -> np.ndarray:
        return self.get_ranks(predictions, target_predictions)[0]


def probabilities(predictions: Any) -> np.ndarray:
    """(n, C) from what baal's `get_probabilities` gives: softmax where rows are logits, then the mean over iterations."""
    if not isinstance(predictions, np.ndarray):
        predictions = np.concatenate([np.asarray(part) for part in predictions])
    given = predictions.astype(np.float64)
    if given.ndim == 2:
        given = given[:, :, None]
    if given.ndim != 3:
        raise InputError(f"expected predictions (n, C) or (n, C, iterations), got shape {predictions.shape}")
    if not (given.min(initial=0) >= 0 and np.allclose(given.sum(axis=1), 1, atol=1e-3)):
        given = np.exp(given - given.max(axis=1, keepdims=True))
    given = given / given.sum(axis=1, keepdims=True)
    probs: np.ndarray = given.mean(axis=2)
    return probs
