"""What must not work: a test for each threat to the page of a run on a shared machine."""

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from PIL import Image

from askless.base.errors import InputError
from askless.label.web.guard import CSP, Gate, Guard, whole_body
from askless.label.web.serve import free_socket
from askless.run import Run

HOST = ("host", "127.0.0.1:8347")
POST = [("content-type", "application/json"), ("x-askless", "1")]
SECRET = "root:x:0:0"


def routes(app):
    """(method, path) of everything that can be asked for."""
    found = []
    for route in app.routes:
        path = re.sub(r"\{\w+\}", "0", route.path)
        found += [(method, path) for method in sorted(route.methods - {"HEAD"})]
    return found


def error_of(reply):
    body = reply.json()
    assert set(body) == {"error"}
    assert {"code", "message"} <= set(body["error"])
    return body["error"]


def changes(office):
    """What may not change; leases come and go."""
    return office.dump(but=("lease",))


def answer_body(office, **more):
    item = office.one("SELECT item FROM task WHERE state = 'open' AND kind = 'train' ORDER BY rank LIMIT 1")
    return {"request_id": "request-attack", "tab": "tab-a", "items": [item], "class": 0, **more}


# --- who asks ------------------------------------------------------------------------------------------------------------


def test_the_list_of_routes_is_whole(castle):
    found = {path for _, path in routes(castle.app)}
    assert {
        "/",
        "/image/0",
        "/static/0",
        "/api/state",
        "/api/answers",
        "/api/openapi.json",
        "/api/classes/0/merge",
    } <= found
    assert len(found) >= 22


@pytest.mark.parametrize(
    "cookie",
    [
        None,
        "",
        "askless-%s=",
        "askless-%s=wrong",
        "askless-%s=%s",
        "askless=x",
        "askless-0=x",
        "askless-%s=\u00e9\u00ff",
        "=;=;;",
    ],
    ids=repr,
)
def test_without_the_token_no_route_answers(castle, cookie):
    run, token = castle.gate.cookie.removeprefix("askless-"), castle.gate.token
    before = castle.dump()
    text = None if cookie is None else cookie.replace("%s", run, 1).replace("%s", castle.gate.session[:-1])
    for method, path in routes(castle.app):
        headers = [HOST, *(POST if method == "POST" else [])] + ([] if text is None else [("cookie", text)])
        reply = castle.raw(method, path, headers, b"{}")
        assert reply.status_code == 401, (method, path)
        assert token not in reply.text
        assert reply.headers.get("set-cookie") is None
    assert castle.dump() == before


def test_the_token_of_another_run_does_not_open_this_one(castle):
    headers = [HOST, ("cookie", f"{castle.gate.cookie}={'A' * len(castle.gate.token)}")]
    assert castle.raw("GET", "/api/state", headers).status_code == 401


def test_a_wrong_token_in_the_address_is_refused_and_sets_nothing(castle):
    for token in ("wrong", castle.gate.token[:-1], castle.gate.token + "x", "", "%00", "%ff"):
        reply = castle.raw("GET", f"/?token={token}", [HOST])
        assert reply.status_code == 401
        assert "set-cookie" not in reply.headers
        assert reply.headers["content-type"].startswith("text/html")
        assert castle.gate.token not in reply.text


def test_a_wrong_token_in_the_address_is_refused_even_with_the_cookie(castle):
    assert castle.raw("GET", "/?token=wrong", known=True).status_code == 401


def test_the_token_in_the_address_works_at_the_front_door_only(castle):
    token = castle.gate.token
    for method, path in routes(castle.app):
        if path == "/":
            continue
        reply = castle.raw(method, f"{path}?token={token}", [HOST, *(POST if method == "POST" else [])], b"{}")
        assert reply.status_code == 401, path
    assert castle.raw("POST", f"/?token={token}", [HOST, *POST], b"{}").status_code == 401
    reply = castle.raw("GET", "/api/state", [HOST, ("authorization", f"Bearer {token}"), ("x-token", token)])
    assert reply.status_code == 401


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(castle):
    reply = castle.raw("GET", f"/?token={castle.gate.token}", [HOST])
    assert reply.status_code == 303
    assert reply.headers["location"] == "/"  # without the token
    cookie = reply.headers["set-cookie"]
    assert cookie.startswith(f"{castle.gate.cookie}={castle.gate.session};")
    flags = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= flags
    assert not any(flag.startswith("domain") for flag in flags)
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "no-referrer"


