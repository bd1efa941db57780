import csv

import numpy as np
import pytest

from askless.base.intervals import exact
from askless.run import Run
from askless.run.out.account import FileFact
from askless.run.out.gather import account_of, file_facts, gather, rate, since_new_class
from askless.run.out.training import in_words
from askless.run.steps.estimate import level_of_look
from askless.run.steps.round_files import read_held
from askless.run.store.answering import Given, Suggested, answer
from askless.run.store.asking import Desk
from askless.run.store.classes import add_class, merge_class
from askless.run.store.fits import all_fits, last_fitted
from askless.run.store.labels import labels_of_check_items, train_labels
from askless.run.store.progress import progress_of


def test_a_run_that_has_just_begun_stands_at_nothing(shapes, tmp_path):
    run = shapes.start(tmp_path / "run")
    now = account_of(run)
    assert now.progress.spent == 0
    assert (now.curve, now.measure, now.rate, now.mix, now.annotators) == ([], None, None, {}, {})
    assert now.advice.verdict == "too early"
    run.close()


def test_the_curve_has_one_honest_point_per_round(finished):
    now = account_of(finished)
    assert [point.round for point in now.curve] == [1, 2, 3, 4]
    assert [point.labels for point in now.curve] == [5, 10, 15, 16]
    for look, point in enumerate(now.curve, 1):
        assert (point.n, point.worth) == (4, 4)
        assert (point.low, point.high) == exact(point.correct, 4, level_of_look(look, planned=4))
        assert point.accuracy == point.correct / 4
    assert now.curve[0].change is None
    assert all(0 <= point.change <= 1 for point in now.curve[1:])
    assert sum(now.mix.values()) == pytest.approx(1)
    assert now.advice.verdict == "budget used"
    assert now.annotators == {"tell": 20}


