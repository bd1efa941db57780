"""HTML and SVG: text is escaped on its way into an element, so that no name of a class or of a file can become markup."""

from collections.abc import Iterable
from html import escape

VOID = {"meta", "img"}  # elements that have no end


class Markup(str):
    """What is HTML already; every other text is escaped."""

    __slots__ = ()


def markup(*parts: object) -> Markup:
    """The parts one after the other. Lists are unrolled, None is nothing.

    >>> markup("R & D ", [tag("b", "<x>")], None)
    'R &amp; D <b>&lt;x&gt;</b>'
    """
    return Markup("".join(map(_written, parts)))


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """An element. `cls` stands for class, _ for -; attributes that are None are left out, and floats get one decimal.

    >>> tag("rect", cls="fill", x=1 / 3, aria_label='"', rx=None)
    '<rect class="fill" x="0.3" aria-label="&quot;"></rect>'
    """
    given = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>" if name in VOID else f"<{name}{given}>{markup(*inside)}</{name}>")


def _written(part: object) -> str:
    if isinstance(part, str):
        return part if isinstance(part, Markup) else escape(part)
    if isinstance(part, Iterable):
        return markup(*part)
    return "" if part is None else escape(str(part))


def _value(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else escape(str(value))
