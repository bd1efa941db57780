"""FixMatch (Sohn et al., NeurIPS 2020), optionally with pseudo-labels refined by DARP (Kim et al., NeurIPS 2020)."""

from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from askless.base.errors import InputError
from askless.base.options import Between, Count, NotNegative, Share, check_choice, options
from askless.data import Views
from askless.learn.darp import Refined, Solver, solve
from askless.learn.differing import check_differing
from askless.learn.material import Material
from askless.learn.training import Method, Training

TILE = 4096  # items whose distances are computed together


@options
class DARP:
    """How pseudo-labels are refined towards a class distribution: see `askless.darp`.

    `target`: "uniform" (NPC's choice), "labelled" (the labelled items' frequencies, right where these are a random sample),
    "nearest" (an estimate for labels that a strategy chose: see `nearest_counts`) or counts or shares, one per class.
    It acts after `warm_up` of all steps, and then solves again every `every` steps; in between the stored solution holds.
    `mask_on`: which confidence must reach the threshold, the refined one (as the authors do), the original, or both.

    `alpha` and `solver` as there.

    >>> al.FixMatch(steps=500, darp=al.DARP(target="labelled"))
    FixMatch(steps=500, darp=DARP(target='labelled'))
    """

    target: Any = "uniform"
    alpha: NotNegative = 2.0
    warm_up: Share = 0.4
    every: Count = 10
    mask_on: Literal["refined", "original", "both"] = "refined"
    solver: Solver = "newton"

    def __post_init__(self) -> None:
        if isinstance(self.target, str):
            check_choice("DARP", "target", self.target, ("uniform", "labelled", "nearest"))


@options
class FixMatch(Training):
    """A confident prediction on a weak view is the label of a strong view.

        L = mean CE(f(weak x), y) + weight / (mu B) sum_u 1[max q_u >= tau] CE(f(strong u), argmax q_u)

    with q = softmax(f(weak u) / temperature) of the live network in train mode, without gradient, and the sum divided by
    all mu B unlabelled items, kept or not. `darp` refines q first. The averaged network is the one that is used.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, learner=al.FixMatch(steps=5), net="mlp", seed=0)
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> learner.predict_pool().shape
    (100, 2)
    """

    mu: Count = 7
    tau: Share = 0.95
    weight: NotNegative = 1.0
    temperature: Annotated[float, Between(1e-6)] = 1.0
    darp: DARP | None = None
    ema: Share | None = 0.999
    embedded_views = (1, 2)

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        check_differing("FixMatch", net, views, size, "strong")

    def method(self, net: nn.Module, material: Material, classes: int) -> "FixMatchLoss":
        return FixMatchLoss(self, net, material, classes)


class FixMatchLoss(Method):
    def __init__(self, options: FixMatch, net: nn.Module, material: Material, classes: int) -> None:
        self.options, self.net, self.material = options, net, material
        self.refinement = Refinement(options.darp, options.steps, material, classes) if options.darp else None

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        B, tau = self.options.batch, self.options.tau
        x, y = self.material.labelled(B)
        items = self.material.unlabelled(self.options.mu * B)
        weak, strong = self.material.weak(items), self.material.strong(items)
        logits = self.net(torch.cat([x, weak, strong]))  # one pass: BatchNorm sees all of them
        on_labelled, on_weak, on_strong = logits.split([B, len(items), len(items)])
        q = torch.softmax(on_weak.detach() / self.options.temperature, dim=1)
        target, mask = q, q.amax(dim=1) >= tau
        if self.refinement is not None:
            target, mask = self.refinement(q, items, step, tau)
        labelled = F.cross_entropy(on_labelled, y)
        unlabelled = (F.cross_entropy(on_strong, target.argmax(dim=1), reduction="none") * mask).mean()
        numbers = {"labelled": labelled.item(), "unlabelled": unlabelled.item(), "kept": mask.float().mean().item()}
        return labelled + self.options.weight * unlabelled, numbers

    def state_dict(self) -> dict[str, Any]:
        return {} if self.refinement is None else self.refinement.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.refinement is not None:
            self.refinement.load_state_dict(state)


