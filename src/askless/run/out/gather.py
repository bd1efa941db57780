"""A run -> its account: `account_of` for the page and `askless status`, `gather` for the report. Torch is not needed."""

import json
import sqlite3
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.files import sha256_of
from askless.report.numbers import sentence
from askless.run.out.account import (
    Accepted,
    Account,
    Batch,
    Chosen,
    Data,
    Facts,
    FileFact,
    Labels,
    Map,
    Mistake,
    Model,
    OfClass,
    Outlook,
    Person,
    Point,
    Problems,
    Process,
    Share,
    Shown,
    Suggestions,
)
from askless.run.out.claims import standings
from askless.run.out.doubts import doubts_of
from askless.run.out.opinions import agreement_of, confused, count_disagreements, given_classes
from askless.run.out.outlook import outlook_of
from askless.run.out.sorting import precisions
from askless.run.out.training import confidence_in_words, in_words
from askless.run.steps.advice import Standing, advise
from askless.run.steps.confidence import held_out, sharpened
from askless.run.steps.estimate import estimate, level_of_look, planned_looks
from askless.run.steps.measure import (
    calibration,
    confusion,
    labels_per_minute,
    per_class,
    share,
)
from askless.run.steps.round_files import (
    Predictions,
    again,
    damage_of_fit,
    damage_of_folder,
    last_predictions,
    read_held,
    read_held_sure,
    read_map,
)
from askless.run.store.asking import all_rounds, all_tasks, is_anything_open, left_to_choose, tasks_of_round
from askless.run.store.classes import final_class, shown_classes
from askless.run.store.fits import Fit, all_fits, last_fitted
from askless.run.store.items import count_skipped, count_splits, readable_items, skipped_files, widths
from askless.run.store.labels import (
    Answer,
    agreed,
    all_answers,
    answered_items,
    count_answers_by_annotator,
    first_rounds,
    labels_in_order,
    labels_of_check_items,
    times_of_answers,
    train_labels,
)
from askless.run.store.looks import chosen_looks, colour_of
from askless.run.store.progress import RunProgress, progress_of
from askless.run.store.store import count_events, get_meta, moment, now
from askless.sources import excerpt

if TYPE_CHECKING:
    from askless.run.run import Run

EXAMPLES = 6  # of each kind of mistake
SUSPICIOUS = 24
RECENT = 200  # answers that give the pace
WEIGHTS = "model/model.safetensors"
WRITTEN = ("labels.csv", "classes.txt", "skipped.csv", "project.toml", WEIGHTS, "model/config.json")


# --- how it stands ---------------------------------------------------------------------------------------------------------

HEADS = {"linear": "linear layer", "waves": "linear layer with curved borders", "neighbours": "nearest items"}


def account_of(run: "Run", price: float | None = None) -> Account:
    """How a run stands, from one consistent state of it; `price` of an answer, if not as in its settings."""
    with run.store.look() as db:
        fits, points = list(all_fits(db).values()), curve(run, db)
        measure = points[-1].measured if points else None
        so_far = progress_of(db)
        doubtful = len(doubts_of(db, run.folder).found)
        outlook = outlook_of(run, db, points, so_far, price)
        advice = advise(standing(run, db, points, measure, so_far, doubtful, outlook))
        said = damage(run, points)
        mix = fits[-1].metrics["mix"] if fits else {}
        people = count_answers_by_annotator(db, accepted=False)
        given = given_classes(db, all_answers(db)) if len(people) > 1 else {}
        return Account(
            progress=so_far,
            curve=points,
            trained_at=[fit.at for fit in fits],
            measure=measure,
            advice=advice._replace(
                text=" ".join([advice.text, *(f"{sentence(text)}." for text in said)]), reasons=advice.reasons + said
            ),
            rate=rate(db, so_far),
            mix={int(c): share for c, share in mix.items()},
            skipped=count_skipped(db),
            annotators=people,
            doubtful=doubtful,
            unsure_check=sum(a.label is None for a in agreed(db, ("check",))),
            outlook=outlook,
            training=words_of(fits[-1], run.noun) if fits else "",
            claims=standings(db),
            disagreements=count_disagreements(db),
            agreement=agreement_of(db, given),
            confused=confused(db, given),
        )


