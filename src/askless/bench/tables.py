"""The tables of a benchmark. Their numbers are the same whenever it is run again, except those of `times_table`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from askless.bench.panels import (
    Panel,
    counts_asked,
    groups_of,
    iou_matrix,
    iou_of_seeds,
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
    Difference,
    Spread,
    against,
    aubc,
    clear_best,
    holm,
    kendall,
    labels_to_target,
    paired,
    spread,
    wilcoxon,
)
from askless.bench.typeset import Cell, Table, markdown

NOTHING = "–"


def accuracy_table(p: Panel, baseline: str | None = None, heads: Sequence[str] = (), by: str = "") -> Table:
    """Method x labels: mean ± sd (n) of a panel; `heads` name the columns where they are no numbers of labels."""
    ranked = more_is_better(p.metric)
    best = [clear_best(p.values[:, :, k]) if ranked else None for k in range(len(p.labels))]
    marked = ranked and baseline in p.methods
    marks = np.zeros((len(p.methods), len(p.labels)), dtype=int)
    if marked:
        base = p.of(str(baseline))
        marks = np.stack([against(p.values[:, :, k], base[:, k]) for k in range(len(p.labels))], axis=1)
    rows = [
        (
            Cell(method),
            *(
                Cell(
                    _spread(spread(p.values[i, :, k]), p.metric) + {1: " ↑", -1: " ↓", 0: ""}[marks[i, k]], best[k] == i
                )
                for k in range(len(p.labels))
            ),
        )
        for i, method in enumerate(p.methods)
    ]
    note = "Mean ± standard deviation (number of seeds)."
    if ranked:
        note += " Bold: the paired 95 % interval of its difference to the second best excludes 0 (each cell by itself)."
    if marked:
        note += f" ↑ ↓: that of its difference to {baseline} excludes 0."
    title = _title(unit(p.metric), p, by or "by number of labels")
    return Table(title, ("method", *(heads or map(str, p.labels))), tuple(rows), note)


def accuracy_tables(results: Results, metric: str) -> list[Table]:
    """The tables of a metric, in the benchmark's `layout`."""
    baseline, layout = results.about.get("baseline"), results.about.get("layout", "labels")
    if layout == "ends":
        return [_end_table(results, metric, l) for l in learners_of(results, metric)]
    found = panels(results, metric)
    if layout == "labels":
        return [accuracy_table(p, baseline) for p in found]
    word = layout.removesuffix("s")
    out = []
    for p in found:
        counts = sorted({r.labels for r in results.records if r.group == p.group})  # a metric may lack the start
        heads = [f"{word} {counts.index(n)} ({n} labels)" for n in p.labels]
        out.append(accuracy_table(p, baseline, heads, f"by query {word}"))
    return [_transposed(t, "round") for t in out] if layout == "rounds" else out


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


def _transposed(t: Table, corner: str) -> Table:
    columns = list(zip(*t.rows, strict=True))
    rows = [(Cell(name), *column) for name, column in zip(t.head[1:], columns[1:], strict=True)]
    return Table(t.title, (corner, *(c.text for c in columns[0])), tuple(rows), t.note)


