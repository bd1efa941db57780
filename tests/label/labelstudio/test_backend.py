"""Label Studio's ML backend protocol over HTTP, with bodies as a real server sends them, and nobody at the other end."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any, NamedTuple

import numpy as np
import pytest

from askless.cli import main
from askless.label.labelstudio import backend as module
from askless.label.labelstudio.backend import Backend, beside, create_backend, place_of
from askless.label.labelstudio.batch import batch
from askless.label.labelstudio.tasks import config_xml
from askless.label.web.app import create_app
from askless.label.web.connections import LimitedServer, Limits
from askless.label.web.guard import Gate
from askless.label.web.serve import free_socket
from askless.run import Run
from askless.run.steps.worker import catch_up

CLASSES = ("red", "green", "blue", "grey")
CONFIG = config_xml(CLASSES)


class Answer(NamedTuple):
    status: int
    body: Any


class Studio:
    """Label Studio's side: requests to the address that its project has."""

    def __init__(self, run: Run, url: str, said: list[str]) -> None:
        self.run, self.url, self.said = run, url, said
        self.number = 0

    def ask(self, verb: str, name: str, body: Any = None) -> Answer:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + name, data, {"Content-Type": "application/json"}, method=verb)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return Answer(reply.status, json.loads(reply.read()))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, json.loads(error.read()))

    def predict(self, tasks: list[Any], config: str = CONFIG) -> list[dict[str, Any]]:
        body = {"tasks": tasks, "project": "3.1763400000", "label_config": config, "params": {"context": None}}
        status, found = self.ask("POST", "/predict", body)
        assert status == 200, found
        return found["results"]

    def task(self, path: str, run: str | None = None) -> dict[str, Any]:
        known = {"askless_item": path, "askless_run": self.run.meta("run") if run is None else run}
        return {"id": 7, "project": 3, "data": {"image": "data:,", **known}, "meta": known}

    def event(self, path: str, name: str | None, action: str = "ANNOTATION_CREATED", **more: Any) -> dict[str, Any]:
        """A webhook's body."""
        self.number += 1
        region = {"from_name": "label", "to_name": "image", "type": "choices", "value": {"choices": [name]}}
        at = f"2026-11-16T15:48:{self.number % 60:02d}.318957Z"
        one = {"id": self.number, "task": 7, "completed_by": 1, "created_at": at, "updated_at": at, "lead_time": 2.5}
        one |= {"result": [] if name is None else [region], "was_cancelled": name is None, **more}
        return {"action": action, "annotation": one, "task": self.task(path), "project": {"label_config": CONFIG}}

    def tell(self, body: Any) -> Answer:
        return self.ask("POST", "/webhook", body)


@pytest.fixture
def connect(shapes, tmp_path):
    """`connect(run options)`: a run whose first batch is chosen, served; with the page beside the backend."""
    ends = []

    def make(add_classes: bool = False, **options: Any) -> Studio:
        run = shapes.start(tmp_path / f"run-{len(ends)}", **options)
        catch_up(run)
        sock = free_socket("127.0.0.1", 0)
        gate, said = Gate("token", sock.getsockname()[1]), []
        app = create_backend(Backend(run, add_classes, said.append, {1: "ann@example.com"}), gate)
        server = LimitedServer(beside(create_app(run, gate), app), Limits())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()

        def end() -> None:
            server.should_exit = True
            thread.join(30)
            run.close()
            sock.close()

        ends.append(end)
        return Studio(run, f"http://127.0.0.1:{gate.port}{place_of(gate)}", said)

    yield make
    for end in ends:
        end()


def answers(run: Run) -> list[tuple[str, str, str]]:
    with run.store.look() as db:
        rows = db.execute(
            "SELECT i.path, a.annotator, c.name FROM answer a JOIN item i ON i.id = a.item "
            "LEFT JOIN class c ON c.id = a.class ORDER BY a.seq"
        )
        return [tuple(row) for row in rows]


def in_order_of_scores(studio: Studio, paths: list[str]) -> list[str]:
    scores = [each["score"] for each in studio.predict([studio.task(path) for path in paths])]
    return [path for _, path in sorted(zip(scores, paths, strict=True))]


# --- what it says ----------------------------------------------------------------------------------------------------


