"""The pictures of a benchmark: each kind a function of the results and of options with names, listed in `FIGURES`.

A kind returns None where the results hold too little for it; the first paragraph of its docstring is its caption. Methods
keep their colour, marker and line style from one picture to the next; the styles tell them apart in grey too.
"""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from askless.base.errors import InputError
from askless.bench.panels import (
    counts_asked,
    groups_of,
    iou_matrix,
    learners_of,
    main_metric,
    methods_of,
    more_is_better,
    panel,
    panels,
    records_of,
    scores,
    unit,
    win_loss,
    words,
)
from askless.bench.results import Record, Results
from askless.bench.statistics import average_ranks, cliques, critical_difference, friedman, interval, kendall
from askless.report import plots
from askless.report.numbers import known, many
from askless.report.plots import COLOURS, DASHES, HATCHES, MARKERS, plain

LEAST_SEEDS = 3  # of a band: the interval of two is 13 times their standard error, and would hide the curves
BASELINE: dict[str, Any] = {"color": plots.GREY, "marker": "o", "linestyle": ":"}


def draw(results: Results, spec: dict[str, Any]) -> Any:
    """The figure of `{"kind": a name of FIGURES, ...its options}`, or None; a "caption" is not drawn."""
    check_figure(spec)
    return FIGURES[spec["kind"]](results, **{k: v for k, v in spec.items() if k not in ("kind", "caption")})


def check_figure(spec: dict[str, Any]) -> None:
    """Refuses a kind that there is not, and an option that it has not."""
    kind = spec.get("kind")
    if kind not in FIGURES:
        raise InputError(f"expected a kind of figure ({', '.join(FIGURES)}), got {kind!r}")
    options = list(inspect.signature(FIGURES[kind]).parameters)[1:]
    if unknown := sorted(set(spec) - {"kind", "caption", *options}):
        raise InputError(
            f"the figure {kind!r} has no option {', '.join(unknown)}; expected some of: {', '.join(options) or 'none'}"
        )


def curves(
    results: Results, metric: str | None = None, log_x: bool = False, methods: Sequence[str] | None = None
) -> Any:
    """The metric against the number of labels: the mean over the seeds and, from three seeds on, its 95 % interval as a
    band, cut where it leaves the axes.

    Of the main metric, if no other is named; axes by group x learner; of these methods, or of all.
    """
    return _by_labels(results, metric or main_metric(results), log_x, methods=methods)


def pool_curves(results: Results, log_x: bool = False) -> Any:
    """Accuracy on the pool, labelled and unlabelled items together, against the number of labels: the mean over the seeds
    and, from three seeds on, its 95 % interval as a band."""
    return _by_labels(results, "pool_accuracy", log_x)


def gains(results: Results, metric: str | None = None) -> Any:
    """What each query gained: the metric minus that before the query, seed by seed; the mean and, from three seeds on, its
    95 % interval."""
    return _by_labels(results, metric or main_metric(results), gained=True)


def _by_labels(
    results: Results, metric: str, log_x: bool = False, gained: bool = False, methods: Sequence[str] | None = None
) -> Any:
    learners, views = learners_of(results, metric), panels(results, metric)
    shown = [m for m in methods_of(results) if methods is None or m in methods]
    if gained:
        views = [v._replace(labels=v.labels[1:], values=np.diff(v.values, axis=2)) for v in views]
        views = [v for v in views if not np.isnan(v.values).all()]
    if not views:
        return None
    figure, places = plots.grid(len(views), len(learners) if 1 < len(learners) < len(views) else 3)
    for axes, v in zip(places, views, strict=True):
        for method in shown:
            if method in v.methods:
                _band(axes, results, method, np.array(v.labels), _scaled(v.of(method), metric))
        if more_is_better(metric) and not gained:
            _frame(axes)
        axes.set(xlabel="labels", ylabel=f"gain in {words(metric)}, points" if gained else unit(metric))
        plots.level(axes, 0 if gained else None)
        plots.title(axes, plain(v.group, v.learner))
        plots.count_ticks(axes, v.labels, log_x)
    return _legend(figure, results, {m for v in views for m in v.methods if m in shown})