def words_of(fit: Fit, noun: str) -> str:
    """What a training chose, and what the check items made of its confidence."""
    chose = in_words(fit.metrics.get("training", {}), fit.labels, noun)
    return f"{chose} {confidence_in_words(fit.metrics.get('sharpness', 1.0), noun)}".strip()


def curve(run: "Run", db: sqlite3.Connection) -> list[Point]:
    """One point per trained round, measured on all check images that have a label by now, with the classes that came first
    in it. The intervals hold together, for every round is another look at the same check images."""
    truth, final, first = labels_of_check_items(db), final_class(db), first_rounds(db)
    names = {c.id: c.name for c in shown_classes(db)}
    s, points = run.settings, []
    planned = planned_looks(s.budget, s.check, s.batch)
    # What people are unsure of is not measured; where there is some, the others are not like the measured ones.
    alike = len(truth) == len(agreed(db, ("check",)))
    for look, fit in enumerate(all_fits(db).values(), 1):
        said, sure = read_held(run.folder, fit.round) or {}, read_held_sure(run.folder, fit.round)
        items = [item for item in truth if item in said and said[item] >= 0]
        measured = estimate(
            [final[said[i]] == truth[i] for i in items],
            [sure[i] for i in items if i in sure],
            [p for i, p in sure.items() if i not in truth] if alike else (),
            level_of_look(look, planned),
        )
        points.append(
            Point(
                fit.round,
                fit.labels,
                **(measured or {}),
                seconds=fit.seconds,
                change=fit.metrics["change"],
                margin=fit.metrics["margin"],
                new_classes=[names[c] for c, number in first.items() if number == fit.round and c in names],
            )
        )
    return points


def damage(run: "Run", points: list[Point]) -> list[str]:
    """Sentences on the rounds whose files are damaged: their labels are not."""
    rounds = [point.round for point in points]
    lost = [number for number in rounds[:-1] if read_held(run.folder, number) is None]
    said = [f"the predictions of round {number} are damaged, so their accuracy is not measured" for number in lost]
    if rounds and (found := damage_of_fit(run.folder, rounds[-1])):
        said.append(again(rounds[-1], found))
    return said


def standing(
    run: "Run",
    db: sqlite3.Connection,
    points: list[Point],
    measure: Share,
    so_far: RunProgress,
    doubtful: int,
    outlook: Outlook,
) -> Standing:
    """What the advice goes by."""
    counts = Counter(train_labels(db).values())
    return Standing(
        budget=so_far.budget,
        spent=so_far.spent,
        rounds=len(points),
        counts={c.name: counts[c.id] for c in shown_classes(db)},
        measure=measure,
        target=run.settings.target or None,
        changes=[point.change for point in points],
        since_new_class=since_new_class(db),
        checked=len(labels_of_check_items(db)),
        flattered=get_meta(db, "flattered", 0),
        doubtful=doubtful,
        nothing_left=left_to_choose(db) == 0 and not is_anything_open(db),
        noun=run.noun,
        ahead=outlook.ahead[0]._asdict() if outlook.ahead else None,
    )


def since_new_class(db: sqlite3.Connection) -> int | None:
    """How many labels were given after the first one of the class that came last."""
    labels = labels_in_order(db)
    return len(labels) - 1 - max(map(labels.index, set(labels))) if labels else None


def rate(db: sqlite3.Connection, so_far: RunProgress) -> dict[str, float | None] | None:
    """Labels per minute of the last answers, breaks left out, and what that means for the batch."""
    per_minute = pace(db)
    if per_minute is None:
        return None
    batch = so_far.batch
    left = None if batch is None else (batch.size - batch.done) / per_minute
    return {"per_minute": per_minute, "minutes_left_in_batch": left}


def pace(db: sqlite3.Connection) -> float | None:
    """Labels per minute of the last answers, breaks left out; None where too few were timed."""
    return labels_per_minute(sorted(map(moment, times_of_answers(db, RECENT))))


