"""`auto`, for feature vectors: labels spread along a graph, and a linear head learns what they come to."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor, nn

from askless.base.errors import ModelError
from askless.base.options import Count, NotNegative, options
from askless.base.rng import Seed, stream
from askless.data import Views
from askless.kernels.logits import probabilities
from askless.learn.darp import rows_to_one
from askless.learn.label_propagation import check_vectors
from askless.learn.learner import Course, Learnt, Task
from askless.learn.log import Log
from askless.learn.propagation import neighbour_graph, propagate
from askless.learn.ranks import these
from askless.learn.shares import balanced, class_shares, likeliest
from askless.learn.training import Fitted

FOLDS = 5  # parts of the labels that are left out in turn
WIDE = 4096  # columns up to which main directions are exact: their matrix is as large as it is wide
ENOUGH = 1e-4  # the residual at which labels have spread far enough to be learnt from
ITERATIONS = 30  # of L-BFGS in each round, which begins where the last one ended


@options
class Auto:
    """A linear head that learns from all items, labelled or not.

    Labels spread along a graph of the `neighbours` nearest items. A linear head learns what they come to for every item, and
    then, `rounds` times in all, its own answers; labelled items keep their labels. Each time the answers are first brought
    to the shares that the classes seem to have in the pool: those counted by the mean of the spread labels and of a head
    trained on labels alone, drawn toward equal shares as far as they change when a fifth of the labels is left out
    (`shares.class_shares`). The log says how far, `toward_equal`.

    The head learns in the `directions` main directions of wider features. `decay` is its weight decay, in units of the
    features' mean squared length.
    """

    neighbours: Count = 15
    rounds: Count = 3
    directions: Count = 256
    decay: NotNegative = 1e-4
    has_network = True
    embedded_views = (0, 0)

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        check_vectors("auto", views)
        linear_head(net, views.plain(torch.arange(min(size, 8))))

    def start(self, net: nn.Module, task: Task) -> Fitted:
        return Fitted(net, [], task.views, task.size)

    def fit(
        self, net: nn.Module, task: Task, *, seed: Seed = 0, before: Learnt | None = None, course: Course | None = None
    ) -> "Distilled":
        """Sets the head of `net`; the graph of `before` saves the time to make it again. There are no steps: of the course
        it uses device, log and watch."""
        task, course = task.checked(), course or Course()
        rows = task.views.plain(torch.arange(task.size)).float().cpu()
        head, written = linear_head(net.cpu(), rows[:8]), Log(course.log if these().is_first else None)
        space = Space.of(rows, self.directions)
        z = space.into(rows)
        if isinstance(before, Distilled) and before.options == self:
            graph = before.graph
        else:
            graph = neighbour_graph(z, self.neighbours)

        def spread_and_mixed(at: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Probabilities (N, C) by the graph, and the mean of their logarithms and those of a head on labels alone."""
            spread = propagate(graph, at, labels, task.classes, tol=ENOUGH)
            alone = fit_head(z[at], one_hot(labels, task.classes), self.decay)
            return spread, rows_to_one(np.sqrt(spread * answers(z, alone)))

        given = one_hot(task.labels, task.classes)
        probs, mixed = spread_and_mixed(task.labelled, task.labels)
        kept = folds(task.labels, stream(seed, "folds"))
        without = [likeliest(spread_and_mixed(task.labelled[keep], task.labels[keep])[1]) for keep in kept]
        shares = class_shares(likeliest(mixed), without, np.unique(task.labels))
        weights, metrics = None, []
        for done in range(1, self.rounds + 1):
            targets = torch.from_numpy(balanced(probs, shares.shares)).float()
            targets[task.labelled] = given
            weights = fit_head(z, targets, self.decay, weights)
            probs = answers(z, weights)
            loss = -float((targets * torch.from_numpy(np.log(np.maximum(probs, 1e-12)))).sum(dim=1).mean())
            metrics.append({"step": done, "loss": loss, "toward_equal": shares.toward_equal})
            written.add(metrics[-1])
            if course.watch is not None:
                course.watch(done, self.rounds, metrics[-1])
        assert weights is not None
        space.put(weights, head)
        net.to(course.device).eval()
        return Distilled(net, metrics, task.views, task.size, self, graph)


