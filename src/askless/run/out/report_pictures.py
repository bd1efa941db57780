"""The items that a report shows: small pictures, or the beginnings of texts, and what is said below each."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from askless.report.markup import Markup, markup, tag
from askless.report.numbers import many
from askless.report.page import picture
from askless.run.out.account import Shown
from askless.sources import UnreadableError, as_8_bit, refusing_bad_image

THUMBS, SIDE, BYTES = 300, 96, 5_000_000  # pictures in a page: number, side in pixels, total bytes
Thumb = Callable[[int], bytes | None]


class Thumbs:
    """Pictures within the limits of a page, in number and bytes. `allow` sets how many the next part may use."""

    def __init__(self, thumb: Thumb, noun: str) -> None:
        self.noun = noun
        self._thumb, self.left, self._bytes, self.allowed = thumb, THUMBS, BYTES, 0
        self._known: dict[int, tuple[bytes, str, bool] | None] = {}

    def allow(self, n: int) -> None:
        self.allowed = min(n, self.left)

    def take(self, item: int, alt: str) -> Markup | None:
        """An item's picture; None where there is none or no room."""
        if self.allowed <= 0:
            return None
        if item not in self._known:
            self._known[item] = _small(self._thumb(item))
        found = self._known[item]
        if found is None:
            return None
        data, kind, tiny = found
        made = picture(data, kind, alt, "tiny" if tiny else None)
        if len(made) > self._bytes:
            return None
        self.allowed, self.left, self._bytes = self.allowed - 1, self.left - 1, self._bytes - len(made)
        return made


def _small(data: bytes | None) -> tuple[bytes, str, bool] | None:
    """Any picture as a small JPEG, or PNG where that is smaller: what the page embeds is always written here. With it, its
    format, and whether it is tiny."""
    if data is None:
        return None
    try:
        with refusing_bad_image(), Image.open(io.BytesIO(data)) as image:
            small = as_8_bit(image).copy()
            small.thumbnail((SIDE, SIDE))
    except UnreadableError:
        return None
    written = {}
    for kind, settings in (("jpeg", {"quality": 82}), ("png", {"optimize": True})):
        out = io.BytesIO()
        small.save(out, format=kind.upper(), **settings)
        written[kind] = out.getvalue()
    kind = min(written, key=lambda k: len(written[k]))
    return written[kind], kind, max(small.size) <= SIDE // 2


def shots(items: Sequence[Shown], thumbs: Thumbs, most: int, total: int) -> Markup:
    """A grid of images with what is said about them; as many as are allowed, but always a few names."""
    out = []
    for s in items[: max(most, 4)]:
        name = Path(s.path).name
        shown = tag("blockquote", s.text, dir="auto") if s.text else thumbs.take(s.item, s.path)
        said = [
            s.label,
            tag("span", f"model: {s.model_label}{'' if s.model_prob is None else f' {s.model_prob:.2f}'}")
            if s.model_label
            else None,
            tag("span", s.reason) if s.reason else None,
            tag("span", name, cls="name") if shown else None,
        ]
        inside = shown or tag("div", name, cls="blank")
        out.append(tag("figure", inside, tag("figcaption", said), cls="shot", title=s.path))
    return markup(tag("div", out, cls="shots"), and_more(total - len(out), thumbs.noun))


def and_more(n: int, one: str, more: str = "") -> Markup:
    return tag("p", f"and {many(n, f'more {one}', more and f'more {more}')}", cls="faint small") if n > 0 else Markup()
