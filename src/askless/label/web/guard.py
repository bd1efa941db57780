"""Who may talk to the page: this computer's browser with the run's token, and nobody else.

Every request passes here first. The order matters: a foreign host name is turned away before anything is looked at.
"""

import base64
import hashlib
import hmac
import ipaddress
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

MOST_BYTES = 1_000_000  # of a request
CSP = (
    "default-src 'none'; img-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
NO_TOKEN = (
    "<!doctype html><html lang=en><title>askless</title><p>Open the address with the token that askless printed in the "
    "terminal. To see it again, run <code>askless status FOLDER</code>."
)


LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclass(frozen=True)
class Gate:
    """What a request is held against. `names`: host names that may be used, beside addresses when `open_host`."""

    token: str
    port: int
    names: frozenset[str] = LOCAL
    open_host: bool = False

    @property
    def cookie(self) -> str:
        """Its name: two runs, or a run and its copy, share the cookies of this host, whatever their ports."""
        return f"askless-{self._derived('cookie:')[:16]}"

    @property
    def name_cookie(self) -> str:
        return f"{self.cookie}-name"

    @property
    def session(self) -> str:
        """Its value: who reads a browser's cookies has not got the token."""
        return self._derived("session:")

    def secret_for(self, whom: str) -> str:
        """What another program gets in place of the token: it opens its own door alone."""
        return self._derived(f"{whom}:")[:32]

    def allows_host(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        if not name or name.count("[") != name.count("]"):
            name, port = host, ""
        if port != str(self.port) and not (port == "" and self.port == 80):
            return False
        if name.lower() in self.names:
            return True
        return self.open_host and is_address(name)

    def allows_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    def allows_session(self, session: str) -> bool:
        return hmac.compare_digest(session.encode(), self.session.encode())

    def sign(self, name: str) -> str:
        """An annotator's name as a cookie that only this run can have made."""
        body = base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")
        return f"{body}.{self._signature(body)}"

    def signed_name(self, header: str) -> str | None:
        """The name in a Cookie header, if this run has signed it."""
        body, _, signature = cookies_of(header).get(self.name_cookie, "").rpartition(".")
        if not body or not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return None
        return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()

    def _signature(self, body: str) -> str:
        return self._derived(body)[:32]

    def _derived(self, text: str) -> str:
        """A name's text is base64, without a colon: none is that of the cookie or of the session."""
        return hmac.new(self.token.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_address(name: str) -> bool:
    """Whether a host is written as a number: then no name server was asked, and none could have lied."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def cookies_of(header: str) -> dict[str, str]:
    """What a Cookie header says, as it is written: none of our own values needs quotes."""
    pairs = (part.partition("=") for part in header.split(";"))
    return {name.strip(): value.strip() for name, _, value in pairs}


class Guard:
    """ASGI middleware around the application."""

    def __init__(self, app: Callable[..., Any], gate: Gate) -> None:
        self.app, self.gate = app, gate

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            return

        begun = False

        async def send_guarded(message: dict[str, Any]) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                present = {name.lower() for name, _ in message["headers"]}
                more = [(name, value) for name, value in ENCODED if name not in present]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        refusal = self.refusal(scope)
        if refusal is not None:
            page = NO_TOKEN if refusal[0] == 401 and scope["path"] == "/" else None
            await answer(send_guarded, *refusal, page=page)
            return
        body = await whole_body(receive)
        if body is None:
            return
        if len(body) > MOST_BYTES:
            await answer(send_guarded, 413, "too_large", f"a request has at most {MOST_BYTES} bytes")
            return
        sent = False

        async def receive_body() -> dict[str, Any]:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            await self.app(scope, receive_body, send_guarded)
        except Exception:  # a bug of ours: the answer gives no details, the log does
            if not begun:
                await answer(send_guarded, 500, "internal", "something went wrong; see the terminal for details")
            raise

    def refusal(self, scope: dict[str, Any]) -> tuple[int, str, str] | None:
        """Why a request is turned away: status, code, and a sentence."""
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key = name.decode("latin-1").lower()
            if key == "host" and key in headers:
                return 403, "forbidden", "expected one Host header, got several"
            headers[key] = value.decode("latin-1")
        host = headers.get("host", "")
        if not self.gate.allows_host(host):
            return 403, "forbidden", "this page answers only at the address that askless printed"
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{host}":
            return 403, "forbidden", "requests from other sites are refused"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and scope["path"] != "/":
            return 403, "forbidden", "requests from other sites are refused"
        allowed = self.gate.allows_session(cookies_of(headers.get("cookie", "")).get(self.gate.cookie, ""))
        if scope["path"] == "/" and scope["method"] in ("GET", "HEAD"):
            query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            allowed = self.gate.allows_token(query["token"][0]) if "token" in query else allowed
        if not allowed:
            return 401, "unauthorized", "open the address with the token that askless printed in the terminal"
        if scope["method"] == "POST":
            if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return 415, "unsupported", "expected a body of type application/json"
            if headers.get("x-askless") != "1":
                return 403, "forbidden", "expected the header X-Askless: 1"
        elif scope["method"] not in ("GET", "HEAD"):
            return 405, "bad_request", "expected GET or POST"
        return None


async def whole_body(receive: Any, most: int = MOST_BYTES) -> bytes | None:
    """The request's body, or more than `most` of it; None where the connection ended before the body did."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most or not message.get("more_body"):
            return bytes(body)


async def answer(send: Any, status: int, code: str, message: str, page: str | None = None) -> None:
    """An error as data, or as a page for a person."""
    body = json.dumps({"error": {"code": code, "message": message}}) if page is None else page
    kind = b"application/json" if page is None else b"text/html; charset=utf-8"
    headers = [(b"content-type", kind), (b"content-length", str(len(body.encode())).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
