"""`theory.html`, one self-contained page with the pictures and the table, and `theory.json`, all the numbers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from askless.report.data import as_data, json_text, write_files
from askless.report.markup import Markup, markup, tag
from askless.report.numbers import digits
from askless.report.page import Section, again, bullets, html_page, plot
from askless.report.plots import BLUE, GREEN, GREY, RED, caption, figure
from askless.theory import Bounds
from askless.theory.findings import Findings
from askless.theory.words import side_by_side, table

FOR_WIDE = (
    "The theorems are about the squared error, gradient descent and very wide networks: for a network like these they "
    "describe and do not promise."
)


def write(found: Findings, folder: Path, title: str, command: str = "") -> Path:
    """Writes `theory.json` and `theory.html` into `folder`, each atomically, and returns the page."""
    data = as_data(found, _holds)
    texts = {"theory.json": json_text({"run": title, **data}), "theory.html": page(found, title, command)}
    write_files(folder, texts)
    return folder / "theory.html"


def write_side_by_side(found: Mapping[str, Findings], folder: Path, title: str, command: str = "") -> Path:
    """The same for several learners: their numbers side by side, and the pictures and numbers of each below."""
    inside = [
        Section("Side by side", side_by_side(found).html()),
        *(Section(name, markup(*_plots(one), table(one).html(), bullets(one.notes))) for name, one in found.items()),
        Section("How to reproduce this", again(command), "Reproduce"),
    ]
    about = f"The quantities of NPC, CRC and dynamicAL for {len(found)} trained networks. {FOR_WIDE}"
    html = html_page(f"What the theory says about {title}", about, inside, tab=f"Theory of {title}")
    holds = {name: as_data(one, _holds) for name, one in found.items()}
    write_files(folder, {"theory.json": json_text({"run": title, "cells": holds}), "theory.html": html})
    return folder / "theory.html"


def _holds(value: Any) -> dict[str, bool]:
    return {"holds": value.holds()} if isinstance(value, Bounds) else {}


def _plots(found: Findings) -> list[Markup]:
    drawn = [(made, caption(draw)) for draw in FIGURES if (made := draw(found)) is not None]
    return [tag("div", [plot(made, made.axes[0].get_title(), said) for made, said in drawn], cls="plots")]


def page(found: Findings, title: str, command: str = "") -> str:
    about = (
        f"The quantities of NPC, CRC and dynamicAL, for {len(found.positions)} of the {found.labelled} labelled items, seen "
        f"by the trained network in eval mode. K is the tangent kernel over all layers divided by the {found.classes} "
        f"classes, in float64. {FOR_WIDE}"
    )
    sections = [
        Section("Pictures", markup(*_plots(found))),
        Section("The numbers", table(found).html()),
        Section("What was left out", bullets(found.notes), "Left out"),
        Section("How to reproduce this", again(command), "Reproduce"),
    ]
    return html_page(f"What the theory says about {title}", about, sections, tab=f"Theory of {title}")


def eigenvalues(found: Findings) -> Any:
    """The kernel's eigenvalues, largest first; those that are rounding are left out. All layers lie above the last one, and
    the ratio of first to last is the condition number."""
    made, axes = _axes("number", "eigenvalue", "Eigenvalues")
    for values, name, style in (
        (found.spectra.values_all, "all layers", {"color": BLUE, "marker": "o", "ms": 4.5, "mfc": "none"}),
        (found.spectra.values_last, "last layer", {"color": RED, "marker": "s", "ms": 2.5}),
    ):
        kept = values[values > 0][::-1]
        axes.plot(np.arange(1, len(kept) + 1), kept, lw=1, label=name, **style)
    axes.set_yscale("log")
    axes.legend()
    return made


def convergence(found: Findings) -> Any:
    """dynamicAL's theorem 1: the squared residual after t steps from f = 0, between the bounds that the alignment gives, and
    between the sharp ones. The paper's lower bound ends where it falls below zero."""
    t = found.theorems
    made, axes = _axes("steps t", "squared residual", "Theorem 1")
    top = len(found.positions)  # the residual of f = 0, for one-hot labels
    axes.set(xscale="log", yscale="log", ylim=(max(1e-9 * top, 0.5 * t.convergence_sharp[-1].lower), 3 * top))
    for bounds, name, colour, dash in (
        (t.convergence, "theorem", GREY, ":"),
        (t.convergence_sharp, "sharp", GREEN, "--"),
    ):
        lower = np.array([b.lower for b in bounds])
        axes.plot(t.times, np.where(lower > 0, lower, np.nan), color=colour, ls=dash, marker="^", ms=4)
        axes.plot(t.times, [b.upper for b in bounds], color=colour, ls=dash, marker="v", ms=4, label=f"{name} bounds")
    axes.plot(t.times, [b.value for b in t.convergence], color=BLUE, marker="o", ms=4, label="residual")
    axes.legend()
    return made