def test_it_is_healthy_and_names_the_version_of_its_order(connect):
    studio = connect()
    for place in ("", "/", "/health"):
        assert studio.ask("GET", place) == (200, {"status": "UP", "model_class": "askless"})
    body = {"project": "3.1763400000", "schema": CONFIG, "hostname": "http://localhost:8080", "access_token": "x"}
    status, found = studio.ask("POST", "/setup", {**body, "extra_params": None})
    assert status == 200
    assert found["model_version"].endswith("-order-001")
    assert studio.ask("GET", "/versions") == (200, {"versions": [found["model_version"]]})
    assert studio.predict([studio.task(studio.run.waiting()[0])])[0]["model_version"] == found["model_version"]


def test_the_lowest_score_is_our_first_rank_and_the_batch_comes_before_the_rest(connect, shapes):
    studio = connect(batch=10)
    asked = [each.path for each in batch(studio.run)]
    paths = sorted(shapes.truth)
    assert in_order_of_scores(studio, paths)[: len(asked)] == asked
    first, rest = studio.predict([studio.task(asked[0]), studio.task(next(p for p in paths if p not in asked))])
    assert first["score"] < 0.5 <= rest["score"]


def test_after_the_batch_come_the_items_of_which_the_model_is_least_sure(connect, shapes):
    studio = connect(batch=8)
    for path in [each.path for each in batch(studio.run)]:
        assert studio.tell(studio.event(path, shapes.truth[path])).status == 200
    catch_up(studio.run)
    asked, predictions = [each.path for each in batch(studio.run)], studio.run.predictions()
    sure = {path: predictions.best(item)[1] for item, path in enumerate(studio.run.paths) if path not in asked}
    rest = in_order_of_scores(studio, sorted(shapes.truth))[len(asked) :]
    assert rest == sorted(sure, key=lambda path: (sure[path], path))


@pytest.mark.parametrize("suggestions", ["off", "prefill"])
def test_guesses_are_in_the_predictions_where_the_run_shows_them_and_never_of_check_images(
    connect, shapes, suggestions
):
    studio = connect(batch=8, suggestions=suggestions)
    for path in [each.path for each in batch(studio.run)]:
        studio.tell(studio.event(path, shapes.truth[path]))
    catch_up(studio.run)
    with studio.run.store.look() as db:
        check = {row[0] for row in db.execute("SELECT path FROM item WHERE split <> 'pool'")}  # and near them
    paths = sorted(shapes.truth)
    shown = {
        path: [region["value"]["choices"] for region in each["result"]]
        for path, each in zip(paths, studio.predict([studio.task(p) for p in paths]), strict=True)
    }
    assert check
    silent = check if suggestions == "prefill" else set(paths)
    assert {path for path, result in shown.items() if not result} == silent
    assert all(result[0][0] in CLASSES for path, result in shown.items() if path not in silent)
    few = studio.predict([studio.task(p) for p in paths], config_xml(["red"]))
    assert {region["value"]["choices"][0] for each in few for region in each["result"]} <= {"red"}


def test_tasks_of_others_come_last_and_are_reported(connect):
    studio = connect()
    ours = studio.task(studio.run.waiting()[0])
    foreign = [
        {"id": 1, "data": {"image": "x.png"}},
        studio.task("nowhere.png"),
        studio.task(ours["data"]["askless_item"], "x"),
    ]
    assert [each["score"] for each in studio.predict([*foreign, ours])][:3] == [1.0, 1.0, 1.0]
    assert studio.said == ["3 of 4 tasks in Label Studio are not of this run; they come last"]


# --- what it hears ---------------------------------------------------------------------------------------------------


def test_an_annotation_is_stored_before_it_is_acknowledged_and_once(connect):
    studio = connect()
    path = studio.run.waiting()[0]
    body = studio.event(path, "red")
    status, found = studio.tell(body)
    assert (status, found["new"]) == (200, 1)
    assert answers(studio.run) == [(path, "ann@example.com", "red")]
    assert studio.tell(body).body["known"] == 1
    body["annotation"] |= {"updated_at": "2026-11-17T00:00:00Z", "completed_by": 1}
    body["annotation"]["result"][0]["value"]["choices"] = ["blue"]
    assert studio.tell({**body, "action": "ANNOTATION_UPDATED"}).body["changed"] == 1
    assert answers(studio.run) == [(path, "ann@example.com", "blue")]
    assert (studio.run.folder / "labels.csv").read_text().count("blue") == 1


