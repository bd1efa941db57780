"""The commands on a run: status, report, export, import, predict, oracle."""

import contextlib
import csv
import http.client
import json
import time
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.table import Table

from askless.base.errors import InputError, OptionError, unknown
from askless.base.terminal import notes, out, progress_bar, visible
from askless.cli import files, labelstudio
from askless.cli.doctor import warned_of_damage
from askless.cli.files import RunFolder
from askless.cli.labelstudio import tell_notes
from askless.cli.start import open_browser
from askless.report.numbers import many

EXPORTS = (
    "csv",
    "jsonl",
    "imagefolder",
    "npz",
    "parquet",
    "hf",
    "datasets",
    "coco",
    "labelstudio",
    "cvat",
    "model",
    "onnx",
)


def status(
    folder: RunFolder,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    price: Annotated[float | None, typer.Option(help="Cost of one answer, in place of the run's.")] = None,
) -> None:
    """Show the labels, the accuracy on the check images with its interval, and whether to continue."""
    from askless.label.web.page import worker_status
    from askless.label.web.serve import served_at
    from askless.run import Run
    from askless.run.out.claims import in_a_sentence
    from askless.run.out.gather import account_of
    from askless.run.out.outlook import in_words
    from askless.run.settings import check_price

    if price is not None:
        check_price(price)
    with Run.open(folder) as run:
        account = account_of(run, price)
    url = served_at(folder)
    if as_json:
        about = {"run": str(folder), "url": url, "worker": worker_status(folder)}
        typer.echo(json.dumps({**about, **account.as_json()}))
        return
    progress = account.progress
    out.print(f"{folder}: {progress.spent} of {many(progress.budget, 'answer')} given")
    out.print(f"Page: {url}" if url else f"Page: not served; run `askless start {folder}`")
    counts = ", ".join(f"{c.name} {c.count}" for c in progress.classes if not c.hidden)
    out.print(f"Labels: {counts or 'none yet'}")
    if account.curve:
        table = Table("round", "labels", "check accuracy", "probably between", "checked", "changed", "seconds")
        for p in account.curve:
            table.add_row(
                str(p.round),
                str(p.labels),
                f"{p.accuracy:.3f}" if p.n else "not measured",
                f"{p.low:.3f} and {p.high:.3f}" if p.n else "",
                str(p.n),
                "" if p.change is None else f"{p.change:.1%}",
                f"{p.seconds:.1f}",
            )
        out.print(table)
    if account.measure is None:
        out.print("Accuracy: not measured (no labelled check images, or no model yet)")
    for text in in_words(account.outlook):
        out.print(text)
    if sum(not c.hidden for c in progress.classes) == 1:
        out.print("There is one class so far. A model needs at least two: add another on the page with New class (n)")
    out.print(account.advice.text)
    if account.training:
        out.print(account.training)
    for said in map(in_a_sentence, account.claims):
        out.print(said)
    if account.doubtful:
        out.print(f"Doubtful labels: {account.doubtful}; check them on the page, under Review")
    differ = account.disagreements
    if differ.open:
        told = f"{differ.open} open, {differ.without_majority} of them without a majority"
        out.print(f"Disagreements: {told}; decide them on the page, under Review")


def report(
    folder: RunFolder,
    place: Annotated[
        Path | None, typer.Option("--out", help="Folder for both files. Default: the run's folder.")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the report.")] = False,
) -> None:
    """Write report.html and report.json, and open the report."""
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
            "--to",
            help="csv, jsonl, imagefolder, npz, parquet, hf, datasets, coco, labelstudio or cvat; or model or onnx.",
        ),
    ],
    place: Annotated[
        Path, typer.Option("--out", help="File to write; a folder for imagefolder, hf, datasets, cvat, model and onnx.")
    ],
    what: Annotated[
        str, typer.Option(help="human, or human+model to add the model's labels (marked as pseudo).")
    ] = "human",
    min_prob: Annotated[float, typer.Option(help="Minimum probability of the model's labels.")] = 0.0,
    link: Annotated[str, typer.Option(help="With imagefolder: copy, hard or sym(bolic) links.")] = "copy",
    by_split: Annotated[bool, typer.Option(help="With imagefolder: write separate folders train and check.")] = False,
    accepted: Annotated[
        bool, typer.Option(help="Include labels accepted under Sort (marked in the column kind).")
    ] = True,
    safe_cells: Annotated[
        bool | None,
        typer.Option(
            help="With csv: put ' before cells that a spreadsheet would compute. Default: only if there are any."
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier export.")] = False,
    final: Annotated[bool, typer.Option(help="With model or onnx: train on the check labels too.")] = False,
    images: labelstudio.HowImages = "inline",
    root: labelstudio.Root = None,
    largest: labelstudio.Largest = "512KB",
) -> None:
    """Export the labels in another format, the model (`--to model`, `--to onnx`), or the batch for Label Studio or CVAT."""
    if to not in EXPORTS:
        raise OptionError(unknown("format", to, EXPORTS))
    if final and to not in ("model", "onnx"):
        raise OptionError(f"final: works with --to model or --to onnx only, got {to}; leave it out")
    overwrite = files.may_replace(place, overwrite)
    if to == "labelstudio":
        labelstudio.export_tasks(folder, place, images, root, largest, overwrite)
        return
    if to == "cvat":
        export_cvat(folder, place, overwrite)
        return
    from askless.run import Run
    from askless.run.out.export import export_run

    if to in ("model", "onnx"):
        with (
            Run.open(folder) as run,
            warned_of_damage(run),
            notes.status("training the final model" if final else "writing and comparing the model"),
        ):
            written = run.export_model(place, to=to, overwrite=overwrite, final=final)
        out.print(f"Model: {written}; use it with `askless predict {place} FILES`")
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
            accepted=accepted,
            safe_cells=safe_cells,
            overwrite=overwrite,
        )
    tell_notes([(f"left out: {path}", reason) for path, reason in result.left_out])
    for text in result.notes:
        notes.print(text)
    pseudo = f" and {result.pseudo} of the model" if result.pseudo else ""
    out.print(f"{many(result.labels, 'label')}{pseudo}: {result.path}")


