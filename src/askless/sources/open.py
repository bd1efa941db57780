"""One way in: whatever a user points at becomes items, and what was skipped and why."""

from os import PathLike
from pathlib import Path
from typing import Literal

from askless.base.errors import InputError
from askless.sources.arrays import read_arrays
from askless.sources.arrow import arrow_source, is_dataset
from askless.sources.folders import described_folder, image_folder, is_described
from askless.sources.items import Source
from askless.sources.table import listed_images
from askless.sources.tars import tar_source
from askless.sources.texts import holds_texts, read_texts

Format = Literal["folder", "described", "listed", "texts", "arrays", "arrow", "tar"]

EVERY: tuple[Format, ...] = ("folder", "described", "listed", "texts", "arrays", "arrow", "tar")
SUFFIXES: dict[str, Format] = {
    **{".csv": "listed", ".tsv": "listed", ".npz": "arrays", ".npy": "arrays"},
    **{".jsonl": "texts", ".ndjson": "texts", ".parquet": "arrow"},
    **{".tar": "tar", ".gz": "tar", ".tgz": "tar"},
}
WANTED = "a folder of images or .txt files, or a file ending in "


def open_source(
    what: str | PathLike[str],
    *,
    formats: tuple[Format, ...] = EVERY,
    text: str = "",
    encoding: str = "utf-8",
    follow_links: bool = False,
    labels_from_folders: bool = False,
    marker: str = "",
) -> Source:
    """The items of a folder of images (any depth) or of .txt files, of a table that lists images or has a column of texts,
    of a file of arrays, a Parquet file, a Hugging Face data set on disk, or a tar. No image is decoded, nothing is written.

    `formats` are those that the caller can use. `text` names the column of the texts.
    `follow_links` also takes what lies outside a folder, by a link or by a table's path. `labels_from_folders` takes the
    first folder as the class, or the second where the first ones are `train` and `test`. Folders with a file named `marker`
    are passed over.
    """
    path = Path(what)
    if labels_from_folders and not path.is_dir():
        raise InputError(f"{path}: expected a folder to take the labels from its folders, got something else")
    found = format_of(path, formats, text)
    if found == "texts":
        return read_texts(path, text, "", encoding, follow_links, labels_from_folders)
    if found == "folder":
        return image_folder(path, follow_links, labels_from_folders, marker)
    if found == "listed":
        return listed_images(path, follow_links=follow_links)
    if found == "described":
        return described_folder(path)
    if found == "arrow":
        return arrow_source(path, {})
    return read_arrays(path) if found == "arrays" else tar_source(path)


def format_of(path: Path, formats: tuple[Format, ...] = EVERY, text: str = "") -> Format:
    """Which of the formats a path has."""
    if not path.exists():
        raise InputError(f"{path}: expected {WANTED}{suffixes(formats)}, found nothing there; check the path")
    if "arrow" in formats and (path.suffix.lower() == ".parquet" or (path.is_dir() and is_dataset(path))):
        return "arrow"
    if "described" in formats and path.is_dir() and is_described(path):
        return "described"
    if "texts" in formats and holds_texts(path, text):
        return "texts"
    found = "folder" if path.is_dir() else SUFFIXES.get(path.suffix.lower())
    if found not in formats:
        raise InputError(f"{path}: expected {WANTED}{suffixes(formats)}, got {path.name!r}")
    return found


def suffixes(formats: tuple[Format, ...]) -> str:
    """Those of the formats; Parquet is also read for its texts."""
    known = {suffix for suffix, found in SUFFIXES.items() if found in formats or suffix == ".parquet"}
    return ", ".join(suffix for suffix in SUFFIXES if suffix in known)
