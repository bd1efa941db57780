"""Label Studio's ML backend protocol: it asks for predictions, and what people annotate arrives by its webhook.

Every answer is JSON. A label is acknowledged once the database has it; Label Studio never sends one a second time, so what
it could not deliver comes with the next pull.
"""

import hmac
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from askless.base.errors import InputError
from askless.label.labelstudio.annotations import take_annotations
from askless.label.labelstudio.batch import control_for
from askless.label.labelstudio.order import order_version, predictions_of
from askless.label.labelstudio.tasks import ITEM, RUN, Control, annotations_in, fields_of, read_config
from askless.label.web.app import add_errors, error_response
from askless.label.web.guard import Gate, whole_body

if TYPE_CHECKING:
    from askless.run import Run

PREFIX = "/labelstudio/"  # before the secret and the name of what is asked
MOST = 2**29  # bytes of a request: tasks come with their images
ANNOTATED = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED")
Json = dict[str, Any]


@dataclass
class Backend:
    """What a run answers Label Studio. `say` tells the person at the terminal; `names` are those of the users by number."""

    run: "Run"
    add_classes: bool = False
    say: Callable[[str], None] = lambda text: None
    names: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def items(self) -> dict[str, int]:
        return {path: item for item, path in enumerate(self.run.paths)}

    @cached_property
    def name(self) -> str:
        return str(self.run.meta("run"))

    def health(self, body: Json) -> Json:
        return {"status": "UP", "model_class": "askless"}

    def setup(self, body: Json) -> Json:
        """Checks that the project's configuration fits the run."""
        self.control_in(body.get("schema"))
        return {"model_version": order_version(self.run)}

    def versions(self, body: Json) -> Json:
        return {"versions": [order_version(self.run)]}

    def predict(self, body: Json) -> Json:
        """A prediction for each task, in their order."""
        tasks = expect(body.get("tasks"), list, "tasks")
        known = [fields_of(expect(task, dict, "a task")) for task in tasks]
        ours = [each if each is not None and each.get(RUN) in (None, "", self.name) else None for each in known]
        items = [None if each is None else self.items.get(each[ITEM]) for each in ours]
        if None in items:
            self.say(f"{items.count(None)} of {len(items)} tasks in Label Studio are not of this run; they come last")
        version = order_version(self.run)
        control = self.control_in(body.get("label_config"))
        return {"results": predictions_of(self.run, items, control, version), "model_version": version}

    def webhook(self, body: Json) -> Json:
        """Stores the annotations that people have made or changed; `START_TRAINING` closes the batch, as Train now does."""
        action = body.get("action")
        if action == "START_TRAINING":
            return self.train({})
        if action not in ANNOTATED:
            return {"status": "ignored", "action": action}
        annotations, tasks = as_list(body.get("annotation")), as_list(body.get("task"))
        by_id = {str(task.get("id")): task for task in tasks}
        given = [(one, by_id.get(str(one.get("task")))) for one in annotations]
        if not annotations or not all(task for _, task in given):
            raise InputError("expected annotations with their tasks, got others; let the webhook send its payload")
        project = body.get("project")
        config = project.get("label_config") if isinstance(project, dict) else None
        return self.take([{**task, "annotations": [one]} for one, task in given if task], config)

    def train(self, body: Json) -> Json:
        """What versions before the webhook send: all annotated tasks. Then the batch is closed, and the worker trains."""
        took = self.take(expect(body.get("annotations", []), list, "annotations"), body.get("label_config"))
        withdrawn = self.run.train_now(f"labelstudio-train-{uuid.uuid4()}", "labelstudio")
        self.say(f"Label Studio asks for a training: {withdrawn} {self.run.noun}s of the batch withdrawn")
        return {**took, "withdrawn": withdrawn}

    # --- what they need ----------------------------------------------------------------------------------------------

    def take(self, tasks: list[Any], config: object) -> Json:
        control = self.control_in(config)
        try:
            found, foreign = annotations_in(tasks, control, self.names)
        except (AttributeError, TypeError, KeyError):  # of another shape somewhere inside
            raise InputError("expected Label Studio's tasks with annotations, got something else") from None
        try:
            taken = take_annotations(self.run, found, add_classes=self.add_classes)
        except InputError as error:
            self.say(str(error))
            raise
        for path, reason in taken.left_out:
            self.say(f"{path}: {reason}")
        if foreign:
            self.say(f"{foreign} annotations of tasks that are not of askless were left out")
        counts = {"new": taken.new, "changed": taken.changed, "skipped": taken.skipped, "known": taken.known}
        return {"status": "ok", **counts, "left_out": len(taken.left_out) + foreign}

    def control_in(self, config: object) -> Control:
        plain = control_for(self.run)
        try:
            return read_config(config, plain.tag) if isinstance(config, str) and config else plain
        except InputError as error:
            self.say(str(error))
            raise


def expect(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"expected {what} as Label Studio sends them, got {type(value).__name__}")
    return value


def as_list(value: Any) -> list[Any]:
    """One or several, as the action says."""
    return [expect(each, dict, "annotations and tasks") for each in (value if isinstance(value, list) else [value])]


# --- over HTTP ---------------------------------------------------------------------------------------------------------


def place_of(gate: Gate) -> str:
    """Where the backend is on the server. The secret stands in the path, for Label Studio's webhook sends no header."""
    return PREFIX + gate.secret_for("labelstudio")


def create_backend(backend: Backend, gate: Gate) -> FastAPI:
    """The application at `place_of(gate)`."""
    secret = place_of(gate).removeprefix(PREFIX)
    app = FastAPI(title="askless for Label Studio", openapi_url=None)
    add_errors(app)

    def add(verb: str, name: str, answer: Callable[[Json], Json]) -> None:
        async def route(given: str, request: Request) -> Response:
            if not hmac.compare_digest(given.encode(), secret.encode()):
                return error_response(401, "unauthorized", "expected the whole address that askless printed")
            return JSONResponse(await run_in_threadpool(answer, await body_of(request)))

        app.add_api_route(f"{PREFIX}{{given}}{name}", route, methods=[verb], response_model=None)

    for name in ("", "/", "/health"):
        add("GET", name, backend.health)
    add("GET", "/versions", backend.versions)
    for post in (backend.setup, backend.predict, backend.webhook, backend.train):
        add("POST", f"/{post.__name__}", post)
    return app


async def body_of(request: Request) -> Json:
    """The JSON object of a request; {} for none."""
    content = await whole_body(request.receive, MOST) or b""
    if len(content) > MOST:
        raise InputError(f"a request has at most {MOST:,} bytes; retrieve predictions for fewer tasks at a time")
    try:
        found = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        raise InputError("expected a body of JSON, got something else") from None
    return dict(expect(found, dict, "an object of fields"))


def beside(page: Any, backend: FastAPI) -> Callable[..., Any]:
    """One application of the two: the page has its own guard, and never sees what goes to the backend."""

    async def either(scope: Any, receive: Any, send: Any) -> None:
        await (backend if scope.get("path", "").startswith(PREFIX) else page)(scope, receive, send)

    return either