def test_several_annotations_at_once_and_a_skip_are_taken(connect):
    studio = connect()
    first, second, third = studio.run.waiting()[:3]
    one, two = studio.event(first, "red"), studio.event(second, "green")
    two["task"]["id"] = two["annotation"]["task"] = 8
    both = {key: [one[key], two[key]] for key in ("annotation", "task")}
    assert studio.tell({"action": "ANNOTATIONS_CREATED", **both}).body["new"] == 2
    assert studio.tell(studio.event(third, None)).body["skipped"] == 1
    assert {path for path, _, _ in answers(studio.run)} == {first, second}


def test_what_does_not_concern_us_is_ignored(connect):
    studio = connect()
    for action in ("TASKS_CREATED", "PROJECT_UPDATED", "ANNOTATIONS_DELETED", None):
        assert studio.tell({"action": action}) == (200, {"status": "ignored", "action": action})
    body = studio.event("x.png", "red")
    body["task"] = {"id": 7, "data": {"image": "theirs.png"}}
    assert studio.tell(body).body == {"status": "ok", "new": 0, "changed": 0, "skipped": 0, "known": 0, "left_out": 1}
    assert answers(studio.run) == []


def test_a_class_that_the_run_does_not_have_is_refused_unless_it_may_be_added(connect):
    studio = connect()
    status, found = studio.tell(studio.event(studio.run.waiting()[0], "violet"))
    assert (status, "violet" in found["error"]["message"]) == (400, True)
    assert answers(studio.run) == []
    assert "violet" in studio.said[0]
    other = connect(add_classes=True)
    assert other.tell(other.event(other.run.waiting()[0], "violet")).body["new"] == 1
    assert [name for _, _, name in answers(other.run)] == ["violet"]


def test_the_last_answer_of_a_batch_makes_a_training_due_and_start_training_does_not_wait_for_it(connect, shapes):
    studio = connect(batch=6)
    asked = [each.path for each in batch(studio.run)]
    for path in asked[:-1]:
        studio.tell(studio.event(path, shapes.truth[path]))
        assert studio.run.next_step(ahead=False) is None
    with_last = studio.event(asked[-1], shapes.truth[asked[-1]])
    assert studio.tell(with_last).status == 200
    assert studio.run.next_step(ahead=False) == "closing"
    catch_up(studio.run)
    for path in [each.path for each in batch(studio.run)][:2]:
        studio.tell(studio.event(path, shapes.truth[path]))
    for verb, body in (("/webhook", {"action": "START_TRAINING", "project": {}}), ("/train", {"annotations": []})):
        open_now = studio.run.next_step(ahead=False) is None
        status, found = studio.ask("POST", verb, body)
        assert (status, found["status"], found["withdrawn"] > 0) == (200, "ok", open_now)
        assert studio.run.next_step(ahead=False) == "closing"
        catch_up(studio.run)
        assert studio.run.next_step(ahead=False) is None


def test_train_takes_the_annotations_that_come_with_it(connect):
    studio = connect()
    path = studio.run.waiting()[0]
    event = studio.event(path, "red")
    tasks = [{**event["task"], "annotations": [event["annotation"]]}]
    status, found = studio.ask("POST", "/train", {"annotations": tasks, "project": "3.1", "label_config": CONFIG})
    assert (status, found["new"]) == (200, 1)
    assert answers(studio.run) == [(path, "ann@example.com", "red")]


