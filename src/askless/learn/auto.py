"""`auto`, for feature vectors: a linear head distilled from label propagation and a head trained on the labels alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor, nn

from askless.base.errors import ModelError
from askless.base.machine import limited
from askless.base.options import Count, Several, options
from askless.base.rng import Seed, stream
from askless.data import Views
from askless.kernels import find_head
from askless.learn.ground import Ground
from askless.learn.learner import Course, Learnt, Task, Watch
from askless.learn.linear import Weights, fit_head, logits, one_hot
from askless.learn.log import Log
from askless.learn.propagation import neighbours, propagate
from askless.learn.ranks import these
from askless.learn.strengths import strengths
from askless.learn.training import Fitted

FOLDS = (
    10  # of the cross-validation on the labels; with 5 the held-out models know so much less that auto is too modest
)
FEW = 1000  # unlabelled items used in cross-validation
DECAYS = (1e-2, 1e-1, 1e-3, 1e-4, 1e-5)  # weight decays tried for the head on labels alone; the first is the default
LEARNT = (1e-4, 1e-5)  # weight decays tried for the final head
BEFORE = (0.8, 0.2)  # prior weights of the graph and of the head on labels alone
SPREAD = 1.5  # standard deviation of that head's logits, whatever its decay, so that one prior weight suits all
FLOOR = 1e-6  # smallest probability of a prediction
ENOUGH = 1e-4  # residual at which label propagation stops


@options
class Auto:
    """Trains a linear head on all items, labelled or not.

    It combines two predictors: label propagation on a graph of the `neighbours` nearest items, and a linear head trained on
    the labels alone. Cross-validation on the labels decides how much each counts and how strongly that head is regularised
    (`strengths`). The final head learns the combined prediction of every unlabelled item, and the labels of the others.

    Cross-validation also picks the final head's weight decay and temperature. The log records every choice: `graph` and
    `alone` (the weights of the two predictors), `alone_decay`, `decay` and `temperature`.

    Rows that lie more than 100 times as far out as the others would spoil every mean: auto learns as if they lay as far out
    as the others, and logs their number as `far`.

    Wider features are reduced to their `directions` principal directions. From pools with more than `items` items, that
    many are drawn once for all rounds; labelled items are always included.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, learner=al.Auto(), net="linear", seed=0)
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> learner.predict_pool().shape
    (100, 2)
    """

    neighbours: Count = 15
    directions: Count = 256
    items: Several = 20_000
    has_network = True
    embedded_views = (0, 0)

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        linear_head(net, views.plain(torch.arange(min(size, 8))))

    def start(self, net: nn.Module, task: Task) -> Fitted:
        return Fitted(net, [], task.views, task.size)

    def fit(
        self, net: nn.Module, task: Task, *, seed: Seed = 0, before: Learnt | None = None, course: Course | None = None
    ) -> "Distilled":
        """Set the head of `net`; what `before` knows about the pool is reused. There are no steps: of the course
        it uses device, log, watch and bar."""
        task, course = task.checked(), course or Course()
        head = linear_head(net.cpu(), task.views.plain(torch.arange(min(task.size, 8))))
        written = Log(course.log if these().is_first else None)
        at = np.sort(stream(0, "items").permutation(task.size)[: self.items])  # in every round the same
        ground = before.ground if isinstance(before, Distilled) and before.options == self else None
        if ground is None or not ground.is_of(net, task.views, at):
            ground = Ground.of(net, task.views, at, directions=self.directions, k=self.neighbours)
        # Steps this short are no faster with more threads, and beside other work up to thirty times slower.
        with course.watched() as watch, limited(1):
            metrics = self.learn(ground.including(net, task), task, head, seed, written, watch)
        net.to(course.device).eval()
        return Distilled(net, metrics, task.views, task.size, self, ground)

    def learn(
        self, ground: Ground, task: Task, head: nn.Linear, seed: Seed, written: Log, watch: Watch
    ) -> list[dict[str, float]]:
        order = np.argsort(ground.at)
        labelled = order[np.searchsorted(ground.at, task.labelled, sorter=order)]
        classroom = Classroom(ground, labelled, task.labels, task.classes)
        exam = Exam(classroom, folds(len(labelled), stream(seed, "folds")), stream(seed, "few"))
        mixture = exam.mixture()
        decay, sure = exam.decay(mixture)
        weights, loss = classroom.taught(mixture, np.arange(len(ground.z)), decay)
        ground.space.put(Weights(weights.slope * sure, weights.offset * sure), head)
        numbers = {"step": 1, "loss": loss, "decay": decay, "temperature": 1 / sure}
        numbers |= {"graph": mixture.graph, "alone": mixture.alone, "alone_decay": mixture.decay}
        numbers |= {"far": len(ground.far)} if len(ground.far) else {}
        written.add(numbers)
        watch(1, 1, numbers)
        return [numbers]


@dataclass(frozen=True, repr=False)
class Distilled(Fitted):
    """The head, and the ground on which it was taught."""

    options: Auto
    ground: Ground


class Mixture(NamedTuple):
    """The weights of the `graph` and of the head trained on labels `alone`, and that head's weight `decay`."""

    graph: float
    alone: float
    decay: float


