"""The tables of a benchmark. Their numbers are the same whenever it is run again, except those of `times_tables`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from askless.bench.overall import overall_tables
from askless.bench.panels import (
    Panel,
    counts_asked,
    groups_of,
    iou_matrix,
    learners_of,
    main_metric,
    methods_of,
    more_is_better,
    panel,
    panels,
    unit,
    win_loss,
    words,
)
from askless.bench.results import Results
from askless.bench.statistics import (
    against,
    aubc,
    clear_best,
    holm,
    kendall,
    paired,
    spread,
    wilcoxon,
)
from askless.report.numbers import known, many, plus_minus, sentence
from askless.report.table import NOTHING, Cell, Column, Table

MEAN = "Mean ± standard deviation (number of seeds)."


def all_tables(results: Results) -> list[Table]:
    """Every table whose numbers are the same whenever the benchmark is run again."""
    first, *others = dict.fromkeys([main_metric(results), *results.about.get("metrics", [])])
    return [
        *accuracy_tables(results, first),
        *paper_tables(results),
        *summary_tables(results),
        *overall_tables(results),
        *learner_tables(results),
        *win_loss_tables(results),
        *(table for metric in others for table in accuracy_tables(results, metric)),
        *iou_tables(results),
        *failure_tables(results),
    ]


def accuracy_tables(results: Results, metric: str) -> list[Table]:
    """The tables of a metric, in the benchmark's `layout`."""
    baseline, layout, oracle = (results.about.get(name) for name in ("baseline", "layout", "oracle"))
    if layout == "ends":
        return [_end_table(results, metric, l) for l in learners_of(results, metric)]
    found = panels(results, metric)
    if layout in (None, "labels"):
        return [accuracy_table(p, baseline, oracle=oracle) for p in found]
    word = layout.removesuffix("s")
    out = []
    for p in found:
        counts = sorted({r.labels for r in results.records if r.group == p.group})  # a metric may lack the start
        heads = [f"{word} {counts.index(n)} ({n} labels)" for n in p.labels]
        out.append(accuracy_table(p, baseline, heads, f"by query {word}"))
    return [t.turned("round") for t in out] if layout == "rounds" else out


def accuracy_table(
    p: Panel,
    baseline: str | None = None,
    heads: Sequence[str] = (),
    by: str = "by number of labels",
    oracle: str | None = None,
) -> Table:
    """Method x labels: mean ± sd (n) of a panel; `heads` name the columns where they are no numbers of labels. The oracle,
    if there is one, is never called the best."""
    ranked = more_is_better(p.metric)
    marked = ranked and baseline in p.methods
    columns, others = [], np.array([m != oracle for m in p.methods])[:, None]
    for k, head in enumerate(heads or map(str, p.labels)):
        values = p.values[:, :, k]
        best = clear_best(np.where(others, values, np.nan)) if ranked else None
        marks = against(values, p.of(str(baseline))[:, k]) if marked else np.zeros(len(values), dtype=int)
        arrows = [{1: " ↑", -1: " ↓", 0: ""}[mark] for mark in marks.tolist()]
        columns.append((head, [Cell(_mean(values[i], p.metric) + arrow, best == i) for i, arrow in enumerate(arrows)]))
    notes = [MEAN]
    if ranked:
        notes.append(
            "Bold: the paired 95 % interval of its difference to the second best excludes 0 (each cell separately)."
        )
    if marked:
        notes.append(f"↑ ↓: that of its difference to {baseline} excludes 0.")
    return _by_method(_title(f"{sentence(unit(p.metric))} {by}", p.group, p.learner), p.methods, columns, notes)


def _end_table(results: Results, metric: str, learner: str) -> Table:
    """Method x group, at the last number of labels of each group."""
    views = [v for v in (panel(results, metric, g, learner, missing=True) for g in groups_of(results)) if v.labels]
    seeds = sorted({s for v in views for s in v.seeds})
    values = np.full((len(methods_of(results)), len(seeds), len(views)), np.nan)
    for g, v in enumerate(views):
        values[:, [seeds.index(s) for s in v.seeds], g] = v.values[:, :, -1]
    ends = [f"{v.labels[-1]} labels" for v in views]
    heads = [
        v.group if v.group.endswith(n) else f"{v.group}, {n}".strip(", ") for v, n in zip(views, ends, strict=True)
    ]
    p = Panel(metric, "", learner, views[0].methods, tuple(seeds), tuple(range(len(views))), values)
    return accuracy_table(p, results.about.get("baseline"), heads, "at the end")


