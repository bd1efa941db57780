"""`auto`, for feature vectors: labels spread along a graph, and a linear head learns what they come to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from torch import Tensor, nn

from askless.base.errors import ModelError
from askless.base.machine import limited
from askless.base.options import Count, NotNegative, Several, options
from askless.base.rng import Seed, stream
from askless.data import Views
from askless.kernels import features, find_head
from askless.learn.learner import Course, Learnt, Task, Watch
from askless.learn.log import Log
from askless.learn.propagation import Metric, Nearest, graph_of, neighbours, prepared, propagate, with_more
from askless.learn.ranks import these
from askless.learn.shares import balanced, class_shares, likeliest
from askless.learn.temperature import temperature
from askless.learn.training import Fitted

FOLDS = 5  # parts of the labels that are left out in turn
FEW = 1000  # items that a head learns from which only tells how sure one may be
TILE = 1024  # rows that are squared at a time
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
    (`shares.class_shares`). The log says how far, `toward_equal`. The same five parts tell how sure the head may be of its
    answers: they are divided by the `temperature` that suits labels it has not seen.

    The head learns in the `directions` main directions of wider features. `decay` is its weight decay, in units of the
    features' mean squared length. Of pools with more than `items` items, so many are learnt from, drawn at random once for
    all rounds, and all that have a label.
    """

    neighbours: Count = 15
    rounds: Count = 3
    directions: Count = 256
    decay: NotNegative = 1e-4
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
        """Sets the head of `net`; what `before` knows of the pool need not be found again. There are no steps: of the course
        it uses device, log, watch and bar."""
        task, course = task.checked(), course or Course()
        head = linear_head(net.cpu(), task.views.plain(torch.arange(min(task.size, 8))))
        written = Log(course.log if these().is_first else None)
        at = np.sort(stream(0, "items").permutation(task.size)[: self.items])  # in every round the same
        ground = before.ground if isinstance(before, Distilled) and before.options == self else None
        if ground is None or not ground.is_of(net, task.views, at):
            ground = Ground.of(net, task.views, at, self)
        # Steps this short are no faster with more threads, and beside other work up to thirty times slower.
        with course.watched() as watch, limited(1):
            metrics = self.learn(ground.including(net, task), task, head, seed, written, watch)
        net.to(course.device).eval()
        return Distilled(net, metrics, task.views, task.size, self, ground)

    def learn(
        self, ground: "Ground", task: Task, head: nn.Linear, seed: Seed, written: Log, watch: Watch
    ) -> list[dict[str, float]]:
        order = np.argsort(ground.at)
        labelled = order[np.searchsorted(ground.at, task.labelled, sorter=order)]
        classroom = Classroom(ground, labelled, task.labels, task.classes, self)
        without = [classroom.less(keep) for keep in folds(task.labels, stream(seed, "folds"))]
        shares = class_shares(classroom.counted, [part.counted for part in without], np.unique(task.labels))
        metrics: list[dict[str, float]] = []
        for done, (weights, loss) in enumerate(classroom.taught(shares.shares), 1):
            metrics.append({"step": done, "loss": loss, "toward_equal": shares.toward_equal})
            if done == self.rounds:
                few = np.sort(stream(seed, "few").permutation(len(ground.at))[:FEW])
                t = metrics[-1]["temperature"] = temperature(*classroom.unseen(without, shares.shares, few))
                ground.space.put(Weights(weights.slope / t, weights.offset / t), head)
            written.add(metrics[-1])
            watch(done, self.rounds, metrics[-1])
        return metrics


@dataclass(frozen=True)
class Distilled(Fitted):
    """The head, and the ground on which it was taught."""

    options: Auto
    ground: "Ground"


