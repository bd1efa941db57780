"""The trainings of a run: one per round, with the labels it had and what was measured."""

import json
import sqlite3
from typing import Any, NamedTuple
from zlib import crc32

from askless.run.store.store import now


class Fit(NamedTuple):
    """`labels_key` tells whether labels have changed since."""

    round: int
    labels: int
    labels_key: str
    seconds: float
    metrics: dict[str, Any]
    at: str


def all_fits(db: sqlite3.Connection) -> dict[int, Fit]:
    """By round, the first first."""
    rows = db.execute("SELECT round, labels, labels_key, seconds, metrics, at FROM fit ORDER BY round")
    return {row["round"]: Fit(*row)._replace(metrics=unsealed(row["metrics"])[0]) for row in rows}


def sealed(metrics: dict[str, Any]) -> str:
    """The metrics as a text that knows when it was changed: they are made from labels, and no log could tell."""
    return json.dumps({**metrics, "crc": crc32(json.dumps(metrics).encode())})


def unsealed(text: str) -> tuple[dict[str, Any], bool]:
    """The metrics, and whether they are what was sealed; earlier versions sealed nothing."""
    metrics = json.loads(text)
    crc = metrics.pop("crc", None)
    return metrics, crc is None or crc == crc32(json.dumps(metrics).encode())


def fitted_rounds(db: sqlite3.Connection) -> list[int]:
    return [row[0] for row in db.execute("SELECT round FROM fit ORDER BY round")]


def last_fitted(db: sqlite3.Connection) -> int | None:
    """The last round that was trained."""
    number: int | None = db.execute("SELECT max(round) FROM fit").fetchone()[0]
    return number


def put_fit(
    db: sqlite3.Connection, number: int, labels: int, key: str, seconds: float, metrics: dict[str, Any]
) -> None:
    db.execute(
        "INSERT OR REPLACE INTO fit (round, labels, labels_key, seconds, metrics, at) VALUES (?, ?, ?, ?, ?, ?)",
        (number, labels, key, seconds, sealed(metrics), now()),
    )


def outdate_fits(db: sqlite3.Connection) -> None:
    """What the model sees has changed: whatever the labels, it is to be trained again."""
    db.execute("UPDATE fit SET labels_key = ''")


def drop_fit(db: sqlite3.Connection, number: int) -> None:
    """Forgets a training whose files are damaged."""
    db.execute("DELETE FROM fit WHERE round = ?", (number,))