def summary_table(results: Results, p: Panel) -> Table:
    """The panel of the main metric in one line per method: its area, the test against the baseline, its ends."""
    baseline = results.about.get("baseline")
    based = baseline in p.methods
    accuracy = more_is_better(p.metric)
    # With a shared start and one more count in common, half of the area would be the start's.
    first = p.values[:, :, p.shared[0]] if p.shared else np.zeros((1, 1))
    start_is_shared = bool(
        (np.nanmax(first, axis=0, initial=-np.inf) == np.nanmin(first, axis=0, initial=np.inf)).all()
    )
    short = len(p.shared) < 2 or (len(p.shared) == 2 and start_is_shared)
    areas = p.values[:, :, p.shared[-1]] if short and p.shared else p.areas()
    base = areas[p.methods.index(baseline)] if based else None
    p_values = np.full(len(p.methods), np.nan)
    name = f"{words(p.metric)} at {p.labels[p.shared[-1]]} labels" if short and p.shared else "AUBC"
    head = ["method", f"{name}, %" if short else f"AUBC of {unit(p.metric)}"]
    area = "AUBC: the area under the curve over the numbers of labels, divided by their range; m"
    notes = [f"{'M' if short else area}ean ± standard deviation (number of seeds)."]
    if base is not None:
        others = [i for i, m in enumerate(p.methods) if m != baseline]
        p_values[others] = holm(np.array([wilcoxon(areas[i], base) for i in others]))
        head += [f"{name} minus {baseline}" + (", points" if accuracy else ""), "Wilcoxon p (Holm)"]
        notes.append(
            f"Minus {baseline}: the mean difference, paired by seed, ± half of its 95 % t interval; p: two-sided Wilcoxon "
            f"signed-rank test of these differences, corrected by Holm for the {len(others)} comparisons of this table."
        )
        pairs = max((paired(areas[i], base).n for i in others), default=0)
        if 0 < pairs < 8:
            notes.append(f"With {pairs} pairs no p can be below {2.0 ** (1 - pairs):.3g}, even before the correction.")
    target = _mean_curve(p, str(baseline))[-1] if based and accuracy and p.shared else float("nan")
    if not np.isnan(target):
        head.append(f"labels to reach {100 * target:.1f} %")
        notes.append(
            f"Labels to reach: where the mean curve first comes to {baseline}'s final mean over the same seeds, "
            "interpolated between counts."
        )
    ends = [] if short else [(p.metric, -1, "final")]
    ends += [(m, -1, "final") for m in ("pool_accuracy",) if m != p.metric]
    ends += [("class_coverage", 0, "first"), ("class_coverage", -1, "final")]
    columns = []
    for metric, k, word in ends:
        q = panel(results, metric, p.group, p.learner)
        q = q if q.methods else panel(results, metric, p.group)
        if q.methods:
            columns.append((q, k))
            head.append(f"{unit(metric)}, {word} ({q.labels[k]} labels)")
    rows = []
    for i, method in enumerate(p.methods):
        row = [Cell(method), Cell(_spread(spread(areas[i]), p.metric))]
        if base is not None:
            d = paired(areas[i], base)
            row += (
                [Cell(NOTHING)] * 2 if method == baseline else [Cell(_difference(d, p.metric)), Cell(_p(p_values[i]))]
            )
        if not np.isnan(target):
            row.append(Cell(_reach(p, method, str(baseline))))
        row += [Cell(_spread(spread(q.of(method)[:, k]), q.metric)) for q, k in columns]
        rows.append(tuple(row))
    return Table(_title("Summary", p), tuple(head), tuple(rows), " ".join(notes))


def summary_tables(results: Results) -> list[Table]:
    """Of accuracies; other metrics have no sum over a curve that means anything."""
    metric = main_metric(results)
    return [summary_table(results, p) for p in panels(results, metric)] if more_is_better(metric) else []


def win_loss_table(results: Results) -> Table | None:
    """Who is clearly better than whom, and how often; None where methods cannot be ranked."""
    metric = main_metric(results)
    methods, W, settings = win_loss(results, metric)
    if len(methods) < 2 or not more_is_better(metric):
        return None
    rows = [
        (Cell(m), *(Cell(NOTHING if i == j else str(W[i, j])) for j in range(len(methods))), Cell(str(W[i].sum())))
        for i, m in enumerate(methods)
    ]
    lost = (Cell("all losses"), *(Cell(str(n)) for n in W.sum(axis=0)), Cell(""))
    note = (
        f"In how many of the {settings} settings (group x number of labels) the method of the row is clearly better than "
        "that of the column: the 95 % t interval of the difference paired by seed excludes 0."
    )
    return Table(f"Wins and losses in {words(metric)}", ("wins of", *methods, "all wins"), (*rows, lost), note)


def paper_tables(results: Results) -> list[Table]:
    """The paper's own table, group by group, or one for all groups where the layout is "ends"; ours beside it where the
    protocol is the paper's."""
    paper = results.about.get("paper") or {}
    given = paper.get("rows") or []
    layout = results.about.get("layout", "labels")
    comparable = bool(results.about.get("comparable"))
    heading = "The paper's numbers" + ("" if comparable else f" (not comparable: {_why_not(results)})")
    places = max([_places(r["mean"]) for r in given if r["mean"] is not None], default=1)
    sd_places = max([places, *(_places(r["sd"]) for r in given if r.get("sd") is not None)])
    groups = list(dict.fromkeys(r["group"] for r in given))
    out = []
    for together in [groups] if layout == "ends" and groups else [[group] for group in groups]:
        here = [r for r in given if r["group"] in together]
        cells = {(r["method"], r["group"], str(r["column"])): r for r in here}
        columns = list(dict.fromkeys((r["group"], str(r["column"])) for r in here))
        rows = [
            (
                Cell(m),
                *(Cell(_printed(cells.get((m, g, c)), places, sd_places) + ours(results, g, m, c)) for g, c in columns),
            )
            for m in dict.fromkeys(str(r["method"]) for r in here)
        ]
        heads = [", ".join(part for part in (g if layout == "ends" else "", c) if part) for g, c in columns]
        title = f"{heading}{': ' + together[0] if layout != 'ends' and together[0] else ''}"
        note = f"{paper.get('source', '')}; {paper.get('unit', '')}".strip("; ")
        out.append(Table(title, ("method", *heads), tuple(rows), note + ("." if note else "")))
    return [_transposed(t, "round") for t in out] if layout == "rounds" else out