def summary_tables(results: Results) -> list[Table]:
    """The main metric in one line per method: its area, the test against the baseline, its ends. Of accuracies only; other
    metrics have no sum over a curve that means anything."""
    metric = main_metric(results)
    return [_summary_table(results, p) for p in panels(results, metric)] if more_is_better(metric) else []


def _summary_table(results: Results, p: Panel) -> Table:
    baseline = str(results.about.get("baseline"))
    # With a shared start and one more count in common, half of the area would be the start's.
    first = p.values[:, :, p.shared[0]] if p.shared else np.zeros((1, 1))
    high, low = np.nanmax(first, axis=0, initial=-np.inf), np.nanmin(first, axis=0, initial=np.inf)
    short = len(p.shared) < 2 or (len(p.shared) == 2 and bool((high == low).all()))
    areas = p.values[:, :, p.shared[-1]] if short and p.shared else p.areas()
    name = f"{words(p.metric)} at {p.labels[p.shared[-1]]} labels" if short and p.shared else "AUBC"
    columns = [(f"{name}, %" if short else f"AUBC of {unit(p.metric)}", [_mean(a, p.metric) for a in areas])]
    over = "the logarithm of the labels" if p.log else "the numbers of labels"
    area = f"AUBC: the area under the curve over {over}, divided by their range; "
    notes = [MEAN if short else area + MEAN[:1].lower() + MEAN[1:]]
    if baseline in p.methods:
        base = areas[p.methods.index(baseline)]
        others = [i for i, m in enumerate(p.methods) if m != baseline]
        p_values = np.full(len(p.methods), np.nan)
        p_values[others] = holm(np.array([wilcoxon(areas[i], base) for i in others]))
        gains = [NOTHING if m == baseline else _gain(a, base, p.metric) for m, a in zip(p.methods, areas, strict=True)]
        tests = ["< 0.001" if v < 0.001 else known(v, ".3f") for v in p_values]
        columns += [(f"{name} minus {baseline}, points", gains), ("Wilcoxon p (Holm)", tests)]
        notes.append(
            f"Minus {baseline}: the mean difference, paired by seed, ± half of its 95 % t interval; p: two-sided Wilcoxon "
            f"signed-rank test of these differences, Holm-corrected for the {len(others)} comparisons of this table."
        )
        pairs = max((paired(areas[i], base).n for i in others), default=0)
        if 0 < pairs < 8:
            notes.append(f"With {pairs} pairs no p can be below {2.0 ** (1 - pairs):.3g}, even before the correction.")
    if baseline in p.methods and p.shared:
        target = spread(p.of(baseline)[:, p.shared[-1]]).mean
        columns.append((f"labels to reach {100 * target:.1f} %", [_reach(p, m, baseline) for m in p.methods]))
        notes.append(
            f"Labels to reach: where the mean curve first reaches {baseline}'s final mean over the same seeds, "
            "interpolated between counts."
        )
    ends = [] if short else [(p.metric, -1, "final")]
    ends += [("pool_accuracy", -1, "final")] if p.metric != "pool_accuracy" else []
    for metric, k, word in [*ends, ("class_coverage", 0, "first"), ("class_coverage", -1, "final")]:
        q = panel(results, metric, p.group, p.learner)
        q = q if q.methods else panel(results, metric, p.group)
        if q.methods:
            head = f"{unit(metric)}, {word} ({q.labels[k]} labels)"
            columns.append((head, [_mean(q.of(m)[:, k], metric) for m in p.methods]))
    return _by_method(_title("Summary", p.group, p.learner), p.methods, columns, notes)


def _reach(p: Panel, method: str, baseline: str) -> str:
    reached = p.labels_to_end_of(baseline, method)
    return f"> {p.labels[p.shared[-1]]}" if np.isinf(reached) else known(reached, ".0f")


