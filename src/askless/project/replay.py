"""The answers that the log of events comes to, worked out from the log alone: what the tables must say, too."""

import json
import sqlite3

Answers = dict[tuple[int, str], tuple[int | None, str | None]]  # (item, annotator) -> (class, unsure)


def replay(db: sqlite3.Connection) -> Answers:
    """Every event in order, from nothing."""
    answers: Answers = {}
    events = {row["seq"]: (row["kind"], row["annotator"], json.loads(row["payload"])) for row in log(db)}
    for kind, annotator, payload in events.values():
        if kind in ("label", "unsure", "change", "import"):
            if kind == "import":
                drop_others(answers, payload["over"], annotator)
            put(answers, annotator, payload["items"], payload["after"])
        elif kind in ("undo", "redo") and payload["seq"] is not None:
            of_kind, _, of = events[payload["seq"]]
            if of_kind in ("label", "unsure", "change"):
                put(answers, annotator, of["items"], of["before" if kind == "undo" else "after"])
    return answers


def stored(db: sqlite3.Connection) -> Answers:
    """What the tables say."""
    rows = db.execute("SELECT item, annotator, class, unsure FROM answer")
    return {(row["item"], row["annotator"]): (row["class"], row["unsure"]) for row in rows}


def log(db: sqlite3.Connection) -> list[sqlite3.Row]:
    return db.execute("SELECT seq, kind, annotator, payload FROM event ORDER BY seq").fetchall()


def put(answers: Answers, annotator: str, items: list[int], rows: list[dict[str, int | str | None] | None]) -> None:
    for item, row in zip(items, rows, strict=True):
        if row is None:
            answers.pop((item, annotator), None)
        else:
            answers[item, annotator] = (row["class"], row["unsure"])  # type: ignore[assignment]


def drop_others(answers: Answers, items: list[int], annotator: str) -> None:
    for key in [key for key in answers if key[0] in set(items) and key[1] != annotator]:
        del answers[key]
