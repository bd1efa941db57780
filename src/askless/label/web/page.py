"""A run as the page sees it: a method for each route of `askless.label.web.app`, which answers with what JSON knows."""

import getpass
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from askless.base.errors import InputError, OptionError
from askless.label.web import bodies
from askless.label.web.finding import ItemsAsked, found_items, said_of_pool
from askless.label.web.guard import Gate
from askless.report.numbers import many
from askless.run import Run
from askless.run.out.alike import units
from askless.run.out.claims import accept_claims
from askless.run.out.doubts import doubts_of, neighbours
from askless.run.out.gather import account_of, map_of
from askless.run.pictures import NoPictureError
from askless.run.steps.round_files import last_predictions, read_embeddings, read_status
from askless.run.store.answering import ConflictError, Given, Suggested, answer, mark_shown, skip, undo
from askless.run.store.asking import (
    Desk,
    all_tasks,
    answered_but_open,
    holders,
    is_anything_open,
    next_item,
    open_tasks,
    release,
    renew,
    take_batch,
    task_of,
    upcoming,
    waiting_for_second,
)
from askless.run.store.classes import add_class, final_class, merge_class, rename_class, shown_classes
from askless.run.store.deciding import answers_on, decide
from askless.run.store.extra import label_found
from askless.run.store.fits import all_fits
from askless.run.store.items import item_of
from askless.run.store.labels import (
    Answer,
    agreed,
    answered_items,
    answers_to,
    disagreements,
    last_answers,
    train_labels,
)
from askless.run.store.looks import Look, choose_look, chosen_looks
from askless.run.store.progress import progress_of
from askless.run.store.store import RepeatedError, get_meta, last_event, record, set_meta
from askless.sources import UnreadableError

Json = dict[str, Any]
PRELOAD = 3  # items for the browser to load ahead
LAST = 8  # answers of one's own that the page shows at all times
WITHOUT = 10  # in prefill mode one image in ten is shown without a suggestion


class Annotator(NamedTuple):
    """Who asks: the name in the signed cookie, which was asked for, or that of the computer's user."""

    name: str
    asked: bool

    def at(self, tab: str = "") -> Desk:
        return Desk(self.name, tab)


async def who_asks(request: Request) -> Annotator:
    page: Page = request.app.state.page
    name = page.gate.signed_name(request.headers.get("cookie", ""))
    return Annotator(page.default_name, False) if name is None else Annotator(name, True)


Who = Annotated[Annotator, Depends(who_asks)]
Tab = Annotated[str, Query(max_length=100)]


