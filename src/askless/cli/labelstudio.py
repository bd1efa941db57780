"""`askless labelstudio`: serve, or check, push and pull; and what `export --to` and `import --from labelstudio` do."""

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from askless.base.errors import BusyError, InputError, OptionError
from askless.base.terminal import notes, out, progress_bar
from askless.cli import files
from askless.cli.doctor import show_findings, warned_of_damage
from askless.cli.files import RunFolder
from askless.report.numbers import many

if TYPE_CHECKING:
    from askless.label.labelstudio import Client, Images, Taken
    from askless.run import Run


labelstudio_app = typer.Typer(
    help="Label in Label Studio: serve as its model, or check the connection, push the batch and pull the answers.",
    no_args_is_help=True,
)

KEY = "LABEL_STUDIO_API_KEY"
Url = Annotated[
    str | None,
    typer.Option(help="Address of Label Studio. Default: LABEL_STUDIO_URL, or the address of the last push."),
]
Token = Annotated[str | None, typer.Option(help=f"Personal access token or legacy token; setting {KEY} is safer.")]
Project = Annotated[
    str | None, typer.Option(help="Project number or title. Default: the project of the last push, or the run's name.")
]
HowImages = Annotated[
    str,
    typer.Option("--images", help="inline (sent with the tasks), or local-files (the server reads them below --root)."),
]
Root = Annotated[Path | None, typer.Option(help="The server's LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT.")]
Largest = Annotated[str, typer.Option(help="With inline: scale down images of more bytes.")]
AddClasses = Annotated[bool, typer.Option("--add-classes", help="Add classes that the run does not have.")]


@labelstudio_app.command()
def check(
    folder: RunFolder,
    url: Url = None,
    token: Token = None,
    project: Project = None,
    images: HowImages = "inline",
    root: Root = None,
) -> None:
    """Check server, token, project, classes and data, and say what to do. Changes nothing."""
    from askless.label import labelstudio
    from askless.run import Run

    with Run.open(folder) as run:
        show_findings(labelstudio.check(run, client(run, url, token), project, images_of(images, root)))


@labelstudio_app.command()
def push(
    folder: RunFolder,
    url: Url = None,
    token: Token = None,
    project: Project = None,
    images: HowImages = "inline",
    root: Root = None,
    largest: Largest = "512KB",
    close: Annotated[
        bool, typer.Option("--close", help="Withdraw the open items of the batch and choose the next one.")
    ] = False,
) -> None:
    """Train on the answers, choose the next batch, and add it to the project, best first."""
    from askless.label import labelstudio
    from askless.run import Run

    how = images_of(images, root, largest)
    with Run.open(folder) as run:
        at = client(run, url, token)
        at.alive()  # before a training, not after it
        if close:
            withdrawn = run.train_now(f"labelstudio-close-{uuid.uuid4()}", "labelstudio")
            notes.print(f"{withdrawn} {run.noun}s withdrawn; they may be chosen again")
        prepare_batch(run)
        with progress_bar("pushing", notes) as progress:
            done = labelstudio.push(run, at, project, how, progress)
        tell_notes(done.notes)
        if done.added_choices:
            notes.print(f"Choices added: {', '.join(done.added_choices)}")
        before = f"; {done.before} were already there" if done.before else ""
        out.print(f"{done.new} tasks pushed to project {done.project} {done.title}{before}")
        out.print(f"Label here: {done.address}")
        waiting = len(run.waiting())
        if done.new:
            out.print(f"Then: askless labelstudio pull {folder}")
        elif run.is_finished():
            out.print(f"The budget is used. Report: `askless report {folder}`")
        else:
            out.print(
                f"{waiting} {run.noun}s still need an answer. Pull again once they are labelled, or push with --close "
                "to continue without them."
            )


@labelstudio_app.command()
def pull(
    folder: RunFolder,
    url: Url = None,
    token: Token = None,
    project: Project = None,
    add_classes: AddClasses = False,
) -> None:
    """Fetch the answers that the run does not have yet. Repeating it adds nothing."""
    from askless.label import labelstudio
    from askless.run import Run

    with Run.open(folder) as run:
        with notes.status("pulling"):
            taken = labelstudio.pull(run, client(run, url, token), project, add_classes=add_classes)
        tell_taken(taken)
        waiting = len(run.waiting())
    left = f"{waiting} still wait for an answer" if waiting else "all answered"
    out.print(f"{left}. Then: askless labelstudio push {folder}")


