"""What pictures by matplotlib share: axes, colours, legends, scales. It is imported only when something is drawn."""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Okabe and Ito's colours, which the colour-blind tell apart; the lengths of the first three lists share no factor.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4A00", "#4B0082")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "//", "..", "xx", "\\\\", "--", "oo")
BLUE, RED, GREEN, GREY = *COLOURS[:3], "#555555"


def figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure with one pair of axes."""
    made, places = _figure(width, height, 1, 1)
    return made, places[0, 0]


def grid(n: int, wide: int, width: float = 4.2, height: float = 3.3) -> tuple[Any, list[Any]]:
    """A figure with n axes, `wide` beside each other."""
    columns = min(n, wide)
    rows = -(-n // columns)
    made, places = _figure(max(5.0, width * columns), height * rows + 0.5, rows, columns)
    for axes in places.flat[n:]:
        axes.set_visible(False)
    return made, list(places.flat[:n])


def _figure(width: float, height: float, rows: int, columns: int) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(rows, columns, squeeze=False)


def legend_below(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> Any:
    """One legend below all axes, for which the figure grows; about 0.09 inch a letter and 0.21 a line."""
    wide, high = figure.get_size_inches()
    columns = max(1, min(len(names), int(wide / (0.75 + 0.09 * max(map(len, names), default=1)))))
    figure.set_size_inches(wide, high + 0.21 * (-(-len(names) // columns) - 1))
    figure.legend(handles, [plain(n) for n in names], loc="outside lower center", ncols=columns, frameon=False)
    return figure


def title(axes: Any, *lines: str) -> None:
    """Lines that stay above their own axes."""
    width = int(11 * axes.get_figure().get_size_inches()[0] / axes.get_gridspec().ncols)
    axes.set_title("\n".join(textwrap.fill(line, width) for line in lines if line), fontsize=10)


def level(axes: Any, value: float | None) -> None:
    """A dashed line across, where there is a value."""
    if value is not None:
        axes.axhline(value, color="black", lw=1, ls="--", zorder=1)


def log_scales(axes: Any, x: bool = False, y: bool = False) -> None:
    """Logarithmic scales with plain numbers that have room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    for name, axis in [("x", axes.xaxis)] * x + [("y", axes.yaxis)] * y:
        axes.set(**{f"{name}scale": "log"})
        low, high = sorted(axis.get_view_interval())
        decades = np.log10(high / low)
        subs = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
        axis.set_major_locator(LogLocator(subs=subs, numticks=8) if decades > 0.5 else MaxNLocator(4))
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axis.set_minor_formatter(NullFormatter())


def count_ticks(axes: Any, counts: Sequence[int], log: bool) -> None:
    """A tick at every count where they have room."""
    from matplotlib.ticker import NullFormatter

    if log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if len(counts) <= 7:
        x = np.log(counts) if log else np.array(counts, dtype=float)
        gaps = np.diff(x) / (x[-1] - x[0]) if len(counts) > 1 else np.array([1.0])
        if gaps.min() > 0.025 * max(len(str(n)) for n in counts):
            axes.set_xticks(list(counts), [str(n) for n in counts])


def matrix(axes: Any, M: np.ndarray, texts: np.ndarray, names: Sequence[str], more: Sequence[str], **look: Any) -> Any:
    """A square of numbers with the names at both axes, and `more` columns to the right of them; returns the image."""
    image = axes.imshow(M, vmin=0, **look)
    size = 8 if more else 9
    for (i, j), text in np.ndenumerate(texts):
        ink = "white" if M[i, j] > 0.55 * look["vmax"] else "black"
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color=ink)
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(names) + len(more)), [plain(n) for n in (*names, *more)], fontsize=size, **turned)
    axes.set_yticks(range(len(names)), [plain(n) for n in names], fontsize=size)
    return image


def room(n: int) -> tuple[float, float]:
    """Limits around n places; a single one does not fill the axes."""
    return (-0.55, n - 0.45) if n > 1 else (-1.2, 1.2)


def plain(*names: str) -> str:
    """Names as they are, with commas: no mathematics between dollars, and not left out of a legend for a first _."""
    written = [f" {name}" if name.startswith("_") else name for name in names if name]
    return ", ".join(written).replace("$", r"\$")


def caption(draw: Callable[..., Any]) -> str:
    """What a picture shows: the first paragraph of what is said about the function that draws it."""
    return " ".join((inspect.getdoc(draw) or "").partition("\n\n")[0].split())