def test_the_command_serves_a_run_and_a_whole_batch_of_webhooks_trains_in_the_background(shapes, tmp_path):
    with shapes.start(tmp_path / "run", batch=6) as run:
        catch_up(run)
        command = [sys.executable, "-m", "askless", "labelstudio", "serve", str(run.folder), "--port", "0"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LABEL_STUDIO")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            try:
                url = next(
                    found[1] for line in process.stdout if (found := re.search(r"Label Studio: (http\S+)", line))
                )
                assert re.fullmatch(r"http://127\.0\.0\.1:\d+/labelstudio/[0-9a-f]{32}", url)
                studio = Studio(run, url, [])
                (first,) = studio.ask("GET", "/versions").body["versions"]
                for path in [each.path for each in batch(run)]:
                    assert studio.tell(studio.event(path, shapes.truth[path])).body["new"] == 1
                until = time.monotonic() + 300
                while (now := studio.ask("GET", "/versions").body["versions"]) == [first]:
                    assert time.monotonic() < until, (run.folder / "status.json").read_text()
                    time.sleep(0.1)
                assert now == [first.replace("order-001", "order-002")]
                assert run.predictions() is not None
                process.send_signal(signal.SIGINT)
                assert process.wait(60) == 0
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "expected a run, got none there"),
        (["photos"], "askless start photos --classes cat,dog --no-page"),
        (["rows-run"], "rows of numbers, which Label Studio cannot show"),
        (["run", "--token", "x"], "expected the address of Label Studio"),
        (["run", "--images", "local-files"], "--root go together"),
        (["run", "--host", "256.1.1.1"], "expected a name or address of this computer"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_sentence(shapes, tmp_path, monkeypatch, capsys, words, told):
    monkeypatch.chdir(tmp_path)
    for name in ("LABEL_STUDIO_URL", "LABEL_STUDIO_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "photos").mkdir()
    if words[0] == "run":
        shapes.start(tmp_path / "run").close()
    if words[0] == "rows-run":
        np.savez(tmp_path / "rows.npz", X=np.zeros((8, 4), np.float32))
        Run.create(tmp_path / "rows.npz", tmp_path / "rows-run", classes=("a", "b"), budget=4).close()
    with pytest.raises(SystemExit) as ended:
        main(["labelstudio", "serve", *words])
    assert ended.value.code in (2, 3)
    assert told in " ".join(capsys.readouterr().err.split())


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_nobody_without_the_secret_is_answered(connect):
    studio = connect()
    base, secret = studio.url.rsplit("/", 1)
    body = studio.event(studio.run.waiting()[0], "red")
    for wrong in ("", "x", secret[:-1], secret.upper(), "token", "%00", "é".encode().hex()):
        studio.url = f"{base}/{wrong}"
        assert studio.ask("GET", "/health").status in (401, 404)
        for name in ("/setup", "/predict", "/webhook", "/train"):
            status, found = studio.ask("POST", name, body)
            assert status in (401, 404, 405)
            assert found["error"]["message"]
    assert answers(studio.run) == []
    studio.url = base.removesuffix("/labelstudio")
    for name in ("/health", "/api/state"):
        assert studio.ask("GET", name).status == 401  # the page's own guard


STRANGE = (
    *(b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000),
    b'{"tasks": 3, "action": "ANNOTATION_CREATED", "annotations": 3, "schema": "<View/>"}',
    b'{"tasks": [3], "action": "ANNOTATION_CREATED", "annotation": 3, "annotations": [3], "schema": "<"}',
    b'{"tasks": [{}], "action": "ANNOTATION_UPDATED", "annotation": {}, "task": {}, "annotations": [{}], "schema": "<x/>"}',
    b'{"tasks": [{"data": {"askless_item": []}}], "label_config": 7, "action": [], "schema": "<View></x>"}',
    b'{"action": "ANNOTATION_CREATED", "annotation": {"id": 1, "task": {}, "result": [3]}, "task": {"id": {}, "data":'
    b' {"askless_item": "x"}}, "annotations": [{"data": {"askless_item": "x"}, "annotations": [{"result": [3]}]}]}',
)


def test_whatever_comes_is_answered_with_a_sentence(connect):
    studio = connect()
    for name in ("/setup", "/predict", "/webhook", "/train"):
        for body in STRANGE:
            status, found = studio.ask("POST", name, body)
            assert status in (200, 400), (name, body, found)
            if status == 400:
                assert "expected" in found["error"]["message"]
    assert answers(studio.run) == []


def test_a_configuration_without_choices_is_refused_and_reported(connect):
    studio = connect()
    status, found = studio.ask("POST", "/setup", {"schema": '<View><Text name="t" value="$t"/></View>'})
    assert (status, "found none" in found["error"]["message"]) == (400, True)
    assert studio.said == [found["error"]["message"]]


def test_a_request_that_is_too_large_is_refused(connect, monkeypatch):
    monkeypatch.setattr(module, "MOST", 1000)
    studio = connect()
    status, found = studio.ask("POST", "/predict", {"tasks": [{"data": {"image": "x" * 2000}}]})
    assert (status, "at most 1,000 bytes" in found["error"]["message"]) == (400, True)
