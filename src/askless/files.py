"""Files that are written whole or not at all."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

ASIDE = ".askless-old"


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` to fill, which is synced and then renamed into place.

    Whatever happens, `path` holds either what it held before or all that was written. Folders on the way are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Lets `write` fill a `whole_file`."""
    with whole_file(path) as file:
        write(file)


def put_aside(final: Path) -> Path:
    """Where a folder is while another one takes its place: a name that nobody else gives."""
    return final.with_name(f".{final.name}{ASIDE}")


def replace_folder(new: Path, final: Path) -> None:
    """Puts a finished folder in the place of another one; whatever happens, one of the two is there, under its name or,
    for an instant, under the name `put_aside` gives, from where `restore_folder` brings it back."""
    old = put_aside(final)
    shutil.rmtree(old, ignore_errors=True)
    try:
        if final.exists():
            os.replace(final, old)
        os.replace(new, final)
    except BaseException:
        restore_folder(final)
        raise
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(final: Path) -> None:
    """Undoes a `replace_folder` that was interrupted between its two renames."""
    old = put_aside(final)
    if old.exists() and not final.exists():
        old.rename(final)


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A folder beside `out` to fill, which then takes its place; on any failure it is gone and `out` is as it was.

    Whether what is at `out` may be replaced is for the caller to know.
    """
    out = out.resolve()
    beside = out.with_name(f".{out.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    beside.mkdir(parents=True)
    try:
        yield beside
        replace_folder(beside, out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def in_full(net: str) -> str:
    """The name of a net, with the whole path where it names a folder, as frozen:hf/FOLDER: it may be used from anywhere."""
    start, hf, folder = net.partition("hf/")
    is_folder = hf and start in ("", "frozen:") and folder and Path(folder).is_dir()
    return f"{start}hf/{Path(folder).resolve()}" if is_folder else net


def sha256_of(file: BinaryIO) -> bytes:
    """The hash of what is left to read, piece by piece (hashlib has such a function from Python 3.11 on)."""
    total = hashlib.sha256()
    while piece := file.read(2**18):
        total.update(piece)
    return total.digest()
