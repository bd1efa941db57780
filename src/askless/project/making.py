"""A new run: index the source, draw the check images, write everything, and only then let the folder appear."""

import json
import os
import secrets
import shutil
import sqlite3
from pathlib import Path

from askless.errors import InputError, OptionError
from askless.project.classes import add_class
from askless.project.draw import Draw, draw_check
from askless.project.importing import import_answers
from askless.project.index import Index, write_skipped
from askless.project.nouns import noun
from askless.project.schema import RunError
from askless.project.settings import Settings, write_settings
from askless.project.store import Store, now, record, set_meta

STARTER = "start"  # the annotator of what was known at the start


def make_run(folder: Path, settings: Settings, index: Index) -> list[str]:
    """Writes a run for these items into `folder`, which must not exist or be empty; sentences for the user."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(
            f"{folder}: expected a new folder for the run, got one with something in it; choose another name"
        )
    n_items = len(index.items)
    if n_items < 2:
        raise InputError(f"{settings.source}: expected at least two {noun(index.kind)}s to choose from, got {n_items}")
    notes = list(index.hints)
    budget = min(settings.budget, n_items)
    if budget < settings.budget:
        notes.append(f"The budget is {budget}: there are no more {noun(index.kind)}s.")
    draw = draw_check(n_items, budget, settings.check, settings.seed)
    if settings.check and not draw.check:
        notes.append(f"The budget is too small for check {noun(index.kind)}s: the accuracy will not be measured.")
    beside = folder.with_name(f".{folder.name}.{os.getpid()}.making")
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside.mkdir(mode=0o700)
    try:
        for name in ("cache", "rounds"):
            (beside / name).mkdir(mode=0o700)
        write_settings(settings, beside / "project.toml")
        write_skipped(index.skipped, beside / "skipped.csv")
        store = Store(beside / "state.sqlite", create=True)
        try:
            with store.change() as db:
                fill(db, settings, index, draw, budget, notes)
        finally:
            store.close()  # the last connection to close leaves one whole file behind
        if folder.exists():
            folder.rmdir()
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return notes


def fill(db: sqlite3.Connection, settings: Settings, index: Index, draw: Draw, budget: int, notes: list[str]) -> None:
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
    db.executemany(
        "INSERT INTO item (id, path, width, height, split, place, columns) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (i, it.path, it.width, it.height, draw.split(i), int(draw.place[i]), json.dumps(dict(it.columns)))
            for i, it in enumerate(index.items)
        ],
    )
    set_meta(db, "skipped", [list(row) for row in index.skipped])
    record(db, "start", "start", STARTER, {"items": len(index.items), "seed": settings.seed})
    names = list(settings.classes) or list(index.classes)
    for i, name in enumerate(names):
        try:
            add_class(db, f"start-class-{i}", STARTER, name)
        except InputError as error:
            raise OptionError(f"classes: {error}") from None
    db.execute("DELETE FROM action")  # what was there at the start cannot be undone
    db.execute(
        "INSERT INTO task (item, kind, round, rank, picked_by, reason, state) "
        "SELECT id, 'check', NULL, place, 'random', ?, 'open' FROM item WHERE split = 'check'",
        (f"random check {noun(index.kind)}",),
    )
    labelled = [(it.path, it.label) for it in index.items if it.label]
    if labelled:
        result = import_answers(db, "start-labels", STARTER, labelled, overlap=settings.annotators)
        notes.append(f"{result.taken} labels were known already.")
