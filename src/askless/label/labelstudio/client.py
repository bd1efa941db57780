"""Label Studio's HTTP interface, as far as it is needed: JSON, both kinds of token, errors that say what to do."""

import base64
import binascii
import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Literal, NoReturn
from urllib.parse import urlencode, urlsplit

from askless.base.errors import AsklessError, InputError

TokenKind = Literal["legacy", "refresh", "access"]
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PAGE = 100  # rows that are asked for at a time
EARLY = 30.0  # seconds before its end at which an access token is renewed
SETTINGS = "Account & Settings in Label Studio"


class LabelStudioError(AsklessError):
    """What a server of Label Studio answered, when it was not what was asked for; `status` 0: it did not answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def token_kind(token: str) -> TokenKind:
    """By its shape: a personal access token is a JWT (of type refresh), a legacy one plain letters and digits."""
    claims = claims_of(token)
    if claims is None:
        return "legacy"
    return "access" if claims.get("token_type") == "access" else "refresh"


def claims_of(token: str) -> dict[str, Any] | None:
    """What a JWT says of itself, which only the server can verify; None for another text."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return None
    return claims if isinstance(claims, dict) else None


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is reported, not followed: the token belongs to one server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Client:
    """A server of Label Studio by its address and a token of either kind. Not for several threads."""

    def __init__(self, url: str, token: str, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"--url: expected the address of Label Studio, such as http://localhost:8080, got {url!r}")
        token = token.strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise InputError(f"--token: expected a token from {SETTINGS}, got {'none' if not token else 'other text'}")
        self.url, self.timeout = url.rstrip("/"), timeout
        self._token, self.kind = token, token_kind(token)
        self._access, self._until = (token, 0.0) if self.kind == "access" else ("", 0.0)
        handlers: list[urllib.request.BaseHandler] = [NoRedirect()]
        if parts.hostname in LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    # --- requests ----------------------------------------------------------------------------------------------------

    def get(self, path: str, **query: str | int) -> Any:
        return self._json("GET", path + (f"?{urlencode(query)}" if query else ""))

    def post(self, path: str, body: Any) -> Any:
        return self._json("POST", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self._json("PATCH", path, body)

    def delete(self, path: str) -> None:
        self._json("DELETE", path)

    def alive(self) -> None:
        """An error unless there is a server of Label Studio; the token is not needed for it."""
        content, kind = self._exchange("GET", "/health", None, "")
        if b'"UP"' not in content:
            raise LabelStudioError(f"{self.url}: expected Label Studio, got another server ({kind}); check --url")

    def fetch(self, path: str) -> tuple[bytes, str]:
        """The content and the type of what lies at an address of the server."""
        return self._exchange("GET", path, None, self._authorization())

    def pages(self, path: str, name: str = "results", **query: str | int) -> Iterator[dict[str, Any]]:
        """Everything that a list has, page by page; `name` is where a page has its rows."""
        number = 1
        while True:
            try:
                found = self.get(path, **query, page=number, page_size=PAGE)
            except LabelStudioError as error:
                if error.status == 404 and number > 1:  # one beyond the last
                    return
                raise
            rows = found if isinstance(found, list) else found.get(name, [])
            yield from rows
            if isinstance(found, list) or len(rows) < PAGE:
                return
            number += 1

    def _json(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        try:
            content, kind = self._exchange(method, path, data, self._authorization())
        except LabelStudioError as error:
            if error.status != 401 or self.kind != "refresh":
                raise
            self._access = ""  # it expired early: the server was restarted, or its clock differs
            content, kind = self._exchange(method, path, data, self._authorization())
        if not content:
            return None
        if not kind.startswith("application/json"):
            raise LabelStudioError(
                f"{self.url}{path}: expected JSON, got {kind or 'something else'}; check that --url is Label Studio"
            )
        return json.loads(content)

    def _authorization(self) -> str:
        if self.kind == "legacy":
            return f"Token {self._token}"
        if self.kind == "refresh" and (not self._access or time.time() > self._until):
            self._access = self._renewed()
            self._until = float((claims_of(self._access) or {}).get("exp", 0)) - EARLY
        return f"Bearer {self._access}"

    def _renewed(self) -> str:
        """A new access token, which lasts for minutes, from the personal one."""
        body = json.dumps({"refresh": self._token}).encode()
        try:
            content, _ = self._exchange("POST", "/api/token/refresh", body, "")
        except LabelStudioError as error:
            if error.status in (400, 401):
                raise LabelStudioError(
                    f"{self.url} refuses the personal access token: it has expired, was revoked, or belongs to another "
                    f"server. Make a new one under {SETTINGS}, Personal Access Token",
                    error.status,
                ) from None
            raise
        return str(json.loads(content)["access"])

    def _exchange(self, method: str, path: str, data: bytes | None, authorization: str) -> tuple[bytes, str]:
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Accept", "*/*")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if authorization:
            request.add_header("Authorization", authorization)
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                return response.read(), response.headers.get("Content-Type", "")
        except urllib.error.HTTPError as error:
            with error:
                self._refused(method, path, error.code, error.headers, error.read())
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise LabelStudioError(
                f"{self.url} does not answer ({reason}); start Label Studio with `label-studio start`, then try again. "
                "Nothing was lost"
            ) from None

    def _refused(self, method: str, path: str, status: int, headers: Any, content: bytes) -> NoReturn:
        """The error for what the server answered."""
        where = f"{self.url}{path.partition('?')[0]}"
        if 300 <= status < 400:
            text = f"{where} redirects to {headers.get('Location', 'elsewhere')}; pass that address as --url"
        elif status == 401 and self.kind == "legacy":
            text = (
                f"{self.url} refuses the token: the legacy token is wrong, or legacy tokens are switched off (Organization, "
                f"Access Token Settings); copy it, or a personal access token, from {SETTINGS}"
            )
        elif status == 401:
            text = (
                f"{self.url} refuses the token: the token is wrong or has expired; make a personal access token under "
                f"{SETTINGS}"
            )
        elif status == 413:
            text = f"{where}: the server takes no requests of this size; lower --largest, or use --images local-files"
        elif status == 403:
            text = f"{where}: the user of this token may not {method} here; ask for permission"
        else:
            text = f"{where}: Label Studio answered {status}: {said(content)}"
        raise LabelStudioError(text, status)


def said(content: bytes) -> str:
    """What the server says went wrong, in a line."""
    text = content.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except ValueError:
        return text[:200] or "nothing"
    if isinstance(found, dict):
        detail = found.get("validation_errors") or found.get("detail") or found
        return str(detail)[:500]
    return str(found)[:500]
