"""A program that knows the labels and answers as a person would, through the page: for rehearsals and tests."""

import http.client
import json
import time
import uuid
from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from askless.base.errors import AsklessError, InputError

PATIENCE = 60.0  # seconds for which a server may be away


class PageClient:
    """One tab at a run's page, over HTTP, by the address that askless printed. Not for several threads.

    For `patience` seconds a server that went away may come back: what was not answered is sent again as it was, and what
    the server had stored already it does not store twice.
    """

    def __init__(self, url: str, name: str | None = None, tab: str | None = None, patience: float = PATIENCE) -> None:
        parts = urlsplit(url)
        token = parse_qs(parts.query).get("token", [""])[0]
        if parts.scheme != "http" or not parts.netloc or not token:
            raise InputError(
                f"expected the address that askless printed, http://127.0.0.1:8347/?token=..., got {url!r}"
            )
        self.tab = tab or f"oracle-{uuid.uuid4().hex[:12]}"
        self.cookies: dict[str, str] = {}
        self.connection = http.client.HTTPConnection(parts.netloc, timeout=30.0)
        self.patience = 0.0  # none while it is not known whether there is a page at all
        self.get(f"/?token={token}")
        self.patience = patience
        if name is not None:
            self.post("/api/annotator", {"name": name})

    def get(self, path: str) -> Any:
        return self._exchange("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._exchange("POST", path, body)

    def next(self, ahead: bool = True) -> Any:
        return self.post("/api/next", {"tab": self.tab, "ahead": ahead})

    def label(self, item: int, number: int | None, seconds: float = 1.0) -> Any:
        """Answers with a class, or None for unsure."""
        given = {"unsure": "other"} if number is None else {"class": number}
        body = {"request_id": str(uuid.uuid4()), "tab": self.tab, "items": [item], "seconds": seconds}
        return self.post("/api/answers", body | given)

    def close(self) -> None:
        self.connection.close()

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items())}
        data = None
        if method == "POST":
            headers |= {"Content-Type": "application/json", "X-Askless": "1"}
            data = json.dumps(body).encode()
        until = time.monotonic() + self.patience
        while True:
            try:
                self.connection.request(method, path, data, headers)
                response = self.connection.getresponse()
                content = response.read()
                break
            except (OSError, http.client.HTTPException):
                self.connection.close()
                if time.monotonic() >= until:
                    raise
                time.sleep(0.1)
        for line in response.headers.get_all("Set-Cookie") or ():
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(line).items()}
        if response.status >= 400:
            error = json.loads(content)["error"] if content.startswith(b"{") else {"code": "", "message": ""}
            raise AsklessError(f"the page answered {response.status} {error['code']}: {error['message']}")
        kind = response.headers.get("Content-Type", "")
        return json.loads(content) if kind.startswith("application/json") else content


def answer_all(
    url: str,
    truth: Mapping[str, str],
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    pause: float = 0.0,
) -> int:
    """Labels everything the page asks, by path; how many answers were given when the run was finished. It waits for every
    batch: what is chosen ahead is for people, and with it the batches would depend on how long each training takes.

    Classes that the run does not have yet are added. An image that the truth does not know is answered as unsure.
    """
    client = PageClient(url, "oracle")
    state = client.get(f"/api/state?tab={client.tab}")
    numbers = {c["name"]: c["id"] for c in state["progress"]["classes"] if not c["hidden"]}
    given = 0
    while True:
        found = client.next(ahead=False)
        item = found["item"]
        if item is None:
            if found["code"] == "failed":
                raise AsklessError(found["why"])
            if found["code"] == "finished" and client.get(f"/api/state?tab={client.tab}")["run"]["finished"]:
                return given
            time.sleep(0.1)
            continue
        label = truth.get(item["name"])
        if label and label not in numbers:
            made = client.post("/api/classes", {"request_id": str(uuid.uuid4()), "name": label})
            numbers[label] = made["class"]["id"]
        found = client.label(item["id"], numbers[label] if label else None, pause)
        given += 1
        progress(found["progress"]["spent"], found["progress"]["budget"])
        if pause:
            time.sleep(pause)
