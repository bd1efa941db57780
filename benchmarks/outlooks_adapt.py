"""Three outlooks of the papers, tried: a horizon from the kernel, labels and unlabelled loss that adapt, and stability.

    askless data fetch cifar10
    python benchmarks/outlooks_adapt.py                  # every study: about ten minutes of one core
    python benchmarks/outlooks_adapt.py --part horizon   # one of them, beside the others' results
    python benchmarks/outlooks_adapt.py --docs           # only write the tables into docs/evidence/outlooks.md

- horizon: training as long as the kernel of the labelled items predicts, against as long for everybody.
- target: DARP's class counts, and how often each class comes in a labelled batch, estimated from the labels so far.
- settled: items whose pseudo-label was stable along the training are worth less to the strategy.
- stability: how accuracy varies over trainings of the same labels, for labels by five strategies and for three learners.

Differences are paired by seed, in points of test accuracy, ± half of their 95 % t interval. CIFAR-10: 3,000 images by
EfficientNet-Lite0, in their 128 main directions.
"""

import argparse
import copy
import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from suite import HERE, RESULTS, record
from torch import nn

import askless as al
from askless import kernels, theory
from askless.base.files import write_whole
from askless.bench.plan import Data
from askless.bench.presets.pools import Embedded, Measured, Rotated
from askless.bench.statistics import paired, spread
from askless.data import long_tailed
from askless.learn.calibration import calibrated
from askless.learn.fixmatch import nearest_counts
from askless.learn.material import Material
from askless.learn.observe import PlainItems

PAGE = HERE.parent / "docs" / "evidence" / "outlooks.md"
OUT = RESULTS / "outlooks_adapt.json"
Rows = list[dict[str, Any]]


@cache
def pool_of(name: str) -> al.Pool:
    """A pool by its name here; "..., tail" is long-tailed by 10."""
    base, _, tail = name.partition(", ")
    if tail:
        return long_tailed(pool_of(base), 10)
    if base == "digit images":
        return Data(name="digits")()
    if base == "digits":
        return Measured(data=Data(name="digits"))()
    return Rotated(of=Embedded(data=Data(name="cifar10", items=3000, test=1000)), directions=128, standardised=False)()


def started(name: str, learner: al.learn.Learner, seed: int, labels: dict[int, int] | None = None) -> al.ActiveLearner:
    """A learner on this pool with these labels."""
    pool = pool_of(name)
    net = "small-cnn" if pool.kind == "image" else "linear"
    made = al.ActiveLearner(pool, net=net, learner=learner, seed=seed)
    made.labels = dict(labels or {})
    return made


def fitted(learner: al.ActiveLearner, **given: Any) -> float:
    """Test accuracy in %, after a training."""
    learner.fit(**given)
    return 100 * learner.score()


