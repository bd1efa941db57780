"""One round of the loop on a run's pool, by the same `ActiveLearner` as everywhere: fit, predict, choose."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from askless.active.learner import ActiveLearner
from askless.active.saving import Saved
from askless.data import Pool, as_pool
from askless.features.frozen import FrozenViews, standardisation
from askless.features.stored import ViewKey, is_whole, mapped
from askless.features.text_backbone import evened
from askless.learn import LEARNERS, Learner, Supervised
from askless.learn.learner import Watch
from askless.run.settings import Settings
from askless.run.steps.embedding import CachedItems
from askless.run.steps.measure import mean_margin, prediction_change
from askless.run.steps.reasons import reasons
from askless.run.steps.round_files import Predictions
from askless.run.store.schema import RunError

PLACEHOLDERS = ("one", "other")  # before two classes are known


@dataclass(frozen=True)
class RunPool:
    """What every round works on. `items` (M,): the items of the pool, whose positions the learner knows; `pool` their
    rows; `ready(items)` gives rows of any items as the network takes them; `mean` and `scale` make features into them.
    `views` are those of a frozen backbone on images; they are `augmented` once all of them are embedded."""

    items: np.ndarray
    pool: Pool
    ready: Callable[[np.ndarray], torch.Tensor]
    mean: torch.Tensor | None
    scale: torch.Tensor | None
    side: int = 0  # in pixels, that images were read at
    views: FrozenViews | None = None
    augmented: bool = False

    def positions(self) -> dict[int, int]:
        return {int(item): place for place, item in enumerate(self.items)}


class StandardisedRows:
    """The plain view as the rows of a pool, read when they are looked at."""

    def __init__(self, views: FrozenViews) -> None:
        self.views = views

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, place: int) -> torch.Tensor:
        return self.views.plain([place])[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.views.plain(torch.arange(len(self))).numpy().astype(dtype or np.float32, copy=False)


def run_pool(cached: CachedItems, settings: Settings, items: Sequence[int], views: Mapping[ViewKey, Path]) -> RunPool:
    """The pool of a run, as features or as images; with the augmented views, where they are embedded already."""
    chosen = np.array(items, np.int64)
    if len(chosen) < 2:
        raise RunError(
            f"expected at least two items to choose from, got {len(chosen)}; see skipped.csv in the run's folder"
        )
    x, side = cached.x, cached.side
    if x.ndim != 2:
        return RunPool(
            chosen, as_pool(np.array(x[chosen]), kind="image"), lambda at: torch.from_numpy(x[at]), None, None, side
        )
    frozen = None
    augmented = bool(views) and all(is_whole(path, len(chosen)) for path in views.values())
    if views:
        frozen = FrozenViews(
            x, {view: mapped(path) for view, path in views.items()} if augmented else {}, rows=chosen, also_plain=True
        )
        mean, scale = frozen.mean, frozen.scale
    else:
        mean, scale = (evened if settings.text else standardisation)(torch.from_numpy(x[chosen]).float())

    def ready(at: np.ndarray) -> torch.Tensor:
        return (torch.from_numpy(x[at]).float() - mean) / scale

    pool = (
        as_pool(ready(chosen), kind="features") if frozen is None else Pool(StandardisedRows(frozen), kind="features")
    )
    return RunPool(chosen, pool, ready, mean, scale, side, frozen, augmented)


def make_learner(
    base: RunPool, settings: Settings, classes: Sequence[str], labels: dict[int, int], before: Path | None
) -> ActiveLearner:
    """A learner with these labels (item -> place in `classes`); a strategy that remembers goes on from the round before."""
    strategy: Any = settings.strategy
    if len(set(labels.values())) < 2 and strategy not in ("random", "coreset", "typiclust"):
        strategy = "askless"  # nothing to be learnt yet: cover the collection
    places = base.positions()
    known = {places[item]: label for item, label in sorted(labels.items()) if item in places}
    net = "linear" if settings.frozen or base.pool.kind == "features" else settings.net
    names = tuple(classes) if len(classes) >= 2 else PLACEHOLDERS
    learner = ActiveLearner(
        base.pool,
        net=net,
        # The first batch does not wait for the augmented views: it is chosen before anything is trained.
        learner=training(settings) if base.views is None or base.augmented else Supervised(),
        strategy=strategy,
        classes=names,
        seed=settings.seed,
        views=base.views,
    )
    learner.tell(list(known), list(known.values()))
    if before is not None and (before / "learner.json").exists():
        learner.asks = Saved(before).asks()
    return learner


def load_learner(folder: Path, base: RunPool) -> ActiveLearner:
    """The learner as a round left it."""
    return ActiveLearner.load(folder, pool=base.pool, **({} if base.views is None else {"views": base.views}))


def training(settings: Settings) -> Learner:
    kind = LEARNERS[settings.learner]
    made: Learner = kind(steps=settings.steps) if kind.has_network else kind()  # type: ignore[attr-defined]
    return made


def predict_all(
    learner: ActiveLearner, base: RunPool, n_items: int, known: np.ndarray, numbers: list[int]
) -> Predictions:
    """What the model says of every item that can be read, check images included."""
    probs = np.full((n_items, len(numbers)), np.nan, np.float32)
    for i in range(0, len(known), 512):
        part = known[i : i + 512]
        probs[part] = learner.predict_proba(base.ready(part))
    return Predictions(probs, np.array(numbers, np.int64))


def fit_round(
    learner: ActiveLearner,
    base: RunPool,
    n_items: int,
    known: np.ndarray,
    held: np.ndarray,
    numbers: list[int],
    previous: Predictions | None,
    folder: Path,
    watch: Watch,
) -> dict[str, Any]:
    """Trains, predicts, and writes predictions.npz, metrics.json and log.jsonl into `folder`; the metrics."""
    begun = time.perf_counter()
    fitted = learner.fit(log=folder / "log.jsonl", watch=watch)
    trained = time.perf_counter()
    predictions = predict_all(learner, base, n_items, known, numbers)
    everywhere = predictions.best_of_all()
    np.savez_compressed(
        folder / "predictions.npz",
        probs=predictions.probs.astype(np.float16),
        classes=predictions.classes,
        held=held,
        held_best=everywhere[held],
    )
    best = everywhere[base.items]
    mix = {int(c): float((best == c).mean()) for c in numbers}
    metrics = {
        "labels": len(learner.labels),
        "fit_seconds": round(trained - begun, 3),
        "predict_seconds": round(time.perf_counter() - trained, 3),
        "change": None if previous is None else prediction_change(previous.best_of_all()[base.items], best),
        "margin": mean_margin(predictions.probs[base.items]),
        "mix": mix,
        "training": fitted.metrics[-1] if fitted.metrics else {},
    }
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=1), encoding="utf-8")
    learner.save(folder / "learner", pool=False)
    return metrics


@dataclass(frozen=True)
class Choice:
    """Items in the order in which they are to be asked, with a reason and, where the strategy has one, a score each."""

    items: list[int]
    reasons: list[str]
    scores: list[float | None]
    picked_by: str
    info: dict[str, Any]


def choose(
    learner: ActiveLearner,
    base: RunPool,
    n: int,
    names: Sequence[str],
    trained: bool,
    out: Sequence[int],
    noun: str = "image",
) -> Choice:
    """The next batch, with what speaks for each item; none of `out`, which were asked and got no label."""
    places = base.positions()
    picks = learner.ask(n, exclude=[places[item] for item in out if item in places])
    probs = learner.predict_pool() if trained else None
    texts = reasons(learner, base.pool, picks, probs, names, noun)
    given = picks.scores
    scores = [None if given is None else finite(given[i]) for i in range(len(picks))]
    info = {k: v for k, v in picks.info.items() if isinstance(v, int | float | str)}
    return Choice(base.items[picks.indices].tolist(), texts, scores, learner.strategy.name, info)


def finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
