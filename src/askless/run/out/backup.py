"""A copy of a run, whole and consistent, also while people label."""

import contextlib
import os
import secrets
import shutil
import sqlite3
import time
import zipfile
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from askless.base.errors import InputError
from askless.base.files import part_of, whole_file, whole_folder
from askless.run.run import NAME, Run
from askless.run.store.schema import RunError, check_tables, transaction
from askless.run.store.store import check_file, connect, damage_in_words, open_to_read, set_meta

# All but the cache, which is made again from the images, and what belongs to the server and the worker of the moment.
KEPT = (
    *("project.toml", "labels.csv", "classes.txt", "skipped.csv", "sizes.npy"),
    *("rounds", "model", "report.html", "report.json"),
)
TRIES = 5


class Backup(NamedTuple):
    """Where a copy is, and what SQLite finds wrong with its database; "" where it is whole."""

    path: Path
    problem: str


def backup(folder: str | Path, out: str | Path | None = None) -> Backup:
    """Copies a run, without its cache, to a new folder, or to a .zip of one; by default beside the run, with the time in
    its name. The copy has a token of its own: who may label in one run may not in the other.

    Nothing is overwritten: a folder that is there gets the copy into it, under the default name.
    """
    run = Path(folder)
    path = run / NAME
    check_file(path)
    place = place_for(run, None if out is None else Path(out))
    if place.suffix == ".zip":
        place.parent.mkdir(parents=True, exist_ok=True)
        copied = part_of(place)
        copied.mkdir()
        try:
            problem = copy_run(run, copied)
            with whole_file(place) as file:
                os.chmod(file.name, 0o600)
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
                    for part in sorted(copied.rglob("*")):
                        packed.write(part, run.resolve().name / part.relative_to(copied))
        finally:
            shutil.rmtree(copied, ignore_errors=True)
    else:
        with whole_folder(place) as copied:
            problem = copy_run(run, copied)
    return Backup(place, problem)


def place_for(run: Path, out: Path | None) -> Path:
    """Where the copy goes: nowhere that anything is."""
    name = f"{run.resolve().name}-backup-{datetime.now():%Y%m%d-%H%M%S}"
    place = run.resolve().parent / name if out is None else out / name if out.is_dir() else out
    if place.exists():
        raise InputError(f"{place} already exists; choose another name")
    if place.resolve().is_relative_to(run.resolve()):
        raise InputError(f"{place}: expected a place outside the run, got one inside it; choose another")
    return place


def copy_run(run: Path, to: Path) -> str:
    """The files of a run, its database first: what is made from labels may be newer than it, and is made again then."""
    to.chmod(0o700)
    copy_database(run / NAME, to / NAME)
    for file in sorted(run.iterdir()):
        if file.name in KEPT and not file.is_symlink():
            copy_part(file, to / file.name)
    (to / "cache").mkdir(mode=0o700)
    (to / "rounds").mkdir(mode=0o700, exist_ok=True)
    try:
        with Run.open(to) as copied:
            problem = copied.store.problem()
            if not problem:
                copied.write_views()  # labels.csv, as the copied database has it
            return problem
    except RunError as error:
        return str(error)


def copy_database(path: Path, to: Path) -> None:
    """By SQLite's online backup: one state of the database, whoever writes meanwhile."""
    with damage_in_words(path), contextlib.closing(open_to_read(path)) as source:
        check_tables(source, path)
        to.touch(mode=0o600)
        with contextlib.closing(sqlite3.connect(to)) as target:
            source.backup(target)
        with contextlib.closing(connect(to, "DELETE", "FULL")) as copy, transaction(copy, "IMMEDIATE"):
            set_meta(copy, "token", secrets.token_urlsafe(32))


def copy_part(file: Path, to: Path) -> None:
    """A file or folder, for its owner alone. A training that ends meanwhile puts new folders in the place of old ones: then
    it is tried again."""
    for attempt in range(TRIES):
        try:
            shutil.rmtree(to, ignore_errors=True)
            copy_tree(file, to)
            return
        except FileNotFoundError:
            if attempt == TRIES - 1 and file.exists():
                raise
            time.sleep(0.1 * attempt)


def copy_tree(file: Path, to: Path) -> None:
    """Without the modes of the original, which may be read-only."""
    if file.is_dir():
        to.mkdir(mode=0o700)
        for part in sorted(file.iterdir()):
            if not part.name.startswith("."):
                copy_tree(part, to / part.name)
    else:
        shutil.copyfile(file, to)
        to.chmod(0o600)
