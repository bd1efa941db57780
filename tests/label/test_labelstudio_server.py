"""Label Studio for real: a server of its own, on this computer, with SQLite; `make test-labelstudio` makes and names it."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from askless.cli import main
from askless.label.labelstudio import Client, Images, LabelStudioError, check, pull, push, read_export, take_annotations
from askless.label.labelstudio import client as client_module
from askless.label.labelstudio.batch import batch
from askless.run import Run
from askless.run.steps.worker import catch_up
from askless.run.store.asking import current_round
from askless.run.store.classes import add_class
from askless.run.store.labels import agreed, labels_of_check_items, train_labels

from ..log import replay, stored
from ..texts import reviews, truth_of, write_csv

pytestmark = pytest.mark.labelstudio

LEGACY = "0123456789abcdef0123456789abcdef01234567"
EMAIL, PASSWORD = "ann@example.com", "a-long-password"
STARTING = 900.0  # seconds; it makes its database first: 40 s on an idle machine
PATIENCE = 300.0  # seconds for a training, and what comes with it
COLOURS = ("red", "green", "blue", "grey")


@dataclass
class Server:
    """A running server, as a person with a browser has it: `ask` is not the client under test."""

    url: str
    documents: Path
    refresh: str = ""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Token {LEGACY}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers, method=method)) as reply:
            content = reply.read()
        return json.loads(content) if content else None

    def client(self, token: str = LEGACY) -> Client:
        return Client(self.url, token)

    def tasks(self, project: int) -> list[dict[str, Any]]:
        """As the server lists them, with everything."""
        return self.ask("GET", f"/api/tasks?project={project}&page=1&page_size=1000&fields=all")["tasks"]

    def annotate(self, task: int, name: str | None, about: str = "image", **more: Any) -> int:
        """One person's answer; None cancels."""
        region = {"id": "r1", "from_name": "label", "to_name": about, "type": "choices"}
        result = [] if name is None else [{**region, "value": {"choices": [name]}}]
        body = {"result": result, "was_cancelled": name is None, "lead_time": 2.5, **more}
        return self.ask("POST", f"/api/tasks/{task}/annotations/", body)["id"]

    def reannotate(self, annotation: int, name: str) -> None:
        region = {"id": "r1", "from_name": "label", "to_name": "image", "type": "choices"}
        self.ask("PATCH", f"/api/annotations/{annotation}", {"result": [{**region, "value": {"choices": [name]}}]})

    def label_all(self, project: int, truth: dict[str, str]) -> None:
        for each in self.tasks(project):
            if not each["annotations"]:
                self.annotate(each["id"], truth[each["data"]["askless_item"]])


@pytest.fixture(scope="session")
def studio(tmp_path_factory):
    """The server, started once and ended by its number."""
    executable = os.environ.get("ASKLESS_LABEL_STUDIO")
    if not executable:
        pytest.fail("ASKLESS_LABEL_STUDIO: expected the path of label-studio; `make test-labelstudio` sets it")
    folder = tmp_path_factory.mktemp("label-studio")
    (folder / "documents").mkdir()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    options = f"--no-browser --port {port} --internal-host 127.0.0.1 --username {EMAIL} --password {PASSWORD}"
    command = [executable, "start", *options.split(), "--user-token", LEGACY, "--enable-legacy-api-token"]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "DJANGO", "LABEL_STUDIO"))},
        **{"COLLECT_ANALYTICS": "0", "LATEST_VERSION_CHECK": "0", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""},
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"),  # else it makes folders in the home of the user as well
        **{"ML_BLOCK_LOCAL_IP": "false", "SSRF_PROTECTION_ENABLED": "false"},  # its model is on this computer
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
        "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(folder / "documents"),
    }
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--data-dir", str(folder / "data")],
            **{"stdout": log, "stderr": log, "cwd": folder, "env": environment, "start_new_session": True},
        )
    made = Server(f"http://127.0.0.1:{port}", folder / "documents")
    try:
        wait_for(made.url, process, folder / "log.txt")
        made.refresh = made.ask("POST", "/api/token", {})["token"]
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + STARTING
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"Label Studio did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.5)


