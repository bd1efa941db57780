"""`askless start`, and what goes with a run: status, report, export, import, predict, oracle."""

import contextlib
import csv
import http.client
import json
import shlex
import socket
import sys
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from askless.base.errors import InputError, OptionError, unknown
from askless.base.terminal import notes, out, progress_bar, visible
from askless.cli import files, labelstudio
from askless.cli.doctor import warned_of_damage

EXPORTS = ("csv", "jsonl", "imagefolder", "npz", "parquet", "hf", "datasets", "coco", "labelstudio", "model", "onnx")
RunFolder = Annotated[Path, typer.Argument(help="The folder of a run.", metavar="RUN")]


def start(
    ctx: typer.Context,
    what: Annotated[
        Path,
        typer.Argument(help="A folder of images, a .csv, .tsv or .npz; texts (.csv, .jsonl, .txt files); or a run."),
    ],
    classes: Annotated[str | None, typer.Option(help="Names with commas, or a .txt with one per line.")] = None,
    text: Annotated[str, typer.Option(help="Label texts: the column that has them.", metavar="COLUMN")] = "",
    budget: Annotated[int, typer.Option(help="How many images you are ready to label.")] = 200,
    strategy: Annotated[str, typer.Option(help="One of `askless strategies`.")] = "askless",
    net: Annotated[str, typer.Option(help="frozen:BACKBONE, or a network trained from scratch.")] = "",
    weights: Annotated[str, typer.Option(help="File or folder with those of frozen:timm/… or torchvision/….")] = "",
    learner: Annotated[
        str, typer.Option(help="fixmatch, supervised, mean-teacher, pi-model or label-propagation.")
    ] = "fixmatch",
    steps: Annotated[int, typer.Option(help="Training steps of each round.")] = 300,
    check: Annotated[float, typer.Option(help="Share of the budget for random images that measure the model.")] = 0.2,
    batch: Annotated[int, typer.Option(help="Images that are chosen at a time.")] = 20,
    size: Annotated[int, typer.Option(help="Side in pixels that the model sees; 0: its own choice.")] = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Folder of the run; default: NAME-run here, not among the images.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Where the page is served; default 8347 or the next free one.", min=0, max=65535),
    ] = None,
    host: Annotated[str, typer.Option(help="Other than 127.0.0.1 opens the page to other computers.")] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say what happens as lines of JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the address only.")] = False,
    seed: Annotated[int, typer.Option(help="Same seed and same answers, same picks.")] = 0,
    keys: Annotated[str, typer.Option(help='Keys of your own, as in "cat=c,dog=d".')] = "",
    annotators: Annotated[int, typer.Option(help="How many people label each image.")] = 1,
    suggestions: Annotated[str, typer.Option(help="The model's guess on the page: off, peek or prefill.")] = "off",
    target: Annotated[float, typer.Option(help="Accuracy that is enough; 0: none.")] = 0.0,
    labels_from_folders: Annotated[bool, typer.Option(help="Folders are classes, and known labels.")] = False,
    encoding: Annotated[str, typer.Option(help="Of a table or of files of texts.")] = "utf-8",
    follow_links: Annotated[bool, typer.Option(help="Also read what links out of the folder point at.")] = False,
    until_done: Annotated[bool, typer.Option(help="End when the budget is used and the report written.")] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Where rounds are told of: jsonl:FILE, tensorboard:FOLDER, mlflow:FILE, wandb:PROJECT."),
    ] = None,
    no_page: Annotated[
        bool, typer.Option("--no-page", help="Serve nothing: train and choose until labels are needed, then end.")
    ] = False,
) -> None:
    """Label a folder of images, or texts, on a page of this computer; stop any time, and start again to go on."""
    options: dict[str, Any] = {
        **{"classes": classes, "budget": budget, "strategy": strategy, "net": net, "learner": learner, "steps": steps},
        **{"check": check, "batch": batch, "size": size, "seed": seed, "keys": keys, "annotators": annotators},
        **{"suggestions": suggestions, "target": target, "labels_from_folders": labels_from_folders},
        **{"follow_links": follow_links, "weights": weights, "text": text, "encoding": encoding},
        **{"track": track or ()},
    }
    given = [f"--{name.replace('_', '-')}" for name in options if is_given(ctx, name)]
    label(what, to, options, given, Say(as_json, quiet), host, port, no_browser, until_done, no_page)


