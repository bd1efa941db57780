"""A selection in a notebook: its items if the pool is known, their scores, and why they were chosen."""

import io
from typing import Any

import numpy as np
from PIL import Image

from askless.acquire.strategy import Selection
from askless.acquire.table import STRATEGIES
from askless.report.markup import Markup, tag
from askless.report.page import picture

MOST, SIDE, LETTERS, NUMBERS = 24, 96, 160, 6  # items, pixels of a picture, letters of a text, numbers of a row


def table_of(picks: Selection) -> str:
    """A table with a line per item, or, of images, their thumbnails."""
    n = len(picks)
    indices = picks[:MOST].tolist()
    scores = [""] * n if picks.scores is None else [f"{score:.4g}" for score in picks.scores[:MOST]]
    why = [reason(picks, k) for k in range(len(indices))]
    pool = picks.pool
    parts = list(zip(indices, scores, why, strict=False))
    said = tag("p", repr(picks))
    if pool is not None and pool.kind == "image":
        shots = [
            tag("figure", thumbnail(pool, i), tag("figcaption", name(pool, i), *lines(score, text)), style="margin:4px")
            for i, score, text in parts
        ]
        return tag("div", said, tag("div", shots, style="display:flex;flex-wrap:wrap"))
    heads = ("item", *(["what it is"] if pool is not None else []), "score", "reason")
    rows = [
        tag(
            "tr",
            [
                tag("td", cell)
                for cell in (name(pool, i), *([content(pool, i)] if pool is not None else []), score, text)
            ],
        )
        for i, score, text in parts
    ]
    return tag("div", said, tag("table", tag("tr", [tag("th", head) for head in heads]), rows))


def reason(picks: Selection, k: int) -> str:
    """Why the k-th item was chosen, as far as the strategy says."""
    name = str(picks.info.get("strategy", ""))
    kind = STRATEGIES[name].reason if name in STRATEGIES else None
    stands_for = picks.info.get("stands_for", ())
    if kind == "random" or picks[k] in picks.info.get("random", ()):
        return "drawn at random"
    if kind == "stands for" and k < len(stands_for):
        return f"typical of {stands_for[k]} similar items"
    if kind == "new region":
        return "in a region without labels"
    if kind == "eigenvalue":
        return "adds variety to the batch"
    return f"chosen by {name}" if name else ""


def lines(*texts: str) -> list[Markup]:
    return [tag("div", text, style="font-size:smaller") for text in texts if text]


def name(pool: Any, i: int) -> str:
    return str(i) if pool is None or pool.ids is None else f"{i}: {pool.ids[i]}"


def content(pool: Any, i: int, letters: int = LETTERS, numbers: int = NUMBERS) -> str:
    """The beginning of a text, or the first numbers of a row."""
    if pool.kind == "text":
        text = str(pool.x[i])
        return text if len(text) <= letters else text[:letters] + "…"
    row = np.asarray(pool.take([i])).ravel()
    more = ", …" if len(row) > numbers else ""
    return ", ".join(f"{number:.3g}" for number in row[:numbers].tolist()) + more


def thumbnail(pool: Any, i: int, side: int = SIDE) -> Markup:
    pixels = np.asarray(pool.take([i]))[0]  # (C, H, W)
    pixels = pixels if pixels.dtype == np.uint8 else (pixels.clip(0, 1) * 255).astype(np.uint8)
    image = Image.fromarray(pixels[0] if len(pixels) != 3 else np.moveaxis(pixels, 0, 2))
    scale = side / max(image.size)
    image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    out = io.BytesIO()
    image.save(out, format="PNG")
    return picture(out.getvalue(), "png", f"item {i}")
