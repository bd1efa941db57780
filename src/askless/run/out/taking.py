"""Labels out of a run and into one."""

import uuid
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.errors import InputError, OptionError
from askless.run.out.answers import LabelRow
from askless.run.out.export import Exported, Predicted, export, export_folder, place_for, require_some, settle
from askless.run.steps.rounds import again
from askless.run.store.classes import all_classes, class_numbers, folded, is_shown
from askless.run.store.importing import Imported, Policy, import_answers
from askless.run.store.labels import columns_by_path, label_rows, last_predictions, predicted_rows
from askless.sources import UnreadableError, real_file

if TYPE_CHECKING:
    from askless.run.run import Run

DATASETS = "datasets"  # a format that the package of that name writes and reads


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
    """The run's labels in another format; the options are those of `export.export`."""
    notes = []
    with run.store.look() as db:
        predictions = last_predictions(db, run.folder)
        fitted = db.execute("SELECT max(round) FROM fit").fetchone()[0]
        if fitted is not None and predictions is None:
            notes.append(f"The model's predictions are left out: {again(fitted)}.")
        rows, columns = label_rows(db, predictions), columns_by_path(db, everything=what != "human")
        predicted = predicted_rows(db, predictions)
        names = [c.name for c in all_classes(db) if is_shown(c)]
    pictures = run.pictures
    if to == DATASETS:
        pseudo = predicted if what == "human+model" else []
        exported = export_datasets(run, rows, names, pseudo, out, min_prob, overwrite)
        return exported._replace(notes=exported.notes + notes)
    if run.kind == "features" and to in ("imagefolder", "coco", "hf"):
        raise OptionError(f"{to} is for images; rows of features go to csv, jsonl, npz or parquet")
    if run.kind == "texts" and to in ("imagefolder", "coco", "npz", "hf"):
        raise OptionError(f"{to} is for images; texts go to csv, jsonl, parquet or {DATASETS}")

    def file_of(item: int) -> Path | None:
        if pictures.kind != "files":
            return None
        return Path(real_file(pictures.root, pictures.paths[item], pictures.follow_links))

    def pixels_of(item: int) -> np.ndarray:
        return pictures.row(item)

    exported = export(
        to,
        out,
        rows,
        names,
        predicted=predicted,
        columns=columns,
        file_of=file_of,
        pixels_of=pixels_of,
        what=what,
        min_prob=min_prob,
        link=link,
        by_split=by_split,
        safe_cells=safe_cells,
        overwrite=overwrite,
    )
    return exported._replace(notes=exported.notes + notes)


def export_datasets(
    run: "Run",
    rows: list[LabelRow],
    names: list[str],
    predicted: list[Predicted],
    out: Path,
    min_prob: float,
    overwrite: bool = False,
) -> Exported:
    """A DatasetDict that `datasets.load_from_disk` reads: train, test (the check items), and pseudo, the model's labels."""
    from askless.data.hf_out import png_bytes, write_datasets

    if run.kind == "features":
        raise OptionError(f"{DATASETS} is for images and texts; rows of features go to csv, jsonl, npz or parquet")
    place_for(out, DATASETS, overwrite)
    settled, left_out = settle(rows)
    if not settled:
        raise InputError(f"{DATASETS}: expected at least one labelled item, got none; label some first")
    pictures = run.pictures

    def content(item: int) -> Any:
        if run.kind == "texts":
            return run.texts([item])[item]
        if run.kind == "files":
            return Path(real_file(pictures.root, pictures.paths[item], pictures.follow_links)).read_bytes()
        return png_bytes(pictures.row(item))

    splits: dict[str, list[tuple[str, Any, str]]] = {}
    asked = [(s.item, s.path, s.label, "train" if s.split in ("train", "") else "test") for s in settled]
    asked += [(p.item, p.path, p.label, "pseudo") for p in predicted if p.prob >= min_prob]
    for item, path, label, split in asked:
        try:
            splits.setdefault(split, []).append((path, content(item), label))
        except (OSError, UnreadableError) as error:
            left_out.append((path, str(error)))
    require_some(DATASETS, sum(map(len, splits.values())), left_out)
    with export_folder(out, DATASETS) as place:
        write_datasets(place, splits, names, "text" if run.kind == "texts" else "image")
    pseudo = len(splits.get("pseudo", []))
    return Exported(out, sum(map(len, splits.values())) - pseudo, pseudo, left_out, [])


def import_into(
    run: "Run", answers: list[LabelRow], annotator: str, policy: Policy, *, add_classes: bool = False
) -> Imported:
    """Takes answers from a file; those that say who gave them keep that name.

    A run without classes gets those of the file. One that has classes gets others only with `add_classes`: else they are an
    error that names them, and nothing is taken. A name that a class had, or that was merged into it, means that class.
    """
    parts = []
    with run.store.look() as db:
        known, numbers = [c.name for c in all_classes(db) if is_shown(c)], class_numbers(db)
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