def test_the_cookie_is_not_the_token(castle):
    """Who copies a browser's cookies cannot make the address from them, nor a cookie from the address of another run."""
    gate = castle.gate
    assert gate.token not in gate.session
    assert gate.token not in gate.cookie
    for value in (
        gate.token,
        gate.session.upper(),
        gate.sign("ann"),
        gate.cookie,
    ):  # the first was the cookie up to 0.2
        headers = [HOST, ("cookie", f"{gate.cookie}={value}")]
        assert castle.raw("GET", "/api/state", headers).status_code == 401
    for name in (gate.cookie, f"askless-{castle.run.meta('run')}"):
        reply = castle.raw("GET", "/", [HOST, ("cookie", f"{name}={gate.token}")])
        assert (reply.status_code, "Open the address with the token" in reply.text) == (401, True)
    assert castle.raw("GET", f"/?token={gate.session}", [HOST]).status_code == 401
    assert castle.raw("GET", "/?token=", known=True).status_code == 401
    assert castle.raw("GET", "/api/state", [HOST, ("cookie", castle.cookie)]).status_code == 200


def test_a_session_outlives_a_restart(office, ann):
    office.reopen()
    assert ann.get("/api/state")["annotator"]["name"] == "ann"


def test_opened_from_a_file_the_page_goes_on_by_itself(castle):
    """The browser sends a strict cookie with no redirect that a file began, but with what our own page asks for."""
    headers = [HOST, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
    reply = castle.raw("GET", f"/?token={castle.gate.token}", headers)
    assert reply.status_code == 200
    assert reply.headers["set-cookie"].startswith(f"{castle.gate.cookie}={castle.gate.session};")
    assert '<meta http-equiv=refresh content="0;url=/">' in reply.text
    assert castle.gate.token not in reply.text
    assert castle.raw("GET", "/?token=wrong", headers).status_code == 401


def test_the_token_is_long_and_each_run_has_its_own(make_hall):
    one, other = make_hall(4), make_hall(4)
    assert len(one.gate.token) >= 43  # 256 bits
    assert one.gate.token != other.gate.token
    assert one.gate.cookie != other.gate.cookie


def test_the_token_is_in_no_answer(office, ann):
    for method, path in routes(office.app):
        if method == "GET":
            assert office.gate.token not in ann.http.get(path).content.decode("latin-1"), path


# --- hosts and origins ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8347",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:83470",
        "localhost:1",
        "localhost.evil.example:8347",
        "127.0.0.1.evil.example:8347",
        "127.0.0.1:8347.evil.example",
        "127.0.0.1:8347:8347",
        "evil@127.0.0.1:8347",
        "0.0.0.0:8347",
        "192.168.0.1:8347",
        "[::1]",
        "[::1]:80",
        "[::2]:8347",
        "::1:8347",
        "",
        " ",
        "127.0.0.1:8347,evil.example",
    ],
)
def test_other_hosts_are_turned_away_before_anything_else(castle, host):
    """Whoever asks with another name was sent here by a name server that lies."""
    for headers in ([], [("cookie", castle.cookie)]):
        reply = castle.raw("GET", "/api/state", [("host", host), *headers])
        assert reply.status_code == 403
        assert error_of(reply)["code"] == "forbidden"
    assert castle.raw("GET", f"/?token={castle.gate.token}", [("host", host)]).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8347", "localhost:8347", "LOCALHOST:8347", "[::1]:8347"])
def test_this_computers_names_are_answered(castle, host):
    assert castle.raw("GET", "/api/state", [("host", host)], known=True).status_code == 200


def test_no_host_or_two_hosts_are_turned_away(castle):
    for hosts in ([], [HOST, HOST], [HOST, ("host", "evil.example")], [("host", "evil.example"), HOST]):
        reply = castle.raw("GET", "/api/state", [*hosts, ("cookie", castle.cookie)])
        assert reply.status_code == 403, hosts


def test_names_that_a_proxy_would_add_are_not_believed(castle):
    reply = castle.raw(
        "GET", "/api/state", [("host", "evil.example"), ("x-forwarded-host", HOST[1]), ("cookie", castle.cookie)]
    )
    assert reply.status_code == 403


def test_the_proxy_of_the_documentation_is_answered(castle):
    """It sets Host and Origin, so what the browser says of other sites has to be enough."""
    headers = [*POST, ("origin", f"http://{HOST[1]}"), ("x-forwarded-host", "label.example.org")]
    for site, status in (("same-origin", 200), ("cross-site", 403)):
        given = [*headers, ("sec-fetch-site", site)]
        assert castle.raw("POST", "/api/heartbeat", given, b'{"tab": "tab-a"}', known=True).status_code == status