def export_cvat(folder: Path, place: Path, overwrite: bool) -> None:
    from askless.label.cvat import IMAGES, LABELS, MANIFEST, write_task
    from askless.run import Run

    with Run.open(folder) as run, warned_of_damage(run), progress_bar("writing", notes) as progress:
        written = write_task(run, place, overwrite=overwrite, progress=progress)
    tell_notes(written.notes)
    out.print(f"{many(written.images, 'image')} in rank order: {place}")
    out.print(f"In CVAT make a task: paste {LABELS} under Raw, select {IMAGES} and {MANIFEST}, sort by Predefined")


def import_(
    folder: RunFolder,
    given: Annotated[
        Path, typer.Argument(help="A csv, tsv, jsonl, npz or parquet file, or a folder with one folder per class.")
    ],
    on_conflict: Annotated[str, typer.Option(help="If the run has another label: keep, replace or ask.")] = "keep",
    annotator: Annotated[str, typer.Option(help="Name of the person who gave these labels.")] = "import",
    from_: Annotated[str, typer.Option("--from", help="labelstudio: its JSON export; cvat: CVAT for images 1.1.")] = "",
    add_classes: labelstudio.AddClasses = False,
    as_: Annotated[
        str,
        typer.Option("--as", help="Import predictions under this name, such as gpt: measured, not used as labels."),
    ] = "",
    accept: Annotated[
        float,
        typer.Option(help="With --as: accept those predictions of which at least this share is right, such as 0.95."),
    ] = 0.0,
) -> None:
    """Import labels. They cost no budget, except for answers to what the run asked. With `--as NAME`, import predictions
    and measure them."""
    if as_:
        import_predictions(folder, given, as_, accept)
        return
    if accept:
        raise OptionError(f"--accept: works with --as NAME only, got {accept} without a name; add --as NAME")
    if from_ == "labelstudio":
        labelstudio.import_export(folder, given, add_classes)
        return
    if from_ not in ("", "cvat"):
        raise OptionError(f"--from: expected labelstudio or cvat, or nothing for other files, got {from_!r}")
    from askless.run import Run
    from askless.run.out.answers import import_into, read_answers
    from askless.run.store.items import skipped_files

    if on_conflict not in ("keep", "replace", "ask"):
        raise OptionError(f"--on-conflict: expected keep, replace or ask, got {on_conflict!r}")
    with Run.open(folder) as run:
        if from_ == "cvat":
            from askless.label.cvat import read_tags

            answers, told = read_tags(given, run)
            tell_notes(told)
        else:
            answers = read_answers(given)
        policy: Any = "replace" if on_conflict == "replace" else "keep"
        result = import_into(run, answers, annotator, policy, add_classes=add_classes)
        kept = result.conflicts
        if on_conflict == "ask" and kept:
            question = "{}: {} in the run, {} in the file. Take the file's?"
            chosen = {c[0] for c in kept if typer.confirm(visible(question.format(*c)))}
            again = import_into(run, [a for a in answers if a.path in chosen], annotator, "replace")
            kept = [c for c in kept if c[0] not in chosen]
            result = result._replace(taken=result.taken + again.taken)
        with run.store.look() as db:
            noun, why = run.noun, {path: reason for path, _, reason in skipped_files(db)}
    out.print(
        f"{many(result.taken, 'label')} imported, {result.same} known before, {len(kept)} kept as they were, "
        f"{len(result.unknown)} of {noun}s that the run does not have"
    )
    tell_notes([(f"kept {ours}", f"{path} (the file says {theirs})") for path, ours, theirs in kept])
    if kept and on_conflict == "keep":
        notes.print("Pass --on-conflict replace to take the file's, or ask to choose")
    for path in result.unknown[:3]:
        reason = f" ({why[path]})" if path in why else ""
        notes.print(f"not in the run: {path}{reason}")