def is_given(ctx: typer.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
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
    """Makes a run with the options of `start`, or goes on with the one that is there, and serves it; `given` are the names
    of the options that a run that is there leaves unused."""
    from askless.label.web.serve import free_socket, served_at
    from askless.run import Run

    say = Say(False, False) if say is None else say
    folder = run_folder(what, to)
    if folder is not None and (url := served_at(folder)) is not None:
        say("served", f"{folder} is being served already: {url}", url=url, run=str(folder))
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
        say("note", f"{run.folder} is on a network disk: every answer takes longer. Better keep runs on a local one.")
    with run:
        if no_page:
            labelstudio.catch_up(run)
            waiting = len(run.waiting())
            say(
                "waiting",
                f"{waiting} {run.noun}s wait for labels in {run.folder}: `askless start` shows them on a page, `askless "
                "labelstudio push` in Label Studio, `askless import` takes a file of path,label",
                run=str(run.folder),
                waiting=waiting,
            )
            return
        serve_run(run, say, host, port, no_browser, until_done)


def other_options(run: Any, options: dict[str, Any], given: Sequence[str]) -> list[str]:
    """Those of the `given` options that say something else than the run was started with."""
    if not given:
        return []
    said = run.settings_by(read_options(options, new=False))
    plain = {option: option.removeprefix("--").replace("-", "_") for option in given}
    return [option for option, name in plain.items() if getattr(said, name) != getattr(run.settings, name)]


def read_options(options: dict[str, Any], new: bool = True) -> dict[str, Any]:
    """The options of the command line as `Run.create` takes them: classes and keys in parts, no empty net. Keys of a new run
    are for its classes."""
    from askless.run.settings import read_classes, read_keys

    names = read_classes(options.get("classes"))
    read = {**options, "classes": names, "keys": read_keys(options.get("keys") or "", names if new else None)}
    return {name: value for name, value in read.items() if name != "net" or value}


def leave_unused(run: Any, others: Sequence[str], say: "Say") -> None:
    """Says that a run goes on as it is; an error where nothing would be lost by starting again."""
    with run.store.look() as db:
        labelled = db.execute("SELECT 1 FROM answer LIMIT 1").fetchone() is not None
    if not labelled:
        raise OptionError(
            f"{run.folder} was started with another {', '.join(others)}, and nothing is labelled in it yet; delete that "
            "folder to start again, or pass --out for a run beside it, or leave the options out to go on with it"
        )
    raised = "; the page raises the budget" if "--budget" in others else ""
    kept = f"{run.folder} goes on as it was started; {', '.join(others)} not used{raised}; pass --out for a new run"
    say("kept", kept)


def new_run(what: Path, folder: Path, options: dict[str, Any], say: "Say") -> Any:
    from askless.run import Run, Settings

    if not what.exists():
        raise InputError(
            f"{what}: expected a folder of images, a .csv, .tsv or .npz, texts, or a run; nothing is there"
        )
    options = {**read_options(options), "command": command()}
    Settings(source="", **options)  # before anything is read
    if len(names := options["classes"]) == 1:
        say(
            "note",
            f"{names[0]} is the only class so far; a model needs two: press n on the page to make another",
        )
    begun = time.perf_counter()
    with progress_bar(f"Indexing {what}", notes) as progress:
        run = Run.create(what, folder, progress=progress, notes=lambda text: say("note", text), **options)
    say_indexed(say, run, what, time.perf_counter() - begun)
    return run


def serve_run(run: Any, say: "Say", host: str, port: int | None, no_browser: bool, until_done: bool) -> None:
    """Serves until Ctrl+C, and tells what happens meanwhile."""
    from askless.label.web.serve import LOOPBACK, Address, serve

    def ready(address: Address) -> None:
        say("ready", f"Label here       {address.url}", "bold", url=address.url, run=str(run.folder))
        if host in LOOPBACK:
            say("note", "Serving this computer only. Press Ctrl+C to stop; nothing is lost.")
        else:
            at = address.url_for_others
            text = (
                f"The page is open to other computers, and whoever has the token can label: {at}\n"
                "Traffic is not encrypted: anyone on the network between can read the token, the images and the answers. "
                "For encryption, leave --host out and run "
                f"`ssh -L {address.port}:127.0.0.1:{address.port} {socket.gethostname()}` on the other computer, or put a "
                "reverse proxy with TLS in front (docs/label.md, Several people)."
            )
            say("warning", text, "bold red", text=text, url=at)
        open_page(run.folder, address.url, no_browser or say.quiet or say.json)

    def warn(text: str) -> None:
        say("warning", text, "bold red", text=text)

    with run.store.look() as db:
        fitted = db.execute("SELECT coalesce(max(round), -1) FROM fit").fetchone()[0]
    seen: dict[str, Any] = {"step": "", "fits": fitted}

    def watch(status: dict[str, Any]) -> bool:
        if status["step"] != seen["step"]:
            seen["step"] = status["step"]
            if status["step"] not in ("waiting", "stopped"):
                say("status", status["problem"] or status["text"], **status)
        with run.store.look() as db:
            row = db.execute(
                "SELECT f.round, f.labels, f.seconds, r.seconds AS choosing FROM fit f "
                "LEFT JOIN round r ON r.id = f.round + 1 WHERE f.round > ? ORDER BY f.round LIMIT 1",
                (seen["fits"],),
            ).fetchone()
        if row is not None and (row["choosing"] is not None or status["step"] == "finished"):
            seen["fits"] = row["round"]
            chosen = "" if row["choosing"] is None else f" + {row['choosing']:.1f} s to choose the next batch"
            text = f"Round {row['round']}          {row['labels']} labels: {row['seconds']:.1f} s to train{chosen}"
            facts = {"labels": row["labels"], "train_seconds": row["seconds"], "choose_seconds": row["choosing"]}
            say("round", text, round=row["round"], **facts)
        return until_done and bool(status["step"] == "finished" and run.is_finished())

    serve(run, host=host, port=port, ready=ready, watch=watch, warn=warn)
    if run.is_finished():
        say("stopped", f"Finished. Report: `askless report {run.folder}`", run=str(run.folder))
    else:
        say("stopped", f"Stopped. Go on with: askless start {run.folder}", run=str(run.folder))


def say_indexed(say: "Say", run: Any, what: Path, seconds: float) -> None:
    from askless.run.out.standing import skipped_counts
    from askless.run.store import facts

    with run.store.look() as db:
        counts, (budget, check) = skipped_counts(db), facts.plan(db)
    left = " · ".join(f"{n} {name}" for name, n in counts.items() if n)
    aside = f" · {left} (see {run.folder}/skipped.csv)" if left else ""
    n_items = len(run.paths)
    say(
        "indexed",
        f"Indexed          {n_items:,} {run.noun}s in {seconds:.1f} s{aside}",
        images=n_items,
        seconds=seconds,
        **counts,
    )
    plan = f"budget {budget} = {budget - check} chosen + {check} random check {run.noun}s · batch {run.settings.batch}"
    say("plan", f"Plan             {plan}", budget=budget, check=check, batch=run.settings.batch)
    say(
        "saved",
        f"Saved in         {run.folder}   (stop any time; `askless start {run.folder}` resumes)",
        run=str(run.folder),
    )


class Say:
    """What happens, for people or as lines of JSON on standard output."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self.json, self.quiet = as_json, quiet

    def __call__(self, event: str, words: str, style: str = "", /, **facts: Any) -> None:
        if self.json:
            print(json.dumps({"event": event, **(facts or {"text": words})}), flush=True)
        elif not self.quiet or event in ("ready", "served", "warning"):
            out.print(words, style=style)


def run_folder(what: Path, to: Path | None) -> Path | None:
    """The run that is meant, where there is one: the path itself, --out, or the default name."""
    from askless.run.settings import read_settings

    if (what / "state.sqlite").exists():
        return what
    folder = default_folder(what) if to is None else to
    if not (folder / "state.sqlite").exists():
        return None
    source = read_settings(folder / "project.toml").source
    if what.resolve() != Path(source):
        raise InputError(
            f"{folder} belongs to {source}; pass --out for another run, or go on with it by `askless start {folder}`"
        )
    return folder


def default_folder(what: Path) -> Path:
    """NAME-run here; beside the images where here is among them, for their folder is never written to."""
    source = what.resolve()
    folder = Path(f"{source.name if what.is_dir() else what.stem}-run")
    return source.parent / folder if what.is_dir() and folder.resolve().is_relative_to(source) else folder


def open_browser(url: str, not_now: bool) -> None:
    if not not_now:
        with contextlib.suppress(Exception):  # no browser here: the address is printed
            webbrowser.open(url)


def open_page(folder: Path, url: str, not_now: bool) -> None:
    """Opens the page by a private file, so that its token is in no command line."""
    from askless.label.web.serve import redirect_file

    if not not_now:
        with contextlib.suppress(OSError):  # a full disk: the address is printed
            open_browser(redirect_file(folder, url).as_uri(), not_now)


def command() -> str:
    return shlex.join(["askless", *sys.argv[1:]])


def status(
    folder: RunFolder,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> None:
    """How far a run is: labels, accuracy on the check images with its interval, and whether to go on."""
    from askless.label.web.app import worker_status
    from askless.label.web.serve import served_at
    from askless.run import Run
    from askless.run.out.standing import standing

    with Run.open(folder) as run:
        found = standing(run)
    url = served_at(folder)
    if as_json:
        typer.echo(json.dumps({"run": str(folder), "url": url, "worker": worker_status(folder), **found}))
        return
    progress, measure = found["progress"], found["measure"]
    out.print(f"{folder}: {progress['spent']} of {progress['budget']} labelled")
    out.print(f"Page: {url}" if url else f"Page: not served; run `askless start {folder}`")
    counts = ", ".join(f"{c['name']} {c['count']}" for c in progress["classes"] if not c["hidden"])
    out.print(f"Labels: {counts or 'none yet'}")
    if found["curve"]:
        table = Table("round", "labels", "check accuracy", "95 % interval", "n", "changed", "seconds")
        for p in found["curve"]:
            measured = p["n"] > 0
            table.add_row(
                str(p["round"]),
                str(p["labels"]),
                f"{p['accuracy']:.3f}" if measured else "not measured",
                f"{p['low']:.3f} to {p['high']:.3f}" if measured else "",
                str(p["n"]),
                "" if p["change"] is None else f"{p['change']:.1%}",
                f"{p['seconds']:.1f}",
            )
        out.print(table)
    if measure is None:
        out.print("Accuracy: not measured (no labelled check images, or no model yet)")
    out.print(found["advice"]["text"])


def report(
    folder: RunFolder,
    place: Annotated[Path | None, typer.Option("--out", help="Folder for them; default: the run's.")] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open it.")] = False,
) -> None:
    """Write report.html and report.json, and open the first."""
    from askless.run import Run

    with Run.open(folder) as run, warned_of_damage(run):
        path = run.write_report(place)
    out.print(f"Report: {path}")
    open_browser(path.resolve().as_uri(), no_browser or not out.is_terminal)


def export(
    folder: RunFolder,
    to: Annotated[
        str,
        typer.Option(
            "--to", help="csv, jsonl, imagefolder, npz, parquet, hf, datasets, coco or labelstudio; model or onnx."
        ),
    ],
    place: Annotated[Path, typer.Option("--out", help="File, or folder for imagefolder, hf, datasets, model, onnx.")],
    what: Annotated[str, typer.Option(help="human, or human+model: the model's labels apart, as pseudo.")] = "human",
    min_prob: Annotated[float, typer.Option(help="Least probability of the model's labels.")] = 0.0,
    link: Annotated[str, typer.Option(help="imagefolder: copy, hard or sym.")] = "copy",
    by_split: Annotated[bool, typer.Option(help="imagefolder: folders train and check.")] = False,
    safe_cells: Annotated[
        bool | None,
        typer.Option(help="csv: put ' before cells that a spreadsheet would compute; default: where there are any."),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier export.")] = False,
    images: labelstudio.HowImages = "inline",
    root: labelstudio.Root = None,
    largest: labelstudio.Largest = "512KB",
) -> None:
    """Take the labels elsewhere, or with `--to model` (safetensors) and `--to onnx` the model; for Label Studio the batch
    that is to be labelled."""
    if to not in EXPORTS:
        raise OptionError(unknown("format", to, EXPORTS))
    overwrite = files.may_replace(place, overwrite)
    if to == "labelstudio":
        labelstudio.export_tasks(folder, place, images, root, largest, overwrite)
        return
    from askless.run import Run
    from askless.run.out.taking import export_run

    if to in ("model", "onnx"):
        with (
            Run.open(folder) as run,
            warned_of_damage(run),
            notes.status("writing the model, and comparing it" if to == "onnx" else "writing"),
        ):
            written = run.export_model(place, to=to, overwrite=overwrite)
        out.print(f"Model: {written}; use it by `askless predict {place} FILES`")
        return
    with Run.open(folder) as run, warned_of_damage(run):
        result = export_run(
            run,
            to,
            place,
            what=what,
            min_prob=min_prob,
            link=link,
            by_split=by_split,
            safe_cells=safe_cells,
            overwrite=overwrite,
        )
    for path, reason in result.left_out[:10]:
        notes.print(f"left out: {path}: {reason}")
    if len(result.left_out) > 10:
        notes.print(f"and {len(result.left_out) - 10} more")
    for text in result.notes:
        notes.print(text)
    pseudo = f" and {result.pseudo} of the model" if result.pseudo else ""
    out.print(f"{result.labels} labels{pseudo}: {result.path}")


def import_(
    folder: RunFolder,
    given: Annotated[Path, typer.Argument(help="csv, tsv, jsonl, npz, or a folder with a folder per class.")],
    on_conflict: Annotated[str, typer.Option(help="Where the run has another label: keep, replace or ask.")] = "keep",
    annotator: Annotated[str, typer.Option(help="Whose labels these are.")] = "import",
    from_: Annotated[str, typer.Option("--from", help="labelstudio: its JSON export, answers to what was asked.")] = "",
    add_classes: labelstudio.AddClasses = False,
) -> None:
    """Bring labels in; they cost no budget, but for answers to what the run asked."""
    if from_ == "labelstudio":
        labelstudio.import_export(folder, given, add_classes)
        return
    if from_:
        raise OptionError(f"--from: expected labelstudio, or nothing for other files, got {from_!r}")
    from askless.run import Run
    from askless.run.out.answers import read_answers
    from askless.run.out.taking import import_into

    if on_conflict not in ("keep", "replace", "ask"):
        raise OptionError(f"--on-conflict: expected keep, replace or ask, got {on_conflict!r}")
    answers = read_answers(given)
    with Run.open(folder) as run:
        policy: Any = "replace" if on_conflict == "replace" else "keep"
        result = import_into(run, answers, annotator, policy, add_classes=add_classes)
        kept = result.conflicts
        if on_conflict == "ask" and kept:
            question = "{}: {} in the run, {} in the file. Take the file's?"
            chosen = {c[0] for c in kept if typer.confirm(visible(question.format(*c)))}
            again = import_into(run, [a for a in answers if a.path in chosen], annotator, "replace")
            kept = [c for c in kept if c[0] not in chosen]
            result = result._replace(taken=result.taken + again.taken)
        noun, why = run.noun, skipped_reasons(run.folder)
    out.print(
        f"{result.taken} labels taken, {result.same} known before, {len(kept)} kept as they were, "
        f"{len(result.unknown)} of {noun}s that the run does not have"
    )
    for path, ours, theirs in kept[:10]:
        notes.print(f"kept {ours}: {path} (the file says {theirs})")
    if len(kept) > 10:
        notes.print(f"and {len(kept) - 10} more")
    if kept and on_conflict == "keep":
        notes.print("Pass --on-conflict replace to take the file's, or ask to choose")
    for path in result.unknown[:3]:
        reason = f" ({why[path]})" if path in why else ""
        notes.print(f"not in the run: {path}{reason}")


def skipped_reasons(folder: Path) -> dict[str, str]:
    """Why a file of the source is not in the run, by its path."""
    try:
        with (folder / "skipped.csv").open(newline="", encoding="utf-8") as file:
            return {row["path"]: row["reason"] for row in csv.DictReader(file)}
    except (OSError, KeyError):
        return {}


def predict(
    folder: Annotated[
        Path, typer.Argument(help="The folder of a run or of an exported model, or an .onnx file.", metavar="MODEL")
    ],
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Images, or folders of them; an .npz or .npy for a run on features; tables for one on texts."
        ),
    ],
    to: Annotated[Path | None, typer.Option("--out", help="A .csv; default: print.")] = None,
    probabilities: Annotated[bool, typer.Option(help="Also the probability of every class.")] = False,
    text: Annotated[str, typer.Option(help="The column with the texts, if not as in the run.", metavar="COLUMN")] = "",
    encoding: Annotated[str, typer.Option(help="Of tables or files of texts.")] = "utf-8",
    overwrite: files.Overwrite = False,
) -> None:
    """What a model says of new images or texts: path, label, prob."""
    from askless.models import load
    from askless.sources import UnreadableError

    files.check_writable(to)
    files.may_replace(to, overwrite)
    model = load(folder)
    images: list[tuple[Any, Any]] = []  # what it is called, and what the model takes
    left_out: list[Any] = []  # texts that cannot be read
    noun = "text" if model.kind == "text" else "row" if model.size is None else "image"
    for path in paths:
        if not path.exists():
            kinds = {"text": "a table of texts", "row": "an .npz or .npy file"}
            raise InputError(f"{path}: expected {kinds.get(noun, 'an image or a folder of images')}, nothing is there")
        found, skipped = model.items_in(path, text, encoding)
        images += found
        left_out += skipped
    total = len(images) + len(left_out)
    with contextlib.nullcontext(out) if to is None else files.text_file(to) as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(["path", "label", "prob", *(model.classes_.tolist() if probabilities else ())])
        bad = len(left_out)
        for name, _, reason in left_out:
            notes.print(f"{name}: {reason}")
        with progress_bar("predicting", notes) as progress:
            for i in range(0, len(images), 32):
                rows, good = [], []
                for name, image in images[i : i + 32]:
                    try:
                        rows.append(model.read_item(image))
                        good.append(name)
                    except UnreadableError as error:
                        bad += 1
                        notes.print(f"{name}: {error}")
                for name, probs in zip(good, model.predict_proba(rows), strict=True):
                    best = int(probs.argmax())
                    more = [f"{p:.4f}" for p in probs] if probabilities else []
                    writer.writerow([name, model.classes_[best], f"{probs[best]:.4f}", *more])
                progress(min(i + 32, len(images)), len(images))
        if bad == total:
            raise InputError(f"none of {total} {noun}s could be read" if total else f"no {noun}s were found")
    if bad:
        notes.print(f"{bad} of {total} {noun}s could not be read")
    if to is not None:
        notes.print(f"{total - bad} predictions: {to}")


def oracle(
    folder: RunFolder,
    truth: Annotated[Path, typer.Option(help="The labels: csv, jsonl, npz, or a folder with a folder per class.")],
    pause: Annotated[float, typer.Option(help="Seconds for each answer.", min=0)] = 0.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the page.", min=0)] = 30.0,
) -> None:
    """Answer everything the page asks, from known labels: a rehearsal without a person. Needs `askless start` beside it."""
    from askless.label.oracle import answer_all
    from askless.label.web.serve import served_at
    from askless.run import Run
    from askless.run.out.answers import read_answers

    labels = {a.path: a.label for a in read_answers(truth)}
    with Run.open(folder) as run:
        unknown = [path for path in run.paths if not labels.get(path)]
        if len(unknown) == len(run.paths):
            there = next(iter(labels), "nothing")
            raise InputError(
                f"{truth}: expected labels of the run's {run.noun}s by path, such as {unknown[0]}, got {there}; nothing "
                "would be known, and every answer be unsure"
            )
        if unknown:
            few = f"{len(unknown)} of {len(run.paths)} {run.noun}s are not in {truth}"
            notes.print(f"{few}; where asked, they are answered as unsure")
    until = time.monotonic() + wait
    if served_at(folder) is None:
        notes.print(f"waiting {wait:.0f} s for `askless start {folder}`")
    while (url := served_at(folder)) is None:
        if time.monotonic() > until:
            raise InputError(f"{folder} is not being served; run `askless start {folder}` in another terminal")
        time.sleep(0.1)
    with progress_bar("answering", notes) as progress:
        try:
            given = answer_all(url, labels, progress=progress, pause=pause)
        except (OSError, http.client.HTTPException) as error:
            raise InputError(
                f"the page of {folder} does not answer any more ({error or type(error).__name__}); what was answered is "
                f"kept: run `askless start {folder}`, and this again"
            ) from None
    out.print(f"{given} answers given")