def test_an_open_host_answers_addresses_but_no_foreign_names():
    gate = Gate("token", 8347, frozenset({"127.0.0.1", "mine"}), open_host=True)
    assert all(gate.allows_host(f"{name}:8347") for name in ("192.168.0.7", "[fe80::1]", "mine"))
    assert not any(
        gate.allows_host(host) for host in ("evil.example:8347", "192.168.0.7", "192.168.0.7:1", "1.2.3:8347")
    )


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "",
        "http://127.0.0.1:8348",
        "https://127.0.0.1:8347",
        "http://localhost:8347",
        "http://127.0.0.1:8347.evil.example",
        "file://",
    ],
)
def test_other_sites_cannot_ask(castle, origin):
    before = castle.dump()
    body = json.dumps(answer_body(castle)).encode()
    for method, path in (
        ("POST", "/api/answers"),
        ("POST", "/api/next"),
        ("GET", "/api/state"),
        ("GET", "/image/0"),
        ("GET", "/"),
    ):
        reply = castle.raw(method, path, [("origin", origin)], body, known=True)
        assert reply.status_code == 403, path
        assert error_of(reply)["code"] == "forbidden"
    assert castle.dump() == before


def test_ones_own_origin_may_ask(office):
    reply = office.raw("POST", "/api/next", [("origin", "http://127.0.0.1:8347")], b'{"tab": "tab-a"}', known=True)
    assert reply.status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_that_a_browser_marks_as_foreign_are_refused(castle, site):
    for path in ("/image/0", "/static/app.js", "/api/state"):
        assert castle.raw("GET", path, [("sec-fetch-site", site)], known=True).status_code == 403


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "",
        "application/jsonx",
        "text/json",
        "application/json, text/plain",
    ],
)
def test_forms_are_refused(castle, kind):
    before = castle.dump()
    for method, path in routes(castle.app):
        if method == "POST":
            reply = castle.raw("POST", path, [("content-type", kind)], b"{}", known=True)
            assert (reply.status_code, error_of(reply)["code"]) == (415, "unsupported")
    assert castle.dump() == before


@pytest.mark.parametrize("header", [None, "", "0", "true", "1, 1"])
def test_a_post_without_the_custom_header_is_refused(castle, header):
    before = castle.dump()
    for method, path in routes(castle.app):
        if method == "POST":
            headers = [HOST, ("cookie", castle.cookie), ("content-type", "application/json")]
            reply = castle.raw("POST", path, headers + ([] if header is None else [("x-askless", header)]), b"{}")
            assert (reply.status_code, error_of(reply)["code"]) == (403, "forbidden")
    assert castle.dump() == before


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "FOO"])
def test_other_methods_are_refused(castle, method):
    before = castle.dump()
    headers = [("access-control-request-method", "POST"), ("content-type", "application/json"), ("x-askless", "1")]
    for _, path in routes(castle.app):
        reply = castle.raw(method, path, headers, b"{}", known=True)
        assert reply.status_code == 405, path
        assert "access-control-allow-origin" not in reply.headers
    assert castle.dump() == before


def test_no_answer_allows_other_sites_and_all_carry_the_headers(castle):
    """Every kind of answer: pages, pictures, data, and every kind of error."""
    castle.run.store._reader.execute("SELECT 1")
    replies = [
        castle.raw(method, path, [*more, *([] if method == "GET" else POST)], body, known=known)
        for method, path in routes(castle.app)
        for known in (True, False)
        for more in ([HOST], [HOST, ("origin", "http://evil.example")], [("host", "evil.example")])
        for body in (b"{}", b"\xff")
    ]
    replies.append(castle.raw("GET", f"/?token={castle.gate.token}", [HOST]))
    replies.append(castle.raw("GET", "/nothing", known=True))
    replies.append(castle.raw("GET", "/image/99999", known=True))
    replies.append(castle.raw("PUT", "/api/state", known=True))
    replies.append(castle.raw("POST", "/api/next", [], b"x" * 1_000_001, known=True))
    assert {reply.status_code for reply in replies} >= {200, 303, 401, 403, 404, 405, 413, 422}
    for reply in replies:
        assert reply.error is None
        assert not any(name.startswith("access-control") for name, _ in reply.pairs)
        assert reply.headers["content-security-policy"] == CSP
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        assert [name for name, _ in reply.pairs].count("content-security-policy") == 1
        assert "server" not in reply.headers


def test_a_mistake_of_ours_carries_the_headers_too_and_tells_nothing(office):
    def broken():
        raise RuntimeError("a secret path")

    office.app.state.page.worker = broken
    reply = office.raw("GET", "/api/state", known=True)
    assert reply.status_code == 500
    assert isinstance(reply.error, RuntimeError)  # for the log
    assert reply.headers["content-security-policy"] == CSP
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "secret" not in reply.text
    assert error_of(reply)["code"] == "internal"


