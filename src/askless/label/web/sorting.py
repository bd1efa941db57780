"""The view "Sort": the rest of the run, class by class, in chunks that a person accepts."""

import sqlite3
from collections import Counter
from typing import Annotated

from fastapi import Query

from askless.label.web import bodies
from askless.label.web.page import Json, Page, Who, side_by_side
from askless.run.out.sorting import Rest, precisions, rest_of
from askless.run.steps.sorting import LEFT_OVER, surest_class
from askless.run.store.answering import Suggested
from askless.run.store.chunks import Chunk
from askless.run.store.classes import shown_classes
from askless.run.store.extra import Labelled, label_extra
from askless.run.store.fits import last_fitted
from askless.run.store.progress import progress_of

CHUNK = 96
MOST = 200


class Sorting:
    """A method for each of the view's routes."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def overview(
        self,
        who: Who,
        n: Annotated[int, Query(ge=1, le=MOST)] = CHUNK,
        class_: Annotated[int | None, Query(alias="class", ge=LEFT_OVER, le=10_000)] = None,
    ) -> Json:
        """How many wait in each class, how many of those the model expects to get wrong, and how right what was accepted is.
        And the next chunk: of this class, of what is left over (-1), or of the class that the model is surest of."""
        page = self.page
        with page.run.store.look() as db:
            rest = rest_of(db, page.run.folder)
            so_far = progress_of(db, who.at())
            waiting = Counter([] if rest is None else rest.placed.classes.tolist())
            known = [c.id for c in shown_classes(db)]
            if rest is not None and (class_ is None or not waiting[class_]):
                class_ = surest_class(rest.placed, n)
                if class_ is None and waiting[LEFT_OVER]:
                    class_ = LEFT_OVER
            chunk = None if rest is None or class_ is None else self.chunk(db, rest, class_, n)
            return {
                "model": last_fitted(db),
                "classes": [{"class": number, "waiting": waiting[number]} for number in known],
                "left_over": waiting[LEFT_OVER],
                "waiting": waiting.total(),
                "expected_wrong": 0.0 if rest is None else rest.expected_wrong,
                "items": len(page.run.paths),
                "precision": [one.as_json() for one in precisions(db, page.run.folder)],
                "chunk": chunk,
                "progress": so_far.as_json(),
            }

    def chunk(self, db: sqlite3.Connection, rest: Rest, number: int, n: int) -> Json:
        """The items that the model is surest of, similar ones side by side."""
        prob = rest.offered(number)
        items = [i for i in rest.surest(number, n) if self.page.is_readable(i)]
        shown = [{**self.page.item(db, i), "prob": round(prob[i], 4)} for i in side_by_side(self.page.run, items)]
        return {"class": None if number == LEFT_OVER else number, "items": shown}

    def accept(self, who: Who, body: bodies.SortBody) -> Json:
        """Stores a chunk as one event; `passed` are the items that others took in the meantime."""
        desk, passed = who.at(body.tab), list[int]()

        def store(db: sqlite3.Connection) -> None:
            labels = {one.item: one.class_ for one in body.right}
            if body.class_ is None:
                done = label_extra(db, desk, body.request_id, labels, "found")
            else:
                labels |= dict.fromkeys(body.accepted, body.class_)
                done = self.accept_for(db, who, body, body.class_, labels)
            passed.extend(done.passed)

        return {**self.page.once(desk, store), "passed": passed}

    def accept_for(
        self, db: sqlite3.Connection, who: Who, body: bodies.SortBody, number: int, labels: dict[int, int]
    ) -> Labelled:
        rest = rest_of(db, self.page.run.folder)
        offered = {} if rest is None else rest.offered(number)
        seen = [] if rest is None else [i for i in [*labels, *body.out] if i in offered and i not in rest.again]
        chunk = Chunk(
            number,
            labels,
            body.out,
            seen=len(seen),
            removed=sum(labels.get(i) != number for i in seen),
            least=min((offered[i] for i in seen), default=1.0),
        )
        said = {i: Suggested(number, offered[i]) for i in labels if i in offered}
        return label_extra(db, who.at(body.tab), body.request_id, labels, "accepted", said, chunk)
