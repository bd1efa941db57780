"""scikit-activeml's Badge, CoreSet, TypiClust and MaxHerding on arrays from a folder, in the peers' environment.

    python selection_skactiveml.py FOLDER PICKS REPEATS STRATEGY...

Prints for each strategy the median seconds of `query` and the picks of the last one, as JSON. Everything that it needs is
ready before the clock starts: the classifier is fitted and only hands out the given probabilities.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from skactiveml.base import SkactivemlClassifier
from skactiveml.pool import Badge, CoreSet, MaxHerding, TypiClust


class Given(SkactivemlClassifier):
    """A classifier whose probabilities are known."""

    def __init__(self, classes=None, missing_label=np.nan, cost_matrix=None, random_state=None, probs=None):
        super().__init__(classes, missing_label, cost_matrix, random_state)
        self.probs = probs

    def fit(self, X, y, sample_weight=None):
        return self

    def predict_proba(self, X):
        return self.probs


def queried(folder: Path, strategy: str, picks: int, repeats: int) -> dict:
    features, probs = np.load(folder / "features.npy"), np.load(folder / "probs.npy")
    labelled, labels = np.load(folder / "labelled.npy"), np.load(folder / "labels.npy")
    y = np.full(len(features), np.nan)
    y[labelled] = labels
    classifier = Given(classes=np.arange(probs.shape[1]), probs=probs[np.isnan(y)])  # of the unlabelled, as it asks for
    times = []
    for repeat in range(repeats):
        if strategy == "badge":
            query, more = Badge(random_state=repeat), {"clf": classifier, "fit_clf": False}
        elif strategy == "coreset":
            query, more = CoreSet(random_state=repeat), {}
        elif strategy == "askless":
            gamma = float(np.load(folder / "gamma.npy"))
            query, more = MaxHerding(random_state=repeat, metric="rbf", metric_dict={"gamma": gamma}), {}
        else:
            query, more = TypiClust(random_state=repeat, k=20), {}
        start = time.perf_counter()
        found = query.query(features, y, batch_size=picks, **more)
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times), "picks": [int(i) for i in found]}


if __name__ == "__main__":
    folder, picks, repeats, *strategies = sys.argv[1:]
    print(json.dumps({s: queried(Path(folder), s, int(picks), int(repeats)) for s in strategies}))
