"""A run -> the facts of its report."""

import json
import sqlite3
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from askless.run.out.report_facts import (
    Agreement,
    Batch,
    Chosen,
    Data,
    Facts,
    Labels,
    Map,
    Mistake,
    Model,
    OfClass,
    Person,
    Point,
    Problems,
    Process,
    Shown,
    Suggestions,
)
from askless.run.out.standing import doubts, standing
from askless.run.steps.advice import Advice
from askless.run.steps.measure import cohens_kappa, confusion, labels_per_minute, per_class, share
from askless.run.steps.rounds import Predictions, damage_of_folder, read_held, read_map
from askless.run.store import facts
from askless.run.store.classes import Class, all_classes, final_class, is_shown
from askless.run.store.labels import last_predictions
from askless.run.store.store import get_meta, moment, now
from askless.sources import excerpt

if TYPE_CHECKING:
    from askless.run.run import Run

EXAMPLES = 6  # of each kind of mistake
SUSPICIOUS = 24


def gather(run: "Run") -> Facts:
    """Everything the report tells, from one consistent state of the run."""
    with run.store.look() as db:
        now_ = standing(run)
        beginning = beginnings(run)
        classes = [c for c in all_classes(db) if is_shown(c)]
        predictions = last_predictions(db, run.folder)
        said = held_predictions(run, db)
        truth = {i: c for i, c in facts.check_labels(db).items() if i in said}
        names = {c.id: c.name for c in classes}
        numbers = [c.id for c in classes]
        answered = facts.answers(db)
        return Facts(
            name=run.folder.resolve().name,
            made_at=now(),
            command=run.settings.command,
            data=data(run, db),
            labels=labels(db, now_, answered),
            advice=Advice(**now_["advice"]),
            curve=points(run, now_["curve"], db, names),
            classes=of_classes(db, classes, said, truth, predictions),
            chosen=chosen(run, db, names, beginning),
            process=process(db, answered),
            measure=now_["measure"],
            baseline=max(Counter(truth.values()).values()) / len(truth) if truth else None,
            target=run.settings.target or None,
            confusion=confusion([said[i] for i in truth], list(truth.values()), numbers).tolist() if truth else [],
            mistakes=mistakes(run, truth, said, numbers, beginning),
            problems=problems(run, db, names, predictions, beginning),
            model=model(run),
            files=[],
        )


def beginnings(run: "Run") -> Callable[[int], str]:
    """item -> the beginning of its text; "" for images."""
    if run.kind != "texts":
        return lambda item: ""
    return lambda item: excerpt(run.texts([item])[item], 200)


def held_predictions(run: "Run", db: sqlite3.Connection) -> dict[int, int]:
    """What the last model says of the held-out items."""
    number = db.execute("SELECT max(round) FROM fit").fetchone()[0]
    if number is None:
        return {}
    final = final_class(db)
    return {item: final[c] for item, c in (read_held(run.folder, number) or {}).items() if c >= 0}


def data(run: "Run", db: sqlite3.Connection) -> Data:
    splits = Counter(
        dict(db.execute("SELECT split, count(*) FROM item WHERE problem IS NULL GROUP BY split").fetchall())
    )
    low, high = db.execute("SELECT min(width), max(width) FROM item").fetchone()
    return Data(
        source=run.settings.source,
        images=len(run.paths),
        pool=splits["pool"],
        check=splits["check"],
        reserve=splits["reserve"],
        size="" if not high else f"{low} pixels wide" if low == high else f"{low} to {high} pixels wide",
        noun=run.noun,
    )


def labels(db: sqlite3.Connection, now_: dict[str, Any], answered: list[sqlite3.Row]) -> Labels:
    asked = [row for row in answered if row["kind"] != "prior"]
    times = sorted(moment(row["at"]) for row in asked)
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    progress = now_["progress"]
    return Labels(
        budget=progress["budget"],
        spent=progress["spent"],
        labelled=sum(row["class"] is not None for row in asked),
        unsure=sum(row["class"] is None for row in asked),
        train=len(facts.train_labels(db)),
        check=len(facts.check_labels(db)),
        minutes=sum(gap for gap in gaps if gap <= 60) / 60 if gaps else None,
        per_minute=labels_per_minute(times),
        first_at=asked[-1]["at"] if asked else "",
        last_at=asked[0]["at"] if asked else "",
    )


def points(run: "Run", curve: list[dict[str, Any]], db: sqlite3.Connection, names: dict[int, str]) -> list[Point]:
    """The curve, and the classes that came first in each round."""
    final = final_class(db)
    rows = db.execute(
        "SELECT t.round, a.class FROM answer a JOIN task t ON t.item = a.item WHERE a.class IS NOT NULL "
        "AND t.kind = 'train' ORDER BY t.round, a.seq"
    )
    first: dict[int, int] = {}
    for number, label in rows:
        first.setdefault(final[label], number)
    result = []
    for p in curve:
        new = [names[c] for c, number in first.items() if number == p["round"] and c in names]
        kept = {k: v for k, v in p.items() if k != "at"}
        result.append(Point(**kept, new_classes=new))
    return result


