"""The steps of a run, one function each: embed, compare, close, train, choose, report. `next_step` says which is missing.

Every step writes its files first and its row in the database last: a step that was interrupted runs again from the start.
"""

import csv
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING

import numpy as np

from askless.base.files import replace_folder, write_whole
from askless.run.out.gather import curve
from askless.run.steps.index import write_skipped
from askless.run.steps.round_files import (
    damage_of_fit,
    damaged_fit,
    is_whole,
    list_files,
    read_map,
    read_predictions,
    round_folder,
)
from askless.run.store.asking import (
    Pick,
    all_rounds,
    ask_round,
    asked_items,
    close_rounds,
    current_round,
    is_anything_open,
    is_asking,
    is_batch_open,
    left_to_choose,
    plan,
    tasks_of_round,
)
from askless.run.store.classes import shown_classes
from askless.run.store.fits import all_fits, fitted_rounds, outdate_fits, put_fit
from askless.run.store.items import keep_out_of_pool, note_skipped, readable_items, unreadable_items
from askless.run.store.labels import is_trainable, labels_key, train_labels
from askless.run.store.store import get_meta, last_event, payload_of, record, set_meta
from askless.sources import Skipped, read_arrays
from askless.track import Event

if TYPE_CHECKING:
    from askless.run.run import Run

Report = Callable[[str, str, int, int], None]  # step, text, done, total


def next_step(run: "Run", ahead: bool) -> str | None:
    """The step that is missing; None where people have to answer first, or all is done. With `ahead` also what is needed
    only when they have: the augmented views, which the first batch does not wait for."""
    with run.store.look() as db:
        if not get_meta(db, "prepared") or not is_whole(run.folder / "cache"):
            return "embedding" if run.settings.frozen and run.kind != "features" else "decoding"
        if not get_meta(db, "compared") or read_map(run.folder / "cache", len(run.paths)) is None:
            return "comparing"
        damaged = damaged_fit(db, run.folder)
        if is_batch_open(db):
            again = damaged is not None and is_trainable(db)
            return "embedding" if (ahead or again) and lacks_views(run, db) else "training" if again else None
        if is_asking(db):
            return "closing"
        last = all_fits(db).get(current_round(db))
        if is_trainable(db) and (last is None or last.labels_key != labels_key(db) or damaged is not None):
            return "embedding" if lacks_views(run, db) else "training"
        if left_to_choose(db) > 0:
            return "embedding" if last is not None and lacks_views(run, db) else "choosing"
        if not is_anything_open(db) and get_meta(db, "reported") != last_event(db):
            return "reporting"
    return None


def lacks_views(run: "Run", db: Connection) -> bool:
    """Whether augmented views that training needs are still to be embedded. Where the images are away, as on a disk that is
    not mounted, training does without."""
    from askless.run.steps.embedding import are_whole, view_paths

    items = readable_items(db, "pool")
    return not are_whole(view_paths(run.folder / "cache", run.settings, items), len(items)) and not run.is_away()


def embed(run: "Run", report: Report) -> None:
    """The plain view of every item, then, when a batch is out or training is due, the augmented views of the pool."""
    from askless.run.steps import embedding

    cache, settings, n_items = run.folder / "cache", run.settings, len(run.paths)
    plain = not run.meta("prepared") or not is_whole(cache)
    step, verb = ("embedding", "Embedding") if settings.frozen else ("decoding", "Reading")
    what = f"{n_items:,} {run.noun}s" if plain else "augmented views, which training needs"

    def progress(done: int, total: int) -> None:
        report(step, f"{verb} {what}", done, total)

    run.forget_pool()
    if run.kind == "features":
        embedding.keep_features(cache, read_arrays(Path(run.meta("root"))), run.paths)
        run.note("prepared", True)
        return
    progress(0, n_items)
    with run.store.look() as db:
        known_bad, pool = unreadable_items(db), readable_items(db, "pool")
    if run.kind == "texts":
        fit_on = run.readable("pool", "out").tolist()
        embedding.embed_texts(cache, list(run.texts().values()), fit_on, settings, progress)
        with run.store.change() as db:
            outdate_fits(db)  # another version may make other features of the same texts
    elif plain:
        backbone = embedding.backbone_of(settings)
        read = embedding.reader(run.pictures, embedding.image_side(settings, backbone))
        embedding.embed_images(cache, n_items, settings, read, run.mark_unreadable, progress, known_bad, backbone)
    else:
        read = embedding.reader(run.pictures, embedding.CachedItems(cache).side)
        embedding.embed_augmented(cache, settings, pool, read, run.check_there, progress)
    run.note("prepared", True)


