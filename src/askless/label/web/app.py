"""The page's routes, each of which is a method of `askless.label.web.page.Page`; its files, and what its errors become."""

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException as StarletteError

from askless.base.errors import AsklessError
from askless.label.web.guard import Gate, Guard
from askless.label.web.jobs import Jobs
from askless.label.web.page import Json, Page, worker_status
from askless.label.web.sorting import Sorting
from askless.run import Run
from askless.run.pictures import NoPictureError
from askless.run.store.answering import ConflictError
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
        (400, "an invalid value"),
        (401, "no token"),
        (403, "another host, site or header"),
        (404, "not found"),
        (409, "another person or tab has it"),
        (413, "too large"),
        (415, "not JSON"),
        (422, "unexpected fields"),
        (503, "the disk or the database does not answer, or the run is missing; nothing was stored"),
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
    page = Page(run, gate, worker or (lambda: worker_status(run.folder)), restart)
    app = FastAPI(title="askless", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json", responses=ERRORS)
    app.state.page = page
    add_errors(app)
    add_pages(app, page)
    add_api(app, page)
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

    def told(kind: type[AsklessError], status: int, code: str) -> None:
        app.add_exception_handler(kind, lambda request, error: error_response(status, code, str(error)))

    told(NoPictureError, 404, "not_found")
    told(UnreadableError, 404, "not_found")
    told(AsklessError, 400, "bad_request")
    told(GoneError, 503, "gone")

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error_response(422, "bad_request", f"{where}: {first['msg']}")

    @app.exception_handler(StarletteError)
    def http(request: Request, error: StarletteError) -> JSONResponse:
        code = "not_found" if error.status_code == 404 else "bad_request"
        return error_response(error.status_code, code, str(error.detail))

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
            # Opened from a file, ours among them, a redirect would follow without the new cookie, which is strict.
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


# --- what the page asks for ------------------------------------------------------------------------------------------


def add_api(app: FastAPI, page: Page) -> None:
    sorting, jobs = Sorting(page), Jobs(page)
    app.state.jobs = jobs
    asked: dict[str, Callable[..., Any]] = {
        "/api/state": page.state,
        "/api/next": page.look_at_next,
        "/api/text/{item}": page.text,
        "/api/review": page.review,
        "/api/items": page.items,
        "/api/progress": page.account,
        "/api/map": page.map,
        "/api/sort": sorting.overview,
        "/api/jobs": jobs.state,
    }
    sent: dict[str, Callable[..., Any]] = {
        "/api/next": page.next,
        "/api/grid": page.grid,
        "/api/heartbeat": page.renew,
        "/api/release": page.release,
        "/api/peek": page.peek,
        "/api/answers": page.answer,
        "/api/label": page.label,
        "/api/decide": page.decide,
        "/api/skip": page.skip,
        "/api/undo": page.undo,
        "/api/redo": page.redo,
        "/api/classes": page.add_class,
        "/api/classes/{number}/rename": page.rename_class,
        "/api/classes/{number}/merge": page.merge_class,
        "/api/classes/{number}/look": page.choose_look,
        "/api/budget": page.set_budget,
        "/api/train": page.train_now,
        "/api/settings": page.set_suggestions,
        "/api/annotator": page.set_name,
        "/api/sort": sorting.accept,
        "/api/claims/accept": page.accept_claims,
        "/api/jobs/folders": jobs.sort_into_folders,
        "/api/jobs/export": jobs.export,
        "/api/jobs/report": jobs.report,
    }
    for verb, routes in (("GET", asked), ("POST", sent)):
        for path, method in routes.items():
            app.add_api_route(path, method, methods=[verb], response_model=Json)
