"""Files written atomically."""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from askless.base.errors import InputError, OptionError, first_line

ASIDE = ".askless-old"
FILES = "files.json"  # beside other files: their sizes and SHA-256, to tell a damaged one
PART = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.part")
DAY = 86_400.0  # seconds, after which nobody fills a file any more
_cleared: set[Path] = set()  # folders, by this process


def part_of(path: Path) -> Path:
    """The name under which a file or folder is filled; what killed processes left beside it a day ago is cleared the first
    time."""
    if path.parent not in _cleared:
        _cleared.add(path.parent)
        clear_parts(path.parent)
    return path.with_name(f".{path.name[:50]}.{os.getpid()}-{secrets.token_hex(4)}.part")


def clear_parts(folder: Path) -> None:
    """Removes what `part_of` named in a folder a day ago. By age, for a process of another container cannot be seen."""
    with suppress(OSError):
        for left in [each for each in os.scandir(folder) if PART.fullmatch(each.name)]:
            if time.time() - left.stat(follow_symlinks=False).st_mtime > DAY:
                shutil.rmtree(left) if left.is_dir(follow_symlinks=False) else os.unlink(left)


@contextmanager
def meant(path: Path, beside: Path) -> Iterator[None]:
    """Errors of the system name the file that people know, also those of a write, which name none."""
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, str):
            error.filename = error.filename.replace(str(beside), str(path))
            del error.filename2  # else " -> None" is said
        elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            error.filename = str(path)
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` to fill, which is synced and then renamed into place.

    Whatever happens, `path` holds either what it held before or all that was written. Folders on the way are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = part_of(path)
    try:
        with meant(path, beside), beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with meant(path, beside):
            os.replace(beside, path)
        sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Makes a file, or the names in a folder, outlast a power cut."""
    try:
        opened = os.open(path, os.O_RDWR if os.name == "nt" and path.is_file() else os.O_RDONLY)
    except OSError:
        if path.is_dir():  # Windows opens no folders
            return
        raise
    try:
        os.fsync(opened)
    except OSError:
        if not path.is_dir():  # not every file system syncs folders
            raise
    finally:
        os.close(opened)


def sync_all(folder: Path) -> None:
    """Syncs a folder with everything in it, but not what links lead to."""
    for place, _, names in os.walk(folder):
        for path in (*(Path(place, name) for name in names), Path(place)):
            if not path.is_symlink():
                sync(path)


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Lets `write` fill a `whole_file`."""
    with whole_file(path) as file:
        write(file)


def put_aside(final: Path) -> Path:
    """Where a folder is while another one takes its place: a name that nobody else gives."""
    return final.with_name(f".{final.name}{ASIDE}")


def replace_folder(new: Path, final: Path) -> None:
    """Puts a finished folder, which is synced first, in the place of another one; whatever happens, one of the two is there,
    under its name or, for an instant, under the name `put_aside` gives, from where `restore_folder` brings it back."""
    old = put_aside(final)
    shutil.rmtree(old, ignore_errors=True)
    sync_all(new)
    try:
        if final.exists():
            os.replace(final, old)
        os.replace(new, final)
        sync(final.parent)
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
    beside = part_of(out)
    try:
        with meant(out, beside):
            beside.mkdir(parents=True)
            yield beside
            replace_folder(beside, out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def free_folder(out: Path, overwrite: bool, marks: Iterable[str]) -> Path:
    """Where to write a folder, once nothing can be lost there: what is replaced, and only with `overwrite`, is an earlier
    export, which has the files `marks` in it."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a folder or an unused name, got a file; choose another name")
    if out.is_dir() and any(out.iterdir()):
        if not overwrite:
            raise OptionError(
                f"{out}: expected an empty folder or a new name, got a folder with files; pass overwrite (--overwrite)"
            )
        if missing := [name for name in marks if not (out / name).is_file()]:
            raise InputError(
                f"{out}: expected an earlier export to overwrite, got a folder with other files (without {missing[0]}); "
                "choose another name, or delete it yourself"
            )
    return out


def in_full(net: str) -> str:
    """The name of a net, with the whole path where it names a folder, as frozen:hf/FOLDER: it may be used from anywhere."""
    start, hf, folder = net.partition("hf/")
    is_folder = hf and start in ("", "frozen:") and folder and Path(folder).is_dir()
    return f"{start}hf/{Path(folder).resolve()}" if is_folder else net


def run_beside(folder: Path) -> str:
    """A hint at the run that `askless start` makes beside a folder of images, where there is one."""
    beside = Path(f"{folder}-run") if folder.name else folder.resolve().parent / f"{folder.resolve().name}-run"
    return f"; there is a run in {beside}" if beside.is_dir() else ""


def damage_of_files(
    folder: Path, needed: Iterable[str] = (), check: Callable[[Path], object] = Path.stat
) -> str | None:
    """What is wrong in a folder: with the files that are `needed`, on which `check` raises something where they are
    damaged, or with those that its `files.json` lists, where it has one. None where all is as it was written."""
    path = folder / FILES
    try:
        listed = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for path in map(folder.joinpath, needed):
            check(path)
        for name, (size, digest) in listed.items():
            path = folder / name
            with path.open("rb") as file:
                if path.stat().st_size != size or sha256_of(file).hex() != digest:
                    raise ValueError("its content has changed")
    except FileNotFoundError:
        return f"{path} is missing"
    except Exception as error:  # a damaged file fails in many ways
        return f"{path} cannot be read: {first_line(error)}"
    return None


def sha256_of(file: BinaryIO) -> bytes:
    """The hash of what is left to read, piece by piece (hashlib has such a function from Python 3.11 on)."""
    total = hashlib.sha256()
    while piece := file.read(2**18):
        total.update(piece)
    return total.digest()
