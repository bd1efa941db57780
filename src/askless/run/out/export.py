"""Tables of labels: the rows of `labels.csv`, their bytes as CSV, JSON lines or Parquet, and labels from files of others."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.sources import LABEL_NAMES, PATH_NAMES, find_images, pick_column
from askless.sources.arrays import plain_arrays
from askless.sources.table import delimiter_of

STATUSES = ("labelled", "unsure")
PSEUDO = "pseudo"
Columns = Mapping[str, Mapping[str, str]]  # path -> name -> value: what the user's own table said


@dataclass(frozen=True)
class Incoming:
    """An answer from elsewhere; all but `path`, `label` and `status` may be unknown. Unsure answers have no label."""

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


@dataclass(frozen=True)
class LabelRow(Incoming):
    """A line of `labels.csv`, and the item of the run that it is about, which the file does not tell (-1)."""

    item: int = field(default=-1, compare=False)


COLUMNS = tuple(f.name for f in fields(Incoming))
NUMBERS: dict[str, Callable[[Any], Any]] = {"seconds": float, "round": int, "rank": int, "model_prob": float}
PSEUDO_COLUMNS = ("pseudo_label", "pseudo_prob")


class Predicted(NamedTuple):
    """What the model thinks of an unlabelled item."""

    item: int
    path: str
    label: str
    prob: float


# ---- tables of labels -------------------------------------------------------------------------------------------------


def write_labels_csv(path: Path, rows: Sequence[Incoming], columns: Columns | None = None) -> None:
    """`labels.csv`, whole or not at all: the columns of `LabelRow` and then the user's own. Nothing is lost or changed, so
    cells may begin with =; `export(..., safe_cells=True)` is for spreadsheets."""
    data = csv_bytes(table_of(rows, [], columns or {}, pseudo=False), safe_cells=False)
    write_whole(Path(path), lambda file: file.write(data))


def read_labels_csv(path: Path) -> list[LabelRow]:
    """The rows of a `labels.csv` or of a CSV export; the model's rows in it are passed over."""
    path = Path(path)
    header, cells = _read_csv(path)
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(f"{path}: expected the columns {','.join(COLUMNS)}, got no {', '.join(missing)}")
    records = (dict(zip(header, row, strict=True)) for row in cells)
    return [
        LabelRow(**_typed(record, f"{path}: row {i + 2}"))
        for i, record in enumerate(records)
        if record["status"] != PSEUDO
    ]


def read_answers(path: Path) -> list[Incoming]:
    """The answers in a file or folder, for `askless import`; what has no label, or only the model's, is passed over.

    CSV or TSV with the columns path and label (or an alias of theirs, or all of `labels.csv`); JSON lines with the same
    keys; an npz with `y`, `classes` and `ids`; a folder that `export` wrote, one with `metadata.csv` or `.jsonl`, or one
    with a folder for each class, where paths are relative to it.
    """
    path = Path(path)
    if path.is_dir():
        for name in ("labels.csv", "metadata.csv", "metadata.jsonl"):
            if (path / name).is_file():
                return read_answers(path / name)
        return _answers_of_folders(path)
    if not path.exists():
        raise InputError(f"{path}: expected a file or folder with labels, got nothing there")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _answers_of_npz(path)
    if suffix in (".csv", ".tsv", ".txt"):
        header, cells = _read_csv(path)
        return _answers_of_records([dict(zip(header, row, strict=True)) for row in cells], path)
    if suffix in (".jsonl", ".ndjson"):
        return _answers_of_records(_read_jsonl(path), path)
    raise InputError(f"{path}: expected a .csv, .tsv, .jsonl or .npz file, or a folder, got {suffix or 'no suffix'}")


class Settled(NamedTuple):
    """The one label of an image, and whether it is a check image."""

    item: int
    path: str
    label: str
    split: str