def win_loss_tables(results: Results) -> list[Table]:
    """Who is clearly better than whom, and how often; nothing where methods cannot be ranked, or where no one is."""
    metric = main_metric(results)
    methods, W, settings = win_loss(results, metric)
    if len(methods) < 2 or not more_is_better(metric) or not W.any():
        return []
    rows = [
        [m, *(NOTHING if i == j else str(n) for j, n in enumerate(W[i])), str(W[i].sum())]
        for i, m in enumerate(methods)
    ]
    lost = ["all losses", *map(str, W.sum(axis=0)), ""]
    note = (
        f"How often, of {many(settings, 'setting')} (group x number of labels), the row's method is clearly better than "
        "the column's: the 95 % t interval of the difference paired by seed excludes 0."
    )
    return [Table(f"Wins and losses in {words(metric)}", ["wins of", *methods, "all wins"], [*rows, lost], note)]


def paper_tables(results: Results) -> list[Table]:
    """The paper's own table, group by group, or one for all groups where the layout is "ends"; ours beside it where the
    protocol is the paper's."""
    paper = results.about.get("paper") or {}
    given = paper.get("rows") or []
    ends, scale = results.about.get("layout") == "ends", results.about.get("scale")
    differs = f"this run is scaled down, scale “{scale}”" if scale and scale != "full" else "the protocol differs"
    heading = "The paper's numbers" + ("" if results.about.get("comparable") else f" (not comparable: {differs})")
    places = max([_places(r["mean"]) for r in given if r["mean"] is not None], default=1)
    sd_places = max([places, *(_places(r["sd"]) for r in given if r.get("sd") is not None)])
    groups = list(dict.fromkeys(r["group"] for r in given))
    note = f"{paper.get('source', '')}; {paper.get('unit', '')}".strip("; ")
    out = []
    for together in [groups] if ends and groups else [[group] for group in groups]:
        here = [r for r in given if r["group"] in together]
        cells = {(r["method"], r["group"], str(r["column"])): r for r in here}
        methods = list(dict.fromkeys(str(r["method"]) for r in here))
        columns = [
            (
                ", ".join(part for part in (g if ends else "", c) if part),
                [_printed(cells.get((m, g, c)), places, sd_places) + ours(results, g, m, c) for m in methods],
            )
            for g, c in dict.fromkeys((r["group"], str(r["column"])) for r in here)
        ]
        title = _title(heading, "" if ends else together[0])
        out.append(_by_method(title, methods, columns, [f"{note}."] if note else []))
    return [t.turned("round") for t in out] if results.about.get("layout") == "rounds" else out


def _places(value: float) -> int:
    return len(repr(float(value)).partition(".")[2])


def _printed(row: dict[str, Any] | None, places: int, sd_places: int) -> str:
    if row is None or row["mean"] is None:
        return NOTHING
    sd = "" if row.get("sd") is None else f" ± {row['sd']:.{sd_places}f}"
    return f"{row['mean']:.{places}f}{sd}"


def ours(results: Results, group: str, method: str, column: str) -> str:
    """Our number for a cell of the paper's table, in brackets; nothing where the protocol is not the paper's.

    A heading is a number of labels, "step 2" or "round 2" (the second query, after the start), or else means the end.
    """
    if not results.about.get("comparable"):
        return ""
    named = groups_of(results)
    alone = named if len(named) == 1 else []
    where = next((g for g in (group, f"{group}, {column} labels", *alone) if g in named), None)
    p = None if where is None else panel(results, main_metric(results), where)
    if p is None or method not in p.methods:
        return ""
    reached = p.reached(method)
    word, _, number = column.partition(" ")
    if column.isdigit():
        at = [n for n in reached if n == int(column)]
    elif word in ("step", "round"):
        at = reached[int(number) : int(number) + 1]
    else:
        at = reached[-1:]
    return f" (ours {_mean(p.part(method, p.seeds, at), p.metric)})" if at else ""