def fixmatch(steps: int, darp: al.DARP | None = None) -> al.FixMatch:
    return al.FixMatch(steps=steps, batch=32, mu=4, darp=darp, evaluate_every=max(1, steps // 10))


# --- a horizon from the kernel ---------------------------------------------------------------------------------------

STEPS = 500  # of the fixed schedule; the kernel may say less
MEAN_COSINE = math.sin(7 * math.pi / 16) / (7 * math.pi / 16)  # of the rate over the horizon, as a share of lr
LEFT = 0.01  # of the slowest mode, when training is over
FOLDS = 5
FEATURES = tuple((data, labels) for data in ("digits", "CIFAR-10") for labels in (10, 40, 160))
HORIZON = {"supervised": (*FEATURES, ("digit images", 40), ("digit images", 160)), "FixMatch": FEATURES}


def horizons(learner: al.ActiveLearner) -> dict[str, int]:
    """The steps that the kernel of the labelled items predicts, 1 to STEPS, by two rules.

    Near the start p = softmax(f) moves by df / C, so a step of the rate lr with momentum m shrinks the residual p - Y of the
    mean cross entropy by eta K, eta = lr / ((1 - m) n C). "slowest": until the mode of lambda_min is down to LEFT of its
    start, ln(1 / LEFT) / (eta lambda_min), which is CRC's prediction. "held out": `theory.steps_to_minimum` on the labelled
    items of each fold, predicted from the others; the median.
    """
    options, C, n = learner.learner, learner.classes, len(learner.labels)
    net = calibrated(learner.first_network, learner.views, len(learner.pool))
    items = PlainItems(learner.views, learner.labelled)
    K = kernels.ntk(net, items, layers="all").numpy() / C
    residual = kernels.look(net, items).logits.double().softmax(dim=1).numpy() - theory.one_hot(learner.known_labels, C)
    eta = MEAN_COSINE * options.lr / ((1 - options.momentum) * n * C)  # type: ignore[attr-defined]
    fold, found = np.random.default_rng(0).permutation(n) % FOLDS, []
    parts = math.ceil(2 * eta * theory.spectrum(K).lambda_max)  # of a step: whole ones would diverge
    for k in range(FOLDS):
        there, out = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        kernel, cross = K[np.ix_(there, there)], K[np.ix_(out, there)]
        small = eta * n / len(there) / parts
        found.append(theory.steps_to_minimum(kernel, cross, residual[there], residual[out], small, STEPS * parts).step)
    slowest = math.log(1 / LEFT) / (eta * theory.spectrum(K).lambda_min)
    steps = {"slowest": slowest, "held out": float(np.median(found)) / parts}
    return {rule: round(min(max(s, 1), STEPS)) for rule, s in steps.items()}


def horizon(seeds: int) -> Rows:
    rows = []
    for name, settings in HORIZON.items():
        fixed = al.Supervised(steps=STEPS) if name == "supervised" else fixmatch(STEPS)
        cells = [(*setting, seed) for setting in settings for seed in range(seeds)]
        labels, steps = {}, {}
        for data, n, seed in cells:
            learner = started(data, fixed, seed)
            learner.start_balanced(n // learner.classes)
            labels[data, n, seed], steps[data, n, seed] = learner.labels, horizons(learner)
        even = round(float(np.mean([found["slowest"] for found in steps.values()])))  # as many in all, spread evenly
        for data, n, seed in cells:
            for rule, s in {"fixed": STEPS, "even": even, **steps[data, n, seed]}.items():
                learner = started(data, dataclasses.replace(fixed, steps=s), seed, labels[data, n, seed])
                rows.append(
                    {"learner": name, "data": data, "labels": n, "seed": seed, "rule": rule, "steps": s}
                    | {"accuracy": round(fitted(learner), 2)}
                )
    return rows


# --- labels and unlabelled loss that adapt to each other -------------------------------------------------------------

TARGET_LABELS = (10, 20, 40)
TARGET_POOLS = ("digits", "digits, tail", "CIFAR-10, tail")


def acquired(name: str, strategy: str, seed: int) -> dict[int, int]:
    """Labels from none up to the last of TARGET_LABELS, asked for by a linear head."""
    learner = started(name, al.Supervised(steps=100), seed)
    learner.strategy = al.acquire.as_strategy(strategy)
    for count in TARGET_LABELS:
        batch = learner.ask(count - len(learner.labels))
        learner.tell(batch, learner.pool.labels[batch.indices])
        if count < TARGET_LABELS[-1]:
            learner.fit()
    return learner.labels


def as_often(labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Positions in `labels`, repeated so that the classes come about as often as `counts` says; each once at least."""
    have = np.bincount(labels, minlength=len(counts))
    times = counts[labels] / have[labels]
    return np.repeat(np.arange(len(labels)), np.maximum(1, np.rint(times / times.min())).astype(int))


TARGETS = ("without DARP", "uniform", "labelled", "nearest", "nearest, and the sampler", "true")


def refined(learner: al.ActiveLearner, way: str, seed: int) -> None:
    """Trains by FixMatch whose pseudo-labels are refined in this way."""
    task, counts = learner.task, way
    if way == "true":
        counts = np.bincount(learner.pool.labels)
    if way == "nearest, and the sampler":
        counts = nearest_counts(Material(task, seed, torch.device("cpu")), learner.classes)
        at = as_often(task.labels, counts)
        task = task._replace(labelled=task.labelled[at], labels=task.labels[at])
    darp = None if way == "without DARP" else al.DARP(target=counts, every=20)
    learner.learnt = fixmatch(200, darp).fit(copy.deepcopy(learner.first_network), task, seed=seed)


def target(seeds: int) -> Rows:
    rows = []
    for name in TARGET_POOLS:
        for strategy in ("random", "askless"):
            for seed in range(seeds):
                labels = acquired(name, strategy, seed)
                for way in TARGETS:
                    learner = started(name, fixmatch(200), seed, labels)
                    refined(learner, way, seed)
                    right = learner.predict_pool().argmax(axis=1) == learner.pool.labels
                    rows.append(
                        {"data": name, "strategy": strategy, "seed": seed, "target": way}
                        | {"accuracy": round(100 * learner.score(), 2), "pool": round(100 * float(right.mean()), 2)}
                    )
    return rows


COUNTS = (10, 30, 50, 70)
HOW = ("as it is", "settled", "averaged")


def along(learner: al.ActiveLearner, seen: list[np.ndarray]) -> Callable[[int, nn.Module], None]:
    """A look that puts the pool's probabilities (N, C) into `seen`, at each measure of a training."""
    x = learner.views.plain(np.arange(len(learner.pool)))

    def look(step: int, net: nn.Module) -> None:
        if step:
            seen.append(kernels.look(net, x).logits.double().softmax(dim=1).numpy())

    return look


def weighed(seen: np.ndarray, how: str) -> np.ndarray:
    """Probabilities (N, C) for the strategy, of those at each look (T, N, C).

    "settled": s one-hot + (1 - s) p, s the share of looks that agree with the last one, so that 1 - margin is (1 - s) times
    that of p; "averaged": their mean.
    """
    if how == "averaged":
        return seen.mean(axis=0)
    last = seen[-1]
    if how == "as it is":
        return last
    top = last.argmax(axis=1)
    s = (seen[:-1].argmax(axis=2) == top).mean(axis=0)[:, None]
    return s * np.eye(last.shape[1])[top] + (1 - s) * last


def settled(seeds: int) -> Rows:
    rows = []
    for name in ("digits", "CIFAR-10"):
        for seed in range(seeds):
            for strategy in ("margin", "askless"):
                for how in HOW:
                    learner = started(name, fixmatch(200), seed)
                    learner.start_balanced(1)
                    curve: list[float] = []
                    seen: list[np.ndarray] = []
                    for count in COUNTS:
                        if more := count - len(learner.labels):
                            picks = al.select(
                                strategy,
                                more,
                                features=learner.pool.x.numpy(),
                                probs=weighed(np.stack(seen), how),
                                labelled=learner.labelled,
                                labels=learner.known_labels,
                                seed=seed,
                            )
                            learner.tell(picks.indices, learner.pool.labels[picks.indices])
                        seen = []
                        curve.append(round(fitted(learner, look=along(learner, seen)), 2))
                    rows.append({"data": name, "strategy": strategy, "seed": seed, "how": how, "curve": curve})
    return rows


# --- stability -------------------------------------------------------------------------------------------------------

STABLE_LABELS = 40
TRAININGS = 4
LEARNERS = {"supervised": al.Supervised(steps=200), "FixMatch": fixmatch(200)}
LEARNERS["FixMatch + DARP"] = fixmatch(200, al.DARP(every=20))


def stability(seeds: int) -> Rows:
    rows = []
    for name in ("digits", "CIFAR-10"):
        for strategy in ("random", "margin", "badge", "npc", "askless"):
            for seed in range(seeds):
                learner = started(name, al.Supervised(steps=100), seed)
                learner.strategy = al.acquire.as_strategy(strategy)
                learner.start_balanced(1)
                while len(learner.labels) < STABLE_LABELS:
                    learner.fit()
                    batch = learner.ask(15)
                    learner.tell(batch, learner.pool.labels[batch.indices])
                for kind, options in LEARNERS.items():
                    found = [fitted(started(name, options, 1000 + t, learner.labels)) for t in range(TRAININGS)]
                    rows.append(
                        {"data": name, "strategy": strategy, "seed": seed, "learner": kind}
                        | {"accuracies": [round(a, 2) for a in found]}
                    )
    return rows


PARTS: dict[str, tuple[Callable[[int], Rows], int]] = {  # name -> the study and its number of seeds
    "horizon": (horizon, 5),
    "target": (target, 10),
    "settled": (settled, 10),
    "stability": (stability, 6),
}


# --- into the docs ---------------------------------------------------------------------------------------------------


def values(rows: Rows, key: str, **where: Any) -> np.ndarray:
    """One number, or one list, per seed."""
    return np.array([row[key] for row in rows if all(row[name] == value for name, value in where.items())])


def distinct(rows: Rows, *keys: str) -> list[tuple[Any, ...]]:
    return list(dict.fromkeys(tuple(row[key] for key in keys) for row in rows))


def gain(a: np.ndarray, b: np.ndarray, digits: int = 1) -> str:
    """a - b, paired by seed, with its interval; bold where that excludes 0."""
    found = paired(a, b)
    text = f"{found.mean:+.{digits}f} ± {found.half:.{digits}f}"
    return f"**{text}**" if found.clear else text


def markdown(head: list[str], rows: list[list[str]], texts: int) -> str:
    """A table whose first `texts` columns are words."""
    lines = [head, ["---"] * texts + ["---:"] * (len(head) - texts), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def horizon_table(rows: Rows) -> str:
    rules, lines = ("even", "slowest", "held out"), []
    for (name,) in distinct(rows, "learner"):
        own = [row for row in rows if row["learner"] == name]
        settings = distinct(own, "data", "labels")
        found = {}
        for data, n in settings:
            found[data, n] = {
                rule: [values(own, key, data=data, labels=n, rule=rule) for key in ("accuracy", "steps")]
                for rule in ("fixed", *rules)
            }
        mean = {rule: np.mean([found[setting][rule] for setting in settings], axis=0) for rule in ("fixed", *rules)}
        for (data, n), by in [*found.items(), (("mean", ""), mean)]:
            base, _ = by["fixed"]
            cells = [f"{by[rule][1].mean():,.0f}: {gain(by[rule][0], base)}" for rule in rules]
            lines.append([name, data, str(n), f"{base.mean():.1f}", *cells, gain(by["slowest"][0], by["even"][0])])
    head = ["learner", "pool", "labels", f"{STEPS} steps", *rules, "slowest − even"]
    return markdown(head, lines, 2)


def target_table(rows: Rows, key: str) -> str:
    others, settings = [way for way in TARGETS if way != "uniform"], distinct(rows, "data", "strategy")
    tails = tuple(setting for setting in settings if "tail" in setting[0])
    lines = []
    for name, part in [(setting, [setting]) for setting in settings] + [(("mean of the tails", ""), tails)]:
        found = {
            way: np.mean([values(rows, key, data=data, strategy=by, target=way) for data, by in part], axis=0)
            for way in TARGETS
        }
        cells = [gain(found[way], found["uniform"]) for way in others]
        ahead = [gain(found["nearest"], found[way]) for way in ("without DARP", "labelled")]
        lines.append([*name, f"{found['uniform'].mean():.1f}", *cells, *ahead])
    head = ["pool", "labels by", "uniform", *others, "nearest − without", "nearest − labelled"]
    return markdown(head, lines, 2)


def settled_table(rows: Rows) -> str:
    lines = []
    for data, strategy in distinct(rows, "data", "strategy"):
        found = {how: values(rows, "curve", data=data, strategy=strategy, how=how)[:, 1:] for how in HOW}
        base = found["as it is"]
        for how in HOW[1:]:
            cells = [gain(found[how][:, i], base[:, i]) for i in range(len(COUNTS) - 1)]
            means = " / ".join(f"{mean:.1f}" for mean in base.mean(axis=0))
            lines.append([data, strategy, how, means, *cells, gain(found[how].mean(axis=1), base.mean(axis=1))])
    return markdown(["pool", "strategy", "weighed", "as it is", *map(str, COUNTS[1:]), "mean"], lines, 3)


def deviations(rows: Rows, **where: Any) -> np.ndarray:
    """The standard deviation over the trainings of each set of labels."""
    return np.asarray(values(rows, "accuracies", **where).std(axis=1, ddof=1))


def stability_table(rows: Rows) -> str:
    strategies, settings = [name for (name,) in distinct(rows, "strategy")], distinct(rows, "data", "learner")
    lines, found = [], {}
    for data, learner in settings:
        cells = []
        for strategy in strategies:
            where = {"data": data, "learner": learner, "strategy": strategy}
            accuracies, found[data, learner, strategy] = values(rows, "accuracies", **where), deviations(rows, **where)
            own, between = found[data, learner, strategy].mean(), spread(accuracies.mean(axis=1)).sd
            cells.append(f"{accuracies.mean():.1f}: {own:.1f}, {between:.1f}")
        lines.append([data, learner, *cells])
    mean = {s: np.mean([found[(*setting, s)] for setting in settings], axis=0) for s in strategies}
    lines.append(["mean", "", *(f"{mean[s].mean():.2f}" for s in strategies)])
    lines.append(["minus random", "", "", *(gain(mean[s], mean["random"], 2) for s in strategies[1:])])
    return markdown(["pool", "learner", *strategies], lines, 2)


def learners_table(rows: Rows) -> str:
    """By how much the deviation over trainings differs from that of supervised learning, over all strategies."""
    lines = []
    strategies = [name for (name,) in distinct(rows, "strategy")]
    for (data,) in distinct(rows, "data"):
        found = {
            learner: np.mean([deviations(rows, data=data, learner=learner, strategy=s) for s in strategies], axis=0)
            for learner in LEARNERS
        }
        base = found["supervised"]
        lines.append([data, f"{base.mean():.2f}", *(gain(found[name], base, 2) for name in list(LEARNERS)[1:])])
    return markdown(["pool", *LEARNERS], lines, 1)


TABLES: dict[str, tuple[str, Callable[[Rows], str]]] = {  # name -> the study and the table
    "horizon": ("horizon", horizon_table),
    "target, the pool": ("target", lambda rows: target_table(rows, "pool")),
    "target, the test": ("target", lambda rows: target_table(rows, "accuracy")),
    "settled": ("settled", settled_table),
    "stability": ("stability", stability_table),
    "stability, learners": ("stability", learners_table),
}


def renewed(
    page: str,
    parts: dict[str, Any],
    tables: dict[str, tuple[str, Callable[[Rows], str]]] = TABLES,
    source: str = "outlooks_adapt",
) -> str:
    """The page with the tables of these results."""
    for name, (part, table) in tables.items():
        begin, end = (f"<!-- {name} from benchmarks/results/{source}.json: {which} -->" for which in ("begin", "end"))
        before, rest = page.split(begin)
        after = rest.split(end)[1]
        about = f"{parts[part]['seeds']} seeds, {parts[part]['core_seconds']} seconds of one core."
        page = f"{before}{begin}\n\n{table(parts[part]['rows'])}\n\n{about}\n\n{end}{after}"
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this study; may be repeated")
    parser.add_argument("--seeds", type=int, help="in place of the 5 to 10 of each study")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--docs", action="store_true", help="only write the tables into docs/evidence/outlooks.md")
    given = parser.parse_args()
    if given.docs:
        page = renewed(PAGE.read_text(encoding="utf-8"), json.loads(given.out.read_text())["parts"])
        write_whole(PAGE, lambda file: file.write(page.encode()))
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for part in given.part or PARTS:
        start = time.process_time()
        study, seeds = PARTS[part]
        rows = study(given.seeds or seeds)
        seconds = round(time.process_time() - start)
        parts = json.loads(given.out.read_text())["parts"] if given.out.exists() else {}
        parts[part] = {"seeds": given.seeds or seeds, "core_seconds": seconds, "rows": rows}
        record(given.out, "outlooks_adapt", parts=parts)
        print(f"{part}: {seconds} s", flush=True)


if __name__ == "__main__":
    main()
