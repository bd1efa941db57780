"""A folder of image files: of any depth, or in the layout of Hugging Face with a metadata file beside the images."""

import os
from collections.abc import Sequence
from pathlib import Path

from askless.base.errors import InputError
from askless.sources.find import walk_images
from askless.sources.items import Item, Skipped, Source
from askless.sources.names import TEST_NAMES, splits_and_classes
from askless.sources.table import listed_images

METADATA = ("metadata.csv", "metadata.jsonl")


def image_folder(root: Path, follow_links: bool = False, labels_from_folders: bool = False, marker: str = "") -> Source:
    """All images below a folder, none of which is opened. Folders with a file named `marker` are passed over."""
    check_folder(root)
    files, left_out, marked = walk_images(root, follow_links, marker)
    if "" in marked:
        raise InputError(f"{root}: expected images, got a run of askless; continue it with `askless start {root}`")
    names = [file.id for file in files]
    sides, test = folder_labels(root, names, labels_from_folders)
    hints = [f"{run} is a run of askless, not part of the images" for run in marked]
    folders = {label for _, label in splits_and_classes(names)[0]}
    if not labels_from_folders and len(folders) >= 2 and "" not in folders:
        advice = "pass labels_from_folders (--labels-from-folders) if these are classes"
        hints.append(f"the images are in {len(folders)} folders; {advice}")
    items = [file._replace(label=label, split=split) for file, (split, label) in zip(files, sides, strict=True)]
    return Source("files", Path(os.path.realpath(root)), [*items, *left_out], test, hints=tuple(hints))


def check_folder(root: Path) -> None:
    if not root.is_dir():
        raise InputError(
            f"{root}: expected a folder of images, {'got a file' if root.exists() else 'found nothing there'}"
        )


def folder_labels(root: Path, names: Sequence[str], wanted: bool) -> tuple[list[tuple[str, str]], str]:
    """The split and the class of each path by its folders, where they are wanted, and the split that is held out."""
    sides, test = splits_and_classes(names)
    if not wanted:
        return [("", "")] * len(names), test
    if names and not any(label for _, label in sides):
        raise InputError(
            f"{root}: expected one folder per class below it, found none; leave labels_from_folders "
            "(--labels-from-folders) out"
        )
    return sides, test


def described_folder(root: Path, label: str = "") -> Source:
    """Images as `load_dataset("imagefolder", data_dir=root)` of Hugging Face finds them; the pool is `train`."""
    check_folder(root)
    places = (root, *sorted(root.iterdir()))
    tables = {"train" if at == root else at.name.lower(): file for at in places if (file := metadata_in(at))}
    if not tables:
        return image_folder(root, labels_from_folders=True)
    test = next((split for split in TEST_NAMES if split in tables), "test")
    found: list[Item | Skipped] = []
    for split in ("train", test):
        if split in tables:
            found += listed_images(tables[split], label, root=root, split=split).found
    for each in found:
        if isinstance(each, Skipped) and each.problem == "outside":
            raise InputError(f"{root}: expected files inside the folder of the metadata, got {each.path!r}")
    return Source("files", Path(os.path.realpath(root)), found, test)


def metadata_in(place: Path) -> Path | None:
    return next((place / name for name in METADATA if (place / name).is_file()), None) if place.is_dir() else None


def is_described(root: Path) -> bool:
    return metadata_in(root) is not None or metadata_in(root / "train") is not None