def learner_tables(results: Results) -> list[Table]:
    """The same acquisitions valued by several learners, side by side, at the last number of labels."""
    metric = main_metric(results)
    learners = learners_of(results, metric)
    if len(learners) < 2:
        return []
    out = []
    for group in groups_of(results):
        views = [v for v in (panel(results, metric, group, l) for l in learners) if v.methods and v.shared]
        if len(views) < 2:
            continue
        methods = [m for m in views[0].methods if all(m in v.methods for v in views)]
        out.append(_learner_table(group, metric, views, methods, results.about.get("baseline")))
    return out


def _learner_table(group: str, metric: str, views: list[Panel], methods: list[str], baseline: str | None) -> Table:
    based = baseline in methods
    head = ["method"]
    lasts = [{m: v.of(m)[:, v.shared[-1]] for m in methods} for v in views]
    for v in views:
        head += [f"{v.learner}: {unit(metric)} ({v.labels[v.shared[-1]]} labels)"]
        head += [f"{v.learner}: gain over {baseline}"] if based else []
        head += [f"{v.learner}: rank"]
    means = [np.array([spread(last[m]).mean for m in methods]) for last in lasts]
    ranks = [_ranks(m) for m in means]
    rows = []
    for i, m in enumerate(methods):
        row = [Cell(m)]
        for last, rank in zip(lasts, ranks, strict=True):
            row.append(Cell(_spread(spread(last[m]), metric)))
            if based:
                row.append(
                    Cell(NOTHING if m == baseline else _difference(paired(last[m], last[str(baseline)]), metric))
                )
            row.append(Cell(rank[i]))
        rows.append(tuple(row))
    areas = [np.array([spread(v.areas()[v.methods.index(m)]).mean for m in methods]) for v in views]
    notes = [
        "One set of acquisitions, trained on by each learner; gains are paired by seed, ± half of the 95 % interval."
    ]
    for v, mean, area in zip(views[1:], means[1:], areas[1:], strict=True):
        last_tau, area_tau = kendall(means[0], mean), kendall(areas[0], area)
        changes = (
            "the ranking cannot be told" if np.isnan(last_tau)
            else "the ranking stays" if last_tau > 1 - 1e-9
            else "the ranking changes"
        )  # fmt: skip
        notes.append(
            f"Kendall tau of the methods' order, {views[0].learner} against {v.learner}: {_tau(last_tau)} at the last "
            f"number of labels ({changes}), {_tau(area_tau)} by AUBC."
        )
    title = "One set of acquisitions, several learners" + (f": {group}" if group else "")
    return Table(title, tuple(head), tuple(rows), " ".join(notes))


def asks_for_iou(results: Results) -> bool:
    return any(spec.get("kind") == "iou" for spec in results.about.get("figures", []))


def iou_tables(results: Results) -> list[Table]:
    """How much the methods' choices overlap, for each group at its last number of labels."""
    out = []
    for group in groups_of(results):
        for labels in counts_asked(results, group)[-1:]:
            methods, M = iou_matrix(results, group, labels)
            M = np.column_stack([M, iou_of_seeds(results, group, labels)])
            rows = [
                (Cell(m), *(Cell(NOTHING if np.isnan(v) else f"{v:.1f}") for v in M[i])) for i, m in enumerate(methods)
            ]
            title = f"Overlap of what was asked for, %, at {labels} labels" + (f": {group}" if group else "")
            note = (
                "Intersection over union; a method's set is the union over its seeds, without the start. Between its seeds: "
                "the mean over pairs of seeds of one method."
            )
            out.append(Table(title, ("method", *methods, "between its seeds"), tuple(rows), note))
    return out


