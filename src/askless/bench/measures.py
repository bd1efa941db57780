"""What the papers' figures measure beside accuracy: looks at a learner after a round, or at a network along its training."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from askless import kernels, theory
from askless.acquire import CRC
from askless.active.learner import ActiveLearner
from askless.base.errors import InputError
from askless.base.options import LATER, Several, options
from askless.base.rng import stream
from askless.bench.plan import Moment, Sample
from askless.learn.observe import PlainItems
from askless.linalg import GramRows
from askless.linalg.gram import score_batches
from askless.nets.cnn import CNNGap
from askless.nets.mlp import MLP
from askless.run.steps.measure import calibration_error
from askless.theory.findings import approximation_ratio, unlabelled

Width = Literal["finite", "infinite"]


def items(learner: ActiveLearner, positions: np.ndarray) -> PlainItems:
    return PlainItems(learner.views, np.asarray(positions, dtype=np.int64))


def network(learner: ActiveLearner) -> nn.Module:
    return learner.first_network if learner.model is None else learner.model


def kernel(learner: ActiveLearner, model: nn.Module, positions: np.ndarray, width: Width = "finite") -> np.ndarray:
    """The tangent kernel over all layers, averaged over the outputs, (n, n): that of the network, or of its wide limit."""
    x = items(learner, positions)
    if width == "infinite":
        return kernels.infinite(x, net=wide_limit(model)).numpy()
    return kernels.ntk(model, x, layers="all").numpy() / learner.classes


def wide_limit(model: nn.Module) -> kernels.InfiniteMLP | kernels.InfiniteCNN:
    """The network with infinitely many units or channels in every hidden layer.

    >>> wide_limit(al.nets.make("cnn-gap", classes=10, shape=(1, 8, 8))).depth
    3
    """
    hidden = [part for part in model.modules() if isinstance(part, nn.ReLU)]
    if isinstance(model, CNNGap):
        return kernels.InfiniteCNN(depth=len(hidden))
    if isinstance(model, MLP) and hidden:
        return kernels.InfiniteMLP(depth=len(hidden))
    raise InputError(
        f'kernel="infinite": expected the network cnn-gap, or mlp with a hidden layer, got {type(model).__name__}; the '
        'kernels of infinite width have no max-pooling, BatchNorm or shortcuts; use one of these two, or kernel="finite"'
    )


@dataclass(frozen=True)
class UnlabelledAccuracy:
    """Accuracy on the items of the pool that have no label: what somebody gets who labels a part of a collection."""

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        learner = moment.learner
        free = unlabelled(learner)
        free = free[learner.pool.labels[free] >= 0]
        right = learner.predict_pool()[free].argmax(axis=1) == learner.pool.labels[free]
        return [Sample("unlabelled_accuracy", float(right.mean()))] if len(free) else []


@dataclass(frozen=True)
class Calibration:
    """The expected calibration error on the test items."""

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        learner = moment.learner
        assert learner.pool.test is not None
        probs = learner.predict_test()
        right = probs.argmax(axis=1) == np.asarray(learner.pool.test[1])
        return [Sample("calibration_error", calibration_error(probs.max(axis=1), right))]


@dataclass(frozen=True)
class Stability:
    """How much chance decides beside the labels: `times` trainings of the same labels, each from first weights and in an
    order of its own.

    `training_sd` is the standard deviation of their test accuracies, `training_agreement` the share of test items on which
    two of them agree. A network that was given as a module has first weights of its own, so only the order differs. Not for
    a learner with `patience`, whose validation data it does not have.
    """

    times: Several = 4

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        learner = moment.learner
        assert learner.pool.test is not None
        labels = np.asarray(learner.pool.test[1])
        seeds = stream(moment.seed, "stability").integers(2**62, size=self.times)
        guesses = np.stack([trained_again(learner, int(seed)).predict_test().argmax(axis=1) for seed in seeds])
        accuracies = (guesses == labels).mean(axis=1)
        pairs = [np.mean(a == b) for a, b in combinations(guesses, 2)]
        agreement = Sample("training_agreement", float(np.mean(pairs)))
        return [Sample("training_sd", float(accuracies.std(ddof=1))), agreement]


def trained_again(learner: ActiveLearner, seed: int) -> ActiveLearner:
    """The same labels, learnt from the start with another seed."""
    options = {name: getattr(learner, name) for name in ("net", "learner", "views", "calibrate", "device")}
    again = ActiveLearner(learner.pool, classes=learner.class_names, seed=seed, **options)
    again.labels = dict(learner.labels)
    again.fit()
    return again


def drift(K: np.ndarray, Y: np.ndarray, start: int) -> list[Sample]:
    """MMD of the first `start` items and all of them, B, and their ratio, under K (n, n) divided by its mean diagonal; Y are
    the labels (n, C).

    The bound is for kernels of about unit diagonal, and MMD / B is proportional to that scale, so that without it the ratio
    says how large the network's gradients are.
    """
    scale = float(np.diag(K).mean())
    mmd, bound = theory.mmd(K / scale, start), theory.generalisation_bound(K / scale, Y)
    ratio = mmd / bound
    raw = [Sample("kernel_scale", scale), Sample("unscaled_mmd_over_bound", ratio * scale)]
    return [Sample("mmd", mmd), Sample("bound", bound), Sample("mmd_over_bound", ratio), *raw]


@options
class MMDAndBound:
    """dynamicAL's figures 1 and 7 and table 10: how far the labelled items have drifted from the first `start` of them (MMD
    under the tangent kernel) against the generalisation bound B.

    The kernel is divided by its mean diagonal, `kernel_scale`. `kernel`: that of the trained network, or "infinite", that of
    the same network at infinite width, which training does not change (cnn-gap and mlp only).
    """

    start: int
    kernel: Width = field(default="finite", metadata=LATER)

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        learner = moment.learner
        if len(learner.labels) <= self.start:
            return []
        K = kernel(learner, network(learner), learner.labelled, self.kernel)
        return drift(K, theory.one_hot(learner.known_labels, learner.classes), self.start)


@options
class DynamicsAndAlignment:
    """dynamicAL's figure 2: over `draws` random queries of `size`, the training dynamics G_MSE(S u Q) against the alignment.

    The queries come from `among` items drawn from the unlabelled pool, so that one kernel serves all of them. `trained`:
    residuals and kernel of the trained network, else of the first one, where the outputs are near 0.

    `kernel="infinite"`: those of the same network at infinite width (cnn-gap and mlp only), trained on the squared error
    from outputs of 0. With these outputs both quantities are the same number; in the end they are kernel regression.
    """

    draws: int = 150
    size: int = 250
    among: int = 750
    trained: bool = True
    kernel: Width = field(default="finite", metadata=LATER)

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        learner = moment.learner
        model = network(learner) if self.trained else learner.first_network
        rng = stream(moment.seed, "dynamics and alignment")
        free = unlabelled(learner)
        others = rng.choice(free, min(self.among, len(free)), replace=False)
        all_items = np.concatenate([learner.labelled, others])
        K = kernel(learner, model, all_items, self.kernel)
        Y = theory.one_hot(learner.pool.labels[all_items], learner.classes)
        S = np.arange(len(learner.labelled))
        if self.kernel == "finite":
            f = kernels.look(model, items(learner, all_items)).logits.double().numpy()
        else:
            f = regression(K, Y, S) if self.trained else np.zeros_like(Y)
        agreement = theory.dynamics_alignment_tau(K, f - Y, Y, S, self.size, self.draws, moment.seed)
        numbers = zip(agreement.dynamics, agreement.alignment, strict=True)
        pairs = [s for i, (g, a) in enumerate(numbers) for s in (Sample("dynamics", g, i), Sample("alignment", a, i))]
        return [Sample("kendall_tau", agreement.tau), *pairs]


def regression(K: np.ndarray, Y: np.ndarray, S: np.ndarray) -> np.ndarray:
    """K(., S) K(S, S)^-1 Y_S: what gradient flow on the labels of S comes to from outputs of 0, for all items (n, C)."""
    return K[:, S] @ np.linalg.pinv(K[np.ix_(S, S)], hermitian=True) @ Y[S]


@dataclass(frozen=True)
class ApproximationRatio:
    """dynamicAL's figure 4, along the training: the mean over `draws` random queries of `size` of
    R(Q|S) = sum_u Delta(u|S) / Delta(Q|S), and their median, which a denominator near 0 does not upset. `x` is the
    epoch: passes over the labelled items."""

    size: int
    draws: int = 10
    seed: int = 0

    def __call__(self, learner: ActiveLearner, step: int, model: nn.Module) -> Sequence[Sample]:
        rng = stream(self.seed, "approximation ratio")  # the same queries at every look
        free = unlabelled(learner)
        labelled = (items(learner, learner.labelled), learner.known_labels)
        queries = [items(learner, rng.choice(free, self.size, replace=False)) for _ in range(self.draws)]
        ratios = [approximation_ratio(model, query, labelled) for query in queries]
        x = step * learner.learner.batch / len(learner.labels)  # type: ignore[attr-defined]
        middle = Sample("median_approximation_ratio", float(np.median(ratios)), x)
        return [Sample("approximation_ratio", float(np.mean(ratios)), x), middle]


@dataclass(frozen=True)
class TestNumbers:
    """Loss and accuracy on the test items along the training; `x` is the number of looks so far, the papers' "epoch" of
    semi-supervised training (steps between two measures)."""

    def __call__(self, learner: ActiveLearner, step: int, model: nn.Module) -> Sequence[Sample]:
        logits = torch.cat([logits_of(model, part) for part in learner.test_items()])
        labels = torch.from_numpy(learner.pool.test[1])
        x = step / learner.learner.evaluate_every  # type: ignore[attr-defined]
        right = float((logits.argmax(dim=1) == labels).double().mean())
        return [Sample("test_loss", float(F.cross_entropy(logits, labels)), x), Sample("accuracy_now", right, x)]


@torch.no_grad()
def logits_of(model: nn.Module, x: Tensor) -> Tensor:
    was = model.training
    model.eval()
    out = model(x).double()
    model.train(was)
    return out


@dataclass(frozen=True)
class EpochsToMinimum:
    """CRC's figure 3 (a): the epoch at which the test loss is smallest, after which it never falls below."""

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        losses = [(s.value, s.x) for s in moment.along if s.metric == "test_loss" and s.x]
        return [Sample("epochs_to_minimum", float(min(losses)[1]))] if losses else []