def import_predictions(folder: Path, given: Path, name: str, accept: float) -> None:
    from askless.label.web.page import user_name
    from askless.run import Run
    from askless.run.out.claims import accept_claims, import_claims, read_claims, right_of, standing_of
    from askless.run.store.asking import Desk

    with Run.open(folder) as run:
        n, unknown_paths = import_claims(run, name, read_claims(given))
        with run.store.look() as db:
            found, noun = standing_of(db, name), run.noun
    out.print(f"{name}: {n} predictions imported, {len(unknown_paths)} of {noun}s that the run does not have")
    if found.measure is None:
        notes.print(f"None of them is of a labelled check {noun}, so their accuracy is unknown")
        return
    out.print(f"Right on {right_of(found.measure)} check {noun}s")
    table = Table("class", "predicted", "of them right", "95 % interval", title="By class, on check items")
    for row in found.classes:
        table.add_row(row["class"], str(row["predicted"]), *shown_share(row["precision"]))
    out.print(table)
    if len(found.levels) > 1:
        table = Table(
            "confidence", "predictions", "check items", "of them right", "95 % interval", title="By confidence"
        )
        for row in found.levels:
            cells = shown_share(row if row["n"] else None)
            table.add_row(f"{row['confidence']:.2f} or more", str(row["claims"]), str(row["n"]), *cells)
        out.print(table)
    if accept:
        with Run.open(folder) as run:
            with run.store.change() as db:
                trusted, taken = accept_claims(db, Desk(user_name(), "claims"), f"accept-{uuid4()}", name, accept)
            run.write_views()
        out.print(
            f"{taken} accepted, with a confidence of {trusted.confidence:.2f} or more: right on {trusted.correct} of "
            f"{trusted.n} check {noun}s, so at least {trusted.low:.0%} are right (95 % sure)"
        )


def shown_share(share: dict[str, Any] | None) -> tuple[str, str]:
    if share is None:
        return "not measured", ""
    return f"{share['accuracy']:.0%}", f"{share['low']:.0%} to {share['high']:.0%}"


def predict(
    folder: Annotated[
        Path, typer.Argument(help="A run, the folder of an exported model, or an .onnx file.", metavar="MODEL")
    ],
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Images or folders of images; for a run on features an .npz or .npy file; for one on texts, tables."
        ),
    ],
    to: Annotated[Path | None, typer.Option("--out", help="Write a .csv instead of printing.")] = None,
    probabilities: Annotated[bool, typer.Option(help="Add the probabilities of all classes.")] = False,
    text: Annotated[
        str, typer.Option(help="The column with the texts, if it differs from the run's.", metavar="COLUMN")
    ] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of tables or text files.")] = "utf-8",
    overwrite: files.Overwrite = False,
) -> None:
    """Predict new images or texts: path, label, probability."""
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
        # Rows on the terminal tell how far it is, and a bar would be drawn among them.
        shows_rows = target is out and out.is_terminal
        with contextlib.nullcontext(no_bar) if shows_rows else progress_bar("Predicting") as progress:
            progress(0, len(images))
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
            raise InputError(f"none of {many(total, noun)} could be read" if total else f"no {noun}s were found")
    if bad:
        notes.print(f"{bad} of {many(total, noun)} could not be read")
    if to is not None:
        notes.print(f"{many(total - bad, 'prediction')}: {to}")


def no_bar(done: int, total: int) -> None:
    pass


def oracle(
    folder: RunFolder,
    truth: Annotated[
        Path,
        typer.Option(help="The true labels: a csv, jsonl, npz or parquet file, or a folder with one folder per class."),
    ],
    pause: Annotated[float, typer.Option(help="Seconds per answer.", min=0)] = 0.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the page.", min=0)] = 30.0,
) -> None:
    """Answer everything the page asks from known labels, as a rehearsal. Run it while `askless start` serves the page."""
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
                f"{truth}: expected labels of the run's {run.noun}s by path, such as {unknown[0]}, got {there}; every "
                "answer would be unsure"
            )
        if unknown:
            few = f"{len(unknown)} of {len(run.paths)} {run.noun}s are not in {truth}"
            notes.print(f"{few}; if asked, they are answered as unsure")
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
                f"the page of {folder} no longer answers ({error or type(error).__name__}); answers given so far are "
                f"kept: run `askless start {folder}`, then this command again"
            ) from None
    out.print(f"{many(given, 'answer')} given")
