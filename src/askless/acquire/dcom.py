"""DCoM: balls whose radii labels decide, and the margin as coverage grows (Mishal & Weinshall, 2024)."""

import math
from typing import Annotated, Any

import numpy as np
import torch

from askless.acquire.clusters import Centred
from askless.acquire.probcover import CLASSES, TILE, Balls, first_radius, sq_distances, tiles
from askless.acquire.strategy import Selection, View, drawn, first_of_the_largest
from askless.acquire.uncertainty import margin
from askless.base.options import Between, Count, NotNegative, Several, Share, options


@options
class DCoM:
    r"""ProbCover while little is covered, margin once most of the pool is, and what lies between by one score:

    $$s(x) = S \cdot \text{unsure}(x) + (1 - S) \cdot \text{density}(x), \qquad
    S(c) = \frac{1 + e^{-k (1 - a)}}{1 + e^{-k (c - a)}}.$$

    density is the number of uncovered items in an item's ball, unsure is 1 - margin over the pool's range; both are divided
    by their largest value among what is left. c is the share of the pool in the balls of labelled items: S, the competence,
    goes from 0 to 1 around c = `centre` (a), with `slope` (k).

    Every labelled item has a radius of its own: the largest one, up to `most` times the first radius, at which the model's
    predictions in the ball agree with the label in a share of 0.4 + 0.2 c. Balls of unlabelled items have the mean of these
    radii. The first radius is `delta`, or ProbCover's (`alpha`, `classes`, `normalize`, `targets` are as there); it also
    gives the c of the share above, for which the authors' code has the radii of the round before. They keep a radius once
    it is found; here all follow the present model, so that a selection depends on its arrays only.

    Without `probs` or labels S is 0 and all radii are the first: ProbCover. Scores are s(x) at the moment of choice. `info`:
    the mean radius `delta`, `competence`, and the share `covered` in the end and `covered_before`.

    >>> F = [[0.0], [0.4], [0.8], [5.0]]
    >>> al.select(al.DCoM(delta=0.5, normalize=False), 1, features=F).indices
    array([1])
    """

    delta: NotNegative | None = None
    most: Annotated[float, Between(1, 1e6)] = 1.5
    centre: Share = 0.8
    slope: NotNegative = 50.0
    alpha: Share = 0.95
    classes: Several | None = None
    normalize: bool = True
    targets: Count = 8192
    name = "dcom"
    needs = ("features",)
    wants = ("probs", "labels")

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0))
        x = Centred(view["features"], self.normalize, view.max_memory)
        unit = 1.0 if x.unit is None else float(x.unit)
        first = first_radius(x, self.delta, self.alpha, self.classes or view.classes, rng, view.max_memory)
        targets = drawn(view.N, self.targets, rng)
        knows = view.probs is not None and view.labels is not None and len(view.labelled) > 0
        radii = self.radii(view, x, first, targets) if knows else np.full(len(view.labelled), first)
        delta = float(radii.mean()) if knows else first
        balls = Balls(x, view.unlabelled, targets, delta, view.max_memory)
        balls.cover_by(view.labelled, radii)
        before = float(balls.covered.mean())
        S = competence(before, self.centre, self.slope) if knows else 0.0
        unsure = unsure_of(view)[view.unlabelled] if knows else np.zeros(len(view.unlabelled))
        balls.count()
        picks, scores = choose(balls, unsure, S, n, rng.random(len(view.unlabelled)), view)
        info: dict[str, Any] = {"delta": delta * unit, "competence": S}
        info |= {"covered_before": before, "covered": float(balls.covered.mean())}
        if self.delta is None and self.classes is None and view.classes is None:
            info["note"] = f"the number of classes is unknown, so {CLASSES} is assumed; pass DCoM(classes=...)"
        return Selection(picks, scores, info)

    def radii(self, view: View, x: Centred, first: float, targets: np.ndarray) -> np.ndarray:
        """(L,): of the labelled items."""
        balls = Balls(x, view.unlabelled, targets, first, view.max_memory)
        balls.cover_by(view.labelled)
        agree = 0.4 + 0.2 * float(balls.covered.mean())
        predicted = view["probs"][targets].argmax(axis=1)
        return pure_radii(
            x, view.labelled, view["labels"], targets, predicted, agree, self.most * first, view.max_memory
        )


