"""Clients that label without end while the server under them is killed, and what must be true of the run each time.

Every client is one annotator at one tab. It does one thing at a time, so its own answers, and what it can undo, are known
exactly: `Labeller` keeps them as a model beside the real thing. What is sent is `pending` until the reply has come; after a
kill the same request goes out again, under the same request_id.
"""

import csv
import http.client
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import askless
from askless.label.oracle import PageClient
from askless.run import Run
from askless.run.steps.round_files import read_status

from ..log import replay, stored

CLASSES = ("red", "green", "blue")
SOURCE = Path(askless.__file__).parents[
    1
]  # the folder that askless is imported from here is where the server's comes from
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, (str(SOURCE), os.environ.get("PYTHONPATH")))),
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
SETTINGS = {"net": "frozen:raw", "learner": "supervised", "strategy": "margin", "steps": 20, "batch": 40, "check": 0.2}
PER_RUN = 20  # kills, at most
BUSY = ("embedding", "comparing", "training", "choosing", "choosing ahead", "reporting")
Value = tuple[int | None, str | None]  # class, unsure


def make_images(path: Path, n: int = 3000) -> Path:
    """n images of 16 x 16 pixels, as one file."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, size=(n, 16, 16, 3), dtype=np.uint8)
    x[np.arange(n), :, :, rng.integers(len(CLASSES), size=n)] += 50
    np.savez(path, X=x)
    return path


# --- the server ------------------------------------------------------------------------------------------------------


class Server:
    """`askless start` in a process of its own, which can be killed and started again at the same port."""

    def __init__(self, images: Path, folder: Path, port: int, budget: int) -> None:
        self.folder, self.port = folder, port
        options = {**SETTINGS, "budget": budget, "classes": ",".join(CLASSES), "out": folder}
        self.first = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self.images = images
        self.process: subprocess.Popen[str] | None = None
        self.reading = threading.Thread()

    def start(self) -> str:
        """The address, once the page can be opened."""
        what = [str(self.folder)] if self.folder.exists() else [str(self.images), *self.first]
        command = [sys.executable, "-c", "from askless.cli import main; main()", "start", *what]
        command += ["--no-browser", "--json", "--port", str(self.port)]
        with (self.folder.parent / "server.err").open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env=ENVIRONMENT, text=True, start_new_session=True
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "ready":
                self.reading = threading.Thread(
                    target=self.process.stdout.read, daemon=True
                )  # a full pipe would stop it
                self.reading.start()
                return str(event["url"])
        self.ended()
        raise AssertionError(f"the server ended: {(self.folder.parent / 'server.err').read_text()}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.ended()

    def stop(self) -> None:
        """As Ctrl+C does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        self.ended()

    def ended(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.wait(60)
        if self.reading.ident is not None:
            self.reading.join(60)
        self.process.stdout.close()
        self.process = None

    def workers(self) -> list[int]:
        """The background processes of this run."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:  # it has just ended
                continue
            if b"askless.run.steps.worker" in words and str(self.folder).encode() in words:
                found.append(int(path.parent.name))
        return found

    def worker_step(self) -> str:
        """What the worker of this server does; "" while it has not said anything."""
        assert self.process is not None
        status, pid = read_status(self.folder), self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return str(status["step"]) if str(status.get("pid")) in children else ""


# --- the clients -----------------------------------------------------------------------------------------------------


@dataclass
class Done:
    """Something a client did that it can undo: `before` and `after` by item; nothing in either for a skip."""

    items: list[int]
    before: dict[int, Value | None] = field(default_factory=dict)
    after: dict[int, Value] = field(default_factory=dict)


class Given:
    """Which client has which item, as the clients know it. An item that one client was given belongs to it until it has
    sent a skip or a release; one that it answered, for good."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner: dict[int, str] = {}

    def to(self, name: str, item: int) -> None:
        with self.lock:
            owner = self.owner.setdefault(item, name)
            assert owner == name, f"item {item} was given to {name} while {owner} had it"

    def back(self, name: str, items: set[int]) -> None:
        with self.lock:
            for item in items:
                if self.owner.get(item) == name:
                    del self.owner[item]


class Labeller(threading.Thread):
    """One annotator who labels, skips, takes back, labels in bulk, and never waits longer than the server is away."""

    def __init__(self, url: str, number: int, seed: int, up: threading.Event, given: Given, pause: float) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self.url, self.up, self.given, self.pause = url, up, given, pause
        self.rng = random.Random(f"{seed} {number}")
        self.ended = threading.Event()
        self.problem: BaseException | None = None
        self.client: PageClient | None = None
        self.waits = False  # nothing in its hands, about to send: with the server away it stays so
        self.pending: tuple[str, dict[str, Any]] | None = None
        self.sent: list[tuple[str, dict[str, Any]]] = []  # acknowledged requests, in order
        self.repeated = 0  # requests that had been stored although no reply came
        self.answers: dict[int, Value] = {}
        self.done: list[Done] = []
        self.undone: list[Done] = []
        self.held: set[int] = set()  # leased to this tab
        self.perhaps: set[int] = set()  # leased to this tab, or not: undone skips, a release without its reply

    def run(self) -> None:
        try:
            while not self.ended.is_set():
                self.step()
            self.finish()
        except BaseException as error:
            self.problem = error

    def step(self) -> None:
        chance = self.rng.random()
        if chance < 0.72:
            self.one()
        elif chance < 0.80:
            self.grid()
        elif chance < 0.88:
            self.take_back("/api/undo")
        elif chance < 0.92:
            self.take_back("/api/redo")
        elif chance < 0.94:
            self.leave()
        elif self.sent:
            self.again()
        time.sleep(self.rng.random() * self.pause)

    def finish(self) -> None:
        """Nothing is left unacknowledged."""
        if self.pending is not None:
            self.exchange(*self.pending)

    # --- requests ----------------------------------------------------------------------------------------------------

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply, whatever happens to the server meanwhile: the very same request is sent until there is one."""
        while True:
            self.waits = True
            if not self.up.wait(120):
                raise TimeoutError("no server for two minutes")
            self.waits = False
            try:
                if self.client is None:
                    self.client = PageClient(self.url, self.name, self.name, patience=0)
                reply: dict[str, Any] = self.client.post(path, body)
                return reply
            except (OSError, http.client.HTTPException):
                time.sleep(0.01)

    def exchange(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Sends something that is stored, and remembers that it was acknowledged."""
        self.pending = (path, body)
        reply = self.post(path, body)
        self.pending = None
        self.sent.append((path, body))
        self.repeated += bool(reply.get("repeated"))
        return reply

    def request(self, **body: Any) -> dict[str, Any]:
        return {"request_id": f"{self.name}-{len(self.sent)}-{self.rng.getrandbits(48):x}", "tab": self.name, **body}

    # --- what people do ----------------------------------------------------------------------------------------------

    def one(self) -> None:
        found = self.post("/api/next", {"tab": self.name})["item"]
        if found is None:
            time.sleep(0.02)
            return
        item = int(found["id"])
        known = self.held | self.perhaps
        assert not self.held or item in known, f"{self.name} has {known}, and was given {item} after all"
        self.take([item])
        if self.rng.random() < 0.08:
            self.given.back(self.name, {item})
            self.exchange("/api/skip", self.request(item=item))
            self.lose({item})
            self.did(Done([item]))
        else:
            self.answer([item], bulk=False)

    def grid(self) -> None:
        items = [int(i["id"]) for i in self.post("/api/grid", {"tab": self.name, "n": 5})["items"]]
        self.take(items)
        if items:
            self.answer(self.rng.sample(items, self.rng.randint(1, len(items))), bulk=True)

    def answer(self, items: list[int], bulk: bool) -> None:
        if self.rng.random() < 0.1:
            value: Value = (None, self.rng.choice(("ambiguous", "quality", "other")))
        else:
            value = (self.rng.randrange(len(CLASSES)), None)
        what = {"class": value[0]} if value[1] is None else {"unsure": value[1]}
        self.exchange("/api/answers", self.request(items=items, bulk=bulk, seconds=0.5, **what))
        self.did(Done(items, {i: self.answers.get(i) for i in items}, dict.fromkeys(items, value)))
        self.answers |= dict.fromkeys(items, value)
        self.lose(set(items))

    def take_back(self, path: str) -> None:
        again = path == "/api/redo"
        stack, other = (self.undone, self.done) if again else (self.done, self.undone)
        if again and stack and not stack[-1].after:
            self.given.back(self.name, set(stack[-1].items))  # it is skipped again
        reply = self.exchange(path, self.request())
        assert (reply["undone"] is None) == (not stack), f"{path} of {stack[-1:]}: {reply['undone']}"
        if stack:
            what = stack.pop()
            if reply["undone"]["items"]:
                assert reply["undone"]["items"] == what.items
                other.append(what)
            else:  # refused: what was taken back and then given back is with somebody else by now
                assert again
                assert not set(what.items) <= self.held, f"{self.name} has {self.held}, and cannot redo {what}"
            for item in reply["undone"]["items"]:
                if not what.after and again:
                    self.lose({item})
                elif not what.after:
                    self.perhaps.add(item)
                elif again:
                    self.answers[item] = what.after[item]
                    self.lose({item})
                elif (before := what.before[item]) is None:
                    del self.answers[item]
                    self.take([item])
                else:
                    self.answers[item] = before
        if reply["item"] is not None:
            self.take([int(reply["item"]["id"])])

    def leave(self) -> None:
        self.given.back(self.name, self.held)
        self.perhaps, self.held = self.perhaps | self.held, set()
        self.post("/api/release", {"tab": self.name})
        self.perhaps = set()

    def again(self) -> None:
        """Sends something once more that was acknowledged long ago: nothing happens."""
        path, body = self.rng.choice(self.sent)
        reply = self.post(path, body)
        if path in ("/api/answers", "/api/skip"):
            assert reply["repeated"], f"{path} {body} was stored twice"
        elif reply["item"] is not None:
            self.take([int(reply["item"]["id"])])

    # --- the model ---------------------------------------------------------------------------------------------------

    def did(self, what: Done) -> None:
        self.done.append(what)
        self.undone.clear()

    def take(self, items: list[int]) -> None:
        for item in items:
            assert item not in self.answers, f"{self.name} was given {item}, which it has answered"
            self.given.to(self.name, item)
        self.held |= set(items)
        self.perhaps -= set(items)

    def lose(self, items: set[int]) -> None:
        self.held -= items
        self.perhaps -= items


# --- what must be true -----------------------------------------------------------------------------------------------


def check_database(folder: Path, clients: list[Labeller], scratch: Path) -> Counter[str]:
    """The database as a kill left it, looked at in a copy, so that the server itself has to put it in order."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for name in ("state.sqlite", "state.sqlite-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, scratch / name)
    db = sqlite3.connect(scratch / "state.sqlite")
    db.row_factory = sqlite3.Row
    try:
        assert db.execute("PRAGMA integrity_check").fetchall()[0][0] == "ok"
        assert not db.execute("PRAGMA foreign_key_check").fetchall()
        check_log(db, clients)
        assert replay(db) == stored(db)
        twice = db.execute("SELECT item FROM answer GROUP BY item HAVING count(*) > 1").fetchall()
        assert not twice, f"answered by two people: {[r[0] for r in twice]}"
        wrong = db.execute(
            "SELECT t.item FROM task t WHERE (t.state = 'done') <> EXISTS (SELECT 1 FROM answer a WHERE a.item = t.item)"
        ).fetchall()
        assert not wrong, f"tasks whose state is not that of their answers: {[r[0] for r in wrong]}"
        check_counts(db)
        at_once = db.execute(
            "SELECT item FROM lease WHERE expires > ? GROUP BY item HAVING count(*) > 1", (time.time(),)
        ).fetchall()
        assert not at_once, f"leased to two tabs: {[r[0] for r in at_once]}"
        leased = {(r["item"], r["tab"]) for r in db.execute("SELECT item, tab FROM lease")}
        for client in clients:
            if client.pending is None:
                assert {(item, client.name) for item in client.held} <= leased, f"{client.name} has lost a lease"
        counts = db.execute("SELECT count(*), coalesce(max(round), 0) FROM fit").fetchone()
        return Counter(events=last_event(db), fits=counts[0], round=counts[1], answers=len(stored(db)))
    finally:
        db.close()


def check_log(db: sqlite3.Connection, clients: list[Labeller]) -> None:
    """Every acknowledged request is an event, once; beside them there may be the last one of each client."""
    log: dict[str, list[sqlite3.Row]] = {}
    for row in db.execute("SELECT * FROM event"):
        log.setdefault(row["request_id"], []).append(row)
    names = {client.name for client in clients}
    known = set()
    for client in clients:
        for _, body in client.sent:
            events = log.get(body["request_id"], [])
            assert len(events) == 1, f"{body} was acknowledged and is {len(events)} times in the log"
            assert events[0]["annotator"] == client.name
            payload = json.loads(events[0]["payload"])
            if "items" in body:
                assert payload["items"] == body["items"]
                assert all(a["class"] == body.get("class") for a in payload["after"])
            known.add(body["request_id"])
        if client.pending is not None and "request_id" in client.pending[1]:
            known.add(client.pending[1]["request_id"])
    more = {name for name, events in log.items() if events[0]["annotator"] in names} - known
    assert not more, f"events that nobody sent: {sorted(more)[:5]}"


def check_counts(db: sqlite3.Connection) -> None:
    """What is counted as it changes is what counting gives."""
    kept = "SELECT kind, round, state, n FROM tally WHERE n <> 0"
    real = "SELECT kind, coalesce(round, 0), state, count(*) FROM task GROUP BY 1, 2, 3"
    assert {tuple(row) for row in db.execute(kept)} == {tuple(row) for row in db.execute(real)}
    kept = "SELECT id, labels FROM class WHERE labels <> 0"
    real = "SELECT class, count(*) FROM answer WHERE class IS NOT NULL GROUP BY 1"
    assert {tuple(row) for row in db.execute(kept)} == {tuple(row) for row in db.execute(real)}


def check_views(folder: Path) -> None:
    """labels.csv is what the tables say."""
    db = sqlite3.connect(f"file:{folder / 'state.sqlite'}?mode=ro", uri=True)
    rows = db.execute(
        "SELECT i.path, c.name, a.annotator, a.at, a.unsure FROM answer a JOIN item i ON i.id = a.item "
        "LEFT JOIN class c ON c.id = a.class"
    ).fetchall()
    db.close()
    tables = {(path, label or "", annotator, at, unsure or "") for path, label, annotator, at, unsure in rows}
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
        view = [(r["path"], r["label"], r["annotator"], r["labelled_at"], r["note"]) for r in csv.DictReader(file)]
    assert len(view) == len(rows)
    assert set(view) == tables


def last_event(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])


# --- killing ---------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came of it."""

    kills: int = 0
    during: Counter[str] = field(default_factory=Counter)  # what the worker was at
    unsure: int = 0  # requests whose reply a kill took away
    repeated: int = 0  # of these, stored all the same
    acknowledged: int = 0
    fits: int = 0
    runs: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        """Whatever is lost or doubled has raised before."""
        at = ", ".join(f"{n} while {step}" for step, n in self.during.most_common())
        return (
            f"kills {self.kills:,}: 0 of {self.acknowledged:,} acknowledged answers lost or doubled ({at}; "
            f"{self.unsure} replies cut off, {self.runs} runs, {self.fits} models, {self.seconds:.0f} s)"
        )


def kill_again_and_again(
    folder: Path,
    kills: int,
    seed: int = 0,
    busy: float = 0.5,
    clients: int = 8,
    budget: int = 2500,
    pause: float = 0.05,
) -> Tally:
    """Labels one run after the other while their servers are killed so many times; every check after every kill.

    The first run waits with its first batch already, every second one after it starts from nothing. `busy`: the share of
    kills for which the worker has to be at something.
    """
    tally, begun = Tally(), time.monotonic()
    rng = random.Random(seed)
    images = make_images(folder / "images.npz")
    while tally.kills < kills:
        server = Server(images, folder / f"run-{tally.runs}", free_port(rng), budget)
        if tally.runs % 2 == 0:
            prepare(server, budget)
        one_run(server, min(kills, tally.kills + PER_RUN), rng, tally, busy, clients, pause)
        shutil.rmtree(server.folder)
        tally.runs += 1
    tally.seconds = time.monotonic() - begun
    return tally


def prepare(server: Server, budget: int) -> None:
    """The run with its first batch chosen, made by this process."""
    with Run.create(server.images, server.folder, budget=budget, classes=CLASSES, **SETTINGS) as run:
        while run.advance():
            pass


def one_run(
    server: Server, kills: int, rng: random.Random, tally: Tally, busy: float, clients: int, pause: float
) -> None:
    """Kills the server of one run until there have been so many kills in all, or the run is finished."""
    folder = server.folder
    up, given = threading.Event(), Given()
    people: list[Labeller] = []
    before = Counter[str]()
    try:
        url = server.start()
        people = [Labeller(url, i, rng.getrandbits(32), up, given, pause) for i in range(clients)]
        for person in people:
            person.start()
        while tally.kills < kills:
            up.set()
            wanted: tuple[str, ...] = ()
            if int((tally.kills + 1) * busy) > int(tally.kills * busy):  # spread evenly
                wanted = BUSY if tally.kills % 2 else ("training", "choosing", "choosing ahead")
            step = wait_for_moment(server, rng, people, wanted)
            if step == "finished":
                break
            server.kill()
            up.clear()
            tally.kills += 1
            tally.during[step if step in BUSY else "answering"] += 1
            gone(server)
            quiet(people)
            tally.unsure += sum(person.pending is not None for person in people)
            now = check_database(folder, people, folder.parent / "copy")
            assert now["events"] >= before["events"]
            assert now["fits"] >= before["fits"]
            before = now
            assert server.start() == url, "the page has moved"
            check_views(folder)
        up.set()
        more_rounds(server, before, people)
        for person in people:
            person.ended.set()
        for person in people:
            person.join(60)
        problems(people)
        server.stop()
        gone(server)
        check_end(folder, people)
        tally.fits += check_database(folder, people, folder.parent / "copy")["fits"]
        tally.acknowledged += sum(len(person.sent) for person in people)
        tally.repeated += sum(person.repeated for person in people)
    finally:
        for person in people:
            person.ended.set()
        up.set()
        if server.process is not None:
            server.kill()
        for person in people:
            if person.client is not None:
                person.client.close()


def check_end(folder: Path, people: list[Labeller]) -> None:
    """The tables are, to the answer, what the clients know to have been acknowledged."""
    db = sqlite3.connect(folder / "state.sqlite")
    db.row_factory = sqlite3.Row
    expected = {(item, person.name): value for person in people for item, value in person.answers.items()}
    assert stored(db) == expected
    assert replay(db) == expected
    db.close()
    check_views(folder)


def wait_for_moment(server: Server, rng: random.Random, people: list[Labeller], wanted: tuple[str, ...]) -> str:
    """Lets everybody work until it is time for a kill: any time, or when the worker is at one of the `wanted` steps. What
    it is at then; "finished" where the run is."""
    end = time.monotonic() + (120.0 if wanted else rng.expovariate(1 / 0.6))
    while True:
        problems(people)
        step = server.worker_step()
        assert step != "failed", read_status(server.folder)["problem"]
        if step == "finished" or time.monotonic() >= end:
            return step
        if step in wanted:
            time.sleep(rng.random() * 0.1)
            step = server.worker_step()
            if step in wanted:
                return step
        time.sleep(0.002)


def more_rounds(server: Server, before: Counter[str], people: list[Labeller], seconds: float = 120.0) -> None:
    """After the last kill, the run goes on to a further training, or to its end."""
    end = time.monotonic() + seconds
    while server.worker_step() != "finished":
        problems(people)
        db = sqlite3.connect(f"file:{server.folder / 'state.sqlite'}?mode=ro", uri=True)
        further = db.execute("SELECT count(*), coalesce(max(round), 0) FROM fit").fetchone()
        db.close()
        if further[1] > before["round"]:
            return
        assert time.monotonic() < end, f"no further round in {seconds} s: {read_status(server.folder)}"
        time.sleep(0.05)


def gone(server: Server, seconds: float = 20.0) -> None:
    """The worker ends when its server has."""
    end = time.monotonic() + seconds
    while server.workers():
        assert time.monotonic() < end, f"worker {server.workers()} goes on without its server"
        time.sleep(0.005)


def quiet(people: list[Labeller], seconds: float = 60.0) -> None:
    """Waits, with the server away, until every client has put its last reply down and wants to send something else."""
    end = time.monotonic() + seconds
    while not all(person.waits for person in people):
        problems(people)
        assert time.monotonic() < end, f"{[p.name for p in people if not p.waits]} do not come to rest"
        time.sleep(0.002)


def problems(people: list[Labeller]) -> None:
    for person in people:
        if person.problem is not None:
            raise person.problem


def free_port(rng: random.Random) -> int:
    """Below those that the system gives to clients: one that calls a port nobody listens at may get it for itself."""
    import socket

    while True:
        port = rng.randint(20_000, 30_000)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
