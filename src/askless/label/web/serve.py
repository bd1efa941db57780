"""Serving a run: one server and one worker per run, on this computer, until somebody presses Ctrl+C."""

import contextlib
import errno
import json
import os
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

from askless.errors import AsklessError, BusyError, OptionError
from askless.files import write_whole
from askless.label.web.app import create_app, worker_status
from askless.label.web.guard import Gate
from askless.locks import held, is_held
from askless.project import Run
from askless.project.worker import put_back

PORT = 8347
TRIES = 50
LOCK = "server.lock"
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
    if not is_held(folder / LOCK):
        return None
    try:
        return str(json.loads((folder / "server.json").read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError):
        return None


def last_port(folder: Path) -> int | None:
    """The port of the last time, so that a page that is still open finds its server again."""
    try:
        return int(json.loads((folder / "server.json").read_text(encoding="utf-8"))["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
        except (OSError, UnicodeError) as error:
            sock.close()
            if isinstance(error, UnicodeError | socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, 10049):
                raise OptionError(f"host: expected a name or address of this computer, got {host!r}: {error}") from None
            problem = error
            if error.errno not in (98, 48, 13, 10013, 10048):  # in use, or not allowed
                break
    raise BusyError(f"no free port at {host} from {port} on ({problem}); pass --port or --host")


# --- the worker ----------------------------------------------------------------------------------------------------------


class Worker:
    """The background process, and what it says of itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._seen = (0.0, worker_status(folder))

    def start(self) -> None:
        """Starts it unless it runs."""
        with self._lock:
            if self.process is not None and self.process.poll() is None:
                return
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            command = [sys.executable, "-m", "askless.project.worker", str(self.folder)]
            with (self.folder / "worker.out").open("ab") as log:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
                )

    def stop(self) -> None:
        """What it was at is begun again next time; nothing finished is lost."""
        with self._lock:
            if self.process is None:
                return
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            if self.process.stdin is not None:
                self.process.stdin.close()

    def status(self) -> dict[str, Any]:
        """What it said last; that it is starting, while it has said nothing; that it failed, when it is gone."""
        at = time.monotonic()
        if at - self._seen[0] > 0.1:
            status = worker_status(self.folder)
            if self.process is not None and status["pid"] != self.process.pid:
                status |= {"step": "starting", "text": "Starting", "problem": None}
            gone = self.process is not None and self.process.poll()
            if gone and status["step"] != "failed":
                full = "; the disk is full" if shutil.disk_usage(self.folder).free < 2**20 else ""
                problem = f"the worker ended (code {gone}){full}; see worker.out in the run's folder"
                status |= {"step": "failed", "problem": problem}
            self._seen = (at, status)
        return self._seen[1]


def keep_views(run: Run, changed: threading.Event, ended: threading.Event) -> None:
    """Writes labels.csv anew soon after something has changed, not at every answer."""
    while not ended.is_set():
        if changed.wait(0.5):
            changed.clear()
            begun = time.monotonic()
            try:
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
    with_worker: bool = True,
) -> None:
    """Serves until it is interrupted. `ready(address)` is called when the page can be opened; `watch(status)` a few times
    a second with what the worker does, and ends everything when it returns True."""
    import uvicorn

    os.umask(0o077)  # what is written in a run is its owner's alone
    sys.setswitchinterval(0.001)  # a request waits so long for the thread that writes labels.csv, each time; else five
    with (
        held(run.folder / LOCK, f"{run.folder} is being served already, at {served_at(run.folder)}"),
        contextlib.closing(free_socket(host, last_port(run.folder) or PORT if port is None else port)) as sock,
    ):
        address = Address(host, sock.getsockname()[1], run.token)
        worker = Worker(run.folder)
        is_open = host not in LOOPBACK
        names = Gate("", "", 0).names | ({socket.gethostname().lower(), host.lower()} if is_open else set())
        gate = Gate(run.token, str(run.meta("run")), address.port, frozenset(names), open_host=is_open)
        app = create_app(run, gate, worker.status, worker.start)
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=3,
            timeout_keep_alive=75,  # people look at an image for longer than the usual five seconds
            lifespan="off",
            ws="none",
        )
        server = uvicorn.Server(config)
        about = json.dumps({"url": address.url, "port": address.port, "pid": os.getpid()})
        write_whole(run.folder / "server.json", lambda file: file.write(about.encode()))
        os.chmod(run.folder / "server.json", 0o600)
        ended = threading.Event()
        threads = [
            threading.Thread(target=keep_views, args=(run, app.state.page.changed, ended), daemon=True),
            threading.Thread(target=look_after, args=(server, worker, ready, watch, address, ended), daemon=True),
        ]
        try:
            put_back(run.folder)
            run.write_views()
            if with_worker:
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
                run.write_views()


def look_after(
    server: Any,
    worker: Worker,
    ready: Callable[[Address], None],
    watch: Callable[[dict[str, Any]], bool],
    address: Address,
    ended: threading.Event,
) -> None:
    while not server.started and not ended.is_set():
        time.sleep(0.01)
    if ended.is_set():
        return
    ready(address)
    while not ended.wait(0.2):
        with contextlib.suppress(OSError, sqlite3.Error):  # nobody reads our output any more, or the disk hangs
            if watch(worker.status()):
                server.should_exit = True
                return


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
