"""A small but real comparison on the digits that ship with scikit-learn.

A network with one hidden layer starts from one labelled image per class; each strategy then asks for ten more, five times
over, and the network is trained afresh on what is labelled. All strategies share the starting images and the networks'
initial weights of a seed, so their curves are paired.
"""

import base64
import html
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from scipy.stats import t as student_t
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from askless import kernels
from askless.acquire import CRC, NPC, Selection, Strategy, make, select
from askless.rng import stream

CLASSES = 10
TEST = 400
LABELS = (10, 20, 30, 40, 50)
STRATEGIES: dict[str, Strategy] = {
    "random": make("random"),
    "margin": make("margin"),
    "badge": make("badge"),
    "coreset": make("coreset"),
    "dynamical": make("dynamical"),
    "crc": CRC(group=5),
    "npc": NPC(draws=2000),
    "typiclust": make("typiclust"),
}


@dataclass(frozen=True)
class Digits:
    pool: np.ndarray  # (1397, 64) in [0, 1]
    labels: np.ndarray  # (1397,)
    test: np.ndarray  # (400, 64)
    test_labels: np.ndarray  # (400,)


@dataclass(frozen=True)
class Curve:
    """One strategy with one seed: test accuracy at each number of labels, what it asked for, seconds of choosing."""

    strategy: str
    seed: int
    accuracy: tuple[float, ...]
    asked: tuple[tuple[int, ...], ...]
    seconds: float


def digits() -> Digits:
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = (x[order] / 16).astype(np.float32), y[order].astype(np.int64)
    return Digits(x[TEST:], y[TEST:], x[:TEST], y[:TEST])


def train(x: np.ndarray, y: np.ndarray, seed: int, steps: int = 100) -> nn.Module:
    """A network 64-128-10 trained on all of (x, y) at once by Adam."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, CLASSES))
    images, labels = torch.from_numpy(x), torch.from_numpy(y)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimiser.step()
    return net


def ask(net: nn.Module, data: Digits, strategy: Strategy, labelled: np.ndarray, n: int, seed: int) -> Selection:
    """The next n items, from only the arrays that the strategy needs."""
    look = kernels.look(net, data.pool)
    arrays: dict[str, Any] = {"features": look.features, "logits": look.logits, "probs": look.logits.softmax(dim=1)}
    if "grad_sq" in strategy.needs:
        stats = kernels.gradient_stats(net, data.pool, against=(data.pool[labelled], data.labels[labelled]))
        arrays |= {"grad_sq": stats.sq, "grad_dot": stats.dot}
    given = {name: arrays[name] for name in strategy.needs}
    return select(strategy, n, seed=seed, labelled=labelled, labels=data.labels[labelled], pool=len(data.pool), **given)


def run(data: Digits, name: str, seed: int) -> Curve:
    rng = stream(seed, "start")
    labelled = np.array([rng.choice(np.flatnonzero(data.labels == c)) for c in range(CLASSES)])
    net = train(data.pool[labelled], data.labels[labelled], seed)
    accuracy, asked, seconds = [accuracy_on_test(net, data)], [], 0.0
    for count in LABELS[1:]:
        start = time.perf_counter()
        batch = ask(net, data, STRATEGIES[name], labelled, count - len(labelled), seed * 100 + count).indices
        seconds += time.perf_counter() - start
        labelled = np.append(labelled, batch)
        asked.append(tuple(batch.tolist()))
        net = train(data.pool[labelled], data.labels[labelled], seed)
        accuracy.append(accuracy_on_test(net, data))
    return Curve(name, seed, tuple(accuracy), tuple(asked), seconds)


def accuracy_on_test(net: nn.Module, data: Digits) -> float:
    with torch.no_grad():
        predicted = net(torch.from_numpy(data.test)).argmax(dim=1).numpy()
    return float((predicted == data.test_labels).mean())


def compare(seeds: int = 10, progress: Callable[[int, int], None] | None = None) -> list[Curve]:
    """Every strategy with every seed."""
    data = digits()
    cells = [(name, seed) for seed in range(seeds) for name in STRATEGIES]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors this small run faster on one thread
    try:
        curves = []
        for done, (name, seed) in enumerate(cells):
            curves.append(run(data, name, seed))
            if progress is not None:
                progress(done + 1, len(cells))
        return curves
    finally:
        torch.set_num_threads(threads)


def accuracies(curves: list[Curve], name: str) -> np.ndarray:
    """(seeds, label counts) in %."""
    return 100 * np.array([c.accuracy for c in curves if c.strategy == name])


def gain_over_random(curves: list[Curve], name: str) -> tuple[float, float]:
    """Mean over seeds of the curve's mean minus that of random (paired), and half the width of its 95 % interval."""
    difference = (accuracies(curves, name) - accuracies(curves, "random")).mean(axis=1)
    if len(difference) < 2:
        return float(difference.mean()), float("nan")
    half = student_t.ppf(0.975, len(difference) - 1) * difference.std(ddof=1) / np.sqrt(len(difference))
    return float(difference.mean()), float(half)


