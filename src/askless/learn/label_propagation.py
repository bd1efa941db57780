"""Label propagation as a learner: no network, only a neighbour graph of features."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from askless.base.options import Count, Limits, options
from askless.learn.propagation import Metric, neighbour_graph, predict_new, propagate


@options
class LabelPropagation:
    """Labels spread along a graph of the `neighbours` nearest items; about a second for 10,000 items, the graph made once.

    `alpha`: how far they spread (below 1; the rest of each step returns to the given labels). `metric`: "cosine" suits the
    features of networks, "euclidean" a few measured numbers.
    """

    neighbours: Count = 15
    alpha: Annotated[float, Limits(0, 0.999999)] = 0.99
    metric: Metric = "cosine"

    def fit(
        self, features: np.ndarray, labelled: np.ndarray, labels: np.ndarray, classes: int, graph: Any = None
    ) -> "Propagated":
        """Probabilities of every item; `graph` of an earlier fit on the same features saves most of the time."""
        graph = neighbour_graph(features, self.neighbours, metric=self.metric) if graph is None else graph
        return Propagated(self, features, graph, propagate(graph, labelled, labels, classes, self.alpha))


class Propagated(NamedTuple):
    """What was learnt: `pool_probs` (N, C), and predictions for new items."""

    options: LabelPropagation
    features: np.ndarray
    graph: Any
    pool_probs: np.ndarray

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        """(n, C) for new rows (n, d), from their nearest neighbours in the pool."""
        options = self.options
        return predict_new(self.features, self.pool_probs, features, options.neighbours, metric=options.metric)
