"""One round of the loop on a run's pool, by the same `ActiveLearner` as everywhere: the steps `training` and `choosing`."""

import csv
import json
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from askless.active.learner import ActiveLearner
from askless.active.prepare import default_net
from askless.active.saving import Saved
from askless.base.files import replace_folder
from askless.data import ImageViews, Pool, as_pool
from askless.features.frozen import FrozenViews
from askless.features.scaling import evened, scaling
from askless.features.stored import ViewKey, is_whole, mapped
from askless.learn import LEARNERS, Learner, Supervised, Training
from askless.learn.label_propagation import Neighbours
from askless.learn.learner import Learnt, Watch
from askless.models.folder import Trained, image_preprocess, text_preprocess, write_files
from askless.run.out.doubts import doubts_of
from askless.run.out.gather import curve
from askless.run.settings import Settings
from askless.run.steps.confidence import sharpened, sharpness
from askless.run.steps.embedding import CachedItems, raw_side
from askless.run.steps.measure import mean_margin, prediction_change
from askless.run.steps.reasons import reasons
from askless.run.steps.round_files import (
    Predictions,
    damage_of_fit,
    damaged_fit,
    is_cache_whole,
    list_files,
    read_predictions,
    round_folder,
)
from askless.run.steps.second import worth
from askless.run.store.asking import (
    Pick,
    all_rounds,
    ask_second,
    asked_items,
    current_round,
    is_batch_open,
    plan,
    tasks_of_round,
)
from askless.run.store.classes import shown_classes
from askless.run.store.fits import all_fits, fitted_rounds, last_fitted, put_fit
from askless.run.store.labels import confirmed_labels, labels_key, labels_of_check_items, settled_labels, train_labels
from askless.run.store.rounds import ask_round, chosen_ahead, round_size
from askless.run.store.schema import RunError
from askless.run.store.store import payload_of
from askless.track import Event

if TYPE_CHECKING:
    from askless.run.run import Report, Run

PLACEHOLDERS = ("one", "other")  # before two classes are known


def train(run: "Run", report: "Report") -> None:
    """Trains on all labels, predicts every item, and puts the round and the model in the place of the old ones."""
    base, settings = run.pool_now(), run.settings
    with run.store.look() as db:
        number, key, labels = current_round(db), labels_key(db), settled_labels(db)
        checks = labels_of_check_items(db)
        judged = labels.keys() - confirmed_labels(db).keys()
        damaged = damaged_fit(db, run.folder)
        if damaged is not None and is_batch_open(db):
            number = damaged  # a batch is out: the model that chose it is made again, from the labels of then
            later = set(asked_items(db, after=number))
            labels = {item: label for item, label in labels.items() if item not in later}
        classes = shown_classes(db)
        before = max((n for n in fitted_rounds(db) if n < number), default=None)
        if before is not None and damage_of_fit(run.folder, before, last=False) is not None:
            before = None
    place = {c.id: i for i, c in enumerate(classes)}
    names = [c.name for c in classes]
    given = {item: place[label] for item, label in labels.items()}
    earlier = None if before is None else round_folder(run.folder, before) / "learner"
    learner = make_learner(base, settings, names, given, earlier)
    learner.learnt = run.learnt  # what it knows of the pool besides labels, as its neighbours, need not be found again
    unlabelled = len(base.items) - len(learner.labels)
    text = f"Training on {len(learner.labels):,} labels and {unlabelled:,} unlabelled {run.noun}s"
    report("training", text, 0, settings.steps)
    begun = time.perf_counter()

    def watch(done: int, total: int, numbers: dict[str, float]) -> None:
        report("training", text, done, total)
        rest = {name: value for name, value in numbers.items() if name != "step"}
        run.trail.tell(Event("step", run.folder.name, number * settings.steps + done, rest), last=done == total)

    beside, model_beside = run.folder / "rounds" / f".{number:03d}.making", run.folder / ".model.making"
    for folder in (beside, model_beside):
        shutil.rmtree(folder, ignore_errors=True)
    beside.mkdir(mode=0o700)
    metrics = fit_round(
        learner,
        base,
        len(run.paths),
        run.readable(),
        run.readable("check", "reserve"),
        {item: place[label] for item, label in checks.items() if label in place},
        [c.id for c in classes],
        None if before is None else read_predictions(run.folder, before),
        beside,
        watch,
    )
    run.learnt = learner.learnt
    save_model(run, model_beside, learner, base, names, number, metrics["sharpness"])
    write_picked(run, beside, number)
    for folder in (beside, model_beside):
        list_files(folder)
    replace_folder(beside, round_folder(run.folder, number))
    replace_folder(model_beside, run.folder / "model")
    with run.store.change() as db:
        put_fit(
            db, number, len(judged & given.keys() & set(base.items.tolist())), key, time.perf_counter() - begun, metrics
        )
    run.write_views()
    if run.trail:
        run.trail.tell(round_event(run, number))