@pytest.fixture
def begin(shapes, tmp_path):
    """`begin(...)`: a run whose first batch is chosen, under a name that no other has."""
    runs = []

    def make(**options: Any) -> Run:
        runs.append(shapes.start(tmp_path / f"run-{uuid.uuid4().hex[:8]}", **options))
        catch_up(runs[-1])
        return runs[-1]

    yield make
    for run in runs:
        run.close()


def answers(run):
    with run.store.look() as db:
        assert replay(db) == stored(db)
        rows = db.execute(
            "SELECT i.path, a.annotator, c.name FROM answer a JOIN item i ON i.id = a.item "
            "LEFT JOIN class c ON c.id = a.class ORDER BY a.seq"
        )
        return [tuple(row) for row in rows]


def events(run):
    with run.store.look() as db:
        return db.execute("SELECT count(*) FROM event").fetchone()[0]


def items(tasks):
    return [each["data"]["askless_item"] for each in tasks]


def versions(tasks):
    return {p["model_version"] for each in tasks for p in each["predictions"]}


# --- tokens --------------------------------------------------------------------------------------------------------------


def test_both_kinds_of_token_work(studio, begin):
    run = begin()
    legacy, personal = studio.client(), studio.client(studio.refresh)
    assert (legacy.kind, personal.kind) == ("legacy", "refresh")
    done = push(run, personal)
    studio.annotate(studio.tasks(done.project)[0]["id"], "red")
    assert pull(run, legacy).new == 1
    assert pull(run, personal).known == 1
    texts = [" ".join(f) for token in (legacy, personal) for f in check(run, token) if f.what == "token"]
    assert [EMAIL in text for text in texts] == [True, True]
    assert ["legacy token" in texts[0], "personal access token" in texts[1]] == [True, True]


def test_an_access_token_is_renewed_by_the_server(studio, begin, monkeypatch):
    """As after some minutes: every request then needs a new one."""
    client = studio.client(studio.refresh)
    renewed = []
    ask = client._renewed
    monkeypatch.setattr(client, "_renewed", lambda: renewed.append(1) or ask())
    client.get("/api/projects")
    client.get("/api/projects")
    assert len(renewed) == 1
    monkeypatch.setattr(client_module, "EARLY", 10**9)  # as if it were to end at once
    client._access = ""
    client.get("/api/projects")
    client.get("/api/projects")
    assert len(renewed) == 3
    client._until = time.time() + 3600
    client._access = client._access[:-4] + "AAAA"  # the server refuses it: as after it was started with another key
    client.get("/api/projects")
    assert len(renewed) == 4


@pytest.mark.parametrize("kind", ["legacy", "refresh"])
def test_a_wrong_token_is_told(studio, begin, kind):
    run = begin()
    token = "f" * 40 if kind == "legacy" else studio.refresh[:-6] + "AAAAAA"
    before = events(run)
    for step in (push, pull):
        with pytest.raises(LabelStudioError, match="refuses the") as problem:
            step(run, studio.client(token))
        assert problem.value.status == 401
        assert token not in str(problem.value)
    assert [f.state for f in check(run, studio.client(token))] == ["ok", "bad"]
    assert events(run) == before


# --- push ----------------------------------------------------------------------------------------------------------------


def test_the_order_of_ranks_is_the_order_of_the_tasks(studio, begin):
    run = begin(batch=10)
    asked = [a.path for a in batch(run)]
    done = push(run, studio.client())
    tasks = studio.tasks(done.project)
    assert items(tasks) == asked
    assert [each["id"] for each in tasks] == sorted(each["id"] for each in tasks)
    assert [each["data"]["askless_rank"] for each in tasks] == list(range(1, len(asked) + 1))
    # What the labelling screen gives next is the first, and then the second.
    for path in asked[:2]:
        given = studio.ask("GET", f"/api/projects/{done.project}/next")
        assert given["data"]["askless_item"] == path
        studio.annotate(given["id"], "red")
    again = push(run, studio.client())
    assert (again.new, again.before, again.project) == (0, len(asked), done.project)
    assert len(studio.tasks(done.project)) == len(asked)


