"""An outlook of NPC, tried: which modes of the kernel would a batch learn, and does that say how well training goes?

    askless data fetch cifar10
    python benchmarks/outlooks_modes.py          # about five minutes of one core
    python benchmarks/outlooks_modes.py --docs   # only write the tables into docs/evidence/outlooks.md

For 40 labels by each strategy, `theory.modes` under two kernels over the pool: that of the linear head which is trained, and
that of an infinitely wide two-layer ReLU network on the same features. Then two learners are trained on these labels.
Correlations are by Pearson, ± half of their 95 % t interval over what each line says.
"""

import argparse
import json
import time
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from outlooks_adapt import LEARNERS, PAGE, Rows, distinct, fitted, gain, markdown, pool_of, renewed, started, values
from suite import RESULTS, record

import askless as al
from askless import kernels, theory
from askless.base.files import write_whole
from askless.bench.statistics import interval
from askless.learn.observe import PlainItems
from askless.theory.modes import of_basis
from askless.theory.spectrum import Eigenbasis, eigenbasis

OUT = RESULTS / "outlooks_modes.json"
SEEDS, TRAININGS = 12, 2
POOLS = ("digits", "CIFAR-10")
STARTS = {"10, 15, 15": (15, 15), "40 at once": (40,)}  # the first 10 are balanced and random
STRATEGIES: dict[str, str | al.acquire.Strategy] = {
    **{name: name for name in ("random", "margin", "badge", "npc")},
    "npc, swap": al.NPC(search="swap"),
    "askless": "askless",
}
TRAINED = {name: LEARNERS[name] for name in ("supervised", "FixMatch + DARP")}
MEASURES = {
    "target": "share of the target",
    "own": "share of a random function",
    "breadth": "breadth",
    "least": "λ min of the labels",
    "error": "error of the regression",
}


class Kernel(NamedTuple):
    """A kernel over a pool, and its eigenbasis."""

    K: np.ndarray
    basis: Eigenbasis


@cache
def kernels_of(name: str) -> dict[str, Kernel]:
    learner = started(name, TRAINED["supervised"], 0)
    everything = PlainItems(learner.views, np.arange(len(learner.pool)))
    head = kernels.ntk(learner.first_network, everything, layers="all").numpy() / learner.classes
    wide = theory.wide_relu_kernel(learner.pool.x, layers="both")
    return {kind: Kernel(K, eigenbasis(K)) for kind, K in (("head", head), ("wide", wide))}


def labelled(name: str, start: str, strategy: str, seed: int) -> dict[int, int]:
    """40 labels, asked for with a linear head trained in between; those at once by the untrained head."""
    learner = started(name, al.Supervised(steps=100), seed)
    learner.strategy = al.acquire.as_strategy(STRATEGIES[strategy])
    if len(STARTS[start]) > 1:
        learner.start_balanced(1)
    for size in STARTS[start]:
        if learner.labels:
            learner.fit()
        batch = learner.ask(size)
        learner.tell(batch, learner.pool.labels[batch.indices])
    return learner.labels


def measured(kernel: Kernel, y: np.ndarray, S: np.ndarray) -> dict[str, float]:
    """What the labels learn of the target and of a random function, how broadly, NPC's criterion, the squared error of the
    regression over the pool as a share of the target's variance, and the labels' mean K(x, x) over that of the pool."""
    found, own = of_basis(kernel.basis, y, S), of_basis(kernel.basis, None, S)
    Y, inside = theory.one_hot(y, int(y.max()) + 1), kernel.K[np.ix_(S, S)]
    missed = Y - kernel.K[:, S] @ np.linalg.solve(inside, Y[S])
    return {
        "target": found.share,
        "by chance": found.expected_share,
        "own": own.share,
        "breadth": found.breadth,
        "least": theory.spectrum(inside).lambda_min,
        "error": float(np.square(missed).sum() / np.square(Y - Y.mean(axis=0)).sum()),
        "sq length": float(np.trace(inside) / len(S) / np.trace(kernel.K) * len(Y)),
    }