def write_picked(run: "Run", folder: Path, number: int) -> None:
    """picked.csv: what was chosen in this round and why."""
    with run.store.look() as db:
        tasks = tasks_of_round(db, number)
    with (folder / "picked.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("rank", "path", "picked_by", "score", "reason"))
        writer.writerows((t.rank, t.path, t.picked_by, t.score, t.reason) for t in tasks)


def choose(run: "Run", report: "Report") -> None:
    """Asks the strategy for the next batch, or for what is missing to one that was begun ahead."""
    report("choosing", "Choosing the next batch", 0, 1)
    begun = time.perf_counter()
    ask_second_opinions(run)
    with run.store.look() as db:
        current, (kept, loose, left) = current_round(db), chosen_ahead(db)
        n = min(round_size(len(kept), run.settings.batch) - len(kept), left)
        # All that was asked, labelled or not: a label that came after the training is none to the learner.
        asked = set(asked_items(db)).difference(loose)
    by, picks, info = run.settings.strategy, list[Pick](), dict[str, Any]()
    if n:
        chooser = chooser_of(run, current)
        picks, info = chooser.next_batch(n, asked)
        if chooser.fitted:  # what the strategy remembers of this batch
            chooser.learner.save(round_folder(run.folder, current) / "learner", pool=False)
        by = chooser.learner.strategy.name
    with run.store.change() as db:
        asked_now = ask_round(db, current + 1, picks, by, time.perf_counter() - begun, info)
    if asked_now:
        report("choosing", f"Chosen by {by}", 1, 1)


def ask_second_opinions(run: "Run") -> None:
    """Asks one more person about the labels that are probably wrong, as far as the run's share of the budget goes. Labels of
    check items are never asked again: where only those are that a model contradicts, the accuracy would flatter it."""
    if not run.settings.second_opinions:
        return
    with run.store.look() as db:
        most = round(run.settings.second_opinions * plan(db).budget)
        doubts, classes = doubts_of(db, run.folder), len(set(train_labels(db).values()))
    probably = [one.item for one in doubts.found if doubts.by == "labels" and worth(one.score, classes) > 1]
    with run.store.change() as db:
        ask_second(db, probably, most)


@dataclass(frozen=True)
class Chooser:
    """Who chooses after a round: its learner, `fitted` where a model could be trained. `names`: the classes."""

    learner: ActiveLearner
    base: "RunPool"
    names: Sequence[str]
    fitted: bool
    noun: str

    def next_batch(self, n: int, out: Collection[int]) -> tuple[list[Pick], dict[str, Any]]:
        return next_batch(self.learner, self.base, n, self.names, self.fitted, sorted(out), self.noun)


def chooser_of(run: "Run", number: int) -> Chooser:
    """Who chooses after a round, as the round left it: without what was labelled of later ones."""
    base = run.run_pool()
    with run.store.look() as db:
        later = set(asked_items(db, after=number))
        labels = {item: label for item, label in settled_labels(db).items() if item not in later}
        classes = shown_classes(db)
        fitted = number in fitted_rounds(db) and damaged_fit(db, run.folder) is None
    names = [c.name for c in classes]
    if fitted:
        learner = load_learner(round_folder(run.folder, number) / "learner", base, run.learnt)
    else:
        place = {c.id: i for i, c in enumerate(classes)}
        learner = make_learner(base, run.settings, names, {i: place[y] for i, y in labels.items()}, None)
    return Chooser(learner, base, names, fitted, run.noun)


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
    frozen, augmented = None, bool(views) and all(is_whole(path, len(chosen)) for path in views.values())
    if views:
        frozen = FrozenViews(
            x, {view: mapped(path) for view, path in views.items()} if augmented else {}, rows=chosen, also_plain=True
        )
        mean, scale = frozen.mean, frozen.scale
        pool = Pool(StandardisedRows(frozen), kind="features")
    else:
        rows = torch.from_numpy(x[chosen]).to(torch.float32, copy=True)
        mean, scale = (evened if settings.frozen else scaling)(rows)
        pool = as_pool(rows.sub_(mean).div_(scale), kind="features")

    def ready(at: np.ndarray) -> torch.Tensor:
        return (torch.from_numpy(x[at]).float() - mean) / scale

    return RunPool(chosen, pool, ready, mean, scale, side, frozen, augmented)


def make_learner(
    base: RunPool, settings: Settings, classes: Sequence[str], labels: dict[int, int], before: Path | None
) -> ActiveLearner:
    """A learner with these labels (item -> place in `classes`); a strategy that remembers continues from the last round."""
    strategy: Any = settings.strategy
    if len(set(labels.values())) < 2 and strategy not in ("random", "coreset", "typiclust"):
        strategy = "askless"  # nothing to be learnt yet: cover the collection
    places = base.positions()
    known = {places[item]: label for item, label in sorted(labels.items()) if item in places}
    net = "linear" if settings.frozen else settings.net
    if net == "waves":  # the default of a run on features: on long ones it is a linear head
        net = default_net(base.pool)
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


def load_learner(folder: Path, base: RunPool, before: Learnt | None = None) -> ActiveLearner:
    """The learner as a round left it."""
    views = {} if base.views is None else {"views": base.views}
    return ActiveLearner.load(folder, pool=base.pool, before=before, **views)


def training(settings: Settings) -> Learner:
    kind = LEARNERS[settings.learner]
    made: Learner = kind(steps=settings.steps) if issubclass(kind, Training) else kind()
    return made


def fit_round(
    learner: ActiveLearner,
    base: RunPool,
    n_items: int,
    known: np.ndarray,
    held: np.ndarray,
    checks: Mapping[int, int],
    numbers: list[int],
    previous: Predictions | None,
    folder: Path,
    watch: Watch,
) -> dict[str, Any]:
    """Trains, predicts every item that is `known` to be readable, check images included, and writes predictions.npz,
    metrics.json and log.jsonl into `folder`; the metrics.

    `checks`: the labels of check items, as places in `numbers`. Only the confidence of what people see follows them: neither
    the model that chooses nor the accuracy that is measured depends on them."""
    begun = time.perf_counter()
    fitted = learner.fit(log=folder / "log.jsonl", watch=watch)
    trained = time.perf_counter()
    predictions = Predictions(np.full((n_items, len(numbers)), np.nan, np.float32), np.array(numbers, np.int64))
    for i in range(0, len(known), 512):
        part = known[i : i + 512]
        predictions.probs[part] = learner.predict_proba(base.ready(part))
    everywhere, held_sure = predictions.best_of_all(), predictions.probs[held].max(axis=1)
    measured = np.array(sorted(set(checks).intersection(known.tolist())), np.int64)
    sharp = sharpness(predictions.probs[measured], np.array([checks[i] for i in measured.tolist()], np.int64))
    predictions.probs[known] = sharpened(predictions.probs[known], sharp)
    np.savez_compressed(
        folder / "predictions.npz",
        probs=predictions.probs.astype(np.float16),
        classes=predictions.classes,
        held=held,
        held_best=everywhere[held],
        held_sure=held_sure,  # before the labels of check items had a say
        sharpness=sharp,
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
        "sharpness": sharp,
        "training": fitted.metrics[-1] if fitted.metrics else {},
    }
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=1), encoding="utf-8")
    learner.save(folder / "learner", pool=False)
    return metrics


