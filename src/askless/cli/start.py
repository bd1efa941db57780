"""`askless start`: create or resume a run, and serve its page."""

import contextlib
import json
import shlex
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from askless.base.errors import InputError, OptionError
from askless.base.terminal import notes, out, progress_bar
from askless.cli import labelstudio
from askless.cli.files import Track
from askless.report.numbers import many

if TYPE_CHECKING:
    from askless.label.web.serve import Address


def start(
    ctx: typer.Context,
    what: Annotated[
        Path,
        typer.Argument(
            help="A folder of images, a .csv, .tsv or .npz file, texts (.csv, .jsonl, .txt), or an existing run."
        ),
    ],
    classes: Annotated[
        str | None, typer.Option(help="Comma-separated class names, or a .txt file with one per line.")
    ] = None,
    text: Annotated[str, typer.Option(help="Label texts: the column with the texts.", metavar="COLUMN")] = "",
    budget: Annotated[int, typer.Option(help="How many labels you are ready to give.")] = 200,
    strategy: Annotated[str, typer.Option(help="How to choose; see `askless strategies`.")] = "askless",
    net: Annotated[str, typer.Option(help="frozen:BACKBONE, or a network to train from scratch.")] = "",
    weights: Annotated[
        str, typer.Option(help="Weights for frozen:timm/… or frozen:torchvision/…: a file or folder.")
    ] = "",
    learner: Annotated[
        str, typer.Option(help="auto, fixmatch, supervised, mean-teacher, pi-model or label-propagation.")
    ] = "auto",
    steps: Annotated[int, typer.Option(help="Training steps per round.")] = 300,
    check: Annotated[
        float, typer.Option(help="Share of the budget for random check images, which measure the model.")
    ] = 0.2,
    batch: Annotated[int, typer.Option(help="Images per batch.")] = 20,
    size: Annotated[
        int, typer.Option(help="Side in pixels at which the model sees an image; 0 for the network's default.")
    ] = 0,
    to: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the run. Default: NAME-run in this folder, or beside the images."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port of the page. Default: 8347, or the next free one.", min=0, max=65535),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to serve on; any other than 127.0.0.1 opens the page to other computers.")
    ] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report events as JSON lines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the address.")] = False,
    seed: Annotated[int, typer.Option(help="The same seed and answers give the same picks.")] = 0,
    keys: Annotated[str, typer.Option(help='Custom keys, such as "cat=c,dog=d".')] = "",
    annotators: Annotated[int, typer.Option(help="How many people label each image.")] = 1,
    second_opinions: Annotated[
        float, typer.Option(help="Largest share of the budget for second opinions on doubtful labels.")
    ] = 0.0,
    suggestions: Annotated[str, typer.Option(help="Show the model's guess on the page: off, peek or prefill.")] = "off",
    target: Annotated[float, typer.Option(help="Accuracy at which to advise you to stop; 0 for none.")] = 0.0,
    price: Annotated[float, typer.Option(help="Cost of one answer; adds money to the forecast.")] = 0.0,
    labels_from_folders: Annotated[bool, typer.Option(help="Use folder names as classes and known labels.")] = False,
    encoding: Annotated[str, typer.Option(help="Encoding of the table or text files.")] = "utf-8",
    follow_links: Annotated[bool, typer.Option(help="Follow links to files outside the folder.")] = False,
    until_done: Annotated[bool, typer.Option(help="Exit once the budget is used and the report is written.")] = False,
    track: Track = None,
    no_page: Annotated[
        bool,
        typer.Option("--no-page", help="Serve no page: train and choose until labels are needed, then exit."),
    ] = False,
) -> None:
    """Label a folder of images or texts on a page served to this computer. Stop any time; the same command resumes."""
    options: dict[str, Any] = {
        **{"classes": classes, "budget": budget, "strategy": strategy, "net": net, "learner": learner, "steps": steps},
        **{"check": check, "batch": batch, "size": size, "seed": seed, "keys": keys, "annotators": annotators},
        "second_opinions": second_opinions,
        **{"suggestions": suggestions, "target": target, "price": price, "labels_from_folders": labels_from_folders},
        **{"follow_links": follow_links, "weights": weights, "text": text, "encoding": encoding},
        **{"track": track or ()},
    }
    given = [f"--{name.replace('_', '-')}" for name in options if is_given(ctx, name)]
    label(what, to, options, given, Say(as_json, quiet), host, port, no_browser, until_done, no_page)


