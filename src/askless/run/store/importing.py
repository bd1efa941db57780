"""Labels from elsewhere: prior knowledge that costs no budget, stored as one event."""

import sqlite3
from collections.abc import Sequence
from typing import Literal, NamedTuple

from askless.base.errors import InputError
from askless.run.store.answering import own_answer, put_answer
from askless.run.store.classes import add_class, all_classes, class_numbers, final_class, folded
from askless.run.store.store import record

Policy = Literal["keep", "replace"]
UNSURE = "other"


class Imported(NamedTuple):
    """How many labels were taken, were there already, were kept as they were in spite of another one, and whose item the
    run does not have."""

    taken: int
    same: int
    conflicts: list[tuple[str, str, str]]  # path, what the run says, what came
    unknown: list[str]


def import_answers(
    db: sqlite3.Connection,
    request_id: str,
    annotator: str,
    given: Sequence[tuple[str, str]],
    *,
    overlap: int,
    policy: Policy = "keep",
    new_classes: bool = True,
    accepted: bool = False,
) -> Imported:
    """Takes labels (path, class name; "" means unsure). Classes that are new are added in the order in which they come.

    Where the run has another label of this annotator already, or all the answers it wants, `policy` decides. Labels of
    check images, which were drawn at random, count as their answers. Labels that were `accepted` in a grid stay such: they
    replace no person's answer, and those of items that people are asked about are left out, and named as unknown.
    """
    ids = {row["path"]: (row["id"], row["split"]) for row in db.execute("SELECT id, path, split FROM item")}
    numbers = class_numbers(db)
    names = {c.id: c.name for c in all_classes(db)}
    final = final_class(db)
    kinds = dict(db.execute("SELECT item, kind FROM task").fetchall())
    taken, same, conflicts, unknown = [], 0, [], []
    over: list[int] = []  # items whose answers by others are replaced
    last = dict(given)
    for path, name in last.items():
        if path not in ids:
            unknown.append(path)
            continue
        item, split = ids[path]
        if name and folded(name) not in numbers:
            if not new_classes:
                raise InputError(f"unknown class {name!r}; the classes are {', '.join(sorted(names.values()))}")
            number = add_class(db, f"{request_id}-class-{len(numbers)}", annotator, name)
            db.execute("DELETE FROM action WHERE seq = (SELECT max(seq) FROM action)")
            numbers[folded(name)], names[number], final[number] = number, name, number
        label = numbers[folded(name)] if name else None
        rows = db.execute(
            "SELECT annotator, class FROM answer WHERE item = ? ORDER BY annotator = ? DESC, seq DESC",
            (item, annotator),
        ).fetchall()
        for_people = accepted and (split == "check" or kinds.get(item, "accepted") != "accepted")
        if for_people and (split == "check" or not rows):
            unknown.append(path)
            continue
        is_there = rows and (for_people or rows[0]["annotator"] == annotator or len(rows) >= overlap)
        before = rows[0] if is_there else None
        if before is not None:
            known = None if before["class"] is None else final[before["class"]]
            if known == label:
                same += 1
                continue
            if policy == "keep" or for_people:
                conflicts.append(
                    (path, names.get(known, "unsure") if known is not None else "unsure", name or "unsure")
                )
                continue
            if before["annotator"] != annotator:
                over.append(item)
        taken.append((item, split, label))
    items = [item for item, _, _ in taken]
    before_rows = [own_answer(db, item, annotator) for item in items]
    plain = {
        "seconds": None,
        "suggestion": None,
        "suggestion_prob": None,
        "suggestion_shown": "none",
        "bulk": 0,
        "note": "",
    }
    after = [{"class": label, "unsure": UNSURE if label is None else None, **plain} for _, _, label in taken]
    payload = {"items": items, "before": before_rows, "after": after, "over": over, "accepted": accepted}
    seq, at = record(db, request_id, "import", annotator, payload)
    for (item, split, _label), row in zip(taken, after, strict=True):
        # What is held out in reserve waits, with its label, until it is drawn as a check image.
        kind = "check" if split == "check" else "accepted" if accepted else "prior"
        db.execute(
            "INSERT INTO task (item, kind, round, rank, picked_by, reason, state) "
            "VALUES (?, ?, NULL, 0, 'import', 'labelled before', 'open') "
            "ON CONFLICT DO UPDATE SET kind = excluded.kind WHERE kind IN ('found', 'accepted')",
            (item, kind),
        )
        if item in over:
            db.execute("DELETE FROM answer WHERE item = ? AND annotator <> ?", (item, annotator))
        put_answer(db, item, annotator, {**row, "seq": seq, "at": at}, overlap=1)
    return Imported(len(taken), same, conflicts, unknown)
