"""What the page asks for when somebody browses items, checked, and what it gets."""

import sqlite3
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Depends, Query

from askless.run import Run
from askless.run.out.browse import NONE, By, Order, listing, what_is_said
from askless.run.steps.round_files import last_predictions
from askless.run.store.answering import Suggested
from askless.run.store.browsing import Filters, Match, Show, matching_items
from askless.run.store.classes import final_class
from askless.run.store.extra import can
from askless.run.store.labels import count_answers_by_annotator

MOST = 2000  # items that a request may name
Number = Annotated[int | None, Query(ge=0, le=10_000)]
Numbers = Annotated[str, Query(max_length=20_000, pattern=r"^(\d{1,9}(,\d{1,9})*)?$")]
Kind = Literal["chosen", "check", "found", "accepted", "before", "unasked"]


@dataclass
class ItemQuery:
    """Which items: `show` by their answers, `label` and `predicted` by class, `person` who answered, `kind` why they were
    asked, `text` in the name or in the text, `items` only these. In which order: `like` by likeness to these items, to the
    nearest of them or to their mean, else by `order`. `model`: with what the model says."""

    show: Show = "all"
    doubtful: bool = False
    label: Number = None
    predicted: Number = None
    person: Annotated[str | None, Query(max_length=100)] = None
    kind: Kind | None = None
    text: Annotated[str, Query(max_length=200)] = ""
    items: Numbers = ""
    like: Numbers = ""
    by: By = "best"
    order: Order = "id"
    model: bool = False
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0
    limit: Annotated[int, Query(ge=1, le=500)] = 60

    def filters(self) -> Filters:
        only = numbers(self.items) if self.items else None
        return Filters(self.show, self.label, self.person, self.kind, self.text, only)


ItemsAsked = Annotated[ItemQuery, Depends()]


def numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(part) for part in text.split(",") if part))[:MOST]


def found_items(run: Run, db: sqlite3.Connection, annotator: str, asked: ItemQuery, show: Any) -> dict[str, Any]:
    """The page of items that was asked for; `show(db, item)` makes of one what the page takes."""
    found = listing(
        run,
        db,
        annotator,
        asked.filters(),
        order=asked.order,
        predicted=asked.predicted,
        doubtful=asked.doubtful,
        like=numbers(asked.like),
        by=asked.by,
        offset=asked.offset,
        limit=asked.limit,
    )
    items = []
    for known, label, prob in zip(found.items, found.said.label.tolist(), found.said.prob.tolist(), strict=True):
        answered = known.annotator is not None
        answer = {"class": known.label, "unsure": known.unsure, "annotator": known.annotator, "at": known.at}
        items.append(
            {
                **show(db, known.item),
                "answer": answer if answered else None,
                "model": {"class": label, "prob": prob} if asked.model and label != NONE else None,
                "can": can(known.standing, run.settings.annotators),
            }
        )
    return {"items": items, "total": found.total, "people": list(count_answers_by_annotator(db))}


def said_of_pool(run: Run, db: sqlite3.Connection, items: tuple[int, ...] | None = None) -> dict[int, Suggested]:
    """What the model says of items of the pool, by default of all."""
    matches: list[Match] = matching_items(db, "", Filters(items=items))
    said = what_is_said(matches, last_predictions(db, run.folder), final_class(db))
    return {
        matches[p].item: Suggested(int(said.label[p]), float(said.prob[p])) for p in np.flatnonzero(said.label != NONE)
    }
