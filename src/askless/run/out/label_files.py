"""Labels out of a run and into one."""

import sqlite3
import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from askless.base.errors import InputError, OptionError
from askless.run.out.answers import LabelRow
from askless.run.out.export import Predicted
from askless.run.out.formats import Exported, export
from askless.run.steps.round_files import Predictions, again, last_predictions
from askless.run.store.classes import class_names, class_numbers, folded, shown_classes
from askless.run.store.fits import last_fitted
from askless.run.store.importing import Imported, Policy, import_answers
from askless.run.store.items import columns_by_path
from askless.run.store.labels import all_answers, unanswered_items
from askless.sources import real_file

if TYPE_CHECKING:
    from askless.run.run import Run

SPLITS = {"train": "train", "prior": "train", "check": "check"}


def label_rows(db: sqlite3.Connection, predictions: Predictions | None = None) -> list[LabelRow]:
    """The rows of `labels.csv`: every human answer in the order in which they were given, with what the model thinks of the
    item."""
    names = class_names(db)
    result = []
    for given in all_answers(db):
        model = None if predictions is None else predictions.best(given.item)
        result.append(
            LabelRow(
                path=given.path,
                label="" if given.label is None else names[given.label],
                status="unsure" if given.label is None else "labelled",
                split="reserve" if given.split == "reserve" else SPLITS[given.kind],
                annotator=given.annotator,
                labelled_at=given.at,
                seconds=given.seconds,
                round=given.round,
                rank=given.rank,
                picked_by="bulk" if given.bulk else given.picked_by,
                model_label="" if model is None else names[model[0]],
                model_prob=None if model is None else round(model[1], 4),
                suggestion_shown=given.suggestion_shown,
                note=given.unsure or given.note,
                item=given.item,
            )
        )
    return result


def predicted_rows(db: sqlite3.Connection, predictions: Predictions | None) -> list[Predicted]:
    """What the model says of the items that nobody has labelled."""
    if predictions is None:
        return []
    names = class_names(db)
    said = ((item, path, predictions.best(item)) for item, path in unanswered_items(db))
    return [Predicted(item, path, names[best[0]], best[1]) for item, path, best in said if best is not None]


def export_run(
    run: "Run",
    to: str,
    out: Path,
    *,
    what: str = "human",
    min_prob: float = 0.0,
    link: str = "copy",
    by_split: bool = False,
    safe_cells: bool | None = None,
    overwrite: bool = False,
) -> Exported:
    """The run's labels in another format; the options are those of `formats.export`."""
    notes = []
    with run.store.look() as db:
        predictions = last_predictions(db, run.folder)
        fitted = last_fitted(db)
        if fitted is not None and predictions is None:
            notes.append(f"The model's predictions are left out: {again(fitted)}.")
        rows, columns = label_rows(db, predictions), columns_by_path(db, everything=what != "human")
        predicted = predicted_rows(db, predictions)
        names = [c.name for c in shown_classes(db)]
    if run.kind == "features" and to in ("imagefolder", "coco", "hf", "datasets"):
        such = "images and texts" if to == "datasets" else "images"
        raise OptionError(f"{to} is for {such}; rows of features go to csv, jsonl, npz or parquet")
    if run.kind == "texts" and to in ("imagefolder", "coco", "npz", "hf"):
        raise OptionError(f"{to} is for images; texts go to csv, jsonl, parquet or datasets")
    pictures = run.pictures

    def file_of(item: int) -> Path | None:
        if pictures.kind != "files":
            return None
        return Path(real_file(pictures.root, pictures.paths[item], pictures.follow_links))

    exported = export(
        to,
        out,
        rows,
        names,
        predicted=predicted,
        columns=columns,
        file_of=file_of,
        pixels_of=pictures.row,
        text_of=(lambda item: run.texts([item])[item]) if run.kind == "texts" else None,
        what=what,
        min_prob=min_prob,
        link=link,
        by_split=by_split,
        safe_cells=safe_cells,
        overwrite=overwrite,
    )
    return exported._replace(notes=exported.notes + notes)


def import_into(
    run: "Run", answers: list[LabelRow], annotator: str, policy: Policy, *, add_classes: bool = False
) -> Imported:
    """Takes answers from a file; those that say who gave them keep that name.

    A run without classes gets those of the file. One that has classes gets others only with `add_classes`: else they are an
    error that names them, and nothing is taken. A name that a class had, or that was merged into it, means that class.
    """
    parts = []
    with run.store.look() as db:
        known, numbers = [c.name for c in shown_classes(db)], class_numbers(db)
    new = [a.label for a in answers if a.status == "labelled" and a.label and folded(a.label) not in numbers]
    if known and new and not add_classes:
        others = ", ".join(f"{name!r} ({count})" for name, count in Counter(new).most_common(5))
        raise InputError(
            f"expected labels of the run's classes, {', '.join(known)}, got {others}; mend the file, or pass --add-classes "
            "to add them. Nothing was taken"
        )
    by_name: dict[str, list[LabelRow]] = {}
    for one in answers:
        by_name.setdefault(one.annotator or annotator, []).append(one)
    with run.store.change() as db:
        for name, own in by_name.items():
            given = [(one.path, one.label if one.status == "labelled" else "") for one in own]
            request = f"import-{uuid.uuid4()}"
            parts.append(import_answers(db, request, name, given, overlap=run.settings.annotators, policy=policy))
    run.write_views()
    return Imported(
        sum(part.taken for part in parts),
        sum(part.same for part in parts),
        [conflict for part in parts for conflict in part.conflicts],
        [path for part in parts for path in part.unknown],
    )
