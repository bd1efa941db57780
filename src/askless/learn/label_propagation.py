"""Label propagation as a learner: no network, only a neighbour graph of features."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from askless.base.errors import InputError
from askless.base.options import Between, Count, options
from askless.base.rng import Seed
from askless.data import Views
from askless.learn.learner import Course, Learnt, Task
from askless.learn.observe import WithoutNetwork
from askless.learn.propagation import Metric, neighbour_graph, predict_new, prepared, propagate
from askless.linalg.scale import divisor


@options
class LabelPropagation:
    """Labels spread along a graph of the `neighbours` nearest items; about a second for 10,000 items; one graph for all
    rounds.

    `alpha`: how far they spread (below 1; the rest of each step returns to the given labels). `metric`: "cosine" suits the
    features of networks, "euclidean" a few measured numbers.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, learner=al.LabelPropagation(), net="linear", seed=0)
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> learner.predict_pool().shape
    (100, 2)
    """

    neighbours: Count = 15
    alpha: Annotated[float, Between(0, 0.999999)] = 0.99
    metric: Metric = "cosine"
    has_network = False
    embedded_views = (0, 0)

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        check_vectors("label propagation", views)

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


def check_vectors(what: str, views: Views) -> None:
    shape = tuple(views.plain(torch.arange(1)).shape[1:])
    if len(shape) != 1:
        raise InputError(
            f"{what} works on feature vectors (N, d), got items of shape {shape}; use a frozen backbone, such as "
            "net='frozen:efficientnet-lite2', or a pool of features"
        )


@dataclass(frozen=True, repr=False)
class Propagated(WithoutNetwork):
    """The result (a `Learnt`): the probabilities of all items."""

    options: LabelPropagation
    graph: Any = None

    def predict_proba(self, x: Tensor | np.ndarray) -> np.ndarray:
        """(n, C) for new rows (n, d), from their nearest neighbours in the pool."""
        options = self.options
        return predict_new(self.features, self.probs, x, options.neighbours, metric=options.metric)

    def as_network(self) -> "Neighbours":
        """The same with torch only."""
        (items, *shape), options, probs = self.features.shape, self.options, torch.from_numpy(self.probs)
        unit = divisor(torch.as_tensor(self.features))
        rows = prepared("features", self.features / unit, options.metric)
        how: Any = {"neighbours": options.neighbours, "metric": options.metric, "unit": unit}
        net = Neighbours(items=items, shape=tuple(shape), classes=probs.shape[1], **how)
        net.load_state_dict({"rows": rows, "probs": probs.float()})
        return net.eval()


class Neighbours(nn.Module):
    """Label propagation's predictions for new rows, as a portable network: it holds `items` rows with their probabilities
    and returns log probabilities, as `predict_new` does. It has nothing to train. New rows are divided by `unit` first, as
    its own rows were."""

    def __init__(
        self, *, items: int, shape: tuple[int, ...], classes: int, neighbours: int, metric: Metric, unit: float = 1.0
    ) -> None:
        super().__init__()
        self.k, self.metric, self.unit = min(neighbours, items), metric, unit
        self.options: dict[str, Any] = {"items": items, "neighbours": neighbours, "metric": metric}
        self.options |= {} if unit == 1 else {"unit": unit}
        self.rows = nn.Parameter(torch.zeros(items, *shape), requires_grad=False)
        self.probs = nn.Parameter(torch.zeros(items, classes), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.unit == 1 else x / self.unit
        x = nn.functional.normalize(x) if self.metric == "cosine" else x
        sq_dist = (x.square().sum(dim=1, keepdim=True) + self.rows.square().sum(dim=1) - 2 * x @ self.rows.T).clamp_min(
            0
        )
        near, at = sq_dist.topk(self.k, dim=1, largest=False)
        weight = torch.softmax(-near / near[:, -1:].clamp_min(1e-30), dim=1)
        return (weight[:, :, None] * self.probs[at]).sum(dim=1).clamp_min(1e-30).log()
