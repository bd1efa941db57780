"""Answers from elsewhere: `labels.csv` and the other tables, arrays and folders of labels that `askless import` reads, and
how a run takes them."""

import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.errors import InputError
from askless.run.store.classes import add_class, class_numbers, final_class, folded, shown_classes
from askless.run.store.deciding import answers_on, decide, decisions
from askless.run.store.importing import Imported, Policy, import_answers
from askless.run.store.items import item_numbers
from askless.sources import open_source
from askless.sources.arrays import load_npz
from askless.sources.folders import METADATA
from askless.sources.names import LABEL_NAMES, PATH_NAMES, label_text, pick_column, splits_and_classes
from askless.sources.table import whole_table

if TYPE_CHECKING:
    from askless.run.run import Run

STATUSES = ("labelled", "unsure")
PSEUDO = "pseudo"
SAFE = "safe_cells"  # a column that says so: cells that began with one of these have a ' in front
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class LabelRow:
    """An answer, as a line of `labels.csv`: all but `path`, `label` and `status` may be unknown. Unsure answers have no
    label. `kind` is why there is an answer: train, check, prior, found, or accepted (the model's word, looked over).
    `decided` is the class that `decided_by` settled the item on, "" where nobody can tell. `item` is the one of the run
    that it is about, which a file does not tell (-1)."""

    path: str
    label: str
    status: str = "labelled"
    split: str = ""
    annotator: str = ""
    labelled_at: str = ""
    seconds: float | None = None
    round: int | None = None
    rank: int | None = None
    picked_by: str = ""
    model_label: str = ""
    model_prob: float | None = None
    suggestion_shown: str = ""
    note: str = ""
    kind: str = ""
    decided: str = ""
    decided_by: str = ""
    item: int = field(default=-1, compare=False)


COLUMNS = tuple(f.name for f in fields(LabelRow) if f.name != "item")
NUMBERS: dict[str, Callable[[Any], Any]] = {"seconds": float, "round": int, "rank": int, "model_prob": float}


def read_answers(path: Path) -> list[LabelRow]:
    """The answers in a file or folder, for `askless import`; what has no label, or only the model's, is passed over.

    A table with the columns path and label (or an alias of theirs, or all of `labels.csv`): CSV, TSV, JSON lines or
    Parquet; an npz with `y`, `classes` and `ids`; a folder that `export` wrote, one with `metadata.csv` or `.jsonl`, or one
    with a folder for each class, where paths are relative to it.
    """
    path = Path(path)
    if path.is_dir():
        tables = (path / name for name in ("labels.csv", *METADATA))
        table = next((table for table in tables if table.is_file()), None)
        return of_folders(path) if table is None else of_table(table)
    if not path.exists():
        raise InputError(f"{path}: expected a file or folder with labels, found nothing there")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return of_npz(path)
    if suffix in (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".parquet"):
        return of_table(path)
    raise InputError(
        f"{path}: expected a .csv, .tsv, .jsonl, .parquet or .npz file, or a folder, got {suffix or 'no suffix'}"
    )


