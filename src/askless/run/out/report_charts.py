"""The drawings of the report: SVG made by hand, which follows light and dark, and needs no library."""

import base64
import html
import io
import math
from collections.abc import Sequence

from PIL import Image, ImageDraw

from askless.run.out.account import Facts, Map, OfClass, Point, Share
from askless.run.steps.advice import of_check

MARKS = 4000  # labelled items on the map
# Okabe and Ito's colours, which the colour-blind tell apart; the shapes tell more classes apart, and help without colour
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#8C8C8C")
SHAPES = (  # within a circle of radius 1 or so
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
    "M-.9-.9h1.8v1.8h-1.8z",
    "M0-1.1l1.1 1.9h-2.2z",
    "M0-1.25l1.1 1.25l-1.1 1.25l-1.1-1.25z",
    "M-.38-1.1h.76v.72h.72v.76h-.72v.72h-.76v-.72h-.72v-.76h.72z",
)


def percent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.1f}\u00a0%"


def share_of(p: Point) -> Share:
    return None if p.accuracy is None else {"accuracy": p.accuracy, "low": p.low, "high": p.high, "n": p.n}


def accuracy_chart(facts: Facts) -> str:
    """Points with whiskers over the number of labels, as SVG."""
    points = [p for p in facts.curve if p.accuracy is not None]
    rules = [(facts.baseline, "rule", "most common class"), (facts.target, "goal", "target")]
    lowest = min([float(p.low or 0) for p in points] + [v for v, _, _ in rules if v is not None])
    bottom = max(0.0, math.floor(lowest * 10 - 0.3) / 10)
    frame = _Frame(640, 320, (0, max(p.labels for p in points) * 1.06), (bottom, 1.0))
    ys = [k / 10 for k in range(10, round(10 * bottom) - 1, -2 if bottom < 0.35 else -1)]
    parts = [frame.axes("labels to train on", ys, "{:.1f}", "check accuracy")]
    for value, kind, name in rules:
        if value is not None:
            y = frame.y(value)
            parts.append(f'<line class="{kind}" x1="{frame.left}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            at, side = (frame.right, "end") if kind == "rule" else (frame.left + 4, "start")  # where no point is near
            parts.append(f'<text class="tick" x="{at}" y="{y - 5:.1f}" text-anchor="{side}">{name} {value:.2f}</text>')
    trace = " ".join(f"{frame.x(p.labels):.1f},{frame.y(p.accuracy or 0):.1f}" for p in points)
    parts.append(f'<polyline class="trace" points="{trace}"/>')
    for p in points:
        x, y, low, high = frame.x(p.labels), frame.y(p.accuracy or 0), frame.y(p.low or 0), frame.y(p.high or 0)
        told = f"round {p.round}, {p.labels} labels: {of_check(share_of(p) or {})}"
        parts.append(
            f'<g><title>{told}</title><path class="whisker" d="M{x:.1f} {low:.1f}V{high:.1f}M{x - 5:.1f} {low:.1f}h10'
            f'M{x - 5:.1f} {high:.1f}h10"/><circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/></g>'
        )
    last = points[-1]
    said = f"Check accuracy over labels; last: {of_check(share_of(last) or {})} with {last.labels} labels"
    return frame.svg("".join(parts), said)


def change_chart(curve: Sequence[Point]) -> str:
    """The share of changed predictions, a bar for each round, as SVG."""
    points = [p for p in curve if p.change is not None]
    most = max(0.04, *(p.change or 0 for p in points))
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if most <= 5 * s)
    top = step * math.ceil(most / step)
    frame = _Frame(420, 320, (0.4, len(points) + 0.6), (0, top))
    parts = [frame.axes("round", [step * k for k in range(round(top / step) + 1)], "{:.0%}", "changed", [])]
    width = min(34.0, 0.6 * (frame.right - frame.left) / len(points))
    every = math.ceil(len(points) / 12)
    for i, p in enumerate(points, 1):
        x, y = frame.x(i), frame.y(p.change or 0)
        parts.append(
            f'<rect class="fill" x="{x - width / 2:.1f}" y="{min(y, frame.bottom - 1.5):.1f}" width="{width:.1f}" '
            f'height="{max(frame.bottom - y, 1.5):.1f}" rx="2"><title>round {p.round}: {percent(p.change)}</title></rect>'
        )
        if (i - 1) % every == 0:
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{frame.bottom + 18}" text-anchor="middle">{p.round}</text>'
            )
    y = frame.y(0.02)
    parts.append(f'<line class="rule" x1="{frame.left}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
    return frame.svg("".join(parts), f"Changed predictions for each round; last: {percent(points[-1].change)}")


class _Frame:
    """The inside of a chart: from numbers to places in an SVG."""

    def __init__(self, width: int, height: int, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.width, self.height, self._x, self._y = width, height, x, y
        self.left, self.right, self.top, self.bottom = 52, width - 12, 28, height - 46

    def x(self, value: float) -> float:
        return self.left + (value - self._x[0]) / (self._x[1] - self._x[0]) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - (value - self._y[0]) / (self._y[1] - self._y[0]) * (self.bottom - self.top)

    def axes(self, x_name: str, ys: list[float], form: str, y_name: str, xs: list[float] | None = None) -> str:
        parts = [f'<text class="tick" x="{self.left - 46}" y="14">{y_name}</text>']
        for v in ys:
            y = self.y(v)
            parts.append(f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            said = form.format(v).replace("%", " %")
            parts.append(f'<text class="tick" x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{said}</text>')
        for v in _ticks(*self._x) if xs is None else xs:
            parts.append(
                f'<text class="tick" x="{self.x(v):.1f}" y="{self.bottom + 18}" text-anchor="middle">{v:,.0f}</text>'
            )
        parts.append(f'<line class="axis" x1="{self.left}" x2="{self.right}" y1="{self.bottom}" y2="{self.bottom}"/>')
        middle = (self.left + self.right) / 2
        parts.append(f'<text class="tick" x="{middle:.0f}" y="{self.height - 8}" text-anchor="middle">{x_name}</text>')
        return "".join(parts)

    def svg(self, inside: str, said: str) -> str:
        return (
            f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{html.escape(said)}">'
            f"{inside}</svg>"
        )


def _ticks(low: float, high: float) -> list[float]:
    """About six round whole numbers."""
    rough = max((high - low) / 6, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def map_figure(m: Map, classes: Sequence[OfClass], noun: str = "image") -> str:
    """All items as grey dots, the labelled ones as coloured marks: filled if chosen, hollow if check images."""
    side, edge = 560, 14
    places = [
        None if p is None else (edge + p[0] * (side - 2 * edge), edge + (1 - p[1]) * (side - 2 * edge))
        for p in m.points
    ]
    marked = [i for i, p in enumerate(places) if p is not None and m.labels[i] >= 0]
    marks = []
    for i in marked[:MARKS]:
        x, y = places[i] or (0.0, 0.0)
        k, chosen = m.labels[i], m.rounds[i] > 0
        name = classes[k].name if k < len(classes) else str(k)
        said = f"{html.escape(name)}, {f'round {m.rounds[i]}' if chosen else f'check {noun}'}"
        marks.append(_mark(k, x, y, 5.5, not chosen, said))
    dots = _cloud([p for p in places if p is not None], side)
    counts = {k: sum(m.labels[i] == k for i in marked) for k in range(len(classes))}
    legend = [f"<li>{glyph(k)}{html.escape(c.name)}<span class=\"count faint\">{counts[k]:,}</span></li>"
              for k, c in enumerate(classes[:40]) if counts[k]]  # fmt: skip
    legend += [
        f'<li>{glyph(0, hollow=True)}<span class="faint">hollow: check {noun}s</span></li>',
        '<li><svg class="glyph" viewBox="0 0 14 14" aria-hidden="true"><circle cx="7" cy="7" r="2.5" fill="#8a9099"/></svg>'
        '<span class="faint">grey: not labelled</span></li>',
    ]
    cut = f"; {MARKS:,} of {len(marked):,} labelled {noun}s are drawn" if len(marked) > MARKS else ""
    by = f" by {html.escape(m.method)}" if m.method else ""
    return (
        f'<h3>Where they lie</h3><figure><div class="map"><svg class="chart" viewBox="0 0 {side} {side}" role="img" '
        f'aria-label="Map of {len(places)} {noun}s, {len(marked)} of them labelled"><image href="{dots}" width="{side}" '
        f'height="{side}"/>{"".join(marks)}</svg><ul class="legend">{"".join(legend)}</ul></div>'
        f"<figcaption>The {noun}s as the network sees them, brought to two dimensions{by}: near each other means "
        f"alike{cut}.</figcaption></figure>"
    )


def _cloud(places: Sequence[tuple[float, float]], side: int) -> str:
    """The dots of all items as a small transparent picture: thousands of them would make a large SVG."""
    image = Image.new("LA", (2 * side, 2 * side), (138, 0))
    draw = ImageDraw.Draw(image)
    r, alpha = (3, 200) if len(places) < 2000 else (2, 170)
    for x, y in places:
        draw.ellipse((2 * x - r, 2 * y - r, 2 * x + r, 2 * y + r), fill=(138, alpha))
    out = io.BytesIO()
    image.save(out, format="PNG", optimize=True)
    return uri(out.getvalue(), "png")


def glyph(k: int, hollow: bool = False) -> str:
    """The mark of class number k, for tables and legends."""
    return f'<svg class="glyph" viewBox="0 0 14 14" aria-hidden="true">{_mark(k, 7, 7, 5, hollow)}</svg>'


def _mark(k: int, x: float, y: float, r: float, hollow: bool, said: str = "") -> str:
    colour = COLOURS[k % len(COLOURS)]
    shape = SHAPES[(k + k // len(COLOURS)) % len(SHAPES)]
    at = f'd="{shape}" transform="translate({x:.1f} {y:.1f}) scale({r:g})"'
    title = f"<title>{said}</title>" if said else ""
    if hollow:
        return f'<path class="hollow" {at} stroke="{colour}">{title}</path>'
    return f'<path class="mark" {at} fill="{colour}">{title}</path>'


def uri(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def interval(low: float, high: float, value: float) -> str:
    """An interval on the line from 0 to 1."""
    return (
        '<svg viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true"><rect class="rest" y="5" width="200" '
        f'height="4" rx="2"/><rect class="fill" x="{200 * low:.1f}" y="3" width="{200 * (high - low):.1f}" height="8" '
        f'rx="2" opacity=".45"/><rect class="fill" x="{200 * value - 1.5:.1f}" width="3" height="14"/></svg>'
    )


def bar(part: float) -> str:
    return (
        '<svg viewBox="0 0 200 14" preserveAspectRatio="none" aria-hidden="true"><rect class="rest" y="4" width="200" '
        f'height="6" rx="3"/><rect class="fill" y="4" width="{200 * min(max(part, 0), 1):.1f}" height="6" rx="3"/></svg>'
    )
