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
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from askless.base.errors import InputError, OptionError
from askless.base.files import free_folder, whole_folder, write_whole
from askless.run.out.export import (
    BYTES,
    GUARDED,
    PSEUDO,
    Columns,
    LabelRow,
    Predicted,
    Settled,
    Table,
    csv_bytes,
    formulas_in,
    is_formula,
    jsonl_bytes,
    settle,
    survives_pandas,
    table_of,
)
from askless.sources import UnreadableError, image_size, read_image

FORMATS = ("csv", "jsonl", "imagefolder", "npz", "parquet", "hf", "datasets", "coco")
FOLDERS = ("imagefolder", "hf", "datasets")
WHAT = ("human", "human+model")
LINKS = ("copy", "hard", "sym")
MARK = "export.json"  # by which a folder of ours is known, so that overwriting never deletes anything else
LARGEST = 2**31  # bytes of pixels that an npz may hold

FileOf = Callable[[int], Path | None]
PixelsOf = Callable[[int], np.ndarray]
TextOf = Callable[[int], str]


class Exported(NamedTuple):
    """What was written: `labels` items with a human label (rows in a table), `pseudo` items with the model's, the paths
    that were left out with the reason, and notes for people."""

    path: Path
    labels: int
    pseudo: int
    left_out: list[tuple[str, str]]
    notes: list[str]


# ---- export -----------------------------------------------------------------------------------------------------------


def export(
    to: str,
    out: Path,
    rows: Sequence[LabelRow],
    classes: Sequence[str],
    predicted: Sequence[Predicted] = (),
    columns: Columns | None = None,
    file_of: FileOf | None = None,
    pixels_of: PixelsOf | None = None,
    text_of: TextOf | None = None,
    what: str = "human",
    min_prob: float = 0.0,
    link: str = "copy",
    by_split: bool = False,
    safe_cells: bool | None = None,
    overwrite: bool = False,
) -> Exported:
    """Writes the labels to `out` in the format `to`, whole or not at all.

    csv, jsonl and parquet have a row for each answer; the other formats one label for each image: the one that more than
    half of its answers give. `what="human+model"` adds the model's labels of at least `min_prob`. `file_of` gives an
    item's image file, or None, and then `pixels_of` its (H, W, 3) or (H, W) uint8 pixels, written as PNG; `text_of` gives
    its text, for datasets. `link` copies the image files into imagefolder and hf, or links to them; `by_split` makes
    `train` and `check` folders in imagefolder.
    `safe_cells` puts ' before CSV cells that a spreadsheet would take for a formula; reading such a file takes it off. By
    default that is done, and said in the notes, where there is such a cell.
    An existing file is replaced only with `overwrite`, an existing folder only if it was written by this function too.
    """
    for name, value, known in (("to", to, FORMATS), ("what", what, WHAT), ("link", link, LINKS)):
        if value not in known:
            raise OptionError(f"{name}: expected {' or '.join(known)}, got {value!r}")
    both = what == "human+model"
    model = [p for p in predicted if p.prob >= min_prob] if both else []
    unknown = ({r.label for r in rows if r.status == "labelled"} | {p.label for p in model}) - set(classes)
    if unknown:
        raise InputError(f"classes: expected every class that has labels, got none called {min(unknown)!r}")
    out = place_for(Path(out), to, overwrite)
    table = table_of(rows, model, columns or {}, both)
    formulas = formulas_in(table)
    safe = bool(formulas) if safe_cells is None else safe_cells
    notes = (
        [f"{len(formulas)} cells start like a formula, such as {formulas[0][:40]!r}; {GUARDED}"]
        if formulas and safe
        else []
    )
    if to in ("csv", "jsonl", "parquet"):
        data = csv_bytes(table, safe) if to == "csv" else BYTES[to](table)
        write_whole(out, lambda file: file.write(data))
        return Exported(out, sum(r.status == "labelled" for r in rows), len(model), [], notes if to == "csv" else [])
    if file_of is None and pixels_of is None and text_of is None:
        raise InputError(f"{to}: expected file_of or pixels_of, from which the images come, got neither")
    settled, left_out = settle(rows)
    if not settled:
        raise InputError(f"{to}: expected at least one labelled item, got none; label some first, or export to csv")
    job = _Job(
        out,
        rows,
        settled,
        model,
        both,
        list(classes),
        table,
        _Images(file_of, pixels_of, text_of, link),
        by_split,
        safe,
    )
    write = {"imagefolder": _imagefolder, "hf": _hf, "datasets": _datasets, "npz": _npz, "coco": _coco}[to]
    done = write(job, left_out)
    return Exported(
        out, done.labels, done.pseudo, left_out, done.notes + (notes if to in ("imagefolder", "hf") else [])
    )


