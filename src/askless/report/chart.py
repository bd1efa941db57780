"""Charts as SVG made by hand: they follow light and dark, and need no library."""

import io
import math
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from askless.report.markup import Markup, markup, tag
from askless.report.page import data_uri

# In the order of the page's marks.js, within a circle of radius 1 or so; as many as share no factor with the colours.
SHAPES = (
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
    "M-.9-.9h1.8v1.8h-1.8z",
    "M0-1.1l1.1 1.9h-2.2z",
    "M0-1.25l1.1 1.25l-1.1 1.25l-1.1-1.25z",
    "M-.38-1.1h.76v.72h.72v.76h-.72v.72h-.76v-.72h-.72v-.76h.72z",
    "M0 1.1l1.1-1.9h-2.2z",
    "M0-1.1l1.05.76l-.4 1.24h-1.3l-.4-1.24z",
)


class Measured(NamedTuple):
    """A point with its interval, and what is said where a pointer rests on it."""

    x: float
    y: float
    low: float
    high: float
    said: str


class Frame:
    """The inside of a chart: from numbers to places in an SVG."""

    def __init__(self, width: int, height: int, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.width, self.height, self._x, self._y = width, height, x, y
        self.left, self.right, self.top, self.bottom = 52, width - 12, 28, height - 46

    def x(self, value: float) -> float:
        return self.left + (value - self._x[0]) / (self._x[1] - self._x[0]) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - (value - self._y[0]) / (self._y[1] - self._y[0]) * (self.bottom - self.top)

    def level(self, value: float, kind: str) -> Markup:
        return tag("line", cls=kind, x1=self.left, x2=self.right, y1=self.y(value), y2=self.y(value))

    def text(self, x: float, y: float, said: object, anchor: str = "start") -> Markup:
        return tag("text", said, cls="tick", x=float(x), y=float(y), text_anchor=anchor)

    def axes(
        self, x_name: str, xs: Sequence[tuple[float, str]], y_name: str, ys: Sequence[tuple[float, str]]
    ) -> Markup:
        """Grid lines and ticks at (value, text), and the names of both axes."""
        return markup(
            self.text(self.left - 46, 14, y_name),
            [(self.level(v, "grid"), self.text(self.left - 8, self.y(v) + 4, said, "end")) for v, said in ys],
            [self.text(self.x(v), self.bottom + 18, said, "middle") for v, said in xs],
            self.level(self._y[0], "axis"),
            self.text((self.left + self.right) / 2, self.height - 8, x_name, "middle"),
        )

    def svg(self, said: str, *inside: object) -> Markup:
        return tag("svg", *inside, cls="chart", viewBox=f"0 0 {self.width} {self.height}", role="img", aria_label=said)


def curve(
    points: Sequence[Measured], levels: Sequence[tuple[float | None, str, str]], x_name: str, y_name: str, said: str
) -> Markup:
    """Shares with whiskers against whole numbers. `levels`: (value, rule or goal, its name), drawn across, if any."""
    across = [(value, kind, name) for value, kind, name in levels if value is not None]
    lowest = min([p.low for p in points] + [value for value, _, _ in across])
    bottom = max(0.0, math.floor(lowest * 10 - 0.3) / 10)
    most = max(p.x for p in points) * 1.06
    frame = Frame(640, 320, (0, most), (bottom, 1.0))
    ys = [(k / 10, f"{k / 10:.1f}") for k in range(10, round(10 * bottom) - 1, -2 if bottom < 0.35 else -1)]
    parts: list[object] = [frame.axes(x_name, [(v, f"{v:,.0f}") for v in _ticks(0, most)], y_name, ys)]
    for value, kind, name in across:
        at, side = (frame.right, "end") if kind == "rule" else (frame.left + 4, "start")  # where no point is near
        parts += [frame.level(value, kind), frame.text(at, frame.y(value) - 5, f"{name} {value:.2f}", side)]
    trace = " ".join(f"{frame.x(p.x):.1f},{frame.y(p.y):.1f}" for p in points)
    parts.append(tag("polyline", cls="trace", points=trace))
    for p in points:
        x, low, high = (f"{v:.1f}" for v in (frame.x(p.x), frame.y(p.low), frame.y(p.high)))
        whisker = f"M{x} {low}V{high}m-5 0h10M{x} {low}m-5 0h10"
        dot = tag("circle", cls="dot", cx=frame.x(p.x), cy=frame.y(p.y), r=5.5)
        parts.append(tag("g", tag("title", p.said), tag("path", cls="whisker", d=whisker), dot))
    return frame.svg(said, *parts)


def bars(values: Sequence[tuple[str, float, str]], level: float, x_name: str, y_name: str, said: str) -> Markup:
    """(name, share, what is said of it) as bars, and a level across them."""
    most = max(0.04, *(value for _, value, _ in values))
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2) if most <= 5 * s)
    top = step * math.ceil(most / step)
    frame = Frame(420, 320, (0.4, len(values) + 0.6), (0, top))
    width = min(34.0, 0.6 * (frame.right - frame.left) / len(values))
    named = [(float(i), name) for i, (name, _, _) in enumerate(values, 1)][:: math.ceil(len(values) / 12)]
    ys = [(step * k, f"{step * k:.0%}".replace("%", " %")) for k in range(round(top / step) + 1)]
    parts = [frame.axes(x_name, named, y_name, ys)]
    for i, (_, value, told) in enumerate(values, 1):
        y = min(frame.y(value), frame.bottom - 1.5)
        place = {"x": frame.x(i) - width / 2, "y": y, "width": width, "height": frame.bottom - y}
        parts.append(tag("rect", tag("title", told), cls="fill", rx=2, **place))
    return frame.svg(said, *parts, frame.level(level, "rule"))