def test_the_policy_allows_nothing_from_elsewhere():
    parts = dict(part.strip().split(" ", 1) for part in CSP.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["frame-ancestors"] == "'none'"
    for name in ("img-src", "script-src", "style-src", "connect-src"):
        assert parts[name] == "'self'"
    assert "unsafe" not in CSP


# --- state ---------------------------------------------------------------------------------------------------------------


def test_a_get_never_changes_the_state(office, ann):
    ann.post("/api/settings", request_id=ann.request(), suggestions="prefill")
    ann.next()
    before = office.dump()
    files = {p.name for p in office.run.folder.iterdir()}
    for method, path in routes(office.app):
        if method != "GET":
            continue
        for query in ("", "?tab=ann-tab", "?tab=new-tab", "?size=thumb", "?show=doubtful", "?show=conflicts"):
            for method_ in ("GET", "HEAD"):
                assert office.raw(method_, path + query, known=True).status_code < 500
    office.raw("GET", f"/?token={office.gate.token}", [HOST])
    assert office.dump() == before
    assert {p.name for p in office.run.folder.iterdir()} == files


# --- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/image/../../etc/passwd",
        "/image/..%2f..%2f..%2fetc%2fpasswd",
        "/image/%2e%2e/%2e%2e/etc/passwd",
        "/image/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/image/..%252f..%252fetc%252fpasswd",
        "/image//etc/passwd",
        "/image/%2fetc%2fpasswd",
        "/image/file:%2f%2f%2fetc%2fpasswd",
        "/image/..",
        "/image/.",
        "/image/",
        "/image/-1",
        "/image/60",
        "/image/99999999999999999999999999",
        "/image/" + "9" * 5000,
        "/image/abc",
        "/image/1.5",
        "/image/1e1",
        "/image/0x1",
        "/image/%00",
        "/image/1%00",
        "/image/0/../1",
        "/image/0/red-00.png",
        "/image/state.sqlite",
        "/static/../app.py",
        f"/static/{'a' * 5000}.js",
        "/static/..%2fapp.py",
        "/static/%2fetc%2fpasswd",
        "/static//etc/passwd",
        "/static/....//app.py",
        "/static/..%5capp.py",
        "/..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
    ],
)
def test_no_path_leads_out(castle, path):
    for query in ("", "?size=full", "?size=thumb"):
        reply = castle.raw("GET", path + query, known=True)
        allowed = (404, 422) if path.startswith("/image/") else (404,)
        assert reply.status_code in allowed
        assert error_of(reply)["code"] in ("not_found", "bad_request")
        assert SECRET not in reply.text
        assert "import" not in reply.text


@pytest.mark.parametrize(
    "how", ["link to a picture outside", "link to a text outside", "folder outside", "gone", "text", "pipe"]
)
def test_a_file_that_was_swapped_after_indexing_is_not_served(draw_own, make_office, tmp_path, how):
    own = draw_own()
    outside = tmp_path / "outside"
    outside.mkdir()
    Image.new("RGB", (32, 32), (1, 2, 3)).save(outside / "secret.png")
    office = make_office(own.start(tmp_path / "run"))
    item = 4
    file = own.folder / office.run.paths[item]
    (outside / file.name).write_bytes((outside / "secret.png").read_bytes())
    if how == "folder outside":
        file.parent.rename(tmp_path / "moved")
        file.parent.symlink_to(outside)
    else:
        file.unlink()
        if how == "link to a picture outside":
            file.symlink_to(outside / "secret.png")
        elif how == "link to a text outside":
            file.symlink_to("/etc/passwd")
        elif how == "text":
            file.write_text("root:x:0:0 is no picture")
        elif how == "pipe":
            os.mkfifo(file)
    for size in ("full", "thumb"):
        reply = office.raw("GET", f"/image/{item}?size={size}", known=True)
        assert reply.status_code == 404
        assert error_of(reply)["code"] == "not_found"
        assert SECRET not in reply.text
        assert str(tmp_path) not in reply.text


def test_a_link_out_of_the_folder_is_no_item(draw_own, make_office, tmp_path):
    own = draw_own()
    Image.new("RGB", (32, 32), (1, 2, 3)).save(tmp_path / "secret.png")
    (own.folder / "link.png").symlink_to(tmp_path / "secret.png")
    (own.folder / "folder").symlink_to(tmp_path)
    office = make_office(own.start(tmp_path / "run"))
    assert not any("link" in path or "folder" in path for path in office.run.paths)
    assert "outside" in (office.run.folder / "skipped.csv").read_text()


def test_svg_is_no_picture(draw_own, make_office, tmp_path):
    own = draw_own()
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    (own.folder / "evil.svg").write_bytes(svg)
    (own.folder / "evil.png").write_bytes(svg)
    office = make_office(own.start(tmp_path / "run"))
    assert not any("evil" in path for path in office.run.paths)


def test_pictures_are_of_fixed_kinds(castle):
    for size in ("full", "thumb"):
        reply = castle.raw("GET", f"/image/0?size={size}", known=True)
        assert reply.headers["content-type"] in ("image/png", "image/jpeg")
        assert reply.content.startswith((b"\x89PNG", b"\xff\xd8\xff"))


