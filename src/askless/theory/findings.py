"""The quantities of NPC, CRC and dynamicAL, computed for a trained learner from its own network and labelled items."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from askless import kernels, theory
from askless.active.learner import ActiveLearner
from askless.base.errors import AsklessError, InputError
from askless.base.rng import stream
from askless.learn import Training, admissible_rate
from askless.learn.observe import PlainItems
from askless.learn.rate import Admissible
from askless.theory import Agreement, Bounds, Curves, Descent, DescentRate, Minimum, Modes, Spectrum
from askless.theory.inputs import as_count
from askless.theory.spectrum import eigenbasis

Progress = Callable[[int, int, str], None]

TIMES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # steps at which dynamicAL's theorem 1 is looked at
QUERY = 50  # items of a random query
DRAWS = 150  # random queries for Kendall's tau; they share one kernel, so they cost next to nothing
HORIZON = 10_000  # steps of the linearised model
WIDE_ITEMS, WIDTH, WIDE_STEPS = 30, 2000, 50  # of the wide network


class Spectra(NamedTuple):
    """Eigenvalues of the last layer's kernel and of K, the one over all layers."""

    last: Spectrum
    all: Spectrum
    values_last: np.ndarray  # (n,) ascending
    values_all: np.ndarray  # (n,)
    weyl: bool  # no eigenvalue of K lies below the last layer's
    weyl_min: tuple[float, float]  # the smallest of all n, last layer and all layers


class Steps(NamedTuple):
    """Step sizes: of the squared error, summed over the items, under K; of the mean cross entropy for the last layer."""

    squared: DescentRate  # at the best step
    cross_entropy: Admissible  # with the learner's momentum
    own: float  # the learning rate of the learner, NaN where it has none
    momentum: float


class Theorems(NamedTuple):
    """The labels against K: alignment A, generalisation bound B, and dynamicAL's theorems 1 and 2 on them."""

    alignment: float
    alignment_share: float  # A / (lambda_max T), 1 where the labels lie on the largest mode
    bound: float
    generalisation: Bounds
    generalisation_sharp: Bounds
    eta: float  # 1 / lambda_max: the largest step of theorem 1, at which no mode overshoots
    times: tuple[int, ...]
    convergence: tuple[Bounds, ...]  # at each of `times`
    convergence_sharp: tuple[Bounds, ...]


class Drift(NamedTuple):
    """The discrepancy of the start and all examined items, under the kernel divided by its mean diagonal: MMD / B grows
    with the kernel's scale, and the bound is for kernels of about unit diagonal."""

    start: int  # items of the start, which come first
    mmd_squared: float
    mmd: float  # 0 where the square is negative
    over_bound: float  # MMD / B
    scale: float  # the kernel's mean diagonal


class Dynamics(NamedTuple):
    """Training dynamics G of the labelled items, and what random queries add."""

    cross_entropy: float  # exact
    cross_entropy_kernel: float  # as K has it, which supposes that the outputs share one kernel
    squared: float  # as K has it
    query: int  # items of a query
    ratios: np.ndarray  # (queries,)  approximation ratios; empty where there is nothing to query
    tau_query: int
    tau: Agreement | None  # of G_MSE and A


class Sample(NamedTuple):
    """Labelled items, then others whose true label is known, at most `items` of both."""

    K: np.ndarray  # (n, n)
    residual: np.ndarray  # (n, C)  f - Y
    labels: np.ndarray  # (n,)
    first: int  # how many come first that are labelled


class Linearised(NamedTuple):
    """The linearised model, trained on from the present residuals."""

    eta: float
    test_items: int
    curves: Curves  # `test` is empty without test items
    minimum: Minimum | None  # of the test loss


class Wide(NamedTuple):
    """NPC's theorem 1, checked on a wide network that is trained on the learner's features."""

    items: int
    width: int
    eta: float
    descent: Descent


class Findings(NamedTuple):
    """What `examine` found. K: the tangent kernel of n labelled items over all layers, divided by the number of classes."""

    labelled: int
    positions: np.ndarray  # (n,)  of the examined items in the pool
    classes: int
    spectra: Spectra
    steps: Steps
    theorems: Theorems
    drift: Drift | None
    dynamics: Dynamics
    modes: Modes | None  # of a sample of the pool: what its labelled half learns of the true labels
    linearised: Linearised
    wide: Wide | None
    notes: tuple[str, ...]  # what was left out, and why


