"""What the log of events comes to, worked out from the log alone: what the tables must say, too."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from askless.run.store.deciding import decision_row
from askless.run.store.looks import Look, chosen_looks
from askless.run.store.schema import has_table

EXTRA = ("found", "accepted")  # labels that nobody was asked for
ANSWERS = ("label", "unsure", "change", "import", *EXTRA)
KEY = ("item", "annotator")  # of an answer
CAN_BE_UNDONE = (
    *("label", "unsure", "change", *EXTRA, "skip", "decide"),
    *("class_add", "class_rename", "class_merge", "class_look"),
)
# What a damaged payload makes of a reader.
GARBLED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


AGREE = {
    "references point to nothing": "SELECT * FROM pragma_foreign_key_check",
    "times of answers are wrong": "SELECT 1 FROM answer WHERE julianday(at) IS NULL",
    "counts of answers are wrong": "SELECT 1 FROM task t WHERE answers <> (SELECT count(*) FROM answer WHERE item = t.item)",
    "counts of labels are wrong": "SELECT 1 FROM class c WHERE labels <> (SELECT count(*) FROM answer WHERE class = c.id)",
    "counts of tasks are wrong": "SELECT kind, round, state, n FROM tally WHERE n EXCEPT "
    "SELECT kind, coalesce(round, 0), state, count(*) FROM task GROUP BY 1, 2, 3",
}


class LogEvent(NamedTuple):
    seq: int
    request_id: str
    kind: str
    annotator: str
    item: int | None
    payload: dict[str, Any]
    at: str


class Tables(NamedTuple):
    """What people did, as the tables keep it. Answers by (item, annotator), with every column; classes as (name,
    merged_into, hidden); actions as (annotator, state); looks where somebody chose one; decisions by item."""

    answers: dict[tuple[int, str], dict[str, Any]]
    classes: dict[int, tuple[str, int | None, bool]]
    actions: dict[int, tuple[str, str]]
    looks: dict[int, Look]
    decisions: dict[int, dict[str, Any]]


class Replay:
    """Every event in order, from nothing, or from the last repair that had to do without some of them: it wrote down what
    it found. `rejected`: the events that make no sense, where that is tolerated."""

    def __init__(self, events: Iterable[LogEvent], tolerant: bool = False) -> None:
        self.tables = Tables({}, {}, {}, {}, {})
        self.taken_back: dict[str, set[int]] = {}  # by annotator: what can be done again
        self.events = {event.seq: event for event in events}
        self.imports = {e.request_id for e in self.events.values() if e.kind in ("import", "start")}
        self.first = max((seq for seq, event in self.events.items() if event.kind == "recover"), default=1)
        self.rejected: set[int] = set()
        for seq, event in self.events.items():
            try:
                if seq >= self.first:
                    self.apply(event)
            except GARBLED:
                if not tolerant:
                    raise
                self.rejected.add(seq)

    def apply(self, event: LogEvent) -> None:
        kind, payload = event.kind, event.payload
        if kind == "recover":
            for row in payload["answer"]:
                self.put(row["item"], row["annotator"], {k: v for k, v in row.items() if k not in KEY})
            for row in payload["class"]:
                self.tables.classes[row["id"]] = (row["name"], row["merged_into"], bool(row["hidden"]))
            for number, look in payload.get("look", {}).items():
                self.set_look(int(number), Look(*look))
            for row in payload.get("decision", ()):
                self.tables.decisions[row["item"]] = {k: v for k, v in row.items() if k != "item"}
        elif kind == "decide":
            self.decided(event, payload["after"][0])
        elif kind in ANSWERS:
            self.answered(event)
        elif kind == "asked_afresh":
            for key in [key for key in self.tables.answers if key[0] in payload["items"]]:
                del self.tables.answers[key]
        elif kind.startswith("class_"):
            self.changed_class(kind, payload)
        elif kind in ("undo", "redo"):
            self.undone(event, again=kind == "redo")
        if kind in CAN_BE_UNDONE:
            for seq in self.taken_back.pop(event.annotator, ()):
                self.tables.actions[seq] = (event.annotator, "dropped")
            if not (kind == "class_add" and event.request_id.rpartition("-class-")[0] in self.imports):
                self.tables.actions[event.seq] = (event.annotator, "done")

    def answered(self, event: LogEvent) -> None:
        if event.kind == "import":
            over = set(event.payload["over"])
            for key in [key for key in self.tables.answers if key[0] in over and key[1] != event.annotator]:
                del self.tables.answers[key]
        for item, row in zip(event.payload["items"], event.payload["after"], strict=True):
            self.put(item, event.annotator, {"seq": event.seq, "at": event.at, **row})

    def put(self, item: int, annotator: str, row: dict[str, Any] | None) -> None:
        if row is None:
            self.tables.answers.pop((item, annotator), None)
        else:
            row["class"], row["unsure"]  # a row without them is none
            self.tables.answers[item, annotator] = row

    def decided(self, event: LogEvent, row: dict[str, Any] | None) -> None:
        self.tables.decisions.pop(event.payload["items"][0], None)
        if row is not None:
            self.tables.decisions[event.payload["items"][0]] = {"at": event.at, **row}
            if row["class"] is not None:
                self.set_class(self.final(row["class"]), hidden=False)

    def undone(self, event: LogEvent, again: bool) -> None:
        taken_back = self.taken_back.setdefault(event.annotator, set())
        seq = event.payload["seq"]
        if seq is None:
            if "refused" in event.payload:  # it was passed over
                done = (s for s, of in self.tables.actions.items() if of == (event.annotator, "done"))
                seq = min(taken_back) if again else max(done)
                taken_back.discard(seq)
                self.tables.actions[seq] = (event.annotator, "dropped")
            return
        of = self.events[seq]
        if of.kind.startswith("class_"):
            self.changed_class(of.kind, of.payload, "again" if again else "back")
        elif of.kind == "decide":
            self.decided(event, of.payload["after" if again else "before"][0])
        elif of.kind != "skip":
            about = {*event.payload["items"]}  # all, or those that were as the event had left them
            for item, before, after in zip(of.payload["items"], of.payload["before"], of.payload["after"], strict=True):
                if item not in about:
                    continue
                row = {"seq": event.seq, "at": event.at, **after} if again else before
                self.put(item, event.annotator, row)
                if row is not None and row["class"] is not None:
                    self.set_class(self.final(row["class"]), hidden=False)
        (taken_back.discard if again else taken_back.add)(seq)
        self.tables.actions[seq] = (event.annotator, "done" if again else "undone")

    def changed_class(self, kind: str, payload: dict[str, Any], way: str = "first") -> None:
        number, back = payload["class"], way == "back"
        if kind == "class_add":
            if way == "first":
                self.set_class(number, name=payload["name"])
            self.set_class(number, hidden=back)
        elif kind == "class_rename":
            self.set_class(number, name=payload["before" if back else "after"])
        elif kind == "class_look":
            self.set_look(number, Look(**payload["before" if back else "after"]))
        elif not back:
            for i in payload["moved"]:
                self.set_class(i, merged_into=payload["into"])
        else:  # earlier versions merged everything that had been merged into the class along with it
            into = self.tables.classes[number][1]
            along = [i for i in payload["moved"] if i != number and self.tables.classes[i][1] == into]
            self.set_class(number, merged_into=None)
            for i in along:
                self.set_class(i, merged_into=number)

    def set_look(self, number: int, look: Look) -> None:
        self.tables.looks.pop(number, None)
        if look != Look():
            self.tables.looks[number] = look

    def final(self, number: int) -> int:
        """The class that it was merged into, or itself."""
        seen = {number}
        while (into := self.tables.classes.get(number, ("", None, False))[1]) is not None and into not in seen:
            seen.add(number := into)
        return number

    def set_class(self, number: int, **news: Any) -> None:
        name, into, hidden = self.tables.classes.get(number, (f"class {number}", None, False))
        now = {"name": name, "merged_into": into, "hidden": hidden, **news}
        self.tables.classes[number] = (now["name"], now["merged_into"], now["hidden"])


def stored_tables(db: sqlite3.Connection) -> Tables:
    answers = {
        (row["item"], row["annotator"]): {k: row[k] for k in row.keys() if k not in KEY}  # noqa: SIM118
        for row in db.execute("SELECT * FROM answer")
    }
    looks: dict[int, Look] = {}
    with suppress(*GARBLED):  # what cannot be read differs from the log
        looks = chosen_looks(db)
    return Tables(
        answers,
        {r["id"]: (r["name"], r["merged_into"], bool(r["hidden"])) for r in db.execute("SELECT * FROM class")},
        {r["seq"]: (r["annotator"], r["state"]) for r in db.execute("SELECT * FROM action")},
        looks,
        stored_decisions(db) if has_table(db, "decision") else {},
    )


def stored_decisions(db: sqlite3.Connection) -> dict[int, dict[str, Any]]:
    return {row["item"]: decision_row(db, row["item"]) or {} for row in db.execute("SELECT item FROM decision")}


def log(db: sqlite3.Connection) -> list[LogEvent]:
    rows = db.execute("SELECT seq, request_id, kind, annotator, item, payload, at FROM event ORDER BY seq")
    return [LogEvent(*row)._replace(payload=json.loads(row["payload"])) for row in rows]


def contradictions(db: sqlite3.Connection) -> Iterator[str]:
    """Where the tables of a file that is whole do not say what its log says, or not the same."""
    try:
        told = Replay(log(db)).tables
    except GARBLED as error:
        yield f"the event log is inconsistent ({type(error).__name__}: {error})"
        return
    for name, a, b in zip(Tables._fields, timeless(told), timeless(stored_tables(db)), strict=True):
        if n := sum(a.get(key) != b.get(key) for key in {*a, *b}):
            yield f"{n} {name} differ from the event log"
    for what, query in AGREE.items():
        if n := len(db.execute(query).fetchall()):
            yield f"{n} {what}"


def timeless(tables: Tables) -> tuple[dict[Any, Any], ...]:
    """Without when answers were given: those from elsewhere bring their own time, which the log does not have."""
    rows = {key: {k: v for k, v in row.items() if k != "at"} for key, row in tables.answers.items()}
    return tables._replace(answers=rows)