def of_classes(
    db: sqlite3.Connection,
    classes: list[Class],
    said: dict[int, int],
    truth: dict[int, int],
    predictions: Predictions | None,
) -> list[OfClass]:
    given = Counter(facts.train_labels(db).values())
    scores = per_class([said[i] for i in truth], list(truth.values()), [c.id for c in classes]) if truth else []
    by_class = {row["class"]: row for row in scores}
    counts: Counter[int] = Counter()
    if predictions is not None:
        final = final_class(db)
        pool = [row["id"] for row in db.execute("SELECT id FROM item WHERE split = 'pool' AND problem IS NULL")]
        counts = Counter(final[c] for c in predictions.best_of_all()[pool].tolist() if c >= 0)
    return [
        OfClass(
            name=c.name,
            labels=given[c.id],
            check=sum(label == c.id for label in truth.values()),
            predicted=None if predictions is None else counts[c.id],
            precision=by_class.get(c.id, {}).get("precision"),
            recall=by_class.get(c.id, {}).get("recall"),
        )
        for c in classes
    ]


def chosen(run: "Run", db: sqlite3.Connection, names: dict[int, str], beginning: Callable[[int], str]) -> Chosen:
    agreed = {a.item: a.label for a in facts.agreed(db, ("train",))}
    batches = []
    for row in db.execute("SELECT * FROM round ORDER BY id").fetchall():
        tasks = db.execute(
            "SELECT t.item, t.reason, t.score, i.path FROM task t JOIN item i ON i.id = t.item WHERE t.round = ? "
            "ORDER BY t.rank",
            (row["id"],),
        )
        items = [
            Shown(
                t["item"],
                t["path"],
                label=label_text(agreed, t["item"], names),
                reason=t["reason"],
                score=t["score"],
                text=beginning(t["item"]),
            )
            for t in tasks
        ]
        batches.append(Batch(row["id"], row["strategy"], items, row["seconds"]))
    settings = run.settings
    parameters = {name: getattr(settings, name) for name in ("net", "learner", "steps", "batch", "check", "annotators")}
    return Chosen(settings.strategy, parameters, settings.seed, batches, flat_map(run, db, names))


def label_text(agreed: dict[int, int | None], item: int, names: dict[int, str]) -> str:
    if item not in agreed:
        return ""
    label = agreed[item]
    return "unsure" if label is None else names.get(label, "")


def flat_map(run: "Run", db: sqlite3.Connection, names: dict[int, str]) -> Map | None:
    places = read_map(run.folder / "cache", len(run.paths))
    if places is None:
        return None
    order = {c: i for i, c in enumerate(names)}
    labels_ = {a.item: order[a.label] for a in facts.agreed(db) if a.label is not None and a.label in order}
    rounds = dict(db.execute("SELECT item, coalesce(round, 0) FROM task").fetchall())
    return Map(
        points=[None if x != x else (round(x, 4), round(y, 4)) for x, y in places.tolist()],
        labels=[labels_.get(i, -1) for i in range(len(places))],
        rounds=[rounds.get(i, 0) for i in range(len(places))],
        method="the two main directions of variation of what the model sees",
    )


def process(db: sqlite3.Connection, answered: list[sqlite3.Row]) -> Process:
    kinds = Counter(dict(db.execute("SELECT kind, count(*) FROM event GROUP BY kind").fetchall()))
    seconds = [row["seconds"] for row in answered if row["seconds"] is not None]
    people = []
    for name in sorted({row["annotator"] for row in answered}):
        own = [row for row in answered if row["annotator"] == name]
        timed = [row["seconds"] for row in own if row["seconds"] is not None]
        people.append(
            Person(
                name,
                len(own),
                sum(row["class"] is None for row in own),
                statistics.median(timed) if timed else None,
                labels_per_minute([moment(row["at"]) for row in own]),
            )
        )
    return Process(
        people=people,
        median_seconds=statistics.median(seconds) if seconds else None,
        undone=kinds["undo"],
        changed=kinds["change"],
        skipped=kinds["skip"],
        bulk=sum(row["bulk"] for row in answered),
        conflicts=sum(a.conflict for a in facts.agreed(db)),
        agreement=agreement(answered),
        suggestions=suggestions(db, answered),
    )


def agreement(answered: list[sqlite3.Row]) -> Agreement | None:
    """The pairs of answers of two people to one item, all pairs together."""
    by_item: dict[int, list[tuple[str, int]]] = {}
    for row in answered:
        if row["class"] is not None:
            by_item.setdefault(row["item"], []).append((row["annotator"], row["class"]))
    pairs = [(a[1], b[1]) for given in by_item.values() for a, b in combinations(sorted(given), 2)]
    if not pairs:
        return None
    one, other = zip(*pairs, strict=True)
    items = sum(len(given) > 1 for given in by_item.values())
    return Agreement(items, share(sum(a == b for a, b in pairs), len(pairs)), cohens_kappa(one, other))


