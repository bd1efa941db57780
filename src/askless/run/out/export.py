"""Labels out of a run: CSV, JSON lines, folders of images, npz, parquet, Hugging Face and COCO.

What the model thinks of unlabelled images (pseudo-labels) always goes into columns, folders or keys called `pseudo`.
"""

import json
import math
import os
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from askless.base.errors import InputError, OptionError
from askless.base.files import free_folder, whole_folder, write_whole
from askless.run.out.answers import PSEUDO, LabelRow
from askless.run.out.label_table import (
    Columns,
    LabelTable,
    Predicted,
    by_majority,
    csv_bytes,
    formulas_in,
    is_formula,
    jsonl_bytes,
    label_rows,
    parquet_bytes,
    predicted_rows,
    survives_pandas,
    table_of,
)
from askless.run.steps.round_files import again, last_predictions
from askless.run.store.classes import shown_classes
from askless.run.store.fits import last_fitted
from askless.run.store.items import columns_by_path, unreadable_items
from askless.sources import UnreadableError, image_size, read_image

if TYPE_CHECKING:
    from askless.run.run import Run

FORMATS = ("csv", "jsonl", "imagefolder", "npz", "parquet", "hf", "datasets", "coco")
TABLES = ("csv", "jsonl", "parquet")
FOLDERS = ("imagefolder", "hf", "datasets")
WHAT = ("human", "human+model")
LINKS = ("copy", "hard", "sym")
UNSORTED = "unsorted"
MARK = "export.json"  # by which a folder of ours is known, so that overwriting never deletes anything else
LARGEST = 2**31  # bytes of pixels that an npz may hold
GUARDED = "they are prefixed with ' for spreadsheets, which `askless import` removes; or pass --no-safe-cells"


class Exported(NamedTuple):
    """What was written: `labels` items with a human label (rows in a table), `pseudo` items with the model's, the paths
    that were left out with the reason, and notes for people."""

    path: Path
    labels: int
    pseudo: int
    left_out: list[tuple[str, str]]
    notes: list[str]


# ---- export -----------------------------------------------------------------------------------------------------------


