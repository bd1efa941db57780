"""The results of a benchmark: tidy records of numbers, in memory and on disk."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askless.base.errors import InputError

ABOUT = "benchmark.json"
CELLS = "cells"
COLUMNS = ("group", "method", "seed", "learner", "labels", "x", "metric", "value")


class Record(NamedTuple):
    """One number: `metric` has `value`, for `method` in `group` (a panel of the table) with `seed`, when `labels` items had
    a label and `learner` was the training that valued them. `x` is the place within the round where there is one (an epoch,
    the number of a draw), else None.

    >>> Record("", "npc", 0, "supervised", 20, None, "test_accuracy", 0.5).value
    0.5
    """

    group: str
    method: str
    seed: int
    learner: str
    labels: int
    x: float | None
    metric: str
    value: float


class Failure(NamedTuple):
    """A cell that could not be finished, and why."""

    group: str
    method: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Results:
    """Everything a report is made of.

    `about`: what was run, as plain data (see `describe` in `askless.bench.runner`). `records`: what was measured; `times`:
    seconds and memory, which differ from run to run. `asked`: for each (group, method, seed), the positions asked for in
    each round, the start first.

    `failures`: the cells that failed. `folder`: where they are.

    >>> from askless.bench import Benchmark, Data, Row, run
    >>> data, learner = Data(name="digits", items=60, test=50), al.Supervised(steps=5)
    >>> row = Row(method="random", strategy="random", data=data, net="linear", learner=learner, counts=(10, 20))
    >>> results = run(Benchmark(name="mine", title="Mine", rows=(row,), seeds=(0, 1)), "out")
    >>> results.curve("test_accuracy", "", "random").labels
    (10, 20)
    """

    about: dict[str, Any]
    records: list[Record]
    times: list[Record] = field(default_factory=list)
    asked: dict[tuple[str, str, int], list[list[int]]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    folder: Path | None = None

    def curve(self, metric: str, group: str, method: str, learner: str | None = None) -> "Curve":
        """The metric by seed and number of labels, of the seeds that have every number of labels."""
        rows = [r for r in self.records if (r.metric, r.group, r.method) == (metric, group, method)]
        values = {(r.seed, r.labels): r.value for r in rows if r.x is None and learner in (None, r.learner)}
        counts = sorted({n for _, n in values})
        seeds = sorted({s for s, _ in values if all((s, n) in values for n in counts)})
        table = np.array([[values[s, n] for n in counts] for s in seeds], dtype=np.float64)
        return Curve(tuple(seeds), tuple(counts), table.reshape(len(seeds), len(counts)))

    def arrays(self, group: str, method: str, seed: int, labels: int) -> dict[str, np.ndarray]:
        """What a measure kept beside its numbers in that round; empty where there is nothing."""
        if self.folder is None:
            return {}
        path = self.folder / CELLS / cell_name(group, method, seed) / f"arrays-{labels}.npz"
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as file:
            return dict(file)


class Curve(NamedTuple):
    """`table[i, j]`: the value of `seeds[i]` at `labels[j]`."""

    seeds: tuple[int, ...]
    labels: tuple[int, ...]
    table: np.ndarray


def cell_name(group: str, method: str, seed: int) -> str:
    """The folder of a cell: readable, and free of characters that file systems mind."""

    def plain(text: str) -> str:
        return "".join(c if c.isalnum() or c in "-_.=" else "_" for c in text)

    return f"{plain(group) or 'all'}--{plain(method)}--{seed}"


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # the disk's fault, or a hand's: it was written whole
        raise InputError(f"{path}: damaged ({error}); remove it, and run the benchmark again") from None


def read(folder: str | Path) -> Results:
    """What a benchmark has finished so far in `folder`.

    >>> from askless.bench import Benchmark, Data, Row, run
    >>> data, learner = Data(name="digits", items=60, test=50), al.Supervised(steps=5)
    >>> row = Row(method="random", strategy="random", data=data, net="linear", learner=learner, counts=(10, 20))
    >>> _ = run(Benchmark(name="mine", title="Mine", rows=(row,), seeds=(0, 1)), "out")
    >>> len(read("out").records) > 0
    True
    """
    folder = Path(folder)
    if not (folder / ABOUT).exists():
        raise InputError(f"expected a folder written by `askless bench run`, got {folder}, which has no {ABOUT}")
    about = read_json(folder / ABOUT)
    records: list[Record] = []
    times: list[Record] = []
    asked, failures = {}, []
    for cell in about["cells"]:
        key = (str(cell["group"]), str(cell["method"]), int(cell["seed"]))
        place = folder / CELLS / cell_name(*key)
        if (place / "result.json").exists():
            result = read_json(place / "result.json")
            records += [Record(*key, *r) for r in result["records"]]
            asked[key] = result["asked"]
            if (place / "times.json").exists():
                times += [Record(*key, *r) for r in read_json(place / "times.json")]
        elif (place / "failure.json").exists():
            failures.append(Failure(*key, read_json(place / "failure.json")["reason"]))
    return Results(about, records, times, asked, failures, folder)


def compared(results: Results) -> Results:
    """As tables compare them. Where that is `across` learners they take the place of methods: each set of labels is a group,
    `GROUP, METHOD`."""
    about = results.about
    if about.get("across") != "learners":
        return results

    def group_of(group: str, method: str) -> str:
        return f"{group}, {method}" if group else method

    def turned(records: Iterable[Record]) -> list[Record]:
        return [r._replace(group=group_of(r.group, r.method), method=r.learner, learner="") for r in records]

    groups = [group_of(g, m) for g in about["groups"] for m in about["methods"]]
    about = about | {"groups": groups, "methods": about["learners"], "learners": [""]}
    failures = [f._replace(group=group_of(f.group, f.method), method="all") for f in results.failures]
    return Results(about, turned(results.records), turned(results.times), {}, failures, results.folder)


def csv_text(records: Iterable[Record]) -> str:
    """Records as CSV with a header; numbers so that they read back exactly."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(records)
    return out.getvalue()