def settle(rows: Sequence[LabelRow]) -> tuple[list[Settled], list[tuple[str, str]]]:
    """One label per image, the one of more than half of the answers, unsure ones counted; and the paths of the others."""
    answers: dict[str, list[LabelRow]] = {}
    for row in rows:
        answers.setdefault(row.path, []).append(row)
    settled, left_out = [], []
    for path, given in answers.items():
        votes = Counter(row.label if row.status == "labelled" else None for row in given)
        label, most = votes.most_common(1)[0]
        if 2 * most <= votes.total():
            left_out.append((path, "the annotators disagree: " + ", ".join(sorted(v or "unsure" for v in votes))))
        elif label is None:
            left_out.append((path, "unsure"))
        else:
            settled.append(Settled(given[0].item, path, label, given[0].split))
    return settled, left_out


# ---- tables and their formats -----------------------------------------------------------------------------------------


class Table(NamedTuple):
    header: list[str]
    records: list[dict[str, Any]]


def table_of(rows: Sequence[Incoming], model: Sequence[Predicted], columns: Columns, pseudo: bool) -> Table:
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
    return Table(ours + list(called.values()), records)


def _unlike(name: str, taken: set[str]) -> str:
    """A column of the user's that has a name of ours gets one in front."""
    return f"given_{name}" if name in taken else name


def _plain(value: Any, name: str) -> Any:
    """A Python number where it may have been one of numpy's."""
    return NUMBERS[name](value) if name in NUMBERS and value is not None else value


SAFE = "safe_cells"  # a column that says so: cells that began with one of these have a ' in front
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
GUARDED = "they are prefixed with ' for spreadsheets, which `askless import` removes; or pass --no-safe-cells"


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute it: plain numbers, as -0.5, do no harm."""
    return len(text) > 1 and text.startswith(_FORMULA) and not re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", text)


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


def formulas_in(table: "Table") -> list[str]:
    cells = [*table.header, *(value for record in table.records for value in record.values())]
    return [cell for cell in cells if isinstance(cell, str) and is_formula(cell)]


def csv_bytes(table: Table, safe_cells: bool) -> bytes:
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
    return f"'{text}" if text.lstrip("'").startswith(_FORMULA) else text


def _unguarded(text: str) -> str:
    return text[1:] if text.startswith("'") and text[1:].lstrip("'").startswith(_FORMULA) else text


def jsonl_bytes(table: Table) -> bytes:
    lines = (json.dumps(r, ensure_ascii=False, allow_nan=False) for r in table.records)
    return "".join(f"{line}\n" for line in lines).encode()


def parquet_bytes(table: Table) -> bytes:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise InputError("parquet: expected pyarrow, which is not installed; pip install 'askless[parquet]'") from None
    kind = {"seconds": arrow.float64(), "round": arrow.int64(), "rank": arrow.int64()}
    kind |= {"model_prob": arrow.float64(), "pseudo_prob": arrow.float64()}
    schema = arrow.schema([(name, kind.get(name, arrow.string())) for name in table.header])
    out = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(table.records, schema), out)
    return out.getvalue()


BYTES = {"jsonl": jsonl_bytes, "parquet": parquet_bytes}


# ---- reading ----------------------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header and the cells exactly as written, but for the ' of `safe_cells`."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: expected a CSV file with the columns path and label, got nothing there") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected UTF-8 text, got something else; save it as UTF-8") from None
    try:
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(text)) if line]
    except csv.Error as error:
        raise InputError(f"{path}: expected a CSV file, got one that does not read as such ({error})") from None
    if not lines:
        raise InputError(f"{path}: expected a header with path and label, got an empty file")
    header, *cells = lines
    for i, row in enumerate(cells):
        if len(row) != len(header):
            raise InputError(
                f"{path}: row {i + 2} has {len(row)} fields and the header {len(header)}; quote names with commas"
            )
    if SAFE in header:
        return [_unguarded(name) for name in header], [[_unguarded(cell) for cell in row] for row in cells]
    return header, cells


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    records = []
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected UTF-8 text, got something else; save it as UTF-8") from None
    for i, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: expected a JSON object on each line, line {i + 1} is none ({error})") from None
        if not isinstance(record, dict):
            raise InputError(f"{path}: expected a JSON object on each line, got {line.strip()[:40]} on line {i + 1}")
        records.append(record)
    return records


def _typed(record: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Our columns of a record as `Incoming` wants them."""
    out: dict[str, Any] = {}
    for name in COLUMNS:
        value = record.get(name)
        if name not in NUMBERS:
            out[name] = "" if value is None else str(value)
            continue
        try:
            out[name] = None if value is None or value == "" else NUMBERS[name](value)
        except ValueError:
            raise InputError(f"{where}: expected a number as {name}, got {value!r}") from None
    if out["status"] not in STATUSES:
        raise InputError(f"{where}: expected the status {' or '.join(STATUSES)}, got {out['status']!r}")
    return out