def times_table(results: Results) -> Table | None:
    """Seconds and memory, which differ from run to run and so stay out of the other tables."""
    measures = (
        ("select_seconds", "selection, s per round (median)", np.median),
        ("fit_seconds", "training, s per round (median)", np.median),
        ("peak_memory_mb", "peak memory, MB (largest)", np.max),
        ("cell_seconds", "one seed, s (median)", np.median),
    )
    found = [(m, title, how) for m, title, how in measures if any(r.metric == m for r in results.times)]
    if not found:
        return None
    rows = []
    for group in groups_of(results):
        for method in methods_of(results):
            values = [
                [r.value for r in results.times if (r.group, r.method, r.metric) == (group, method, m)]
                for m, *_ in found
            ]
            if any(values):
                cells = [
                    Cell(_digits(float(how(v))) if v else NOTHING) for v, (*_, how) in zip(values, found, strict=True)
                ]
                rows.append((Cell(f"{group}: {method}" if group else method), *cells))
    return Table("Times and memory", ("method", *(title for _, title, _ in found)), tuple(rows))


def failure_table(results: Results) -> Table | None:
    """The cells that are missing from every other table."""
    if not results.failures:
        return None
    rows = tuple((Cell(f.group or NOTHING), Cell(f.method), Cell(str(f.seed))) for f in sorted(results.failures))
    return Table("Cells that failed", ("group", "method", "seed"), rows, "The means above are without them.")


def all_tables(results: Results) -> list[Table]:
    """Every table whose numbers are the same whenever the benchmark is run again."""
    metrics = list(dict.fromkeys([main_metric(results), *results.about.get("metrics", [])]))
    single = [t for t in (win_loss_table(results),) if t]
    failed = [t for t in (failure_table(results),) if t]
    first, *others = [accuracy_tables(results, m) for m in metrics]
    return [
        *first,
        *paper_tables(results),
        *summary_tables(results),
        *learner_tables(results),
        *single,
        *(t for tables in others for t in tables),
        *(iou_tables(results) if asks_for_iou(results) else []),
        *failed,
    ]


def compare(results: Sequence[Results]) -> str:
    """Several benchmarks side by side, as Markdown: AUBC of each, and paired differences where they share seeds."""
    names = _names(results)
    rows, pairs = [], []
    for name, r in zip(names, results, strict=True):
        for p in panels(r, main_metric(r)):
            for method, areas in zip(p.methods, p.areas(), strict=True):
                shared = p.shared
                labels = f"{p.labels[shared[0]]}–{p.labels[shared[-1]]}" if shared else NOTHING
                where = (name, p.group or NOTHING, p.learner or NOTHING, method, unit(p.metric), labels)
                rows.append((*map(Cell, where), Cell(_spread(spread(areas), p.metric))))
    for b in range(len(results)):
        for a in range(b):
            pairs += _differences(results[a], results[b], f"{names[b]} minus {names[a]}")
    head = ("benchmark", "group", "learner", "method", "metric", "labels", "AUBC")
    out = [Table("Areas under the curve", head, tuple(rows), "Mean ± standard deviation (number of seeds).")]
    if len(results) > 1:
        head = ("benchmarks", "group", "learner", "method", "labels", "difference of AUBC", "seeds")
        note = (
            "Paired by the seeds, over the numbers of labels, that both have; ± half of the 95 % t interval."
            if pairs
            else "These benchmarks share no group, learner and method with a seed in common, so there is nothing to pair."
        )
        out.append(Table("Paired differences", head, tuple(pairs), note))
    return markdown(out)


def _differences(first: Results, second: Results, title: str) -> list[tuple[Cell, ...]]:
    metric = main_metric(first)
    if metric != main_metric(second):
        return []
    rows = []
    right = {(p.group, p.learner): p for p in panels(second, metric)}
    for p in panels(first, metric):
        q = right.get((p.group, p.learner))
        if q is None:
            continue
        seeds = sorted(set(p.seeds) & set(q.seeds))
        for method in (m for m in p.methods if m in q.methods):
            kept = [n for n in p.labels if n in q.labels and _has(p, method, n) and _has(q, method, n)]
            if not seeds or not kept:
                continue
            a, b = (aubc(np.array(kept), _part(v, method, seeds, kept)) for v in (p, q))
            d = paired(b, a)
            if d.n:
                where = (title, p.group or NOTHING, p.learner or NOTHING, method, f"{kept[0]}–{kept[-1]}")
                rows.append((*map(Cell, where), Cell(_difference(d, metric)), Cell(str(d.n))))
    return rows