def examine(
    learner: ActiveLearner, *, items: int = 200, queries: int = 20, seed: int = 0, progress: Progress | None = None
) -> Findings:
    """What the theory says about a trained learner, seen by its network in eval mode and in float64.

    At most `items` of the labelled items are looked at (of more, up to half come from the start, which is what the first
    round was trained on), and as many test items: so no kernel has more than `items` rows, whatever the pool. `queries`
    random sets of unlabelled items are drawn for the approximation ratio. `progress(done, total, text)` is called along.
    Same seed, same findings.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, net="mlp", learner=al.Supervised(steps=5), strategy="random")
    >>> _ = learner.start_balanced(3)
    >>> _ = learner.fit()
    >>> found = examine(learner, items=20, queries=2)
    >>> type(found).__name__
    'Findings'
    """
    as_count("items", items, 4)
    as_count("queries", queries, 1)
    model = network_of(learner)
    places, start = choose_items(learner, items, seed)
    S, labels = learner.labelled[places], learner.known_labels[places]
    work = Work(learner, model, S, labels, items, seed, progress, total=3 * learner.classes + queries + 1)
    if learner.rounds and learner.rounds[-1]["labels"] < len(learner.labels):
        told = len(learner.labels) - learner.rounds[-1]["labels"]
        work.notes.append(f"{told} labels came after the last training; the network was not trained on them.")

    seen = kernels.look(model, work.at(S), head=learner.head)
    K_last = kernels.ntk(model, work.at(S), head=learner.head).numpy() / learner.classes
    K = work.kernel(work.at(S), f"kernel of {len(S)} labelled items")
    Y = theory.one_hot(labels, learner.classes)
    residual = seen.logits.numpy() - Y
    spectra = both_spectra(K_last, K, work.notes)
    theorems = both_theorems(K, Y)
    sample = of_the_pool(work)
    if start is None:
        work.notes.append("No discrepancy: it needs two rounds of training, the first with at least two labels.")
    return Findings(
        labelled=len(learner.labels),
        positions=S,
        classes=learner.classes,
        spectra=spectra,
        steps=step_sizes(work, K, seen.features),
        theorems=theorems,
        drift=None if start is None else drift(K, start, theorems.bound),
        dynamics=dynamics(work, K, seen.logits, Y, queries, sample),
        modes=None if sample is None else theory.modes(sample.K, sample.labels, np.arange(sample.first)),
        linearised=linearised(work, K, residual),
        wide=wide_network(work, seen.features.numpy()),
        notes=tuple(work.notes),
    )


def network_of(learner: ActiveLearner) -> nn.Module:
    """The trained network in float64, or an error in words.

    float64: a kernel's smallest eigenvalues are below the rounding of float32 gradients.
    """
    if not learner.learner.has_network:
        raise InputError(
            f"expected a learner that trains a network, got {type(learner.learner).__name__}, which the theory does not "
            "cover; use Auto, FixMatch or Supervised"
        )
    if not learner.labels:
        raise AsklessError("expected a learner with labelled items, got none; tell it some labels and train it first")
    if learner.model is None:
        raise AsklessError(f"expected a trained learner, got one with {len(learner.labels)} labels and no training yet")
    return copy.deepcopy(learner.model).cpu().double().eval()


