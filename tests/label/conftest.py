"""Runs with their pages, and browsers to look at them; all in this process."""

import asyncio
import json
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

import numpy as np
import pytest
from PIL import Image, ImageDraw

from askless.label.web.app import create_app
from askless.label.web.guard import Gate
from askless.run import Run
from askless.run.steps.worker import Status
from askless.run.store.store import now

PORT = 8347
COLOURS = {"red": (200, 40, 40), "green": (40, 190, 60), "blue": (50, 70, 210), "grey": (150, 150, 150)}
QUICK = {"classes": tuple(COLOURS), "net": "frozen:raw", "size": 32, "steps": 40, "learner": "supervised"}


def draw_shapes(folder: Path, per_class: int) -> dict[str, str]:
    """Pictures of 32 pixels whose shape's colour is their class; path -> class."""
    rng = np.random.default_rng(0)
    truth = {}
    for name, colour in COLOURS.items():
        for i in range(per_class):
            image = Image.fromarray(rng.integers(0, 90, (8, 8, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1))
            x, y = rng.integers(0, 12, 2).tolist()
            shape = ImageDraw.Draw(image)
            (shape.ellipse if i % 2 else shape.rectangle)((x, y, x + 19, y + 19), fill=colour)
            path = folder / f"{i % 3}" / f"{name}-{i:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
            truth[path.relative_to(folder).as_posix()] = name
    return truth


@dataclass(frozen=True)
class Shapes:
    folder: Path
    truth: dict[str, str]

    def start(self, run: Path, **options: Any) -> Run:
        return Run.create(self.folder, run, **{**QUICK, "budget": 24, "check": 0.25, "batch": 6, **options})


@pytest.fixture(scope="session")
def shapes(tmp_path_factory) -> Shapes:
    """Sixty easy pictures of four classes; nobody changes them."""
    folder = tmp_path_factory.mktemp("shapes")
    return Shapes(folder, draw_shapes(folder, 15))


@pytest.fixture
def draw_own(tmp_path):
    """`draw_own(per_class)`: pictures for a test that changes the files."""

    def draw(per_class: int = 8) -> Shapes:
        folder = tmp_path / "pictures"
        return Shapes(folder, draw_shapes(folder, per_class))

    return draw


class Reply(NamedTuple):
    """What came back; `error` is what the application raised, if it did."""

    status_code: int
    pairs: list[tuple[str, str]]
    content: bytes
    error: Exception | None

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.pairs)

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Http:
    """A browser's requests with its cookies, straight to the application."""

    def __init__(self, office: "Office") -> None:
        self.office, self.cookies = office, {}

    def get(self, path: str, params: dict[str, Any] | None = None) -> Reply:
        return self._ask("GET", f"{path}?{urlencode(params)}" if params else path, [], b"")

    def post(self, path: str, json: Any) -> Reply:
        headers = [("content-type", "application/json"), ("x-askless", "1"), ("origin", self.office.address)]
        return self._ask("POST", path, headers, dump_json(json))

    def _ask(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Reply:
        host = ("host", self.office.address.removeprefix("http://"))
        cookie = ("cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        reply = self.office.raw(method, target, [host, cookie, *headers], body)
        if reply.error is not None:
            raise reply.error
        for name, value in reply.pairs:
            if name == "set-cookie":
                key, _, rest = value.partition("=")
                self.cookies[key] = rest.partition(";")[0]
        return reply


def dump_json(value: Any) -> bytes:
    return json.dumps(value).encode()


class Browser:
    """One tab of one person's browser, which has opened the address that askless printed."""

    def __init__(self, office: "Office", name: str | None = None, tab: str | None = None) -> None:
        self.office, self.tab = office, tab or f"tab-{uuid.uuid4().hex[:8]}"
        self.http = Http(office)
        assert self.http.get("/", params={"token": office.gate.token}).status_code == 303
        if name is not None:
            self.post("/api/annotator", name=name)

    def get(self, path: str, **params: Any) -> Any:
        response = self.http.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    def send(self, path: str, body: dict[str, Any]) -> Any:
        return self.http.post(path, json=body)

    def post(self, path: str, **body: Any) -> Any:
        response = self.send(path, body)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, status: int, path: str, **body: Any) -> dict[str, Any]:
        """The error of a request that must not succeed."""
        response = self.send(path, body)
        assert response.status_code == status, (response.status_code, response.text)
        return response.json()["error"]

    # What people do.

    def next(self) -> Any:
        return self.post("/api/next", tab=self.tab)

    def answer(self, item: int, number: int, request: str | None = None, **more: Any) -> Any:
        return self.post("/api/answers", **self.answer_body(item, number, request), **more)

    def answer_body(self, item: int, number: int, request: str | None = None) -> dict[str, Any]:
        return {"request_id": request or self.request(), "tab": self.tab, "items": [item], "class": number}

    def label(self, number: int) -> int:
        item = self.next()["item"]["id"]
        self.answer(item, number)
        return item

    def undo(self) -> Any:
        return self.post("/api/undo", request_id=self.request(), tab=self.tab)

    def redo(self) -> Any:
        return self.post("/api/redo", request_id=self.request(), tab=self.tab)

    @staticmethod
    def request() -> str:
        return str(uuid.uuid4())


@dataclass
class Office:
    """A run, its page, and a worker that works when it is told to."""

    run: Run
    port: int = PORT
    truth: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gate = Gate(self.run.meta("token"), self.port)
        self.app = create_app(self.run, self.gate)
        self.address = f"http://127.0.0.1:{self.port}"

    def browser(self, name: str | None = None, tab: str | None = None) -> Browser:
        return Browser(self, name, tab)

    def work(self, reserve: bool = False) -> list[str]:
        """What the worker would do now; with `reserve` what it does beside a page."""
        status, steps = Status(self.run.folder), []
        while (step := self.run.advance(status, reserve=reserve)) is not None:
            steps.append(step)
        status.rest(self.run.is_finished())
        return steps

    def reopen(self) -> None:
        """As when the server was stopped and started again."""
        self.run.close()
        self.run = Run.open(self.run.folder)
        self.__post_init__()

    def ask(self, items: list[int], number: int = 1) -> None:
        """Puts items out as the chosen ones of a round."""
        with self.run.store.change() as db:
            db.execute("INSERT INTO round VALUES (?, 'random', ?, 0, 'asking')", (number, now()))
            db.executemany(
                "INSERT INTO task (item, kind, round, rank, picked_by, reason, state) "
                "VALUES (?, 'train', ?, ?, 'random', 'drawn at random', 'open')",
                [(item, number, rank) for rank, item in enumerate(items, 1)],
            )

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.run.store.look() as db:
            return [tuple(row) for row in db.execute(query, values)]

    def one(self, query: str, *values: Any) -> Any:
        return self.rows(query, *values)[0][0]

    def dump(self, but: tuple[str, ...] = ()) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in the database."""
        tables = ("meta", "item", "class", "event", "action", "task", "lease", "answer", "round", "fit")
        return {table: self.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables if table not in but}

    @property
    def cookie(self) -> str:
        return f"{self.gate.cookie}={self.gate.session}"

    def raw(
        self, method: str, target: str, headers: list[tuple[str, str]] | None = None, body: bytes = b"", **known: bool
    ) -> Reply:
        """A request to the letter. With `known=True` it has the right host and cookie, and those of a POST if it is one."""
        given = list(headers or [])
        if known.get("known"):
            names = {name.lower() for name, _ in given}
            usual = {"host": f"127.0.0.1:{self.port}", "cookie": self.cookie}
            if method == "POST":
                usual |= {"content-type": "application/json", "x-askless": "1"}
            given += [(name, value) for name, value in usual.items() if name not in names]
        path, _, query = target.partition("?")
        scope = {
            **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": method},
            **{"path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": ""},
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given],
            **{"client": ("127.0.0.1", 50000), "server": ("127.0.0.1", self.port)},
        }
        sent: list[dict[str, Any]] = []
        parts = [body[i : i + 65536] for i in range(0, len(body), 65536)] or [b""]

        async def receive() -> dict[str, Any]:
            if parts:
                part = parts.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(parts)}
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        problem = None
        try:
            asyncio.run(self.app(scope, receive, send))
        except Exception as error:
            problem = error
        start = next((m for m in sent if m["type"] == "http.response.start"), {"status": 0, "headers": []})
        content = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
        decoded = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start["headers"]]
        return Reply(start["status"], decoded, content, problem)


@pytest.fixture
def make_office(tmp_path):
    """`make_office(run, truth)`: the page of a run."""
    offices = []

    def make(run: Run, truth: dict[str, str] | None = None, port: int = PORT) -> Office:
        offices.append(Office(run, port, truth or {}))
        return offices[-1]

    yield make
    for office in offices:
        office.run.close()


@pytest.fixture
def make_hall(make_office, tmp_path):
    """`make_hall(n, ...)`: the page of a run on n rows of numbers, all of which are asked."""

    def make(n: int = 20, ask: bool = True, **options: Any) -> Office:
        source = tmp_path / f"rows-{uuid.uuid4().hex[:6]}.npz"
        np.savez(source, X=np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32))
        given = {"classes": ("cat", "dog"), "budget": n, "check": 0.0, **options}
        office = make_office(Run.create(source, source.with_suffix(""), **given))
        if ask:
            office.ask(list(range(n)))
        return office

    return make


@pytest.fixture(scope="session")
def prepared(shapes, tmp_path_factory) -> Path:
    """The folder of a run after its first round: six labels, one of them unsure, a model, and a second batch."""
    office = Office(shapes.start(tmp_path_factory.mktemp("prepared") / "run", suggestions="peek"))
    office.work()
    ann = office.browser("ann")
    names = list(COLOURS)
    for place in range(8):
        item = ann.next()["item"]
        if place == 2:
            ann.post("/api/answers", request_id=ann.request(), tab=ann.tab, items=[item["id"]], unsure="quality")
        else:
            ann.answer(item["id"], names.index(shapes.truth[item["name"]]), seconds=1.5)
    ann.post("/api/release", tab=ann.tab)
    assert office.work() == ["closing", "training", "choosing"]
    office.run.write_views()
    office.run.close()
    return office.run.folder


@pytest.fixture
def office(prepared, shapes, make_office, tmp_path) -> Office:
    """A copy of that run, with its page."""
    folder = shutil.copytree(prepared, tmp_path / "run")
    return make_office(Run.open(folder), shapes.truth)


@pytest.fixture
def ann(office) -> Browser:
    return office.browser("ann", "ann-tab")


@pytest.fixture(scope="module")
def castle(prepared, shapes, tmp_path_factory) -> Iterator[Office]:
    """The same for all tests of a module: everybody may attack it, and nobody must change it."""
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp("castle") / "run")
    office = Office(Run.open(folder), truth=shapes.truth)
    yield office
    office.run.close()


@pytest.fixture(scope="module")
def guest(castle) -> Browser:
    """Somebody who holds an item there."""
    browser = castle.browser("ann", "ann-tab")
    browser.next()
    return browser