class Page:
    """One per server. `worker()` says what the background process does, `restart()` starts it again; `changed` is set when
    labels.csv is behind."""

    def __init__(self, run: Run, gate: Gate, worker: Callable[[], Json], restart: Callable[[], None]) -> None:
        self.run, self.gate, self.worker, self.restart = run, gate, worker, restart
        self.changed = threading.Event()
        self.default_name = user_name()

    @property
    def overlap(self) -> int:
        return self.run.settings.annotators

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        with self.run.store.change() as db:
            yield db
        self.changed.set()

    def progress(self, desk: Desk) -> Json:
        with self.run.store.look() as db:
            return progress_of(db, desk).as_json()

    # --- asking ------------------------------------------------------------------------------------------------------

    def state(self, who: Who, tab: Tab = "") -> Json:
        """All that the page needs to begin with."""
        self.run.store.check_still_there()  # so that the page says it before somebody answers
        worker, settings, desk = self.worker(), self.run.settings, who.at(tab)
        with self.run.store.look() as db:
            model = next(reversed(all_fits(db).values()), None)
            return {
                "run": {
                    "name": self.run.folder.resolve().name,
                    "folder": str(self.run.folder),
                    "finished": worker["step"] == "finished" and not is_anything_open(db),
                    "suggestions": get_meta(db, "suggestions"),
                    "annotators": self.overlap,
                    "keys": self.started_keys(db),
                    "map": bool(get_meta(db, "compared")),
                    "check_share": settings.check,
                    "strategy": settings.strategy,
                    "pictures": self.run.pictures.has_pictures,
                    "noun": self.run.noun,
                },
                "annotator": who._asdict(),
                "progress": progress_of(db, desk).as_json(),
                "last": self.answers(db, last_answers(db, who.name, LAST), doubt=False),
                "worker": worker,
                "model": None if model is None else {"round": model.round, "labels": model.labels},
                "version": last_event(db),
            }

    def started_keys(self, db: sqlite3.Connection) -> dict[str, int]:
        """The keys that the run was started with, but for classes that have been given another one since."""
        looks = chosen_looks(db)
        numbers = {c.name: c.id for c in shown_classes(db) if not looks.get(c.id, Look()).key}
        return {key: numbers[c] for key, c in self.run.settings.keys.items() if c in numbers}

    def next(self, who: Who, body: bodies.NextBody) -> Response:
        # As a response, here and where answers come in: FastAPI would check what we made ourselves in another thread first.
        return JSONResponse(self.item_for(who.at(body.tab), lease=True, ahead=body.ahead))

    def look_at_next(self, who: Who, tab: Tab = "") -> Json:
        return self.item_for(who.at(tab), lease=False)

    def item_for(self, desk: Desk, lease: bool, ahead: bool = True) -> Json:
        """The item for a tab, those that come after it, or why there is none."""
        while True:
            with self.run.store.lend() if lease else self.run.store.look() as db:
                item = next_item(db, desk, self.overlap, lease, ahead)
                shown = None if item is None else self.item(db, item, desk if lease else None)
                so_far = progress_of(db, desk)
                following = upcoming(db, item, time.time(), PRELOAD)
                others, for_others = (holders(db, desk), answered_but_open(db, desk)) if item is None else ({}, 0)
            if item is None or not lease or self.is_readable(item):
                break
        used = so_far.spent >= so_far.budget
        code, why = ("ok", "") if item is not None else self.why_nothing(desk, used, others, for_others)
        if all(c.hidden for c in so_far.classes):
            code = "no_classes"
        return {"item": shown, "next": following, "code": code, "why": why, "progress": so_far.as_json()}

    def why_nothing(self, desk: Desk, is_used: bool, others: dict[str, int], others_to_answer: int) -> tuple[str, str]:
        own = others.pop(desk.annotator, 0)
        if own and not others:
            there = f"{own} {self.run.noun}{'s are' if own > 1 else ' is'} open in another tab of yours"
            return "other_tab", f"{there}. Label there, or close that tab and reload this page."
        if others:
            who = " and ".join(f"{n} with {name}" for name, n in sorted(others.items()))
            return "held", f"Others are labelling all remaining {self.run.noun}s: {who}."
        if others_to_answer:
            wait = f"{many(others_to_answer, self.run.noun)} still need an answer by another person"
            return "held", f"{wait}; open the page in another browser under another name."
        worker = self.worker()
        if worker["step"] == "failed":
            return "failed", f"The training stopped: {worker['problem']}"
        if self.run.is_finished():  # what the worker said last may be older than the last answer
            with self.run.store.look() as db:
                labelled, total = len(answered_items(db)), len(self.run.paths)
            used = f"The budget is used: {labelled:,} of {total:,} {self.run.noun}s are labelled."
            return "finished", used if is_used else "There is nothing left to label."
        busy = worker["step"] not in ("waiting", "finished", "stopped")
        return "training", worker["text"] if busy and worker["text"] else "askless is choosing the next batch."

    def grid(self, who: Who, body: bodies.GridBody) -> Json:
        """A screen of the batch, similar items side by side."""
        desk = who.at(body.tab)
        while True:
            with self.run.store.lend() as db:
                items = take_batch(db, desk, self.overlap, body.n)
                shown = [{**self.item(db, i, desk), "answer": None} for i in side_by_side(self.run, items)]
                so_far = progress_of(db, desk)
            if all([self.is_readable(i) for i in items]):
                return {"items": shown, "progress": so_far.as_json()}

    def renew(self, who: Who, body: bodies.AtTab) -> Json:
        with self.run.store.lend() as db:
            until = renew(db, who.at(body.tab))
        return {"ok": True, "expires": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))}

    def release(self, who: Who, body: bodies.AtTab) -> Json:
        with self.run.store.lend() as db:
            release(db, who.at(body.tab))
        return {"ok": True}

    def peek(self, who: Who, body: bodies.PeekBody) -> Json:
        """What the model says of an item, which is then noted."""
        item = body.item
        with self.change() as db:
            if get_meta(db, "suggestions") == "off":
                raise InputError("suggestions are off; switch them to peek first")
            task = task_of(db, item)
            if task is None or task.kind == "check":
                raise ConflictError(f"no suggestion for this {self.run.noun}: it measures the model", item)
            found = self.suggested(db, [item]).get(item)
            if found is None:
                return {"suggestion": None}
            mark_shown(db, who.at(body.tab), item, "peek")
            seen = {"class": found.label, "prob": found.prob}
            record(db, f"peek-{uuid.uuid4()}", "peek", who.name, seen, item)
        return {"suggestion": seen}

    def text(self, item: bodies.ItemId) -> Response:
        """The whole text of an item, or its numbers; the page shows it as text and never as HTML."""
        found = self.run.texts([item]) if self.run.kind == "texts" else {}
        if self.run.kind == "features" and item < len(self.run.paths):
            found = {item: "  ".join(f"{number:.3g}" for number in self.run.pictures.numbers(item).ravel())}
        if item not in found:
            raise NoPictureError(f"item {item}: expected an item with a text, got one without")
        return JSONResponse({"id": item, "text": found[item]}, headers={"cache-control": "private, max-age=86400"})

    # --- answering ---------------------------------------------------------------------------------------------------

    def answer(self, who: Who, body: bodies.AnswerBody) -> Response:
        desk, items, change = who.at(body.tab), body.items, body.change
        given = Given(body.class_, body.unsure, body.seconds, body.bulk, body.note)

        def store(db: sqlite3.Connection) -> None:
            suggested = self.suggested(db, items)
            answer(db, desk, body.request_id, items, given, overlap=self.overlap, change=change, suggested=suggested)

        try:
            return JSONResponse(self.once(desk, store))
        except ConflictError as error:
            error.yours = {"class": given.label, "unsure": given.unsure}
            raise

    def label(self, who: Who, body: bodies.LabelBody) -> Json:
        """Labels items of a list at once, asked or not."""
        desk, items = who.at(body.tab), body.items
        given = Given(body.class_, body.unsure, body.seconds, len(items) > 1, body.note)

        def store(db: sqlite3.Connection) -> None:
            suggested, seen = said_of_pool(self.run, db, tuple(items)), body.seen
            label_found(db, desk, body.request_id, items, given, overlap=self.overlap, suggested=suggested, seen=seen)

        return self.once(desk, store)

    def decide(self, who: Who, body: bodies.DecideBody) -> Json:
        """Settles an item on which people disagree, or that somebody else labelled."""
        desk = who.at(body.tab)
        return self.once(desk, lambda db: decide(db, body.request_id, who.name, body.item, body.class_, body.unsure))

    def skip(self, who: Who, body: bodies.ItemBody) -> Json:
        desk = who.at(body.tab)
        return self.once(desk, lambda db: skip(db, desk, body.request_id, body.item, overlap=self.overlap))

    def accept_claims(self, who: Who, body: bodies.ClaimsBody) -> Json:
        """Accepts predictions from elsewhere of which this share is right, as check images show; `accepted`: how many."""
        desk, accepted = who.at(body.tab), list[int]()

        def store(db: sqlite3.Connection) -> None:
            accepted.append(accept_claims(db, desk, body.request_id, body.name, body.share)[1])

        return {**self.once(desk, store), "accepted": sum(accepted)}

    def once(self, desk: Desk, store: Callable[[sqlite3.Connection], None]) -> Json:
        """Stores something, unless it was stored before, and how far that is."""
        try:
            with self.change() as db:
                store(db)
                so_far = progress_of(db, desk)
        except RepeatedError:
            return {"ok": True, "repeated": True, "progress": self.progress(desk)}
        return {"ok": True, "repeated": False, "progress": so_far.as_json()}

    def undo(self, who: Who, body: bodies.RequestAtTab) -> Json:
        return self.take_back(who, body, again=False)

    def redo(self, who: Who, body: bodies.RequestAtTab) -> Json:
        return self.take_back(who, body, again=True)

    def take_back(self, who: Annotator, body: bodies.RequestAtTab, again: bool) -> Json:
        desk = who.at(body.tab)
        try:
            with self.change() as db:
                what = undo(db, desk, body.request_id, overlap=self.overlap, again=again)
        except RepeatedError as repeated:  # the same answer again, for those whom the first one did not reach
            what = repeated.payload
        with self.run.store.lend() as db:
            item = next_item(db, desk, self.overlap)
            shown = None if item is None else self.item(db, item, desk)
            so_far, text = progress_of(db, desk), self.described(db, what)
        undone = None if what["kind"] is None else {"kind": what["kind"], "items": what["items"], "text": text}
        return {"ok": True, "undone": undone, "item": shown, "progress": so_far.as_json()}

    def described(self, db: sqlite3.Connection, what: Json) -> str:
        """What was undone, for people."""
        kind, items = what["kind"], what["items"]
        if kind is None:
            return ""
        if "refused" in what:
            return f"not possible: {what['refused']}"
        if kind.startswith("class_"):
            return {
                "class_add": "new class",
                "class_rename": "renamed class",
                "class_merge": "merged class",
                "class_look": "colour or key of a class",
            }[kind]
        if kind == "accepted" and not items:
            return f"{self.run.noun}s taken out of a class"
        kind = {"decide": "decision"}.get(kind, kind)
        return f"{kind} on {item_of(db, items[0]).path if len(items) == 1 else f'{len(items)} {self.run.noun}s'}"

    # --- classes -----------------------------------------------------------------------------------------------------

    def add_class(self, who: Who, body: bodies.NameBody) -> Json:
        return self.change_class(who, lambda db: add_class(db, body.request_id, who.name, body.name))

    def rename_class(self, who: Who, number: int, body: bodies.NameBody) -> Json:
        return self.change_class(who, lambda db: rename_class(db, body.request_id, who.name, number, body.name))

    def merge_class(self, who: Who, number: int, body: bodies.MergeBody) -> Json:
        return self.change_class(who, lambda db: merge_class(db, body.request_id, who.name, number, body.into))

    def choose_look(self, who: Who, number: int, body: bodies.LookBody) -> Json:
        def choose(db: sqlite3.Connection) -> int:
            started = self.started_keys(db)
            return choose_look(db, body.request_id, who.name, number, body.colour, body.key, started)

        return self.change_class(who, choose)

    def change_class(self, who: Annotator, change: Callable[[sqlite3.Connection], int]) -> Json:
        try:
            with self.change() as db:
                number = change(db)
        except RepeatedError as repeated:
            number = repeated.payload["class"]
        so_far = self.progress(who.at())
        return {"class": next(c for c in so_far["classes"] if c["id"] == number), "progress": so_far}

    # --- looking -----------------------------------------------------------------------------------------------------

    def review(
        self,
        who: Who,
        show: Literal["doubtful", "conflicts"] = "doubtful",
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 60,
    ) -> Json:
        """What to look at again: doubtful answers, or items on which people disagree; for all others see `items`."""
        with self.run.store.look() as db:
            if show == "doubtful":
                return self.doubtful(db, who, offset, limit)
            return self.disagreements(db, offset, limit)

    def items(self, who: Who, asked: ItemsAsked) -> Json:
        """A page of the items that match, in an order."""
        with self.run.store.look() as db:
            return found_items(self.run, db, who.name, asked, self.item)

    def doubtful(self, db: sqlite3.Connection, who: Annotator, offset: int, limit: int) -> Json:
        """Doubtful labels, each `against` the class that is suggested instead, beside the nearest labels of both. Of several
        people who gave it one stands for all: who asks, if they did."""
        doubts, final = doubts_of(db, self.run.folder), final_class(db)
        by_item = {one.item: one for one in doubts.found}
        first: dict[int, Answer] = {}
        for given in answers_to(db, list(by_item), who.name):
            if given.label is not None and final[given.label] == by_item[given.item].label:
                first[given.item] = given if given.annotator == who.name else first.get(given.item, given)
        found = list(first.values())
        shown = self.answers(db, found[offset : offset + limit])
        for row in shown:
            one = by_item[row["item"]["id"]]
            row["against"] = {"label": one.label, "class": one.said}
            sides = ((one.label, one.alike), (one.said, one.other))
            row["sides"] = [{"class": c, "items": [self.item(db, i) for i in items]} for c, items in sides]
        return {"answers": shown, "total": len(found), "by": doubts.by, "labels": doubts.labels}

    def disagreements(self, db: sqlite3.Connection, offset: int, limit: int) -> Json:
        """Items on which people disagree, each with what was `given`, the class to `keep`, which most have, and the nearest
        labelled items of the two classes that were given most. A check item comes without them: its label must owe nothing
        to the labels that the model learns from."""
        found = disagreements(db)
        shown, final = found[offset : offset + limit], final_class(db)
        given = answers_on(db, [one.item for one in shown])
        votes = {i: Counter(final[c] for _, c, _ in of if c is not None).most_common() for i, of in given.items()}
        wanted = {one.item: [c for c, _ in votes[one.item][:2]] for one in shown if one.kind != "check"}
        near = neighbours(self.run.folder / "cache" / "embeddings.npy", train_labels(db), wanted)
        rows = []
        for item in (one.item for one in shown):
            first, second = [*votes[item], (None, 0), (None, 0)][:2]
            sides = zip(wanted.get(item, ()), near.get(item, ()), strict=False)
            rows.append(
                {
                    "item": self.item(db, item),
                    "given": [
                        {"annotator": who, "class": None if c is None else final[c], "unsure": why}
                        for who, c, why in given[item]
                    ],
                    "keep": first[0] if first[1] > second[1] else None,
                    "sides": [{"class": c, "items": [self.item(db, i) for i in items]} for c, items in sides],
                }
            )
        return {"answers": rows, "total": len(found)}

    def account(self, who: Who) -> Json:
        return {**account_of(self.run).as_json(), "progress": self.progress(who.at())}

    def map(self) -> Json:
        """Where every item is, its label, what the model says of it, and its round; `current` are those that are asked."""
        with self.run.store.look() as db:
            tasks = all_tasks(db)
            done = {task.item for task in tasks if task.state == "done"} - waiting_for_second(db)
            labels = {a.item: a.label for a in agreed(db) if a.label is not None and a.item in done}
            found, said = map_of(self.run, db, labels), said_of_pool(self.run, db)
            current = [task.item for task in open_tasks(db) if task.kind == "train"]
        if found is None:
            return {"points": [], "labels": [], "predicted": [], "rounds": [], "current": []}
        predicted = [said[i].label if i in said else -1 for i in range(len(found.points))]
        return {
            "points": found.points,
            "labels": found.labels,
            "predicted": predicted,
            "rounds": found.rounds,
            "current": current,
        }

    # --- steering ----------------------------------------------------------------------------------------------------

    def set_budget(self, who: Who, body: bodies.BudgetBody) -> Json:
        with suppress(RepeatedError):
            self.run.set_budget(body.request_id, who.name, body.budget)
        return self.steered(who)

    def train_now(self, who: Who, body: bodies.Request) -> Json:
        with suppress(RepeatedError):
            self.run.train_now(body.request_id, who.name)
        self.restart()
        return self.steered(who)

    def set_suggestions(self, who: Who, body: bodies.SettingsBody) -> Json:
        with suppress(RepeatedError), self.change() as db:
            record(db, body.request_id, "settings", who.name, {"suggestions": body.suggestions})
            set_meta(db, "suggestions", body.suggestions)
        return self.steered(who)

    def steered(self, who: Annotator) -> Json:
        self.changed.set()
        return {"ok": True, "progress": self.progress(who.at())}

    def set_name(self, body: bodies.AnnotatorBody) -> Response:
        name = body.name.strip()
        if not name or not name.isprintable():
            raise OptionError("a name needs at least one character, all of them printable")
        answered = JSONResponse({"ok": True, "annotator": Annotator(name, True)._asdict()})
        answered.set_cookie(
            self.gate.name_cookie, self.gate.sign(name), httponly=True, samesite="strict", max_age=10**8
        )
        return answered

    # --- what is shown -----------------------------------------------------------------------------------------------

    def item(self, db: sqlite3.Connection, item: int, desk: Desk | None = None) -> Json:
        """An item as the page takes it; in prefill mode with the model's suggestion, which is then noted."""
        found = item_of(db, item)._asdict()
        shown: Json = {"id": item, "name": found.pop("path"), **found, "suggestion": None}
        if (
            desk is not None
            and get_meta(db, "suggestions") == "prefill"
            and item % WITHOUT != self.run.settings.seed % WITHOUT
        ):
            suggestion = self.suggested(db, [item]).get(item)
            if suggestion is not None:
                mark_shown(db, desk, item, "prefill")
                shown["suggestion"] = {"class": suggestion.label, "prob": suggestion.prob}
        return shown

    def suggested(self, db: sqlite3.Connection, items: list[int]) -> dict[int, Suggested]:
        """What the model says of chosen items; of check images nothing, ever."""
        found: dict[int, Suggested] = {}
        predictions = last_predictions(db, self.run.folder)
        if predictions is None:
            return found
        final = final_class(db)
        for item in items:
            task = task_of(db, item)
            best = predictions.best(item) if task is not None and task.kind != "check" else None
            if best is not None:
                found[item] = Suggested(final[best[0]], best[1])
        return found

    def is_readable(self, item: int) -> bool:
        """Whether an item can be shown. Before all images have been read once, it is tried."""
        if not self.run.pictures.has_pictures or self.run.meta("prepared"):
            return True
        try:
            self.run.pictures.full(item)
        except UnreadableError as error:
            self.run.mark_unreadable(item, str(error))
            self.changed.set()
            return False
        return True

    def answers(self, db: sqlite3.Connection, rows: Sequence[Answer], doubt: bool = True) -> list[Json]:
        """Answers as the page takes them, with what the model says now; `doubt` looks at all labels, and takes its time."""
        final = final_class(db)
        predictions = last_predictions(db, self.run.folder)
        doubted = doubts_of(db, self.run.folder).scores if doubt else {}
        shown = []
        for row in rows:
            best = predictions.best(row.item) if predictions is not None and row.kind != "check" else None
            shown.append(
                {
                    "item": self.item(db, row.item),
                    "class": None if row.label is None else final[row.label],
                    **{name: getattr(row, name) for name in ("unsure", "annotator", "at", "seconds", "note")},
                    "model": None if best is None else {"class": final[best[0]], "prob": best[1]},
                    "doubt": doubted.get(row.item),
                }
            )
        return shown


def side_by_side(run: Run, items: list[int]) -> list[int]:
    """The items in an order in which each comes after the one it resembles most."""
    x = read_embeddings(run.folder / "cache", len(run.paths))
    if len(items) < 3 or x is None:
        return items
    rows = units(x[items])
    alike = rows @ rows.T
    order, left = [0], set(range(1, len(items)))
    while left:
        nearest = max(sorted(left), key=lambda i: alike[order[-1], i])
        order.append(nearest)
        left.remove(nearest)
    return [items[i] for i in order]


def worker_status(folder: Path) -> Json:
    """What the worker said last, complete."""
    empty = {"step": "stopped", "text": "", "done": 0, "total": 0, "seconds_left": None, "problem": None, "pid": 0}
    return {**empty, **{k: v for k, v in read_status(folder).items() if k in empty}}


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "me"