def learner_tables(results: Results) -> list[Table]:
    """The same acquisitions valued by several learners, side by side, at the last number of labels."""
    metric = main_metric(results)
    learners = learners_of(results, metric)
    out = []
    for group in groups_of(results) if len(learners) > 1 else []:
        views = [v for v in (panel(results, metric, group, l) for l in learners) if v.methods and v.shared]
        if len(views) > 1:
            out.append(_learner_table(group, views, str(results.about.get("baseline"))))
    return out


def _learner_table(group: str, views: list[Panel], baseline: str) -> Table:
    methods = [m for m in views[0].methods if all(m in v.methods for v in views)]
    columns, means, areas = [], [], []
    for v in views:
        last = [v.of(m)[:, v.shared[-1]] for m in methods]
        mean = np.array([spread(values).mean for values in last])
        means.append(mean)
        areas.append(np.array([spread(v.areas()[v.methods.index(m)]).mean for m in methods]))
        head = f"{v.learner}: {unit(v.metric)} ({v.labels[v.shared[-1]]} labels)"
        columns.append((head, [_mean(values, v.metric) for values in last]))
        if baseline in methods:
            base = last[methods.index(baseline)]
            gains = [NOTHING if m == baseline else _gain(x, base, v.metric) for m, x in zip(methods, last, strict=True)]
            columns.append((f"{v.learner}: gain over {baseline}", gains))
        ranks = [NOTHING if np.isnan(m) else str(1 + int((mean > m).sum())) for m in mean]
        columns.append((f"{v.learner}: rank", ranks))
    notes = [
        "One set of acquisitions, used to train each learner; gains are paired by seed, ± half of the 95 % interval."
    ]
    for v, mean, area in zip(views[1:], means[1:], areas[1:], strict=True):
        tau = kendall(means[0], mean)
        changes = "is undefined" if np.isnan(tau) else "stays" if tau > 1 - 1e-9 else "changes"
        notes.append(
            f"Kendall tau of the methods' order, {views[0].learner} against {v.learner}: {known(tau, '.2f')} at the last "
            f"number of labels (the ranking {changes}), {known(kendall(areas[0], area), '.2f')} by AUBC."
        )
    return _by_method(_title("One set of acquisitions, several learners", group), methods, columns, notes)


def iou_tables(results: Results) -> list[Table]:
    """How much the methods' choices overlap, for each group at its last number of labels; of benchmarks that draw it."""
    if not any(spec.get("kind") == "iou" for spec in results.about.get("figures", [])):
        return []
    note = (
        "Intersection over union; a method's set is the union over its seeds, without the start. Between its seeds: "
        "the mean over pairs of seeds of one method."
    )
    out = []
    for group in groups_of(results):
        for labels in counts_asked(results, group)[-1:]:
            methods, M = iou_matrix(results, group, labels)
            heads = [*methods, "between its seeds"]
            columns = [(head, [known(v, ".1f") for v in column]) for head, column in zip(heads, M.T, strict=True)]
            title = _title(f"Overlap of the chosen items, %, at {labels} labels", group)
            out.append(_by_method(title, methods, columns, [note]))
    return out


def times_tables(results: Results) -> list[Table]:
    """Seconds and memory, which differ from run to run and so stay out of the other tables."""
    measures = (
        ("select_seconds", "selection, s per round (median)", np.median),
        ("fit_seconds", "training, s per round (median)", np.median),
        ("peak_memory_mb", "peak memory, MB (largest)", np.max),
        ("cell_seconds", "one seed, s (median)", np.median),
    )
    values: dict[tuple[str, str, str], list[float]] = {}
    for r in results.times:
        for group in dict.fromkeys(("", r.group)):
            values.setdefault((group, r.method, r.metric), []).append(r.value)
    found = [measure for measure in measures if any(metric == measure[0] for _, _, metric in values)]

    def table(title: str, groups: Sequence[str]) -> Table:
        rows = [(g, m) for g in groups for m in methods_of(results) if any((g, m, f[0]) in values for f in found)]
        columns = [
            (head, [f"{how(v):.4g}" if (v := values.get((g, m, metric))) else NOTHING for g, m in rows])
            for metric, head, how in found
        ]
        return _by_method(title, [f"{g}: {m}" if g else m for g, m in rows], columns)

    groups = groups_of(results)
    several = [table("Times and memory, all groups", [""])] if len(groups) > 1 else []
    return [*several, table("Times and memory", groups)] if found else []


