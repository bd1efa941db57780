"""Serving a run: one server and one worker per run, on this computer, until somebody presses Ctrl+C."""

import contextlib
import errno
import html
import json
import math
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askless.base.errors import AsklessError, BusyError, OptionError
from askless.base.files import write_whole
from askless.base.locks import held, is_held
from askless.label.web.app import create_app
from askless.label.web.guard import LOCAL, Gate
from askless.label.web.page import worker_status
from askless.run import Run
from askless.run.steps.worker import put_back
from askless.run.store.store import GoneError, get_meta, set_meta

PORT = 8347
TRIES = 50
LOCK = "server.lock"
OPENED = "open.html"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Address:
    """Where the page is."""

    host: str
    port: int
    token: str

    @property
    def url(self) -> str:
        """For this computer."""
        return self._at({"0.0.0.0": "127.0.0.1", "localhost": "127.0.0.1", "::": "::1"}.get(self.host, self.host))

    @property
    def url_for_others(self) -> str:
        return self._at(socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host)

    def _at(self, host: str) -> str:
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"


# --- one server per run ------------------------------------------------------------------------------------------------


def served_at(folder: Path) -> str | None:
    """The address at which a run is being served now; None where nobody holds its lock."""
    return last_server(folder).get("url") if is_held(folder / LOCK) else None