def suggestions(db: sqlite3.Connection, answered: list[sqlite3.Row]) -> Suggestions:
    final = final_class(db)
    rows = [r for r in answered if r["class"] is not None and r["suggestion"] is not None]
    same = {r["item"]: final[r["class"]] == final[r["suggestion"]] for r in rows}
    seen = [same[r["item"]] for r in rows if r["suggestion_shown"] != "none"]
    unseen = [same[r["item"]] for r in rows if r["suggestion_shown"] == "none"]
    return Suggestions(
        mode=get_meta(db, "suggestions", "off"),
        shown=dict(Counter(r["suggestion_shown"] for r in answered)),
        accepted=share(sum(seen), len(seen)),
        with_it=share(sum(seen), len(seen)),
        without=share(sum(unseen), len(unseen)),
    )


def mistakes(
    run: "Run", truth: dict[int, int], said: dict[int, int], numbers: list[int], beginning: Callable[[int], str]
) -> list[Mistake]:
    place = {c: i for i, c in enumerate(numbers)}
    wrong: dict[tuple[int, int], list[Shown]] = {}
    for item, label in truth.items():
        if said[item] != label and label in place and said[item] in place:
            wrong.setdefault((place[label], place[said[item]]), []).append(
                Shown(item, run.paths[item], text=beginning(item))
            )
    ordered = sorted(wrong.items(), key=lambda pair: -len(pair[1]))
    return [Mistake(t, p, examples[:EXAMPLES]) for (t, p), examples in ordered]


def problems(
    run: "Run",
    db: sqlite3.Connection,
    names: dict[int, str],
    predictions: Predictions | None,
    beginning: Callable[[int], str],
) -> Problems:
    skipped = [tuple(row) for row in get_meta(db, "skipped", [])]
    copies: dict[str, list[str]] = {}
    for path, problem, reason in skipped:
        if problem == "duplicate":
            copies.setdefault(reason, []).append(path)
    near = db.execute("SELECT count(*) FROM item WHERE split = 'out'").fetchone()[0]
    return Problems(
        unreadable=[
            (path, reason) for path, problem, reason in skipped if problem in ("unreadable", "name", "missing")
        ],
        outside=[(path, reason) for path, problem, reason in skipped if problem in ("outside", "link")],
        duplicates=[[reason, *paths] for reason, paths in copies.items()],
        near_check=near,
        suspicious=suspicious(run, db, names, predictions, beginning),
        replaced=replaced(run, db),
    )


def replaced(run: "Run", db: sqlite3.Connection) -> list[tuple[str, str]]:
    """Labelled files that are not what they were when the run was made: the label may be of another picture."""
    items = [row["item"] for row in db.execute("SELECT DISTINCT item FROM answer ORDER BY item")]
    return [
        (run.paths[item], "has another size than when the run was made; check its label")
        for item in items
        if run.pictures.is_replaced(item)
    ]


def suspicious(
    run: "Run",
    db: sqlite3.Connection,
    names: dict[int, str],
    predictions: Predictions | None,
    beginning: Callable[[int], str],
) -> list[Shown]:
    """Labels that the model doubts, the most doubtful first."""
    given = facts.train_labels(db)
    final = final_class(db)
    shown = []
    for item, score in list(doubts(db, predictions).items())[:SUSPICIOUS]:
        best = None if predictions is None else predictions.best(item)
        if best is not None:
            label, guess = names.get(given[item], ""), names.get(final[best[0]], "")
            said = Shown(item, run.paths[item], label, model_label=guess, model_prob=best[1], score=score)
            shown.append(replace(said, text=beginning(item)))
    return shown


HEADS = {"linear": "linear layer", "neighbours": "nearest items"}


def model(run: "Run") -> Model | None:
    """The model card, from what the model's folder says of itself."""
    folder = run.folder / "model"
    if damage_of_folder(folder) is not None:  # or there is none yet
        return None
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    preprocess = json.loads((folder / "preprocess.json").read_text(encoding="utf-8"))
    from askless.run.out.report import file_facts

    weights = file_facts(folder, ["model.safetensors"])
    backbone = config["backbone"]
    return Model(
        architecture=f"{HEADS[config['net']]} on frozen {backbone}"
        if backbone
        else f"{config['net']}, trained from scratch",
        learner=config["learner"],
        weights="model/model.safetensors",
        sha256=weights[0].sha256 if weights else "",
        preprocessing=preprocess,
        classes=config["classes"],
        labelled=config["labels"],
        unlabelled=config["unlabelled"],
        versions=config["versions"],
        settings={k: v for k, v in asdict(run.settings).items() if k in ("net", "learner", "steps", "seed", "batch")},
        limits=[
            f"It knows only these classes, and names one of them for any {run.noun}.",
            f"It was measured on {run.noun}s of this collection; on others it may do worse.",
        ],
    )