def next_batch(
    learner: ActiveLearner,
    base: RunPool,
    n: int,
    names: Sequence[str],
    trained: bool,
    out: Sequence[int],
    noun: str = "image",
) -> tuple[list[Pick], dict[str, Any]]:
    """The items to ask next, in their order, each with what speaks for it and, where the strategy has one, a score; none of
    `out`, which were asked and got no label. Also what the strategy says of the batch."""
    places = base.positions()
    picks = learner.ask(n, exclude=[places[item] for item in out if item in places])
    texts = reasons(learner, base.pool, picks, learner.predict_pool() if trained else None, names, noun)
    scores = [None] * len(picks) if picks.scores is None else map(finite, picks.scores)
    info = {k: v for k, v in picks.info.items() if isinstance(v, int | float | str)}
    return list(map(Pick, base.items[picks.indices].tolist(), texts, scores)), info


def finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def save_model(
    run: "Run", folder: Path, learner: ActiveLearner, base: RunPool, names: Sequence[str], number: int, sharp: float
) -> None:
    """Writes the model of a round into a new folder; one for texts with its backbone."""
    assert learner.learnt is not None
    folder.mkdir()
    settings, network = run.settings, learner.learnt.as_network()
    backbone = settings.net.removeprefix("frozen:") if settings.frozen else None
    config: dict[str, Any] = {
        "net": learner.net,
        "backbone": backbone,
        "backbone_size": raw_side(settings),
        "weights": settings.weights or None,
        "shape": list(base.pool.shape),
        "classes": list(names),
        "features": base.pool.kind == "features" and not settings.frozen,
        "round": number,
        "labels": len(learner.labels),
        "unlabelled": len(base.items) - len(learner.labels),
        "learner": settings.learner,
        "seed": settings.seed,
        "versions": dict(settings.versions),
        "strategy": settings.strategy,
        "sharpness": sharp,
    }
    if isinstance(network, Neighbours):
        config |= {"net": "neighbours", "options": network.options}
    if run.kind == "texts":
        shutil.copytree(run.folder / "cache" / "text", folder / "text")
        config["text"] = settings.text
        preprocess = text_preprocess(str(backbone))
    elif config["features"]:
        preprocess = {"input": "the features, then (x - mean) / scale"}
    else:
        preprocess = image_preprocess(base.side, 3, None if settings.frozen else ImageViews(base.pool))
    features = None if base.mean is None or base.scale is None else (base.mean, base.scale)
    write_files(folder, Trained(network, config, preprocess, features))


