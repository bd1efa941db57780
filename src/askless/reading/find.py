"""The image files below a folder."""

import os
from pathlib import Path

from askless.reading.image_file import has_image_suffix


def find_images(root: Path, follow_links: bool) -> tuple[list[Path], list[tuple[str, str]]]:
    """Image files below root, sorted, and what was left out with the reason; hidden files are passed over."""
    found, skipped, seen = [], [], set()
    inside = root.resolve()
    for folder_name, subfolders, files in os.walk(root, followlinks=follow_links):
        here = Path(folder_name)
        if here.resolve() in seen:  # a link back up, or a second way to the same folder
            subfolders.clear()
            continue
        seen.add(here.resolve())
        if not follow_links:
            linked = [here / name for name in subfolders if (here / name).is_symlink()]
            skipped += [
                (entry.relative_to(root).as_posix(), "a link to a folder; use follow_links") for entry in linked
            ]
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for file in (here / name for name in files if not name.startswith(".")):
            name = file.relative_to(root).as_posix()
            if not has_image_suffix(file):
                continue
            if not follow_links and file.is_symlink() and not file.resolve().is_relative_to(inside):
                skipped.append((name, "a link that leaves the folder; use follow_links"))
            elif not is_text(name):
                skipped.append((ascii(name), "its name is not valid UTF-8; rename it"))
            else:
                found.append(file)
    return sorted(found, key=lambda file: file.relative_to(root).as_posix()), sorted(skipped)


def is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