@dataclass(frozen=True)
class MaxInRound:
    """The best test accuracy seen within the round, which dynamicAL's authors report; looks at the test items, so it is not
    for anything but replication."""

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        seen = [s.value for s in moment.along if s.metric == "accuracy_now"]
        return [Sample("max_in_round", max(seen))] if seen else []


@dataclass(frozen=True)
class ScoredEigenvalues:
    """CRC's figure 3 (a): the eigenvalues for which the groups just asked for were chosen, each with the items that were
    labelled before, by the network that asked; `x` is the group's place, the best first."""

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        size = moment.info.get("group")
        if size is None or moment.scores is None:
            return []
        return [Sample("scored_lambda_min", float(v), i) for i, v in enumerate(moment.scores[::size])]


@dataclass(frozen=True)
class GroupEigenvalues:
    """CRC's figure 3 (b): the smallest non-zero eigenvalues of the labelled items with each of `groups` random groups."""

    group: int
    groups: int = 200

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        learner = moment.learner
        phi = kernels.features(network(learner), items(learner, np.arange(len(learner.pool))))
        rng = stream(moment.seed, "group eigenvalues")
        free = unlabelled(learner)
        drawn = rng.permutation(free)[: self.groups * self.group]
        drawn = drawn[: len(drawn) // self.group * self.group].reshape(-1, self.group)
        scores = score_batches(GramRows(phi.numpy(), CRC().bias, False), learner.labelled, drawn)
        return [Sample("group_lambda_min", float(v), i) for i, v in enumerate(scores.value)]


@dataclass(frozen=True)
class Boundary:
    """CRC's figure 1: the predictions on a grid over the plane, for a pool of points (N, 2)."""

    side: int = 120

    def __call__(self, moment: Moment) -> Sequence[Sample]:
        learner = moment.learner
        x = learner.pool.take(np.arange(len(learner.pool))).numpy()
        low, high = x.min(axis=0) - 0.3, x.max(axis=0) + 0.3
        axes = [np.linspace(a, b, self.side, dtype=np.float32) for a, b in zip(low, high, strict=True)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        moment.keep(
            {
                **{"x": x, "y": learner.pool.labels, "labelled": learner.labelled, "newest": moment.asked},
                **{"grid": grid, "probability": learner.predict_proba(grid)[:, 1]},
                "side": np.array([self.side, self.side]),
            }
        )
        return []