def compare(run: "Run", report: Report) -> None:
    """Draws the map, and the first time keeps what looks like a check image out of the pool."""
    from askless.run.steps import comparing
    from askless.run.steps.embedding import CachedItems

    text = f"Looking for near-duplicates of the check {run.noun}s"
    report("comparing", text, 0, 1)
    read = CachedItems(run.folder / "cache")
    with run.store.look() as db:
        everything, held = readable_items(db), readable_items(db, "check", "reserve")
        pool, (budget, check) = readable_items(db, "pool"), plan(db)
    places = comparing.flat_map(read.x, np.array(everything, np.int64))
    write_whole(run.folder / "cache" / "map.npy", lambda file: np.save(file, places, allow_pickle=False))
    if run.meta("compared"):  # the cache was deleted: the pool stays as it is, for some of it has been asked
        return
    if run.kind == "texts":
        alike = comparing.nearly_same(list(run.texts().values()), held, pool)
    else:
        alike = comparing.look_alikes(read.tiny, read.x, held, pool, pictures=run.kind != "features")
    # Where almost everything looks alike, as in a film, too few would be left: then it is only said.
    flattered = len(alike) if len(pool) - len(alike) < max(2, budget - check) else 0
    alike = [] if flattered else alike
    reason = f"looks like a check {run.noun}; never chosen"
    with run.store.change() as db:
        record(db, f"compared-{time.time_ns()}", "near_check", "worker", {"items": alike})
        keep_out_of_pool(db, alike)
        skipped = note_skipped(db, [Skipped(run.paths[i], "look-alike", reason) for i in alike])
        set_meta(db, "flattered", flattered)
        set_meta(db, "compared", True)
    write_skipped(skipped, run.folder / "skipped.csv")
    report("comparing", text, 1, 1)


def close(run: "Run", report: Report) -> None:
    with run.store.change() as db:
        close_rounds(db)


def train(run: "Run", report: Report) -> None:
    """Trains on all labels, predicts every item, and puts the round and the model in the place of the old ones."""
    from askless.run.out.model import save_model
    from askless.run.steps import one_round

    run.forget_pool()  # since the last choice its views may have been made, or its images gone
    base, settings = run.run_pool(), run.settings
    with run.store.look() as db:
        number, key, labels = current_round(db), labels_key(db), train_labels(db)
        damaged = damaged_fit(db, run.folder)
        if damaged is not None and is_batch_open(db):
            number = damaged  # a batch is out: the model that chose it is made again, from the labels of then
            later = set(asked_items(db, after=number))
            labels = {item: label for item, label in labels.items() if item not in later}
        classes = shown_classes(db)
        before = max((n for n in fitted_rounds(db) if n < number), default=None)
        if before is not None and damage_of_fit(run.folder, before, last=False) is not None:
            before = None
    place = {c.id: i for i, c in enumerate(classes)}
    names = [c.name for c in classes]
    given = {item: place[label] for item, label in labels.items()}
    earlier = None if before is None else round_folder(run.folder, before) / "learner"
    learner = one_round.make_learner(base, settings, names, given, earlier)
    unlabelled = len(base.items) - len(learner.labels)
    text = f"Training on {len(learner.labels):,} labels and {unlabelled:,} unlabelled {run.noun}s"
    report("training", text, 0, settings.steps)
    begun = time.perf_counter()

    def watch(done: int, total: int, numbers: dict[str, float]) -> None:
        report("training", text, done, total)
        rest = {name: value for name, value in numbers.items() if name != "step"}
        run.trail.tell(Event("step", run.folder.name, number * settings.steps + done, rest), last=done == total)

    beside, model_beside = run.folder / "rounds" / f".{number:03d}.making", run.folder / ".model.making"
    for folder in (beside, model_beside):
        shutil.rmtree(folder, ignore_errors=True)
    beside.mkdir(mode=0o700)
    metrics = one_round.fit_round(
        learner,
        base,
        len(run.paths),
        run.readable(),
        run.readable("check", "reserve"),
        [c.id for c in classes],
        None if before is None else read_predictions(run.folder, before),
        beside,
        watch,
    )
    assert learner.learnt is not None
    about = {
        **{"round": number, "labels": len(learner.labels), "unlabelled": unlabelled},
        **{"learner": settings.learner, "seed": settings.seed, "versions": dict(settings.versions)},
        "strategy": settings.strategy,
    }
    texts = run.folder / "cache" / "text" if run.kind == "texts" else None
    save_model(model_beside, learner.learnt.as_network(), base, settings, names, about, texts)
    write_picked(run, beside, number)
    for folder in (beside, model_beside):
        list_files(folder)
    replace_folder(beside, round_folder(run.folder, number))
    replace_folder(model_beside, run.folder / "model")
    with run.store.change() as db:
        put_fit(db, number, len(learner.labels), key, time.perf_counter() - begun, metrics)
    run.write_views()
    if run.trail:
        run.trail.tell(round_event(run, number))


