"""A run on texts: what the model sees of them, and which of them are nearly the same.

The texts are kept in the run's database, as a column of their items: a table that is changed later changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from askless.base.errors import OptionError
from askless.run.settings import BACKBONE, FALLBACK, TEXT_BACKBONE, Settings

NEAR = 0.8  # the share of words and groups of up to three words that two texts have in common, to be nearly the same
AT_ONCE = 1024  # texts that are embedded or compared together


def with_text_net(settings: Settings, column: str) -> Settings:
    """The settings for texts, with the column that was found and a backbone for texts."""
    if settings.net in (BACKBONE, FALLBACK):
        settings = replace(settings, net=TEXT_BACKBONE)
    if settings.net != TEXT_BACKBONE and not settings.net.startswith("frozen:hf/"):
        raise OptionError(
            f"net: texts need a backbone for texts, {TEXT_BACKBONE} or frozen:hf/FOLDER, got {settings.net!r}"
        )
    return replace(settings, text=column)


def embed_texts(
    folder: Path, texts: Sequence[str], fit_on: Sequence[int], settings: Settings, progress: Callable[[int, int], None]
) -> None:
    """Writes the features of all texts into the cache, and the backbone, which is fitted on those at `fit_on`: what is held
    out to measure with has no part in it."""
    from askless.features.text_backbone import text_backbone
    from askless.run.steps.material import keep_rows

    folder.mkdir(exist_ok=True, mode=0o700)
    backbone = text_backbone(settings.net.removeprefix("frozen:"), [texts[i] for i in fit_on])
    parts = []
    for start in range(0, len(texts), AT_ONCE):
        parts.append(backbone.embed(texts[start : start + AT_ONCE]))
        progress(min(start + AT_ONCE, len(texts)), len(texts))
    backbone.save(folder / "text")
    keep_rows(folder, np.concatenate(parts), settings.net)


def nearly_same(texts: Sequence[str], held: Sequence[int], others: Sequence[int]) -> list[int]:
    """Those of `others` that share most of their words, and of the groups of two and three words that follow each other,
    with one of `held`: a Jaccard index of at least 0.8."""
    if not len(held) or not len(others):
        return []
    from sklearn.feature_extraction.text import HashingVectorizer

    groups = HashingVectorizer(
        ngram_range=(1, 3), token_pattern=r"(?u)\w+", norm=None, binary=True, alternate_sign=False
    )
    known = groups.transform([texts[i] for i in held])
    sizes = np.asarray(known.sum(axis=1)).ravel()
    found: list[int] = []
    for start in range(0, len(others), AT_ONCE):
        part = others[start : start + AT_ONCE]
        rows = groups.transform([texts[i] for i in part])
        common = (rows @ known.T).toarray()
        union = np.asarray(rows.sum(axis=1)) + sizes - common
        near = (common >= NEAR * np.maximum(union, 1)).any(axis=1)
        found += [item for item, is_near in zip(part, near, strict=True) if is_near]
    return found