def read_records(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The header and the rows of a table, with the ' of `safe_cells` taken off."""
    header, records = whole_table(path)
    if SAFE not in header:
        return header, records
    plain = [{unguarded(name): unguarded(cell) for name, cell in record.items()} for record in records]
    return [unguarded(name) for name in header], plain


def unguarded(text: Any) -> Any:
    is_guarded = isinstance(text, str) and text.startswith("'") and text[1:].lstrip("'").startswith(FORMULA)
    return text[1:] if is_guarded else text


def of_our_columns(records: list[dict[str, Any]], path: Path) -> list[LabelRow]:
    """The records that people answered, from a table that has all columns of ours."""
    out = []
    for number, record in enumerate(records, 1):
        if record.get("status") == PSEUDO:
            continue
        values: dict[str, Any] = {}
        for name in COLUMNS:
            value = record.get(name)
            if name not in NUMBERS:
                values[name] = "" if value is None else str(value)
                continue
            try:
                values[name] = None if value is None or value == "" else NUMBERS[name](value)
            except (ValueError, TypeError, OverflowError):
                raise InputError(f"{path}: row {number}: expected a number as {name}, got {value!r}") from None
        if values["status"] not in STATUSES:
            wanted = " or ".join(STATUSES)
            raise InputError(f"{path}: row {number}: expected the status {wanted}, got {values['status']!r}")
        if values["label"] or values["status"] == "unsure":
            out.append(LabelRow(**values))
    return out


def of_table(path: Path) -> list[LabelRow]:
    """From a table of ours, or any that names images and classes."""
    header, records = read_records(path)
    if set(COLUMNS) - {"kind", "decided", "decided_by"} <= set(header):  # earlier versions had fewer
        return of_our_columns(records, path)
    image, label = pick_column(header, PATH_NAMES, path), pick_column(header, LABEL_NAMES, path)
    out = []
    for number, record in enumerate(records, 1):
        own, given, status, annotator, note = (
            label_text(record.get(name)) for name in (image, label, "status", "annotator", "note")
        )
        if not own:
            raise InputError(f"{path}: expected an image in every row, found none in row {number}")
        if status == "unsure":
            out.append(LabelRow(own, "", status, annotator=annotator, note=note))
        elif given and status != PSEUDO:
            out.append(LabelRow(own, given, annotator=annotator, note=note))
    return out


def of_npz(path: Path) -> list[LabelRow]:
    found = load_npz(path, ("ids", "y", "classes"))
    have: dict[str, np.ndarray] = {name: array for name, array in found.items() if array is not None}
    y = have.get("y")
    if y is None or any(array.ndim != 1 for array in have.values()):
        raise InputError(f"{path}: expected an array y with a class for each image, got {', '.join(have) or 'none'}")
    ids = [str(i) for i in have.get("ids", np.arange(len(y)))]
    if len(ids) != len(y):
        raise InputError(f"{path}: expected as many ids as y, got {len(ids)} and {len(y)}")
    if y.dtype.kind == "U":
        return [LabelRow(i, str(label)) for i, label in zip(ids, y, strict=True) if label]
    if y.dtype.kind not in "iu" or "classes" not in have or (len(y) and y.max() >= len(have["classes"])):
        raise InputError(
            f"{path}: expected whole numbers in y and the name of each in classes, got y of type {y.dtype}"
        )
    return [LabelRow(i, str(have["classes"][k])) for i, k in zip(ids, y, strict=True) if k >= 0]


def of_folders(root: Path) -> list[LabelRow]:
    """`class/file`, `train/class/file` or `human/class/file`."""
    names = [item.id for item in open_source(root, formats=("folder",), follow_links=True).read()[0]]
    tops = {name.partition("/")[0] for name in names if "/" in name}
    if "human" in tops and tops <= {"human", PSEUDO}:
        names = [name for name in names if name.startswith("human/")]
    sides, _ = splits_and_classes([name.removeprefix("human/") for name in names], ("check",))
    out = [LabelRow(name, label) for name, (_, label) in zip(names, sides, strict=True) if label]
    if not out:
        raise InputError(f"{root}: expected labels.csv, metadata.csv or a folder of images for each class, found none")
    return out


# --- into a run --------------------------------------------------------------------------------------------------------


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
    named = [a.label for a in answers if a.status == "labelled"] + [a.decided for a in answers]
    new = [name for name in named if name and folded(name) not in numbers]
    if known and new and not add_classes:
        others = ", ".join(f"{name!r} ({count})" for name, count in Counter(new).most_common(5))
        raise InputError(
            f"expected labels of the run's classes, {', '.join(known)}, got {others}; fix the file, or pass --add-classes "
            "to add them. Nothing was imported"
        )
    by_name: dict[tuple[str, bool], list[LabelRow]] = {}
    for one in answers:
        by_name.setdefault((one.annotator or annotator, one.kind == "accepted"), []).append(one)
    with run.store.change() as db:
        for (name, accepted), own in by_name.items():
            given = [(one.path, one.label if one.status == "labelled" else "") for one in own]
            request = f"import-{uuid.uuid4()}"
            overlap = run.settings.annotators
            parts.append(import_answers(db, request, name, given, overlap=overlap, policy=policy, accepted=accepted))
        import_decisions(db, [replace(one, annotator=one.annotator or annotator) for one in answers])
    run.write_views()
    return Imported(
        sum(part.taken for part in parts),
        sum(part.same for part in parts),
        [conflict for part in parts for conflict in part.conflicts],
        [path for part in parts for path in part.unknown],
    )


def import_decisions(db: sqlite3.Connection, answers: list[LabelRow]) -> None:
    """Settles items as the file says, where they have the answers of the file and nobody has decided here."""
    numbers, places, there, final = class_numbers(db), item_numbers(db), decisions(db), final_class(db)
    given: dict[int, dict[str, str]] = {}
    for one in answers:
        if one.path in places:
            given.setdefault(places[one.path], {})[one.annotator] = folded(one.label)
    for item, one in {places[a.path]: a for a in answers if a.decided_by and a.path in places}.items():
        here = {who: None if label is None else final[label] for who, label, _ in answers_on(db, [item]).get(item, ())}
        if item in there or here != {who: numbers[name] if name else None for who, name in given[item].items()}:
            continue
        name, request = folded(one.decided), f"import-{uuid.uuid4()}"
        if name and name not in numbers:
            numbers[name] = add_class(db, f"{request}-new", one.decided_by, one.decided)
        with suppress(InputError):  # not all answers are there
            decide(db, request, one.decided_by, item, numbers.get(name), None if name else "other")
