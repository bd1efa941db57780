"""The page's routes: each checks, calls one function of `askless.run`, and answers."""

import contextlib
import errno
import getpass
import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException as StarletteError

from askless.base.errors import AsklessError, InputError, OptionError
from askless.label.web import bodies
from askless.label.web.guard import Gate, Guard, cookies_of
from askless.run import Run, RunError
from askless.run.nouns import noun
from askless.run.out.standing import doubts, standing
from askless.run.pictures import NoPictureError
from askless.run.steps.rounds import read_map, read_status
from askless.run.store import facts
from askless.run.store.answering import ConflictError, Given, Suggested, answer, mark_shown, skip, undo
from askless.run.store.asking import Desk, answered_but_open, holders, next_item, release, renew, take_batch
from askless.run.store.classes import add_class, all_classes, final_class, is_shown, merge_class, rename_class
from askless.run.store.labels import last_predictions
from askless.run.store.store import GoneError, RepeatedError, get_meta, record, set_meta
from askless.sources import UnreadableError

STATIC = Path(__file__).parent / "static"
ONWARD = (
    '<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content="0;url=/"><title>askless</title>'
    "<p><a href=/>Open the page</a>"
)
KINDS = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".ico": "image/x-icon",
    ".html": "text/html",
    ".png": "image/png",
}
PRELOAD = 3
LAST = 8
WITHOUT = 10  # in prefill mode one image in so many is shown without a suggestion
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text}
    for status, text in (
        (400, "a value that makes no sense here"),
        (401, "no token"),
        (403, "another host, site or header"),
        (404, "no such thing"),
        (409, "somebody else has it, or it is not this tab's"),
        (413, "too large"),
        (415, "not JSON"),
        (422, "not the fields that were expected"),
        (503, "the disk or the database does not answer, or the run is gone; nothing was stored"),
        (507, "the disk is full; nothing was stored"),
    )
}

# Answers that a person may see: where several label each image, those of others only after one's own.
OPEN_TO = "(t.state = 'done' OR EXISTS (SELECT 1 FROM answer b WHERE b.item = a.item AND b.annotator = ?))"
PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}, "image/jpeg": {}}}}