@pytest.mark.parametrize("name", ["X", "y", "ids", "classes"])
def test_an_array_with_pickled_objects_is_refused(tmp_path, name):
    """Loading it would run whatever it says."""

    class Evil:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "pwned"),))

    arrays = {"X": np.random.default_rng(0).normal(size=(9, 3)), "y": np.zeros(9, int), "ids": np.arange(9).astype(str)}
    arrays["classes"] = np.array(["a"])
    arrays[name] = np.array([Evil()] * 9, dtype=object)
    np.savez(tmp_path / "evil.npz", **arrays)
    with pytest.raises(InputError, match=r"evil\.npz"):
        Run.create(tmp_path / "evil.npz", tmp_path / "run")
    assert {p.name for p in tmp_path.iterdir()} == {"evil.npz"}


# --- names ---------------------------------------------------------------------------------------------------------------

SCRIPT = "<img src=x onerror=alert(1)>"


def test_names_are_data_and_never_markup(draw_own, make_office, tmp_path):
    own = draw_own()
    evil = own.folder / f"{SCRIPT}.png"
    Image.fromarray(np.random.default_rng(5).integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(evil)
    office = make_office(own.start(tmp_path / "run", classes=(SCRIPT, "b"), budget=33, check=0.0))
    office.ask(list(range(33)))
    mallory = office.browser(SCRIPT)
    made = mallory.send("/api/classes", {"request_id": mallory.request(), "name": SCRIPT + "2"})
    assert made.headers["content-type"] == "application/json"
    assert made.json()["class"]["name"] == SCRIPT + "2"
    while (item := mallory.next()["item"]) is not None:
        mallory.answer(item["id"], 0, note=SCRIPT)
    state = mallory.http.get("/api/state")
    assert state.headers["content-type"] == "application/json"
    assert state.json()["progress"]["classes"][0]["name"] == SCRIPT
    assert state.json()["annotator"]["name"] == SCRIPT
    names = {item["name"] for item in mallory.get("/api/items", show="answered", limit=500)["items"]}
    assert f"{SCRIPT}.png" in names
    error = office.raw("GET", f"/{SCRIPT}", known=True)
    assert error.headers["content-type"] == "application/json"


def test_a_forged_name_is_ignored(castle):
    real = castle.browser("ann")
    name = f"{castle.gate.cookie}-name"
    good = real.http.cookies[name]
    other = Gate("another token", 8347).sign("boss")
    body, _, signature = good.partition(".")
    from base64 import urlsafe_b64encode

    boss = urlsafe_b64encode(b"boss").decode().rstrip("=")
    default = castle.browser().get("/api/state")["annotator"]["name"]
    forged = (
        other,
        f"{boss}.{signature}",
        f"{boss}.",
        boss,
        "boss",
        ".",
        "",
        f".{signature}",
        f"{body}.{signature[:-1]}",
        "\u00ff.\u00ff",
        "a.b.c",
        '"',
    )
    for cookie in forged:
        headers = [HOST, ("cookie", f"{castle.cookie}; {name}={cookie}")]
        found = castle.raw("GET", "/api/state", headers).json()["annotator"]
        assert found == {"name": default, "asked": False}, cookie
    headers = [HOST, ("cookie", f"{castle.cookie}; {name}={good}")]
    assert castle.raw("GET", "/api/state", headers).json()["annotator"] == {"name": "ann", "asked": True}


def test_the_cookie_of_the_name_is_kept_from_scripts_too(castle):
    reply = castle.raw("POST", "/api/annotator", [], b'{"name": "ann"}', known=True)
    flags = {part.strip().lower() for part in reply.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict"} <= flags


# --- odd bodies ----------------------------------------------------------------------------------------------------------


def answer_with(more: bytes) -> bytes:
    return b'{"request_id": "request-x", "tab": "t", "items": [0], "class": 0, ' + more + b"}"


def odd_bodies():
    deep = 100_000
    yield "nothing", b""
    yield "no JSON", b"{"
    yield "null", b"null"
    yield "a number", b"5"
    yield "a list", b"[]"
    yield "a text", b'"x"'
    yield "bytes", b"\xff\xfe\x00"
    yield "UTF-16", '{"tab": "a"}'.encode("utf-16")
    yield "mark", b'\xef\xbb\xbf{"tab": "tab-a"}'
    yield "deep list", b"[" * deep + b"]" * deep
    yield "deep object", b'{"a":' * deep + b"1" + b"}" * deep
    yield "deep in a field", b'{"tab": ' + b"[" * deep + b"]" * deep + b"}"
    yield "NaN", answer_with(b'"seconds": NaN')
    yield "infinity", answer_with(b'"seconds": Infinity')
    yield "minus infinity", answer_with(b'"items": [-Infinity]')
    yield "large number", answer_with(b'"items": [1' + b"0" * 4000 + b"]")
    yield "larger number", answer_with(b'"items": [1' + b"0" * 6000 + b"]")
    yield "large power", answer_with(b'"items": [1e400]')
    yield "twice", b'{"tab": "t", "tab": "t", "n": 1, "n": 2}'
    yield "surrogate", b'{"request_id": "request-x", "name": "\\ud800"}'
    yield "surrogate name", b'{"name": "\\ud800"}'
    yield "surrogate tab", b'{"tab": "\\ud800"}'
    yield "surrogate note", answer_with(b'"note": "\\ud800"')
    yield "zero byte", b'{"request_id": "request-x", "name": "a\\u0000b"}'
    yield "prototype", b'{"__proto__": {"tab": "t"}, "constructor": 1}'


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in odd_bodies()])
def test_odd_bodies_are_refused_and_never_break_anything(office, body):
    before = changes(office)
    for method, path in routes(office.app):
        if method != "POST":
            continue
        reply = office.raw("POST", path, [], body, known=True)
        assert reply.error is None
        assert reply.status_code in (200, 400, 409, 422), (path, reply.text)
        if reply.status_code != 200:
            assert error_of(reply)["code"] in ("bad_request", "conflict")
    assert changes(office) == before