def is_given(ctx: typer.Context, name: str) -> bool:
    """Whether an option was given on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def label(
    what: Path,
    to: Path | None,
    options: dict[str, Any],
    given: Sequence[str] = (),
    say: "Say | None" = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    no_browser: bool = False,
    until_done: bool = False,
    no_page: bool = False,
) -> None:
    """Create a run with the options of `start`, or resume an existing one, and serve it; `given` names the options that
    an existing run does not use."""
    from askless.label.web.serve import free_socket, served_at
    from askless.run import Run

    say = Say(False, False) if say is None else say
    folder = run_folder(what, to)
    if folder is not None and (url := served_at(folder)) is not None:
        say("served", f"{folder} is already being served: {url}", url=url, run=str(folder))
        open_page(folder, url, no_browser)
        return
    free_socket(host, 0).close()  # whether the host can be served from, before anything is read
    if folder is not None:
        run = Run.open(folder)
        run.store.check_writable()
        if others := other_options(run, options, given):
            leave_unused(run, others, say)
        say("resumed", f"Resuming    {folder}", run=str(folder))
    else:
        run = new_run(what, default_folder(what) if to is None else to, options, say)
    if run.store.journal != "WAL":
        say("note", f"{run.folder} is on a network disk, which makes every answer slower. Keep runs on a local disk.")
    with run:
        if no_page:
            labelstudio.prepare_batch(run)
            waiting = len(run.waiting())
            say(
                "waiting",
                f"Waiting for labels in {run.folder}: {many(waiting, run.noun)}. `askless start` shows them on a page, "
                "`askless labelstudio push` in Label Studio, `askless import` takes a file of path,label",
                run=str(run.folder),
                waiting=waiting,
            )
            return
        serve_run(run, say, host, port, no_browser, until_done)


def other_options(run: Any, options: dict[str, Any], given: Sequence[str]) -> list[str]:
    """The `given` options that differ from those the run was started with."""
    if not given:
        return []
    said = run.settings_by(run_options(options, new=False))
    plain = {option: option.removeprefix("--").replace("-", "_") for option in given}
    return [option for option, name in plain.items() if getattr(said, name) != getattr(run.settings, name)]


def run_options(options: dict[str, Any], new: bool = True) -> dict[str, Any]:
    """The options of the command line as `Run.create` takes them: classes and keys split, no empty net. Keys of a new
    run must be for its classes."""
    from askless.run.settings import read_classes, read_keys

    names = read_classes(options.get("classes"))
    read = {**options, "classes": names, "keys": read_keys(options.get("keys") or "", names if new else None)}
    return {name: value for name, value in read.items() if name != "net" or value}


def leave_unused(run: Any, others: Sequence[str], say: "Say") -> None:
    """Say that a run resumes unchanged; an error if starting again would lose nothing."""
    from askless.run.store.labels import answered_items

    with run.store.look() as db:
        labelled = answered_items(db)
    if not labelled:
        raise OptionError(
            f"{run.folder} was started with another {', '.join(others)}, and nothing is labelled in it yet; delete that "
            "folder to start again, pass --out for a second run, or leave the options out to resume it"
        )
    raised = "; raise the budget on the page" if "--budget" in others else ""
    kept = f"{run.folder} resumes as it was started; {', '.join(others)} not used{raised}; pass --out for a new run"
    say("kept", kept)


def new_run(what: Path, folder: Path, options: dict[str, Any], say: "Say") -> Any:
    from askless.run import Run, Settings

    if not what.exists():
        raise InputError(
            f"{what}: expected a folder of images, a .csv, .tsv or .npz, texts, or a run; nothing is there"
        )
    options = {**run_options(options), "command": command()}
    Settings(source="", **options)  # before anything is read
    if len(names := options["classes"]) == 1:
        say(
            "note",
            f"There is one class so far, {names[0]}. A model needs at least two: press n on the page to add another, or "
            "pass them all with --classes",
        )
    begun = time.perf_counter()
    with progress_bar(f"Indexing {what}", notes) as progress:
        run = Run.create(what, folder, progress=progress, notes=lambda text: say("note", text), **options)
    say_indexed(say, run, what, time.perf_counter() - begun)
    return run


def serve_run(
    run: Any,
    say: "Say",
    host: str,
    port: int | None,
    no_browser: bool,
    until_done: bool,
    opened: Callable[["Address"], None] = lambda address: None,
    around: Callable[[Any, Any], Any] = lambda app, gate: app,
) -> None:
    """Serve until Ctrl+C, and report what happens meanwhile; `opened(address)` is called once the page is there, and
    `around` goes to `serve`."""
    from askless.label.web.serve import LOOPBACK, serve
    from askless.run.store.asking import all_rounds
    from askless.run.store.fits import all_fits, last_fitted

    def ready(address: "Address") -> None:
        say("ready", f"Label here       {address.url}", "bold", url=address.url, run=str(run.folder))
        if host in LOOPBACK:
            say("note", "Serving this computer only. Press Ctrl+C to stop; nothing is lost.")
        else:
            at = address.url_for_others
            text = (
                f"The page is open to other computers, and whoever has the token can label: {at}\n"
                "Traffic is not encrypted: anyone on the network can read the token, the images and the answers. "
                "For encryption, leave --host out and run "
                f"`ssh -L {address.port}:127.0.0.1:{address.port} {socket.gethostname()}` on the other computer, or put a "
                "reverse proxy with TLS in front (docs/label.md, Several people)."
            )
            say("warning", text, "bold red", text=text, url=at)
        open_page(run.folder, address.url, no_browser or say.quiet or say.json)
        opened(address)

    def warn(text: str) -> None:
        say("warning", text, "bold red", text=text)

    with run.store.look() as db:
        fitted = last_fitted(db)
    seen: dict[str, Any] = {"step": "", "fits": -1 if fitted is None else fitted}

    def watch(status: dict[str, Any]) -> bool:
        if status["step"] != seen["step"]:
            seen["step"] = status["step"]
            if status["step"] not in ("waiting", "stopped"):
                say("status", status["problem"] or status["text"], **status)
        with run.store.look() as db:
            new = [fit for fit in all_fits(db).values() if fit.round > seen["fits"]]
            choosing = {made.id - 1: made.seconds for made in all_rounds(db)} if new else {}
        for fit in new:
            seconds = choosing.get(fit.round)
            if seconds is None and status["step"] != "finished":
                break
            seen["fits"] = fit.round
            chosen = "" if seconds is None else f" + {seconds:.1f} s to choose the next batch"
            text = f"Round {fit.round}          {fit.labels} labels: {fit.seconds:.1f} s to train{chosen}"
            facts = {"labels": fit.labels, "train_seconds": fit.seconds, "choose_seconds": seconds}
            say("round", text, round=fit.round, **facts)
        return until_done and bool(status["step"] == "finished" and run.is_finished())

    serve(run, host=host, port=port, ready=ready, watch=watch, warn=warn, around=around)
    if run.is_finished():
        say("stopped", f"Finished. Report: `askless report {run.folder}`", run=str(run.folder))
    else:
        say("stopped", f"Stopped. Resume with: askless start {run.folder}", run=str(run.folder))


def say_indexed(say: "Say", run: Any, what: Path, seconds: float) -> None:
    from askless.run.store.asking import plan
    from askless.run.store.items import count_skipped

    with run.store.look() as db:
        counts, (budget, check) = count_skipped(db), plan(db)
    counted = {"duplicates": ("duplicate", ""), "near_check": (f"nearly the same as a check {run.noun}",) * 2}
    left = " · ".join(many(n, *counted.get(name, (name, name))) for name, n in counts.items() if n)
    aside = f" · {left} (see {run.folder}/skipped.csv)" if left else ""
    n_items = len(run.paths)
    say(
        "indexed",
        f"Indexed          {many(n_items, run.noun)} in {seconds:.1f} s{aside}",
        images=n_items,
        seconds=seconds,
        **counts,
    )
    checks = many(check, f"random check {run.noun}")
    planned = f"budget {budget} = {budget - check} chosen + {checks} · batch {run.settings.batch}"
    say("plan", f"Plan             {planned}", budget=budget, check=check, batch=run.settings.batch)
    say(
        "saved",
        f"Saved in         {run.folder}   (stop any time; `askless start {run.folder}` resumes)",
        run=str(run.folder),
    )


class Say:
    """Reports events, for people or as lines of JSON on standard output."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.json, self.quiet = as_json, quiet

    def __call__(self, event: str, words: str, style: str = "", /, **facts: Any) -> None:
        if self.json:
            print(json.dumps({"event": event, **(facts or {"text": words})}), flush=True)
        elif not self.quiet or event in ("ready", "served", "warning"):
            out.print(words, style=style)