class Page:
    """A run as the page sees it: one per server."""

    def __init__(self, run: Run, gate: Gate, worker: Callable[[], dict[str, Any]], restart: Callable[[], None]) -> None:
        self.run, self.gate, self.worker, self.restart = run, gate, worker, restart
        self.changed = threading.Event()  # labels.csv is behind
        self.default_name = user_name()

    # --- who asks --------------------------------------------------------------------------------------------------------

    def annotator(self, request: Request) -> tuple[str, bool]:
        """The name in the signed cookie, or the computer's user; and whether it was given."""
        cookie = cookies_of(request.headers.get("cookie", "")).get(f"{self.gate.cookie}-name", "")
        name = self.gate.signed_name(cookie) if cookie else None
        return (self.default_name, False) if name is None else (name, True)

    def desk(self, request: Request, tab: str) -> Desk:
        return Desk(self.annotator(request)[0], tab)

    @contextlib.contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        with self.run.store.change() as db:
            yield db
        self.changed.set()

    # --- what is shown ---------------------------------------------------------------------------------------------------

    @property
    def overlap(self) -> int:
        return self.run.settings.annotators

    def item(self, db: sqlite3.Connection, item: int, desk: Desk | None = None) -> dict[str, Any]:
        """An item as the page takes it; in prefill mode with the model's suggestion, which is then noted."""
        shown = facts.item_facts(db, item)
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
            row = db.execute("SELECT kind FROM task WHERE item = ?", (item,)).fetchone()
            best = predictions.best(item) if row is not None and row["kind"] != "check" else None
            if best is not None:
                found[item] = Suggested(final[best[0]], best[1])
        return found

    def readable(self, item: int) -> bool:
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

    def next(self, desk: Desk, lease: bool) -> dict[str, Any]:
        """The item for a tab, those that come after it, or why there is none."""
        while True:
            with self.run.store.lend() if lease else self.run.store.look() as db:
                item = next_item(db, desk, self.overlap, lease)
                shown = None if item is None else self.item(db, item, desk if lease else None)
                progress = facts.progress(db, desk)
                following = upcoming(db, item)
                others, for_others = (holders(db, desk), answered_but_open(db, desk)) if item is None else ({}, 0)
            if item is None or not lease or self.readable(item):
                break
        code, why = ("ok", "") if item is not None else self.why_nothing(progress, others, for_others)
        if not any(not c["hidden"] for c in progress["classes"]):
            code = "no_classes"
        return {"item": shown, "next": following, "code": code, "why": why, "progress": progress}

    def why_nothing(self, progress: dict[str, Any], others: dict[str, int], others_to_answer: int) -> tuple[str, str]:
        if others:
            who = " and ".join(f"{n} with {name}" for name, n in sorted(others.items()))
            return "held", f"All {self.run.noun}s that are left are being labelled by others: {who}."
        if others_to_answer:
            wait = f"{others_to_answer} {self.run.noun}s wait for another person's answer"
            return "held", f"{wait}; open the page in another browser, under another name."
        worker = self.worker()
        if worker["step"] == "failed":
            return "failed", f"The training stopped: {worker['problem']}"
        if self.run.is_finished():  # what the worker said last may be older than the last answer
            used = progress["spent"] >= progress["budget"]
            return (
                "finished",
                "The budget is used: everything is labelled." if used else "There is nothing left to label.",
            )
        busy = worker["step"] not in ("waiting", "finished", "stopped")
        return "training", worker["text"] if busy and worker["text"] else "The next batch is being chosen."

    def answers(self, db: sqlite3.Connection, rows: list[sqlite3.Row], doubt: bool = True) -> list[dict[str, Any]]:
        """Answers as the page takes them, with what the model says now; `doubt` looks at all labels, and takes its time."""
        final = final_class(db)
        predictions = last_predictions(db, self.run.folder)
        doubted = doubts(db, predictions) if doubt else {}
        shown = []
        for row in rows:
            item = facts.item_facts(db, row["item"])
            best = predictions.best(row["item"]) if predictions is not None and item["kind"] != "check" else None
            others = db.execute(
                "SELECT annotator, class, unsure FROM answer WHERE item = ? AND annotator <> ?",
                (row["item"], row["annotator"]),
            )
            shown.append(
                {
                    "item": item,
                    "class": None if row["class"] is None else final[row["class"]],
                    **{name: row[name] for name in ("unsure", "annotator", "at", "seconds", "note")},
                    "model": None if best is None else {"class": final[best[0]], "prob": best[1]},
                    "doubt": doubted.get(row["item"]),
                    "others": [dict(other) for other in others] if self.overlap > 1 else [],
                }
            )
        return shown


