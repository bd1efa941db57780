"""Label propagation as a learner: no network, only a neighbour graph of features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from askless.base.errors import InputError
from askless.base.options import check_choice, check_count, check_number, options
from askless.base.rng import Seed
from askless.learn.learner import Course, Learnt, Task
from askless.learn.material import Views
from askless.learn.observe import Rows
from askless.learn.propagation import Metric, neighbour_graph, predict_new, propagate


@options
class LabelPropagation:
    """Labels spread along a graph of the `neighbours` nearest items; about a second for 10,000 items, the graph made once.

    `alpha`: how far they spread (below 1; the rest of each step returns to the given labels). `metric`: "cosine" suits the
    features of networks, "euclidean" a few measured numbers.
    """

    neighbours: int = 15
    alpha: float = 0.99
    metric: Metric = "cosine"
    has_network = False

    def __post_init__(self) -> None:
        check_count("LabelPropagation", "neighbours", self.neighbours)
        check_number("LabelPropagation", "alpha", self.alpha, 0, 0.999999)
        check_choice("LabelPropagation", "metric", self.metric, ("cosine", "euclidean"))

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        shape = tuple(views.plain(torch.arange(1)).shape[1:])
        if len(shape) != 1:
            raise InputError(
                f"label propagation works on feature vectors (N, d), got items of shape {shape}; use a frozen backbone, as "
                "net='frozen:efficientnet-lite0', or a pool of features"
            )

    def start(self, net: nn.Module, task: Task) -> "Propagated":
        """Equal probabilities."""
        features = task.views.plain(torch.arange(task.size)).numpy()
        return Propagated(features, np.full((task.size, task.classes), 1 / task.classes), self)

    def fit(
        self, net: nn.Module, task: Task, *, seed: Seed = 0, before: Learnt | None = None, course: Course | None = None
    ) -> "Propagated":
        """Probabilities of every item; the graph of `before` saves most of the time."""
        task = task.checked()
        features = task.views.plain(torch.arange(task.size)).numpy()
        graph = before.graph if isinstance(before, Propagated) and before.options == self else None
        graph = neighbour_graph(features, self.neighbours, metric=self.metric) if graph is None else graph
        return Propagated(features, propagate(graph, *task[2:], self.alpha), self, graph)


@dataclass(frozen=True)
class Propagated(Rows):
    """What was learnt (a `Learnt`): the probabilities of all items."""

    options: LabelPropagation
    graph: Any = None

    def predict_proba(self, x: Tensor | np.ndarray) -> np.ndarray:
        """(n, C) for new rows (n, d), from their nearest neighbours in the pool."""
        options = self.options
        return predict_new(self.features, self.probs, x, options.neighbours, metric=options.metric)
