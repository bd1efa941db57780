"""Claims: what a model or a service from elsewhere says of items. They are kept beside people's answers, and are none."""

import json
import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from askless.run.store.classes import final_class
from askless.run.store.store import record


class Claim(NamedTuple):
    """A class, and how sure whoever claims it is, if they say."""

    label: int
    confidence: float | None


def put_claims(db: sqlite3.Connection, request_id: str, name: str, claims: Mapping[int, Claim]) -> None:
    """Takes the claims, by item, that go under this name; they replace its earlier ones."""
    labels, sure = zip(*claims.values(), strict=True) if claims else ((), ())
    record(db, request_id, "claims", name, {"items": list(claims), "labels": labels, "confidence": sure})


def names_of_claims(db: sqlite3.Connection) -> list[str]:
    rows = db.execute("SELECT annotator FROM event WHERE kind = 'claims' GROUP BY annotator ORDER BY min(seq)")
    return [row["annotator"] for row in rows]


def claims_of(db: sqlite3.Connection, name: str) -> dict[int, Claim]:
    """The claims under this name by item, with the classes that theirs stand for now."""
    query = "SELECT payload FROM event WHERE kind = 'claims' AND annotator = ? ORDER BY seq DESC LIMIT 1"
    row = db.execute(query, (name,)).fetchone()
    if row is None:
        return {}
    payload, final = json.loads(row["payload"]), final_class(db)
    rows = zip(payload["items"], payload["labels"], payload["confidence"], strict=True)
    return {item: Claim(final[label], sure) for item, label, sure in rows if label in final}