def create_app(
    run: Run,
    gate: Gate,
    worker: Callable[[], dict[str, Any]] | None = None,
    restart: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The application of one run. `worker()` says what the background process does, `restart()` starts it again."""
    page = Page(run, gate, worker or (lambda: worker_status(run.folder)), restart)
    app = FastAPI(title="askless", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", responses=ERRORS)
    app.state.page = page
    add_errors(app)
    add_pages(app, page)
    add_texts(app, page)
    add_asking(app, page)
    add_answering(app, page)
    add_classes(app, page)
    add_looking(app, page)
    add_steering(app, page)
    app.add_middleware(Guard, gate=gate)
    return app


def worker_status(folder: Path) -> dict[str, Any]:
    """What the worker said last, complete."""
    empty = {"step": "stopped", "text": "", "done": 0, "total": 0, "seconds_left": None, "problem": None, "pid": 0}
    return {**empty, **{k: v for k, v in read_status(folder).items() if k in empty}}


# --- errors ----------------------------------------------------------------------------------------------------------


def error_response(status: int, code: str, message: str, **more: Any) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, **more}}, status_code=status)


def add_errors(app: FastAPI) -> None:
    """What goes wrong becomes an answer that says so; nothing is stored then."""

    @app.exception_handler(ConflictError)
    def conflict(request: Request, error: ConflictError) -> JSONResponse:
        return error_response(409, "conflict", str(error), item=error.item, theirs=error.theirs, yours=error.yours)

    @app.exception_handler(NoPictureError)
    @app.exception_handler(UnreadableError)
    def no_picture(request: Request, error: InputError) -> JSONResponse:
        return error_response(404, "not_found", str(error))

    @app.exception_handler(AsklessError)
    def refused(request: Request, error: AsklessError) -> JSONResponse:
        return error_response(400, "bad_request", str(error))

    @app.exception_handler(GoneError)
    def gone(request: Request, error: GoneError) -> JSONResponse:
        return error_response(503, "gone", str(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error_response(422, "bad_request", f"{where}: {first['msg']}")

    @app.exception_handler(StarletteError)
    def http(request: Request, error: StarletteError) -> JSONResponse:
        codes = {404: "not_found", 405: "bad_request"}
        return error_response(error.status_code, codes.get(error.status_code, "bad_request"), str(error.detail))

    @app.exception_handler(sqlite3.OperationalError)
    @app.exception_handler(OSError)
    def not_stored(request: Request, error: Exception) -> JSONResponse:
        if (
            "full" in str(error)
            or "disk I/O" in str(error)
            or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        ):
            return error_response(507, "disk_full", f"nothing was stored: {error}; make room on the disk and try again")
        return error_response(503, "unavailable", f"nothing was stored: {error}; try again")


# --- the page and its pictures ---------------------------------------------------------------------------------------


def add_pages(app: FastAPI, page: Page) -> None:
    @app.get("/", include_in_schema=False)
    def index(request: Request, token: str | None = None) -> Response:
        if token is not None:
            # Opened from a file, ours among them, a redirect would go on without the new cookie, for it is strict.
            from_elsewhere = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
            away = HTMLResponse(ONWARD) if from_elsewhere else RedirectResponse("/", status_code=303)
            away.set_cookie(page.gate.cookie, page.gate.session, httponly=True, samesite="strict", path="/")
            return away
        return FileResponse(STATIC / "index.html", media_type="text/html")

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        file = STATIC / name
        if name not in os.listdir(STATIC) or file.suffix not in KINDS:
            raise HTTPException(404, "no such file")
        return FileResponse(file, media_type=KINDS[file.suffix], headers={"cache-control": "no-cache"})

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> Response:
        return static("favicon.ico")

    @app.get("/image/{item}", response_class=Response, responses=PICTURE)
    def image(item: int, size: Literal["full", "thumb"] = "full") -> Response:
        picture = page.run.pictures.full(item) if size == "full" else page.run.pictures.thumb(item)
        headers = {"cache-control": "private, max-age=86400", "content-disposition": "inline"}
        return Response(picture.content, media_type=picture.content_type, headers=headers)


def add_texts(app: FastAPI, page: Page) -> None:
    @app.get("/api/text/{item}")
    def text(item: Annotated[int, PathParameter(ge=0, le=2**53)]) -> JSONResponse:
        """The whole text of an item; the page shows it as text and never as HTML."""
        found = page.run.texts([item]) if page.run.kind == "texts" else {}
        if item not in found:
            raise NoPictureError(f"item {item}: expected one with a text, got none")
        return JSONResponse({"id": item, "text": found[item]}, headers={"cache-control": "private, max-age=86400"})


# --- asking ----------------------------------------------------------------------------------------------------------


def add_asking(app: FastAPI, page: Page) -> None:
    store = page.run.store

    @app.get("/api/state")
    def state(request: Request, tab: Annotated[str, Query(max_length=100)] = "") -> dict[str, Any]:
        store.check_still_there()  # so that the page says it before somebody answers
        name, given = page.annotator(request)
        desk = Desk(name, tab)
        worker = page.worker()
        settings = page.run.settings
        with store.look() as db:
            numbers = {c.name: c.id for c in all_classes(db) if is_shown(c)}
            model = db.execute("SELECT round, labels FROM fit ORDER BY round DESC LIMIT 1").fetchone()
            rows = facts.answers(db, "WHERE a.annotator = ?", (name,), LAST)
            open_tasks = db.execute("SELECT count(*) FROM task WHERE state = 'open'").fetchone()[0]
            return {
                "run": {
                    "name": page.run.folder.resolve().name,
                    "folder": str(page.run.folder),
                    "finished": worker["step"] == "finished" and not open_tasks,
                    "suggestions": get_meta(db, "suggestions"),
                    "annotators": page.overlap,
                    "keys": {key: numbers[c] for key, c in settings.keys.items() if c in numbers},
                    "map": bool(get_meta(db, "compared")),
                    "check_share": settings.check,
                    "strategy": settings.strategy,
                    "pictures": page.run.pictures.has_pictures,
                    "noun": page.run.noun,
                },
                "annotator": {"name": name, "asked": given},
                "progress": facts.progress(db, desk),
                "last": page.answers(db, rows, doubt=False),
                "worker": worker,
                "model": None if model is None else dict(model),
                "version": db.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0],
            }

    @app.post("/api/next", response_model=dict[str, Any])
    def next_(request: Request, body: bodies.AtTab) -> Response:
        # As a response, here and where answers come in: FastAPI would check what we made ourselves in another thread first.
        return JSONResponse(page.next(page.desk(request, body.tab), lease=True))

    @app.get("/api/next")
    def look_at_next(request: Request, tab: Annotated[str, Query(max_length=100)] = "") -> dict[str, Any]:
        return page.next(page.desk(request, tab), lease=False)

    @app.post("/api/grid")
    def grid(request: Request, body: bodies.GridBody) -> dict[str, Any]:
        desk = page.desk(request, body.tab)
        while True:
            with store.lend() as db:
                items = take_batch(db, desk, page.overlap, body.n)
                shown = [{**page.item(db, i, desk), "answer": None} for i in side_by_side(page.run.folder, items)]
                progress = facts.progress(db, desk)
            if all([page.readable(i) for i in items]):
                return {"items": shown, "progress": progress}

    @app.post("/api/heartbeat")
    def heartbeat(request: Request, body: bodies.AtTab) -> dict[str, Any]:
        with store.lend() as db:
            until = renew(db, page.desk(request, body.tab))
        return {"ok": True, "expires": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(until))}

    @app.post("/api/release")
    def give_back(request: Request, body: bodies.AtTab) -> dict[str, Any]:
        with store.lend() as db:
            release(db, page.desk(request, body.tab))
        return {"ok": True}

    @app.post("/api/peek")
    def peek(request: Request, body: bodies.PeekBody) -> dict[str, Any]:
        desk = page.desk(request, body.tab)
        with page.change() as db:
            if get_meta(db, "suggestions") == "off":
                raise InputError("suggestions are off; switch them to peek first")
            task = db.execute("SELECT kind FROM task WHERE item = ?", (body.item,)).fetchone()
            if task is None or task["kind"] == "check":
                raise ConflictError(
                    f"the model is not asked about this {page.run.noun}: it measures the model", body.item
                )
            found = page.suggested(db, [body.item]).get(body.item)
            if found is None:
                return {"suggestion": None}
            mark_shown(db, desk, body.item, "peek")
            seen = {"class": found.label, "prob": found.prob}
            record(db, f"peek-{uuid.uuid4()}", "peek", desk.annotator, seen, body.item)
        return {"suggestion": seen}


def upcoming(db: sqlite3.Connection, item: int | None) -> list[int]:
    """A few items that are likely to come next, for the browser to load ahead."""
    rows = []
    for kind in ("train", "check"):
        rows += db.execute(
            "SELECT item FROM task t WHERE state = 'open' AND kind = ? AND item <> ? "
            "AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.item = t.item AND l.expires > ?) "
            "ORDER BY skips, round, rank LIMIT ?",
            (kind, -1 if item is None else item, time.time(), PRELOAD if kind == "train" else 1),
        ).fetchall()
    return [row["item"] for row in rows][: PRELOAD + 1]


def side_by_side(folder: Path, items: list[int]) -> list[int]:
    """The items in an order in which each comes after the one it resembles most."""
    try:
        x = np.load(folder / "cache" / "embeddings.npy", mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return items
    if len(items) < 3 or x.ndim != 2 or len(x) <= max(items):
        return items
    rows = np.asarray(x[items], np.float32)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    alike = rows @ rows.T
    order, left = [0], set(range(1, len(items)))
    while left:
        nearest = max(sorted(left), key=lambda i: alike[order[-1], i])
        order.append(nearest)
        left.remove(nearest)
    return [items[i] for i in order]


# --- answering -------------------------------------------------------------------------------------------------------


def add_answering(app: FastAPI, page: Page) -> None:
    store = page.run.store

    def current(desk: Desk) -> dict[str, Any]:
        with store.look() as db:
            return facts.progress(db, desk)

    @app.post("/api/answers", response_model=dict[str, Any])
    def answers(request: Request, body: bodies.AnswerBody) -> Response:
        desk = page.desk(request, body.tab)
        given = Given(body.class_, body.unsure, body.seconds, body.bulk, body.note)
        try:
            with page.change() as db:
                suggested = page.suggested(db, body.items)
                answer(
                    db,
                    desk,
                    body.request_id,
                    body.items,
                    given,
                    overlap=page.overlap,
                    change=body.change,
                    suggested=suggested,
                )
                progress = facts.progress(db, desk)
            return JSONResponse({"ok": True, "repeated": False, "progress": progress})
        except ConflictError as error:
            error.yours = {"class": body.class_, "unsure": body.unsure}
            raise
        except RepeatedError:
            return JSONResponse({"ok": True, "repeated": True, "progress": current(desk)})

    @app.post("/api/skip")
    def skip_(request: Request, body: bodies.ItemBody) -> dict[str, Any]:
        desk = page.desk(request, body.tab)
        try:
            with page.change() as db:
                skip(db, desk, body.request_id, body.item, overlap=page.overlap)
                return {"ok": True, "repeated": False, "progress": facts.progress(db, desk)}
        except RepeatedError:
            return {"ok": True, "repeated": True, "progress": current(desk)}

    def take_back(request: Request, body: bodies.RequestAtTab, again: bool) -> dict[str, Any]:
        desk = page.desk(request, body.tab)
        try:
            with page.change() as db:
                what = undo(db, desk, body.request_id, overlap=page.overlap, again=again)
        except RepeatedError as repeated:  # the same answer again, for those whom the first one did not reach
            what = json.loads(repeated.event["payload"])
        with store.lend() as db:
            item = next_item(db, desk, page.overlap)
            shown = None if item is None else page.item(db, item, desk)
            progress, text = facts.progress(db, desk), described(db, what)
        undone = None if what["kind"] is None else {"kind": what["kind"], "items": what["items"], "text": text}
        return {"ok": True, "undone": undone, "item": shown, "progress": progress}

    @app.post("/api/undo")
    def undo_(request: Request, body: bodies.RequestAtTab) -> dict[str, Any]:
        return take_back(request, body, again=False)

    @app.post("/api/redo")
    def redo(request: Request, body: bodies.RequestAtTab) -> dict[str, Any]:
        return take_back(request, body, again=True)


def described(db: sqlite3.Connection, what: dict[str, Any]) -> str:
    """What was undone, for people."""
    items = what["items"]
    if what["kind"] is None:
        return ""
    if "refused" in what:
        return f"not possible: {what['refused']}"
    if what["kind"].startswith("class_"):
        return {"class_add": "new class", "class_rename": "renamed class", "class_merge": "merged class"}[what["kind"]]
    name = facts.item_facts(db, items[0])["name"] if len(items) == 1 else f"{len(items)} {noun(get_meta(db, 'kind'))}s"
    return f"{what['kind']} on {name}"


# --- classes ---------------------------------------------------------------------------------------------------------


def add_classes(app: FastAPI, page: Page) -> None:
    def change_classes(request: Request, change: Callable[[sqlite3.Connection, str], int]) -> dict[str, Any]:
        name, _ = page.annotator(request)
        try:
            with page.change() as db:
                number = change(db, name)
                progress = facts.progress(db, Desk(name, ""))
        except RepeatedError as repeated:
            number = json.loads(repeated.event["payload"])["class"]
            with page.run.store.look() as db:
                progress = facts.progress(db, Desk(name, ""))
        return {"class": next(c for c in progress["classes"] if c["id"] == number), "progress": progress}

    @app.post("/api/classes")
    def new(request: Request, body: bodies.NameBody) -> dict[str, Any]:
        return change_classes(request, lambda db, name: add_class(db, body.request_id, name, body.name))

    @app.post("/api/classes/{number}/rename")
    def rename(request: Request, number: int, body: bodies.NameBody) -> dict[str, Any]:
        def change(db: sqlite3.Connection, name: str) -> int:
            rename_class(db, body.request_id, name, number, body.name)
            return number

        return change_classes(request, change)

    @app.post("/api/classes/{number}/merge")
    def merge(request: Request, number: int, body: bodies.MergeBody) -> dict[str, Any]:
        def change(db: sqlite3.Connection, name: str) -> int:
            merge_class(db, body.request_id, name, number, body.into)
            return number

        return change_classes(request, change)


# --- looking ---------------------------------------------------------------------------------------------------------


def add_looking(app: FastAPI, page: Page) -> None:
    store = page.run.store

    @app.get("/api/review")
    def review(
        request: Request,
        show: Literal["all", "doubtful", "unsure", "conflicts"] = "all",
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 60,
    ) -> dict[str, Any]:
        with store.look() as db:
            name, _ = page.annotator(request)
            if show in ("all", "unsure"):
                where = f"WHERE {OPEN_TO}" + ("" if show == "all" else " AND a.unsure IS NOT NULL")
                counting = f"SELECT count(*) FROM answer a JOIN task t ON t.item = a.item {where}"
                total = db.execute(counting, (name,)).fetchone()[0]
                rows = facts.answers(db, where, (name,), limit, offset)
            else:
                if show == "doubtful":
                    items = list(doubts(db, last_predictions(db, page.run.folder)))
                else:
                    items = [a.item for a in facts.agreed(db) if a.conflict]
                where = f"WHERE {OPEN_TO} AND a.item = ?"
                found = [row for item in items for row in facts.answers(db, where, (name, item))]
                total, rows = len(found), found[offset : offset + limit]
            return {"answers": page.answers(db, rows), "total": total}

    @app.get("/api/progress")
    def progress(request: Request) -> dict[str, Any]:
        found = standing(page.run)
        with store.look() as db:
            found["progress"] = facts.progress(db, page.desk(request, ""))
        return found

    @app.get("/api/map")
    def map_() -> dict[str, Any]:
        places = read_map(page.run.folder / "cache", len(page.run.paths))
        if places is None:
            return {"points": [], "labels": [], "rounds": [], "current": []}
        with store.look() as db:
            tasks = db.execute("SELECT item, round, state, kind FROM task").fetchall()
            done = {row["item"] for row in tasks if row["state"] == "done"}
            labels = {a.item: a.label for a in facts.agreed(db) if a.label is not None and a.item in done}
        rounds = {row["item"]: row["round"] or 0 for row in tasks}
        N = len(places)
        return {
            "points": [None if x != x else [round(x, 4), round(y, 4)] for x, y in places.tolist()],
            "labels": [labels.get(i, -1) for i in range(N)],
            "rounds": [rounds.get(i, 0) for i in range(N)],
            "current": [row["item"] for row in tasks if row["state"] == "open" and row["kind"] == "train"],
        }


# --- steering --------------------------------------------------------------------------------------------------------


def add_steering(app: FastAPI, page: Page) -> None:
    run = page.run

    def done(request: Request) -> dict[str, Any]:
        page.changed.set()
        with run.store.look() as db:
            return {"ok": True, "progress": facts.progress(db, page.desk(request, ""))}

    @app.post("/api/budget")
    def budget(request: Request, body: bodies.BudgetBody) -> dict[str, Any]:
        with contextlib.suppress(RepeatedError):
            run.set_budget(body.request_id, page.annotator(request)[0], body.budget)
        return done(request)

    @app.post("/api/train")
    def train(request: Request, body: bodies.Request) -> dict[str, Any]:
        with contextlib.suppress(RepeatedError):
            run.train_now(body.request_id, page.annotator(request)[0])
        page.restart()
        return done(request)

    @app.post("/api/settings")
    def settings(request: Request, body: bodies.SettingsBody) -> dict[str, Any]:
        with contextlib.suppress(RepeatedError), page.change() as db:
            record(db, body.request_id, "settings", page.annotator(request)[0], {"suggestions": body.suggestions})
            set_meta(db, "suggestions", body.suggestions)
        return done(request)

    @app.post("/api/annotator")
    def annotator(body: bodies.AnnotatorBody) -> JSONResponse:
        name = body.name.strip()
        if not name or not name.isprintable():
            raise OptionError("a name has printable characters, and at least one")
        answered = JSONResponse({"ok": True, "annotator": {"name": name, "asked": True}})
        cookie = f"{page.gate.cookie}-name"
        answered.set_cookie(cookie, page.gate.sign(name), httponly=True, samesite="strict", max_age=10**8)
        return answered


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "me"


__all__ = ["Gate", "RunError", "create_app"]
