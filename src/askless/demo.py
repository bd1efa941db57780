"""The whole loop on the digits that ship with scikit-learn: NPC against random, valued by semi-supervised training.

A small convolutional network starts from one labelled image per class; each strategy then asks for ten more, four times
over. After every answer the network is trained afresh by FixMatch with DARP, on the labelled images and on the other
1,397 - n without their labels, so that the curves show what the new labels are worth and not what the new images are. Both
strategies share the starting images and the first weights of a seed, so their curves are paired.
"""

import base64
import html
import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from askless.curves import Curve, Plan, Progress, accuracies, compare, gain, mean_and_spread
from askless.data import digits
from askless.files import write_whole
from askless.learn import DARP, FixMatch

STRATEGIES = ("random", "npc")
LABELS = (10, 20, 30, 40, 50)
STEPS = 250
SHOWN = 0  # the seed whose choices the report shows


def plan(steps: int = STEPS) -> Plan:
    return Plan(digits, "small-cnn", FixMatch(steps=steps, batch=16, mu=4, darp=DARP()), LABELS)


def curves(seeds: int = 3, steps: int = STEPS, workers: int = 2, progress: Progress | None = None) -> list[Curve]:
    """Both strategies with every seed."""
    return compare(plan(steps), {name: name for name in STRATEGIES}, range(seeds), workers=workers, progress=progress)


def table(curves: list[Curve]) -> Table:
    seeds = len({c.seed for c in curves})
    out = Table(
        title=f"digits, FixMatch + DARP: accuracy in % by number of labels, mean ± standard deviation of {seeds} seeds",
        caption="\n".join(
            f"npc minus random, mean of the curve on the {on} images: {m:+.1f} ± {h:.1f} points (95 %, paired)"
            for on, (m, h) in (("test", gain(curves, "npc")), ("pool", gain(curves, "npc", on="pool")))
        ),
        padding=(0, 0, 0, 1),  # fits a terminal of 80 columns
    )
    out.add_column("images", no_wrap=True)
    out.add_column("strategy", no_wrap=True)
    for count in LABELS:
        out.add_column(str(count), justify="right", no_wrap=True)
    for on in ("test", "pool"):
        for name in STRATEGIES:
            out.add_row(on, name, *(cell.replace(" ", "") for cell in mean_and_spread(curves, name, on)))
    return out


def write_report(curves: list[Curve], folder: Path) -> Path:
    """`report.html`, one self-contained file: the curves, the table, the images chosen in each round, a map of the pool."""
    rows = [
        f"<tr><th>{on}</th><th>{name}</th>{''.join(f'<td>{c}</td>' for c in mean_and_spread(curves, name, on))}</tr>"
        for on in ("test", "pool")
        for name in STRATEGIES
    ]
    heads = "".join(f"<th>{count}</th>" for count in LABELS)
    shown = {c.strategy: c for c in curves if c.seed == SHOWN}
    choices = "".join(
        f"<h3>{name}</h3>{_image(_chosen_figure(shown[name]), f'chosen by {name}')}" for name in STRATEGIES
    )
    sentences = "".join(
        f"<p>On the {on} images npc's curve lies {m:+.1f} ± {h:.1f} points above random's (95 %, paired by seed).</p>"
        for on, (m, h) in (("test", gain(curves, "npc")), ("pool", gain(curves, "npc", on="pool")))
    )
    page = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>askless demo: digits</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse}}td,th{{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ccc}}
img{{max-width:100%}}</style>
<h1>Which digits should be labelled?</h1>
<p>{html.escape(__doc__ or "").replace(chr(10) * 2, "</p><p>")}</p>
{_image(_curve_figure(curves), "learning curves")}
<table><tr><th>images</th><th>accuracy in % with</th>{heads}</tr>
{"".join(rows)}</table>
{sentences}
<p>{len({c.seed for c in curves})} seeds, mean ± standard deviation; {sum(c.seconds for c in curves):.0f} s of computing.
With so few seeds the spread is as much of a result as the mean.</p>
<h2>What was chosen (seed {SHOWN}; first row: the start, then one row per question)</h2>{choices}
<h2>Where it lies</h2>
<p>The pool on a map that puts similar images together (t-SNE of their pixels). Colours: the true digit.
Circles: chosen by npc. Crosses: drawn by random.</p>
{_image(_map_figure(shown), "map of the pool")}
</html>"""
    path = folder / "report.html"
    write_whole(path, lambda file: file.write(page.encode()))
    return path


def _curve_figure(curves: list[Curve]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, on in zip(figure.subplots(1, 2, sharey=True), ("test", "pool"), strict=True):
        for name, colour in zip(STRATEGIES, ("#777777", "#d1495b"), strict=True):
            a = accuracies(curves, name, on)
            axes.plot(LABELS, a.T, color=colour, alpha=0.3, lw=1)
            axes.plot(LABELS, a.mean(axis=0), color=colour, marker="o", lw=2.5, label=name)
        axes.set(xlabel="labels", title=f"{on} images", xticks=LABELS)
        axes.legend(loc="lower right")
    figure.axes[0].set_ylabel("accuracy, %")
    figure.suptitle("thick: mean, thin: each seed", fontsize=10)
    return figure


def _chosen_figure(curve: Curve) -> Any:
    from matplotlib.figure import Figure

    pool = digits()
    tiles = [[np.pad(pool.take([i])[0, 0].numpy(), 2) for i in batch] for batch in curve.asked]
    strip = np.vstack([np.hstack(row) for row in tiles])
    figure = Figure(figsize=(strip.shape[1] / 14, strip.shape[0] / 14))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(strip, cmap="gray_r", interpolation="nearest")
    axes.set_axis_off()
    return figure


def _map_figure(shown: dict[str, Curve]) -> Any:
    from matplotlib.figure import Figure
    from sklearn.manifold import TSNE

    pool = digits()
    pixels = pool.take(np.arange(len(pool))).flatten(1).float().numpy()
    xy = TSNE(init="pca", random_state=0, n_jobs=1).fit_transform(pixels)
    figure = Figure(figsize=(8, 7), layout="constrained")
    axes = figure.subplots()
    points = axes.scatter(xy[:, 0], xy[:, 1], c=pool.labels, cmap="tab10", s=6, alpha=0.5)
    chosen, drawn = (xy[[i for batch in shown[name].asked[1:] for i in batch]] for name in ("npc", "random"))
    axes.scatter(chosen[:, 0], chosen[:, 1], label="npc", linewidths=1.5, s=90, facecolors="none", edgecolors="black")
    axes.scatter(drawn[:, 0], drawn[:, 1], label="random", linewidths=1.5, marker="x", c="black")
    axes.add_artist(axes.legend(*points.legend_elements(), title="digit", loc="upper left", bbox_to_anchor=(1, 1)))
    axes.legend(loc="lower left", bbox_to_anchor=(1, 0))
    axes.set_axis_off()
    return figure


def _image(figure: Any, alt: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return f'<img alt="{alt}" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
