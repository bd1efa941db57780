"""dynamicAL's figures 1, 2 and 7 and table 10 by the kernel of infinite width, beside those by the trained network's kernel.

    python benchmarks/outlooks_wide.py                # every study
    python benchmarks/outlooks_wide.py --part tau     # one of them, beside the others' results
    python benchmarks/outlooks_wide.py --docs         # only write the tables into docs/evidence/outlooks.md

- drift: MMD / B after the rounds of the presets dal.fig7, which begin with figure 1, and dal.table10, on digits.
- tau: Kendall's tau of training dynamics and alignment along the training of dal.fig2 on digits, by both kernels; and along
  that of the network of infinite width.

Both kernels see the same items, asked by the same trainings. Means over seeds ± half of their 95 % t interval; differences
are paired by seed. The labels are a fifth of the paper's; b and R are those of the paper.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from outlooks_adapt import PAGE, gain, markdown, renewed, values
from suite import RESULTS, record
from torch import nn

import askless as al
from askless import kernels, theory
from askless.base.files import write_whole
from askless.base.rng import stream
from askless.bench import Moment, Row, Sample, preset
from askless.bench.cell import Stage, run_cell
from askless.bench.measures import MMDAndBound, drift, items, kernel, regression
from askless.bench.plan import start_positions
from askless.bench.statistics import interval
from askless.theory.findings import unlabelled

OUT = RESULTS / "outlooks_wide.json"
Rows = list[dict[str, Any]]
START = 100
ROUNDS = 4  # of figure 7
FINITE = 300  # labels up to which the trained network's kernel is computed, too: it is the slow one
STAGE = Stage()


def rows_of(name: str) -> list[Row]:
    """The rows of a preset with the paper's network, which are on digits, without their measures."""
    found = [row for row in preset(name, "small").rows if row.net == "cnn-gap"]
    return [replace(row, measures=(), along=()) for row in found]


@cache
def wide_kernel() -> np.ndarray:
    """The kernel of infinite width of the whole pool, (N, N): it depends on no seed, label or training."""
    [row, *_] = rows_of("dal.fig7")
    pool, views, _ = STAGE(row)
    learner = al.ActiveLearner(pool, net=row.net, views=views)
    return kernel(learner, learner.first_network, np.arange(len(pool)), "infinite")


def replayed(row: Row, seed: int) -> list[tuple[int, float | None, str, float]]:
    """Everything that a cell measures: labels, x, the metric, its value."""
    with tempfile.TemporaryDirectory() as folder:
        run_cell(row, seed, Path(folder), stage=STAGE)
        records = json.loads((Path(folder) / "result.json").read_text())["records"]
    return [(n, x, metric, float(f"{value:.4g}")) for _, n, x, metric, value in records]


# --- MMD / B ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DriftByBoth:
    """MMD and B by the kernel of infinite width and, up to FINITE labels, by that of the trained network."""

    def __call__(self, moment: Moment) -> list[Sample]:
        learner, at = moment.learner, moment.learner.labelled
        if len(at) <= START:
            return []
        Y = theory.one_hot(learner.known_labels, learner.classes)
        found = {"infinite": drift(wide_kernel()[np.ix_(at, at)], Y, START)}
        if len(at) <= FINITE:
            found["finite"] = list(MMDAndBound(start=START)(moment))
        return [s._replace(metric=f"{width}, {s.metric}") for width, samples in found.items() for s in samples]


def drift_study(seeds: int) -> Rows:
    """A line for every round after the start: of the batches of figure 7, whose rounds are also those of figure 1 and of
    three plans of table 10, and of its fourth plan."""
    plans = [*(replace(row, counts=row.counts[: ROUNDS + 1]) for row in rows_of("dal.fig7")), rows_of("dal.table10")[0]]
    lines = []
    for seed in range(seeds):
        for row in plans:
            measured = replayed(replace(row, measures=(DriftByBoth(),)), seed)
            for k, n in enumerate(row.counts[1:], start=1):
                numbers = {metric: value for labels, _, metric, value in measured if labels == n and ", " in metric}
                lines.append({"seed": seed, "plan": row.method, "round": k, "labels": n} | numbers)
        print(f"seed {seed} done", flush=True)
    return lines


# --- Kendall's tau ---------------------------------------------------------------------------------------------------

LOOKS = (0, 25, 100)  # steps of the network, before the last
TIMES = (0, 0.1, 0.3, 1, 3, 10, 100, 10_000)  # of the network of infinite width, in steps of 1 / lambda_max
DRAWS, SIZE, AMONG = 150, 50, 100  # random queries, as in the preset


def taus(row: Row, seed: int) -> Rows:
    """Taus along two trainings on the same labels: of the network, by both kernels, and of that of infinite width."""
    pool, views, _ = STAGE(row)
    options = replace(row.learner, evaluate_every=25)
    learner = al.ActiveLearner(pool, net=row.net, learner=options, seed=seed, views=views, fresh=row.fresh)
    start = start_positions(pool, START, row.start_by, seed)
    learner.tell(start, pool.labels[start])
    others = stream(seed, "dynamics and alignment").choice(unlabelled(learner), AMONG, replace=False)
    at, S = np.concatenate([start, others]), np.arange(START)
    Y, wide = theory.one_hot(pool.labels[at], learner.classes), kernel(learner, learner.first_network, at, "infinite")
    lines: Rows = []

    def add(kind: str, step: float | str, K: np.ndarray, f: np.ndarray) -> None:
        """A line; `left` is the squared residual of a labelled item, 1 for outputs of 0."""
        tau = theory.dynamics_alignment_tau(K, f - Y, Y, S, SIZE, DRAWS, seed).tau
        left = float(np.square(f - Y)[S].sum() / START)
        lines.append({"seed": seed, "kind": kind, "step": str(step), "tau": round(tau, 4), "left": round(left, 4)})

    def look(step: int | str, net: nn.Module) -> None:
        if step in (*LOOKS, "end"):
            f = kernels.look(net, items(learner, at)).logits.double().numpy()
            add("finite", step, kernel(learner, net, at), f)
            add("finite, infinite kernel", step, wide, f)

    learner.fit(look=look)
    assert learner.model is not None
    look("end", learner.model)
    K = wide[:START, :START]
    step = 1 / theory.spectrum(K).lambda_max
    path = theory.linearised_predictions(K, wide[:, :START], -Y[S], TIMES, step, how="flow")
    for time_, f in zip((*TIMES, "end"), (*path, regression(wide, Y, S)), strict=True):
        add("infinite", time_, wide, f)
    return lines