def critical_difference_diagram(results: Results, learner: str | None = None) -> Any:
    """Average ranks by AUBC over the groups; bars join methods closer than Nemenyi's critical difference (5 %)."""
    metric = main_metric(results)
    groups, methods, S = scores(results, metric, learner)
    if len(groups) < 2 or len(methods) < 3 or not more_is_better(metric):
        return None
    k = len(methods)
    ranks, cd = average_ranks(S), critical_difference(k, len(groups))
    bars = cliques(ranks, cd)
    order = np.argsort(ranks, kind="stable")
    left, right = order[: (k + 1) // 2], order[(k + 1) // 2 :][::-1]
    step, floor = 0.5, 0.35 + 0.22 * len(bars)
    depth = floor + step * (len(left) - 1) + 0.2
    figure, axes = plots.figure(5.5 + 0.16 * max(map(len, methods)), 1.4 + 0.55 * (depth + 0.9))

    def line(xs: Sequence[float], ys: Sequence[float], lw: float = 1.2) -> None:
        axes.plot(xs, ys, color="black", lw=lw, solid_capstyle="butt" if lw > 2 else "projecting")

    line([1, k], [0, 0])
    for r in range(1, k + 1):
        line([r, r], [0, 0.12])
        axes.text(r, 0.2, str(r), ha="center", va="bottom")
    margin = 0.08 * (k - 1)
    for side, members in ((-1, left), (1, right)):
        edge = 1 - margin if side < 0 else k + margin
        for row, i in enumerate(members):
            y = -(floor + step * row)
            line([ranks[i], ranks[i], edge], [0, y, y], lw=0.9)
            text = f"{plain(methods[i])}  {ranks[i]:.2f} " if side < 0 else f" {ranks[i]:.2f}  {plain(methods[i])}"
            axes.text(edge, y, text, ha="right" if side < 0 else "left", va="center")
    reach = 0.02 * (k - 1) / 3
    for row, (low, high) in enumerate(bars):
        line([low - reach, high + reach], [-(0.22 + 0.22 * row)] * 2, lw=4)
    shown = min(cd, k - 1)
    line([1, 1 + shown], [0.85, 0.85])
    for x in (1, 1 + shown):
        line([x, x], [0.78, 0.92])
    wider = "" if cd <= k - 1 else " (wider than the scale)"
    axes.text(1 + shown / 2, 0.95, f"critical difference {cd:.2f}{wider}", ha="center", va="bottom")
    axes.set(xlim=(1 - margin, k + margin), ylim=(-depth - 0.1, 1.35))
    axes.set_title(
        f"average rank by AUBC over {len(groups)} groups (1 is best); Friedman p = {friedman(S):.2g}", fontsize=10
    )
    axes.set_axis_off()
    return figure


def win_loss_matrix(results: Results, learner: str | None = None) -> Any:
    """In how many settings (group x number of labels) the method of the row is clearly better than that of the column."""
    metric = main_metric(results)
    methods, W, settings = win_loss(results, metric, learner)
    if len(methods) < 2 or not more_is_better(metric) or not W.any():
        return None
    figure, axes = plots.figure(2.6 + 0.55 * len(methods), 2.2 + 0.5 * len(methods))
    texts = np.where(np.eye(len(methods), dtype=bool), "–", W.astype(str))
    image = plots.matrix(axes, W / max(settings, 1), texts, methods, (), cmap="Blues", vmax=1)
    axes.set(xlabel="loses to the row", ylabel="beats the column")
    axes.set_title(f"wins out of {many(settings, 'setting')}", fontsize=10)
    figure.colorbar(image, ax=axes, label="share of the settings", shrink=0.8)
    return figure


def iou(results: Results, group: str | None = None) -> Any:
    """Intersection over union of the methods' label sets, a small matrix for each number of labels; in a column of its own
    that of the seeds of one method."""
    found = [
        (g, n, *iou_matrix(results, g, n))
        for g in (groups_of(results) if group is None else [group])
        for n in counts_asked(results, g)
    ]
    found = [f for f in found if not np.isnan(f[3]).all()]
    if not found:
        return None
    side = max(1.8, 0.6 + 0.36 * max(len(methods) for _, _, methods, _ in found))
    name = 0.06 * max(len(m) for _, _, methods, _ in found for m in methods)
    wide = max(1, min(4, int(12 / (side + name))))
    figure, places = plots.grid(len(found), wide, width=side + name, height=side + 0.7 * name)
    for axes, (g, n, methods, M) in zip(places, found, strict=True):
        texts = np.array([[known(v, ".0f") for v in row] for row in M])
        image = plots.matrix(axes, M, texts, methods, ["between its seeds"], cmap="Greens", vmax=100)
        axes.axvline(len(methods) - 0.5, color="white", lw=3)
        axes.set_title("\n".join([*textwrap.wrap(plain(g), int(12 * side)), f"{n} labels"]), fontsize=9)
    figure.colorbar(image, ax=list(places), label="overlap (IoU), %", shrink=0.6)
    return figure


def lines(
    results: Results,
    metric: str,
    x_name: str = "step",
    labels: int | None = None,
    reference: float | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> Any:
    """The metric within a round: the mean over the seeds and, from three seeds on, its 95 % interval as a band.

    Against the `x` of the records; axes by group and number of labels (with `labels`, of that one); `reference` is a level.
    """
    rows = [r for r in records_of(results, metric) if r.x is not None and labels in (None, r.labels)]
    keys = [(g, n) for g in groups_of(results) for n in sorted({r.labels for r in rows if r.group == g})]
    if not keys:
        return None
    counts = len(keys) // len({g for g, _ in keys})
    figure, places = plots.grid(len(keys), counts if 1 < counts <= 4 and len(keys) > counts else 3)
    for axes, (group, n) in zip(places, keys, strict=True):
        here = [r for r in rows if (r.group, r.labels) == (group, n)]
        for method in _present(results, {r.method for r in here}):
            xs, table = _by_x([r for r in here if r.method == method])
            _band(axes, results, method, xs, _scaled(table, metric), markers=len(xs) <= 30)
        plots.level(axes, reference)
        axes.set(xlabel=x_name, ylabel=unit(metric))
        plots.title(axes, plain(group, f"{n} labels"))
        plots.log_scales(axes, log_x, log_y)
    return _legend(figure, results, {r.method for r in rows})


def scatter(results: Results, x_metric: str, y_metric: str, log_x: bool = False, log_y: bool = False) -> Any:
    """One metric against the other, of the same method, seed and number of labels, with Kendall's tau and the slope of least
    squares.

    Both have the same x, or many values of a round stand against the one that the other metric has of it. Axes by group; the
    slope is of the logarithms where an axis is logarithmic.
    """
    a, b = (
        {(r.group, r.method, r.seed, r.labels, r.x): r.value for r in records_of(results, m)}
        for m in (x_metric, y_metric)
    )
    pairs: dict[str, list[tuple[str, float, float]]] = {}
    for key in dict.fromkeys([*a, *b]):
        whole = (*key[:4], None)  # of the whole round
        at_x, at_y = (found.get(key, found.get(whole, np.nan)) for found in (a, b))
        if _drawable(at_x, log_x) and _drawable(at_y, log_y):
            pairs.setdefault(key[0], []).append((key[1], at_x, at_y))
    if not pairs:
        return None
    figure, places = plots.grid(len(pairs), 3)
    for axes, (group, found) in zip(places, pairs.items(), strict=True):
        names = np.array([m for m, _, _ in found])
        x = _scaled(np.array([at for _, at, _ in found]), x_metric)
        y = _scaled(np.array([at for _, _, at in found]), y_metric)
        for method in dict.fromkeys(names.tolist()):
            look = {k: v for k, v in style(results, method).items() if k != "linestyle"}
            axes.scatter(x[names == method], y[names == method], s=18, alpha=0.6, linewidths=0, **look)
        x, y = np.log10(x) if log_x else x, np.log10(y) if log_y else y
        tau = f"Kendall τ {known(kendall(x, y), '.2f')}"
        slope = f"slope{' in logarithms' if log_x or log_y else ''} {known(_slope(x, y), '.3g')}"
        axes.set(xlabel=unit(x_metric), ylabel=unit(y_metric))
        plots.title(axes, plain(group), f"{tau}, {slope}")
        plots.log_scales(axes, log_x, log_y)
    return _legend(figure, results, {m for found in pairs.values() for m, _, _ in found}, line=False)


def spread_boxes(results: Results, metric: str, log: bool = False, reference: float | None = None) -> Any:
    """All the values at each number of labels, as boxes. Whiskers: 1.5 quartile ranges."""
    from matplotlib.patches import Patch

    rows = [r for r in records_of(results, metric) if _drawable(r.value, log)]
    groups = [g for g in groups_of(results) if any(r.group == g for r in rows)]
    if not groups:
        return None

    def face(method: str) -> dict[str, Any]:
        hatch = HATCHES[methods_of(results).index(method) % len(HATCHES)]
        return {"facecolor": style(results, method)["color"], "hatch": hatch, "alpha": 0.75}

    figure, places = plots.grid(len(groups), 3)
    for axes, group in zip(places, groups, strict=True):
        here = [r for r in rows if r.group == group]
        counts, methods = sorted({r.labels for r in here}), _present(results, {r.method for r in here})
        for method, at, width in _beside(len(counts), methods):
            values = [[r.value for r in here if (r.method, r.labels) == (method, n)] for n in counts]
            box = axes.boxplot(
                [_scaled(np.array(v), metric) for v in values],
                positions=at,
                widths=0.85 * width,
                patch_artist=True,
                manage_ticks=False,
                flierprops={"marker": ".", "markersize": 4, "markeredgecolor": plots.GREY},
                medianprops={"color": "black"},
            )
            for patch in box["boxes"]:
                patch.set(**face(method))
        plots.level(axes, reference)
        axes.set_xticks(np.arange(len(counts)), [str(n) for n in counts])
        axes.set(xlabel="labels", ylabel=unit(metric), xlim=plots.room(len(counts)))
        plots.title(axes, plain(group))
        plots.log_scales(axes, y=log)
    methods = _present(results, {r.method for r in rows})
    return plots.legend_below(figure, [Patch(**face(m)) for m in methods], methods) if len(methods) > 1 else figure


def bars(results: Results, metrics: Sequence[str], labels: int | None = None, log: bool = False) -> Any:
    """The means by method, with 95 % intervals over the seeds.

    Of several metrics, at `labels` labels, else at each method's last; axes by group.
    """
    if isinstance(metrics, str) or not metrics:
        raise InputError(f"expected metrics as a list of names, got {metrics!r}")
    views = {g: [panel(results, m, g) for m in metrics] for g in groups_of(results)}
    views = {g: vs for g, vs in views.items() if any(v.methods for v in vs)}
    if not views:
        return None
    many = max(len(v.methods) for vs in views.values() for v in vs)
    figure, places = plots.grid(len(views), 3, width=max(4.2, 0.6 * many * len(metrics) ** 0.5 + 1.6))
    for axes, (group, vs) in zip(places, views.items(), strict=True):
        methods = _present(results, {m for v in vs for m in v.methods})
        at = set()
        for i, (v, places_of, width) in enumerate(_beside(len(methods), vs)):
            ends = [[n for n in v.reached(m) if labels in (None, n)][-1:] for m in methods]
            at |= {n for end in ends for n in end}
            found = [interval(_scaled(v.part(m, v.seeds, end), v.metric)) for m, end in zip(methods, ends, strict=True)]
            heights = np.array([d.mean for d in found])
            halves = np.nan_to_num(np.array([d.half for d in found]))
            low = np.minimum(halves, 0.999 * heights) if log else halves  # a bar may not reach 0 on a log scale
            axes.bar(
                places_of,
                np.where(heights > 0, heights, np.nan) if log else heights,
                0.92 * width,
                yerr=np.stack([np.nan_to_num(low), halves]),
                capsize=3,
                color=COLOURS[i % len(COLOURS)],
                hatch=HATCHES[i % len(HATCHES)],
                edgecolor="white",
                error_kw={"lw": 1},
                label=words(v.metric),
            )
        turned = {"rotation": 30, "ha": "right"} if many > 3 else {}
        axes.set_xticks(np.arange(len(methods)), [plain(m) for m in methods], **turned)
        units = {unit(m).removeprefix(words(m)).removeprefix(", ") for m in metrics}
        axes.set(ylabel=plain(" and ".join(words(m) for m in metrics), *sorted(units)), xlim=plots.room(len(methods)))
        numbers = f"{min(at)} to {max(at)}" if len(at) > 1 else str(max(at, default=0))
        counted = f"{numbers} labels" if at else ""
        plots.title(axes, plain(group, "" if group.endswith(counted) else counted))
        plots.log_scales(axes, y=log)
    handles, names = places[0].get_legend_handles_labels()
    return plots.legend_below(figure, handles, names) if len(metrics) > 1 else figure


def moons(results: Results, methods: Sequence[str] | None = None, classes: Sequence[str] = ("0", "1")) -> Any:
    """The plane with its items, what was labelled, and the network's probability of a class, at each number of labels of the
    first seed.

    From the arrays x, y, labelled, newest, grid, probability and side that a measure kept.
    """
    cells: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for r in results.records:
        cells.setdefault((r.group, r.method), set()).add((r.seed, r.labels))
    rows = []
    for group in groups_of(results):
        for method in methods_of(results) if methods is None else methods:
            found = sorted(cells.get((group, method), ()))
            kept = [(n, results.arrays(group, method, seed, n)) for seed, n in found if seed == found[0][0]]
            rows.append([(plain(group, method), n, a) for n, a in kept if "probability" in a and "grid" in a])
    longest = max(map(len, rows), default=0)
    if not longest:
        return None
    wide = -(-longest // -(-longest // 6))  # rows of at most six, and as even as they can be
    chunks = [row[i : i + wide] for row in rows for i in range(0, len(row), wide)]
    figure, flat = plots.grid(wide * len(chunks), wide, width=2.6 + 1 / wide, height=2.5 + 0.2 / len(chunks))
    places = np.array(flat).reshape(len(chunks), wide)
    for line, chunk in zip(places, chunks, strict=True):
        for axes in line[len(chunk) :]:
            axes.set_visible(False)
        for axes, (name, n, a) in zip(line, chunk, strict=False):
            filled = _plane(axes, a)
            axes.set_title(f"{name}\n{n} labels", fontsize=9)
            axes.set_xlabel("first coordinate", fontsize=8)
        line[0].set_ylabel("second coordinate", fontsize=8)
    handles, names = places[0][0].get_legend_handles_labels()
    names = [name.format(*classes) for name in names]
    legend: Any = figure.legend(handles, names, loc="outside lower center", ncols=min(4, wide), frameon=False)
    for handle in legend.legend_handles[:2]:
        handle.set_sizes([30])
    figure.colorbar(filled, ax=places, label=f"probability of class {classes[1]}", shrink=0.8, ticks=[0, 0.5, 1])
    return figure


def _plane(axes: Any, a: dict[str, np.ndarray]) -> Any:
    shape = tuple(int(s) for s in a["side"])
    gx, gy, p = (v.reshape(shape) for v in (a["grid"][:, 0], a["grid"][:, 1], a["probability"]))
    filled = axes.contourf(gx, gy, p, levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.55, vmin=0, vmax=1)
    if p.min() < 0.5 < p.max():
        axes.contour(gx, gy, p, levels=[0.5], colors="black", linewidths=1.2)
    x, y, newest = a["x"], a["y"], a["newest"].astype(int)
    old = np.setdiff1d(a["labelled"].astype(int), newest)
    for c, colour, marker in ((0, "#08519c", "o"), (1, "#a50f15", "^")):
        axes.scatter(*x[y == c].T, s=5, color=colour, marker=marker, alpha=0.6, linewidths=0, label=f"class {{{c}}}")
    axes.scatter(*x[old].T, s=42, facecolors="none", edgecolors="black", linewidths=1.1, label="labelled before")
    axes.scatter(
        *x[newest].T, s=90, marker="*", color="#ffd92f", edgecolors="black", linewidths=0.8, label="newest labels"
    )
    axes.set(xticks=[], yticks=[], xlim=(gx.min(), gx.max()), ylim=(gy.min(), gy.max()))
    return filled


# What they share


def style(results: Results, method: str) -> dict[str, Any]:
    """Colour, marker and line style, by the method's place among all of the benchmark."""
    baseline = results.about.get("baseline")
    if method == baseline:
        return BASELINE
    i = [m for m in methods_of(results) if m != baseline].index(method)
    marker, dash = MARKERS[(i + 1) % len(MARKERS)], DASHES[i % len(DASHES)]
    return {"color": COLOURS[i % len(COLOURS)], "marker": marker, "linestyle": dash}


def _band(axes: Any, results: Results, method: str, x: np.ndarray, table: np.ndarray, markers: bool = True) -> None:
    """Mean line of table (seeds, x) with its 95 % band, where there is anything."""
    found = [interval(column) for column in table.T]
    mean, half = np.array([d.mean for d in found]), np.array([d.half for d in found])
    there = ~np.isnan(mean)  # a method has not every number of labels that others have
    x, mean, half = x[there], mean[there], half[there]
    look = {**style(results, method), **({} if markers else {"marker": ""})}
    axes.plot(x, mean, lw=1.8, markersize=5, **look)
    half[(~np.isnan(table[:, there])).sum(axis=0) < LEAST_SEEDS] = np.nan
    if (~np.isnan(half)).any():
        axes.fill_between(x, mean - half, mean + half, color=look["color"], alpha=0.15, lw=0)


def _frame(axes: Any) -> None:
    """Scales an axis of percentages to the means: the bands of few seeds may reach far beyond, even above 100 %."""
    means = np.concatenate([line.get_ydata() for line in axes.lines])
    room = max(1.0, 0.15 * (means.max() - means.min())) if len(means) else 0.0
    if room:
        axes.set_ylim(max(0.0, means.min() - room), min(100.0, means.max() + room))


def _legend(figure: Any, results: Results, methods: set[str], line: bool = True) -> Any:
    from matplotlib.lines import Line2D

    names = _present(results, methods)
    looks = [style(results, m) | ({} if line else {"linestyle": ""}) for m in names]
    return plots.legend_below(figure, [Line2D([], [], lw=1.8, markersize=5, **look) for look in looks], names)


def _beside(n: int, members: Sequence[Any]) -> list[tuple[Any, np.ndarray, float]]:
    """For each of the members that stand beside each other at n places: itself, where it stands, and how wide it may be."""
    width = 0.8 / len(members)
    middle = (len(members) - 1) / 2
    return [(member, np.arange(n) + (i - middle) * width, width) for i, member in enumerate(members)]


def _scaled(values: np.ndarray, metric: str) -> np.ndarray:
    return 100 * values if more_is_better(metric) else values


def _drawable(value: float, log: bool) -> bool:
    return bool(np.isfinite(value)) and (value > 0 or not log)


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    centred = x - x.mean()
    return float(centred @ (y - y.mean()) / (centred @ centred)) if (x != x[0]).any() else float("nan")


def _present(results: Results, methods: set[str]) -> list[str]:
    """These methods, in the order of the benchmark."""
    return [m for m in methods_of(results) if m in methods]


def _by_x(rows: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """x, and values (seeds, x), NaN where a seed has none."""
    found = {(r.seed, r.x): r.value for r in rows}
    seeds, xs = sorted({r.seed for r in rows}), sorted({float(r.x) for r in rows if r.x is not None})
    return np.array(xs), np.array([[found.get((s, x), np.nan) for x in xs] for s in seeds])


FIGURES: dict[str, Callable[..., Any]] = {
    "curves": curves,
    "gains": gains,
    "pool_curves": pool_curves,
    "critical_difference": critical_difference_diagram,
    "win_loss": win_loss_matrix,
    "iou": iou,
    "lines": lines,
    "scatter": scatter,
    "spread": spread_boxes,
    "bars": bars,
    "moons": moons,
}
