"""One self-contained page: its style and its pictures are inside, it follows light and dark, and it has no script."""

import base64
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from askless.report.markup import Markup, markup, tag


class Section(NamedTuple):
    """A part of a page, left out where nothing is inside; `short` is its name in the list of links, if not the title."""

    title: str
    inside: Markup
    short: str = ""

    @property
    def key(self) -> str:
        return re.sub("[^a-z0-9]+", "-", (self.short or self.title).lower()).strip("-")


def html_page(title: str, about: str, sections: Iterable[Section], *, lead: object = None, tab: str = "") -> str:
    """A whole page. `about` stands below the title, `lead` above the sections; `tab` names the window, if not the title."""
    shown = [s for s in sections if s.inside]
    links = [tag("a", s.short or s.title, href=f"#{s.key}") for s in shown]
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", tab or title),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        tag("header", tag("h1", title), tag("p", about, cls="faint")),
        tag("nav", links) if len(links) > 1 else None,
        tag("main", lead, [tag("section", tag("h2", s.title), s.inside, id=s.key) for s in shown]),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def paragraphs(text: str) -> Markup:
    """Empty lines part them."""
    return markup(tag("p", part.strip()) for part in text.split("\n\n") if part.strip())


def nothing(said: str) -> Markup:
    """Stands where there is nothing to show."""
    return tag("p", said, cls="none")


def note(*inside: object) -> Markup:
    return tag("p", *inside, cls="note")


def bullets(items: Iterable[object]) -> Markup:
    lines = [tag("li", item) for item in items]
    return tag("ul", lines) if lines else Markup()


def terms(told: Mapping[str, object]) -> Markup:
    """Terms, and what is said about each."""
    return tag("dl", [(tag("dt", term), tag("dd", said or "–")) for term, said in told.items()]) if told else Markup()


def box(*inside: object, kind: str = "", role: str = "note") -> Markup:
    """What must not be overlooked; `kind`: good, warn or bad."""
    return tag("div", *inside, cls=f"box {kind}".strip(), role=role)


def folded(title: object, *inside: object, unfolded: bool = False) -> Markup:
    return tag("details", tag("summary", title), *inside, open="" if unfolded else None)


def again(command: str, told: Mapping[str, object] | None = None) -> Markup:
    """How to repeat what the page reports: the command, and what else decides the numbers."""
    shown = tag("pre", tag("code", command)) if command else None
    return markup(shown, terms({term: said for term, said in (told or {}).items() if said}))


def picture(data: bytes, kind: str, alt: str, cls: str | None = None) -> Markup:
    return tag("img", cls=cls, alt=alt, src=data_uri(data, kind))


def data_uri(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def plot(figure: Any, alt: str, caption: str = "") -> Markup:
    """A figure of matplotlib; the style sheet turns it dark where the page is."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120, metadata={"Software": None})
    below = tag("figcaption", caption) if caption else None
    return tag("figure", picture(buffer.getvalue(), "png", alt, "plot"), below)