def competence(coverage: float, a: float, k: float) -> float:
    """S(c), from about 0 to 1 at full coverage.

    >>> competence(1.0, 0.8, 50.0), round(competence(0.8, 0.8, 50.0), 3), round(competence(0.5, 0.8, 50.0), 3)
    (1.0, 0.5, 0.0)
    """
    return (1 + math.exp(-min(k * (1 - a), 700))) / (1 + math.exp(min(-k * (coverage - a), 700)))


def unsure_of(view: View) -> np.ndarray:
    """(N,): 0 for the largest margin of the pool, 1 for the smallest; 0 for all where they are equal."""
    if view["probs"].shape[1] < 2:
        return np.zeros(view.N)
    m = view.by_rows(margin, "probs")
    span = m.max() - m.min()
    return (m.max() - m) / span if span > 0 else np.zeros(view.N)


def choose(
    balls: Balls, unsure: np.ndarray, S: float, n: int, ties: np.ndarray, view: View
) -> tuple[np.ndarray, np.ndarray]:
    """The n picks (as positions in the pool) and their scores; the balls have them then."""
    items = np.arange(len(balls.allowed))
    density, free = balls.degree, np.ones(len(items), dtype=bool)
    picks, scores = np.empty(n, dtype=np.int64), np.empty(n)
    for i in range(n):
        score = S * of_the_largest(unsure, free) + (1 - S) * of_the_largest(density, free)
        best = first_of_the_largest(np.where(free, score, -np.inf), ties)
        picks[i], scores[i] = balls.allowed[best], score[best]
        free[best] = False
        density -= balls.how_many(items, balls.cover_with(best))
        view.report(i + 1, n)
    return picks, scores


def of_the_largest(values: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Divided by the largest of those that are free; zeros stay."""
    largest = values[free].max()
    return values / largest if largest > 0 else np.zeros(len(values))


def pure_radii(
    x: Centred,
    centres: np.ndarray,
    labels: np.ndarray,
    targets: np.ndarray,
    predicted: np.ndarray,
    agree: float,
    most: float,
    max_memory: int,
) -> np.ndarray:
    """(k,): for each centre the largest radius, up to `most`, at which a share `agree` of the targets in the ball is
    predicted to have its label. A ball without a target is pure. `predicted` (T,) is of the targets."""
    T, radii = len(targets), np.empty(len(centres))
    step = max(1, min(max_memory // 2, TILE) // (32 * T))
    for i in range(0, len(centres), step):
        c = torch.from_numpy(x[centres[i : i + step]])
        sq = torch.cat([sq_distances(rows, c) for _, rows in tiles(x, targets, len(c), max_memory)]).T.numpy()  # (k, T)
        order = sq.argsort(axis=1, kind="stable")
        near = np.sqrt(np.take_along_axis(sq, order, axis=1).astype(np.float64))
        same = predicted[order] == labels[i : i + step, None]
        # After j of the targets, nearest first, for j = 0 ... T: what the ball holds then, and where it must end.
        share = np.concatenate([np.ones((len(c), 1)), same.cumsum(axis=1) / np.arange(1, T + 1)], axis=1)
        last = np.concatenate([np.zeros((len(c), 1)), near], axis=1)
        beyond = np.concatenate([near, np.full((len(c), 1), np.inf)], axis=1)
        pure = (share >= agree) & (last < beyond) & (last <= most)
        pure[:, 0] |= ~pure.any(axis=1)  # copies of the centre disagree: it covers nothing but them
        j = T - pure[:, ::-1].argmax(axis=1)
        at = np.arange(len(c)), j
        # Just below the next target, but not below the last one, for the rounding to float32.
        radii[i : i + step] = np.minimum(most, np.maximum(last[at] * (1 + 1e-6), beyond[at] * (1 - 1e-4)))
    return radii
