"""The page's server, and its connections: how many there are, and how long one may take to send a request.

Whoever reaches the port can open connections and send half a request on each, without a token. uvicorn waits for the rest
indefinitely and takes connections until the process has no file descriptors left; here such connections are closed.
"""

import asyncio
import socket
from dataclasses import dataclass, field
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256  # a browser opens six
QUEUE = 1024  # connections that the system keeps until they are taken
READ = 16_384  # bytes at a time: 256 KiB of one-byte chunks, as asyncio reads, keep everybody else waiting for a second
LINGER = 1.0  # seconds in which a refused client can read why


def most_connections() -> int:
    """MOST, or a quarter of the files that this process may open, where that is less."""
    try:
        import resource
    except ImportError:  # not on this system
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft < 0 else max(8, min(MOST, soft // 4))


@dataclass(frozen=True)
class Limits:
    """`head` and `body`: seconds for sending each, however many bytes arrive meanwhile."""

    connections: int = field(default_factory=most_connections)
    head: float = 10.0
    body: float = 30.0

    @property
    def backlog(self) -> int:
        """Connections that asyncio takes at a time. Three times as many may be open beside ours until they are closed."""
        return max(1, self.connections // 2)


class LimitedProtocol(H11Protocol):
    """Closes what waits too long for the rest of a request and, where there are too many, what has waited longest."""

    limits = Limits()
    waiting_since = 0.0
    _stage: object = None
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the other side has something to send, or is idle; not while it waits for us."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = READ
        self._watch()
        if len(self.connections) > self.limits.connections:
            waiting = [c for c in self.connections if isinstance(c, LimitedProtocol) and c.is_waiting]
            min(waiting, key=lambda c: c.waiting_since).drop()  # never empty: this one waits

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()
        if self.conn.their_state is h11.SEND_BODY:  # refused: nobody wants the rest
            self.flow.pause_reading()
            self._stop_timer()
            self._timer = self.loop.call_later(LINGER, self.drop)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def drop(self) -> None:
        """Without a word: a page whose answer was cut off sends it again, but takes a status 408 for a refusal."""
        self._stop_timer()
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Starts the clock of a request's head or body when it begins. An idle connection is under uvicorn's own."""
        state = self.conn.their_state
        begun = self.timeout_keep_alive_task is None or bool(self.conn.trailing_data[0])  # the next request, while idle
        stage = (self.cycle, state, begun and state is h11.IDLE)  # a new cycle for each request
        if stage == self._stage:
            return
        self._stage, self.waiting_since = stage, self.loop.time()
        self._stop_timer()
        if state is h11.SEND_BODY:
            self._timer = self.loop.call_later(self.limits.body, self.drop)
        elif state is h11.IDLE and begun:
            self._timer = self.loop.call_later(self.limits.head, self.drop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LimitedServer(uvicorn.Server):
    """uvicorn's server for the page."""

    def __init__(self, app: Any, limits: Limits) -> None:
        config = uvicorn.Config(
            app,
            http=type("Protocol", (LimitedProtocol,), {"limits": limits}),
            backlog=limits.backlog,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=3,
            timeout_keep_alive=75,  # people look at an image for longer than the usual five seconds
            lifespan="off",
            ws="none",
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(QUEUE)  # asyncio has one number for this queue and for how many it takes at a time