class Classroom:
    """Labels (L,) of the rows `labelled` (L,) of a ground, and the two predictors: `spread` (n, C), the labels propagated
    along the graph, and `heads` trained on the labels alone, by weight decay, with every class weighted equally."""

    def __init__(self, ground: Ground, labelled: np.ndarray, labels: np.ndarray, classes: int) -> None:
        self.ground, self.labelled, self.labels, self.classes = ground, labelled, labels, classes
        self.given = one_hot(labels, classes)
        self.spread = propagate(ground.graph, labelled, labels, classes, tol=ENOUGH)
        alike = (self.given / self.given.sum(dim=0).clamp_min(1)).sum(dim=1)
        z, alike = ground.z[labelled], alike / alike.mean()
        self.heads = {decay: self.spread_out(fit_head(z, self.given, decay, alike)) for decay in DECAYS}

    def spread_out(self, head: Weights) -> Weights:
        """The head with logits of the seen classes that deviate by SPREAD from their mean in each row."""
        z = logits(self.ground.z, head)[:, np.unique(self.labels)]
        deviation = (z - z.mean(axis=1, keepdims=True)).std()
        times = SPREAD / float(deviation) if deviation > 0 else 1.0
        return Weights(head.slope * times, head.offset * times)

    def less(self, keep: np.ndarray) -> "Classroom":
        """The same with only these labels."""
        return Classroom(self.ground, self.labelled[keep], self.labels[keep], self.classes)

    def by_graph(self, rows: np.ndarray) -> np.ndarray:
        """Logits (m, C) of these rows."""
        return np.log(np.maximum(self.spread[rows], FLOOR))

    def by_labels(self, decay: float, rows: np.ndarray) -> np.ndarray:
        """Logits (m, C) of these rows."""
        return np.maximum(log_softmax(logits(self.ground.z[rows], self.heads[decay]), axis=1), np.log(FLOOR))

    def taught(self, mixture: Mixture, rows: np.ndarray, decay: float) -> tuple[Weights, float]:
        """The head that learns the mixture for these rows, of which some have a label, and its loss."""
        graph, alone = self.by_graph(rows), self.by_labels(mixture.decay, rows)
        targets = torch.from_numpy(softmax(mixture.graph * graph + mixture.alone * alone, axis=1)).float()
        targets[np.searchsorted(rows, self.labelled)] = self.given
        weights = fit_head(self.ground.z[rows], targets, decay)
        log_probs = log_softmax(logits(self.ground.z[rows], weights), axis=1)
        return weights, -float((targets.numpy() * log_probs).sum(axis=1).mean())

    def answers(self, mixture: Mixture, rows: np.ndarray, decay: float) -> np.ndarray:
        """Logits (m, C) of these rows, by the head that learns the mixture for them."""
        return logits(self.ground.z[rows], self.taught(mixture, rows, decay)[0])


