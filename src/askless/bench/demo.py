"""The whole loop on the digits that ship with scikit-learn: askless against random, valued by semi-supervised training.

Each strategy starts from one labelled image per class and then asks for ten more, four times over. After every answer
`auto` learns again, from the labelled images and from the other 1,397 - n without their labels, so that the curves show
what the new labels are worth and not what the new images are. Both strategies share the starting images of a seed, so their
curves are paired.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from askless import bench
from askless.base import digest
from askless.base.errors import AsklessError
from askless.bench import Benchmark, Data, Progress, Results, Row
from askless.bench.panels import panel
from askless.bench.plan import settings
from askless.bench.statistics import Difference, paired, spread
from askless.data import digits
from askless.learn import Auto
from askless.report.data import write_files
from askless.report.markup import markup, tag
from askless.report.page import Section, again, html_page, note, paragraphs, plot
from askless.report.table import Table

STRATEGIES = ("random", "askless")
LABELS = (10, 20, 30, 40, 50)
SEEDS = 5
LEARNER = Auto()
ON = ("test", "pool")  # the images whose accuracy is shown
SHOWN = 0  # the seed whose choices the report shows


def benchmark(seeds: int = SEEDS) -> Benchmark:
    rows = tuple(
        Row(
            method=name,
            strategy=name,
            data=Data(name="digits"),
            net="waves",
            learner=LEARNER,
            start=LABELS[0],
            counts=LABELS,
        )
        for name in STRATEGIES
    )
    return Benchmark(name="demo", title="Which digits should be labelled?", rows=rows, seeds=tuple(range(seeds)))


def write_images(folder: Path) -> Path:
    """The digits as image files: `folder`/digits with a PNG each, and `folder`/truth.csv with what they are.

    >>> write_images(Path(".")).name
    'digits'
    """
    from PIL import Image

    pool = digits(test=0)
    place = folder / "digits"
    place.mkdir(parents=True, exist_ok=True)
    lines = ["path,label"]
    for i, label in enumerate(pool.labels.tolist()):
        name = f"{i:04d}.png"
        Image.fromarray(pool.take([i])[0, 0].numpy()).resize((64, 64), Image.Resampling.BICUBIC).save(place / name)
        lines.append(f"{name},{label}")
    write_files(folder, {"truth.csv": "\n".join(lines) + "\n"})
    return place


def run(
    out: Path,
    seeds: int = SEEDS,
    workers: int = 2,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Both strategies with every seed. What is finished is kept in a folder of `out` that is named by the settings: a demo
    that was killed resumes there, and one with other settings has another folder."""
    plan = benchmark(seeds)
    kept = out / f"kept-{digest.of_text(*map(settings, plan.rows))[:8]}"
    command = ("askless", "demo", "--seeds", str(seeds))
    results = bench.run(plan, kept, workers=workers, progress=progress, command=command)
    results = replace(  # without the seeds that only an earlier demo had
        results,
        about=results.about | {"seeds": list(plan.seeds)},
        records=[r for r in results.records if r.seed in plan.seeds],
        times=[r for r in results.times if r.seed in plan.seeds],
        asked={key: asked for key, asked in results.asked.items() if key[2] in plan.seeds},
        failures=[f for f in results.failures if f.seed in plan.seeds],
    )
    if results.failures:
        reasons = "; ".join(f"{f.method}, seed {f.seed}: {f.reason}" for f in results.failures)
        raise AsklessError(
            f"{len(results.failures)} of {len(plan.rows) * seeds} curves failed ({reasons}); the others are kept in {kept}; "
            "run the demo again to compute the missing ones"
        )
    return results


def accuracies(results: Results, name: str, on: str) -> np.ndarray:
    """(seeds, numbers of labels) in %."""
    return 100 * panel(results, f"{on}_accuracy", "").of(name)


def gain(results: Results, on: str) -> Difference:
    """askless minus random in points: the means of their curves, paired by seed."""
    return paired(accuracies(results, "askless", on).mean(axis=1), accuracies(results, "random", on).mean(axis=1))


def table(results: Results) -> Table:
    rows = [(on, name, *_cells(results, name, on)) for on in ON for name in STRATEGIES]
    head = ("on", "strategy", *map(str, LABELS))
    gains = [f"askless minus random, mean of the curve on the {on} images: {_points(gain(results, on))}" for on in ON]
    seeds = len(results.about["seeds"])
    of_seeds = f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    title = f"digits: accuracy in % by number of labels, {of_seeds}"
    return Table(title, head, rows, ".\n".join(gains) + ".", left=(0, 1))