def table(curves: list[Curve]) -> Table:
    seeds = len({c.seed for c in curves})
    out = Table(
        title=f"digits: test accuracy in % by number of labels, mean ± standard deviation of {seeds} seeds",
        caption="vs random: mean of the curve minus random's, paired by seed, ± half of the 95 % interval",
        padding=(0, 0, 0, 1),
    )
    out.add_column("strategy", no_wrap=True)
    for count in LABELS:
        out.add_column(str(count), justify="right", no_wrap=True)
    out.add_column("vs random", justify="right", no_wrap=True)
    for name in STRATEGIES:
        a = accuracies(curves, name)
        sd = a.std(axis=0, ddof=1) if len(a) > 1 else np.zeros(a.shape[1])
        cells = [f"{m:.1f}±{s:.1f}" for m, s in zip(a.mean(axis=0), sd, strict=True)]
        gain, half = gain_over_random(curves, name)
        out.add_row(name, *cells, "-" if name == "random" else f"{gain:+.1f} ± {half:.1f}")
    return out


def write_report(curves: list[Curve], folder: Path) -> Path:
    """`report.html`, one self-contained file: the curves, the table, and the images that were chosen."""
    folder.mkdir(parents=True, exist_ok=True)
    data = digits()
    rows = []
    for name in STRATEGIES:
        a = accuracies(curves, name)
        gain, half = gain_over_random(curves, name)
        seconds = np.mean([c.seconds for c in curves if c.strategy == name]) / (len(LABELS) - 1)
        cells = "".join(f"<td>{m:.1f}</td>" for m in a.mean(axis=0))
        over = "-" if name == "random" else f"{gain:+.1f} ± {half:.1f}"
        rows.append(f"<tr><th>{html.escape(name)}</th>{cells}<td>{over}</td><td>{seconds:.3f}</td></tr>")
    heads = "".join(f"<th>{count}</th>" for count in LABELS)
    chosen = "".join(
        f"<h3>{name}</h3>{_image(_chosen_figure(curves, data, name))}" for name in ("random", "npc", "typiclust")
    )
    page = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>askless demo: digits</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse}}td,th{{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ccc}}
img{{max-width:100%}}</style>
<h1>Which digits should be labelled?</h1>
<p>{html.escape(__doc__ or "").replace(chr(10) * 2, "</p><p>")}</p>
{_image(_curve_figure(curves))}
<table><tr><th>test accuracy in % with</th>{heads}<th>mean over random, 95 %</th><th>seconds per choice</th></tr>
{"".join(rows)}</table>
<p>{len({c.seed for c in curves})} seeds. The network sees labelled images only.</p>
<h2>What was chosen (seed 0, one row per question)</h2>{chosen}
</html>"""
    path = folder / "report.html"
    beside = folder / ".report.html.part"
    beside.write_text(page, encoding="utf-8")
    beside.replace(path)
    return path


def _curve_figure(curves: list[Curve]):  # type: ignore[no-untyped-def]
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name in STRATEGIES:
        a = accuracies(curves, name)
        (line,) = axes.plot(LABELS, a.mean(axis=0), marker="o", label=name, lw=3 if name in ("npc", "random") else 1.5)
        if len(a) > 1 and name in ("npc", "random"):
            half = a.std(axis=0, ddof=1) / np.sqrt(len(a))
            axes.fill_between(LABELS, a.mean(axis=0) - half, a.mean(axis=0) + half, alpha=0.2, color=line.get_color())
    axes.set(xlabel="labels", ylabel="test accuracy, %", title="bands: standard error of npc and random")
    axes.legend()
    return figure


def _chosen_figure(curves: list[Curve], data: Digits, name: str):  # type: ignore[no-untyped-def]
    from matplotlib.figure import Figure

    asked = next(c.asked for c in curves if c.strategy == name and c.seed == 0)
    strip = np.vstack([np.hstack([data.pool[i].reshape(8, 8) for i in batch]) for batch in asked])
    figure = Figure(figsize=(strip.shape[1] / 12, strip.shape[0] / 12))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(strip, cmap="gray_r", interpolation="nearest")
    axes.set_axis_off()
    return figure


def _image(figure) -> str:  # type: ignore[no-untyped-def]
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return f'<img alt="figure" src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}">'