class Refinement:
    """The latest prediction of every item of the pool, P (N, K), and its refinement X, solved again now and then.

    P has the predictions of all ranks, X is what rank 0 has solved: both are the same on all.
    """

    def __init__(self, options: DARP, steps: int, material: Material, classes: int) -> None:
        self.options, self.first, self.ranks = options, round(options.warm_up * steps), material.ranks
        self.P = torch.full((material.size, classes), 1 / classes, dtype=torch.float64)
        self.X: Tensor | None = None
        self.nu: np.ndarray | None = None
        self.target = target_counts(options.target, material, classes)

    def __call__(self, q: Tensor, items: Tensor, step: int, tau: float) -> tuple[Tensor, Tensor]:
        """Target distributions (n, K) and mask (n,) for the items whose fresh predictions are q (n, K)."""
        # Where an item comes twice in a batch, the last prediction counts; index_put leaves that open with several threads.
        seen, fresh = self.ranks.gather(items), self.ranks.gather(q.double().cpu())
        _, last = np.unique(seen.numpy()[::-1], return_index=True)
        rows = torch.from_numpy(len(seen) - 1 - last)
        self.P[seen[rows]] = fresh[rows]
        original = q.amax(dim=1) >= tau
        if step < self.first:
            return q, original
        if self.X is None or (step - self.first) % self.options.every == 0:
            solved = self.ranks.first(self._solve)
            self.X, self.nu = torch.from_numpy(solved.X), solved.nu
        target = self.X[items].to(q.device, q.dtype)
        refined = target.amax(dim=1) >= tau
        mask = {"refined": refined, "original": original, "both": refined & original}[self.options.mask_on]
        return target, mask

    def _solve(self) -> Refined:
        return solve(self.P.numpy(), self.target, self.options.alpha, solver=self.options.solver, start=self.nu)

    def state_dict(self) -> dict[str, Any]:
        nu = None if self.nu is None else torch.from_numpy(self.nu.copy())
        return {"P": self.P.clone(), "X": None if self.X is None else self.X.clone(), "nu": nu}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.P, self.X = state["P"], state["X"]
        self.nu = None if state["nu"] is None else state["nu"].numpy()


def target_counts(target: Any, material: Material, classes: int) -> np.ndarray | None:
    """The counts that DARP aims at, or None for uniform ones."""
    if isinstance(target, str):
        if target == "nearest":
            return material.ranks.first(lambda: nearest_counts(material, classes))
        return None if target == "uniform" else np.maximum(material.class_counts(classes), 1e-12)
    counts = np.asarray(target, dtype=np.float64)
    if counts.shape != (classes,) or not np.isfinite(counts).all() or (counts < 0).any() or counts.sum() <= 0:
        raise InputError(
            f"DARP: expected target to be 'uniform', 'labelled', 'nearest', or {classes} counts or shares >= 0, one per "
            f"class, got {target!r}"
        )
    return counts


def nearest_counts(material: Material, classes: int) -> np.ndarray:
    """The pool's class counts (C,) as its labels tell them: each stands for the items nearest to it, and every class has one
    item more, for those that have no label yet.

    A strategy that covers the pool asks for rare items as soon as for common ones, so the frequencies of its labels are more
    balanced than the pool; what each label stands for is not. Items are compared as the network takes them.
    """
    known = material.plain_labelled()
    if known.ndim != 2 or not known.is_floating_point():
        raise InputError(
            f"DARP: target='nearest' needs a pool of feature vectors, got items of shape {tuple(known.shape[1:])}; use a "
            "frozen backbone, or pass target='uniform', 'labelled', or counts"
        )
    parts = torch.arange(material.size).split(TILE)
    nearest = torch.cat([torch.cdist(material.views.plain(part).to(known), known).argmin(dim=1) for part in parts])
    return np.bincount(material.plain_labels()[nearest.cpu()].numpy(), minlength=classes) + 1.0
