"""Labels that nobody was asked for: items that a person found (`found`), and those of a grid in which the model had put them
and a person agreed (`accepted`).

Both count apart from the budget. A `found` label is a person's judgement of one item, and is trained on. An `accepted` one
is the model's own word, which people only looked over: it is never trained on, and never measures. An item of either kind
that is drawn as a check image later is asked afresh.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from askless.base.errors import InputError
from askless.run.store.answering import ConflictError, Suggested, put_answer
from askless.run.store.asking import Desk, add_extra
from askless.run.store.classes import note_action, shown_class
from askless.run.store.store import once, record

Extra = Literal["found", "accepted"]


class Labelled(NamedTuple):
    """The items that were labelled, and those that were asked or labelled by somebody else in the meantime."""

    items: list[int]
    passed: list[int]


@dataclass(frozen=True)
class Chunk:
    """A screen of items that the model puts in one class. `labels` are those accepted for it and those put right by hand,
    `out` those clicked out without another class. Of all of them, `seen` have it for the model's first choice, with a
    probability of at least `least`; of these, `removed` were put right or clicked out."""

    class_: int
    labels: dict[int, int]
    out: list[int]
    seen: int
    removed: int
    least: float


def label_extra(
    db: sqlite3.Connection,
    desk: Desk,
    request_id: str,
    labels: Mapping[int, int],
    kind: Extra,
    suggested: Mapping[int, Suggested] | None = None,
) -> Labelled:
    """Labels items (item -> class) that nobody is asked about, as one event, which is one step of undo.

    Items that were asked or labelled in the meantime are passed over; a ConflictError where that is all of them. Check
    images are never labelled so: an InputError.
    """
    once(db, request_id, kind)
    return store_extra(db, desk, request_id, kind, labels, dict.fromkeys(labels, kind), suggested or {}, {})


def accept_chunk(
    db: sqlite3.Connection, desk: Desk, request_id: str, chunk: Chunk, suggested: Mapping[int, Suggested]
) -> Labelled:
    """Stores what a person made of a chunk, as one event: what is in the chunk's class is accepted, other labels are the
    person's own (`found`), and what was clicked out is remembered."""
    once(db, request_id, "accepted")
    shown_class(db, chunk.class_)
    kinds: dict[int, Extra] = {i: "accepted" if c == chunk.class_ else "found" for i, c in chunk.labels.items()}
    about = {name: getattr(chunk, name) for name in ("out", "seen", "removed", "least")} | {"class": chunk.class_}
    return store_extra(db, desk, request_id, "accepted", chunk.labels, kinds, suggested, about)


def store_extra(
    db: sqlite3.Connection,
    desk: Desk,
    request_id: str,
    event: Extra,
    labels: Mapping[int, int],
    kinds: Mapping[int, Extra],
    suggested: Mapping[int, Suggested],
    about: Mapping[str, Any],
) -> Labelled:
    for label in {*labels.values()}:
        shown_class(db, label)
    refuse_check_items(db, [*labels, *about.get("out", ())])
    items = [item for item in labels if add_extra(db, item, kinds[item], about.get("claims"))]
    passed = sorted(labels.keys() - {*items})
    if passed and not items:
        raise ConflictError(f"item {passed[0]} was asked or labelled in the meantime; load the next ones", passed[0])
    if not items and not about.get("out"):
        raise InputError("expected at least one item, got none")
    after: list[dict[str, Any]] = []
    for item in items:
        said = suggested.get(item)
        after.append(
            {
                **{"class": labels[item], "unsure": None, "seconds": None, "note": ""},
                "suggestion": None if said is None else said.label,
                "suggestion_prob": None if said is None else round(said.prob, 6),
                "suggestion_shown": "none" if said is None else "sort",
                "bulk": 0,
            }
        )
    payload = {"items": items, "before": [None] * len(items), "after": after, "kinds": [kinds[i] for i in items]}
    seq, at = record(
        db,
        request_id,
        event,
        desk.annotator,
        {**payload, **about, "passed": passed},
        items[0] if len(items) == 1 else None,
    )
    for item, row in zip(items, after, strict=True):
        put_answer(db, item, desk.annotator, {**row, "seq": seq, "at": at}, overlap=1)
    note_action(db, seq, desk.annotator)
    return Labelled(items, passed)


def refuse_check_items(db: sqlite3.Connection, items: Collection[int]) -> None:
    for item in items:
        row = db.execute("SELECT split, problem FROM item WHERE id = ?", (item,)).fetchone()
        if row is None or row["problem"] is not None:
            raise InputError(f"expected an item that can be read, got {item}")
        if row["split"] == "check":
            raise InputError(f"item {item} is a check item, which measures the model: it is only ever asked on its own")


def rest_items(db: sqlite3.Connection) -> list[int]:
    """The readable items that nobody has labelled or is asked about, check items left out."""
    rows = db.execute(
        "SELECT id FROM item WHERE problem IS NULL AND split <> 'check' AND id NOT IN (SELECT item FROM task) ORDER BY id"
    )
    return [row[0] for row in rows]


def chunks_of(db: sqlite3.Connection) -> list[Chunk]:
    """The chunks that were accepted and not undone since, in order; from the log, which alone knows what was clicked out."""
    found: dict[int, Chunk] = {}
    taken_back: dict[int, Chunk] = {}
    rows = db.execute(
        "SELECT seq, kind, payload FROM event WHERE kind = 'accepted' "
        "OR (kind IN ('undo', 'redo') AND json_extract(payload, '$.kind') = 'accepted') ORDER BY seq"
    )
    for seq, kind, text in rows:
        told = json.loads(text)
        if kind == "accepted" and "out" in told:
            labels = {i: row["class"] for i, row in zip(told["items"], told["after"], strict=True)}
            found[seq] = Chunk(told["class"], labels, *(told[name] for name in ("out", "seen", "removed", "least")))
        elif kind == "undo" and told["seq"] in found:
            taken_back[told["seq"]] = found.pop(told["seq"])
        elif kind == "redo" and told["seq"] in taken_back:
            found[told["seq"]] = taken_back.pop(told["seq"])
    return [found[seq] for seq in sorted(found)]


def count_accepted(db: sqlite3.Connection) -> dict[int, int]:
    """How many answers of each class, as it was given, are accepted ones."""
    some = db.execute("SELECT sum(n) FROM tally WHERE kind = 'accepted'").fetchone()[0]
    if not some:
        return {}
    joined = "task t JOIN answer a ON a.item = t.item"
    counts = f"SELECT a.class, count(*) FROM {joined} WHERE t.kind = 'accepted' GROUP BY a.class"
    return dict(db.execute(counts).fetchall())
