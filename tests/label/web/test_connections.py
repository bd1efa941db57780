"""Half-sent requests by the hundred, on real sockets: people still get their next item."""

import http.client
import json
import resource
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from askless.label.oracle import PageClient
from askless.label.web.connections import MOST, READ, LimitedProtocol, LimitedServer, Limits, most_connections
from askless.label.web.serve import OPENED, free_socket

HEAD = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BODY = b"POST /api/answers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.01)


def is_closed(sock):
    """Whether the other side has closed a connection; an answer on it is read and forgotten."""
    sock.setblocking(False)
    try:
        while sock.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


@pytest.fixture
def half_sent():
    """`half_sent(port, begun)`: a connection on which something was sent."""
    held = []

    def connect(port, begun=HEAD):
        held.append(socket.create_connection(("127.0.0.1", port), 30))
        held[-1].sendall(begun)
        return held[-1]

    yield connect
    for sock in held:
        sock.close()


@pytest.fixture
def serve_page(make_hall):
    """`serve_page(head=1)`: the page of a run on a socket, under these limits, and uvicorn's server."""
    running = []

    def start(**limits):
        office, sock = make_hall(12), free_socket("127.0.0.1", 0)
        office.port = sock.getsockname()[1]
        office.__post_init__()
        server = LimitedServer(office.app, Limits(**limits))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        running.append((server, thread, sock))
        thread.start()
        until(lambda: server.started)
        return office, server

    yield start
    for server, thread, sock in running:
        server.should_exit = True
        thread.join(30)
        sock.close()


@pytest.fixture
def person():
    """`person(office)`: somebody at the page."""
    clients = []

    def come(office, name="ann"):
        clients.append(PageClient(f"http://127.0.0.1:{office.port}/?token={office.gate.token}", name))
        return clients[-1]

    yield come
    for client in clients:
        client.close()


def test_hundreds_of_half_sent_requests_keep_nobody_out(serve_page, half_sent, person):
    office, server = serve_page(connections=40, head=3600, body=3600)
    ann = person(office)
    held = [half_sent(office.port, (HEAD, BODY, b"")[i % 3]) for i in range(300)]
    bob = person(office, "bob")
    for client in (ann, bob, ann):  # her connection was the oldest, and is opened again
        assert client.label(client.next()["item"]["id"], 0)["ok"]
    assert len(server.server_state.connections) <= 40
    until(lambda: sum(map(is_closed, held)) >= 300 - 40)
    assert office.one("SELECT count(*) FROM answer") == 3


def test_the_connections_that_have_waited_longest_are_closed_first(serve_page, half_sent):
    office, server = serve_page(connections=4, head=3600)
    held = []
    for _ in range(10):
        held.append(half_sent(office.port))
        until(lambda: held[-1].getsockname() in [c.client for c in list(server.server_state.connections)])
    until(lambda: [is_closed(sock) for sock in held] == [True] * 6 + [False] * 4)


def test_who_takes_too_long_over_a_request_is_cut_off(serve_page, half_sent, person):
    office, server = serve_page(head=0.5, body=0.5)
    ann = person(office)
    own = ann.connection.sock
    known = (
        f"Host: 127.0.0.1:{office.port}\r\nCookie: {office.cookie}\r\nContent-Type: application/json\r\nX-Askless: 1"
    )
    body = f"POST /api/next HTTP/1.1\r\n{known}\r\nContent-Length: 100\r\n\r\n".encode()
    chunks = f"POST /api/next HTTP/1.1\r\n{known}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n".encode()
    second = f"GET /api/state HTTP/1.1\r\n{known}\r\n\r\nGET ".encode()  # a whole request, and the half of one
    held = [
        half_sent(office.port, begun) for begun in (b"", HEAD, BODY, body, body + b'{"tab": "tab-b"}', chunks, second)
    ]
    until(lambda: all(is_closed(sock) for sock in held))
    for begun, more in ((HEAD, b"x"), (chunks, b"1\r\n \r\n")):  # never silent for long, and never at the end
        sock = half_sent(office.port, begun)

        def is_cut_off(sock=sock, more=more):
            sock.setblocking(True)
            try:
                sock.sendall(more)
            except ConnectionError:
                return True
            return is_closed(sock)

        until(is_cut_off)
    assert ann.next()["item"] is not None
    assert ann.connection.sock is own  # who is only idle is not in a hurry
    until(lambda: len(server.server_state.connections) == 1)
    assert office.rows("SELECT DISTINCT tab FROM lease") == [(ann.tab,)]  # nothing came of half a body


