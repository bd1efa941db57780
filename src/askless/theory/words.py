"""Findings in words: the lines of a table."""

import math
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import NamedTuple

import numpy as np

from askless.report.numbers import digits, known
from askless.report.table import NOTHING, Table
from askless.theory import Bounds, Spectrum
from askless.theory.findings import Findings

SHOWN_TIMES = (1, 10, 100)  # of theorem 1, in the table; the picture has them all


class Line(NamedTuple):
    """One line of the table; `part` is the heading it stands under."""

    part: str
    name: str
    value: str
    meaning: str


Rest = tuple[str, str, str]


def table(found: Findings, title: str = "") -> Table:
    """Every quantity with its value and what it means."""
    rows: list[tuple[str, ...]] = []
    for part, group in groupby(lines(found), key=lambda line: line.part):
        rows += [(part,), *(line[1:] for line in group)]
    return Table(title, ("quantity", "value", "meaning"), rows, left=(0, 2))


def side_by_side(found: Mapping[str, Findings], title: str = "") -> Table:
    """Every quantity of several learners, a column each."""
    columns = [{(line.part, line.name): line.value for line in lines(one)} for one in found.values()]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    parts = list(dict.fromkeys(part for part, _ in keys))
    rows: list[tuple[str, ...]] = []
    for part in parts:
        of_part = [key for key in keys if key[0] == part]
        rows += [(part,), *((key[1], *(column.get(key, NOTHING) for column in columns)) for key in of_part)]
    return Table(title, ("quantity", *found), rows)


def lines(found: Findings) -> list[Line]:
    """The same as a list, in a form that fits 100 columns.

    `found`: what `examine` returned.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, net="mlp", learner=al.Supervised(steps=5), strategy="random")
    >>> _ = learner.start_balanced(3)
    >>> _ = learner.fit()
    >>> from askless.theory.findings import examine
    >>> found = examine(learner, items=20, queries=2)
    >>> len(lines(found)) > 10
    True
    """
    parts: dict[str, Callable[[Findings], list[Rest]]] = {
        "eigenvalues": _spectra,
        "gradient descent": _steps,
        "labels against the kernel": _theorems,
        "training dynamics": _dynamics,
        "linearised model": _linearised,
        "NPC's theorem 1": _wide,
    }
    return [Line(part, *rest) for part, told in parts.items() for rest in told(found)]


def _spectra(found: Findings) -> list[Rest]:
    s, n = found.spectra, len(found.positions)

    def of(name: str, spectrum: Spectrum) -> list[Rest]:
        ends = f"{number(spectrum.lambda_min)}, {number(spectrum.lambda_max)}"
        return [
            (f"rank, {name}", f"{spectrum.rank} of {n}", "eigenvalues above rounding"),
            (f"λ min and max, {name}", ends, "smallest non-zero and largest one"),
            (f"condition, {name}", number(spectrum.condition), "λ max / λ min; smaller trains faster"),
        ]

    return [
        ("items", f"{n} of {found.labelled}", "labelled items examined, of all"),
        *of("last layer", s.last),
        *of("all layers", s.all),
        ("Weyl's inequality", yes(s.weyl), "no eigenvalue below the last layer's"),
    ]


def _steps(found: Findings) -> list[Rest]:
    d, n, ce = found.steps.squared, len(found.positions), found.steps.cross_entropy
    momentum = f"momentum {found.steps.momentum:g}" if found.steps.momentum else "no momentum"
    return [
        ("largest step", number(d.eta_max), "2 / λ max, squared error, summed"),
        ("as a learning rate", number(n * d.eta_max), "n times that, for a mean"),
        ("slowest mode", f"1 - {number(1 - d.factor)}", "per step of 2 / (λ min + λ max)"),
        ("steps to 1 %", number(d.steps), "until the slowest mode is a hundredth"),
        ("rate, cross entropy", number(ce.lr), f"last layer, mean loss, {momentum}"),
        ("rate of this run", known(found.steps.own, ".3g"), "the rate it was trained with"),
    ]


