"""The rows of `labels.csv`: every human answer, with what the model thinks of the item."""

import json
import sqlite3
from pathlib import Path

from askless.run.out.answers import LabelRow
from askless.run.out.export import Predicted
from askless.run.steps.rounds import Predictions, read_predictions
from askless.run.store.classes import all_classes, final_class
from askless.run.store.schema import RunError

SPLITS = {"train": "train", "prior": "train", "check": "check"}


def label_rows(db: sqlite3.Connection, predictions: Predictions | None = None) -> list[LabelRow]:
    """One row per answer, in the order in which they were given."""
    names = {c.id: c.name for c in all_classes(db)}
    final = final_class(db)
    rows = db.execute(
        "SELECT a.*, i.path, i.split, t.kind, t.round, t.rank, t.picked_by FROM answer a JOIN item i ON i.id = a.item "
        "JOIN task t ON t.item = a.item ORDER BY a.seq, a.item"
    )
    result = []
    for row in rows:
        model = None if predictions is None else predictions.best(row["item"])
        result.append(
            LabelRow(
                path=row["path"],
                label="" if row["class"] is None else names[final[row["class"]]],
                status="unsure" if row["class"] is None else "labelled",
                split="reserve" if row["split"] == "reserve" else SPLITS[row["kind"]],
                annotator=row["annotator"],
                labelled_at=row["at"],
                seconds=row["seconds"],
                round=row["round"],
                rank=row["rank"],
                picked_by="bulk" if row["bulk"] else row["picked_by"],
                model_label="" if model is None else names[final[model[0]]],
                model_prob=None if model is None else round(model[1], 4),
                suggestion_shown=row["suggestion_shown"],
                note=row["unsure"] or row["note"],
                item=row["item"],
            )
        )
    return result


def columns_by_path(db: sqlite3.Connection, everything: bool = False) -> dict[str, dict[str, str]]:
    """What the user's own manifest said of the items that have an answer (or of all), where it said more than path and
    label."""
    which = "" if everything else " AND id IN (SELECT item FROM answer)"
    rows = db.execute(f"SELECT path, columns FROM item WHERE columns <> '{{}}'{which}")
    return {row["path"]: json.loads(row["columns"]) for row in rows}


def predicted_rows(db: sqlite3.Connection, predictions: Predictions | None) -> list[Predicted]:
    """What the model says of the items that nobody has labelled."""
    if predictions is None:
        return []
    names = {c.id: c.name for c in all_classes(db)}
    final = final_class(db)
    rows = db.execute(
        "SELECT id, path FROM item WHERE problem IS NULL AND id NOT IN (SELECT item FROM answer) ORDER BY id"
    )
    result = []
    for row in rows:
        best = predictions.best(row["id"])
        if best is not None:
            result.append(Predicted(row["id"], row["path"], names[final[best[0]]], best[1]))
    return result


def last_predictions(db: sqlite3.Connection, run: Path) -> Predictions | None:
    """What the last model says; None where there is none, or a damaged one: labels do not wait for it."""
    number = db.execute("SELECT max(round) FROM fit").fetchone()[0]
    try:
        return None if number is None else read_predictions(run, number)
    except RunError:
        return None
