"""Reuters-21578 and SpamAssassin: texts, seen as features."""

import gzip
import json
import zlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import torch

from askless.base.errors import InputError
from askless.data.articles import REUTERS_TOPICS, Parse, Text, reuters_articles, spam_assassin_mails
from askless.data.fetch import FAILURES, TEXTS, known, locate, parsed, stored
from askless.data.pool import Pool, encode_labels
from askless.data.tfidf import fit_tfidf
from askless.sources.limits import gunzip


def reuters(path: str | PathLike[str] | None = None) -> Pool:
    """Reuters-21578: 5,528 articles of 1987 until 7 April and 2,313 later ones for test, (256,) float32, 8 classes.

    R8 by another way: the articles that have one topic, split on ModApte's day, with those that ModApte leaves unused.
    """
    return from_texts("reuters", path, REUTERS_TOPICS, reuters_articles)


def spam_assassin(path: str | PathLike[str] | None = None) -> Pool:
    """SpamAssassin: subject and body of 4,535 mails and 1,511 for test, (256,) float32, ham and spam."""
    return from_texts("spam-assassin", path, ("ham", "spam"), spam_assassin_mails)


def from_texts(name: str, path: str | PathLike[str] | None, classes: tuple[str, ...], parse: Parse) -> Pool:
    place = locate(name, path)
    file = stored(place, TEXTS)
    texts = read_texts(file) if file is not None else read_package(place / known(name).layouts[1][0], parse)
    pool, test = ([text for text in texts if text.part == part] for part in ("pool", "test"))
    if not pool or not test:
        raise InputError(f"{place}: expected texts for the pool and for test, got {len(pool)} and {len(test)}")
    y, test_y = (encode_labels([text.label for text in part], classes)[0] for part in (pool, test))
    x, test_x = text_features([text.text for text in pool], [text.text for text in test])
    ids = tuple(text.id for text in pool)
    return Pool(torch.from_numpy(x), y, ids, classes, (torch.from_numpy(test_x), test_y), name, "features")


def read_texts(path: Path) -> list[Text]:
    """The texts of a file that has one a line, as JSON with id, part, label and text."""
    try:
        content = gunzip(path) if path.suffix == ".gz" else path.read_bytes()
        return [Text(**json.loads(line)) for line in content.splitlines()]
    except (EOFError, gzip.BadGzipFile, zlib.error, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: expected a line of JSON with {', '.join(Text._fields)} per text, got another file ({error}); fetch "
            "it anew"
        ) from None


def read_package(path: Path, parse: Parse) -> list[Text]:
    try:
        return parsed(parse, path)
    except FAILURES as error:
        raise InputError(f"{path}: expected the package as published, got another file ({error})") from None


def text_features(pool: Sequence[str], test: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(N, d) and (M, d) float32: TF-IDF of words, fitted on the pool, reduced to d <= 256 by SVD, rows of length 1."""
    fitted = fit_tfidf(pool)
    return fitted.embed(pool), fitted.embed(test)