@labelstudio_app.command()
def serve(
    what: Annotated[Path, typer.Argument(help="A run, or the folder that it was started on.", metavar="RUN_OR_FOLDER")],
    url: Url = None,
    token: Token = None,
    project: Project = None,
    images: HowImages = "inline",
    root: Root = None,
    largest: Largest = "512KB",
    add_classes: AddClasses = False,
    host: Annotated[
        str, typer.Option(help="Address to serve on; any but 127.0.0.1 opens it to other computers.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="Port. Default: the last one, 8347 or the next free one.", min=0, max=65535)
    ] = None,
) -> None:
    """Be the model of a Label Studio project: order its tasks, predict, store annotations as they are made, and train.

    With a token, askless sets up the project and updates it after every round. Without one, connect the printed address
    under the project's Settings, Model.
    """
    from askless.cli.start import Say, run_folder, serve_run
    from askless.label.labelstudio.backend import Backend, beside, create_backend, place_of
    from askless.label.labelstudio.batch import control_for
    from askless.label.labelstudio.live import Live, follow
    from askless.label.web.guard import Gate
    from askless.label.web.serve import LOOPBACK, Address
    from askless.run import Run

    folder = run_folder(what, None)
    if folder is None:
        raise InputError(
            f"{what}: expected a run, got none there; `askless start {what} --classes cat,dog --no-page` makes one"
        )
    how, ends = images_of(images, root, largest), []
    with Run.open(folder) as run:
        at = client(run, url, token) if token or os.environ.get(KEY) else None
        control_for(run)
        backend = Backend(run, add_classes, notes.print)

        def opened(address: Address) -> None:
            base = address.url if host in LOOPBACK else address.url_for_others
            place = base.partition("/?")[0] + place_of(Gate(address.token, address.port))
            out.print(f"Model for Label Studio: {place}")
            if at is None:
                out.print(f"Connect it in the project's Settings, Model; with {KEY} set, askless does")
            else:
                ends.append(follow(Live(backend, at, project, how), place))

        try:
            serve_run(
                run, Say(False, False), host, port, True, False, opened,
                lambda page, gate: beside(page, create_backend(backend, gate)),
            )  # fmt: skip
        finally:
            for end in ends:
                end()


# --- what the file route uses too ----------------------------------------------------------------------------------------


def export_tasks(folder: Path, place: Path, images: str, root: Path | None, largest: str, overwrite: bool) -> None:
    """`askless export --to labelstudio`."""
    from askless.label import labelstudio
    from askless.run import Run

    how = images_of(images, root, largest)
    with Run.open(folder) as run, warned_of_damage(run), progress_bar("writing", notes) as progress:
        count, told, config = labelstudio.write_tasks(run, place, how, overwrite=overwrite, progress=progress)
    tell_notes(told)
    out.print(f"{count} tasks: {config.with_suffix('.json')}")
    out.print(f"Labelling configuration: {config}")


def import_export(folder: Path, given: Path, add_classes: bool) -> None:
    """`askless import --from labelstudio`."""
    from askless.label import labelstudio
    from askless.run import Run

    annotations, foreign = labelstudio.read_export(given)
    with Run.open(folder) as run:
        tell_taken(labelstudio.take_annotations(run, annotations, add_classes=add_classes))
    if foreign:
        notes.print(f"{foreign} tasks are not from askless")


def prepare_batch(run: "Run") -> None:
    """Run the steps before the next batch can be pushed: embedding, training, choosing."""
    from askless.run.steps.worker import catch_up

    with progress_bar("preparing", notes) as bar:
        try:
            catch_up(run, lambda step, text, done, total: bar(done, total, text))
        except BusyError as error:
            notes.print(f"{error}; pushing what it has chosen")


def client(run: "Run", url: str | None, token: str | None) -> "Client":
    from askless.label.labelstudio import Client

    last: dict[str, Any] = run.meta("labelstudio", {})
    url = url or os.environ.get("LABEL_STUDIO_URL") or last.get("url")
    if not url:
        raise OptionError(
            "--url: expected the address of Label Studio, such as http://localhost:8080; or set LABEL_STUDIO_URL"
        )
    token = token or os.environ.get(KEY)
    if not token:
        raise OptionError(f"--token: expected a token from Account & Settings in Label Studio; or set {KEY}")
    return Client(url, token)


def images_of(how: str, root: Path | None, largest: str = "512KB") -> "Images":
    from askless.label.labelstudio import Images

    return Images(how, root, files.read_bytes(largest))  # type: ignore[arg-type]


def tell_notes(told: list[tuple[str, str]]) -> None:
    for path, text in told[:10]:
        notes.print(f"{path}: {text}")
    if len(told) > 10:
        notes.print(f"and {len(told) - 10} more")


def tell_taken(taken: "Taken") -> None:
    unasked = f" ({taken.unasked} for items the run did not ask for, which cost no budget)" if taken.unasked else ""
    out.print(
        f"{many(taken.new, 'label')} imported{unasked}, {taken.changed} changed, {taken.skipped} skipped, "
        f"{taken.known} known before"
    )
    if taken.added_classes:
        out.print(f"New classes: {', '.join(taken.added_classes)}")
    if taken.disagree:
        out.print(
            f"{len(taken.disagree)} to review, as answers disagree; the model trains on none of them until one is chosen:"
        )
        tell_notes([(path, "disagreement") for path in taken.disagree])
    tell_notes(taken.left_out)
