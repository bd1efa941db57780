"""A small made-up benchmark, in memory and on disk."""

import dataclasses
import json

import numpy as np
import pytest

from askless.bench.results import ABOUT, CELLS, Failure, Record, Results, cell_name

METHODS = ["random", "margin", "badge", "npc"]
LABELS = [10, 20, 30, 50]
GROUPS = ["CIFAR-10", "SVHN", "digits"]
LEARNERS = ["fixmatch+darp", "supervised"]


def make(methods=METHODS, groups=GROUPS, learners=LEARNERS, seeds=range(5), labels=LABELS, noise=0.01, **about):
    """Methods better by 2 points each, under the second learner in the opposite order; same numbers at every call."""
    rng = np.random.default_rng(0)
    records, times, asked = [], [], {}
    for g, group in enumerate(groups):
        for i, method in enumerate(methods):
            for seed in seeds:
                key = (group, method, seed)
                shared = 0.01 * seed
                for l, learner in enumerate(learners):
                    gain = 0.02 * (i if l == 0 else len(methods) - i)
                    for k, n in enumerate(labels):
                        value = (
                            0.5 + 0.07 * k + shared - 0.05 * g + (gain if k else 0) + (noise * rng.normal() if k else 0)
                        )
                        records.append(Record(*key, learner, n, None, "test_accuracy", float(value)))
                        records.append(Record(*key, learner, n, None, "pool_accuracy", float(value - 0.03)))
                for k, n in enumerate(labels):
                    records.append(Record(*key, learners[0], n, None, "class_coverage", min(1.0, 0.4 + 0.2 * k)))
                    mmd = float(0.2 / n * np.exp(0.2 * rng.normal()))
                    records.append(Record(*key, learners[0], n, None, "mmd", mmd))
                    records.append(Record(*key, learners[0], n, None, "bound", 30 * mmd**1.1))
                    for x in range(0, 60, 10):
                        ratio = float(1 + (0.3 + 0.1 * i) * np.exp(-x / 20) + 0.05 * rng.normal())
                        records.append(Record(*key, learners[0], n, float(x), "ratio", ratio))
                    times.append(Record(*key, learners[0], n, None, "select_seconds", float(rng.uniform(0.1, 2))))
                    times.append(Record(*key, learners[0], n, None, "peak_memory_mb", float(rng.uniform(300, 400))))
                start = list(range(10))
                more = [10 + int(j) for j in rng.permutation(40 + 20 * i)[:40]]
                asked[key] = [start, more[:10], more[10:20], more[20:]]
    about = {
        "name": "made.up",
        "title": "A made-up benchmark",
        "scale": "small",
        "comparable": False,
        "paper": {
            "source": "Nobody 2024, table 1",
            "unit": "accuracy, %",
            "says": "That the last method wins.",
            "rows": [
                {"group": g, "method": m, "column": str(n), "mean": 80.25, "sd": 0.5 if m != "random" else None}
                for g in groups
                for m in methods
                for n in labels[1:]
            ],
        },
        "protocol": "Five seeds.\n\nTwo learners.",
        "open_points": ["The paper does not give the batch; we took 64."],
        "groups": list(groups),
        "methods": list(methods),
        "baseline": "random",
        "learners": list(learners),
        "seeds": list(seeds),
        "metrics": ["test_accuracy", "pool_accuracy", "class_coverage"],
        "figures": [{"kind": "curves"}, {"kind": "critical_difference"}],
        "command": "askless bench run made.up --out here",
        "versions": {"askless": "0.1", "torch": "2.6"},
        "threads": 1,
        "machine": {"cores": 2, "processor": "x86", "system": "Linux"},
        "cells": [{"group": g, "method": m, "seed": s, "settings": {}} for g in groups for m in methods for s in seeds],
    } | about
    return Results(about, records, times, asked)


def without(results, cells, reason="ran out of memory"):
    """The same benchmark after some (group, method, seed) failed."""
    return dataclasses.replace(
        results,
        records=[r for r in results.records if r[:3] not in cells],
        times=[r for r in results.times if r[:3] not in cells],
        asked={k: v for k, v in results.asked.items() if k not in cells},
        failures=[Failure(*c, reason) for c in cells],
    )


def store(results, folder):
    """Writes the benchmark the way `askless bench run` lays it out."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ABOUT).write_text(json.dumps(results.about))
    for key, asked in results.asked.items():
        place = folder / CELLS / cell_name(*key)
        place.mkdir(parents=True)
        mine = [list(r[3:]) for r in results.records if r[:3] == key]
        (place / "result.json").write_text(json.dumps({"records": mine, "asked": asked}))
        (place / "times.json").write_text(json.dumps([list(r[3:]) for r in results.times if r[:3] == key]))
    for f in results.failures:
        place = folder / CELLS / cell_name(*f[:3])
        place.mkdir(parents=True)
        (place / "failure.json").write_text(json.dumps({"reason": f.reason}))
    return folder


def curve_results(curves, labels=(10, 20), baseline="random", metric="test_accuracy", groups=("",), **about):
    """Results of {method: [[value by labels] by seed]} in every group; None or NaN values are missing."""
    records = [
        Record(g, m, s, "supervised", n, None, metric, v)
        for g in groups
        for m, table in curves.items()
        for s, row in enumerate(table)
        for n, v in zip(labels, row, strict=True)
        if v is not None
    ]
    about = {
        "name": "tiny",
        "scale": "smoke",
        "baseline": baseline,
        "groups": list(groups),
        "methods": list(curves),
        "learners": ["supervised"],
        "metrics": [metric],
    } | about
    return Results(about, records)


@pytest.fixture(name="make")
def _make():
    return make


@pytest.fixture(name="without")
def _without():
    return without


@pytest.fixture(name="store")
def _store():
    return store


@pytest.fixture(name="curve_results")
def _curve_results():
    return curve_results


@pytest.fixture(scope="session")
def results():
    return make()
