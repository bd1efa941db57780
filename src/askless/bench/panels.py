"""The numbers of a benchmark as arrays, one panel (group, learner, metric) at a time; a missing cell is NaN."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from askless.bench.results import Record, Results
from askless.bench.statistics import aubc, labels_to_target, spread, wins


class Panel(NamedTuple):
    """`values[i, j, k]`: the metric of `methods[i]` with `seeds[j]` at `labels[k]`; NaN where there is none. `log`: whether
    areas are over the logarithm of the labels."""

    metric: str
    group: str
    learner: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    labels: tuple[int, ...]
    values: np.ndarray
    log: bool = False

    def of(self, method: str) -> np.ndarray:
        """(seeds, labels) of one method, all NaN if it is not here."""
        if method in self.methods:
            return np.asarray(self.values[self.methods.index(method)])
        return np.full(self.values.shape[1:], np.nan)

    def reached(self, method: str) -> list[int]:
        """The numbers of labels that the method has with some seed."""
        return [n for n, column in zip(self.labels, self.of(method).T, strict=True) if not np.isnan(column).all()]

    def part(self, method: str, seeds: Sequence[int], labels: Sequence[int]) -> np.ndarray:
        """(seeds, labels) of one method, of these only."""
        return self.of(method)[np.ix_([self.seeds.index(s) for s in seeds], [self.labels.index(n) for n in labels])]

    @property
    def shared(self) -> list[int]:
        """The positions of the numbers of labels that every method has reached with some seed."""
        return [int(k) for k in np.flatnonzero((~np.isnan(self.values)).any(axis=1).all(axis=0))]

    def areas(self) -> np.ndarray:
        """AUBC (methods, seeds) over the shared numbers of labels."""
        if not self.shared:
            return np.full(self.values.shape[:2], np.nan)
        labels = np.array(self.labels)[self.shared]
        return aubc(np.log(labels) if self.log else labels, self.values[:, :, self.shared])

    @property
    def differing(self) -> list[int]:
        """The positions of the numbers of labels at which methods differ: not of a start that all share."""
        high = np.nanmax(self.values, axis=0, initial=-np.inf)  # (seeds, labels); a seed may be missing
        low = np.nanmin(self.values, axis=0, initial=np.inf)
        return [int(k) for k in np.flatnonzero((high > low).any(axis=0))]

    def thirds(self) -> list["Panel"]:
        """The low, middle and high third of the numbers of labels that all methods have reached, without a shared start."""
        parts = np.array_split(np.array([k for k in self.shared if k in self.differing], dtype=np.int64), 3)
        return [self._replace(labels=tuple(self.labels[k] for k in p), values=self.values[:, :, p]) for p in parts]

    def labels_to_end_of(self, other: str, method: str) -> float:
        """The labels at which the mean curve of a method comes to the other's end, both over the seeds that both have; NaN
        where there are none, inf where it never does."""
        own, end = self.of(method)[:, self.shared], self.of(other)[:, self.shared]
        both = ~np.isnan(own + end).any(axis=1)
        if not both.any():
            return float("nan")
        return labels_to_target(np.array(self.labels)[self.shared], own[both].mean(axis=0), end[both].mean(axis=0)[-1])


def panel(results: Results, metric: str, group: str, learner: str | None = None, missing: bool = False) -> Panel:
    """The metric of every method that has it in `group` (with `missing`, of every method of the benchmark).

    Without a learner: of the first that has the metric. Where a round was measured many times (records with an `x`) and not
    as a whole, the value is the last of them.
    """
    rows = [r for r in results.records if r.metric == metric and r.group == group]
    if learner is None:
        learner = next(iter(_ordered(results.about.get("learners"), [r.learner for r in rows])), "")
    rows = [r for r in rows if r.learner == learner]
    last = sorted(rows, key=lambda r: np.inf if r.x is None else r.x)
    found = {(r.method, r.seed, r.labels): r.value for r in last}
    methods = methods_of(results) if missing else _ordered(results.about.get("methods"), [r.method for r in rows])
    seeds, labels = sorted({r.seed for r in rows}), sorted({r.labels for r in rows})
    values = np.array(
        [[[found.get((m, s, n), np.nan) for n in labels] for s in seeds] for m in methods], dtype=np.float64
    )
    shape = (len(methods), len(seeds), len(labels))
    log = results.about.get("area") == "log labels"
    return Panel(metric, group, learner, tuple(methods), tuple(seeds), tuple(labels), values.reshape(shape), log)


def panels(results: Results, metric: str) -> list[Panel]:
    """The panels of a metric that hold anything: by group, then by learner."""
    all_ = [panel(results, metric, g, l) for g in groups_of(results) for l in learners_of(results, metric)]
    return [p for p in all_ if not np.isnan(p.values).all()]


def records_of(results: Results, metric: str) -> list[Record]:
    """The records of a metric; in each group of the first learner that has it."""
    rows = [r for r in results.records if r.metric == metric]
    plan = results.about.get("learners")
    first = {g: _ordered(plan, [r.learner for r in rows if r.group == g])[0] for g in {r.group for r in rows}}
    return [r for r in rows if r.learner == first[r.group]]


def groups_of(results: Results) -> list[str]:
    """The groups that have records, in the order of the plan."""
    return _ordered(results.about.get("groups"), [r.group for r in results.records])


def methods_of(results: Results) -> list[str]:
    """The methods that have records, in the order of the plan."""
    return _ordered(results.about.get("methods"), [r.method for r in results.records])


def ranked_of(results: Results) -> list[str]:
    """The methods that are ranked: not the oracle, which looks at all labels."""
    return [m for m in methods_of(results) if m != results.about.get("oracle")]


def learners_of(results: Results, metric: str) -> list[str]:
    """The learners that have records of the metric, in the order of the plan."""
    return _ordered(results.about.get("learners"), [r.learner for r in results.records if r.metric == metric])


def main_metric(results: Results) -> str:
    """The metric the benchmark is about: the first of the plan, else the first recorded."""
    named = [*results.about.get("metrics", []), *(r.metric for r in results.records)]
    return str(named[0]) if named else "test_accuracy"


def more_is_better(metric: str) -> bool:
    """Whether methods can be ranked by the metric; only of accuracies do we know the direction."""
    return metric.endswith("accuracy")


def unit(metric: str) -> str:
    """The metric in words, with its unit."""
    return words(metric) + (", %" if more_is_better(metric) else "")


def words(metric: str) -> str:
    return metric.replace("_", " ")


def win_loss(results: Results, metric: str, learner: str | None = None) -> tuple[list[str], np.ndarray, int]:
    """Methods, W (see `statistics.wins`) summed over the groups, and the number of (group, labels) settings."""
    methods = ranked_of(results)
    W, settings = np.zeros((len(methods), len(methods)), dtype=int), 0
    for group in groups_of(results):
        p = panel(results, metric, group, learner, missing=True)
        ranked = p.values[[p.methods.index(m) for m in methods]]
        W, settings = W + wins(ranked[:, :, p.differing]), settings + len(p.differing)
    return methods, W, settings


def areas_by_group(views: Sequence[Panel], methods: Sequence[str]) -> np.ndarray:
    """AUBC (groups, methods, seeds) of one panel for each group, NaN where there is none."""
    seeds = sorted({s for v in views for s in v.seeds})
    out = np.full((len(views), len(methods), len(seeds)), np.nan)
    for rows, v in zip(out, views, strict=True):
        known = [i for i, m in enumerate(v.methods) if m in methods]
        at = [methods.index(v.methods[i]) for i in known]
        rows[np.ix_(at, [seeds.index(s) for s in v.seeds])] = v.areas()[known]
    return out


def mean_areas(areas: np.ndarray) -> np.ndarray:
    """(groups, methods): each over the seeds it has."""
    return np.array([[spread(seeds).mean for seeds in group] for group in areas])


def scores(results: Results, metric: str, learner: str | None = None) -> tuple[list[str], list[str], np.ndarray]:
    """Groups, methods and mean AUBC (groups, methods), of the methods that every group has."""
    groups, methods = groups_of(results), ranked_of(results)
    views = [panel(results, metric, group, learner) for group in groups]
    means = mean_areas(areas_by_group(views, methods)).reshape(len(groups), len(methods))
    everywhere = np.flatnonzero(~np.isnan(means).any(axis=0))
    return groups, [methods[i] for i in everywhere], means[:, everywhere]


def iou_matrix(results: Results, group: str, labels: int) -> tuple[list[str], np.ndarray]:
    """Methods, and the intersection over union of their label sets in %, once `labels` labels were asked for; in one more
    column that of two seeds of one method, the mean over all pairs.

    The set of a method is the union over its seeds; the start, which every method shares, is left out. NaN where both sets
    are empty, or where there is no pair.
    """
    of_seeds = _asked_sets(results, group, labels)
    whole = [set().union(*sets) for sets in of_seeds.values()]
    own = [_mean([_iou(a, b) for a, b in combinations(sets, 2) if a | b]) for sets in of_seeds.values()]
    return list(of_seeds), np.array([[*(_iou(a, b) for b in whole), mean] for a, mean in zip(whole, own, strict=True)])


def _asked_sets(results: Results, group: str, labels: int) -> dict[str, list[set[int]]]:
    """Method -> the label set of each seed, without the start, once `labels` labels were asked for."""
    sets: dict[str, list[set[int]]] = defaultdict(list)
    for (g, method, _), asked in results.asked.items():
        if g == group:
            ends = np.cumsum([len(batch) for batch in asked])
            sets[method].append(
                {i for end, batch in zip(ends[1:], asked[1:], strict=True) if end <= labels for i in batch}
            )
    return {m: sets[m] for m in _ordered(results.about.get("methods"), list(sets))}


def counts_asked(results: Results, group: str) -> list[int]:
    """The numbers of labels after each question of the group, without the start."""
    ends = {
        int(end)
        for (g, _, _), asked in results.asked.items()
        if g == group
        for end in np.cumsum([len(batch) for batch in asked])[1:]
    }
    return sorted(ends)


def _ordered(plan: Sequence[str] | None, seen: Sequence[str]) -> list[str]:
    """What was seen: first in the order of the plan, then in the order of appearance."""
    there = dict.fromkeys(seen)
    return [*(p for p in dict.fromkeys(plan or []) if p in there), *(s for s in there if s not in (plan or []))]


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _iou(a: set[int], b: set[int]) -> float:
    return 100 * len(a & b) / len(a | b) if a | b else float("nan")