def _has(p: Panel, method: str, labels: int) -> bool:
    return not np.isnan(p.of(method)[:, p.labels.index(labels)]).all()


def _part(p: Panel, method: str, seeds: list[int], labels: list[int]) -> np.ndarray:
    rows, columns = [p.seeds.index(s) for s in seeds], [p.labels.index(n) for n in labels]
    return p.of(method)[np.ix_(rows, columns)]


def _names(results: Sequence[Results]) -> list[str]:
    """The folder's own name where it tells them apart, else its path, else the benchmark's name and its place."""
    short = [r.folder.name if r.folder else str(r.about.get("name", "")) for r in results]
    long = [str(r.folder) if r.folder else f"{n} #{i + 1}" for i, (r, n) in enumerate(zip(results, short, strict=True))]
    return [s if short.count(s) == 1 and s else l for s, l in zip(short, long, strict=True)]


# How numbers are written


def _spread(s: Spread, metric: str) -> str:
    if not s.n:
        return NOTHING
    if not more_is_better(metric):
        return f"{_digits(s.mean)}{'' if np.isnan(s.sd) else f' ± {_digits(s.sd)}'} ({s.n})"
    places = _decimals(100 * s.sd)
    return f"{100 * s.mean:.{places}f}{'' if np.isnan(s.sd) else f' ± {100 * s.sd:.{places}f}'} ({s.n})"


def _difference(d: Difference, metric: str) -> str:
    if not d.n:
        return NOTHING
    if not more_is_better(metric):
        return f"{d.mean:+.4g}{'' if np.isnan(d.half) else f' ± {_digits(d.half)}'}"
    places = _decimals(100 * d.half)
    return f"{100 * d.mean:+.{places}f}{'' if np.isnan(d.half) else f' ± {100 * d.half:.{places}f}'}"


def _decimals(sd: float) -> int:
    """One decimal, and two where one would hide the spread."""
    return 2 if sd < 0.1 else 1


def _digits(value: float) -> str:
    return f"{value:.4g}"


def _p(p: float) -> str:
    return NOTHING if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _tau(tau: float) -> str:
    return NOTHING if np.isnan(tau) else f"{tau:.2f}"


def _ranks(means: np.ndarray) -> list[str]:
    return [NOTHING if np.isnan(m) else str(1 + int((means > m).sum())) for m in means]


def _mean_curve(p: Panel, method: str) -> np.ndarray:
    """The mean over seeds at each of the shared numbers of labels."""
    return np.array([spread(p.of(method)[:, k]).mean for k in p.shared])


def _reach(p: Panel, method: str, baseline: str) -> str:
    """The labels at which the method comes to the baseline's end, both over the seeds that both have."""
    labels = np.array(p.labels)[p.shared]
    own, base = p.of(method)[:, p.shared], p.of(baseline)[:, p.shared]
    both = ~np.isnan(own + base).any(axis=1)
    if not both.any():
        return NOTHING
    reached = labels_to_target(labels, own[both].mean(axis=0), base[both].mean(axis=0)[-1])
    return f"> {labels[-1]}" if np.isinf(reached) else f"{reached:.0f}"


def _title(text: str, p: Panel, more: str = "") -> str:
    where = ", ".join(part for part in (p.group, p.learner) if part)
    text = text[0].upper() + text[1:]
    return " ".join(part for part in (text, more) if part) + (f": {where}" if where else "")


def _why_not(results: Results) -> str:
    scale = results.about.get("scale")
    return f"this run is scaled down, scale “{scale}”" if scale and scale != "full" else "the protocol differs"


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
    reached = [k for k in range(len(p.labels)) if not np.isnan(p.of(method)[:, k]).all()]
    word, _, number = column.partition(" ")
    if column.isdigit():
        at = [k for k in reached if p.labels[k] == int(column)]
    elif word in ("step", "round"):
        at = reached[int(number) : int(number) + 1]
    else:
        at = reached[-1:]
    s = spread(p.of(method)[:, at[0]]) if at else None
    return f" (ours {_spread(s, p.metric)})" if s is not None and s.n else ""