def _theorems(found: Findings) -> list[Rest]:
    t = found.theorems
    at = {k: pair for k, *pair in zip(t.times, t.convergence, t.convergence_sharp, strict=True)}
    rows: list[Rest] = [
        ("alignment A", number(t.alignment), "Tr[Yᵀ K Y]: larger, faster training"),
        ("A / (λ max T)", number(t.alignment_share), "1: the labels lie on the largest mode"),
        ("bound B", number(t.bound), _bound_meaning(t.bound)),
        ("theorem 2", between(t.generalisation), f"A bounds B: {holding(t.generalisation)}"),
        ("theorem 2, sharp", between(t.generalisation_sharp), f"the same: {holding(t.generalisation_sharp)}"),
    ]
    for k in SHOWN_TIMES:
        plain, sharp = at[k]
        rows.append((f"theorem 1, t = {k:,}", between(plain), f"A bounds the residual: {yes(plain.holds())}"))
        rows.append((f"  sharp, t = {k:,}", between(sharp), f"the same: {yes(sharp.holds())}"))
    if found.drift is not None:
        d = found.drift
        sign = "negative, so MMD counts as 0" if d.mmd_squared < 0 else "its square"
        rows += [
            ("MMD", number(d.mmd), f"{d.start} items of the start, all {len(found.positions)}"),
            ("MMD²", number(d.mmd_squared), sign),
            ("MMD / B", number(d.over_bound), _drift_meaning(d.over_bound)),
            ("mean diagonal", number(d.scale), "divided out of the kernel for these"),
        ]
    return rows


def _drift_meaning(ratio: float) -> str:
    return "B outweighs the drift" if ratio < 0.1 else "the drift counts" if ratio <= 1 else "the drift outweighs B"


def _bound_meaning(bound: float) -> str:
    if bound == math.inf:
        return "K cannot fit these labels"
    return "leading term of the error's bound" if bound <= 1 else "above 1 the bound is void"


def _dynamics(found: Findings) -> list[Rest]:
    d = found.dynamics
    rows: list[Rest] = [
        ("G, cross entropy", number(d.cross_entropy), "|sum of the loss gradients|²"),
        ("  as the kernel has it", number(d.cross_entropy_kernel), "equal if the outputs share one kernel"),
        ("G, squared error", number(d.squared), "as the kernel has it"),
    ]
    ratios = d.ratios[np.isfinite(d.ratios)]
    if len(ratios):
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        text = f"{number(middle)} ({number(low)} to {number(high)})"
        rows.append(("approximation ratio", text, f"{len(ratios)} queries of {d.query}; 1: items add up"))
    if d.tau is not None:
        text = f"{number(d.tau.tau)} (p = {number(d.tau.p_value)})"
        rows.append(("Kendall's tau", text, f"of G and A, {len(d.tau.dynamics)} queries of {d.tau_query}"))
    if found.modes is not None:
        text = f"{number(found.modes.share)} (random {number(found.modes.expected_share)})"
        rows.append(("target learned", text, "share, over the modes of the kernel"))
    return rows


def _linearised(found: Findings) -> list[Rest]:
    lin = found.linearised
    c = lin.curves
    last = f"{c.times[-1]:,.0f}"
    rows: list[Rest] = [
        ("training loss", f"{number(c.train[0])} → {number(c.train[-1])}", f"now; {last} steps of 1 / λ max on")
    ]
    if lin.minimum is not None:
        m = lin.minimum
        when = "still falling at the end" if m.at_end else "the step of its smallest value"
        rows += [
            ("test loss", f"{number(c.test[0])} → {number(c.test[-1])}", f"the same, {lin.test_items} test items"),
            ("best test loss", f"{number(m.loss)} at {m.step:,}", when),
        ]
    return rows


def _wide(found: Findings) -> list[Rest]:
    if found.wide is None:
        return []
    w, d = found.wide, found.wide.descent
    loss = f"{number(d.loss[0])} → {number(d.loss[-1])}"
    return [
        ("wide network's loss", loss, f"{w.items} items, width {w.width}, {len(d.holds)} steps"),
        ("bound holds", f"{100 * d.holds.mean():.0f} % of steps", "L' ≤ (1 - η λ min) L"),
        ("assured", f"{100 * d.assured.mean():.0f} % of steps", "wide enough for it to follow"),
    ]


def number(value: float, n: int = 3) -> str:
    """The value in a few digits; an infinity says nothing."""
    return digits(value, n) if math.isfinite(value) else "undefined"


def between(bounds: Bounds) -> str:
    return " ≤ ".join(number(b, 2) for b in bounds)


def holding(bounds: Bounds) -> str:
    return yes(bounds.holds()) if math.isfinite(bounds.value) else "undefined"


def yes(holds: bool) -> str:
    return "holds" if holds else "FAILS"