def _answers_of_records(records: list[dict[str, Any]], path: Path) -> list[Incoming]:
    """From a table of ours, or any that names images and classes."""
    if not records:
        return []
    out = []
    if set(COLUMNS) <= records[0].keys():
        for i, record in enumerate(records):
            if record.get("status") != PSEUDO:
                out.append(Incoming(**_typed(record, f"{path}: row {i + 1}")))
        return [each for each in out if each.label or each.status == "unsure"]
    header = [str(name) for name in records[0]]
    tidy = [str(name).strip() for name in header]
    at = dict(zip(tidy, header, strict=True))
    image, label = (at[pick_column(tidy, names, path, True)] for names in (PATH_NAMES, LABEL_NAMES))
    for i, record in enumerate(records):
        given = {name: "" if (v := record.get(at.get(name, name))) is None else str(v).strip()
                 for name in (image, label, "status", "annotator", "note")}  # fmt: skip
        if not given[image]:
            raise InputError(f"{path}: expected an image in every row, got none in row {i + 1}")
        unsure = given["status"] == "unsure"
        if unsure or (given[label] and given["status"] != PSEUDO):
            out.append(
                Incoming(
                    given[image],
                    "" if unsure else given[label],
                    "unsure" if unsure else "labelled",
                    annotator=given["annotator"],
                    note=given["note"],
                )
            )
    return out


def _answers_of_npz(path: Path) -> list[Incoming]:
    have = plain_arrays(path, ("ids", "y", "classes"))
    y = have.get("y")
    if y is None or any(array.ndim != 1 for array in have.values()):
        raise InputError(f"{path}: expected an array y of one class for each image, got {', '.join(have) or 'none'}")
    ids = [str(i) for i in have.get("ids", np.arange(len(y)))]
    if len(ids) != len(y):
        raise InputError(f"{path}: expected as many ids as y, got {len(ids)} and {len(y)}")
    if y.dtype.kind == "U":
        return [Incoming(i, str(label)) for i, label in zip(ids, y, strict=True) if label]
    if y.dtype.kind not in "iu" or "classes" not in have or (len(y) and y.max() >= len(have["classes"])):
        raise InputError(
            f"{path}: expected whole numbers in y and the name of each in classes, got y of type {y.dtype}"
        )
    return [Incoming(i, str(have["classes"][k])) for i, k in zip(ids, y, strict=True) if k >= 0]


def _answers_of_folders(root: Path) -> list[Incoming]:
    """`class/file` or `train/class/file`."""
    found = [file.relative_to(root).as_posix() for file in find_images(root, follow_links=True)[0]]
    tops = {name.partition("/")[0] for name in found if "/" in name}
    splits = {"train", "test", "val", "valid", "validation", "check"}
    depth = 1 if ("train" in tops and tops <= splits) or ("human" in tops and tops <= {"human", PSEUDO}) else 0
    out = []
    for name in found:
        parts = name.split("/")
        if len(parts) > depth + 1 and not (depth and parts[0] == PSEUDO):
            out.append(Incoming(name, parts[depth]))
    if not out:
        raise InputError(f"{root}: expected labels.csv, metadata.csv or a folder of images for each class, found none")
    return out
