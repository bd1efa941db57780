"""Between a run and Label Studio: push the batch, pull the answers; or the same by files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.base.locks import held
from askless.label.labelstudio.annotations import Taken, take_annotations
from askless.label.labelstudio.batch import INLINE, Images, batch, control_for, nothing_open, tasks_of
from askless.label.labelstudio.client import Client, LabelStudioError
from askless.label.labelstudio.tasks import (
    ITEM,
    RUN,
    Annotation,
    Control,
    annotations_in,
    chunks,
    config_xml,
    fields_of,
    read_config,
    with_choices,
)
from askless.run.store.asking import current_round
from askless.run.store.classes import shown_classes
from askless.run.store.store import get_meta

if TYPE_CHECKING:
    from askless.run import Run

Progress = Callable[[int, int], None]
META = "labelstudio"  # where a run keeps its project: {"url": ..., "project": ...}
BODY = 8 * 2**20  # bytes of tasks in one request
SHORTEST = 3  # characters of a project's title
SETTINGS = {"sampling": "Sequential sampling", "skip_queue": "REQUEUE_FOR_ME", "show_skip_button": True}


def nothing(done: int, total: int) -> None:
    """Where nobody looks."""


class Pushed(NamedTuple):
    """The project by number, title and address; how many tasks are new and were there; notes (path, text); the choices that
    the project's configuration got."""

    project: int
    title: str
    address: str
    new: int
    before: int
    notes: list[tuple[str, str]]
    added_choices: list[str]


# --- push --------------------------------------------------------------------------------------------------------------


def push(
    run: "Run",
    client: Client,
    project: str | None = None,
    images: Images = INLINE,
    progress: Progress = nothing,
    *,
    guesses: bool = True,
) -> Pushed:
    """Puts the current batch into a project, made where it is missing, best first; what is there is not put there again.
    Without `guesses` the tasks come without what the model says."""
    plain = control_for(run)
    with held(run.folder / ".labelstudio.lock", f"another process is pushing {run.folder}; wait for it to finish"):
        names = choices_for(run)
        found = find_project(client, run, project)
        if found is None:
            found = make_project(client, run, project, config_xml(names, plain))
            remember(run, client, int(found["id"]))  # at once: should the rest fail, the next push resumes there
        number = int(found["id"])
        control, added = fit_config(client, found, names, plain.tag)
        there = frozenset(known[ITEM] for _, known in our_tasks(client, run, number))
        guesses = guesses and (shows_guesses(run) or not found.get("show_collab_predictions"))
        asked = batch(run, there, guesses=guesses)
        model = model_version(run)
        tasks, notes = tasks_of(run, asked, images, control, model)
        if images.root is not None:
            ensure_storage(client, number, run)
        done = 0
        for part in chunks(tasks, BODY):
            client.post(f"/api/projects/{number}/import", part)
            done += len(part)
            progress(done, len(tasks))
        if found.get("show_collab_predictions") and any("predictions" in each for each in tasks):
            client.patch(f"/api/projects/{number}", {"model_version": model})
        remember(run, client, number)
    address = f"{client.url}/projects/{number}/data"
    return Pushed(number, str(found["title"]), address, len(tasks), len(there), notes, added)


def model_version(run: "Run") -> str:
    """One name for the guesses of each round of each run: Label Studio keeps guesses apart by it."""
    with run.store.look() as db:
        return f"askless-{str(get_meta(db, 'run'))[:8]}-round-{current_round(db):03d}"


def shows_guesses(run: "Run") -> bool:
    """Whether people are to see what the model says."""
    return bool(run.meta("suggestions") == "prefill")


def choices_for(run: "Run") -> list[str]:
    """The classes that people choose from."""
    with run.store.look() as db:
        names = [c.name for c in shown_classes(db)]
    if not names:
        raise InputError(f"{run.folder}: expected a run with classes, got none; start it with --classes cat,dog")
    return names