def place_for(out: Path, to: str, overwrite: bool) -> Path:
    """Where to write, once nothing can be lost there."""
    if to not in FOLDERS:
        out = out / f"labels.{'json' if to == 'coco' else to}" if out.is_dir() else out
        if out.exists() and not overwrite:
            raise OptionError(f"{out}: the file already exists; pass overwrite (--overwrite)")
        return out
    return free_folder(out, overwrite, (MARK,))


@contextmanager
def export_folder(out: Path, to: str) -> Iterator[Path]:
    """A folder to fill, which takes its place at the end, marked as an export."""
    with whole_folder(out) as root:
        yield root
        (root / MARK).write_text(json.dumps({"written_by": "askless export", "to": to}) + "\n", encoding="utf-8")


class _Images:
    """Where the images come from and how they get into a folder."""

    def __init__(self, file_of: FileOf | None, pixels_of: PixelsOf | None, text_of: TextOf | None, link: str) -> None:
        self.file_of, self._pixels_of, self.text_of, self.link = file_of, pixels_of, text_of, link

    def file(self, item: int) -> Path | None:
        return self.file_of(item) if self.file_of is not None else None

    def pixels(self, item: int) -> np.ndarray:
        file = self.file(item)
        if file is not None:
            return read_image(file)
        if self._pixels_of is None:
            raise UnreadableError("no image file, and no pixels_of to ask")
        return np.asarray(self._pixels_of(item))

    def size(self, item: int) -> tuple[int, int]:
        file = self.file(item)
        if file is None:
            height, width = self.pixels(item).shape[:2]
            return int(height), int(width)
        return image_size(file)

    def content(self, item: int) -> str | bytes:
        """The text, or the bytes of the image file; PNG where there is none."""
        if self.text_of is not None:
            return self.text_of(item)
        from askless.data.hf_out import png_bytes

        file = self.file(item)
        return png_bytes(self.pixels(item)) if file is None else file.read_bytes()

    def put(self, item: int, target: Path) -> None:
        """The image at `target`: copied, linked to, or written as PNG; UnreadableError if it cannot be had any more."""
        target.parent.mkdir(parents=True, exist_ok=True)
        file = self.file(item)
        if file is None:
            pixels = self.pixels(item)
            Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels).save(target, format="PNG")
            return
        if not file.is_file():
            raise UnreadableError("the file is gone")
        if self.link == "sym":
            target.symlink_to(file.resolve())
        elif self.link == "hard":
            try:
                os.link(file.resolve(), target)
            except OSError as error:
                raise InputError(
                    f"{file}: cannot be hard-linked to {target.parent} ({error.strerror}), which needs one file system; "
                    "take link=sym or link=copy"
                ) from None
        else:
            shutil.copyfile(file, target)


class _Job(NamedTuple):
    """What is to be written, for the formats that need the images."""

    out: Path
    rows: Sequence[LabelRow]
    settled: list[Settled]
    model: list[Predicted]
    both: bool  # the model's labels were asked for, even if none is sure enough
    classes: list[str]
    table: "Table"
    images: _Images
    by_split: bool
    safe_cells: bool


class _Done(NamedTuple):
    labels: int
    pseudo: int
    notes: list[str]


LeftOut = list[tuple[str, str]]