def save_final_model(run: "Run", folder: Path) -> None:
    """Writes, into a new folder, a model that has learnt from the labels of check images too: once labelling has ended they
    need not be kept from it, but nothing measures it any more. The features are those without augmented views."""
    with run.store.look() as db:
        labels, classes, number = train_labels(db) | labels_of_check_items(db), shown_classes(db), last_fitted(db)
        fits = all_fits(db)
    if number is None:
        raise RunError(f"{run.folder} has no model yet; label the first batch with `askless start {run.folder}`")
    if not is_cache_whole(run.folder / "cache"):
        raise RunError(
            f"{run.folder}: the features of the {run.noun}s are missing, or an earlier askless made them; "
            f"`askless start {run.folder}` makes them again"
        )
    names, place = [c.name for c in classes], {c.id: i for i, c in enumerate(classes)}
    readable = set(run.readable().tolist())
    given = {item: place[label] for item, label in labels.items() if label in place and item in readable}
    items = sorted({*run.readable("pool").tolist(), *given})
    base = run_pool(CachedItems(run.folder / "cache"), run.settings, items, {})
    learner = make_learner(base, run.settings, names, given, None)
    learner.fit()
    # Nothing held out is left: it stays as sure as the last model that was measured.
    save_model(run, folder, learner, base, names, number, fits[number].metrics.get("sharpness", 1.0))


def round_event(run: "Run", number: int) -> Event:
    """Of the round `number`, whose model is trained: its check accuracy is that on the images with a label by now."""
    with run.store.look() as db:
        fit, point = all_fits(db)[number], next(p for p in curve(run, db) if p.round == number)
        asked = payload_of(db, f"worker/round-{number}")
        choosing = [made.seconds for made in all_rounds(db) if made.id == number]
    info = {} if asked is None else asked["info"]
    measured = {f"check_{name}": getattr(point, name) for name in ("accuracy", "low", "high", "n")}
    numbers = {
        **{name: value for name, value in fit.metrics["training"].items() if name != "step"},
        **{name: value for name, value in info.items() if name not in ("labelled", "seconds")},
        **{name: fit.metrics[name] for name in ("fit_seconds", "predict_seconds", "change", "margin")},
        **(measured if point.n else {}),
        **({"select_seconds": choosing[0]} if choosing else {}),
    }
    return Event("round", run.folder.name, point.labels, numbers)