def test_each_round_has_its_own_version_of_the_model(studio, begin, shapes):
    run = begin(batch=6)
    done = push(run, studio.client())
    assert versions(studio.tasks(done.project)) == set()
    seen = []
    for number in (2, 3):
        before = len(studio.tasks(done.project))
        studio.label_all(done.project, shapes.truth)
        assert pull(run, studio.client()).left_out == []
        catch_up(run)
        assert push(run, studio.client()).new > 0
        new = studio.tasks(done.project)[before:]
        (version,) = versions(new)
        assert version.endswith(f"-round-{number:03d}")
        seen.append(version)
        with run.store.look() as db:
            check_images = {r[0] for r in db.execute("SELECT i.path FROM item i WHERE i.split = 'check'")}
        for each in new:
            assert len(each["predictions"]) == (0 if each["data"]["askless_item"] in check_images else 1)
        guess = next(each for each in new if each["predictions"])["predictions"][0]
        assert guess["result"][0]["value"]["choices"][0] in COLOURS
        assert 0.2 < guess["score"] <= 1
    assert len(set(seen)) == 2
    # Suggestions are off in the run: the guess is stored, and not shown to whoever labels.
    given = studio.ask("GET", f"/api/projects/{done.project}/next")
    assert given["predictions"] == []


def test_suggestions_are_shown_where_the_run_shows_them(studio, begin, shapes):
    run = begin(batch=6, suggestions="prefill")
    done = push(run, studio.client())
    studio.label_all(done.project, shapes.truth)
    pull(run, studio.client())
    catch_up(run)
    push(run, studio.client())
    given = studio.ask("GET", f"/api/projects/{done.project}/next")
    (guess,) = given["predictions"]
    studio.annotate(given["id"], guess["result"][0]["value"]["choices"][0], parent_prediction=guess["id"])
    assert pull(run, studio.client()).new == 1
    with run.store.look() as db:
        row = db.execute("SELECT suggestion_shown, suggestion, class FROM answer ORDER BY seq DESC LIMIT 1").fetchone()
    assert (row[0], row[1] == row[2]) == ("prefill", True)