@dataclass(frozen=True)
class Distilled(Fitted):
    """The head, and the graph that its teacher used."""

    options: Auto
    graph: sparse.csr_array


class Weights(NamedTuple):
    """Of a linear head: `slope` (k, C) and `offset` (C,)."""

    slope: Tensor
    offset: Tensor


class Space(NamedTuple):
    """The main directions `basis` (d, k) of rows around their `middle` (d,), divided by their mean `length`."""

    middle: Tensor
    basis: Tensor
    length: Tensor

    @classmethod
    def of(cls, rows: Tensor, directions: int) -> "Space":
        middle = rows.mean(dim=0)
        length = (rows - middle).double().square().sum(dim=1).mean().sqrt().clamp_min(1e-30).float()
        if rows.shape[1] <= directions:
            return cls(middle, torch.eye(rows.shape[1]), length)
        centred = (rows - middle) / length
        if rows.shape[1] <= WIDE:
            basis = torch.linalg.eigh((centred.T @ centred).double()).eigenvectors[:, -directions:].float()
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                basis = torch.pca_lowrank(centred, min(directions, len(rows)), center=False)[2]
        return cls(middle, basis, length)

    def into(self, rows: Tensor) -> Tensor:
        return (rows - self.middle) @ self.basis / self.length

    def put(self, weights: Weights, head: nn.Linear) -> None:
        """Gives the head of whole rows the answers that the weights give in this space."""
        slope = self.basis @ weights.slope / self.length
        with torch.no_grad():
            head.weight.copy_(slope.T)
            head.bias.copy_(weights.offset - self.middle @ slope)


def fit_head(z: Tensor, targets: Tensor, decay: float, start: Weights | None = None) -> Weights:
    """The linear head of least mean cross-entropy to targets (n, C) plus decay / 2 |slope|^2; L-BFGS from `start`, or 0."""
    if start is None:
        start = Weights(torch.zeros(z.shape[1], targets.shape[1]), torch.zeros(targets.shape[1]))
    slope, offset = (part.clone().requires_grad_() for part in start)
    descent = torch.optim.LBFGS(
        [slope, offset], max_iter=ITERATIONS, tolerance_grad=1e-6, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        descent.zero_grad()
        value = nn.functional.cross_entropy(z @ slope + offset, targets) + decay / 2 * slope.square().sum()
        value.backward()
        return value

    with torch.enable_grad():
        descent.step(loss)
    return Weights(slope.detach(), offset.detach())


def answers(z: Tensor, weights: Weights) -> np.ndarray:
    """Probabilities (n, C) in float64."""
    return torch.softmax((z @ weights.slope + weights.offset).double(), dim=1).numpy()


def one_hot(labels: np.ndarray, classes: int) -> Tensor:
    return nn.functional.one_hot(torch.from_numpy(labels), classes).float()


def folds(labels: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Positions of the labels that are kept, FOLDS times: each leaves out every FOLDS-th of the labels in order of class."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    for fold in range(FOLDS):
        keep = np.sort(order[np.arange(len(order)) % FOLDS != fold])
        if 0 < len(keep) < len(labels):
            yield keep


def linear_head(net: nn.Module, rows: Tensor) -> nn.Linear:
    """The only layer of a linear network, whose answers for these rows are its own."""
    layers = [m for m in net.modules() if any(True for _ in m.parameters(recurse=False))]
    if (
        len(layers) != 1
        or not isinstance(layers[0], nn.Linear)
        or layers[0].bias is None
        or not np.allclose(probabilities(net, rows), probabilities(layers[0], rows), atol=1e-5)
    ):
        raise ModelError(
            "auto trains a linear head on feature vectors, got a network that is more than that; use net='linear' or "
            "net='frozen:efficientnet-lite0', or learner='fixmatch' for a network that is trained whole"
        )
    return layers[0]
