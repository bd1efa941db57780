"""How numbers are written, for people."""

import math

from askless.report.table import NOTHING

SPACE = "\u00a0"  # keeps a number and its unit on one line


def many(n: int, one: str, more: str = "") -> str:
    """
    >>> many(1, "class", "classes"), many(1200, "label")
    ('1 class', '1,200 labels')
    """
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def digits(value: float, n: int = 3) -> str:
    """So many digits; larger numbers whole.

    >>> digits(12345.0), digits(0.0001234), digits(float("inf"))
    ('12,345', '0.000123', 'inf')
    """
    value = float(value)
    return f"{value:,.0f}" if 10**n <= abs(value) < 1e7 else f"{value:.{n}g}"


def known(value: float | None, form: str) -> str:
    """The value in this form, or a dash."""
    return NOTHING if value is None or math.isnan(value) else f"{value:{form}}"


def percent(part: float | None) -> str:
    return NOTHING if part is None else f"{100 * part:.1f}{SPACE}%"


def plus_minus(mean: float, half: float, share: bool = False, sign: str = "") -> str:
    """A mean with its spread, where it has one. Shares are in % with one decimal, two where one would hide the spread;
    other numbers have four digits.

    >>> plus_minus(0.9, 0.0312, share=True), plus_minus(0.9, 0.0004, share=True, sign="+"), plus_minus(0.1, math.nan)
    ('90.0 ± 3.1', '+90.00 ± 0.04', '0.1')
    """
    scale = 100 if share else 1
    form = f".{2 if scale * half < 0.1 else 1}f" if share else ".4g"
    spread = "" if math.isnan(half) else f" ± {scale * half:{form}}"
    return f"{scale * mean:{sign}{form}}{spread}"


def seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value < 100:
        return f"{value:.1f}{SPACE}s"
    return f"{value // 60:.0f}{SPACE}min {value % 60:.0f}{SPACE}s" if value < 5400 else duration(value / 60)


def duration(minutes: float | None) -> str:
    if minutes is None:
        return NOTHING
    if minutes < 1:
        return f"{60 * minutes:.0f}{SPACE}s"
    hours = f"{minutes // 60:.0f}{SPACE}h {minutes % 60:.0f}{SPACE}min"
    return f"{minutes:.0f}{SPACE}min" if minutes < 90 else hours


def size(n: int) -> str:
    """Bytes."""
    return f"{n:,} B" if n < 10_000 else f"{n / 1e3:,.0f} kB" if n < 10_000_000 else f"{n / 1e6:,.0f} MB"


def time(at: str) -> str:
    """
    >>> time("2026-03-01T09:00:00Z")
    '2026-03-01 09:00 UTC'
    """
    return f"{at[:10]} {at[11:16]} UTC" if len(at) >= 16 and at[10] == "T" else at


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