def _imagefolder(job: _Job, left_out: LeftOut) -> _Done:
    """`class/path`; with the model's labels `human/class/path` and `pseudo/class/path`."""
    folder = folder_names(job.classes)
    taken: set[str] = set()
    names: dict[str, str] = {}
    with export_folder(job.out, "imagefolder") as root:

        def put(item: int, path: str, parts: list[str]) -> bool:
            is_png = job.images.file(item) is None
            return _put(
                job.images, item, path, root, _free("/".join([*parts, _inside(path, is_png)]), taken), names, left_out
            )

        human = [
            put(s.item, s.path, ["human"] * job.both + [s.split or "train"] * job.by_split + [folder[s.label]])
            for s in job.settled
        ]
        pseudo = [put(p.item, p.path, [PSEUDO, folder[p.label]]) for p in job.model]
        require_some("imagefolder", sum(human), left_out)
        _describe(root, job, names)
    notes = [f"the folder of the class {name} is called {folder[name]}" for name in job.classes if folder[name] != name]
    return _Done(sum(human), sum(pseudo), notes)


def _hf(job: _Job, left_out: LeftOut) -> _Done:
    """`train`, `test` (the check images, and others held out) and `pseudo`, each with numbered images and a metadata file.

    Hugging Face takes every folder or file name with train, test or dev in it for a split, hence the numbers. It reads
    metadata.csv with pandas, which takes a class `None` for a missing one and `007` for a number: then it is .jsonl, and so
    it is where a cell would be a formula to a spreadsheet.
    """
    names: dict[str, str] = {}
    place = {name: i for i, name in enumerate(job.classes)}
    lines: dict[str, list[dict[str, Any]]] = {}
    with export_folder(job.out, "hf") as root:
        for number, (item, path, label, folder) in enumerate(_in_splits(job)):
            file = job.images.file(item)
            name = f"{number:06d}{'.png' if file is None else file.suffix.lower()}"
            if _put(job.images, item, path, root, f"{folder}/{name}", names, left_out):
                line = {"file_name": name, "label": label, "label_id": place[label], "path": path}
                lines.setdefault(folder, []).append(line)
        require_some("hf", sum(map(len, lines.values())), left_out)
        plain = all(
            survives_pandas(line[key]) and not is_formula(line[key])
            for some in lines.values()
            for line in some
            for key in ("label", "path")
        )
        for folder, some in lines.items():
            table = Table(list(some[0]), some)
            if plain:
                (root / folder / "metadata.csv").write_bytes(csv_bytes(table, safe_cells=False))
            else:
                (root / folder / "metadata.jsonl").write_bytes(jsonl_bytes(table))
        _describe(root, job, names)
    human = sum(len(some) for folder, some in lines.items() if folder != PSEUDO)
    return _Done(human, len(lines.get(PSEUDO, [])), [])


def _datasets(job: _Job, left_out: LeftOut) -> _Done:
    """A DatasetDict that `datasets.load_from_disk` reads: train, test (the check items), and pseudo, the model's labels."""
    from askless.data.hf_out import write_datasets

    splits: dict[str, list[tuple[str, Any, str]]] = {}
    for item, path, label, split in _in_splits(job):
        try:
            splits.setdefault(split, []).append((path, job.images.content(item), label))
        except (OSError, UnreadableError) as error:
            left_out.append((path, str(error)))
    require_some("datasets", sum(map(len, splits.values())), left_out)
    with export_folder(job.out, "datasets") as place:
        write_datasets(place, splits, job.classes, "image" if job.images.text_of is None else "text")
    pseudo = len(splits.get(PSEUDO, []))
    return _Done(sum(map(len, splits.values())) - pseudo, pseudo, [])


def _in_splits(job: _Job) -> list[tuple[int, str, str, str]]:
    """item, path, label and split, as Hugging Face calls it: train, test (what is held out) or pseudo."""
    asked = [(s.item, s.path, s.label, "train" if s.split in ("train", "") else "test") for s in job.settled]
    return asked + [(p.item, p.path, p.label, PSEUDO) for p in job.model]


