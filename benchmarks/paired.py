"""Differences between methods, paired by seed, of a run in docs/evidence: the numbers of its verdict.

    python benchmarks/paired.py npc.table2            # of the area under the curve
    python benchmarks/paired.py dal.table3 --end      # at the last number of labels
    python benchmarks/paired.py crc.fig3 --slope      # of the logarithm of lambda_min on the epochs to the minimum

Points of accuracy (of other metrics: the metric itself), each a mean ± half of its 95 % t interval; * where that excludes 0.
"""

import argparse
import csv
from itertools import combinations
from pathlib import Path

import numpy as np

from askless.bench.results import Record, Results
from askless.bench.statistics import Difference, aubc, interval, paired

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"


def results_of(name: str) -> Results:
    with (EVIDENCE / name / "results.csv").open(encoding="utf-8", newline="") as file:
        return Results({}, [record(row) for row in csv.DictReader(file)])


def record(row: dict[str, str]) -> Record:
    x = float(row["x"]) if row["x"] else None
    return Record(
        row["group"],
        row["method"],
        int(row["seed"]),
        row["learner"],
        int(row["labels"]),
        x,
        row["metric"],
        float(row["value"]),
    )


def said(found: Difference, unit: float) -> str:
    return f"{unit * found.mean:+.2f} ± {unit * found.half:.2f}{' *' if found.clear else ''}"


def differences(results: Results, metric: str, end: bool) -> list[str]:
    """A line for every pair of methods of a group and learner."""
    unit = 100.0 if metric.endswith("accuracy") else 1.0
    keys = list(dict.fromkeys((r.group, r.learner) for r in results.records if r.metric == metric and r.x is None))
    lines = []
    for group, learner in keys:
        methods = list(dict.fromkeys(r.method for r in results.records if (r.group, r.learner) == (group, learner)))
        for a, b in combinations(methods, 2):
            one, other = (results.curve(metric, group, m, learner) for m in (a, b))
            if one.seeds != other.seeds or (one.labels != other.labels and not end):
                continue
            left, right = (
                c.table[:, -1] if end or len(c.labels) == 1 else aubc(np.array(c.labels), c.table) for c in (one, other)
            )
            lines.append(f"{group} {learner}: {b} - {a} {said(paired(right, left), unit)}")
    return lines


def slopes(results: Results) -> list[str]:
    """CRC, figure 3: of log lambda_min of the groups that were labelled on the epochs of the training that followed, seed by
    seed; and by what factor the median over random groups falls from the first to the last number of labels."""
    epochs = {(r.seed, r.labels): r.value for r in results.records if r.metric == "epochs_to_minimum"}
    scored = [r for r in results.records if r.metric == "scored_lambda_min" and r.value > 0]
    groups = [r for r in results.records if r.metric == "group_lambda_min"]
    seeds = sorted({r.seed for r in groups})
    slope, fall = [], []
    for seed in seeds:
        mine = [r for r in scored if r.seed == seed]
        x, y = [epochs[seed, r.labels] for r in mine], [np.log(r.value) for r in mine]
        slope.append(np.polyfit(x, y, 1)[0])
        first, last = (
            np.median([r.value for r in groups if (r.seed, r.labels) == (seed, n)])
            for n in (min(r.labels for r in groups), max(r.labels for r in groups))
        )
        fall.append(first / last)
    return [
        f"slope of log lambda_min per epoch: {said(interval(np.array(slope)), 1.0)}",
        f"lambda_min of random groups falls by a factor of {said(interval(np.array(fall)), 1.0)}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of a preset that docs/evidence has a run of")
    parser.add_argument("--metric", default="test_accuracy")
    parser.add_argument("--end", action="store_true", help="at the last number of labels")
    parser.add_argument("--slope", action="store_true", help="of CRC's figure 3")
    options = parser.parse_args()
    results = results_of(options.name)
    print(*(slopes(results) if options.slope else differences(results, options.metric, options.end)), sep="\n")


if __name__ == "__main__":
    main()