def test_a_number_that_is_none_is_not_stored(office, ann):
    ann.next()
    for text in ("NaN", "Infinity", "-Infinity", "1e400"):
        body = json.dumps(ann.answer_body(ann.next()["item"]["id"], 0))[:-1] + f', "seconds": {text}}}'
        cookies = "; ".join(f"{name}={value}" for name, value in ann.http.cookies.items())
        reply = office.raw("POST", "/api/answers", [("cookie", cookies)], body.encode(), known=True)
        assert (reply.status_code, error_of(reply)["code"]) == (422, "bad_request")


def test_a_body_that_is_too_large_is_refused(castle):
    before = castle.dump()
    body = json.dumps(answer_body(castle, note="x" * 1_000_000)).encode()
    reply = castle.raw("POST", "/api/answers", [], body, known=True)
    assert (reply.status_code, error_of(reply)["code"]) == (413, "too_large")
    assert castle.raw("GET", "/api/state", [], b"x" * 1_000_001, known=True).status_code == 413
    assert castle.dump() == before


class Part(bytes):
    """A piece of a body that counts how often it is measured."""

    measured = 0

    def __len__(self):
        Part.measured += 1
        return super().__len__()


def parts_of(*messages):
    left = [*messages, {"type": "http.disconnect"}]

    async def receive():
        return left.pop(0)

    return receive


def test_a_body_of_many_small_parts_is_put_together_once(monkeypatch):
    monkeypatch.setattr(Part, "measured", 0)
    n = 5_000
    parts = [{"type": "http.request", "body": Part(b"x"), "more_body": i < n - 1} for i in range(n)]
    assert asyncio.run(whole_body(parts_of(*parts))) == b"x" * n
    assert Part.measured <= n