def _npz(job: _Job, left_out: LeftOut) -> _Done:
    """ids, y (-1: no label), split, classes; X where all images have one size; pseudo_y and pseudo_prob of the model."""
    place = {name: i for i, name in enumerate(job.classes)}
    label = {s.path: place[s.label] for s in job.settled}
    guess = {p.path: (place[p.label], float(p.prob)) for p in job.model}
    first = {p.path: (p.item, "") for p in job.model} | {row.path: (row.item, row.split) for row in job.rows}
    ids = list(dict.fromkeys([row.path for row in job.rows] + [p.path for p in job.model]))
    arrays: dict[str, Any] = {
        "ids": np.array(ids, dtype=np.str_),
        "y": np.array([label.get(path, -1) for path in ids], np.int64),
        "split": np.array([first[path][1] for path in ids], dtype=np.str_),
        "classes": np.array(job.classes, dtype=np.str_),
    }
    if job.both:
        arrays["pseudo_y"] = np.array([guess.get(path, (-1, math.nan))[0] for path in ids], np.int64)
        arrays["pseudo_prob"] = np.array([guess.get(path, (-1, math.nan))[1] for path in ids], np.float64)
    x, note = _pixels([first[path][0] for path in ids], ids, job.images)
    if x is not None:
        arrays["X"] = x
    write_whole(job.out, lambda file: np.savez(file, **arrays))
    return _Done(len(job.settled), len(job.model), [note] if note else [])


def _pixels(items: list[int], ids: list[str], images: _Images) -> tuple[np.ndarray | None, str]:
    """(N, H, W, ...) uint8, or None and why not."""
    found: list[np.ndarray] = []
    for item, path in zip(items, ids, strict=True):
        try:
            pixels = images.pixels(item)
        except UnreadableError as error:
            return None, f"no X: {path} cannot be read ({error})"
        if found and pixels.shape != found[0].shape:
            return None, "no X: the images differ in size; their paths are in ids"
        if pixels.nbytes * len(items) > LARGEST:
            return (
                None,
                f"no X: {len(items)} images of {pixels.nbytes:,} bytes each are too many; their paths are in ids",
            )
        found.append(pixels)
    return np.stack(found).astype(np.uint8, copy=False), ""


def _coco(job: _Job, left_out: LeftOut) -> _Done:
    """COCO's images, annotations and categories without boxes; ids count from 1. The model's are under pseudo_ keys."""
    category = {name: i + 1 for i, name in enumerate(job.classes)}
    images: dict[str, list[dict[str, Any]]] = {"": [], PSEUDO: []}
    annotations: dict[str, list[dict[str, Any]]] = {"": [], PSEUDO: []}
    asked: list[tuple[str, int, str, str, dict[str, Any]]] = [
        *(("", s.item, s.path, s.label, {"split": s.split}) for s in job.settled),
        *((PSEUDO, p.item, p.path, p.label, {"score": float(p.prob)}) for p in job.model),
    ]
    for number, (kind, item, path, label, more) in enumerate(asked, 1):
        try:
            height, width = job.images.size(item)
        except UnreadableError as error:
            left_out.append((path, str(error)))
            continue
        images[kind].append({"id": number, "file_name": path, "width": width, "height": height})
        annotations[kind].append({"id": number, "image_id": number, "category_id": category[label], **more})
    require_some("coco", len(images[""]), left_out)
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
    return _Done(len(images[""]), len(images[PSEUDO]), [])


def require_some(to: str, count: int, left_out: LeftOut) -> None:
    """An error where no image could be read, so that an earlier export is not replaced by an empty one."""
    if count == 0:
        path, reason = left_out[-1]
        raise InputError(
            f"{to}: expected images that can be read, got none; {path}: {reason}. Nothing was written; put the images back, "
            "or export to csv"
        )


def _put(
    images: _Images, item: int, path: str, root: Path, name: str, names: dict[str, str], left_out: LeftOut
) -> bool:
    """Puts an image at `root/name` and remembers it in `names`; one that cannot be had any more is left out."""
    try:
        images.put(item, root / name)
    except UnreadableError as error:
        left_out.append((path, str(error)))
        return False
    names[path] = name
    return True


def _describe(root: Path, job: _Job, names: dict[str, str]) -> None:
    """`labels.csv` with all that is known and the name of each exported file, and `classes.txt`."""
    records = [{**record, "file_name": names.get(record["path"], "")} for record in job.table.records]
    table = Table([*job.table.header, "file_name"], records)
    (root / "labels.csv").write_bytes(csv_bytes(table, job.safe_cells))
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
