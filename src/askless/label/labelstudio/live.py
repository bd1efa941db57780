"""A project of Label Studio that follows a run by itself: connected, in our order after every choice, nothing missed."""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from askless.base.errors import AsklessError
from askless.label.labelstudio.backend import PREFIX, Backend
from askless.label.labelstudio.batch import INLINE, Images, control_for
from askless.label.labelstudio.client import Client, LabelStudioError
from askless.label.labelstudio.exchange import (
    BODY,
    Pushed,
    find_project,
    our_tasks,
    pull,
    push,
    shows_guesses,
    user_names,
)
from askless.label.labelstudio.order import order_version, predictions_of
from askless.label.labelstudio.tasks import ITEM, chunks, read_config

TITLE = "askless"
SAMPLING = "Uncertainty sampling"  # the lowest score of the project's model version first
LOOK, AGAIN = 0.5, 5.0  # seconds between looks at the run, and after an error
REFUSED = (
    "Label Studio connects to no model on its own computer unless it was started with ML_BLOCK_LOCAL_IP=false and "
    "SSRF_PROTECTION_ENABLED=false"
)


@dataclass
class Live:
    """`keep` runs in a thread of its own until `ended`."""

    backend: Backend
    client: Client
    project: str | None = None
    images: Images = INLINE

    def keep(self, url: str, ended: threading.Event) -> None:
        """Connects the project to the backend at `url`, and updates it whenever the run has chosen; says each new problem
        once, and tries again."""
        seen, problem = "", ""
        while not ended.is_set():
            wait = LOOK
            try:
                if (version := order_version(self.backend.run)) != seen:
                    pushed = self.update()
                    if not seen:
                        connect(self.client, pushed.project, url)
                        self.backend.say(f"Connected to project {pushed.project} {pushed.title}: {pushed.address}")
                    seen, problem = version, ""
            except (AsklessError, OSError, sqlite3.Error) as error:
                if str(error) != problem:
                    problem = str(error)
                    self.backend.say(problem)
                wait = AGAIN
            ended.wait(wait)

    def update(self) -> Pushed:
        """Pulls what was missed, pushes the batch, and scores all open tasks, under a version that the project then uses."""
        run, client = self.backend.run, self.client
        self.backend.names = user_names(client)
        if find_project(client, run, self.project) is not None:
            pull(run, client, self.project, add_classes=self.backend.add_classes)
        pushed = push(run, client, self.project, self.images, guesses=False)
        version = order_version(run)
        found = client.get(f"/api/projects/{pushed.project}")
        control = read_config(found["label_config"], control_for(run).tag)
        tasks = [
            (each["id"], self.backend.items.get(known[ITEM]))
            for each, known in our_tasks(client, run, pushed.project)
            if not each.get("is_labeled") and version not in versions_of(each)
        ]
        scored = predictions_of(run, [item for _, item in tasks], control, version)
        rows = [{"task": number, **each} for (number, _), each in zip(tasks, scored, strict=True)]
        for part in chunks(rows, BODY):
            client.post(f"/api/projects/{pushed.project}/import/predictions", part)
        settings: dict[str, Any] = {"sampling": SAMPLING, "show_collab_predictions": shows_guesses(run)}
        if rows:  # Label Studio knows a version once it has a prediction of it
            settings["model_version"] = version
        client.patch(f"/api/projects/{pushed.project}", settings)
        return pushed


def versions_of(task: dict[str, Any]) -> set[str]:
    return {str(each.get("model_version")) for each in task.get("predictions") or () if isinstance(each, dict)}


def connect(client: Client, project: int, url: str) -> None:
    """Makes the backend at `url` the project's model, whose webhook Label Studio then adds; removes those of ours that were
    at another address."""
    there = False
    for each in client.get("/api/ml", project=project):
        if each["url"] == url:
            there = True
        elif is_ours(each["url"], url):
            client.delete(f"/api/ml/{each['id']}")
    for each in client.get("/api/webhooks/", project=project):
        if each["url"] != f"{url}/webhook" and is_ours(each["url"], url):
            client.delete(f"/api/webhooks/{each['id']}/")
    if there:
        return
    try:
        client.post("/api/ml", {"project": project, "url": url, "title": TITLE})
    except LabelStudioError as error:
        do = f". {REFUSED}" if error.status == 400 else ""
        raise LabelStudioError(f"{error}{do}", error.status) from None


def is_ours(one: str, url: str) -> bool:
    """Whether it is an address of this run's backend, at whatever port: the secret is the same."""
    return url[url.index(PREFIX) :] in one


def follow(live: Live, url: str) -> Callable[[], None]:
    """Starts to keep the project; what is returned ends that."""
    ended = threading.Event()
    thread = threading.Thread(target=live.keep, args=(url, ended), daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join(3)

    return end
