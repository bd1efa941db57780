"""Claims: what a model or a service from elsewhere says of items. They are kept beside people's answers, and are none."""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from askless.run.store.asking import Desk
from askless.run.store.classes import final_class
from askless.run.store.extra import label_extra
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


def accept_claimed(
    db: sqlite3.Connection, desk: Desk, request_id: str, name: str, least: float, labels: Mapping[int, int]
) -> list[int]:
    """Accepts what `name` claims with a confidence of at least `least` for these items (item -> class), as one step of undo.
    The items that were taken. Like all accepted labels they are not trained on and never measure."""
    about = {"claims": name, "least": least}
    return label_extra(db, desk, request_id, labels, "accepted", about=about).items


def accepted_claims(db: sqlite3.Connection) -> dict[str, Counter[int]]:
    """For each name how many of its claims are accepted by now, by class as it was given."""
    query = (
        "SELECT seq, json_extract(payload, '$.claims') AS name FROM event WHERE kind = 'accepted' AND name IS NOT NULL"
    )
    name_of = dict(db.execute(query).fetchall())
    query = "SELECT seq, json_extract(payload, '$.seq') FROM event WHERE kind = 'redo'"
    name_of |= {
        seq: name_of[first] for seq, first in db.execute(query if name_of else f"{query} LIMIT 0") if first in name_of
    }
    joined = "SELECT a.class, count(*) FROM answer a JOIN task t ON t.item = a.item"
    found: dict[str, Counter[int]] = {}
    for seq, name in name_of.items():
        rows = db.execute(f"{joined} WHERE a.seq = ? AND t.kind = 'accepted' GROUP BY a.class", (seq,))
        found.setdefault(name, Counter()).update(dict(rows.fetchall()))
    return found