def study(seeds: int) -> Rows:
    rows = []
    for name in POOLS:
        for start in STARTS:
            for strategy in STRATEGIES:
                for seed in range(seeds):
                    labels = labelled(name, start, strategy, seed)
                    S, y = np.array(list(labels)), pool_of(name).labels
                    row: dict[str, Any] = {"data": name, "start": start, "strategy": strategy, "seed": seed}
                    for kind, kernel in kernels_of(name).items():
                        row |= {f"{kind}, {key}": float(f"{v:.5g}") for key, v in measured(kernel, y, S).items()}
                    for learner, options in TRAINED.items():
                        found = [fitted(started(name, options, 1000 + t, labels)) for t in range(TRAININGS)]
                        row[learner] = round(float(np.mean(found)), 2)
                    rows.append(row)
    return rows


# --- into the docs ---------------------------------------------------------------------------------------------------


def batches_table(rows: Rows) -> str:
    """What each strategy's labels learn, as differences from random labels."""
    shown = {"head, target": "target, %", "head, own": "random function, %", "head, breadth": "breadth"}
    shown |= {"head, sq length": "squared length, %"}
    lines = []
    for data, start in distinct(rows, "data", "start"):
        for key, name in (shown | {learner: f"{learner}, %" for learner in TRAINED}).items():
            scale = 100 if key in ("head, target", "head, own", "head, sq length") else 1
            found = {s: scale * values(rows, key, data=data, start=start, strategy=s) for s in STRATEGIES}
            chance = ""
            if key == "head, target":
                chance = f"{scale * values(rows, 'head, by chance', data=data)[0]:.1f}"
            others = [gain(found[s], found["random"]) for s in STRATEGIES if s != "random"]
            exact = gain(found["npc, swap"], found["npc"])
            lines.append([data, start, name, chance, f"{found['random'].mean():.1f}", *others, exact])
    return markdown(["pool", "labels", "", "theory", *STRATEGIES, "swap − npc"], lines, 3)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's, NaN where one of the two never changes."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0 and np.ptp(b) > 0 else float("nan")


def within(rows: Rows, key: str, learner: str, data: str) -> np.ndarray:
    """The correlation over the seeds of one strategy, for each strategy and each way to start."""
    groups = [{"data": data, "start": start, "strategy": s} for start in STARTS for s in STRATEGIES]
    return np.array([correlation(values(rows, key, **g), values(rows, learner, **g)) for g in groups])


def over(rows: Rows, key: str, learner: str, data: str) -> np.ndarray:
    """The correlation over the strategies, for each seed: the mean of the ways to start."""
    seeds = [seed for (seed,) in distinct(rows, "seed")]
    groups = [[{"data": data, "start": start, "seed": seed} for start in STARTS] for seed in seeds]
    found = [[correlation(values(rows, key, **g), values(rows, learner, **g)) for g in of] for of in groups]
    return np.mean(found, axis=1)


def predictions_table(rows: Rows) -> str:
    """How each measure goes with accuracy: the mean of the correlations of the learners."""
    others = [row for row in rows if row["strategy"] != "askless"]
    ways = {"within": (within, rows), "over": (over, rows), "over, not askless": (over, others)}
    lines = []
    for kind, key in [(kind, key) for kind in ("head", "wide") for key in MEASURES]:
        cells = []
        for data in POOLS:
            for way, some in ways.values():
                found = interval(np.mean([way(some, f"{kind}, {key}", learner, data) for learner in TRAINED], axis=0))
                text = f"{found.mean:+.2f} ± {found.half:.2f}"
                cells.append(f"**{text}**" if found.clear else text)
        lines.append([kind, MEASURES[key], *cells])
    return markdown(["kernel", "measure", *(f"{data}: {way}" for data in POOLS for way in ways)], lines, 2)


TABLES = {"modes, batches": ("modes", batches_table), "modes, predictions": ("modes", predictions_table)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--docs", action="store_true", help="only write the tables into docs/evidence/outlooks.md")
    given = parser.parse_args()
    if given.docs:
        parts = json.loads(OUT.read_text())["parts"]
        page = renewed(PAGE.read_text(encoding="utf-8"), parts, TABLES, OUT.stem)
        write_whole(PAGE, lambda file: file.write(page.encode()))
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start = time.process_time()
    rows = study(given.seeds)
    parts = {"modes": {"seeds": given.seeds, "core_seconds": round(time.process_time() - start), "rows": rows}}
    record(OUT, OUT.stem, parts=parts)


if __name__ == "__main__":
    main()