class Ground(NamedTuple):
    """What does not depend on labels: the items `at` (n,) that are learnt from, the head's inputs `z` (n, k) in a `space`,
    and a `graph` (n, n) of the `nearest` among `rows` (n, d)."""

    at: np.ndarray
    space: "Space"
    z: Tensor
    rows: Tensor
    nearest: Nearest
    graph: sparse.csr_array

    @classmethod
    def of(cls, net: nn.Module, views: Views, at: np.ndarray, learner: Auto) -> "Ground":
        inputs, rows = looked_at(net, views, at)
        space = Space.of(inputs, learner.directions)
        z = space.into(inputs)
        rows = compared(z, rows)
        nearest = neighbours(rows, rows, min(learner.neighbours, len(rows) - 1), itself=0)
        return cls(at, space, z, rows, nearest, graph_of(nearest))

    def is_of(self, net: nn.Module, views: Views, at: np.ndarray) -> bool:
        """Whether it is of these items as this network sees them, by a look at a few."""
        if not np.array_equal(self.at, at):
            return False
        inputs, _ = looked_at(net, views, at[:8])
        return inputs.shape[1:] == self.space.middle.shape and torch.allclose(
            self.space.into(inputs), self.z[:8], rtol=0, atol=1e-4
        )

    def including(self, net: nn.Module, task: Task) -> "Ground":
        """One with all items that have a label; those that are missing come last."""
        more = np.setdiff1d(task.labelled, self.at)
        if len(more) == 0:
            return self
        inputs, rows = looked_at(net, task.views, more)
        z = self.space.into(inputs)
        rows = compared(z, rows)
        nearest = with_more(self.nearest, self.rows, rows)
        both = torch.cat([self.z, z]), torch.cat([self.rows, rows])
        return Ground(np.concatenate([self.at, more]), self.space, *both, nearest, graph_of(nearest))


def looked_at(net: nn.Module, views: Views, at: np.ndarray) -> tuple[Tensor, Tensor | None]:
    """The head's inputs (n, d) of these items; and their own rows where a network makes more of them."""
    rows = views.plain(torch.from_numpy(at)).float().cpu()
    inputs, rows = features(net, rows), rows.flatten(1)
    return inputs, None if inputs.shape == rows.shape and torch.equal(inputs, rows) else rows


def compared(z: Tensor, rows: Tensor | None) -> Tensor:
    """What neighbours are found by. A network that makes more of its rows takes them for measured numbers, of which length
    tells as much as direction."""
    metric: Metric = "cosine" if rows is None else "euclidean"
    return prepared("features", z if rows is None else rows, metric)