def ratios(found: Findings) -> Any:
    """Approximation ratios of random queries: what the items add one by one, over what they add together. Dashed:
    the median. At 1 the cross terms cancel, and dynamicAL's greedy choice is exact."""
    values, edges = binned(found.dynamics.ratios)
    if len(values) == 0:
        return None
    made, axes = _axes("approximation ratio", "queries", "Approximation ratio")
    median = float(np.median(values))
    axes.hist(values, edges, color=BLUE, alpha=0.7)
    axes.axvline(median, color=BLUE, ls="--", label=f"median {digits(median)}")
    axes.axvline(1.0, color=GREY, ls=":", label="1")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.legend()
    return made


def agreement(found: Findings) -> Any:
    """Each point is a random query: the training dynamics of the squared error against the alignment. dynamicAL takes one
    for the other; they are the same number at f = 0, and Kendall's tau says how far they rank queries alike here."""
    tau = found.dynamics.tau
    if tau is None:
        return None
    made, axes = _axes("alignment A", "training dynamics G", f"Kendall's tau {digits(tau.tau)}")
    axes.scatter(tau.alignment, tau.dynamics, s=10, color=BLUE, alpha=0.6)
    return made


def modes(found: Findings) -> Any:
    """How much of the true labels kernel regression on the labelled items learns of the first modes of K over a sample of
    the pool, and what as many random items would be expected to learn. Grey: all there is to learn. A larger share need not
    mean a more accurate model."""
    m = found.modes
    if m is None:
        return None
    made, axes = _axes("first modes", "share of the target", "Modes learned")
    first = np.arange(1, len(m.values) + 1)
    axes.fill_between(first, np.cumsum(m.power), color=GREY, alpha=0.2, lw=0, label="there")
    axes.plot(first, np.cumsum(m.power * m.learned), color=BLUE, label="labelled items")
    axes.plot(first, np.cumsum(m.power * m.expected), color=RED, ls="--", label="random items")
    axes.set(xscale="log", ylim=(0, 1.05))
    axes.legend()
    return made


def linearised(found: Findings) -> Any:
    """The linearised network, trained on from where it is by gradient descent on the squared error: loss per item. The dot
    is the smallest test loss."""
    c, m = found.linearised.curves, found.linearised.minimum
    made, axes = _axes("steps", "½ |f - y|², mean", "Linearised training")
    shown = np.concatenate([c.train[:1], c.test])  # the training loss alone may fall to 1e-300
    low, top = shown.min() / 1e4, max(shown.max(), 1e-12)
    axes.set_xscale("symlog", linthresh=1)
    axes.set(xlim=(0, c.times[-1]), yscale="log", ylim=(max(c.train.min() / 2, low, 1e-12 * top), 3 * top))
    axes.plot(c.times, c.train, color=BLUE, label="training items")
    if m is not None:
        axes.plot(c.times, c.test, color=RED, ls="--", label="test items")
        axes.plot(m.step, m.loss, color=RED, marker="o")
    axes.legend()
    return made


def wide(found: Findings) -> Any:
    """NPC's theorem 1 on a wide two-layer ReLU network that learns the largest class from the run's features: the loss after
    each step, and the bound on it from the step before, (1 - η λ min) L."""
    if found.wide is None:
        return None
    d = found.wide.descent
    made, axes = _axes("steps", "loss", "A wide network's loss")
    axes.plot(np.arange(1, len(d.bound) + 1), d.bound, color=GREY, ls=":", label="bound")
    axes.plot(np.arange(len(d.loss)), d.loss, color=BLUE, label="loss")
    axes.set_yscale("log")
    axes.legend()
    return made


FIGURES: tuple[Callable[[Findings], Any], ...] = (
    eigenvalues,
    convergence,
    ratios,
    agreement,
    modes,
    linearised,
    wide,
)


def binned(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The finite values, none beyond 1e100, and the edges of 5 to 20 bins around them, which are never too narrow to be
    drawn: values that differ by their last digits share one."""
    shown = np.clip(values[np.isfinite(values)], -1e100, 1e100)
    if len(shown) == 0:
        return shown, np.array([0.0, 1.0])
    low, high = float(shown.min()), float(shown.max())
    if not high - low > 1e-6 * max(-low, high) + 1e-200:
        half = 1e-6 * max(-low, high) if max(-low, high) > 1e-200 else 0.5
        low, high = low - half, high + half
    return shown, np.linspace(low, high, min(20, max(5, len(shown) // 2)) + 1)


def _axes(x: str, y: str, title: str) -> tuple[Any, Any]:
    made, axes = figure(5.4, 3.7)
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.grid(alpha=0.25)
    return made, axes
