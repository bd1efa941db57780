"""DAL: what a classifier tells apart from the labelled items (discriminative active learning, Gissin & Shalev-Shwartz
2019).
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from askless.acquire.strategy import Selection, View
from askless.base.options import Count, options
from askless.base.rng import stream, torch_stream

# Of the training items told apart: a little before all are, so that look-alikes of labelled ones are not sure.
STOP = 0.98
RATE = 1e-3
BATCH = 1024
Score = Callable[[Tensor], Tensor]  # rows (k, d) -> (k,), larger for what looks less labelled


@options
class DAL:
    """Trains a classifier to tell labelled from unlabelled items by their features, and asks for those that it is
    surest are unlabelled; so that in the end it could not tell.

    A batch is chosen in `sub_batches` parts: after each one its items count as labelled and a new classifier is
    trained, so that the batch does not pile up in one place. `classifier`: "mlp", as in the paper, three hidden layers
    of `width` units trained by Adam until it separates 98 % of the items, at most `epochs` times through them; or
    "logistic", scikit-learn's logistic regression. Both weigh the two sides alike, and see columns of mean 0 and one
    common scale. Trained on are `per_label` times as many unlabelled items as there are labelled ones, at least 1,000,
    drawn at random; all unlabelled items are scored.

    With nothing labelled there is nothing to tell apart: the first part is drawn at random. Scores are the log odds of
    being unlabelled by the part's own classifier, which those of another part cannot be compared with; a part drawn at
    random has infinite ones.

    >>> al.select(al.DAL(classifier="logistic", sub_batches=1), 1, features=[[0.0], [0.1], [5.0]], labelled=[0]).indices
    array([2])
    """

    classifier: Literal["mlp", "logistic"] = "mlp"
    sub_batches: Count = 10
    width: Count = 256
    epochs: Count = 100
    per_label: Count = 10
    name = "dal"
    needs = ("features",)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if n == 0:
            return Selection(view.unlabelled[:0], np.empty(0), {"parts": 0})
        known, free = view.labelled, view.unlabelled
        scores: list[np.ndarray] = []
        picks: list[np.ndarray] = []
        parts = np.diff(np.linspace(0, n, min(self.sub_batches, n) + 1).astype(np.int64))
        scaling = Scaling(view["features"], view.max_memory)
        for part in parts[parts > 0]:
            value = np.full(len(free), np.inf)
            if len(known):
                value = scaling.scores(free, self._trained(scaling, known, free, rng))
            best = np.lexsort((rng.random(len(free)), -value))[:part]
            picks.append(free[best])
            scores.append(value[best])
            known, free = np.concatenate([known, free[best]]), np.delete(free, best)
            view.report(sum(map(len, picks)), n)
        return Selection(np.concatenate(picks), np.concatenate(scores), {"parts": len(picks)})

    def _trained(self, x: "Scaling", known: np.ndarray, free: np.ndarray, rng: np.random.Generator) -> Score:
        """A classifier of these labelled and unlabelled items."""
        room = x.room // 2
        if len(known) > room:
            known = rng.choice(known, room, replace=False)
        others = min(len(free), max(1000, self.per_label * len(known)), max(1, x.room - len(known)))
        free = free if others == len(free) else rng.choice(free, others, replace=False)
        rows = torch.cat([x(known), x(free)])
        unlabelled = torch.arange(len(rows)) >= len(known)
        seed = int(stream(rng, "classifier").integers(2**62))
        if self.classifier == "logistic":
            return logistic(rows, unlabelled)
        return mlp(rows, unlabelled, self.width, self.epochs, seed)


class Scaling:
    """Rows of the features in float32, their columns around 0, with one scale: a mean squared entry of 1."""

    def __init__(self, features: np.ndarray, max_memory: int) -> None:
        N, d = features.shape
        self.features = features
        self.room = max(64, max_memory // (4 * 8 * d))  # how many rows may be held
        self.step = max(1, min(max_memory // 4, 2**24) // (8 * 4 * max(d, 256)))
        total, square = np.zeros(d), 0.0
        for i in range(0, N, self.step):
            total += np.asarray(features[i : i + self.step], dtype=np.float64).sum(axis=0)
        self.mean = total / N
        for i in range(0, N, self.step):
            square += float(((np.asarray(features[i : i + self.step], dtype=np.float64) - self.mean) ** 2).sum())
        self.scale = np.sqrt(square / (N * d)) or 1.0

    def __call__(self, positions: np.ndarray) -> Tensor:
        rows = (np.asarray(self.features[positions], dtype=np.float64) - self.mean) / self.scale
        return torch.from_numpy(rows.astype(np.float32))

    def scores(self, positions: np.ndarray, score: Score) -> np.ndarray:
        """(k,) of the rows at `positions`, some at a time."""
        parts = [score(self(positions[i : i + self.step])).numpy() for i in range(0, len(positions), self.step)]
        return np.concatenate(parts).astype(np.float64)


def logistic(rows: Tensor, unlabelled: Tensor) -> Score:
    """Log odds by logistic regression, the two sides weighed alike."""
    from sklearn.linear_model import LogisticRegression  # a second to import, which most uses of askless do without

    fitted = LogisticRegression(class_weight="balanced", max_iter=1000).fit(rows.double().numpy(), unlabelled.numpy())
    weight, bias = torch.from_numpy(fitted.coef_[0]), float(fitted.intercept_[0])
    return lambda x: x.double() @ weight + bias


def mlp(rows: Tensor, unlabelled: Tensor, width: int, epochs: int, seed: int) -> Score:
    """Log odds by a network of three hidden layers, the two sides weighed alike."""
    generator = torch_stream(seed, "mlp")
    sizes = [rows.shape[1], width, width, width, 1]
    weights = [torch.empty(o, i) for i, o in pairwise(sizes)]
    for weight in weights:
        torch.nn.init.xavier_uniform_(weight, generator=generator)
    biases = [torch.zeros(o) for o in sizes[1:]]
    y = unlabelled.float()
    weigh = torch.where(unlabelled, len(y) / (2 * y.sum()), len(y) / (2 * (1 - y).sum()))

    def log_odds(x: Tensor) -> Tensor:
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = F.relu(F.linear(x, weight, bias))
        return F.linear(x, weights[-1], biases[-1])[:, 0]

    with torch.inference_mode(False), torch.enable_grad():
        parameters = [p.requires_grad_() for p in (*weights, *biases)]
        adam = torch.optim.Adam(parameters, lr=RATE)
        for _ in range(epochs):
            right = 0.0
            for at in torch.randperm(len(y), generator=generator).split(BATCH):
                f = log_odds(rows[at])
                right += float(((f.detach() > 0) == unlabelled[at]).float() @ weigh[at])
                loss = F.binary_cross_entropy_with_logits(f, y[at], weight=weigh[at])
                adam.zero_grad()
                loss.backward()
                adam.step()
            if right >= STOP * len(y):
                break
    for p in parameters:
        p.requires_grad_(False)
    return log_odds