# --- what the report tells -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """What the parts of the report look at: one state of a run. `trained`: the labels to train on; `said` and `truth`: what
    the last model and people say of the check images that both know; `final`: what a class stands for."""

    run: "Run"
    db: sqlite3.Connection
    account: Account
    answered: list[Answer]
    predictions: Predictions | None
    names: dict[int, str]
    final: dict[int, int]
    trained: dict[int, int]
    said: dict[int, int]
    truth: dict[int, int]

    @property
    def checked(self) -> tuple[list[int], list[int]]:
        """What the model says of the check images, and what is true."""
        return [self.said[item] for item in self.truth], list(self.truth.values())

    def shown(self, item: int, **more: Any) -> Shown:
        """An item with its picture or the beginning of its text."""
        text = excerpt(self.run.texts([item])[item], 200) if self.run.kind == "texts" else ""
        return Shown(item, self.run.paths[item], text=text, **more)


def gather(run: "Run") -> Facts:
    """Everything the report tells, from one consistent state of the run."""
    with run.store.look() as db:
        final, number = final_class(db), last_fitted(db)
        held = {} if number is None else read_held(run.folder, number) or {}
        said = {item: final[c] for item, c in held.items() if c >= 0}
        names = {c.id: c.name for c in shown_classes(db)}
        state = Snapshot(
            run,
            db,
            account=account_of(run),
            answered=all_answers(db, newest_first=True),
            predictions=last_predictions(db, run.folder),
            names=names,
            final=final,
            trained=train_labels(db),
            said=said,
            # A class that was added and taken back may still be what the last model says.
            truth={i: y for i, y in labels_of_check_items(db).items() if said.get(i) in names and y in names},
        )
        predicted, truth = state.checked
        files = file_facts(run.folder, WRITTEN)
        return Facts(
            name=run.folder.resolve().name,
            made_at=now(),
            command=run.settings.command,
            data=data(state),
            labels=labels(state),
            advice=state.account.advice,
            curve=state.account.curve,
            classes=of_classes(state),
            chosen=chosen(state),
            process=process(state),
            measure=state.account.measure,
            calibration=how_sure(state),
            baseline=max(Counter(truth).values()) / len(truth) if truth else None,
            target=run.settings.target or None,
            confusion=confusion(predicted, truth, list(state.names)).tolist() if truth else [],
            mistakes=mistakes(state),
            problems=problems(state),
            accepted=accepted(state),
            model=model(run, {file.name: file.sha256 for file in files}, state.account.training),
            files=files,
            outlook=state.account.outlook,
            claims=state.account.claims,
        )


def how_sure(state: Snapshot) -> dict[str, Any] | None:
    """The calibration of the last model on the check images, each by the confidence that the others gave it; classes that
    were merged count as one."""
    if state.predictions is None or not state.truth:
        return None
    place = {c: i for i, c in enumerate(state.names)}
    said, truth = (np.array([place[c] for c in classes]) for classes in state.checked)
    merged = [[state.final.get(int(c)) == name for name in place] for c in state.predictions.classes]
    raw = sharpened(state.predictions.probs[list(state.truth)], 1 / state.predictions.sharpness) @ np.array(merged)
    sure = held_out(raw, truth)[np.arange(len(said)), said]
    return calibration(sure, said == truth)


def data(state: Snapshot) -> Data:
    run, splits, (low, high) = state.run, count_splits(state.db), widths(state.db)
    return Data(
        source=run.settings.source,
        images=len(run.paths),
        pool=splits["pool"],
        check=splits["check"],
        reserve=splits["reserve"],
        size="" if not high else f"{low} pixels wide" if low == high else f"{low} to {high} pixels wide",
        noun=run.noun,
    )


def labels(state: Snapshot) -> Labels:
    asked = [row for row in state.answered if row.kind in ("train", "check")]
    times = sorted(moment(row.at) for row in asked)
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    return Labels(
        budget=state.account.progress.budget,
        spent=state.account.progress.spent,
        labelled=sum(row.label is not None for row in asked),
        unsure=sum(row.label is None for row in asked),
        train=len(state.trained),
        check=len(labels_of_check_items(state.db)),
        minutes=sum(gap for gap in gaps if gap <= 60) / 60 if gaps else None,
        per_minute=labels_per_minute(times),
        first_at=asked[-1].at if asked else "",
        last_at=asked[0].at if asked else "",
    )


def of_classes(state: Snapshot) -> list[OfClass]:
    given, checks = Counter(state.trained.values()), Counter(state.truth.values())
    scores = {row["class"]: row for row in per_class(*state.checked, list(state.names))}
    counts: Counter[int] = Counter()
    looks = chosen_looks(state.db)
    if state.predictions is not None:
        best = state.predictions.best_of_all()[readable_items(state.db, "pool")]
        counts = Counter(state.final[c] for c in best.tolist() if c >= 0)
    return [
        OfClass(
            number=number,
            colour=colour_of(number, looks),
            name=name,
            labels=given[number],
            check=checks[number],
            predicted=None if state.predictions is None else counts[number],
            precision=scores[number]["precision"],
            recall=scores[number]["recall"],
        )
        for number, name in state.names.items()
    ]


def chosen(state: Snapshot) -> Chosen:
    names, settings, agreed_ = state.names, state.run.settings, agreed(state.db)
    label_of = {a.item: "unsure" if a.label is None else names.get(a.label, "") for a in agreed_ if a.kind == "train"}
    batches = []
    for made in all_rounds(state.db):
        items = [
            state.shown(task.item, label=label_of.get(task.item, ""), reason=task.reason, score=task.score)
            for task in tasks_of_round(state.db, made.id)
        ]
        batches.append(Batch(made.id, made.strategy, items, made.seconds))
    parameters = {name: getattr(settings, name) for name in ("net", "learner", "steps", "batch", "check", "annotators")}
    order = {c: i for i, c in enumerate(names)}
    places = {a.item: order[a.label] for a in agreed_ if a.label is not None and a.label in order}
    return Chosen(settings.strategy, parameters, settings.seed, batches, map_of(state.run, state.db, places))


def map_of(run: "Run", db: sqlite3.Connection, labels: Mapping[int, int]) -> Map | None:
    """Where every item is, its label (item -> number) and its round; None before items have been compared."""
    places = read_map(run.folder / "cache", len(run.paths))
    if places is None:
        return None
    rounds = {task.item: task.round or 0 for task in all_tasks(db)}
    return Map(
        points=[None if x != x else (round(x, 4), round(y, 4)) for x, y in places.tolist()],
        labels=[labels.get(i, -1) for i in range(len(places))],
        rounds=[rounds.get(i, 0) for i in range(len(places))],
        method="the two main directions of variation in the model's features",
    )


def process(state: Snapshot) -> Process:
    kinds = Counter(count_events(state.db))
    answered = [row for row in state.answered if row.kind != "accepted"]  # their precision is reported separately
    people = []
    for name in sorted({row.annotator for row in answered}):
        own = [row for row in answered if row.annotator == name]
        pace = labels_per_minute([moment(row.at) for row in own])
        people.append(Person(name, len(own), sum(row.label is None for row in own), median_seconds(own), pace))
    return Process(
        people=people,
        median_seconds=median_seconds(answered),
        undone=kinds["undo"],
        changed=kinds["change"],
        skipped=kinds["skip"],
        bulk=sum(row.bulk for row in answered),
        disagreements=state.account.disagreements,
        agreement=state.account.agreement,
        confused=state.account.confused,
        suggestions=suggestions(state),
    )


def median_seconds(answered: list[Answer]) -> float | None:
    seconds = [row.seconds for row in answered if row.seconds is not None]
    return statistics.median(seconds) if seconds else None


def suggestions(state: Snapshot) -> Suggestions:
    final = state.final
    same = [
        (row.suggestion_shown != "none", final[row.label] == final[row.suggestion])
        for row in state.answered
        if row.label is not None and row.suggestion is not None and row.kind in ("train", "check")
    ]
    seen, unseen = ([is_same for shown, is_same in same if shown is which] for which in (True, False))
    return Suggestions(
        mode=get_meta(state.db, "suggestions", "off"),
        shown=dict(Counter(row.suggestion_shown for row in state.answered if row.kind in ("train", "check"))),
        accepted=share(sum(seen), len(seen)),
        with_it=share(sum(seen), len(seen)),
        without=share(sum(unseen), len(unseen)),
    )


def mistakes(state: Snapshot) -> list[Mistake]:
    place = {c: i for i, c in enumerate(state.names)}
    wrong: dict[tuple[int, int], list[Shown]] = {}
    for item, label in state.truth.items():
        said = state.said[item]
        if said != label and label in place and said in place:
            wrong.setdefault((place[label], place[said]), []).append(state.shown(item))
    ordered = sorted(wrong.items(), key=lambda pair: -len(pair[1]))
    return [Mistake(t, p, examples[:EXAMPLES]) for (t, p), examples in ordered]


def problems(state: Snapshot) -> Problems:
    skipped = skipped_files(state.db)
    copies: dict[str, list[str]] = {}
    for path, problem, reason in skipped:
        if problem == "duplicate":
            copies.setdefault(reason, []).append(path)
    return Problems(
        unreadable=[
            (path, reason) for path, problem, reason in skipped if problem in ("unreadable", "name", "missing")
        ],
        outside=[(path, reason) for path, problem, reason in skipped if problem in ("outside", "link")],
        duplicates=[[reason, *paths] for reason, paths in copies.items()],
        near_check=state.account.skipped["near_check"],
        suspicious=suspicious(state),
        replaced=replaced(state.run, state.db),
    )


def accepted(state: Snapshot) -> list[Accepted]:
    told = []
    for one in precisions(state.db, state.run.folder):
        name = "all" if one.class_ is None else state.names[one.class_]
        wrong, most = (None, None) if one.wrong is None else one.wrong
        told.append(Accepted(name, one.accepted, one.removed, one.check, wrong, most))
    return told


def suspicious(state: Snapshot) -> list[Shown]:
    """Doubtful labels, the most doubtful first."""
    doubts = doubts_of(state.db, state.run.folder)
    who = "the model says" if doubts.by == "model" else "the other labels suggest"
    return [
        state.shown(
            one.item,
            label=state.names.get(one.label, ""),
            reason=f"{who} {state.names.get(one.said, '')}",
            score=one.score,
        )
        for one in doubts.found[:SUSPICIOUS]
    ]


def replaced(run: "Run", db: sqlite3.Connection) -> list[tuple[str, str]]:
    """Labelled files that are not what they were when the run was made: the label may be of another picture."""
    return [
        (run.paths[item], "changed in size since the run was made; check its label")
        for item in answered_items(db)
        if run.pictures.is_replaced(item)
    ]


def architecture(net: str, backbone: str | None) -> str:
    if backbone is None and net not in HEADS:
        return f"{net}, trained from scratch"
    return f"{HEADS.get(net, net)} on {'the features' if backbone is None else f'frozen {backbone}'}"


def model(run: "Run", digests: Mapping[str, str], chose: str) -> Model | None:
    """The model card, from what the model's folder says of itself; `digests` are the SHA-256 of the run's files."""
    folder = run.folder / "model"
    if damage_of_folder(folder) is not None:  # or there is none yet
        return None
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    preprocess = json.loads((folder / "preprocess.json").read_text(encoding="utf-8"))
    return Model(
        architecture=architecture(config["net"], config["backbone"]),
        learner=config["learner"],
        weights=WEIGHTS,
        sha256=digests.get(WEIGHTS, ""),
        preprocessing=preprocess,
        classes=config["classes"],
        labelled=config["labels"],
        unlabelled=config["unlabelled"],
        versions=config["versions"],
        settings={k: v for k, v in asdict(run.settings).items() if k in ("net", "learner", "steps", "seed", "batch")},
        limits=[
            f"It knows only these classes and assigns one of them to any {run.noun}.",
            f"It was measured on {run.noun}s of this collection and may do worse on others.",
        ],
        chose=chose,
    )


def file_facts(folder: Path, names: Sequence[str]) -> list[FileFact]:
    """Size and sha256 of those files below `folder` that are there."""
    out = []
    for name in names:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                out.append(FileFact(name, path.stat().st_size, sha256_of(file).hex()))
    return out
