"""The tables over all groups of a benchmark: who stands where, by thirds of the budget, and group by group."""

from collections.abc import Sequence

import numpy as np

from askless.bench.panels import (
    Panel,
    areas_by_group,
    main_metric,
    mean_areas,
    methods_of,
    more_is_better,
    panel,
    scores,
    unit,
)
from askless.bench.results import Results
from askless.bench.statistics import average_ranks, gap_closed, holm, interval, paired, significant, wilcoxon
from askless.report.numbers import known, plus_minus
from askless.report.table import NOTHING, Column, Table

THIRDS = ("low", "middle", "high")


def overall_tables(results: Results) -> list[Table]:
    """Where there are several groups and a baseline: all of them together, those that a method was developed on and those
    that are reported once, and each by itself."""
    metric, baseline = main_metric(results), str(results.about.get("baseline"))
    groups, ranked, _ = scores(results, metric)
    if len(groups) < 3 or baseline not in ranked or not more_is_better(metric):
        return []
    all_groups = Overall(results, groups, ranked)
    developed = [g for g in groups if g in results.about.get("developed", [])]
    kinds = {"All groups together": groups}
    if developed:
        once = [g for g in groups if g not in developed]
        kinds |= {f"Groups that {baseline} was developed on": developed, "Groups reported once": once}
    parts = {title: Overall(results, chosen, ranked) for title, chosen in kinds.items() if chosen}
    tables = [table for title, part in parts.items() for table in (part.standing(title), part.by_thirds(title))]
    return [*(table for table in tables if table is not None), all_groups.by_group(developed)]