def run_folder(what: Path, to: Path | None) -> Path | None:
    """The existing run that is meant, if any: the path itself, --out, or the default name."""
    from askless.run.settings import read_settings

    if (what / "state.sqlite").exists():
        return what
    folder = default_folder(what) if to is None else to
    if not (folder / "state.sqlite").exists():
        return None
    source = read_settings(folder / "project.toml").source
    if what.resolve() != Path(source):
        raise InputError(
            f"{folder} belongs to {source}; pass --out for another run, or resume it with `askless start {folder}`"
        )
    return folder


def default_folder(what: Path) -> Path:
    """NAME-run here; beside the images if here is among them, because askless never writes to their folder."""
    source = what.resolve()
    folder = Path(f"{source.name if what.is_dir() else what.stem}-run")
    return source.parent / folder if what.is_dir() and folder.resolve().is_relative_to(source) else folder


def open_browser(url: str, not_now: bool) -> None:
    if not not_now:
        with contextlib.suppress(Exception):  # no browser here: the address is printed
            webbrowser.open(url)


def open_page(folder: Path, url: str, not_now: bool) -> None:
    """Open the page through a private file, so that its token appears on no command line."""
    from askless.label.web.serve import redirect_file

    if not not_now:
        with contextlib.suppress(OSError):  # a full disk: the address is printed
            open_browser(redirect_file(folder, url).as_uri(), not_now)


def command() -> str:
    return shlex.join(["askless", *sys.argv[1:]])