def choose_items(learner: ActiveLearner, items: int, seed: int) -> tuple[np.ndarray, int | None]:
    """Places (n,) of the examined items among the labelled ones, in their order, and how many of them are of the start;
    None where there was no later round, or where the start is too small for a discrepancy."""
    n = len(learner.labels)
    first = learner.rounds[0]["labels"] if len(learner.rounds) > 1 else n
    rng = stream(seed, "examined items")
    if not 2 <= first < n:
        return some_of(rng, n, items), None
    of_start = min(first, max(items // 2, items - (n - first)))
    rest = first + some_of(rng, n - first, items - of_start)
    return np.concatenate([some_of(rng, first, of_start), rest]), of_start


def unlabelled(learner: ActiveLearner) -> np.ndarray:
    return np.setdiff1d(np.arange(len(learner.pool)), learner.labelled)


def some_of(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """k of 0..n-1 at random, or all of them, ascending."""
    return np.arange(n) if k >= n else np.sort(rng.choice(n, k, replace=False))


@dataclass
class Work:
    """What every part needs: the learner, its network, the examined items, and where to say what was left out."""

    learner: ActiveLearner
    model: nn.Module
    S: np.ndarray  # positions of the examined items
    labels: np.ndarray
    items: int
    seed: int
    progress: Progress | None
    total: int  # steps that the progress bar counts
    done: int = 0
    notes: list[str] = field(default_factory=list)

    def count(self, text: str, more: int = 1) -> None:
        self.done = min(self.done + more, self.total)
        if self.progress is not None:
            self.progress(self.done, self.total, text)

    def at(self, positions: np.ndarray) -> PlainItems:
        return PlainItems(self.learner.views, positions)

    def kernel(self, x: PlainItems | Tensor, text: str, x2: PlainItems | None = None) -> np.ndarray:
        """The tangent kernel over all layers, averaged over the outputs."""
        self.count(text, 0)
        K = kernels.ntk(self.model, x, x2, layers="all", progress=lambda done, total: self.count(text))
        return np.asarray(K.numpy() / self.learner.classes)


def both_spectra(K_last: np.ndarray, K: np.ndarray, notes: list[str]) -> Spectra:
    last, every = eigenbasis(K_last).values, eigenbasis(K).values
    if every[-1] == 0:
        raise AsklessError("expected a network whose outputs depend on its weights, got a kernel of zeros")
    if np.allclose(K, K_last, rtol=0, atol=1e-9 * every[-1]):
        notes.append("The network is a linear head on fixed features: all its layers are the last one.")
    # K is the last layer's kernel plus that of the other layers, which is positive semi-definite (Weyl)
    weyl = bool((every >= last - 1e-9 * every[-1]).all())
    return Spectra(theory.spectrum(K_last), theory.spectrum(K), last, every, weyl, (float(last[0]), float(every[0])))


def step_sizes(work: Work, K: np.ndarray, phi: Tensor) -> Steps:
    training = work.learner.learner
    own, momentum = float("nan"), 0.0
    if isinstance(training, Training):
        own, momentum = training.lr, training.momentum if training.optimiser == "sgd" else 0.0
    else:
        work.notes.append(
            f"{type(training).__name__} computes its head without gradient descent: the step sizes are those that gradient "
            "descent on this head would have."
        )
    _, layer = kernels.find_head(work.model, work.at(work.S), work.learner.head)
    admissible = admissible_rate(phi, momentum, bias=layer.bias is not None)
    return Steps(theory.descent_rate(K), admissible, own, momentum)


def both_theorems(K: np.ndarray, Y: np.ndarray) -> Theorems:
    top = theory.spectrum(K).lambda_max
    A, eta = theory.alignment(K, Y), 1 / top
    generalisation = theory.generalisation_bounds(K, Y)
    return Theorems(
        alignment=A,
        alignment_share=A / (top * float(np.sum(Y * Y))),
        bound=generalisation.value,
        generalisation=generalisation,
        generalisation_sharp=theory.sharp_generalisation_bounds(K, Y),
        eta=eta,
        times=TIMES,
        convergence=tuple(theory.convergence_bounds(K, Y, eta, t) for t in TIMES),
        convergence_sharp=tuple(theory.sharp_convergence_bounds(K, Y, eta, t) for t in TIMES),
    )


def drift(K: np.ndarray, start: int, bound: float) -> Drift:
    scale = float(np.diag(K).mean())
    mmd = theory.mmd(K / scale, start)
    return Drift(start, theory.mmd_squared(K / scale, start), mmd, mmd / (bound * scale**0.5), scale)


def dynamics(work: Work, K: np.ndarray, logits: Tensor, Y: np.ndarray, queries: int, sample: Sample | None) -> Dynamics:
    S = (work.at(work.S), work.labels)
    exact = kernels.gradient_stats(work.model, *S, against=S).dot
    assert exact is not None
    query, ratios = approximation_ratios(work, queries)
    tau_query, tau = rank_agreement(work, sample)
    return Dynamics(
        cross_entropy=float(exact.sum()),
        cross_entropy_kernel=theory.training_dynamics(K, theory.softmax_residual(logits, Y)),
        squared=theory.training_dynamics(K, logits.numpy() - Y),
        query=query,
        ratios=ratios,
        tau_query=tau_query,
        tau=tau,
    )


def approximation_ratios(work: Work, queries: int) -> tuple[int, np.ndarray]:
    """Items of a query, and R(Q|S) = sum_u Delta(u|S) / Delta(Q|S) of random queries with pseudo labels."""
    free = unlabelled(work.learner)
    size = min(QUERY, work.items, len(free))
    if size < 2:
        work.notes.append(f"No approximation ratio: a query needs two unlabelled items, got {len(free)}.")
        work.count("", queries)
        return size, np.empty(0)
    rng = stream(work.seed, "approximation ratio")
    labelled = (work.at(work.S), work.labels)
    ratios = []
    for _ in range(queries):
        ratios.append(approximation_ratio(work.model, work.at(rng.choice(free, size, replace=False)), labelled))
        work.count("random queries")
    return size, np.array(ratios)


def approximation_ratio(model: nn.Module, query: PlainItems, labelled: tuple[PlainItems, np.ndarray]) -> float:
    """R(Q|S) of one query with pseudo labels, S given by its items and labels."""
    to_labelled = kernels.gradient_stats(model, query, against=labelled)
    to_itself = kernels.gradient_stats(model, query, against=(query, None))
    sums = (float(a.sum()) for a in (to_labelled.sq, to_labelled.dot, to_itself.dot) if a is not None)
    return theory.approximation_ratio_from_sums(*sums)


def of_the_pool(work: Work) -> Sample | None:
    """At most `items` of the pool, up to half of them labelled; None with fewer than two others of known true labels."""
    pool, C = work.learner.pool, work.learner.classes
    rng = stream(work.seed, "dynamics and alignment")
    places = some_of(rng, len(work.S), work.items // 2)
    free = unlabelled(work.learner)
    known = free[pool.labels[free] >= 0]
    others = known[some_of(rng, len(known), work.items - len(places))]
    if len(others) < 2:
        work.notes.append(
            "No Kendall's tau and no modes: they need at least two unlabelled items with known true labels, got "
            f"{len(others)}."
        )
        work.count("", C)
        return None
    both = np.concatenate([work.S[places], others])
    K = work.kernel(work.at(both), f"kernel of {len(places)} labelled and {len(others)} unlabelled items")
    labels = np.concatenate([work.labels[places], pool.labels[others]])
    f = kernels.look(work.model, work.at(both), head=work.learner.head).logits.numpy()
    return Sample(K, f - theory.one_hot(labels, C), labels, len(places))


def rank_agreement(work: Work, sample: Sample | None) -> tuple[int, Agreement | None]:
    """Items of a query, and Kendall's tau of G_MSE and A over random queries."""
    if sample is None:
        return 0, None
    size = min(QUERY, (len(sample.K) - sample.first) // 2)
    Y = theory.one_hot(sample.labels, work.learner.classes)
    S = np.arange(sample.first)
    return size, theory.dynamics_alignment_tau(sample.K, sample.residual, Y, S, size, DRAWS, work.seed)


def linearised(work: Work, K: np.ndarray, residual: np.ndarray) -> Linearised:
    """Losses of the linearised model at 1 / lambda_max: nearer to 2 / lambda_max the largest mode changes its sign in every
    step, and with it the test loss."""
    learner, eta = work.learner, 1 / theory.spectrum(K).lambda_max
    times = np.unique(np.concatenate([[0], np.geomspace(1, HORIZON, 200).round()]))
    if learner.pool.test is None:
        work.notes.append("No test loss: the pool has no test items.")
        work.count("", learner.classes)
        curves = theory.loss_curves(K, K, residual, residual, times, eta)
        return Linearised(eta, 0, curves._replace(test=np.empty(0)), None)
    labels = learner.pool.test[1]
    picks = some_of(stream(work.seed, "test items"), len(labels), work.items)
    x = chosen_test_items(learner, picks)
    f = kernels.look(work.model, x, head=learner.head).logits.numpy()
    K_test = work.kernel(x, f"kernel of {len(picks)} test items", work.at(work.S))
    parts = (K, K_test, residual, f - theory.one_hot(labels[picks], learner.classes))
    minimum = theory.steps_to_minimum(*parts, eta, HORIZON)
    return Linearised(eta, len(picks), theory.loss_curves(*parts, times, eta), minimum)


def chosen_test_items(learner: ActiveLearner, picks: np.ndarray) -> Tensor:
    """Some of the test items, of which only these are kept in memory."""
    kept, before = [], 0
    for part in learner.test_items():
        inside = picks[(picks >= before) & (picks < before + len(part))] - before
        kept.append(part[torch.from_numpy(inside)])
        before += len(part)
    return torch.cat(kept)


def wide_network(work: Work, phi: np.ndarray) -> Wide | None:
    """Gradient descent of a wide two-layer ReLU network on some items' features, scaled to unit length; the target is +1 for
    their largest class and -1 for the rest."""
    work.count("a wide network")
    picks = some_of(stream(work.seed, "wide network"), len(phi), WIDE_ITEMS)
    picks = picks[np.linalg.norm(phi[picks], axis=1) > 0]
    if len(picks) == 0:
        work.notes.append("No wide network: every feature of the labelled items is zero.")
        return None
    X = phi[picks] / np.linalg.norm(phi[picks], axis=1, keepdims=True)
    # The first weights are Gaussian in every direction, so only the angles of the items count: in coordinates of their own
    # span the network is the same, with at most as many inputs as items.  X = R^T Q^T, (k, d) -> (k, min(k, d))
    X = np.linalg.qr(X.T)[1].T
    y = np.where(work.labels[picks] == np.bincount(work.labels[picks]).argmax(), 1.0, -1.0)
    eta = 0.9 / theory.spectrum(theory.wide_relu_kernel(X)).lambda_max
    net = theory.wide_relu(X.shape[1], WIDTH, seed=work.seed)
    return Wide(len(X), WIDTH, eta, theory.check_descent(X, y, eta, WIDE_STEPS, net))
