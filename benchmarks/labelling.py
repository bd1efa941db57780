"""Latency of the labelling page: clients that label at the same time, each image once, while a model trains beside them.

    python benchmarks/labelling.py                        # 8 clients, 5,000 images: a minute or two on two cores
    python benchmarks/labelling.py --clients 2 --items 500
    python benchmarks/labelling.py --pause 0              # all of it flat out

The server is `askless start` in a process of its own, and so is every client: a loop of `POST /api/next` and
`POST /api/answers` over one connection. The first third of the images is labelled flat out, which gives the answers per
second; each request then waits for those of all other clients, so that its time says how many clients there are rather
than how quick the page is. The rest comes with a pause of up to `--pause` seconds before each answer, by default a tenth:
some ten times the pace of people. The limits hold for these. All images are chosen beforehand, in one batch, so that
nobody waits for a round and only the page is measured.

A worker trains all the time. It is the project's own, started as the server starts it (same command, niceness and
threads), on a second run over the same images whose labels are known, with a training that has no end. That is what
people have beside them while they label: a worker that trains touches the labels' database before and after training
only, so that it matters as work for the processor and the disk, not by whose labels it trains on. The run that is
labelled has its own worker as well, which looks for new answers as always.

Seconds depend on the machine and its other work, so the floor is measured too, by the same clients beside the same
training, flat out: a request that is turned away at the door (no token), one that hands out a file, and, by itself, one
durable commit of SQLite on this disk. Fails if the median answer takes 20 ms or more, the 99th percentile 150 ms or more,
or an image was given to two clients.
"""

import argparse
import http.client
import json
import multiprocessing
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from askless.label.oracle import PageClient
from askless.run import Run
from askless.run.steps.round_files import read_status
from askless.run.store.labels import count_answers_by_annotator
from askless.run.store.replay import contradictions

