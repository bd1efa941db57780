"""How a run stands: the curve of check accuracy, the honest measure, the advice. Torch is not needed."""

import json
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.run.steps.advice import Standing, advise
from askless.run.steps.measure import accuracy_of, doubtful, labels_per_minute
from askless.run.steps.rounds import Predictions, again, damage_of_fit, read_held
from askless.run.store import facts
from askless.run.store.classes import all_classes, final_class, is_shown
from askless.run.store.store import get_meta, moment

if TYPE_CHECKING:
    from askless.run.run import Run


def standing(run: "Run") -> dict[str, Any]:
    """Everything that the page's progress view and `askless status` show."""
    with run.store.look() as db:
        points = curve(run, db)
        measure = None
        if points:
            measure = (
                {k: points[-1][k] for k in ("n", "correct", "accuracy", "low", "high")} if points[-1]["n"] else None
            )
        progress = facts.progress(db)
        advice = advise(where(run, db, points, measure, progress))
        said = damage(run, points)
        last = db.execute("SELECT metrics FROM fit ORDER BY round DESC LIMIT 1").fetchone()
        mix = {} if last is None else json.loads(last["metrics"])["mix"]
        return {
            "progress": progress,
            "curve": points,
            "measure": measure,
            "advice": {
                "verdict": advice.verdict,
                "text": " ".join([advice.text, *(f"{text[0].upper()}{text[1:]}." for text in said)]),
                "reasons": advice.reasons + said,
            },
            "rate": rate(db, progress),
            "mix": [{"class": int(c), "share": share} for c, share in mix.items()],
            "skipped": skipped_counts(db),
            "annotators": annotators(db),
            "unsure_check": sum(a.label is None for a in facts.agreed(db, ("check",))),
        }


def curve(run: "Run", db: sqlite3.Connection) -> list[dict[str, Any]]:
    """One point per trained round, measured on all check images that have a label by now."""
    truth = facts.check_labels(db)
    final = final_class(db)
    points = []
    for row in db.execute("SELECT * FROM fit ORDER BY round"):
        said = read_held(run.folder, row["round"]) or {}
        items = [item for item in truth if item in said and said[item] >= 0]
        measured = accuracy_of([final[said[i]] for i in items], [truth[i] for i in items])
        metrics = json.loads(row["metrics"])
        empty = {"n": 0, "correct": 0, "accuracy": None, "low": None, "high": None}
        points.append(
            {
                **{"round": row["round"], "labels": row["labels"], "seconds": row["seconds"], "at": row["at"]},
                **(measured or empty),
                **{"change": metrics["change"], "margin": metrics["margin"]},
            }
        )
    return points


def damage(run: "Run", points: list[dict[str, Any]]) -> list[str]:
    """Sentences on the rounds whose files are damaged: their labels are not."""
    *earlier, last = [point["round"] for point in points] or [None]
    lost = [number for number in earlier if read_held(run.folder, number) is None]
    said = [f"what the model of round {number} said is damaged, so its accuracy is not measured" for number in lost]
    if last is not None and (found := damage_of_fit(run.folder, last)):
        said.append(again(last, found))
    return said


def doubts(db: sqlite3.Connection, predictions: Predictions | None) -> dict[int, float]:
    """How much the model doubts each label that it doubts at all, the most doubtful first."""
    labels = facts.train_labels(db)
    if predictions is None or not labels:
        return {}
    items = np.array(sorted(labels), np.int64)
    place = {int(c): i for i, c in enumerate(predictions.classes)}
    found = doubtful([place.get(labels[int(i)], -1) for i in items], predictions.probs[items])
    return {int(items[i]): float(found.score[i]) for i in found.order if found.suspect[i]}


def where(
    run: "Run",
    db: sqlite3.Connection,
    points: list[dict[str, Any]],
    measure: dict[str, Any] | None,
    progress: dict[str, Any],
) -> Standing:
    counts = Counter(facts.train_labels(db).values())
    return Standing(
        budget=progress["budget"],
        spent=progress["spent"],
        rounds=len(points),
        counts={c.name: counts[c.id] for c in all_classes(db) if is_shown(c)},
        measure=measure,
        target=run.settings.target or None,
        changes=[p["change"] for p in points],
        since_new_class=since_new_class(db),
        checked=len(facts.check_labels(db)),
        flattered=get_meta(db, "flattered", 0),
        nothing_left=run.left_to_choose(db) == 0 and not is_anything_open(db),
        noun=run.noun,
    )


def is_anything_open(db: sqlite3.Connection) -> bool:
    """Whether anything waits for a label."""
    return db.execute("SELECT 1 FROM task WHERE state = 'open' LIMIT 1").fetchone() is not None


def since_new_class(db: sqlite3.Connection) -> int | None:
    """How many labels were given after the first one of the class that came last."""
    final = final_class(db)
    labels = [
        final[row[0]] for row in db.execute("SELECT class FROM answer WHERE class IS NOT NULL ORDER BY seq, item")
    ]
    if not labels:
        return None
    firsts: dict[int, int] = {}
    for place, label in enumerate(labels):
        firsts.setdefault(label, place)
    return len(labels) - 1 - max(firsts.values())


def rate(db: sqlite3.Connection, progress: dict[str, Any]) -> dict[str, Any] | None:
    """Labels per minute of the last 200 answers, breaks left out, and what that means for the batch."""
    rows = db.execute("SELECT at FROM answer WHERE seconds IS NOT NULL ORDER BY seq DESC LIMIT 200").fetchall()
    times = sorted(moment(row["at"]) for row in rows)
    per_minute = labels_per_minute(times)
    if per_minute is None:
        return None
    batch = progress["batch"]
    left = None if batch is None or not per_minute else (batch["size"] - batch["done"]) / per_minute
    return {"per_minute": per_minute, "minutes_left_in_batch": left}


def skipped_counts(db: sqlite3.Connection) -> dict[str, int]:
    counts = Counter(row[1] for row in get_meta(db, "skipped", []))
    near = db.execute("SELECT count(*) FROM item WHERE split = 'out'").fetchone()[0]
    named = {"unreadable": "unreadable", "duplicates": "duplicate", "outside": "outside", "missing": "missing"}
    return {**{name: counts[problem] for name, problem in named.items()}, "near_check": near}


def annotators(db: sqlite3.Connection) -> list[dict[str, Any]]:
    rows = db.execute("SELECT annotator, count(*) AS answers FROM answer GROUP BY annotator ORDER BY annotator")
    return [dict(row) for row in rows]
