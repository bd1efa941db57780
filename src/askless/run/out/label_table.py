"""Tables of labels: the rows of `labels.csv`, and their bytes as CSV, JSON lines or Parquet."""

import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.run.out.answers import COLUMNS, FORMULA, NUMBERS, PSEUDO, SAFE, LabelRow
from askless.run.steps.round_files import Predictions
from askless.run.store.classes import class_names
from askless.run.store.deciding import decisions
from askless.run.store.labels import all_answers, unanswered_items

Columns = Mapping[str, Mapping[str, str]]  # path -> name -> value: what the user's own table said
PSEUDO_COLUMNS = ("pseudo_label", "pseudo_prob")


class Predicted(NamedTuple):
    """What the model thinks of an unlabelled item."""

    item: int
    path: str
    label: str
    prob: float


# ---- rows -------------------------------------------------------------------------------------------------------------

SPLITS = {"train": "train", "prior": "train", "found": "train", "check": "check", "accepted": "accepted"}


def label_rows(db: sqlite3.Connection, predictions: Predictions | None = None) -> list[LabelRow]:
    """The rows of `labels.csv`: every human answer in the order in which they were given, with what the model thinks of the
    item."""
    names, decided = class_names(db), decisions(db)
    result = []
    for given in all_answers(db):
        decision = decided.get(given.item)
        model = None if predictions is None else predictions.best(given.item)
        result.append(
            LabelRow(
                path=given.path,
                label="" if given.label is None else names[given.label],
                status="unsure" if given.label is None else "labelled",
                split="reserve" if given.split == "reserve" and given.kind != "accepted" else SPLITS[given.kind],
                annotator=given.annotator,
                labelled_at=given.at,
                seconds=given.seconds,
                round=given.round,
                rank=given.rank,
                picked_by="bulk" if given.bulk and given.kind != "found" else given.picked_by,
                model_label="" if model is None else names[model[0]],
                model_prob=None if model is None else round(model[1], 4),
                suggestion_shown=given.suggestion_shown,
                note=given.unsure or given.note,
                kind=given.kind,
                decided="" if decision is None or decision.label is None else names[decision.label],
                decided_by="" if decision is None else decision.annotator,
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


def write_labels_csv(path: Path, rows: Sequence[LabelRow], columns: Columns | None = None) -> None:
    """`labels.csv`, written atomically: the columns of `LabelRow` and then the user's own. Nothing is lost or changed, so
    cells may begin with =; `export(..., safe_cells=True)` is for spreadsheets."""
    data = csv_bytes(table_of(rows, [], columns or {}, pseudo=False), safe_cells=False)
    write_whole(Path(path), lambda file: file.write(data))


def by_majority(rows: Sequence[LabelRow]) -> tuple[list[LabelRow], list[tuple[str, str]]]:
    """One row per image, with the label decided on, else that of more than half of the answers, unsure ones counted; and
    the paths of the others, with the reason."""
    answers: dict[str, list[LabelRow]] = {}
    for row in rows:
        answers.setdefault(row.path, []).append(row)
    settled, left_out = [], []
    for path, given in answers.items():
        votes = Counter(row.label if row.status == "labelled" else None for row in given)
        label, most = votes.most_common(1)[0]
        first = given[0]
        if first.decided:
            agrees = (row for row in given if row.label == first.decided)
            settled.append(
                next(agrees, replace(first, label=first.decided, status="labelled", annotator=first.decided_by))
            )
        elif first.decided_by:
            left_out.append((path, f"unsure, as {first.decided_by} decided"))
        elif 2 * most <= votes.total():
            left_out.append((path, "the annotators disagree: " + ", ".join(sorted(v or "unsure" for v in votes))))
        elif label is None:
            left_out.append((path, "unsure"))
        else:
            settled.append(next(row for row in given if row.label == label))
    return settled, left_out


# ---- tables and their formats -----------------------------------------------------------------------------------------


class LabelTable(NamedTuple):
    header: list[str]
    records: list[dict[str, Any]]


def table_of(rows: Sequence[LabelRow], model: Sequence[Predicted], columns: Columns, pseudo: bool) -> LabelTable:
    """A record for each answer and each prediction: our columns, the model's if `pseudo`, and the user's own."""
    ours = [*COLUMNS, *(PSEUDO_COLUMNS if pseudo else ())]
    own = dict.fromkeys(
        name for path in [*(r.path for r in rows), *(p.path for p in model)] for name in columns.get(path, {})
    )
    called = {name: _unlike(name, {*COLUMNS, *PSEUDO_COLUMNS, "file_name", SAFE}) for name in own}
    records: list[dict[str, Any]] = [{name: _plain(getattr(row, name), name) for name in COLUMNS} for row in rows]
    for p in model:
        blank = {name: None if name in NUMBERS else "" for name in COLUMNS} | {"path": p.path, "status": PSEUDO}
        records.append(blank | {"pseudo_label": p.label, "pseudo_prob": float(p.prob)})
    for record in records:
        if pseudo and record["status"] != PSEUDO:
            record |= {"pseudo_label": "", "pseudo_prob": None}
        given = columns.get(record["path"], {})
        record |= {called[name]: given.get(name, "") for name in own}
    return LabelTable(ours + list(called.values()), records)


def _unlike(name: str, taken: set[str]) -> str:
    """A column of the user's that has a name of ours gets one in front."""
    return f"given_{name}" if name in taken else name


def _plain(value: Any, name: str) -> Any:
    """A Python number where it may have been one of numpy's."""
    return NUMBERS[name](value) if name in NUMBERS and value is not None else value


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute it: plain numbers, as -0.5, do no harm."""
    return len(text) > 1 and text.startswith(FORMULA) and not re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", text)


def survives_pandas(text: str) -> bool:
    """Whether pandas reads a CSV cell as this text: neither as a number, a truth value nor a missing one."""
    missing = {"", "#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "-nan", "1.#ind", "1.#qnan", "<na>", "n/a", "na",
               "null", "nan", "none", "true", "false", "inf", "-inf", "+inf", "infinity", "-infinity"}  # fmt: skip
    if text.lower() in missing:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def formulas_in(table: LabelTable) -> list[str]:
    cells = [*table.header, *(value for record in table.records for value in record.values())]
    return [cell for cell in cells if isinstance(cell, str) and is_formula(cell)]


def csv_bytes(table: LabelTable, safe_cells: bool) -> bytes:
    """RFC 4180, with a plain line end; numbers so that they read back exactly."""

    def line(cells: Sequence[Any]) -> str:
        texts = ("" if c is None else repr(c) if isinstance(c, float) else str(c) for c in cells)
        return ",".join(_quoted(_guarded(t) if safe_cells else t) for t in texts) + "\n"

    lines = [line([*table.header, *([SAFE] * safe_cells)])]
    lines += [line([*(r[name] for name in table.header), *(["yes"] * safe_cells)]) for r in table.records]
    return "".join(lines).encode()


def _quoted(text: str) -> str:
    """The cell in quotes where it needs them; csv.writer would leave a lone carriage return bare."""
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n\t;') or text != text.strip() else text


def _guarded(text: str) -> str:
    return f"'{text}" if text.lstrip("'").startswith(FORMULA) else text


def jsonl_bytes(table: LabelTable) -> bytes:
    lines = (json.dumps(r, ensure_ascii=False, allow_nan=False) for r in table.records)
    return "".join(f"{line}\n" for line in lines).encode()


def parquet_bytes(table: LabelTable) -> bytes:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(
            "parquet: expected pyarrow, which is not installed; run `pip install 'askless[parquet]'`"
        ) from None
    kind = {"seconds": arrow.float64(), "round": arrow.int64(), "rank": arrow.int64()}
    kind |= {"model_prob": arrow.float64(), "pseudo_prob": arrow.float64()}
    schema = arrow.schema([(name, kind.get(name, arrow.string())) for name in table.header])
    out = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(table.records, schema), out)
    return out.getvalue()