def test_what_comes_after_a_refusal_is_not_read(serve_page, half_sent):
    office, _ = serve_page(head=3600, body=3600)
    head = f"POST /api/next HTTP/1.1\r\nHost: 127.0.0.1:{office.port}\r\nContent-Length: 1000000000\r\n\r\n".encode()
    sock = half_sent(office.port, head)
    reply = http.client.HTTPResponse(sock)
    reply.begin()
    assert (reply.status, json.loads(reply.read())["error"]["code"]) == (401, "unauthorized")
    until(lambda: is_closed(sock))
    reply.close()


def test_one_connection_is_read_in_small_parts(serve_page, monkeypatch):
    """So that one with a large body, or many small chunks, does not keep the others waiting."""
    sizes, real = [], LimitedProtocol.data_received
    monkeypatch.setattr(
        LimitedProtocol, "data_received", lambda self, data: sizes.append(len(data)) or real(self, data)
    )
    office, _ = serve_page()
    connection = http.client.HTTPConnection("127.0.0.1", office.port, timeout=60)
    headers = {"Cookie": office.cookie, "Content-Type": "application/json", "X-Askless": "1"}
    connection.request("POST", "/api/next", b'{"tab": "tab-a"}' + b" " * 900_000, headers)
    assert connection.getresponse().status == 200
    connection.close()
    assert max(sizes) <= READ


def test_a_body_in_chunks_of_one_byte_is_read(serve_page, half_sent):
    office, _ = serve_page()
    body = json.dumps({"tab": "tab-a"}).encode() + b" " * 5_000
    connection = http.client.HTTPConnection("127.0.0.1", office.port, timeout=60)
    headers = {"Cookie": office.cookie, "Content-Type": "application/json", "X-Askless": "1"}
    chunks = (body[i : i + 1] for i in range(len(body)))
    connection.request("POST", "/api/next", chunks, headers, encode_chunked=True)
    reply = connection.getresponse()
    assert (reply.status, json.loads(reply.read())["code"]) == (200, "ok")
    connection.close()


def test_few_open_files_mean_few_connections(monkeypatch):
    for soft, most in ((1024, 256), (256, 64), (100_000, MOST), (resource.RLIM_INFINITY, MOST), (16, 8)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, soft=soft: (soft, soft))
        assert most_connections() == most


SERVER = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from askless.label.web.serve import Worker, redirect_file, serve
from askless.run import Run

Worker.start = lambda worker: None

def ready(address):
    redirect_file(run.folder, address.url)
    print(address.url, flush=True)

with Run.open(sys.argv[1]) as run:
    serve(run, port=0, ready=ready)
"""


def test_more_half_sent_requests_than_files_that_may_be_open(make_hall, half_sent):
    """The server of `askless start`, in a process that may open 256 files."""
    folder = make_hall(12).run.folder
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        url = process.stdout.readline().strip()
        port = int(url.partition("127.0.0.1:")[2].partition("/")[0])
        held = [half_sent(port, (HEAD, BODY)[i % 2]) for i in range(400)]
        client = PageClient(url, "ann")
        assert client.label(client.next()["item"]["id"], 0)["ok"]
        client.close()
        until(lambda: is_closed(held[0]))
        opened = folder / OPENED
        assert (oct(opened.stat().st_mode & 0o777), url in opened.read_text()) == ("0o600", True)
        process.terminate()
        assert process.communicate(timeout=60)[1] == ""
        assert not opened.exists()  # it has the token