def test_chosen_labels_have_no_part_in_the_accuracy(tmp_path):
    """A collection in which what the strategy likes is labelled wrongly: the measure must not see it."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    rows = rng.normal(size=(200, 3)).astype(np.float32)
    rows[:, 0] += 8 * y
    np.savez(tmp_path / "rows.npz", X=rows)
    run = Run.create(
        tmp_path / "rows.npz",
        tmp_path / "run",
        classes=("a", "b"),
        budget=80,
        check=0.5,
        batch=20,
        learner="supervised",
    )
    while run.advance() is not None or run.waiting():
        with run.store.look() as db:
            chosen = {r["path"] for r in db.execute("SELECT path FROM item WHERE split = 'pool'")}
        # Of the chosen ones a third is labelled at random.
        wrong = {path for path in run.waiting() if path in chosen and int(path) % 3 == 0}
        run.tell({path: "ab"[1 - y[int(path)] if path in wrong else y[int(path)]] for path in run.waiting()})
    measure = account_of(run).measure
    with run.store.look() as db:
        truth, train = labels_of_check_items(db), train_labels(db)
        checks = {r["id"] for r in db.execute("SELECT id FROM item WHERE split = 'check'")}
        pool = {r["id"] for r in db.execute("SELECT id FROM item WHERE split = 'pool'")}
    best = run.predictions().best_of_all()
    assert set(truth) == checks
    assert set(train) <= pool
    assert measure["n"] == 40
    assert measure["correct"] == sum(best[i] == label for i, label in truth.items())
    on_train = np.mean([best[i] == label for i, label in train.items()])
    assert measure["accuracy"] != on_train  # the two are not the same number here
    run.close()


def test_merging_classes_changes_past_measures(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=24, check=0.5, batch=12, learner="supervised", steps=20)
    shapes.finish(run)
    before = account_of(run).measure
    with run.store.change() as db:
        for number in (1, 2, 3):
            merge_class(db, f"request-{number}", "ann", number, 0)
    after = account_of(run).measure
    assert (after["n"], after["correct"]) == (before["n"], before["n"])  # all are one class now
    run.close()


def test_a_class_that_was_taken_back_may_still_be_what_the_model_says(shapes, tmp_path, monkeypatch):
    run = shapes.start(tmp_path / "run", budget=24, check=0.5, batch=12, learner="supervised", steps=20)
    shapes.finish(run)
    with run.store.change() as db:
        gone = add_class(db, "request-1", "ann", "other")
        db.execute("UPDATE class SET hidden = 1 WHERE id = ?", (gone,))
        held = {**read_held(run.folder, last_fitted(db)), next(iter(labels_of_check_items(db))): gone}
    before = gather(run)
    monkeypatch.setattr("askless.run.out.gather.read_held", lambda folder, number: held)
    assert np.sum(gather(run).confusion) == np.sum(before.confusion) - 1
    run.close()


def test_check_images_that_nobody_is_sure_of_are_counted_apart(make_room):
    room = make_room(30, budget=20, check=0.2)
    for unsure in (True, False):
        item = room.take("ann")
        with room.run.store.change() as db:
            given = Given(unsure="quality") if unsure else Given(label=0)
            answer(db, Desk("ann", "ann-tab"), room.request(), [item], given, overlap=1)
    now = account_of(room.run)
    assert now.unsure_check == 1
    assert now.progress.check.done == 2
    with room.run.store.look() as db:
        assert len(labels_of_check_items(db)) == 1


def label(room, number, at=None, seconds=1.0):
    item = room.take("ann")
    with room.run.store.change() as db:
        answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=number, seconds=seconds), overlap=1)
        if at is not None:
            db.execute("UPDATE answer SET at = ? WHERE item = ?", (at, item))
    return item


def test_the_pace_leaves_breaks_out(make_room):
    room = make_room()
    room.ask(list(range(10)))
    for at in ("10:00:00", "10:00:05", "10:00:10", "12:00:00", "12:00:05"):
        label(room, 0, f"2026-01-01T{at}.000Z")
    with room.run.store.look() as db:
        found = rate(db, progress_of(db))
    assert found == pytest.approx({"per_minute": 12, "minutes_left_in_batch": 5 / 12})


def test_labels_since_the_last_new_class_are_counted(make_room):
    room = make_room(classes=("cat", "dog", "owl"))
    room.ask(list(range(10)))
    with room.run.store.look() as db:
        assert since_new_class(db) is None
    for number, expected in ((0, 0), (0, 1), (1, 0), (0, 1), (1, 2)):
        label(room, number)
        with room.run.store.look() as db:
            assert since_new_class(db) == expected
    with room.run.store.change() as db:
        merge_class(db, room.request(), "ann", 1, 0)
        assert since_new_class(db) == 4
        add_class(db, room.request(), "ann", "fox")
        assert since_new_class(db) == 4


def test_what_was_left_out_is_counted(own_shapes, tmp_path):
    files = sorted(own_shapes.folder.rglob("*.png"))
    (files[0].parent / "copy.png").write_bytes(files[0].read_bytes())
    (files[0].parent / "broken.png").write_bytes(b"no picture")
    (files[0].parent / "out.png").symlink_to("/etc/hostname")
    run = own_shapes.start(tmp_path / "run")
    left_out = account_of(run).skipped
    assert (left_out["unreadable"], left_out["duplicates"], left_out["outside"]) == (1, 1, 1)
    with (run.folder / "skipped.csv").open(newline="") as file:
        assert {row["problem"] for row in csv.DictReader(file)} == {"unreadable", "duplicate", "outside"}
    run.close()


def test_each_answer_is_compared_with_the_suggestion_that_it_had(make_room):
    """Two people on one item: one of them agrees with the model."""
    room = make_room(annotators=2)
    room.ask([0])
    for who, number in (("ann", 0), ("bo", 1)):
        item = room.take(who)
        with room.run.store.change() as db:
            suggested = {item: Suggested(0, 0.9)}
            desk = Desk(who, f"{who}-tab")
            answer(db, desk, room.request(), [item], Given(label=number), overlap=2, suggested=suggested)
    without = gather(room.run).process.suggestions.without
    assert (without["n"], without["correct"]) == (2, 1)


def test_the_page_the_status_and_the_report_tell_the_same(finished):
    account, told, page = account_of(finished), gather(finished), account_of(finished).as_json()
    assert told.curve == account.curve
    assert (told.measure, told.advice) == (account.measure, account.advice)
    assert (told.calibration["n"], told.calibration["right"]) == (told.measure["n"], told.measure["accuracy"])
    assert 0 <= told.calibration["low"] <= told.calibration["error"] <= told.calibration["high"] <= 1
    assert (told.labels.budget, told.labels.spent) == (account.progress.budget, account.progress.spent)
    assert page["measure"] == account.measure
    assert page["progress"]["spent"] == account.progress.spent
    assert page["annotators"] == [{"annotator": "tell", "answers": 20}]
    assert page["curve"][0].keys() == {
        *("round", "labels", "seconds", "at", "n", "correct", "accuracy", "low", "high", "worth", "change", "margin")
    }
    assert page["mix"][0].keys() == {"class", "share"}
    assert page["training"] == account.training == told.model.chose


def test_what_auto_chose_and_why_is_told_in_a_sentence(tmp_path):
    y = np.arange(80) % 2
    rows = np.random.default_rng(0).normal(size=(80, 3)).astype(np.float32)
    rows[:, 0] += 4 * y
    rows[5] *= 1e4
    np.savez(tmp_path / "rows.npz", X=rows)
    run = Run.create(tmp_path / "rows.npz", tmp_path / "run", classes=("a", "b"), budget=20, check=0, batch=10)
    while run.advance() is not None or run.waiting():
        run.tell({path: "ab"[y[int(path)]] for path in run.waiting()})
    chosen = training_of(run)
    share = round(100 * chosen["graph"] / (chosen["graph"] + chosen["alone"]))
    said = account_of(run).training
    assert f"(cross-validation on 20 labels): similar rows count {share} % and the labels alone {100 - share} %" in said
    assert f"(temperature {round(chosen['temperature'], 2):g}). 1 row lies so far from all others" in said
    assert gather(run).model.chose == said
    run.close()


def training_of(run: Run) -> dict[str, float]:
    with run.store.look() as db:
        return list(all_fits(db).values())[-1].metrics["training"]


def test_a_learner_that_chooses_nothing_says_nothing(finished):
    assert ("graph" in training_of(finished)) == bool(account_of(finished).training)
    assert in_words({"step": 20, "loss": 0.1}, 5, "image") == ""


def test_files_and_their_sums(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"abc")
    (found,) = file_facts(tmp_path, ["a.txt", "gone.txt"])
    assert found == FileFact("a.txt", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