def test_an_image_larger_than_the_limit_is_made_smaller(studio, tmp_path):
    folder = tmp_path / "large"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(4):
        size = 1200 if i == 0 else 20
        Image.fromarray(rng.integers(0, 255, (size, size, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    name = tmp_path / f"run-{uuid.uuid4().hex[:8]}"
    with Run.create(folder, name, classes=("a", "b"), budget=4, check=0.0, batch=4, net="frozen:raw", size=16) as run:
        catch_up(run)
        done = push(run, studio.client(), images=Images(largest=50_000))
        assert [(path, text.startswith("scaled down from")) for path, text in done.notes] == [("0.png", True)]
        sizes = {each["data"]["askless_item"]: len(each["data"]["image"]) for each in studio.tasks(done.project)}
        assert len(sizes) == 4
        assert 10_000 < sizes["0.png"] < 50_000 * 4 / 3 + 100


def test_images_are_read_from_the_servers_disk(studio, shapes):
    folder = studio.documents / f"photos-{uuid.uuid4().hex[:6]}"
    for path in list(shapes.truth)[::3]:
        target = folder / Path(path).parent.name / f"é {Path(path).name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((shapes.folder / path).read_bytes())
    with Run.create(
        folder, folder.parent.parent / f"{folder.name}-run", classes=COLOURS, budget=8, net="frozen:raw"
    ) as run:
        catch_up(run)
        here = Images("local-files", studio.documents)
        assert [f.state for f in check(run, studio.client(), images=here)] == ["ok"] * 4
        done = push(run, studio.client(), images=here)
        findings = list(check(run, studio.client(studio.refresh), images=here))
        assert [f.state for f in findings] == ["ok"] * 6
        assert re.search(r"\d+ bytes of image/png", findings[-1].found)
        first = studio.tasks(done.project)[0]["data"]["image"]
        assert first.startswith(f"/data/local-files/?d={folder.name}/")
        (folder / items(studio.tasks(done.project))[0]).unlink()
        gone = list(check(run, studio.client()))[-1]
        assert (gone.what, gone.state, "DOCUMENT_ROOT" in gone.do) == ("images", "bad", True)


def test_a_folder_that_the_server_may_not_read_is_told(studio, begin, shapes):
    run = begin()
    with pytest.raises(LabelStudioError, match="LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT"):
        push(run, studio.client(), images=Images("local-files", shapes.folder.parent))


def test_a_project_of_ones_own_by_number_or_title(studio, begin):
    xml = (
        '<View><Image name="img" value="$photo"/>'
        '<Choices name="kind" toName="img"><Choice value="red"/></Choices></View>'
    )
    title = f"mine {uuid.uuid4().hex[:6]}"
    mine = studio.ask("POST", "/api/projects", {"title": title, "label_config": xml, "sampling": "Uniform sampling"})
    run = begin()
    states = {f.what: (f.state, f.do) for f in check(run, studio.client(), title)}
    assert states["project"][0] == states["classes"][0] == "warn"
    assert "sequential" in states["project"][1]
    done = push(run, studio.client(), str(mine["id"]))
    assert (done.project, done.added_choices) == (mine["id"], ["green", "blue", "grey"])
    task = studio.tasks(mine["id"])[0]
    assert task["data"]["photo"].startswith("data:image/png")
    region = {"id": "r", "from_name": "kind", "to_name": "img", "type": "choices", "value": {"choices": ["grey"]}}
    studio.ask("POST", f"/api/tasks/{task['id']}/annotations/", {"result": [region]})
    assert pull(run, studio.client(), title).new == 1
    assert answers(run) == [(task["data"]["askless_item"], EMAIL, "grey")]
    with pytest.raises(LabelStudioError, match="has no project 99999"):
        push(run, studio.client(), "99999")
    with pytest.raises(LabelStudioError, match="push to it first"):
        pull(run, studio.client(), "no such title")
    studio.ask("POST", "/api/projects", {"title": title, "label_config": xml})
    with pytest.raises(LabelStudioError, match="choose by number"):
        push(run, studio.client(), title)


def test_two_runs_may_share_a_project(studio, begin):
    first, second = begin(), begin(seed=1)
    title = f"shared {uuid.uuid4().hex[:6]}"
    one, two = push(first, studio.client(), title), push(second, studio.client(), title)
    assert one.project == two.project
    assert two.new > 0
    for each in studio.tasks(one.project):
        studio.annotate(each["id"], "red")
    assert (pull(first, studio.client()).new, pull(second, studio.client()).new) == (one.new, two.new)


# --- pull ----------------------------------------------------------------------------------------------------------------


def test_answers_come_back_once_and_cancelled_ones_are_skipped(studio, begin):
    run = begin()
    done = push(run, studio.client())
    tasks = studio.tasks(done.project)
    first = studio.annotate(tasks[0]["id"], "red")
    studio.annotate(tasks[1]["id"], None)
    taken = pull(run, studio.client())
    assert (taken.new, taken.skipped, taken.known, taken.left_out) == (1, 1, 0, [])
    assert answers(run) == [(items(tasks)[0], EMAIL, "red")]
    with run.store.look() as db:
        assert db.execute("SELECT kind FROM event ORDER BY seq DESC LIMIT 2").fetchall()[0][0] in ("skip", "label")
        assert db.execute("SELECT seconds FROM answer").fetchone()[0] == 2.5
        assert (
            db.execute("SELECT path FROM item WHERE id = (SELECT item FROM task WHERE skips = 1)").fetchone()[0]
            == items(tasks)[1]
        )
    before = events(run)
    again = pull(run, studio.client())
    assert (again.new, again.changed, again.skipped, again.known, events(run)) == (0, 0, 0, 2, before)
    studio.reannotate(first, "blue")
    assert pull(run, studio.client()).changed == 1
    assert answers(run) == [(items(tasks)[0], EMAIL, "blue")]
    # What was skipped comes back to the same person in the end, and can be answered then.
    for each in tasks[2:]:
        studio.annotate(each["id"], "grey")
    given = studio.ask("GET", f"/api/projects/{done.project}/next")
    assert given["data"]["askless_item"] == items(tasks)[1]
    studio.annotate(given["id"], "green")
    assert pull(run, studio.client()).new == len(tasks) - 1
    assert (items(tasks)[1], EMAIL, "green") in answers(run)


def test_people_who_disagree_go_to_review(studio, begin):
    run = begin()
    done = push(run, studio.client())
    tasks = studio.tasks(done.project)
    other = studio.ask("POST", "/api/users", {"email": f"{uuid.uuid4().hex[:6]}@example.com", "username": "bo"})["id"]
    studio.annotate(tasks[0]["id"], "red")
    studio.annotate(tasks[0]["id"], "blue", completed_by=other)
    studio.annotate(tasks[1]["id"], "grey")
    studio.annotate(tasks[1]["id"], "grey", completed_by=other)
    studio.annotate(tasks[2]["id"], "red")
    studio.annotate(tasks[2]["id"], "green")  # the same person, twice
    taken = pull(run, studio.client())
    assert (taken.new, sorted(taken.disagree)) == (6, sorted([items(tasks)[0], items(tasks)[2]]))
    with run.store.look() as db:
        conflicts = {run.paths[a.item] for a in agreed(db) if a.conflict}
        labels = {run.paths[i] for i in {**train_labels(db), **labels_of_check_items(db)}}
    assert conflicts == set(taken.disagree)
    assert labels == {items(tasks)[1]}
    before = events(run)
    assert pull(run, studio.client()).disagree == taken.disagree
    assert events(run) == before


def test_a_class_that_is_not_in_the_run_is_named_or_added(studio, begin):
    run = begin()
    done = push(run, studio.client())
    tasks = studio.tasks(done.project)
    xml = studio.ask("GET", f"/api/projects/{done.project}")["label_config"]
    more = xml.replace("</Choices>", '<Choice value="owl" /></Choices>')
    studio.ask("PATCH", f"/api/projects/{done.project}", {"label_config": more})
    studio.annotate(tasks[0]["id"], "owl")
    studio.annotate(tasks[1]["id"], "red")
    finding = next(f for f in check(run, studio.client()) if f.what == "classes")
    assert (finding.state, "owl" in finding.found, "--add-classes" in finding.do) == ("warn", True, True)
    with pytest.raises(Exception, match="owl; its classes are red, green, blue, grey"):
        pull(run, studio.client())
    assert answers(run) == []
    taken = pull(run, studio.client(), add_classes=True)
    assert (taken.new, taken.added_classes) == (2, ["owl"])
    with run.store.change() as db:
        add_class(db, "elk", "ann", "elk")
    assert push(run, studio.client()).added_choices == ["elk"]


def test_two_hundred_items_in_a_sensible_time(studio, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(220):
        Image.fromarray(rng.integers(0, 255, (128, 128, 3), dtype=np.uint8)).save(folder / f"{i:03d}.png")
    name = tmp_path / f"run-{uuid.uuid4().hex[:8]}"
    options = {
        "classes": ("a", "b"),
        "budget": 200,
        "check": 0.0,
        "batch": 200,
        "net": "frozen:raw",
        "size": 8,
        "strategy": "random",
    }
    with Run.create(folder, name, **options) as run:
        catch_up(run)
        begun = time.perf_counter()
        done = push(run, studio.client(studio.refresh))
        pushed = time.perf_counter() - begun
        tasks = studio.tasks(done.project)
        assert items(tasks) == run.waiting()
        assert done.new == 200
        for each in tasks[:40]:
            studio.annotate(each["id"], "a")
        begun = time.perf_counter()
        assert pull(run, studio.client(studio.refresh)).new == 40
        pulled = time.perf_counter() - begun
    print(f"\n200 items: {pushed:.1f} s to push, {pulled:.1f} s to pull", file=sys.stderr)
    assert pushed < 60
    assert pulled < 60


# --- files, and the command line -----------------------------------------------------------------------------------------


def call(capsys, *arguments):
    code = 0
    try:
        main([str(a) for a in arguments])
    except SystemExit as exit_:
        code = exit_.code or 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_file_route_both_ways(studio, begin, shapes, tmp_path, capsys):
    """Our files go in as a person imports them; Label Studio's own JSON export comes back."""
    run = begin()
    assert call(capsys, "export", run.folder, "--to", "labelstudio", "--out", tmp_path / "tasks.json")[0] == 0
    xml = (tmp_path / "tasks.xml").read_text()
    project = studio.ask("POST", "/api/projects", {"title": "by files", "label_config": xml})["id"]
    studio.ask("POST", f"/api/projects/{project}/import", json.loads((tmp_path / "tasks.json").read_text()))
    tasks = studio.tasks(project)
    assert items(tasks) == [a.path for a in batch(run)]
    for each in tasks[1:]:
        studio.annotate(each["id"], shapes.truth[each["data"]["askless_item"]])
    studio.annotate(tasks[0]["id"], None)
    export = studio.ask("GET", f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true")
    (tmp_path / "export.json").write_text(json.dumps(export))
    code, said, _ = call(capsys, "import", run.folder, "--from", "labelstudio", tmp_path / "export.json")
    assert (code, said.splitlines()[0]) == (
        0,
        f"{len(tasks) - 1} labels imported, 0 changed, 1 skipped, 0 known before",
    )
    assert {(path, name) for path, _, name in answers(run)} == {(p, shapes.truth[p]) for p in items(tasks)[1:]}
    before = events(run)
    assert take_annotations(run, read_export(tmp_path / "export.json")[0]).new == 0
    assert pull(run, studio.client(), str(project)).known == len(tasks)  # the other route knows them, too
    assert events(run) == before
    small = studio.ask("GET", f"/api/projects/{project}/export?exportType=JSON_MIN")
    (tmp_path / "min.json").write_text(json.dumps(small))
    code, _, problem = call(capsys, "import", run.folder, "--from", "labelstudio", tmp_path / "min.json")
    assert (code, "not JSON-MIN" in problem) == (3, True)


def test_from_start_to_report_by_the_command_line(studio, shapes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABEL_STUDIO_URL", studio.url)
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", studio.refresh)
    name = f"run-{uuid.uuid4().hex[:8]}"
    options = "--classes red,green,blue,grey --budget 20 --batch 8 --net frozen:raw --size 32 --steps 40"
    assert call(capsys, "start", shapes.folder, "--out", name, *options.split(), "--no-page")[0] == 0
    code, said, _ = call(capsys, "labelstudio", "check", name)
    assert (code, "no '" in said) == (0, True)
    pushes = 0
    while True:
        code, said, problem = call(capsys, "labelstudio", "push", name)
        assert code == 0, problem
        if "The budget is used" in said:
            break
        pushes += 1
        project = int(re.search(r"project (\d+)", said)[1])
        studio.label_all(project, shapes.truth)
        assert call(capsys, "labelstudio", "pull", name)[0] == 0
    assert pushes == 2
    assert call(capsys, "report", name, "--no-browser")[0] == 0
    report = json.loads(Path(name, "report.json").read_text())
    assert report["labels"]["spent"] == 20
    assert [person["name"] for person in report["process"]["people"]] == [EMAIL]
    assert report["measure"]["n"] == 4
    code, said, _ = call(capsys, "labelstudio", "check", name, "--token", "wrong")
    assert (code, "refuses the token" in " ".join(said.split())) == (3, True)


def test_a_batch_can_be_closed(studio, begin, capsys):
    run = begin()
    done = push(run, studio.client())
    tasks = studio.tasks(done.project)
    for place, each in enumerate(tasks[:4]):
        studio.annotate(each["id"], COLOURS[place % 2])
    pull(run, studio.client())
    here = ("--url", studio.url, "--token", LEGACY)
    code, said, _ = call(capsys, "labelstudio", "push", run.folder, *here)
    assert (code, "0 tasks pushed" in said, "--close" in said) == (0, True, True)
    code, said, told = call(capsys, "labelstudio", "push", run.folder, *here, "--close")
    assert (code, "images withdrawn" in told) == (0, True)
    with run.store.look() as db:
        assert current_round(db) == 2
    # What was withdrawn and is answered all the same is not lost.
    studio.annotate(tasks[-1]["id"], "grey")
    assert pull(run, studio.client()).new == 1


def test_a_server_that_is_gone_loses_nothing(studio, begin, monkeypatch):
    run = begin()
    done = push(run, studio.client())
    studio.annotate(studio.tasks(done.project)[0]["id"], "red")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        gone = Client(f"http://127.0.0.1:{sock.getsockname()[1]}", LEGACY)
    for step in (push, pull):
        with pytest.raises(LabelStudioError, match="does not answer"):
            step(run, gone)
    assert [f.state for f in check(run, gone)] == ["bad"]
    # Gone in the middle: the first part is there, the rest comes with the next push, in its order.
    second = begin(seed=3)
    monkeypatch.setattr("askless.label.labelstudio.exchange.BODY", 1500)
    client, sent = studio.client(), []
    post = client.post

    def fail_later(path, body, **query):
        sent.append(path)
        if len(sent) > 3:
            raise LabelStudioError("gone")
        return post(path, body, **query)

    asked = [a.path for a in batch(second)]
    monkeypatch.setattr(client, "post", fail_later)
    with pytest.raises(LabelStudioError, match="gone"):
        push(second, client)
    rest = push(second, studio.client())
    assert 0 < rest.new < len(asked)
    assert items(studio.tasks(rest.project)) == asked
    assert pull(run, studio.client()).new == 1


def test_a_project_that_only_has_the_name_of_the_run_is_left_alone(studio, begin):
    run = begin()
    config = '<View><Image name="i" value="$i"/><Choices name="c" toName="i"><Choice value="x"/></Choices></View>'
    theirs = studio.ask("POST", "/api/projects", {"title": run.folder.name, "label_config": config})
    with pytest.raises(LabelStudioError, match="without tasks of this run"):
        push(run, studio.client())
    assert studio.tasks(theirs["id"]) == []
    done = push(run, studio.client(), str(theirs["id"]))
    assert (done.project, len(done.added_choices)) == (theirs["id"], 4)
    # Label Studio shows predictions in a project that was not told otherwise; the run does not.
    found = {f.what: f.found for f in check(run, studio.client())}
    assert found["guesses"] == "the project shows predictions, but the run does not send them"
    pull(run, studio.client())


# --- as its model --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(run, studio):
    """`askless labelstudio serve` in a process of its own; gives what it prints, line by line."""
    command = [sys.executable, "-m", "askless", "labelstudio", "serve", str(run.folder), "--url", studio.url]
    environment = {**os.environ, "LABEL_STUDIO_API_KEY": studio.refresh, "PYTHONUNBUFFERED": "1", "COLUMNS": "500"}
    with (run.folder / "said.txt").open("wb") as said:
        process = subprocess.Popen([*command, "--port", "0"], stdout=said, stderr=said, env=environment)
    try:
        yield lambda: (run.folder / "said.txt").read_text()
        assert process.poll() is None, (run.folder / "said.txt").read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def until(look, told):
    """What `look` finds once it finds something."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, told()
        time.sleep(0.2)
    return found


def test_its_own_interface_asks_in_our_order_and_labels_arrive_by_webhook(studio, begin, shapes):
    run = begin(batch=6, suggestions="prefill")
    with served(run, studio) as said:
        project = int(until(lambda: re.search(r"Connected to project (\d+)", said()), said)[1])
        (model,) = studio.ask("GET", f"/api/ml?project={project}")
        assert (model["readable_state"], model["title"]) == ("Connected", "askless")
        assert studio.ask("GET", f"/api/ml/{model['id']}/versions")["versions"] == [model["model_version"]]
        for number in (1, 2):
            settings = in_order(studio, project, number, said)
            assert settings["sampling"] == "Uncertainty sampling"
            asked = [a.path for a in batch(run)]
            for path in asked:  # each is the lowest score that is left
                given = studio.ask("GET", f"/api/projects/{project}/next")
                assert given["data"]["askless_item"] == path
                guesses = [p["result"] for p in given["predictions"]]
                assert guesses == [[]] if number == 1 or is_check(run, path) else guesses[0][0]["type"] == "choices"
                studio.annotate(given["id"], shapes.truth[path])
                arrived(run, path, shapes.truth[path], said)
        in_order(studio, project, 3, said)
        # A task without predictions: Label Studio asks for them when it is opened.
        other = next(path for path in shapes.truth if path not in items(studio.tasks(project)))
        data = {"image": "data:,", "askless_item": other, "askless_run": run.meta("run")}
        studio.ask("POST", f"/api/projects/{project}/import", [{"data": data}])
        number = next(each["id"] for each in studio.tasks(project) if each["data"]["askless_item"] == other)
        (own,) = studio.ask("GET", f"/api/tasks/{number}")["predictions"]
        assert own["score"] >= 0.5
        assert own["model_version"].endswith("order-003")
        # Start training closes the batch, and the next one comes.
        studio.ask("POST", f"/api/ml/{model['id']}/train")
        in_order(studio, project, 4, said)
    # What was annotated meanwhile comes when it is served again, at another port, and there is one model still.
    last = studio.ask("GET", f"/api/projects/{project}/next")
    studio.annotate(last["id"], "red")
    assert last["data"]["askless_item"] not in [path for path, _, _ in answers(run)]
    with served(run, studio) as said:
        arrived(run, last["data"]["askless_item"], "red", said)
        until(lambda: "Connected to project" in said(), said)
        (again,) = studio.ask("GET", f"/api/ml?project={project}")
        assert again["readable_state"] == "Connected"
        hooks = [each["url"] for each in studio.ask("GET", f"/api/webhooks/?project={project}")]
        assert hooks == [f"{again['url']}/webhook"]


def in_order(studio, project, number, said):
    """The project's settings, once it has the order of this round."""

    def look():
        found = studio.ask("GET", f"/api/projects/{project}")
        return found if str(found["model_version"]).endswith(f"-order-{number:03d}") else None

    return until(look, said)


def arrived(run, path, name, said):
    """Label Studio tells us before it answers; only a slow machine makes this wait."""
    until(lambda: (path, EMAIL, name) in answers(run), said)


def is_check(run, path):
    with run.store.look() as db:
        return db.execute("SELECT split FROM item WHERE path = ?", (path,)).fetchone()[0] == "check"


# --- texts ---------------------------------------------------------------------------------------------------------------


def test_texts_from_push_to_the_budgets_end(studio, tmp_path):
    made = [*reviews(60), ('<b>lovely & great</b>\n\n"quoted" \u00fc', "pos")]
    table = write_csv(tmp_path / "reviews.csv", ["review"], [[text] for text, _ in made])
    options = {"classes": ("pos", "neg"), "budget": 16, "check": 0, "batch": 8, "steps": 20, "learner": "supervised"}
    run = Run.create(table, tmp_path / f"texts-{uuid.uuid4().hex[:8]}", text="review", **options)
    with run:
        texts = dict(zip(run.paths, run.texts().values(), strict=True))
        for _ in range(2):
            catch_up(run)
            states = {f.what: f.state for f in check(run, studio.client())}
            assert states["texts"] == "ok"
            done = push(run, studio.client())
            tasks = studio.tasks(done.project)
            assert [each["data"]["text"] for each in tasks] == [texts[path] for path in items(tasks)]
            for each in tasks:
                if not each["annotations"]:
                    studio.annotate(each["id"], truth_of(each["data"]["text"]), about="text")
            taken = pull(run, studio.client())
            assert (taken.new, pull(run, studio.client()).new) == (8, 0)
        catch_up(run)
        assert run.is_finished()
        assert len(tasks) == 16
        assert {path: name for path, _, name in answers(run)} == {path: truth_of(texts[path]) for path in items(tasks)}
