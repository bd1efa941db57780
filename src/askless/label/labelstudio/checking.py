"""`askless labelstudio check`: server, token, project, classes, images or texts; what is wrong, and what to do about it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from askless.base.errors import AsklessError, InputError
from askless.base.findings import Finding
from askless.label.labelstudio.batch import INLINE, Images, control_for, what_is_shown
from askless.label.labelstudio.client import Client, LabelStudioError
from askless.label.labelstudio.exchange import (
    SETTINGS,
    choices_for,
    find_project,
    our_tasks,
    shows_guesses,
    title_of,
)
from askless.label.labelstudio.tasks import read_config

if TYPE_CHECKING:
    from askless.run import Run

KINDS = {"legacy": "legacy token", "refresh": "personal access token", "access": "access token"}


def check(run: "Run", client: Client, project: str | None = None, images: Images = INLINE) -> Iterator[Finding]:
    """One finding after the other; nothing is changed, here or there."""
    try:
        client.alive()
        yield Finding("ok", "server", f"{client.url} answers")
        yield token(client)
        found = find_project(client, run, project)
    except AsklessError as error:
        yield Finding("bad", "Label Studio", "cannot be used", str(error))
        return
    if found is None:
        yield Finding(
            "ok", "project", f"no {title_of(run, project)!r} yet", f"askless labelstudio push {run.folder} creates it"
        )
    else:
        yield order(found)
        yield guesses(run, found)
        yield classes(run, found)
    try:
        yield pictures(run, client, found, images)
    except AsklessError as error:
        yield Finding("bad", "images", "cannot be shown", str(error))


def token(client: Client) -> Finding:
    me = client.get("/api/current-user/whoami")
    release = client.get("/api/version").get("release", "unknown")
    text = f"{KINDS[client.kind]} of {me.get('email') or me.get('username')}; Label Studio {release}"
    if client.kind == "access":
        return Finding("warn", "token", f"{text}; it expires within minutes", "use the personal access token instead")
    return Finding("ok", "token", text)


def order(project: dict[str, Any]) -> Finding:
    text = f"{project['id']} {project['title']!r}, {project.get('task_number') or 0} tasks"
    if project.get("sampling") != SETTINGS["sampling"]:
        do = "choose sequential order in the project's settings under Annotation, so that the best come first"
        return Finding("warn", "project", f"{text}, shown in another order: {project.get('sampling')}", do)
    return Finding("ok", "project", text)


def guesses(run: "Run", project: dict[str, Any]) -> Finding:
    wanted, shown = shows_guesses(run), bool(project.get("show_collab_predictions"))
    if wanted and not shown:
        do = "switch predictions on in the project's settings under Annotation, or continue without them"
        return Finding("warn", "guesses", "the run shows the model's predictions, the project does not", do)
    if shown and not wanted:
        return Finding("ok", "guesses", "the project shows predictions, but the run does not send them")
    return Finding("ok", "guesses", "shown to annotators" if shown else "not shown")


def classes(run: "Run", project: dict[str, Any]) -> Finding:
    try:
        control, names = read_config(project["label_config"], control_for(run).tag), choices_for(run)
    except InputError as error:
        return Finding("bad", "classes", "do not fit", str(error))
    missing = [name for name in names if name not in control.choices]
    further = [name for name in control.choices if name not in names]
    text = f"{len(names) - len(missing)} of {len(names)} classes are choices of {control.name!r}"
    if missing:
        return Finding("warn", "classes", f"{text}; missing: {', '.join(missing)}", "nothing: the next push adds them")
    if further:
        do = "remove them in Label Studio, or pull with --add-classes"
        return Finding("warn", "classes", f"{text}; the run lacks {', '.join(further)}", do)
    if not control.single:
        return Finding(
            "warn", "classes", f"{text}; it allows several choices", 'set choice="single" in the configuration'
        )
    return Finding("ok", "classes", text)


def pictures(run: "Run", client: Client, project: dict[str, Any] | None, images: Images) -> Finding:
    """Whether one image or text can be shown: one that is there, else one that would be."""
    control = control_for(run)
    tasks = [] if project is None else our_tasks(client, run, int(project["id"]))
    if tasks:
        assert project is not None
        key = read_config(project["label_config"], control.tag).key
        shown = str(client.get(f"/api/tasks/{tasks[0][0]['id']}", resolve_uri="false")["data"].get(key, ""))
    else:
        waiting = run.waiting()
        shown, _ = what_is_shown(run, run.paths.index(waiting[0]) if waiting else 0, images)
    if run.kind == "texts":
        return Finding("ok", "texts", f"in the tasks; the first: {len(shown):,} characters")
    if shown.startswith("data:"):
        return Finding("ok", "images", f"in the tasks; the first: {len(shown):,} bytes")
    if not tasks:
        return Finding("ok", "images", f"the server would read {shown}", "push, then check again")
    try:
        content, kind = client.fetch(shown)
    except LabelStudioError as error:
        do = (
            "start the server with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT above {run.pictures.root}; the project needs a local storage with "
            "that folder (Settings, Cloud Storage), which push creates"
        )
        return Finding("bad", "images", f"the server does not show {shown} ({error.status})", do)
    if not kind.startswith("image/"):
        return Finding("bad", "images", f"{shown} is {kind or 'of no type'}", "check the document root of the server")
    return Finding("ok", "images", f"{shown}: {len(content):,} bytes of {kind}")