class Classroom:
    """Labels (L,) of the rows `labelled` (L,) of a ground, spread to all; a head learns what they come to."""

    def __init__(self, ground: Ground, labelled: np.ndarray, labels: np.ndarray, classes: int, learner: Auto) -> None:
        self.ground, self.labelled, self.labels, self.classes = ground, labelled, labels, classes
        self.learner, self.given = learner, one_hot(labels, classes)
        self.spread = propagate(ground.graph, labelled, labels, classes, tol=ENOUGH)
        alone = fit_head(ground.z[labelled], self.given, learner.decay)
        # The mean of both logarithms of probabilities.
        self.counted = likeliest(np.sqrt(self.spread * softmax(logits(ground.z, alone), axis=1)))

    def less(self, keep: np.ndarray) -> "Classroom":
        """One with these of the labels only."""
        return Classroom(self.ground, self.labelled[keep], self.labels[keep], self.classes, self.learner)

    def taught(self, shares: np.ndarray, few: np.ndarray | None = None) -> Iterator[tuple["Weights", float]]:
        """A head after each round, and its loss; taught on all rows, or on `few` (f,) of them and those with a label."""
        rows = np.arange(len(self.ground.z)) if few is None else np.union1d(few, self.labelled)
        z, probs, weights = self.ground.z[rows], self.spread[rows], None
        for _ in range(self.learner.rounds):
            targets = torch.from_numpy(balanced(probs, shares)).float()
            targets[np.searchsorted(rows, self.labelled)] = self.given
            weights = fit_head(z, targets, self.learner.decay, weights)
            log_probs = log_softmax(logits(z, weights), axis=1)
            yield weights, -float((targets.numpy() * log_probs).sum(axis=1).mean())
            probs = np.exp(log_probs)

    def unseen(
        self, without: Sequence["Classroom"], shares: np.ndarray, few: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logits (m, C), labels (m,) and weights (m,) of labelled rows, by heads that were taught without their labels.

        A label weighs as many rows as it is the nearest to. Labels of classes that a head has not heard of are left out: its
        answers to them do not tell how sure it may be of the others.
        """
        z = self.ground.z
        nearest = neighbours(z, z[self.labelled], 1)[1][:, 0]
        weights = np.bincount(nearest, minlength=len(self.labelled)).astype(float)
        said = np.zeros((len(self.labelled), self.classes))
        heard = np.zeros(len(self.labelled), dtype=bool)
        for part in without:
            left_out = ~np.isin(self.labelled, part.labelled)
            *_, (head, _) = part.taught(shares, few)
            said[left_out] = logits(z[self.labelled[left_out]], head)
            heard |= left_out & np.isin(self.labels, part.labels)
        return said[heard], self.labels[heard], weights[heard]


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
        centred = rows - middle
        squares = torch.stack([part.double().square().sum() for part in centred.split(TILE)])
        length = (squares.sum() / len(rows)).sqrt().clamp_min(1e-30).float()
        if rows.shape[1] <= directions:
            return cls(middle, torch.eye(rows.shape[1]), length)
        centred /= length
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


@torch.no_grad()
def fit_head(z: Tensor, targets: Tensor, decay: float, start: Weights | None = None) -> Weights:
    """The linear head of least mean cross-entropy to targets (n, C), whose rows sum to 1, plus decay / 2 |slope|^2; L-BFGS
    from `start`, or 0."""
    # A row per class: products and softmax over rows as short as a few classes are three to twenty times slower.
    (n, k), wanted = z.shape, targets.T.contiguous()
    C = len(wanted)

    def parts(flat: Tensor) -> tuple[Tensor, Tensor]:
        return flat[: C * k].view(C, k), flat[C * k :]

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        slope, offset = parts(torch.from_numpy(flat).float())
        log_probs = torch.log_softmax(torch.addmm(offset[:, None], slope, z.T), dim=0)  # (C, n)
        loss = -torch.vdot(wanted.flatten(), log_probs.flatten()) / n + decay / 2 * slope.square().sum()
        off = log_probs.exp_().sub_(wanted).div_(n)
        gradient = torch.cat([torch.addmm(slope, off, z, beta=decay).flatten(), off.sum(dim=1)])
        return float(loss), gradient.double().numpy()

    first = (
        np.zeros((k + 1) * C) if start is None else torch.cat([start.slope.T.flatten(), start.offset]).double().numpy()
    )
    found = minimize(
        loss_and_gradient, first, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "gtol": 1e-6}
    )
    slope, offset = parts(torch.from_numpy(found.x).float())
    return Weights(slope.T, offset)


def logits(z: Tensor, weights: Weights) -> np.ndarray:
    """(n, C) in float64."""
    return (z @ weights.slope + weights.offset).double().numpy()


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
    """The only layer of a network that has parameters, whose answers for these rows are the network's own."""
    layers = [m for m in net.modules() if any(True for _ in m.parameters(recurse=False))]
    try:
        if len(layers) == 1 and isinstance(layers[0], nn.Linear) and layers[0].bias is not None:
            return find_head(net, rows)[1]
    except ModelError:
        pass
    raise ModelError(
        "auto trains a linear head on feature vectors, got a network that is more than that; use net='linear', 'waves' or "
        "'frozen:efficientnet-lite2', or learner='fixmatch' for a network that is trained whole"
    )
