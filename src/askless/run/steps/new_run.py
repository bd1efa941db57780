"""A new run: index the source, draw the check images, write everything, and only then let the folder appear."""

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from askless.base.errors import InputError, OptionError
from askless.base.files import sync, sync_all
from askless.base.locks import held_folder
from askless.run.settings import Settings, write_settings
from askless.run.steps.draw import draw_check
from askless.run.steps.index import Index, Progress, scan, write_sizes, write_skipped
from askless.run.store.asking import ask_check_images
from askless.run.store.classes import add_class, forget_actions
from askless.run.store.importing import import_answers
from askless.run.store.items import add_items, noun
from askless.run.store.schema import RunError
from askless.run.store.store import Store, now, record, set_meta
from askless.sources.names import is_text

MAKING = ".making"
STARTER = "start"  # the annotator of what was known at the start


def read_source(source: str | Path, settings: Settings, progress: Progress | None = None) -> Index:
    return scan(
        Path(source),
        follow_links=settings.follow_links,
        labels_from_folders=settings.labels_from_folders,
        progress=progress,
        text=settings.text,
        encoding=settings.encoding,
    )


def make_run(folder: Path, settings: Settings, index: Index) -> list[str]:
    """Writes a run for these items into `folder`, which must not exist or be empty; sentences for the user."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder}: expected a new folder for the run, got one that is not empty; choose another name")
    if not is_text(str(folder.resolve())):
        raise RunError(f"expected a folder whose name is valid UTF-8, got {str(folder)!a}; choose another name")
    n_items = len(index.items)
    if n_items < 2:
        raise InputError(f"{settings.source}: expected at least two {noun(index.kind)}s, got {n_items}")
    above = [place for place in (folder.parent, *folder.parent.parents) if not place.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with made_beside(folder) as beside:
        for name in ("cache", "rounds"):
            (beside / name).mkdir(mode=0o700)
        write_settings(settings, beside / "project.toml")
        write_skipped(index.skipped, beside / "skipped.csv")
        if index.kind == "files":
            write_sizes(index.items, beside / "sizes.npy")
        # The last connection to close leaves one whole file behind.
        with closing(Store(beside / "state.sqlite", create=True)) as store, store.change() as db:
            notes = fill(db, settings, index)
        sync_all(beside)
        if folder.exists():
            folder.rmdir()
        beside.rename(folder)
        for place in (folder, *above):
            sync(place.parent)
    return notes


@contextmanager
def made_beside(folder: Path) -> Iterator[Path]:
    """A new folder to make the run in, locked while somebody works in it; afterwards it is gone. So are those that a killed
    process left: they hold tokens."""
    names = []
    with suppress(OSError):  # not everybody may look into the folder above
        names = os.listdir(folder.parent)
    for name in names:
        if name.startswith(f".{folder.name}.") and name.endswith(MAKING):
            with held_folder(folder.with_name(name)) as is_free:
                if is_free:
                    shutil.rmtree(folder.with_name(name), ignore_errors=True)
    while True:
        beside = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}{MAKING}")
        beside.mkdir(mode=0o700)
        with held_folder(beside) as is_ours:
            if is_ours is False:  # taken for a left one before it was locked
                continue
            try:
                yield beside
            finally:
                shutil.rmtree(beside, ignore_errors=True)
            return


def fill(db: sqlite3.Connection, settings: Settings, index: Index) -> list[str]:
    """Draws the check images, and writes all that is known at the start; sentences for the user."""
    n_items, notes = len(index.items), list(index.hints)
    budget = min(settings.budget, n_items)
    if budget < settings.budget:
        notes.append(f"The budget is {budget}, because there are no more {noun(index.kind)}s.")
    draw = draw_check(n_items, budget, settings.check, settings.seed)
    if settings.check and not draw.check:
        notes.append(f"The budget is too small for check {noun(index.kind)}s, so the accuracy will not be measured.")
    for name, value in {
        "run": secrets.token_hex(8),
        "token": secrets.token_urlsafe(32),
        "made_at": now(),
        "kind": index.kind,
        "root": str(index.root),
        "text": index.text,
        "budget": budget,
        "check": draw.check,
        "suggestions": settings.suggestions,
    }.items():
        set_meta(db, name, value)
    add_items(db, ((item, draw.split(i), int(draw.place[i])) for i, item in enumerate(index.items)))
    set_meta(db, "skipped", [list(row) for row in index.skipped])
    record(db, "start", "start", STARTER, {"items": n_items, "seed": settings.seed})
    names = list(settings.classes) or list(index.classes)
    for i, name in enumerate(names):
        try:
            add_class(db, f"start-class-{i}", STARTER, name)
        except InputError as error:
            raise OptionError(f"classes: {error}") from None
    forget_actions(db)  # what was there at the start cannot be undone
    ask_check_images(db)
    labelled = [(it.id, it.label) for it in index.items if it.label]
    if labelled:
        result = import_answers(db, "start-labels", STARTER, labelled, overlap=settings.annotators)
        notes.append(f"{result.taken} labels were already known.")
    return notes
