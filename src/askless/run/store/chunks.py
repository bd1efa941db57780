"""The screens of items that people accepted under Sort, as the log has them."""

import json
import sqlite3
from dataclasses import dataclass

ABOUT = ("out", "seen", "removed", "least")  # of a chunk, beside its class and labels


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
            found[seq] = Chunk(told["class"], labels, *(told[name] for name in ABOUT))
        elif kind == "undo" and told["seq"] in found:
            taken_back[told["seq"]] = found.pop(told["seq"])
        elif kind == "redo" and told["seq"] in taken_back:
            found[told["seq"]] = taken_back.pop(told["seq"])
    return [found[seq] for seq in sorted(found)]


def sorted_answers(db: sqlite3.Connection) -> list[tuple[int, int, float]]:
    """(class, class it was offered under, probability of that) of every item that got its label under Sort."""
    query = (
        "SELECT class, suggestion, suggestion_prob FROM answer WHERE suggestion_shown = 'sort' AND suggestion_prob >= 0"
    )
    return [(row[0], row[1], row[2]) for row in db.execute(f"{query} AND class IS NOT NULL")]


def looked_over(db: sqlite3.Connection) -> set[int]:
    """The items that were accepted on a screen: somebody looked at them."""
    accepted = "SELECT item FROM task WHERE kind = 'accepted'"
    query = f"SELECT item FROM answer WHERE suggestion_shown = 'sort' AND item IN ({accepted})"
    return {row[0] for row in db.execute(query)}
