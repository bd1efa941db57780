"""What keeps a project of Label Studio in order, against a list of what a server was asked; the server itself is asked in
tests/label/test_labelstudio_server.py."""

import threading

import pytest

from askless.label.labelstudio import live as module
from askless.label.labelstudio.backend import Backend
from askless.label.labelstudio.client import LabelStudioError
from askless.label.labelstudio.exchange import Pushed
from askless.label.labelstudio.live import Live, connect
from askless.run.steps.worker import catch_up

URL = "http://127.0.0.1:9000/labelstudio/secret"


class Server:
    """In place of a client: what stands at an address, and what was changed."""

    def __init__(self, found, refuses=None):
        self.found, self.refuses, self.done = found, refuses, []

    def get(self, path, **query):
        return self.found[path]

    def post(self, path, body):
        if self.refuses:
            raise self.refuses
        self.done.append(("POST", path, body))

    def delete(self, path):
        self.done.append(("DELETE", path))


def test_a_project_has_one_model_of_the_run_wherever_it_was_served_before():
    old = "http://127.0.0.1:8347/labelstudio/secret"
    theirs = "http://127.0.0.1:8347/labelstudio/another"
    models = [{"id": 1, "url": old}, {"id": 2, "url": theirs}]
    hooks = [{"id": 3, "url": f"{old}/webhook"}, {"id": 4, "url": f"{theirs}/webhook"}]
    server = Server({"/api/ml": models, "/api/webhooks/": hooks})
    connect(server, 5, URL)
    made = ("POST", "/api/ml", {"project": 5, "url": URL, "title": "askless"})
    assert server.done == [("DELETE", "/api/ml/1"), ("DELETE", "/api/webhooks/3/"), made]
    there = Server({"/api/ml": [{"id": 6, "url": URL}], "/api/webhooks/": [{"id": 7, "url": f"{URL}/webhook"}]})
    connect(there, 5, URL)
    assert there.done == []


def test_a_server_that_connects_to_no_local_model_is_explained():
    server = Server({"/api/ml": [], "/api/webhooks/": []}, LabelStudioError("answered 400: blocked", 400))
    with pytest.raises(LabelStudioError, match="ML_BLOCK_LOCAL_IP=false and SSRF_PROTECTION_ENABLED=false"):
        connect(server, 5, URL)


def test_a_problem_is_reported_once_and_tried_again_until_it_is_gone(shapes, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "AGAIN", 0.0)
    said, ended, tries = [], threading.Event(), []
    with shapes.start(tmp_path / "run") as run:
        catch_up(run)
        live = Live(Backend(run, say=said.append), Server({"/api/ml": [], "/api/webhooks/": []}))

        def update():
            tries.append(1)
            if len(tries) < 4:
                raise LabelStudioError("the server does not answer")
            ended.set()
            return Pushed(5, "photos", "http://localhost:8080/projects/5/data", 0, 0, [], [])

        monkeypatch.setattr(live, "update", update)
        live.keep(URL, ended)
    assert len(tries) == 4
    assert said == [
        "the server does not answer",
        "Connected to project 5 photos: http://localhost:8080/projects/5/data",
    ]
