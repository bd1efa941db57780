"""Makes the run that every later version must open: `python tests/run/golden/make.py`, with the askless whose tables are
to be kept. It is written below this file, named by the version of its tables. A folder that is there is never replaced: it
was made by the askless of that time, which is the point of it.
"""

import shutil
import sqlite3
from pathlib import Path

import numpy as np

from askless.run import Run
from askless.run.out.answers import LabelRow, import_into
from askless.run.store.answering import undo
from askless.run.store.asking import Desk
from askless.run.store.schema import MIGRATIONS

PLACE = Path("/tmp/askless-golden")  # no path of anybody's computer, for the run keeps it
N = 16


def label(path: str) -> str:
    return ("cat", "dog")[int(path) % 2]


def make(folder: Path) -> None:
    """Sixteen rows of three features: a finished round, a second one that is half answered, an import, an undo."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    rows = np.random.default_rng(0).normal(size=(N, 3)) + 3 * (np.arange(N) % 2)[:, None]
    np.savez(PLACE / "rows.npz", X=rows.astype(np.float32), ids=np.array([str(i) for i in range(N)]))
    options = {"classes": ("cat", "dog"), "budget": 12, "batch": 4, "check": 0.25, "steps": 5, "seed": 1}
    with Run.create(PLACE / "rows.npz", PLACE / "run", **options) as run:
        while run.advance():
            pass
        run.tell({path: label(path) for path in run.waiting()}, "ann")
        while run.advance():
            pass
        waiting = run.waiting()
        run.tell({path: label(path) for path in waiting[:2]}, "bo")
        with run.store.change() as db:
            undo(db, Desk("bo", "golden"), "golden-undo", overlap=1)
        with run.store.look() as db:
            asked = {row["path"] for row in db.execute("SELECT i.path FROM task t JOIN item i ON i.id = t.item")}
        free = next(path for path in run.paths if path not in asked)
        import_into(run, [LabelRow(free, label(free))], "table", "keep")
    database = sqlite3.connect(PLACE / "run" / "state.sqlite")
    for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 512", "VACUUM", "PRAGMA journal_mode = WAL"):
        database.execute(statement)  # a third of the size
    database.close()
    shutil.copytree(PLACE, folder, ignore=shutil.ignore_patterns(".*"))  # locks


if __name__ == "__main__":
    folder = Path(__file__).parent / f"version-{len(MIGRATIONS)}"
    if folder.exists():
        raise SystemExit(f"{folder} is there already, and is not replaced")
    make(folder)
    print(folder)
