"""Reuters-21578 and SpamAssassin: texts, seen as features."""

import json
from os import PathLike
from pathlib import Path

import torch

from askless.base.errors import InputError
from askless.data.articles import REUTERS_TOPICS, Parse, Text, reuters_articles, spam_assassin_mails
from askless.data.fetch import FAILURES, TEXTS, known, locate, parsed, stored
from askless.data.pool import Pool, encode_labels
from askless.data.tfidf import fit_tfidf
from askless.sources.limits import read_plain


def reuters(path: str | PathLike[str] | None = None) -> Pool:
    """Reuters-21578: 5,528 articles of 1987 until 7 April and 2,313 later ones for test, (256,) float32, 8 classes.

    R8 by another way: the articles that have one topic, split on ModApte's day, with those that ModApte leaves unused.

    >>> pool = al.data.reuters()  # doctest: +SKIP
    """
    return from_texts("reuters", path, REUTERS_TOPICS, reuters_articles)


def spam_assassin(path: str | PathLike[str] | None = None) -> Pool:
    """SpamAssassin: subject and body of 4,535 mails and 1,511 for test, (256,) float32, ham and spam.

    >>> pool = al.data.spam_assassin()  # doctest: +SKIP
    """
    return from_texts("spam-assassin", path, ("ham", "spam"), spam_assassin_mails)


def from_texts(name: str, path: str | PathLike[str] | None, classes: tuple[str, ...], parse: Parse) -> Pool:
    place = locate(name, path)
    file = stored(place, TEXTS)
    texts = kept_texts(file) if file is not None else read_package(place / known(name).layouts[1][0], parse)
    pool, test = ([text for text in texts if text.part == part] for part in ("pool", "test"))
    if not pool or not test:
        raise InputError(f"{place}: expected texts for the pool and for test, got {len(pool)} and {len(test)}")
    y, test_y = (encode_labels([text.label for text in part], classes)[0] for part in (pool, test))
    fitted = fit_tfidf([text.text for text in pool])
    x, test_x = (torch.from_numpy(fitted.embed([text.text for text in part])) for part in (pool, test))
    ids = tuple(text.id for text in pool)
    return Pool(x, y, ids, classes, (test_x, test_y), name, "features")


def kept_texts(path: Path) -> list[Text]:
    """What `keep_texts` wrote: one text a line, as JSON."""
    try:
        return [Text(**json.loads(line)) for line in read_plain(path).splitlines()]
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: expected a line of JSON with {', '.join(Text._fields)} per text, got another file ({error}); fetch "
            "it again"
        ) from None


def read_package(path: Path, parse: Parse) -> list[Text]:
    try:
        return parsed(parse, path)
    except FAILURES as error:
        raise InputError(f"{path}: expected the package as published, got another file ({error})") from None
