"""The image files below a folder, and whether a path stays inside one."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from askless.sources.image_file import UnreadableError, has_image_suffix, named_like_image
from askless.sources.items import Item, Skipped
from askless.sources.names import is_text, printable

ALLOW = "; pass follow_links (--follow-links) to allow it"


class OutsideError(UnreadableError):
    """A path that leads out of the folder it must stay in."""


def walk_images(
    root: Path, follow_links: bool = False, marker: str = ""
) -> tuple[list[Item], list[Skipped], list[str]]:
    """Files below root that are named like images, what was left out, and the folders with the marker: `walk_files`."""
    files, left_out, marked = walk_files(root, named_like_image, follow_links, marker)
    for name in [file.id for file in files if not has_image_suffix(Path(file.id))]:
        reason = f"askless cannot read {Path(name).suffix.lower()} images; convert them to .jpg or .png"
        left_out.append(Skipped(name, "unreadable", reason))
    return [file for file in files if has_image_suffix(Path(file.id))], sorted(left_out), marked


def walk_files(
    root: Path, wanted: Callable[[Path], bool], follow_links: bool = False, marker: str = ""
) -> tuple[list[Item], list[Skipped], list[str]]:
    """Files below root with a `wanted` name, what was left out, and the folders that hold a file named `marker`.

    All three are sorted by path. Hidden files and folders are passed over, and so is everything in a folder with the
    marker. Links to folders are only followed with `follow_links`, links to files also when they stay inside root. A
    folder that can be reached in several ways is entered once. No file is opened.
    """
    inside = os.path.realpath(root)
    found: list[Item] = []
    left_out: list[Skipped] = []
    marked: list[str] = []
    ahead, seen = [""], set()  # relative paths of folders, each ending in a slash
    while ahead:
        folder = ahead.pop()
        real = os.path.realpath(os.path.join(inside, folder))
        if real in seen:  # a link back up, or a second way to the same folder
            continue
        seen.add(real)
        try:
            with os.scandir(os.path.join(inside, folder)) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            left_out.append(Skipped(printable(folder) or ".", "unreadable", f"cannot be listed ({error.strerror})"))
            continue
        if marker and any(entry.name == marker for entry in entries):
            marked.append(printable(folder.rstrip("/")))
            continue
        below = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            name = folder + entry.name
            leads_to_folder = entry.is_symlink() and os.path.isdir(entry.path)
            if entry.is_dir(follow_symlinks=False) or (leads_to_folder and follow_links):
                below.append(name + "/")
            elif leads_to_folder:
                left_out.append(linked_folder(entry, name, inside))
            elif wanted(Path(entry.name)):
                taken = checked(entry, name, inside, follow_links)
                if isinstance(taken, Item):
                    found.append(taken)
                else:
                    left_out.append(taken)
        ahead += reversed(below)
    return sorted(found), sorted(left_out), sorted(marked)


def linked_folder(entry: os.DirEntry[str], name: str, inside: str) -> Skipped:
    if is_inside(os.path.realpath(entry.path), inside):
        return Skipped(printable(name), "link", "a link to another folder in this one" + ALLOW)
    return Skipped(printable(name), "outside", "a link to a folder" + ALLOW)


def checked(entry: os.DirEntry[str], name: str, inside: str, follow_links: bool) -> Item | Skipped:
    """The file of this entry, or why it is not taken."""
    if entry.is_symlink() and not follow_links and not is_inside(os.path.realpath(entry.path), inside):
        return Skipped(printable(name), "outside", "a link that leaves the folder" + ALLOW)
    try:
        about = entry.stat()
    except FileNotFoundError:
        return Skipped(printable(name), "missing", "a link to nothing")
    except OSError as error:
        return Skipped(printable(name), "unreadable", error.strerror or str(error))
    if not stat.S_ISREG(about.st_mode):
        return Skipped(printable(name), "unreadable", "not a regular file")
    if not is_text(name):
        return Skipped(printable(name), "name", "its name is not valid UTF-8; rename it")
    return Item(name, os.path.join(inside, name), size=about.st_size)


def real_file(root: Path, name: str, follow_links: bool = False) -> str:
    """The real path of the file that `name` means below root; OutsideError if it leaves root without `follow_links`."""
    real = os.path.realpath(os.path.join(root, name))
    if not follow_links and not is_inside(real, os.path.realpath(root)):
        raise OutsideError("it leads outside the folder")
    return real


def is_inside(real: str, folder: str) -> bool:
    """Whether a real path is below a folder's real path."""
    return Path(real).is_relative_to(folder)
