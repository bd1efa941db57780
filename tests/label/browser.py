"""For the tests of the page: a served run, a screen in headless Chromium, and what the run's database says."""

import getpass
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from PIL import Image, ImageDraw

if TYPE_CHECKING:  # without a browser the tests are skipped, not broken
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page

ROOT = Path(__file__).parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
DELAY = int(
    os.environ.get("ASKLESS_PAGE_DELAY", "0")
)  # ms by which every reply comes later, to find what does not wait
SCREENSHOTS = Path(os.environ.get("ASKLESS_SCREENSHOTS", ROOT / "build" / "screenshots"))
COLOURS = {"red": (205, 45, 45), "green": (40, 175, 70), "blue": (55, 80, 215), "grey": (160, 160, 160)}
ME = getpass.getuser()
QUICK = {"net": "frozen:raw", "size": 48, "steps": 30, "batch": 10, "budget": 40}


def draw_shapes(folder: Path, per_class: int = 30) -> Path:
    """Pictures of 48 pixels named by their class, which is the colour of the shape: `0/red-00.png`."""
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        for i in range(per_class):
            image = Image.fromarray(rng.integers(0, 90, (12, 12, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1))
            x, y = rng.integers(0, 18, 2).tolist()
            shape = ImageDraw.Draw(image)
            (shape.ellipse if i % 2 else shape.rectangle)((x, y, x + 29, y + 29), fill=colour)
            path = folder / str(i % 3) / f"{name}-{i:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
    return folder


class Served:
    """A run that `askless start` serves, in a process of its own."""

    def __init__(self, run: Path, what: Path | None = None, **options: Any) -> None:
        """A new run on a folder, with options of the command line; without one, a run that is there goes on."""
        self.run = run
        given = ["--out", str(run), *(f"--{name}={value}" for name, value in options.items())]
        self._begin(*((run, []) if what is None else (what, given)), port=0)
        self._before = self.rows("SELECT max(seq) FROM event")[0][0]

    def _begin(self, what: Path, options: list[str], port: int) -> None:
        program = [sys.executable, "-c", "from askless.cli import main; main()", "start", str(what), *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with (self.run.parent / f"{self.run.name}.err").open("ab") as errors:
            self.process = subprocess.Popen(
                [*program, "--no-browser", "--json", f"--port={port}"],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
            )
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            event = json.loads(line)
            if event["event"] == "ready":
                self.url: str = event["url"]
                break
        else:
            raise AssertionError(f"askless start ended: {said} {Path(errors.name).read_text()}")
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """So that the process can always write on."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            lines.read()

    @property
    def port(self) -> int:
        return int(urlsplit(self.url).port or 0)

    def kill(self) -> None:
        """As a power cut would end it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._listener.join(5)

    def again(self) -> None:
        """Started anew on the same port."""
        self._begin(self.run, [], self.port)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(15)
                self._listener.join(5)
            except subprocess.TimeoutExpired:
                self.kill()

    # --- what is stored ----------------------------------------------------------------------------------------------

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.run / "state.sqlite", timeout=20)) as db:
            return db.execute(query, values).fetchall()

    def labels(self) -> dict[int, int]:
        """item -> class of every answer that is a class."""
        return dict(self.rows("SELECT item, class FROM answer WHERE class IS NOT NULL"))

    def kinds(self) -> list[str]:
        """The kinds of the events that people have made since the start, in order."""
        query = "SELECT kind FROM event WHERE annotator <> 'worker' AND seq > ? ORDER BY seq"
        return [kind for (kind,) in self.rows(query, self._before)]

    def classes(self) -> list[str]:
        return [name for (name,) in self.rows("SELECT name FROM class ORDER BY id")]


STANDING = """() => {
    const of = (selector) => document.querySelector(selector)?.outerHTML.slice(0, 200);
    const { view, waiting } = document.body.dataset;
    const parts = ["*:focus", "#saved", "#image", "dialog[open]", "#trouble", "#budget-problem"].map(of);
    return { view, waiting, hidden: document.hidden, budget: document.querySelector("#budget-input").value, parts };
}"""


class Screen:
    """One tab. It keeps what a sound page never shows: errors, dialogs of the browser, requests to other hosts."""

    def __init__(self, context: "BrowserContext", served: Served) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.problems: list[str] = []
        host = f"127.0.0.1:{served.port}"
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda asked: self._request(asked.url, host))
        if DELAY:
            late = {"offline": False, "latency": DELAY, "downloadThroughput": -1, "uploadThroughput": -1}
            context.new_cdp_session(self.page).send("Network.emulateNetworkConditions", late)
        self.page.goto(served.url)
        self.page.locator("body[data-view], #name-dialog[open]").first.wait_for()  # it listens from here on

    def _console(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def _request(self, url: str, host: str) -> None:
        if urlsplit(url).netloc != host and not url.startswith(("data:", "blob:")):
            self.problems.append(f"request to {url}")

    def __call__(self, selector: str) -> "Locator":
        return self.page.locator(selector)

    def text(self, selector: str) -> str:
        return self(selector).first.inner_text().strip().replace("\u00a0", " ")

    def see(self, selector: str, timeout: float = 30_000) -> "Locator":
        """Waits until it is seen; where it is not, the failure says what the page looks like instead."""
        found = self(selector).first
        try:
            found.wait_for(state="visible", timeout=timeout)
        except Exception:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=SCREENSHOTS / "not-seen.png", full_page=True)
            print(f"the page: {self.page.evaluate(STANDING)}; its problems: {self.problems}")
            raise
        return found

    def gone(self, selector: str) -> None:
        self(selector).first.wait_for(state="hidden")

    # --- labelling ---------------------------------------------------------------------------------------------------

    def ready(self, but: int | None = None) -> int:
        """Waits until an image, another one than `but`, can be answered; its item."""
        other = "" if but is None else f':not([data-item="{but}"])'
        self(f'#image[data-ready="true"]{other}').wait_for(state="attached")
        return self.item()

    def item(self) -> int:
        return int(self("#image").get_attribute("data-item") or -1)

    def saved(self) -> None:
        self('#saved[data-state="saved"]').wait_for(state="attached")

    def key(self) -> str:
        """The key of the class that the image on screen belongs to; its name says which."""
        name = self.text("#name").split("/")[-1].split("-")[0]
        return str(list(COLOURS).index(name) + 1)

    def label(self, key: str = "", last: bool = False) -> tuple[int, int]:
        """Answers the image on screen by a key and, unless it is the `last`, waits for the next; (item, class)."""
        item = self.ready()
        key = key or self.key()
        self.page.keyboard.press(key)
        if not last:
            self.ready(but=item)
        return item, int(key) - 1

    def open(self, view: str) -> None:
        self(f'#tabs button[data-view="{view}"]').click()
        self(f'body[data-view="{view}"]').wait_for(state="attached")

    def shoot(self, name: str, full: bool = False) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.evaluate("document.querySelector('#toast').classList.remove('shown')")
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=full, animations="disabled")

    def forgive(self, text: str) -> None:
        """Problems that the test made itself."""
        self.problems = [problem for problem in self.problems if text not in problem]

    def scrolls_sideways(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))

    def said(self) -> str:
        return (self("#live").text_content() or "").strip()


def until(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Looks again and again until there is something; that."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.05)
    return found


def contexts(browser: "Browser") -> Iterator[Any]:
    """A maker of browser contexts, all of which are closed at the end."""
    made: list[BrowserContext] = []

    def make(**options: Any) -> "BrowserContext":
        made.append(browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}))
        return made[-1]

    yield make
    for context in made:
        context.close()