def _ticks(low: float, high: float) -> list[float]:
    """About six round whole numbers."""
    rough = max((high - low) / 6, 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


class Sign(NamedTuple):
    """What a class is drawn as: the number of a colour (--mark-0 to --mark-7 in style.css), and that of a shape."""

    colour: int
    shape: int


class Marked(NamedTuple):
    """A mark on a map, at a place from 0 to 1, filled or hollow."""

    place: Sequence[float]
    sign: Sign
    hollow: bool
    said: str


def scatter(dots: Sequence[Sequence[float]], marks: Sequence[Marked], said: str) -> Markup:
    """Grey dots for all places, and marks in the colours of classes on some."""
    side, edge = 560, 14

    def at(place: Sequence[float]) -> tuple[float, float]:
        return edge + place[0] * (side - 2 * edge), edge + (1 - place[1]) * (side - 2 * edge)

    cloud = tag("image", href=_cloud([at(p) for p in dots], side), width=side, height=side)
    drawn = [_mark(m.sign, *at(m.place), 5.5, m.hollow, m.said) for m in marks]
    return tag("svg", cloud, drawn, cls="chart", viewBox=f"0 0 {side} {side}", role="img", aria_label=said)


def _cloud(places: Sequence[tuple[float, float]], side: int) -> str:
    """The dots as a small transparent picture: thousands of them would make a large SVG."""
    image = Image.new("LA", (2 * side, 2 * side), (138, 0))
    draw = ImageDraw.Draw(image)
    r, alpha = (3, 200) if len(places) < 2000 else (2, 170)
    for x, y in places:
        draw.ellipse((2 * x - r, 2 * y - r, 2 * x + r, 2 * y + r), fill=(138, alpha))
    out = io.BytesIO()
    image.save(out, format="PNG", optimize=True)
    return data_uri(out.getvalue(), "png")


def glyph(sign: Sign | None, hollow: bool = False) -> Markup:
    """The mark of a class, or the grey dot of none, for tables and legends."""
    mark = tag("circle", cx=7, cy=7, r=2.5, fill="#8a9099") if sign is None else _mark(sign, 7, 7, 5, hollow)
    return tag("svg", mark, cls="glyph", viewBox="0 0 14 14", aria_hidden="true")


def _mark(sign: Sign, x: float, y: float, r: float, hollow: bool, said: str = "") -> Markup:
    kind = f"{'hollow' if hollow else 'mark'} mark-{sign.colour}"
    at = f"translate({x:.1f} {y:.1f}) scale({r:g})"
    told = tag("title", said) if said else None
    return tag("path", told, d=SHAPES[sign.shape % len(SHAPES)], transform=at, cls=kind)


def meter(low: float, high: float, value: float | None = None) -> Markup:
    """A stretch of the line from 0 to 1, and a place on it."""
    low, high = (min(max(end, 0.0), 1.0) for end in (low, high))
    stretch = tag("span", style=f"left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%")
    place = None if value is None else tag("span", cls="place", style=f"left:{100 * value:.1f}%")
    return tag("div", stretch, place, cls="meter" if value is None else "meter unsure", aria_hidden="true")
