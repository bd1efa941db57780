"""Files that are written whole or not at all."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Lets `write` fill a file beside `path`, syncs it, and renames it into place.

    Whatever happens, `path` holds either what it held before or all that was written. Folders on the way are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with beside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def replace_folder(new: Path, final: Path) -> None:
    """Puts a finished folder in the place of another one; whatever happens, one of the two is there, under its name or,
    for an instant, under that name with `.old`, from where `restore_folder` brings it back."""
    old = final.with_name(f".{final.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    new.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(final: Path) -> None:
    """Undoes a `replace_folder` that was interrupted between its two renames."""
    old = final.with_name(f".{final.name}.old")
    if old.exists() and not final.exists():
        old.rename(final)


def sha256_of(file: BinaryIO) -> bytes:
    """The hash of what is left to read, piece by piece (hashlib has such a function from Python 3.11 on)."""
    total = hashlib.sha256()
    while piece := file.read(2**18):
        total.update(piece)
    return total.digest()