MEDIAN, P99 = 0.020, 0.150  # seconds that an answer may take
ANSWERS, NEXT, FLAT_OUT = "POST /api/answers", "POST /api/next", ", flat out"
CLASSES = ("red", "green", "blue")
ASKLESS = [sys.executable, "-c", "from askless.cli import main; main()"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def make_images(path: Path, n: int, labelled: bool) -> Path:
    """n images of 16 x 16 pixels in which one colour prevails; with their classes where `labelled`."""
    rng = np.random.default_rng(0)
    y = rng.integers(len(CLASSES), size=n)
    x = rng.integers(0, 200, size=(n, 16, 16, 3), dtype=np.uint8)
    x[np.arange(n), :, :, y] += 50
    known = {"y": y, "classes": np.array(CLASSES)} if labelled else {}
    np.savez(path, X=x, **known)
    return path


# --- the server, and the training beside it ----------------------------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a run that is being served; its batch is chosen."""
    command = [*ASKLESS, "start", str(folder), "--no-browser", "--json", "--port", "0"]
    with subprocess.Popen(command, env=ONE_THREAD, text=True, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            url = next(event["url"] for event in map(json.loads, server.stdout) if event["event"] == "ready")
            wait_for(lambda: count(folder, "SELECT count(*) FROM task WHERE kind = 'train'") > 0)
            yield url
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate()


@contextmanager
def training_without_end(images: Path, folder: Path) -> Iterator[Callable[[], int]]:
    """A worker that trains; what is yielded says how many steps it has made."""
    options = {"net": "frozen:raw", "learner": "fixmatch", "strategy": "random", "check": 0.0, "steps": 10**7}
    Run.create(images, folder, budget=10, **options).close()
    command = [sys.executable, "-m", "askless.run.steps.worker", str(folder)]
    with subprocess.Popen(command, env=ONE_THREAD, stdin=subprocess.PIPE) as worker:
        try:
            wait_for(lambda: read_status(folder).get("step") == "training")
            yield lambda: int(read_status(folder)["done"])
        finally:
            worker.kill()


def wait_for(what: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise SystemExit("waited two minutes for a worker; see worker.out in its run")
        time.sleep(0.05)


def count(folder: Path, query: str) -> int:
    run = Run.open(folder)
    with run.store.look() as db:
        n = int(db.execute(query).fetchone()[0])
    run.close()
    return n


# --- clients -----------------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """What one client has seen: seconds of every kind of request, the items it was given, and when the part without
    pauses began and ended."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    items: list[int] = field(default_factory=list)
    flat_out: tuple[float, float] = (0.0, 0.0)


def drain(url: str, number: int, pause: float, start: Any, results: Any) -> None:
    """Labels until the budget is used."""
    client, told = PageClient(url, f"client-{number}"), Told()
    rng = np.random.default_rng(number)
    for name, ask in floor_requests(client, start):
        told.seconds[name] = [timed(ask) for _ in range(100)]
    start.wait()
    begun, how = time.time(), FLAT_OUT if pause else ""
    while True:
        at = time.perf_counter()
        found = client.next()
        told.seconds[NEXT + how].append(time.perf_counter() - at)
        spent, budget = found["progress"]["spent"], found["progress"]["budget"]
        if how or not pause:
            told.flat_out = (begun, time.time())
            how = FLAT_OUT if pause and spent < budget / 3 else ""
        if found["item"] is None:
            if spent >= budget:
                break
            time.sleep(0.02)  # the last ones are with the others
            continue
        told.items.append(found["item"]["id"])
        if not how:
            time.sleep(pause * rng.random())
        at = time.perf_counter()
        client.label(told.items[-1], int(rng.integers(len(CLASSES))))
        told.seconds[ANSWERS + how].append(time.perf_counter() - at)
    results.put(told)


def floor_requests(client: PageClient, start: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Requests that do next to nothing; all clients send the same kind at a time."""
    stranger = http.client.HTTPConnection(client.netloc)

    def refused() -> None:
        stranger.request("GET", "/favicon.ico")
        stranger.getresponse().read()

    start.wait()
    yield "GET without a token (401)", refused
    start.wait()
    yield "GET /favicon.ico", lambda: client.get("/favicon.ico")


def timed(what: Callable[[], object]) -> float:
    at = time.perf_counter()
    what()
    return time.perf_counter() - at


def commit_seconds(folder: Path) -> list[float]:
    """One small durable commit after the other, with nobody else at the file."""
    db = sqlite3.connect(folder / "floor.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    result = [timed(lambda: db.execute("INSERT INTO t (b) VALUES (?)", ("x" * 200,))) for _ in range(300)]
    db.close()
    return result


# --- the table -----------------------------------------------------------------------------------------------------------


def percentile(seconds: list[float], share: float) -> float:
    return float(np.quantile(seconds, share)) if seconds else float("nan")


def row(name: str, seconds: list[float], floor: float) -> str:
    cells = [statistics.median(seconds), percentile(seconds, 0.9), percentile(seconds, 0.99), max(seconds)]
    return f"{name:30}" + "".join(f"{1000 * s:9.2f}" for s in cells) + f"{cells[0] / floor:9.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--items", type=int, default=5000, help="images to label, plus a fifth")
    parser.add_argument("--pause", type=float, default=0.1, help="most seconds before an answer; 0: no pause")
    options = parser.parse_args()
    n = options.items + options.items // 5
    with tempfile.TemporaryDirectory(prefix="askless-labelling-") as name:
        folder = Path(name)
        images = make_images(folder / "images.npz", n, labelled=False)
        settings = {"net": "frozen:raw", "strategy": "random", "check": 0.2, "batch": options.items, "steps": 20}
        Run.create(images, folder / "run", classes=CLASSES, budget=options.items, **settings).close()
        known = make_images(folder / "known.npz", n, labelled=True)
        context = multiprocessing.get_context("spawn")
        start, results = context.Barrier(options.clients), context.Queue()
        with served(folder / "run") as url, training_without_end(known, folder / "known-run") as steps:
            commits = commit_seconds(folder)
            steps_before = steps()
            for i in range(options.clients):
                arguments = (url, i, options.pause, start, results)
                context.Process(target=drain, args=arguments, daemon=True).start()
            told: list[Told] = [results.get(timeout=900) for _ in range(options.clients)]
            trained = steps() - steps_before
        run = Run.open(folder / "run")
        with run.store.look() as db:
            same, n_answers = not any(contradictions(db)), sum(count_answers_by_annotator(db).values())
        run.close()
    seconds = {name: [s for one in told for s in one.seconds[name]] for name in sorted(told[0].seconds, reverse=True)}
    answers = seconds[ANSWERS]
    n_given = sum(len(s) for name, s in seconds.items() if name.startswith(ANSWERS))
    double = sum(times - 1 for times in Counter(item for one in told for item in one.items).values())
    span = max(one.flat_out[1] for one in told) - min(one.flat_out[0] for one in told)
    rate = len(seconds.get(ANSWERS + FLAT_OUT, answers)) / span
    floor = statistics.median(commits)
    print(f"{options.clients} clients, {n_answers} answers; {rate:.0f} a second{FLAT_OUT}")
    print(f"{'milliseconds':30}{'median':>9}{'p90':>9}{'p99':>9}{'max':>9}{'commits':>9}")
    for name, values in seconds.items():
        print(row(name, values, floor))
    print(row("one durable commit", commits, floor))
    print(f"training meanwhile: {trained} steps; given to two clients: {double}; table and log agree: {same}")
    problems = [
        text
        for text, wrong in (
            (f"expected a median answer below {1000 * MEDIAN:.0f} ms", statistics.median(answers) >= MEDIAN),
            (f"expected a 99th percentile below {1000 * P99:.0f} ms", percentile(answers, 0.99) >= P99),
            ("expected every image to be given to one client", double > 0),
            (f"expected {options.items} answers", n_answers != options.items or n_given != options.items),
            ("expected the training to go on meanwhile", trained <= 0),
            ("expected the answers of the table and of the log to be the same", not same),
        )
        if wrong
    ]
    for text in problems:
        print(f"FAILED: {text}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