def write_picked(run: "Run", folder: Path, number: int) -> None:
    """picked.csv: what was chosen in this round and why."""
    with run.store.look() as db:
        tasks = tasks_of_round(db, number)
    with (folder / "picked.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("rank", "path", "picked_by", "score", "reason"))
        writer.writerows((t.rank, t.path, t.picked_by, t.score, t.reason) for t in tasks)


def choose(run: "Run", report: Report) -> None:
    """Asks the strategy for the next batch."""
    from askless.run.steps import one_round

    report("choosing", "Choosing the next batch", 0, 1)
    begun = time.perf_counter()
    base = run.run_pool()
    with run.store.look() as db:
        labels, classes = train_labels(db), shown_classes(db)
        current, n = current_round(db), min(run.settings.batch, left_to_choose(db))
        fitted = current in fitted_rounds(db) and damaged_fit(db, run.folder) is None
        # All that was asked, labelled or not: a label that came after the training is none to the learner.
        asked = asked_items(db)
    names = [c.name for c in classes]
    saved = round_folder(run.folder, current) / "learner"
    if fitted:
        learner = one_round.load_learner(saved, base)
    else:
        place = {c.id: i for i, c in enumerate(classes)}
        learner = one_round.make_learner(base, run.settings, names, {i: place[y] for i, y in labels.items()}, None)
    choice = one_round.choose(learner, base, n, names, fitted, asked, run.noun)
    if fitted:
        learner.save(saved, pool=False)  # what the strategy remembers of this batch
    picks = [Pick(*pick) for pick in zip(choice.items, choice.reasons, choice.scores, strict=True)]
    with run.store.change() as db:
        asked_now = ask_round(db, current + 1, picks, choice.picked_by, time.perf_counter() - begun, choice.info)
    if asked_now:
        report("choosing", f"Chosen by {choice.picked_by}", 1, 1)


def write_report(run: "Run", report: Report) -> None:
    report("reporting", "Writing the report", 0, 1)
    with run.store.look() as db:
        seen = last_event(db)
    run.write_report()
    run.note("reported", seen)
    run.end_trail()
    report("reporting", "Writing the report", 1, 1)


# --- what trackers are told ------------------------------------------------------------------------------------------------


def start_event(run: "Run") -> Event:
    """The run, by the id that it has for good: whoever hears of it again goes on."""
    settings = run.settings
    made_of = {"strategy": settings.strategy, "learner": settings.learner, "net": settings.net, "seed": settings.seed}
    sizes = {"items": len(run.paths), "batch": settings.batch, "steps": settings.steps}
    about = {"id": run.meta("run"), **made_of, **sizes}
    return Event("start", run.folder.name, about={name: str(value) for name, value in about.items()})


def round_event(run: "Run", number: int) -> Event:
    """Of the round `number`, whose model is trained: its check accuracy is that on the images with a label by now."""
    with run.store.look() as db:
        fit, point = all_fits(db)[number], next(p for p in curve(run, db) if p.round == number)
        asked = payload_of(db, f"worker/round-{number}")
        choosing = [made.seconds for made in all_rounds(db) if made.id == number]
    info = {} if asked is None else asked["info"]
    measured = {
        "check_accuracy": point.accuracy,
        "check_low": point.low,
        "check_high": point.high,
        "check_n": point.n,
    }
    numbers = {
        **{name: value for name, value in fit.metrics["training"].items() if name != "step"},
        **{name: value for name, value in info.items() if name not in ("labelled", "seconds")},
        **{name: fit.metrics[name] for name in ("fit_seconds", "predict_seconds", "change", "margin")},
        **(measured if point.n else {}),
        **({"select_seconds": choosing[0]} if choosing else {}),
    }
    return Event("round", run.folder.name, point.labels, numbers)


STEPS: dict[str, Callable[["Run", Report], None]] = {
    "embedding": embed,
    "decoding": embed,
    "comparing": compare,
    "closing": close,
    "training": train,
    "choosing": choose,
    "reporting": write_report,
}