class Overall:
    """Some groups of a benchmark by the main metric; its methods by their mean rank, after the oracle. `areas` (groups,
    methods, seeds), `means` (groups, methods); `above` (groups, methods): +1 or -1 where a ranked method is significantly
    above or below the baseline."""

    def __init__(self, results: Results, groups: Sequence[str], ranked: Sequence[str]) -> None:
        self.metric, self.baseline = main_metric(results), str(results.about.get("baseline"))
        self.groups, self.oracle = groups, results.about.get("oracle")
        self.views = [panel(results, self.metric, group) for group in groups]
        ranks = average_ranks(mean_areas(areas_by_group(self.views, ranked)))
        self.ranks = {ranked[i]: float(ranks[i]) for i in np.argsort(ranks, kind="stable")}
        self.methods = [*(m for m in methods_of(results) if m == self.oracle), *self.ranks]
        self.areas = areas_by_group(self.views, self.methods)
        self.means = mean_areas(self.areas)
        self.base = self.methods.index(self.baseline)
        self.others = [i for i, m in enumerate(self.methods) if m in self.ranks and i != self.base]
        self.above = np.zeros(self.means.shape, dtype=int)
        for signs, areas in zip(self.above, self.areas, strict=True):
            signs[self.others] = significant(areas[self.others], areas[self.base])

    def of(self, method: str) -> np.ndarray:
        """Mean areas (groups,)."""
        return self.means[:, self.methods.index(method)]

    def standing(self, title: str) -> Table:
        """One line per method: its mean rank and area, and how it compares with the baseline."""
        base = self.of(self.baseline)
        compared = {m: self.of(m) - base for m in self.methods if m != self.baseline}

        def column(head: str, cell: dict[str, str]) -> Column:
            return head, [cell.get(m, NOTHING) for m in self.methods]

        columns = [
            ("method", self.methods),
            column("mean rank", {m: f"{rank:.2f}" for m, rank in self.ranks.items()}),
            column(f"mean AUBC of {unit(self.metric)}", {m: self.number(np.nanmean(self.of(m))) for m in self.methods}),
            column(f"minus {self.baseline}, points", {m: gain(d) for m, d in compared.items()}),
            column("least", {m: self.place(d, int(np.nanargmin(d))) for m, d in compared.items()}),
            column("most", {m: self.place(d, int(np.nanargmax(d))) for m, d in compared.items()}),
            column(f"groups above / below {self.baseline}", {self.methods[i]: self.counts(i) for i in self.others}),
        ]
        notes = [
            f"Over {len(self.groups)} groups, each by its mean over the seeds. Minus {self.baseline}: the mean difference ± "
            "half of its 95 % t interval over the groups; then the smallest and the largest of any group. Above / below: "
            "the number of groups whose areas differ significantly (Wilcoxon over the seeds at 5 %, in each group corrected "
            "by Holm)."
        ]
        notes += powerless(self.areas.shape[2], len(self.others))
        if "random" in self.methods:
            columns.append(column("labels for random's end", {m: self.saved(m) for m in self.methods}))
            notes.append(
                "Labels for random's end: labels that reach random's last accuracy, in % of random's; median over groups."
            )
            if self.oracle in self.methods:
                columns.append(column("of the oracle's gap", {m: self.gap(m) for m in self.methods}))
                notes.append(
                    "Of the oracle's gap: (area - random's) / (oracle's - random's), by the mean areas of the groups with "
                    "an oracle."
                )
        return Table.by_columns(title, columns, " ".join(notes))

    def by_thirds(self, title: str) -> Table | None:
        """By how much the baseline is above each other method in the low, middle and high third of the labels."""
        thirds = [view.thirds() for view in self.views]
        if any(not part.labels for parts in thirds for part in parts):
            return None
        found: list[np.ndarray] = []  # for each third the mean over the groups, (others, seeds)
        for k in range(3):
            areas = areas_by_group([parts[k] for parts in thirds], self.methods)
            found.append((areas[:, [self.base]] - areas[:, self.others]).mean(axis=0))
        p = holm(np.array([wilcoxon(row, np.zeros(len(row))) for third in found for row in third])).reshape(3, -1)
        columns: list[Column] = [("method", [self.methods[i] for i in self.others])]
        for k, word in enumerate(THIRDS):
            marks = ["*" if value < 0.05 else "" for value in p[k]]
            cells = [gain(row) + mark for row, mark in zip(found[k], marks, strict=True)]
            columns.append((f"{word}: {span([parts[k] for parts in thirds])} labels", cells))
        note = (
            f"{self.baseline} minus the method in points of AUBC within each third of the numbers of labels: the mean over "
            "the groups, ± half of its 95 % t interval over the seeds they share. *: Wilcoxon's p is below 5 %, "
            f"Holm-corrected for all {p.size} comparisons."
        )
        notes = [note, *powerless(self.areas.shape[2], p.size)]
        return Table.by_columns(
            f"{title}: {self.baseline} minus each other, by thirds of the budget", columns, " ".join(notes)
        )

    def by_group(self, developed: Sequence[str]) -> Table:
        """One line per group: where the baseline stands in it."""
        ranked = [self.methods.index(m) for m in self.ranks]
        rows = []
        for group, means, areas, above in zip(self.groups, self.means, self.areas, self.above, strict=True):
            best = max(self.others, key=lambda i: means[i])
            kind = [("development" if group in developed else "reported once")] if developed else []
            difference = plus_minus(*paired(areas[best], areas[self.base])[:2], share=True, sign="+")
            names = [self.methods[i] for i in self.others if above[i] > 0]
            gap = [known(100 * self.closed(means, self.base), ".0f")] if self.has_gap else []
            rank = 1 + int((means[ranked] > means[self.base]).sum())
            numbers = [self.number(means[self.base]), str(rank), f"{self.methods[best]} {difference}"]
            rows.append([group, *kind, *numbers, ", ".join(names) or NOTHING, str(int((above < 0).sum())), *gap])
        head = ["group", *(["kind"] if developed else []), f"{self.baseline}, AUBC, %", f"rank of {len(ranked)}"]
        head += [f"best other, minus {self.baseline}", "significantly above it", "below it"]
        head += ["% of the oracle's gap"] if self.has_gap else []
        return Table(
            "Group by group", head, rows, "Differences, paired by seed, ± half of the 95 % t interval; tests as above."
        )

    # --- cells

    @property
    def has_gap(self) -> bool:
        return "random" in self.methods and self.oracle in self.methods

    def closed(self, means: np.ndarray, at: int) -> float:
        return gap_closed(means[at], means[self.methods.index("random")], means[self.methods.index(str(self.oracle))])

    def gap(self, method: str) -> str:
        there = ~np.isnan(self.of(str(self.oracle)))
        if not there.any():
            return NOTHING
        return known(100 * self.closed(self.means[there].mean(axis=0), self.methods.index(method)), ".0f") + " %"

    def saved(self, method: str) -> str:
        shares = [v.labels_to_end_of("random", method) / v.labels[v.shared[-1]] for v in self.views]
        middle = float(np.median([s for s in shares if not np.isnan(s)] or [np.nan]))
        return "> 100 %" if np.isinf(middle) else f"{known(100 * middle, '.0f')} %"

    def counts(self, at: int) -> str:
        return f"{int((self.above[:, at] > 0).sum())} / {int((self.above[:, at] < 0).sum())}"

    def number(self, value: float) -> str:
        return f"{100 * value:.1f}"

    def place(self, differences: np.ndarray, at: int) -> str:
        return f"{100 * differences[at]:+.1f} ({self.groups[at]})"


def gain(differences: np.ndarray) -> str:
    d = interval(differences)
    return plus_minus(d.mean, d.half, share=True, sign="+") if d.n else NOTHING


def powerless(seeds: int, comparisons: int) -> list[str]:
    """A note where no comparison can be significant: with n pairs Wilcoxon's p is at least 2 ** (1 - n)."""
    if comparisons * 2.0 ** (1 - seeds) < 0.05:
        return []
    return [f"With {seeds} seeds none of {comparisons} comparisons can be significant: judge by the intervals."]


def span(parts: Sequence[Panel]) -> str:
    """The smallest and the largest number of labels of these."""
    least, most = min(p.labels[0] for p in parts), max(p.labels[-1] for p in parts)
    return f"{least}–{most}" if least < most else str(least)