def our_tasks(client: Client, run: "Run", project: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The tasks of this run in a project, in its order, each with what it says of its item."""
    name = str(run.meta("run"))
    # Without the data, which may be large; a server that does not know `omit` sends them, and all is well, too.
    listed = client.pages("/api/tasks", "tasks", project=project, fields="all", omit="data")
    told = ((each, fields_of(each)) for each in listed)
    return [(each, known) for each, known in told if known is not None and known.get(RUN) == name]


# --- projects ----------------------------------------------------------------------------------------------------------


def title_of(run: "Run", given: str | None) -> str:
    """The title of a project: the one that was given, or the run's name."""
    name = run.folder.resolve().name
    return given if given is not None else name if len(name) >= SHORTEST else f"askless {name}"


def find_project(client: Client, run: "Run", given: str | None) -> dict[str, Any] | None:
    """The project that is meant: by number or title, else the one of the last push, else one that is called as the run
    and has tasks of it: one that only has the name may be somebody else's."""
    last = run.meta(META, {})
    if given is None and last.get("url") == client.url:
        given = str(last["project"])
    if given is not None and given.isdecimal():
        try:
            found: dict[str, Any] = client.get(f"/api/projects/{given}")
            return found
        except LabelStudioError as error:
            if error.status != 404:
                raise
            raise LabelStudioError(
                f"{client.url} has no project {given} that this token may see; choose another with --project", 404
            ) from None
    title = title_of(run, given)
    named = [p for p in client.pages("/api/projects", title=title) if p["title"] == title]
    if len(named) > 1:
        numbers = ", ".join(str(p["id"]) for p in named)
        raise LabelStudioError(f"{client.url} has {len(named)} projects called {title!r}; choose by number: {numbers}")
    if named and given is None and not our_tasks(client, run, int(named[0]["id"])):
        raise LabelStudioError(
            f"{client.url} has a project {title!r} without tasks of this run; give its number, --project {named[0]['id']}, "
            "to use it anyway, or choose another with --project"
        )
    return named[0] if named else None


def make_project(client: Client, run: "Run", title: str | None, config: str) -> dict[str, Any]:
    """A project that asks in the order of its tasks, lets skipped ones come back, and shows the model's guess only where the
    run does."""
    title = title_of(run, title)
    if len(title) < SHORTEST:
        raise InputError(f"--project: expected a title of at least {SHORTEST} characters, got {title!r}")
    shown = {"show_collab_predictions": shows_guesses(run)}
    options = {"maximum_annotations": run.settings.annotators, **shown, **SETTINGS}
    about = f"Chosen by askless from {run.settings.source}"
    made: dict[str, Any] = client.post(
        "/api/projects", {"title": title, "description": about, "label_config": config, **options}
    )
    return made


def fit_config(client: Client, project: dict[str, Any], names: list[str], tag: str) -> tuple[Control, list[str]]:
    """What the project's configuration has for us, once it has all classes."""
    xml = project["label_config"]
    control = read_config(xml, tag)
    missing = [name for name in names if name not in control.choices]
    if missing:
        client.patch(f"/api/projects/{project['id']}", {"label_config": with_choices(xml, names, tag)})
    return control, missing


def ensure_storage(client: Client, project: int, run: "Run") -> None:
    """The project may read the run's images from the server's disk."""
    folder = run.pictures.root.resolve()
    rows = client.get("/api/storages/localfiles/", project=project)
    if any(folder.is_relative_to(row["path"]) for row in rows if row.get("path")):
        return
    body = {"project": project, "path": str(folder), "title": "askless", "use_blob_urls": True}
    try:
        client.post("/api/storages/localfiles/", body)
    except LabelStudioError as error:
        raise LabelStudioError(
            f"the server cannot read the images at {folder} ({error}); start it with "
            f"LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={folder.parent}, "
            "and pass that folder as --root",
            error.status,
        ) from None


def remember(run: "Run", client: Client, project: int) -> None:
    run.note(META, {"url": client.url, "project": project})


# --- pull --------------------------------------------------------------------------------------------------------------


def pull(run: "Run", client: Client, project: str | None = None, *, add_classes: bool = False) -> Taken:
    """Takes all answers that the run does not have yet."""
    found = find_project(client, run, project)
    if found is None:
        title = title_of(run, project)
        raise LabelStudioError(
            f"{client.url} has no project {title!r}; push to it first, or choose another with --project"
        )
    tasks = [each for each, _ in our_tasks(client, run, int(found["id"]))]
    annotations, _ = annotations_in(tasks, read_config(found["label_config"], control_for(run).tag), user_names(client))
    return take_annotations(run, annotations, add_classes=add_classes)


def user_names(client: Client) -> dict[int, str]:
    """The addresses of the users by number; {} where the token may not see them."""
    try:
        return {int(user["id"]): str(user["email"] or user["username"]) for user in client.pages("/api/users")}
    except LabelStudioError as error:
        if error.status not in (403, 404):
            raise
        return {}


# --- files -------------------------------------------------------------------------------------------------------------


def write_tasks(
    run: "Run", out: Path, images: Images = INLINE, *, overwrite: bool = False, progress: Progress = nothing
) -> tuple[int, list[tuple[str, str]], Path]:
    """The current batch as a file that Label Studio imports, and beside it the labelling configuration (.xml): how many
    tasks, notes (path, text), and where the configuration is."""
    control = control_for(run)
    out = out / "tasks.json" if out.is_dir() else out
    config = out.with_suffix(".xml")
    if out.suffix != ".json":
        raise InputError(f"{out}: expected a name that ends in .json, which Label Studio needs for tasks")
    for path in (out, config):
        if path.exists() and not overwrite:
            raise InputError(f"{path}: the file already exists; pass --overwrite to replace it")
    names = choices_for(run)
    asked = batch(run, guesses=shows_guesses(run))  # nobody knows whether the project will show them: most do
    if not asked:
        raise nothing_open(run)
    tasks, notes = tasks_of(run, asked, images, control, model_version(run), progress)
    write_whole(out, lambda file: file.write(json.dumps(tasks, ensure_ascii=False, indent=1).encode()))
    write_whole(config, lambda file: file.write((config_xml(names, control) + "\n").encode()))
    return len(tasks), notes, config


def read_export(path: Path) -> tuple[list[Annotation], int]:
    """The annotations in a JSON export of Label Studio, and how many of its tasks are not of askless."""
    try:
        return annotations_in(json.loads(path.read_bytes()))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except FileNotFoundError:
        raise InputError(f"{path}: expected Label Studio's JSON export, found nothing there") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected Label Studio's JSON export, got something else ({error})") from None