def test_a_body_that_breaks_off_is_not_acted_upon(office, ann):
    """Half of a body may be valid, too."""
    before = changes(office)
    body = json.dumps(ann.answer_body(ann.next()["item"]["id"], 1)).encode()
    assert asyncio.run(whole_body(parts_of({"type": "http.request", "body": body, "more_body": True}))) is None
    asked = []
    guard = Guard(lambda *given: asked.append(given), office.gate)
    headers = {"host": HOST[1], "cookie": office.cookie, **dict(POST)}
    scope = {
        **{"type": "http", "scheme": "http", "method": "POST", "path": "/api/answers", "query_string": b""},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    receive = parts_of({"type": "http.request", "body": body, "more_body": True})
    asyncio.run(guard(scope, receive, asked.append))
    assert asked == []
    assert changes(office) == before


def test_unknown_fields_are_refused_everywhere(castle):
    before = castle.dump()
    for method, path in routes(castle.app):
        if method == "POST":
            reply = castle.raw("POST", path, [], b'{"surprise": 1}', known=True)
            assert (reply.status_code, error_of(reply)["code"]) == (422, "bad_request"), path
    assert castle.dump() == before


@pytest.mark.parametrize(
    "query",
    [
        "tab=%00",
        "tab=%ff",
        "tab=" + "x" * 101,
        "tab='%20OR%201=1--",
        "tab=a&tab=b",
        "show=all'--",
        "offset=1;DROP%20TABLE%20event",
        "limit=%F0%9F%A6%89",
        "%",
        "&&&",
        "=",
        "tab[]=1",
    ],
)
def test_odd_questions_never_break_anything(castle, query):
    before = castle.dump()
    for method, path in routes(castle.app):
        if method == "GET":
            reply = castle.raw("GET", f"{path}?{query}", known=True)
            assert reply.error is None
            assert reply.status_code < 500, path
    assert castle.dump() == before


@pytest.mark.parametrize("text", ["'; DROP TABLE answer; --", '"', "\\", "%s", "{0}", "${1}", "\u0000x" * 3])
def test_texts_are_stored_to_the_letter(office, ann, text):
    item = ann.next()["item"]["id"]
    ann.answer(item, 0, note=text)
    assert office.rows("SELECT note FROM answer WHERE item = ?", item) == [(text,)]


def test_no_request_can_take_the_name_of_one_that_the_worker_will_make(castle):
    """Else the worker would find its own round stored already."""
    from pydantic import ValidationError

    from askless.label.web.bodies import Request

    made = [row[0] for row in castle.rows("SELECT request_id FROM event WHERE annotator = 'worker' AND kind = 'round'")]
    assert len(made) == 2
    for name in made:
        with pytest.raises(ValidationError):
            Request(request_id=name)


# --- this computer -------------------------------------------------------------------------------------------------------


def test_the_page_listens_on_this_computer_only():
    import inspect

    from askless.label.web import serve

    assert inspect.signature(serve.serve).parameters["host"].default == "127.0.0.1"
    with free_socket("127.0.0.1", 0) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_gives_the_next_one():
    with free_socket("127.0.0.1", 0) as one:
        port = one.getsockname()[1]
        if port < 65_000:
            with free_socket("127.0.0.1", port) as other:
                assert port < other.getsockname()[1] < port + 50


def test_the_run_is_its_owners_alone(office, prepared):
    assert oct(office.run.folder.stat().st_mode & 0o777) == "0o700"
    for name in ("state.sqlite", "project.toml", "labels.csv", "classes.txt", "skipped.csv"):
        assert oct((prepared / name).stat().st_mode & 0o777) == "0o600", name
    ann = office.browser("ann")
    ann.http.get("/image/0", params={"size": "thumb"})
    thumb = office.run.folder / "cache" / "thumbs" / "0"
    assert oct(thumb.stat().st_mode & 0o777) == "0o600"


# --- a full disk ---------------------------------------------------------------------------------------------------------


class FullDisk:
    """A connection to a database whose disk is full at some statement."""

    def __init__(self, db, at):
        self.db, self.at = db, at

    def execute(self, statement, *values):
        if self.at in statement:
            if statement == "COMMIT":
                self.db.execute("ROLLBACK")  # as SQLite does by itself
            raise sqlite3.OperationalError("database or disk is full")
        return self.db.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self.db, name)


@pytest.mark.parametrize("at", ["BEGIN", "INSERT INTO event", "INSERT OR REPLACE INTO answer", "COMMIT"])
def test_a_full_disk_is_told_and_nothing_is_stored(office, ann, at):
    item = ann.next()["item"]["id"]
    before = office.dump()
    store = office.run.store
    whole = store._writer
    body = ann.answer_body(item, 1)
    store._writer = FullDisk(whole, at)
    error = ann.refused(507, "/api/answers", **body)
    assert error["code"] == "disk_full"
    assert "nothing was stored" in error["message"]
    store._writer = whole
    assert office.dump() == before
    assert ann.post("/api/answers", **body)["repeated"] is False  # once there is room again
    assert office.one("SELECT class FROM answer WHERE item = ?", item) == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/skip", {"tab": "ann-tab", "item": 0}),
        ("/api/undo", {"tab": "ann-tab"}),
        ("/api/redo", {"tab": "ann-tab"}),
        ("/api/classes", {"name": "owl"}),
        ("/api/classes/0/rename", {"name": "owl"}),
        ("/api/classes/0/merge", {"into": 1}),
        ("/api/budget", {"budget": 30}),
        ("/api/train", {}),
        ("/api/settings", {"suggestions": "off"}),
    ],
)
def test_whatever_is_stored_tells_of_a_full_disk(office, ann, path, body):
    if "item" in body:
        body = {**body, "item": ann.next()["item"]["id"]}
    before = office.dump()
    office.run.store._writer = FullDisk(office.run.store._writer, "INSERT INTO event")
    assert ann.refused(507, path, request_id=ann.request(), **body)["code"] == "disk_full"
    assert office.dump() == before


@pytest.mark.parametrize("path", ["/api/next", "/api/grid", "/api/heartbeat", "/api/release"])
def test_whatever_is_leased_tells_of_a_full_disk(office, ann, path):
    before = office.dump()
    office.run.store._lender = FullDisk(office.run.store._lender, "COMMIT")
    assert ann.refused(507, path, tab=ann.tab)["code"] == "disk_full"
    assert office.dump() == before


