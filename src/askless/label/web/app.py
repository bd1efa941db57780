"""The page's routes: each checks what comes, calls one method of `askless.label.web.page.Page`, and answers."""

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException as StarletteError

from askless.base.errors import AsklessError, InputError, OptionError
from askless.label.web import bodies
from askless.label.web.guard import Gate, Guard, cookies_of
from askless.label.web.page import Json, Page, worker_status
from askless.run import Run, RunError
from askless.run.pictures import NoPictureError
from askless.run.store.answering import ConflictError, Given
from askless.run.store.asking import Desk
from askless.run.store.store import GoneError
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

PICTURE: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}, "image/jpeg": {}}}}


def create_app(
    run: Run,
    gate: Gate,
    worker: Callable[[], Json] | None = None,
    restart: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The application of one run. `worker()` says what the background process does, `restart()` starts it again."""
    page = Page(run, worker or (lambda: worker_status(run.folder)), restart)
    app = FastAPI(title="askless", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", responses=ERRORS)
    app.state.page = page
    add_errors(app)
    add_pages(app, page, gate)
    add_api(app, page, gate)
    app.add_middleware(Guard, gate=gate)
    return app


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


def add_pages(app: FastAPI, page: Page, gate: Gate) -> None:
    @app.get("/", include_in_schema=False)
    def index(request: Request, token: str | None = None) -> Response:
        if token is not None:
            # Opened from a file, ours among them, a redirect would go on without the new cookie, for it is strict.
            from_elsewhere = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
            away = HTMLResponse(ONWARD) if from_elsewhere else RedirectResponse("/", status_code=303)
            away.set_cookie(gate.cookie, gate.session, httponly=True, samesite="strict", path="/")
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


# --- what the page asks for ------------------------------------------------------------------------------------------


def add_api(app: FastAPI, page: Page, gate: Gate) -> None:
    def who(request: Request) -> tuple[str, bool]:
        """The name in the signed cookie, or the computer's user; and whether it was given."""
        cookie = cookies_of(request.headers.get("cookie", "")).get(f"{gate.cookie}-name", "")
        name = gate.signed_name(cookie) if cookie else None
        return (page.default_name, False) if name is None else (name, True)

    def desk(request: Request, tab: str = "") -> Desk:
        return Desk(who(request)[0], tab)

    # asking

    @app.get("/api/state")
    def state(request: Request, tab: Annotated[str, Query(max_length=100)] = "") -> Json:
        return page.state(desk(request, tab), who(request)[1])

    @app.post("/api/next", response_model=Json)
    def next_(request: Request, body: bodies.AtTab) -> Response:
        # As a response, here and where answers come in: FastAPI would check what we made ourselves in another thread first.
        return JSONResponse(page.next(desk(request, body.tab), lease=True))

    @app.get("/api/next")
    def look_at_next(request: Request, tab: Annotated[str, Query(max_length=100)] = "") -> Json:
        return page.next(desk(request, tab), lease=False)

    @app.get("/api/text/{item}")
    def text(item: Annotated[int, PathParameter(ge=0, le=2**53)]) -> JSONResponse:
        """The whole text of an item; the page shows it as text and never as HTML."""
        return JSONResponse(page.text(item), headers={"cache-control": "private, max-age=86400"})

    @app.post("/api/grid")
    def grid(request: Request, body: bodies.GridBody) -> Json:
        return page.grid(desk(request, body.tab), body.n)

    @app.post("/api/heartbeat")
    def heartbeat(request: Request, body: bodies.AtTab) -> Json:
        return page.renew(desk(request, body.tab))

    @app.post("/api/release")
    def give_back(request: Request, body: bodies.AtTab) -> Json:
        return page.release(desk(request, body.tab))

    @app.post("/api/peek")
    def peek(request: Request, body: bodies.PeekBody) -> Json:
        return page.peek(desk(request, body.tab), body.item)

    # answering

    @app.post("/api/answers", response_model=Json)
    def answers(request: Request, body: bodies.AnswerBody) -> Response:
        given = Given(body.class_, body.unsure, body.seconds, body.bulk, body.note)
        return JSONResponse(page.answer(desk(request, body.tab), body.request_id, body.items, given, body.change))

    @app.post("/api/skip")
    def skip_(request: Request, body: bodies.ItemBody) -> Json:
        return page.skip(desk(request, body.tab), body.request_id, body.item)

    @app.post("/api/undo")
    def undo_(request: Request, body: bodies.RequestAtTab) -> Json:
        return page.undo(desk(request, body.tab), body.request_id, again=False)

    @app.post("/api/redo")
    def redo(request: Request, body: bodies.RequestAtTab) -> Json:
        return page.undo(desk(request, body.tab), body.request_id, again=True)

    # classes

    @app.post("/api/classes")
    def new(request: Request, body: bodies.NameBody) -> Json:
        return page.add_class(who(request)[0], body.request_id, body.name)

    @app.post("/api/classes/{number}/rename")
    def rename(request: Request, number: int, body: bodies.NameBody) -> Json:
        return page.rename_class(who(request)[0], body.request_id, number, body.name)

    @app.post("/api/classes/{number}/merge")
    def merge(request: Request, number: int, body: bodies.MergeBody) -> Json:
        return page.merge_class(who(request)[0], body.request_id, number, body.into)

    # looking

    @app.get("/api/review")
    def review(
        request: Request,
        show: Literal["all", "doubtful", "unsure", "conflicts"] = "all",
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 60,
    ) -> Json:
        return page.review(who(request)[0], show, offset, limit)

    @app.get("/api/progress")
    def progress(request: Request) -> Json:
        return page.account(desk(request))

    @app.get("/api/map")
    def map_() -> Json:
        return page.map()

    # steering

    @app.post("/api/budget")
    def budget(request: Request, body: bodies.BudgetBody) -> Json:
        return page.set_budget(desk(request), body.request_id, body.budget)

    @app.post("/api/train")
    def train(request: Request, body: bodies.Request) -> Json:
        return page.train_now(desk(request), body.request_id)

    @app.post("/api/settings")
    def settings(request: Request, body: bodies.SettingsBody) -> Json:
        return page.set_suggestions(desk(request), body.request_id, body.suggestions)

    @app.post("/api/annotator")
    def annotator(body: bodies.AnnotatorBody) -> JSONResponse:
        name = body.name.strip()
        if not name or not name.isprintable():
            raise OptionError("a name has printable characters, and at least one")
        answered = JSONResponse({"ok": True, "annotator": {"name": name, "asked": True}})
        cookie = f"{gate.cookie}-name"
        answered.set_cookie(cookie, gate.sign(name), httponly=True, samesite="strict", max_age=10**8)
        return answered


__all__ = ["Gate", "RunError", "create_app"]
