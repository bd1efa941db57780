"""Annotations of Label Studio -> answers in a run's log, by the functions that the page uses; each is stored once."""

import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from askless.base.errors import InputError
from askless.label.labelstudio.tasks import Annotation
from askless.run import RunError
from askless.run.store.answering import ConflictError, Given, Suggested, answer, mark_shown, own_answer, skip
from askless.run.store.asking import Desk, take, task_of
from askless.run.store.classes import add_class, class_names, class_numbers, final_class, folded, shown_classes
from askless.run.store.fits import fitted_rounds
from askless.run.store.importing import import_answers
from askless.run.store.items import item_numbers
from askless.run.store.labels import agreed, other_answers
from askless.run.store.store import last_annotator, payload_of, savepoint

if TYPE_CHECKING:
    from askless.run import Run

TAB = "labelstudio"


@dataclass
class Taken:
    """What came of it: answers that are new, changed, skips, known before; `unasked` are new answers to items that were not
    asked (any more), which cost no budget. `disagree` are paths for Review, `left_out` paths with the reason."""

    new: int = 0
    changed: int = 0
    skipped: int = 0
    known: int = 0
    unasked: int = 0
    added_classes: list[str] = field(default_factory=list)
    disagree: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def take_annotations(run: "Run", annotations: Sequence[Annotation], *, add_classes: bool = False) -> Taken:
    """Stores all annotations that the run does not have yet; with an error, none.

    Cancelled ones are skips. Where people disagree, also where the run wanted one answer only, all answers are kept: the
    item is shown in Review, and not trained on until one class has more than half of them. A class that the run does not
    have is an error that names it; with `add_classes` it is added. Answers to what another run asked are left out: its items
    may have the same names.
    """
    ours = ("", str(run.meta("run")))
    taken = Taken(left_out=[(one.path, "asked by another run") for one in annotations if one.run not in ours])
    annotations = [one for one in annotations if one.run in ours]
    with run.store.change() as db:
        ids = item_numbers(db)
        numbers = class_numbers(db)
        bring_classes(db, annotations, numbers, add_classes, taken)
        touched = set()
        for one in annotations:
            if one.path not in ids:
                taken.left_out.append((one.path, "not an item of the run"))
            elif not one.cancelled and len(one.choices) != 1:
                said = " and ".join(one.choices) or "nothing"
                taken.left_out.append((one.path, f"expected one class, {one.who} chose {said}"))
            else:
                touched.add(ids[one.path])
                label = None if one.cancelled else numbers[folded(one.choices[0])]
                try:
                    with savepoint(db):
                        store_one(run, db, one, ids[one.path], label, taken)
                except ConflictError as error:  # the others do not mind
                    taken.left_out.append((one.path, str(error)))
        taken.disagree = [run.paths[a.item] for a in agreed(db) if a.conflict and a.item in touched]
    run.write_views()
    return taken


def store_one(run: "Run", db: sqlite3.Connection, one: Annotation, item: int, label: int | None, taken: Taken) -> None:
    if payload_of(db, one.request_id) is not None:
        taken.known += 1
        return
    before = last_annotator(db, one.request_prefix)  # of an earlier version of this annotation
    task = task_of(db, item)
    is_open = task is not None and task.state == "open"
    if label is None:
        if not is_open:
            taken.known += 1
            return
        desk = Desk(before or one.who, TAB)
        take(db, desk, [item])
        skip(db, desk, one.request_id, item, overlap=overlap_of(run, db, item, desk.annotator))
        taken.skipped += 1
        return
    name, own = free_name(db, item, before or one.who, label, may_change=before is not None)
    given = Given(label=label, seconds=one.seconds, at=one.at)
    overlap = overlap_of(run, db, item, name)
    if own == label:
        taken.known += 1
    elif own is not None:
        answer(db, Desk(name, TAB), one.request_id, [item], given, overlap=overlap, change=True)
        taken.changed += 1
    elif is_open:
        desk = Desk(name, TAB)
        take(db, desk, [item])
        if one.prefilled:
            mark_shown(db, desk, item, "prefill")
        answer(db, desk, one.request_id, [item], given, overlap=overlap, suggested=suggested(run, db, item))
        taken.new += 1
    else:
        # Another person's answer came before, or the item is not asked any more: it is knowledge all the same.
        given_name = [(one.path, class_names(db)[label])]
        import_answers(db, one.request_id, name, given_name, overlap=overlap, new_classes=False)
        taken.new += 1
        taken.unasked += task is None


def free_name(db: sqlite3.Connection, item: int, who: str, label: int, may_change: bool) -> tuple[str, int | None]:
    """The name under which to store an answer, and the class that stands under it: somebody who annotated an item twice, and
    not alike, counts as two, so that the disagreement is seen."""
    final, count = final_class(db), 1
    while True:
        name = who if count == 1 else f"{who} #{count}"
        own = own_answer(db, item, name)
        if own is None:
            return name, None
        # An answer of unsure, given on the page, is a class that nobody else has.
        stands = -1 if own["class"] is None else final[own["class"]]
        if stands == label or may_change:
            return name, stands
        count += 1


def overlap_of(run: "Run", db: sqlite3.Connection, item: int, name: str) -> int:
    """How many answers an item may have: those that the run wants, and all that there are with this one."""
    return max(run.settings.annotators, len(other_answers(db, item, name)) + 1)


def suggested(run: "Run", db: sqlite3.Connection, item: int) -> dict[int, Suggested]:
    """What the model that was there when the item was chosen says of it; of check images nothing, ever."""
    task = task_of(db, item)
    if task is None or task.kind != "train" or task.round is None or task.round - 1 not in fitted_rounds(db):
        return {}
    try:
        predictions = run.predictions(task.round - 1)
    except RunError:  # its folder was removed
        return {}
    best = None if predictions is None else predictions.best(item)
    return {} if best is None else {item: Suggested(final_class(db)[best[0]], best[1])}


# --- classes -----------------------------------------------------------------------------------------------------------


def bring_classes(
    db: sqlite3.Connection, annotations: Sequence[Annotation], numbers: dict[str, int], add: bool, taken: Taken
) -> None:
    """Adds the classes that the run does not have, in the order in which they come; unless `add`, an error names them."""
    new: dict[str, str] = {}
    for one in annotations:
        if not one.cancelled and len(one.choices) == 1 and folded(one.choices[0]) not in numbers:
            new.setdefault(folded(one.choices[0]), one.choices[0])
    if new and not add:
        known = ", ".join(c.name for c in shown_classes(db)) or "none yet"
        raise InputError(
            f"Label Studio has answers with classes that the run lacks: {', '.join(new.values())}; its classes are "
            f"{known}. Pass --add-classes to add them, or change these answers there. Nothing was imported."
        )
    for key, name in new.items():
        numbers[key] = add_class(db, f"labelstudio-class-{uuid.uuid4()}", "labelstudio", name)
        taken.added_classes.append(name)