def test_a_database_that_may_not_grow_is_told_and_nothing_is_stored(office, ann):
    """A true error of SQLite: so many pages and no more."""
    store = office.run.store
    pages = office.one("PRAGMA page_count")
    store._writer.execute(f"PRAGMA max_page_count = {pages}")
    refused = None
    for _ in range(10):
        before = office.dump()
        item = ann.next()["item"]
        reply = ann.send("/api/answers", {**ann.answer_body(item["id"], 0), "note": "x" * 1000})
        if reply.status_code != 200:
            refused = reply
            break
    assert refused is not None
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "disk_full")
    assert changes(office) == {k: v for k, v in before.items() if k != "lease"}
    store._writer.execute("PRAGMA max_page_count = 1000000")
    ann.answer(item["id"], 1)


def test_a_file_that_may_not_grow_is_told_and_nothing_is_stored(office, tmp_path):
    """The same by the system, which lets no file of the process grow, in a process of its own."""
    code = """
    import asyncio, json, resource, sys
    from askless.label.web.app import create_app
    from askless.label.web.guard import Gate
    from askless.run import Run

    run = Run.open(sys.argv[1])
    gate = Gate(run.meta("token"), 8347)
    app = create_app(run, gate)
    headers = [
        (b"host", b"127.0.0.1:8347"), (b"cookie", f"{gate.cookie}={gate.session}".encode()),
        (b"content-type", b"application/json"), (b"x-askless", b"1"),
    ]

    def post(path, body):
        sent, parts = [], [json.dumps(body).encode()]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "method": "POST",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8347),
        }

        async def receive():
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": False}
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        asyncio.run(app(scope, receive, send))
        return sent[0]["status"], json.loads(sent[1]["body"])

    def answers():
        with run.store.look() as db:
            return [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("answer", "event")]

    status, found = post("/api/next", {"tab": "tab-a"})
    assert status == 200, found
    body = {"request_id": "request-1", "tab": "tab-a", "items": [found["item"]["id"]], "class": 0}
    before = answers()
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    status, error = post("/api/answers", body)
    assert (status, error["error"]["code"]) == (507, "disk_full"), (status, error)
    assert answers() == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    status, found = post("/api/answers", body)
    assert status == 200 and found["repeated"] is False, found
    assert answers() == [n + 1 for n in before]
    """
    office.run.close()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(office.run.folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# --- a run that is deleted or replaced while it is served ----------------------------------------------------------------


def take_away(office, how):
    folder = office.run.folder
    if how == "file":
        (folder / "state.sqlite").unlink()
    elif how == "deleted":
        shutil.rmtree(folder)
    else:
        folder.rename(folder.with_name("elsewhere"))
        if how == "replaced":
            shutil.copytree(folder.with_name("elsewhere"), folder)


@pytest.mark.parametrize("how", ["file", "deleted", "moved", "replaced"])
def test_nothing_is_acknowledged_once_the_run_is_gone(office, ann, how):
    item = ann.next()["item"]["id"]
    done = ann.answer_body(item, 1)
    ann.post("/api/answers", **done)
    following = ann.next()["item"]["id"]
    take_away(office, how)
    for path, body in [
        ("/api/answers", ann.answer_body(following, 1)),
        ("/api/answers", done),  # acknowledged before, and lost since
        ("/api/skip", {"request_id": "request-1", "tab": ann.tab, "item": following}),
        ("/api/undo", {"request_id": "request-2", "tab": ann.tab}),
        ("/api/classes", {"request_id": "request-3", "name": "owl"}),
        ("/api/budget", {"request_id": "request-4", "budget": 30}),
        ("/api/train", {"request_id": "request-5"}),
        ("/api/settings", {"request_id": "request-6", "suggestions": "off"}),
        ("/api/next", {"tab": ann.tab}),
    ]:
        error = ann.refused(503, path, **body)
        assert error["code"] == "gone", path
        found = "another one" if how == "replaced" else "nothing"
        assert f"expected the run opened at {office.run.folder}, found {found}" in error["message"]
        assert "not saved" in error["message"]
    assert ann.http.get("/api/state").status_code == 503  # so that the page says it before the next answer


def test_an_answer_is_not_acknowledged_where_the_run_goes_while_it_is_stored(office, ann, monkeypatch):
    body = ann.answer_body(ann.next()["item"]["id"], 1)
    monkeypatch.setattr("askless.label.web.page.answer", lambda *given, **options: take_away(office, "deleted"))
    assert ann.refused(503, "/api/answers", **body)["code"] == "gone"


def test_a_run_that_is_put_back_goes_on(office, ann):
    body = ann.answer_body(ann.next()["item"]["id"], 1)
    take_away(office, "moved")
    ann.refused(503, "/api/answers", **body)
    office.run.folder.with_name("elsewhere").rename(office.run.folder)
    assert ann.post("/api/answers", **body)["repeated"] is False