def export_run(
    run: "Run",
    to: str,
    out: Path,
    *,
    what: str = "human",
    min_prob: float = 0.0,
    link: str = "copy",
    by_split: bool = False,
    accepted: bool = True,
    unsorted: bool = False,
    safe_cells: bool | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Exported:
    """Writes the labels of a run to `out` in the format `to`, atomically.

    csv, jsonl and parquet have a row for each answer; the other formats one label for each image: what was decided, else
    what more than half of its answers say. `what="human+model"` adds the model's labels of `min_prob` or more. `link` copies
    the image files into imagefolder and hf, or links to them; `by_split` makes folders for the splits in imagefolder.
    Labels that people accepted in a grid of the model's are in it and marked, by the column `kind` or a split of their own;
    `accepted=False` leaves them out. `unsorted` puts the images without a label into a folder `unsorted` of an imagefolder.
    `safe_cells` puts ' before CSV cells that a spreadsheet would take for a formula; reading such a file takes it off. By
    default that is done, and said in the notes, where there is such a cell.
    An existing file is replaced only with `overwrite`, an existing folder only if it was written by this function too.
    """
    if run.kind == "features" and to in ("imagefolder", "coco", "hf", "datasets"):
        such = "images and texts" if to == "datasets" else "images"
        raise OptionError(f"{to} is for {such}; rows of features go to csv, jsonl, npz or parquet")
    if run.kind == "texts" and to in ("imagefolder", "coco", "npz", "hf"):
        raise OptionError(f"{to} is for images; texts go to csv, jsonl, parquet or datasets")
    if unsorted and (to != "imagefolder" or what != "human"):
        raise OptionError("unsorted: works with imagefolder only, without the model's labels, which sort the rest")
    with run.store.look() as db:
        predictions, fitted = last_predictions(db, run.folder), last_fitted(db)
        rows = [row for row in label_rows(db, predictions) if accepted or row.kind != "accepted"]
        settled = {row.item for row in by_majority(rows)[0]}
        without = settled | unreadable_items(db)
        rest = [(i, path) for i, path in enumerate(run.paths) if i not in without]
        job = Job(
            to,
            out,
            rows,
            [c.name for c in shown_classes(db)],
            predicted=predicted_rows(db, predictions),
            columns=columns_by_path(db, everything=what != "human"),
            file_of=run.pictures.file,
            pixels_of=run.pictures.row,
            text_of=(lambda item: run.texts([item])[item]) if run.kind == "texts" else None,
            what=what,
            min_prob=min_prob,
            link=link,
            by_split=by_split,
            safe_cells=safe_cells,
            overwrite=overwrite,
            unsorted=[LabelRow(path, UNSORTED, item=i) for i, path in rest] if unsorted else [],
            progress=progress,
        )
    exported = export(job)
    if fitted is not None and predictions is None:
        exported.notes.append(f"The model's predictions are left out: {again(fitted)}.")
    return exported


@dataclass
class Job:
    """What is to be written, and how; see `export_run`.

    `file_of` gives an item's image file, or None, and then `pixels_of` its (H, W, 3) or (H, W) uint8 pixels, written as
    PNG; `text_of` gives its text. `settled` are the rows by majority, `model` the predictions that are asked for.
    """

    to: str
    out: Path
    rows: Sequence[LabelRow]
    classes: Sequence[str]
    predicted: Sequence[Predicted]
    columns: Columns
    file_of: Callable[[int], str | None]
    pixels_of: Callable[[int], np.ndarray]
    text_of: Callable[[int], str] | None
    what: str
    min_prob: float
    link: str
    by_split: bool
    safe_cells: bool | None
    overwrite: bool
    unsorted: Sequence[LabelRow] = ()
    progress: Callable[[int, int], None] = lambda done, total: None
    done: int = 0
    model: list[Predicted] = field(init=False)
    table: LabelTable = field(init=False)
    settled: list[LabelRow] = field(init=False)
    left_out: list[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        for name, value, known in (("to", self.to, FORMATS), ("what", self.what, WHAT), ("link", self.link, LINKS)):
            if value not in known:
                raise OptionError(f"{name}: expected {' or '.join(known)}, got {value!r}")
        self.model = [p for p in self.predicted if self.both and p.prob >= self.min_prob]
        labels = {r.label for r in self.rows if r.status == "labelled"} | {p.label for p in self.model}
        if unknown := labels - set(self.classes):
            raise InputError(f"classes: expected every class with labels, {min(unknown)!r} is missing")
        self.table = table_of(self.rows, self.model, self.columns, self.both)
        self.settled, left_out = ([], []) if self.to in TABLES else by_majority(self.rows)
        unsorted = {each.path for each in self.unsorted}
        self.left_out = [one for one in left_out if one[0] not in unsorted]

    @property
    def both(self) -> bool:
        """Whether the model's labels are asked for, even if none is sure enough."""
        return self.what == "human+model"

    def pixels(self, item: int) -> np.ndarray:
        file = self.file_of(item)
        return np.asarray(self.pixels_of(item)) if file is None else read_image(file)

    def size(self, item: int) -> tuple[int, int]:
        file = self.file_of(item)
        if file is not None:
            return image_size(file)
        height, width = self.pixels(item).shape[:2]
        return int(height), int(width)

    def content(self, item: int) -> str | bytes:
        """The text, or the bytes of the image file; PNG where there is none."""
        if self.text_of is not None:
            return self.text_of(item)
        from askless.data.hf_out import png_bytes

        file = self.file_of(item)
        return png_bytes(self.pixels(item)) if file is None else Path(file).read_bytes()

    def put(self, each: LabelRow | Predicted, target: Path) -> bool:
        """Puts an image at `target`: copied, linked to, or written as PNG; one that cannot be had any more is left out."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self.done += 1
        self.progress(self.done, len(self.settled) + len(self.model) + len(self.unsorted))
        try:
            file = self.file_of(each.item)
            if file is None:
                pixels = self.pixels(each.item)
                Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels).save(target, format="PNG")
            elif not os.path.isfile(file):
                raise UnreadableError("the file is missing")
            elif self.link == "sym":
                target.symlink_to(os.path.realpath(file))
            elif self.link == "hard":
                hard_link(file, target)
            else:
                shutil.copyfile(file, target)
        except UnreadableError as error:
            self.left_out.append((each.path, str(error)))
            return False
        return True


def hard_link(file: str, target: Path) -> None:
    try:
        os.link(os.path.realpath(file), target)
    except OSError as error:
        raise InputError(
            f"{file}: cannot be hard-linked to {target.parent} ({error.strerror}); both must be on one file system; use "
            "link=sym or link=copy"
        ) from None


def export(job: Job) -> Exported:
    job.out = place_for(job.out, job.to, job.overwrite)
    if job.to not in TABLES and not job.settled:
        raise InputError(
            f"{job.to}: expected at least one labelled item, found none; label some first, or export to csv"
        )
    formulas = formulas_in(job.table) if job.to in ("csv", "imagefolder", "hf") else []
    if job.safe_cells is None:
        job.safe_cells = bool(formulas)
    labels, pseudo, notes = WRITERS[job.to](job)
    if formulas and job.safe_cells:
        notes.append(f"{len(formulas)} cells start like a formula, such as {formulas[0][:40]!r}; {GUARDED}")
    return Exported(job.out, labels, pseudo, job.left_out, notes)


def place_for(out: Path, to: str, overwrite: bool) -> Path:
    """Where to write, once nothing can be lost there."""
    if to in FOLDERS:
        return free_folder(out, overwrite, (MARK,))
    out = out / f"labels.{'json' if to == 'coco' else to}" if out.is_dir() else out
    if out.exists() and not overwrite:
        raise OptionError(f"{out}: the file already exists; pass overwrite (--overwrite) to replace it")
    return out


@contextmanager
def export_folder(job: Job) -> Iterator[Path]:
    """A folder to fill, which takes its place at the end, marked as an export."""
    with whole_folder(job.out) as root:
        yield root
        (root / MARK).write_text(json.dumps({"written_by": "askless export", "to": job.to}) + "\n", encoding="utf-8")


# ---- the formats ------------------------------------------------------------------------------------------------------

Written = tuple[int, int, list[str]]  # how many labels, how many of the model, and notes


def _table(job: Job) -> Written:
    made = {"csv": lambda table: csv_bytes(table, bool(job.safe_cells)), "jsonl": jsonl_bytes, "parquet": parquet_bytes}
    data = made[job.to](job.table)
    write_whole(job.out, lambda file: file.write(data))
    return sum(r.status == "labelled" for r in job.rows), len(job.model), []


def _imagefolder(job: Job) -> Written:
    """`class/path`; with the model's labels `human/class/path` and `pseudo/class/path`."""
    folder = folder_names(job.classes)
    taken: set[str] = set()
    names: dict[str, str] = {}
    with export_folder(job) as root:

        def put(each: LabelRow | Predicted, *parts: str) -> bool:
            is_png = job.file_of(each.item) is None
            name = _free("/".join([*parts, folder[each.label], _inside(each.path, is_png)]), taken)
            if is_there := job.put(each, root / name):
                names[each.path] = name
            return is_there

        human = sum(put(s, *["human"] * job.both, *[s.split or "train"] * job.by_split) for s in job.settled)
        pseudo = sum(put(p, PSEUDO) for p in job.model)
        require_some(job, human)
        folder[UNSORTED] = _free(UNSORTED, {name.casefold() for name in folder.values()}, "%")
        for each in job.unsorted:
            put(each)
        _describe(root, job, names)
    notes = [f"the folder of class {name} is named {folder[name]}" for name in job.classes if folder[name] != name]
    return human, pseudo, notes


def _hf(job: Job) -> Written:
    """`train`, `test` (the check images, and others held out) and `pseudo`, each with numbered images and a metadata file.

    Hugging Face takes every folder or file name with train, test or dev in it for a split, hence the numbers. It reads
    metadata.csv with pandas, which takes a class `None` for a missing one and `007` for a number: then it is .jsonl, and so
    it is where a cell would be a formula to a spreadsheet.
    """
    names: dict[str, str] = {}
    place = {name: i for i, name in enumerate(job.classes)}
    lines: dict[str, list[dict[str, Any]]] = {}
    with export_folder(job) as root:
        for number, (each, folder) in enumerate(_in_splits(job)):
            file = job.file_of(each.item)
            name = f"{number:06d}{'.png' if file is None else Path(file).suffix.lower()}"
            if job.put(each, root / folder / name):
                names[each.path] = f"{folder}/{name}"
                line = {"file_name": name, "label": each.label, "label_id": place[each.label], "path": each.path}
                lines.setdefault(folder, []).append(line)
        require_some(job, len(names))
        plain = all(
            survives_pandas(line[key]) and not is_formula(line[key])
            for some in lines.values()
            for line in some
            for key in ("label", "path")
        )
        for folder, some in lines.items():
            table = LabelTable(list(some[0]), some)
            if plain:
                (root / folder / "metadata.csv").write_bytes(csv_bytes(table, safe_cells=False))
            else:
                (root / folder / "metadata.jsonl").write_bytes(jsonl_bytes(table))
        _describe(root, job, names)
    pseudo = len(lines.get(PSEUDO, []))
    return len(names) - pseudo, pseudo, []


def _datasets(job: Job) -> Written:
    """A DatasetDict that `datasets.load_from_disk` reads: train, test (the check items), and pseudo, the model's labels."""
    from askless.data.hf_out import write_datasets

    splits: dict[str, list[tuple[str, Any, str]]] = {}
    for each, split in _in_splits(job):
        try:
            splits.setdefault(split, []).append((each.path, job.content(each.item), each.label))
        except (OSError, UnreadableError) as error:
            job.left_out.append((each.path, str(error)))
    count, pseudo = sum(map(len, splits.values())), len(splits.get(PSEUDO, []))
    require_some(job, count)
    with export_folder(job) as place:
        write_datasets(place, splits, job.classes, "image" if job.text_of is None else "text")
    return count - pseudo, pseudo, []


def _in_splits(job: Job) -> Iterator[tuple[LabelRow | Predicted, str]]:
    """What has a label, and its split as Hugging Face calls it: train, test (what is held out), accepted or pseudo."""
    splits = {"train": "train", "": "train", "accepted": "accepted"}
    yield from ((row, splits.get(row.split, "test")) for row in job.settled)
    yield from ((predicted, PSEUDO) for predicted in job.model)


def _npz(job: Job) -> Written:
    """ids, y (-1: no label), split, classes; X where all images have one size; pseudo_y and pseudo_prob of the model."""
    place = {name: i for i, name in enumerate(job.classes)}
    label = {s.path: place[s.label] for s in job.settled}
    guess = {p.path: (place[p.label], float(p.prob)) for p in job.model}
    first = {row.path: (row.item, row.split) for row in job.rows}
    for p in job.model:
        first.setdefault(p.path, (p.item, ""))
    arrays: dict[str, Any] = {
        "ids": np.array(list(first), dtype=np.str_),
        "y": np.array([label.get(path, -1) for path in first], np.int64),
        "split": np.array([split for _, split in first.values()], dtype=np.str_),
        "classes": np.array(job.classes, dtype=np.str_),
    }
    if job.both:
        arrays["pseudo_y"] = np.array([guess.get(path, (-1, math.nan))[0] for path in first], np.int64)
        arrays["pseudo_prob"] = np.array([guess.get(path, (-1, math.nan))[1] for path in first], np.float64)
    notes = []
    try:
        arrays["X"] = _pixels(job, {path: item for path, (item, _) in first.items()})
    except UnreadableError as error:
        notes.append(f"no X: {error}")
    write_whole(job.out, lambda file: np.savez(file, **arrays))
    return len(job.settled), len(job.model), notes


def _pixels(job: Job, items: dict[str, int]) -> np.ndarray:
    """(N, H, W, ...) uint8; an error says why not."""
    found: list[np.ndarray] = []
    for path, item in items.items():
        try:
            pixels = job.pixels(item)
        except UnreadableError as error:
            raise UnreadableError(f"{path} cannot be read ({error})") from None
        if found and pixels.shape != found[0].shape:
            raise UnreadableError("the images differ in size; their paths are in ids")
        if pixels.nbytes * len(items) > LARGEST:
            each = f"{len(items)} images of {pixels.nbytes:,} bytes each"
            raise UnreadableError(f"{each} are too many; their paths are in ids")
        found.append(pixels)
    return np.stack(found).astype(np.uint8, copy=False)


def _coco(job: Job) -> Written:
    """COCO's images, annotations and categories without boxes; ids count from 1. The model's are under pseudo_ keys."""
    category = {name: i + 1 for i, name in enumerate(job.classes)}
    images: dict[str, list[dict[str, Any]]] = {"": [], PSEUDO: []}
    annotations: dict[str, list[dict[str, Any]]] = {"": [], PSEUDO: []}
    for number, (each, _) in enumerate(_in_splits(job), 1):
        kind = PSEUDO if isinstance(each, Predicted) else ""
        more = {"score": float(each.prob)} if isinstance(each, Predicted) else {"split": each.split}
        try:
            height, width = job.size(each.item)
        except UnreadableError as error:
            job.left_out.append((each.path, str(error)))
            continue
        images[kind].append({"id": number, "file_name": each.path, "width": width, "height": height})
        annotations[kind].append({"id": number, "image_id": number, "category_id": category[each.label], **more})
    require_some(job, len(images[""]))
    content: dict[str, Any] = {
        "info": {"description": "image-level categories, written by askless"},
        "images": images[""],
        "annotations": annotations[""],
        "categories": [{"id": i, "name": name} for name, i in category.items()],
    }
    if job.both:
        content |= {"pseudo_images": images[PSEUDO], "pseudo_annotations": annotations[PSEUDO]}
    data = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode()
    write_whole(job.out, lambda file: file.write(data))
    return len(images[""]), len(images[PSEUDO]), []


WRITERS: dict[str, Callable[[Job], Written]] = {
    **dict.fromkeys(TABLES, _table),
    **{"imagefolder": _imagefolder, "npz": _npz, "hf": _hf, "datasets": _datasets, "coco": _coco},
}


def require_some(job: Job, count: int) -> None:
    """An error where no image could be read, so that an earlier export is not replaced by an empty one."""
    if count == 0:
        path, reason = job.left_out[-1]
        raise InputError(
            f"{job.to}: expected readable images, found none; {path}: {reason}. Nothing was written; put the images "
            "back, or export to csv"
        )


def _describe(root: Path, job: Job, names: dict[str, str]) -> None:
    """`labels.csv` with all that is known and the name of each exported file, and `classes.txt`."""
    records = [{**record, "file_name": names.get(record["path"], "")} for record in job.table.records]
    table = LabelTable([*job.table.header, "file_name"], records)
    (root / "labels.csv").write_bytes(csv_bytes(table, bool(job.safe_cells)))
    (root / "classes.txt").write_text("".join(f"{name}\n" for name in job.classes), encoding="utf-8", newline="")


# ---- names ------------------------------------------------------------------------------------------------------------


def folder_names(classes: Sequence[str]) -> dict[str, str]:
    """A folder for each class that every file system takes, percent-escaped where it must be, all different even where
    capitals do not count.

    >>> folder_names(["cat", "Cat", "a/b", "..", "CON"])
    {'cat': 'cat', 'Cat': 'Cat%2', 'a/b': 'a%2Fb', '..': '%2E%2E', 'CON': '%43ON'}
    """
    taken = {"labels.csv", "classes.txt", MARK}  # which stand beside them
    return {name: _free(_valid(name), taken, "%") for name in classes}


def _valid(name: str) -> str:
    """A file name without what some file system minds."""
    escaped = "".join(_percent(c) if c in '%/\\:*?"<>|' or not c.isprintable() else c for c in name)
    stem = escaped.partition(".")[0].upper()
    numbered = {f"{port}{i}" for port in ("COM", "LPT") for i in range(1, 10)}
    if escaped and stem in {"CON", "PRN", "AUX", "NUL"} | numbered:
        escaped = _percent(escaped[0]) + escaped[1:]
    if escaped[:1] in (".", " "):
        escaped = _percent(escaped[0]) + escaped[1:]
    if escaped[-1:] in (".", " "):
        escaped = escaped[:-1] + _percent(escaped[-1])
    while len(escaped.encode()) > 200:  # file systems take 255 bytes; _free tells those apart that this makes equal
        escaped = escaped[:-1]
    return escaped or "%"


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _free(name: str, taken: set[str], before: str = "~") -> str:
    """`name`, numbered before its suffix if it is taken, even in other capitals."""
    path = PurePosixPath(name)
    candidate, count = name, 1
    while (key := unicodedata.normalize("NFC", candidate).casefold()) in taken:
        count += 1
        stem, suffix = (path.name, "") if before == "%" else (path.stem, path.suffix)
        candidate = str(path.with_name(f"{stem}{before}{count}{suffix}"))
    taken.add(key)
    return candidate


def _inside(path: str, is_png: bool) -> str:
    """A path below the class: without a root, a drive or steps up; `is_png` is what we write as such ourselves."""
    parts = [_valid(part) for part in path.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    name = "/".join(parts) or "image"
    return name if not is_png or name.lower().endswith(".png") else f"{name}.png"