def write_report(results: Results, folder: Path) -> Path:
    """`report.html`, one self-contained file: the curves, the table, the images chosen in each round, a map of the pool."""
    asked = {name: results.asked["", name, SHOWN] for name in STRATEGIES}
    seconds = sum(r.value for r in results.times if r.metric == "cell_seconds")
    few = f"Computed in {seconds:.0f} s. With few seeds, the spread is as much of a result as the mean."
    curves = "Thick: the mean over the seeds. Thin: each seed."
    chosen = f"Seed {SHOWN}. First row: the start, then one row per question."
    where = (
        "A map of the pool, with similar images close together (t-SNE of their pixels). Colours: the true digit. Circles: "
        "chosen by askless. Crosses: drawn by random."
    )
    choices = [(tag("h3", name), plot(_chosen_figure(asked[name]), f"chosen by {name}")) for name in STRATEGIES]
    sections = [
        Section("Learning curves", plot(_curve_figure(results), "learning curves", curves)),
        Section("Accuracy", markup(table(results).html(), tag("p", few))),
        Section("What askless chose", markup(note(chosen), choices)),
        Section("Where the picks lie", plot(_map_figure(asked), "map of the pool", where)),
        Section("How this was computed", paragraphs((__doc__ or "").partition("\n\n")[2])),
        Section("How to reproduce this", again(results.about.get("command", ""))),
    ]
    first = (__doc__ or "").partition("\n")[0]
    page = html_page("Which digits should be labelled?", first, sections, tab="askless demo: digits")
    write_files(folder, {"report.html": page})
    return folder / "report.html"


def _cells(results: Results, name: str, on: str) -> list[str]:
    """ "mean ± standard deviation" over seeds at each number of labels."""
    at = [spread(column) for column in accuracies(results, name, on).T]
    return [f"{s.mean:.1f} ± {s.sd:.1f}" if s.n > 1 else f"{s.mean:.1f}" for s in at]


def _points(d: Difference) -> str:
    return f"{d.mean:+.1f} ± {d.half:.1f} points (95 %, paired)" if d.n > 1 else f"{d.mean:+.1f} points (one seed)"


def _curve_figure(results: Results) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, on in zip(figure.subplots(1, 2, sharey=True), ON, strict=True):
        for name, colour in zip(STRATEGIES, ("#777777", "#d1495b"), strict=True):
            a = accuracies(results, name, on)
            axes.plot(LABELS, a.T, color=colour, alpha=0.3, lw=1)
            axes.plot(LABELS, a.mean(axis=0), color=colour, marker="o", lw=2.5, label=name)
        axes.set(xlabel="labels", title=f"{on} images", xticks=LABELS)
        axes.legend(loc="lower right")
    figure.axes[0].set_ylabel("accuracy, %")
    return figure


def _chosen_figure(asked: list[list[int]]) -> Any:
    from matplotlib.figure import Figure

    pool = digits()
    tiles = [[np.pad(pool.take([i])[0, 0].numpy(), 2) for i in batch] for batch in asked]
    strip = np.vstack([np.hstack(row) for row in tiles])
    figure = Figure(figsize=(strip.shape[1] / 20, strip.shape[0] / 20))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(strip, cmap="gray_r", interpolation="nearest")
    axes.set_axis_off()
    return figure


def _map_figure(asked: dict[str, list[list[int]]]) -> Any:
    from matplotlib.figure import Figure
    from sklearn.manifold import TSNE

    pool = digits()
    pixels = pool.take(np.arange(len(pool))).flatten(1).float().numpy()
    xy = TSNE(init="pca", random_state=0, n_jobs=1).fit_transform(pixels)
    figure = Figure(figsize=(8, 7), layout="constrained")
    axes = figure.subplots()
    points = axes.scatter(xy[:, 0], xy[:, 1], c=pool.labels, cmap="tab10", s=6, alpha=0.5)
    chosen, drawn = (xy[[i for batch in asked[name][1:] for i in batch]] for name in ("askless", "random"))
    axes.scatter(
        chosen[:, 0], chosen[:, 1], label="askless", linewidths=1.5, s=90, facecolors="none", edgecolors="black"
    )
    axes.scatter(drawn[:, 0], drawn[:, 1], label="random", linewidths=1.5, marker="x", c="black")
    axes.add_artist(axes.legend(*points.legend_elements(), title="digit", loc="upper left", bbox_to_anchor=(1, 1)))
    axes.legend(loc="lower left", bbox_to_anchor=(1, 0))
    axes.set_axis_off()
    return figure