def last_server(folder: Path) -> dict[str, Any]:
    """What the last server wrote down of itself: url, port and pid."""
    try:
        found = json.loads((folder / "server.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def last_port(folder: Path) -> int:
    """The port of the last server, or the usual one."""
    port = last_server(folder).get("port")
    return port if isinstance(port, int) and port > 0 else PORT


def own_token(run: Run) -> str:
    """The run's token, kept with the path and the inode of the database for which it was made: a copy of a run gets its
    own, and so does a run that was moved."""
    path = run.store.path.resolve()
    here = [str(path), path.stat().st_ino]
    with run.store.change() as db:
        if get_meta(db, "token_of") != here:
            set_meta(db, "token", secrets.token_urlsafe(32))
            set_meta(db, "token_of", here)
        return str(get_meta(db, "token"))


def redirect_file(folder: Path, url: str) -> Path:
    """A private file that leads a browser to `url`. It is opened in place of the address, for every user of the computer
    can read a browser's command line."""
    path, at = folder / OPENED, html.escape(url)
    path.unlink(missing_ok=True)
    with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(
            f'<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content="0;url={at}">'
            f'<title>askless</title><p><a href="{at}">Open the labelling page</a>\n'
        )
    return path.resolve()


def free_socket(host: str, port: int) -> socket.socket:
    """A listening socket at the port, or at the next free one."""
    if not 0 <= port < 65536:
        raise OptionError(f"port: expected a number from 0 to 65535, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: OSError | None = None
    for at in [port + i for i in range(TRIES) if port + i < 65536] if port else [0]:
        # Named as TCP, so that asyncio sends each answer at once: else its second half waits 40 ms for an acknowledgement.
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, at))
            sock.listen(128)
            return sock
        except (OSError, UnicodeError, TypeError) as error:  # a name that cannot be written as one of a host
            sock.close()
            if isinstance(error, UnicodeError | TypeError | socket.gaierror) or error.errno in (
                errno.EADDRNOTAVAIL,
                10049,
            ):
                raise OptionError(f"host: expected a name or address of this computer, got {host!r}: {error}") from None
            problem = error
            if error.errno not in (98, 48, 13, 10013, 10048):  # in use, or not allowed
                break
    raise BusyError(f"no free port on {host} from {port} upwards ({problem}); pass --port or --host")


# --- the worker ----------------------------------------------------------------------------------------------------------


FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds until a killed worker starts again; doubled from one kill to the next
SOUND = 300.0  # a worker that lived for this many seconds counts as sound: the next wait is the first again


class Worker:
    """The background process, and what it says of itself. Killed, it starts again by itself."""

    def __init__(
        self, folder: Path, command: list[str] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder, self.clock = folder, clock
        self.command = command or [sys.executable, "-m", "askless.run.steps.worker", str(folder)]
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._begun, self._wait = 0.0, 0.0
        self._again_at: float | None = None  # when it is started again, once it was killed
        self._seen = (-math.inf, worker_status(folder))

    def start(self) -> None:
        """Starts it, at once, unless it runs."""
        with self._lock:
            if self.process is None or self.process.poll() is not None:
                self._wait = 0.0
                self._spawn()

    def _spawn(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with contextlib.suppress(OSError):
            (self.folder / "status.json").unlink()  # of an earlier process, which may have had the same number
        with (self.folder / "worker.out").open("ab") as log:
            process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
            )
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        self.process, self._begun, self._again_at = process, self.clock(), None

    def tend(self) -> None:
        """Starts it again after it was killed: after 1, 2, 4, ... 60 s. One that could say why it failed would fail again,
        and waits for somebody to press the button."""
        with self._lock:
            if self.process is None or self.process.poll() is None or self._said_why():
                return
            at = self.clock()
            if self._again_at is None:
                self._wait_again(at, 0.0 if at - self._begun >= SOUND else self._wait)
            elif at >= self._again_at:
                try:
                    self._spawn()
                except OSError:  # no memory for a process
                    self._wait_again(at, self._wait)

    def _wait_again(self, at: float, last: float) -> None:
        self._wait = min(max(FIRST_WAIT, 2 * last), LONGEST_WAIT)
        self._again_at = at + self._wait

    def _said_why(self) -> bool:
        status = worker_status(self.folder)
        return self.process is not None and status["pid"] == self.process.pid and status["step"] == "failed"

    def stop(self) -> None:
        """What it was at is begun again next time; nothing finished is lost."""
        with self._lock:
            if self.process is None:
                return
            self.process.terminate()  # does nothing where it has ended
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            if self.process.stdin is not None:
                self.process.stdin.close()
            self.process = None  # a stop is no kill

    def status(self) -> dict[str, Any]:
        """What it said last; that it starts, while it has said nothing; that it was killed, and when it starts again."""
        at = self.clock()
        if at - self._seen[0] > 0.1:
            self.tend()
            status = worker_status(self.folder)
            with self._lock:
                process, again_at, wait = self.process, self._again_at, self._wait
            if process is not None and status["pid"] != process.pid:
                status |= {"step": "starting", "text": "Getting ready", "problem": None}
            if process is not None and again_at is not None:
                full = "; the disk is full" if shutil.disk_usage(self.folder).free < 2**20 else ""
                text = (
                    f"The training process {how_it_ended(process.returncode)}{full}; it starts again after {wait:.0f} s"
                )
                status |= {"step": "restarting", "text": text, "done": 0, "total": 0, "seconds_left": None}
                status |= {"problem": None}
            self._seen = (at, status)
        return self._seen[1]


def how_it_ended(code: int) -> str:
    """In words, from the return code of a process that said nothing itself."""
    if code == -9:
        return "was killed (SIGKILL; perhaps out of memory)"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed ({signal.Signals(-code).name})"
    return f"ended (code {code}; see worker.out in the run's folder)"


def keep_views(run: Run, changed: threading.Event, ended: threading.Event) -> None:
    """Rewrites labels.csv soon after a change, but not at every answer."""
    while not ended.is_set():
        if changed.wait(0.5):
            changed.clear()
            begun = time.monotonic()
            try:
                run.store.check_still_there()  # else they would go into whatever run is there now
                run.write_views()
            except (OSError, AsklessError, sqlite3.Error):  # a full disk: the database has everything; again later
                changed.set()
            ended.wait(min(max(1.0, 20 * (time.monotonic() - begun)), 10.0))  # people come first


# --- serving -------------------------------------------------------------------------------------------------------------


def serve(
    run: Run,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    ready: Callable[[Address], None] = lambda address: None,
    watch: Callable[[dict[str, Any]], bool] = lambda status: False,
    warn: Callable[[str], None] = lambda text: None,
    around: Callable[[Any, Gate], Any] = lambda app, gate: app,
) -> None:
    """Serves until it is interrupted. `ready(address)` is called when the page can be opened; `watch(status)` a few times
    a second with what the worker does, and ends everything when it returns True; `warn(text)` when the run has gone.
    `around(app, gate)` is what is served in place of the page's application."""
    from askless.label.web.connections import LimitedServer, Limits  # here, for `askless status` needs no uvicorn

    if port is None:  # that of the last time, so that a page that is still open finds its server again
        port = last_port(run.folder)
    os.umask(0o077)  # what is written in a run is its owner's alone
    sys.setswitchinterval(0.001)  # a request waits so long for the thread that writes labels.csv, each time; else five
    with (
        held(run.folder / LOCK, f"{run.folder} is already being served at {served_at(run.folder)}"),
        contextlib.closing(free_socket(host, port)) as sock,
    ):
        address = Address(host, sock.getsockname()[1], own_token(run))
        worker = Worker(run.folder)
        is_open = host not in LOOPBACK
        names = LOCAL | {socket.gethostname().lower(), host.lower()} if is_open else LOCAL
        gate = Gate(address.token, address.port, names, open_host=is_open)
        app = create_app(run, gate, worker.status, worker.start)
        server = LimitedServer(around(app, gate), Limits())
        about = json.dumps({"url": address.url, "port": address.port, "pid": os.getpid()})
        write_whole(run.folder / "server.json", lambda file: file.write(about.encode()))
        os.chmod(run.folder / "server.json", 0o600)
        ended = threading.Event()
        gone = False

        def look() -> bool:
            nonlocal gone
            gone = notice_gone(run, worker, warn, gone)
            return not gone and watch(worker.status())

        threads = [
            threading.Thread(target=keep_views, args=(run, app.state.page.changed, ended), daemon=True),
            threading.Thread(target=look_after, args=(server, ready, address, look, ended), daemon=True),
        ]
        try:
            put_back(run.folder)
            run.write_views()
            worker.start()
            for thread in threads:
                thread.start()
            with no_signal_after(server):
                server.run(sockets=[sock])
        finally:
            ended.set()
            worker.stop()
            for thread in threads:
                thread.join(3)
            with contextlib.suppress(OSError, AsklessError):
                run.store.check_still_there()
                (run.folder / OPENED).unlink(missing_ok=True)
                run.write_views()


def look_after(
    server: Any, ready: Callable[[Address], None], address: Address, look: Callable[[], bool], ended: threading.Event
) -> None:
    while not server.started and not ended.is_set():
        time.sleep(0.01)
    if ended.is_set():
        return
    ready(address)
    while not ended.wait(0.2):
        with contextlib.suppress(OSError, sqlite3.Error):  # nobody reads our output any more, or the disk hangs
            if look():
                server.should_exit = True
                return


def notice_gone(run: Run, worker: Worker, warn: Callable[[str], None], gone: bool) -> bool:
    """Whether the run was deleted, moved or replaced; `gone` is what it was at the last look. Says so once and stops the
    worker, which would write into whatever is there now; starts it again where the run is put back."""
    try:
        run.store.check_still_there()
    except GoneError as error:
        if not gone:
            worker.stop()
            warn(str(error))
        return True
    if gone:
        worker.start()
    return False


@contextlib.contextmanager
def no_signal_after(server: Any) -> Iterator[None]:
    """uvicorn raises the signal that ended it once more; here Ctrl+C is the ordinary end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