def tau_study(seeds: int) -> Rows:
    [row, _] = rows_of("dal.fig2")
    return [line for seed in range(seeds) for line in taus(row, seed)]


PARTS: dict[str, Callable[[int], Rows]] = {"drift": drift_study, "tau": tau_study}


# --- into the docs ---------------------------------------------------------------------------------------------------


def about(found: np.ndarray, digits: int = 4) -> str:
    mean, half, _ = interval(found)
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"


def ratios(rows: Rows, width: str, **where: Any) -> np.ndarray:
    """MMD / B for a kernel of unit diagonal, one number per seed."""
    return values(rows, f"{width}, mmd_over_bound", **where)


def figure1(rows: Rows) -> str:
    lines = []
    for b in (250, 500, 1000):
        where = {"plan": f"b = {b}", "round": 1}
        finite, infinite = (ratios(rows, width, **where) for width in ("finite", "infinite"))
        raw = [values(rows, f"{width}, unscaled_mmd_over_bound", **where) for width in ("finite", "infinite")]
        bound = values(rows, "infinite, bound", **where)
        cells = [about(finite), about(infinite), gain(infinite, finite, 4), about(raw[0], 2), about(raw[1])]
        lines.append([str(b), *cells, about(bound, 1)])
    head = ["finite", "infinite", "infinite − finite", "finite, raw", "infinite, raw", "B, infinite"]
    ends = [[ratios(rows, width, plan=f"b = {b}", round=1) for b in (1000, 250)] for width in ("finite", "infinite")]
    lines.append(["1000 − 250", *(gain(*pair, 4) for pair in ends), "", "", "", ""])
    return markdown(["b", *head], lines, 1)


def figure7(rows: Rows) -> str:
    lines = []
    for b in (250, 500, 1000):
        for width in ("finite", "infinite"):
            cells = []
            for k in range(1, ROUNDS + 1):
                there = [row for row in rows if f"{width}, mmd_over_bound" in row]
                found = ratios(there, width, plan=f"b = {b}", round=k)
                cells.append(about(found) if len(found) else "")
            lines.append([str(b), width, *cells])
    return markdown(["b", "kernel", *(f"round {k}" for k in range(1, ROUNDS + 1))], lines, 2)


def table10(rows: Rows) -> str:
    plans = {(10, 100): "R = 10, b = 100", (4, 250): "b = 250", (2, 500): "b = 500", (1, 1000): "b = 1000"}
    found = {
        plan: [ratios(rows, width, plan=name, round=plan[0]) for width in ("finite", "infinite")]
        for plan, name in plans.items()
    }
    base, lines = found[1, 1000], []
    for (R, b), both in found.items():
        gains = ["", ""] if both is base else [gain(own, one, 4) for own, one in zip(both, base, strict=True)]
        cells = [text for own, more in zip(both, gains, strict=True) for text in (about(own), more)]
        lines.append([str(R), str(b), *cells])
    head = ["R", "b", "finite", "minus R = 1", "infinite", "minus R = 1"]
    return markdown(head, lines, 2)


def tau_table(rows: Rows) -> str:
    kinds = {
        "finite": "finite, its own",
        "finite, infinite kernel": "finite, that of infinite width",
        "infinite": "infinite, its own",
    }
    lines = []
    for kind, name in kinds.items():
        steps = dict.fromkeys(row["step"] for row in rows if row["kind"] == kind)
        for step in steps:
            tau, left = (values(rows, key, kind=kind, step=step) for key in ("tau", "left"))
            lines.append([name, step if step == "end" else f"{float(step):,g}", about(tau, 2), f"{left.mean():.2f}"])
    return markdown(["network, kernel", "step", "tau", "residual"], lines, 1)


TABLES: dict[str, tuple[str, Callable[[Rows], str]]] = {  # name -> the study and the table
    "figure 1": ("drift", figure1),
    "figure 7": ("drift", figure7),
    "table 10": ("drift", table10),
    "tau": ("tau", tau_table),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this study; may be repeated")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--docs", action="store_true", help="only write the tables into docs/evidence/outlooks.md")
    given = parser.parse_args()
    if given.docs:
        page = renewed(PAGE.read_text(encoding="utf-8"), json.loads(given.out.read_text())["parts"], TABLES, OUT.stem)
        write_whole(PAGE, lambda file: file.write(page.encode()))
        return
    torch.set_num_threads(1)
    for part in given.part or PARTS:
        start = time.process_time()
        rows = PARTS[part](given.seeds)
        seconds = round(time.process_time() - start)
        parts = json.loads(given.out.read_text())["parts"] if given.out.exists() else {}
        parts[part] = {"seeds": given.seeds, "core_seconds": seconds, "rows": rows}
        record(given.out, OUT.stem, parts=parts)
        print(f"{part}: {seconds} s", flush=True)


if __name__ == "__main__":
    main()