def failure_tables(results: Results) -> list[Table]:
    """The cells that are missing from every other table."""
    rows = [(f.group or NOTHING, f.method, str(f.seed)) for f in sorted(results.failures)]
    head, note = ("group", "method", "seed"), "The means above are without them."
    return [Table("Cells that failed", head, rows, note)] if rows else []


def compare(results: Sequence[Results]) -> list[Table]:
    """Several benchmarks side by side: AUBC of each, and paired differences where they share seeds."""
    names = folder_names(results)
    rows = [
        [name, p.group or NOTHING, p.learner or NOTHING, method, unit(p.metric), labels, _mean(areas, p.metric)]
        for name, r in zip(names, results, strict=True)
        for p in panels(r, main_metric(r))
        for labels in [f"{p.labels[p.shared[0]]}–{p.labels[p.shared[-1]]}" if p.shared else NOTHING]
        for method, areas in zip(p.methods, p.areas(), strict=True)
    ]
    head = ["benchmark", "group", "learner", "method", "metric", "labels", "AUBC"]
    out = [Table("Areas under the curve", head, rows, MEAN, left=range(5))]
    if len(results) > 1:
        pairs = [
            [f"{names[b]} minus {names[a]}", *row]
            for b in range(len(results))
            for a in range(b)
            for row in _differences(results[a], results[b])
        ]
        head = ["benchmarks", "group", "learner", "method", "labels", "difference of AUBC", "seeds"]
        note = (
            "Paired by the seeds and over the numbers of labels that both have; ± half of the 95 % t interval."
            if pairs
            else "These benchmarks have no group, learner, method and seed in common, so there is nothing to pair."
        )
        out.append(Table("Paired differences", head, pairs, note, left=range(4)))
    return out


def _differences(first: Results, second: Results) -> list[list[str]]:
    metric = main_metric(first)
    if metric != main_metric(second):
        return []
    rows = []
    right = {(p.group, p.learner): p for p in panels(second, metric)}
    for p in panels(first, metric):
        q = right.get((p.group, p.learner))
        seeds = sorted(set(p.seeds) & set(q.seeds)) if q is not None else []
        if q is None or not seeds:
            continue
        for method in p.methods:
            if kept := [n for n in p.reached(method) if n in q.reached(method)]:
                a, b = (aubc(np.array(kept), v.part(method, seeds, kept)) for v in (p, q))
                if n := paired(b, a).n:
                    where = [p.group or NOTHING, p.learner or NOTHING, method, f"{kept[0]}–{kept[-1]}"]
                    rows.append([*where, _gain(b, a, metric), str(n)])
    return rows


def folder_names(results: Sequence[Results]) -> list[str]:
    """The folder's own name where it tells them apart, else its path, else the benchmark's name and its place."""
    short = [r.folder.name if r.folder else str(r.about.get("name", "")) for r in results]
    long = [str(r.folder) if r.folder else f"{n} #{i + 1}" for i, (r, n) in enumerate(zip(results, short, strict=True))]
    return [s if short.count(s) == 1 and s else l for s, l in zip(short, long, strict=True)]


# What they share


def _by_method(title: str, methods: Sequence[str], columns: Sequence[Column], notes: Sequence[str] = ()) -> Table:
    return Table.by_columns(title, [("method", methods), *columns], " ".join(notes))


def _mean(values: np.ndarray, metric: str) -> str:
    s = spread(values)
    return f"{plus_minus(s.mean, s.sd, more_is_better(metric))} ({s.n})" if s.n else NOTHING


def _gain(values: np.ndarray, base: np.ndarray, metric: str) -> str:
    d = paired(values, base)
    return plus_minus(d.mean, d.half, more_is_better(metric), sign="+") if d.n else NOTHING


def _title(text: str, *where: str) -> str:
    named = ", ".join(part for part in where if part)
    return f"{text}: {named}" if named else text
