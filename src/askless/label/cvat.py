"""CVAT: the batch goes there as an image task in our order, its tags come back as labels; both by files.

Formats: the dataset manifest and "CVAT for images 1.1" of CVAT's documentation.
"""

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, NamedTuple
from xml.parsers import expat

from PIL import Image

from askless.base.errors import InputError
from askless.base.files import free_folder, whole_folder
from askless.label.labelstudio.batch import batch, nothing_open
from askless.label.labelstudio.exchange import Progress, choices_for, nothing
from askless.run.out.answers import LabelRow
from askless.sources import UnreadableError
from askless.sources.limits import check_bytes

if TYPE_CHECKING:
    from askless.run import Run

IMAGES, MANIFEST, LABELS = FILES = ("images.zip", "manifest.jsonl", "labels.json")
MEMBER = "annotations.xml"  # in what CVAT exports
EXPECTED = "an export of CVAT in the format CVAT for images 1.1, a .zip or its annotations.xml"


class Written(NamedTuple):
    """How many images are in the task, and notes (path, text)."""

    images: int
    notes: list[tuple[str, str]]


# --- the batch -> a task -----------------------------------------------------------------------------------------------


def write_task(run: "Run", out: Path, *, overwrite: bool = False, progress: Progress = nothing) -> Written:
    """A folder of three files to make a task of: the images of the batch, their order, and the classes as labels."""
    if not run.pictures.has_pictures:
        raise InputError(
            f"{run.folder}: CVAT shows images, and this run is on {run.noun}s; take --to labelstudio or csv"
        )
    free_folder(out, overwrite, FILES)
    labels = [{"name": name, "type": "tag", "attributes": []} for name in choices_for(run)]
    asked = batch(run, guesses=False)
    if not asked:
        raise nothing_open(run)
    rows: list[object] = [{"version": "1.1"}, {"type": "images"}]
    notes = []
    with whole_folder(out) as folder:
        with zipfile.ZipFile(folder / IMAGES, "w", zipfile.ZIP_STORED) as images:
            for done, each in enumerate(asked, 1):
                progress(done, len(asked))
                try:
                    name, content = picture_of(run, each.item)
                    row = row_of(name, content)
                except (UnreadableError, OSError) as error:
                    notes.append((each.path, f"left out: {error}"))
                    continue
                images.writestr(name, content)
                rows.append(row)
        (folder / MANIFEST).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        (folder / LABELS).write_text(json.dumps(labels, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return Written(len(rows) - 2, notes)


def picture_of(run: "Run", item: int) -> tuple[str, bytes]:
    """The name of an image in the task, and its file as it is; a row of an array becomes a PNG."""
    file = run.pictures.file(item)
    if file is not None:
        return run.paths[item], Path(file).read_bytes()
    return f"{run.paths[item]}.png", run.pictures.full(item).content


def row_of(name: str, content: bytes) -> dict[str, object]:
    """A line of the manifest."""
    try:
        name.encode()  # a file's name may be none in UTF-8
        with Image.open(BytesIO(content)) as image:
            width, height = image.size
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UnreadableError(str(error)) from None
    path = PurePosixPath(name)
    return {"name": str(path.with_suffix("")), "extension": path.suffix, "width": width, "height": height}


# --- its tags -> answers -----------------------------------------------------------------------------------------------


def read_tags(path: Path, run: "Run") -> tuple[list[LabelRow], list[tuple[str, str]]]:
    """The answers in an export, and notes on the images that have none that counts. Of each image the tags of people count,
    not those that a model of CVAT made."""
    known = set(run.paths)
    tags: dict[str, list[tuple[str, str]]] = {}
    with opened(path) as file:
        parse(file, path, lambda image, label, source: tags.setdefault(image, []).append((label, source)))
    rows, notes = [], []
    for name, found in tags.items():
        own = name if name in known or not name.endswith(".png") else name.removesuffix(".png")  # of a row
        said = dict.fromkeys(label for label, source in found if source != "auto")
        if len(said) == 1:
            rows.append(LabelRow(own, next(iter(said))))
        else:
            got = " and ".join(said) or "those of a model alone"
            notes.append((own, f"left out: expected one tag, got {got}"))
    return rows, notes


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The XML of an export, read as a stream."""
    try:
        if not zipfile.is_zipfile(path):
            with path.open("rb") as file:
                yield file
            return
        with zipfile.ZipFile(path) as archive:
            if MEMBER not in archive.namelist():
                raise InputError(f"{path}: expected {EXPECTED}, got an archive without {MEMBER}")
            check_bytes(path, archive.getinfo(MEMBER).file_size)
            with archive.open(MEMBER) as member:
                yield member
    except FileNotFoundError:
        raise InputError(f"{path}: expected {EXPECTED}, found nothing there") from None
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"{path}: expected {EXPECTED}, which cannot be read: {error}") from None


def parse(file: IO[bytes], path: Path, tag: Callable[[str, str, str], object]) -> None:
    """Calls `tag(image, label, source)` for each tag. A document type is refused: entities, which can expand without end or
    name other files, are declared there, and CVAT writes none."""
    parser = expat.ParserCreate()
    inside: list[str] = []  # the elements around, from the root
    image, seen = "", set()

    def start(name: str, has: dict[str, str]) -> None:
        nonlocal image
        if not inside and name != "annotations":
            raise InputError(f"{path}: expected {EXPECTED}, got XML of <{name}>")
        inside.append(name)
        seen.add(name)
        if inside[1:] == ["image"]:
            image = has.get("name", "")
        elif inside[1:] == ["image", "tag"] and image and has.get("label"):
            tag(image, has["label"], has.get("source", ""))

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: expected {EXPECTED}, got XML with a document type, which is not read")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: inside.pop()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.ParseFile(file)
    except expat.ExpatError as error:
        raise InputError(f"{path}: expected {EXPECTED}, got something else ({error})") from None
    if "tag" not in seen:
        shapes = ", ".join(sorted(seen & {"box", "polygon", "polyline", "points", "mask", "track", "cuboid"}))
        raise InputError(f"{path}: expected tags of images, got {shapes or 'none'}; label each image by a tag")