class Exam:
    """Cross-validation on the labels: `parts` are classrooms that each lack a fold, whose labels they then predict.

    They use `rows`: all labelled items and FEW others. A held-out label counts by the number of rows it is nearest to, since
    chosen labels do not represent the pool evenly; by sqrt(n) times the mean of n labels at most, as importance weights are
    truncated (Ionides 2008), so that no label decides alone. Labels of a class absent from a part are skipped: they say
    nothing about how confident it may be about the others.
    """

    def __init__(self, classroom: Classroom, kept: Iterator[np.ndarray], rng: np.random.Generator) -> None:
        z, labelled = classroom.ground.z, classroom.labelled
        self.rows = np.union1d(rng.permutation(len(z))[:FEW], labelled)
        self.parts: list[Classroom] = []
        self.left_out: list[np.ndarray] = []  # positions of each part's held-out labels
        for keep in kept:
            self.parts.append(part := classroom.less(keep))
            out = np.setdiff1d(np.arange(len(labelled)), keep)
            self.left_out.append(out[np.isin(classroom.labels[out], part.labels)])
        at = np.concatenate([np.empty(0, dtype=np.int64), *self.left_out])
        nearest = neighbours(z, z[labelled], 1).positions[:, 0]
        self.labels = classroom.labels[at]
        near = np.maximum(np.bincount(nearest, minlength=len(labelled))[at], 1.0)
        self.weights = np.minimum(near, np.sqrt(len(at)) * near.mean()) if len(at) else near
        self.places = [np.searchsorted(self.rows, labelled[out]) for out in self.left_out]
        self.nothing = np.empty((0, classroom.classes))

    def answers(self, answer: Callable[[Classroom], np.ndarray]) -> np.ndarray:
        """Logits (m, C) of the held-out labels, given a function from a part to the logits of all rows."""
        parts = zip(self.parts, self.places, strict=True)
        return np.concatenate([self.nothing, *(answer(part)[at] for part, at in parts)])

    def mixture(self) -> Mixture:
        """The mixture that predicts the held-out labels best: first the decay of the head by itself, then the weights."""
        alone = {d: self.answers(lambda part, d=d: part.by_labels(d, self.rows)) for d in DECAYS}  # type: ignore[misc]
        decay = min(DECAYS, key=lambda d: self.counting([alone[d]], [1.0])[1])
        graph = self.answers(lambda part: part.by_graph(self.rows))
        weights = self.counting([graph, alone[decay]], BEFORE)[0]
        return Mixture(float(weights[0]), float(weights[1]), decay)

    def decay(self, mixture: Mixture) -> tuple[float, float]:
        """The best weight decay of the final head, and the factor that calibrates its logits."""

        def tried(decay: float) -> tuple[np.ndarray, float]:
            return self.counting([self.answers(lambda part: part.answers(mixture, self.rows, decay))], [1.0])

        found = {decay: tried(decay) for decay in LEARNT}
        best = min(LEARNT, key=lambda decay: found[decay][1])
        return best, float(found[best][0][0])

    def counting(self, opinions: Sequence[np.ndarray], before: Sequence[float]) -> tuple[np.ndarray, float]:
        return strengths(opinions, self.labels, before, self.weights)


def folds(n: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The positions kept in each of FOLDS random folds of n labels. Not stratified: stratified folds would hide how much the
    class shares depend on which labels were drawn."""
    order = rng.permutation(n)
    for fold in range(min(FOLDS, n)):
        keep = np.sort(order[np.arange(n) % FOLDS != fold])
        if len(keep):
            yield keep


def linear_head(net: nn.Module, rows: Tensor) -> nn.Linear:
    """The only layer of a network that has parameters, whose answers for these rows are the network's own."""
    layers = [m for m in net.modules() if any(True for _ in m.parameters(recurse=False))]
    try:
        if len(layers) == 1 and isinstance(layers[0], nn.Linear) and layers[0].bias is not None:
            return find_head(net, rows)[1]
    except ModelError:
        pass
    raise ModelError(
        "auto trains a linear head on feature vectors, got a larger network; use net='linear', 'waves' or "
        "'frozen:efficientnet-lite2', or learner='fixmatch' to train a whole network"
    )
