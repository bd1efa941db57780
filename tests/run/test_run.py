import csv
import io
import json
import os

import numpy as np
import pytest
from PIL import Image

from askless.base.errors import AsklessError, InputError, OptionError
from askless.base.intervals import exact
from askless.learn import ground, propagation
from askless.models import load
from askless.run import Run, RunError
from askless.run.out.answers import read_answers
from askless.run.out.gather import account_of
from askless.run.settings import LEARNERS, STRATEGIES
from askless.run.steps.draw import draw_check
from askless.run.steps.estimate import level_of_look
from askless.run.store.answering import ConflictError, Given, answer
from askless.run.store.asking import Desk, next_item
from askless.run.store.classes import add_class
from askless.run.store.labels import labels_of_check_items, train_labels
from askless.run.store.progress import Done, progress_of
from askless.run.store.store import RepeatedError

TIMES = ("labelled_at", "seconds")


def chosen(run):
    """(round, item) of everything that was chosen, in order."""
    with run.store.look() as db:
        return [
            tuple(row) for row in db.execute("SELECT round, item FROM task WHERE kind = 'train' ORDER BY round, rank")
        ]


def splits(run):
    with run.store.look() as db:
        return dict(db.execute("SELECT path, split FROM item ORDER BY id").fetchall())


def labels_without_times(run):
    with (run.folder / "labels.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMES} for row in csv.DictReader(file)]


def until_waiting(run):
    steps = []
    while (step := run.advance()) is not None:
        steps.append(step)
    return steps


def advance_to(run, step):
    """Up to and with a step."""
    while run.advance() != step:
        pass


# --- the steps -----------------------------------------------------------------------------------------------------------


def test_the_steps_come_in_their_order(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=12, batch=5, learner="supervised")
    assert until_waiting(run) == ["embedding", "comparing", "choosing", "embedding"]  # the augmented views come last
    assert run.advance() is None
    assert len(run.waiting()) == 7  # a batch of five, and two check images
    shapes.tell(run)
    assert until_waiting(run) == ["closing", "training", "choosing"]
    assert not run.is_finished()
    shapes.tell(run)
    assert until_waiting(run) == ["closing", "training", "reporting"]
    assert run.waiting() == []
    assert run.is_finished()
    assert run.advance() is None
    for name in ("labels.csv", "classes.txt", "skipped.csv", "report.html", "report.json", "model/model.safetensors"):
        assert (run.folder / name).is_file(), name
    for name in ("picked.csv", "metrics.json", "predictions.npz", "log.jsonl"):
        assert (run.folder / "rounds" / "002" / name).is_file(), name
    run.close()


def test_a_finished_run_has_spent_its_budget_as_planned(finished, shapes):
    rows = read_answers(finished.folder / "labels.csv")
    assert len(rows) == 20
    assert sum(row.split == "check" for row in rows) == 4
    assert len({row.path for row in rows}) == 20
    assert all(row.label == shapes.truth[row.path] for row in rows)
    with finished.store.look() as db:
        assert progress_of(db).spent == 20
        trained = train_labels(db)
    held = {path for path, split in splits(finished).items() if split != "pool"}
    assert held.isdisjoint(finished.paths[item] for item in trained)


def test_a_finished_run_has_learnt_something(finished, shapes):
    predictions = finished.predictions()
    names = [line for line in (finished.folder / "classes.txt").read_text().splitlines()]
    best = [names[c] for c in predictions.best_of_all()]
    assert np.mean([b == shapes.truth[p] for b, p in zip(best, finished.paths, strict=True)]) > 0.8


@pytest.fixture(scope="module")
def without_a_break(shapes, tmp_path_factory):
    run = shapes.start(tmp_path_factory.mktemp("through") / "run", budget=14, seed=5)
    shapes.finish(run)
    return run


def test_a_run_that_is_reopened_after_every_step_is_the_same_run(without_a_break, shapes, tmp_path):
    folder = tmp_path / "run"
    shapes.start(folder, budget=14, seed=5).close()
    while True:
        run = Run.open(folder)
        step = run.advance()
        if step is None and not run.waiting():
            break
        if step is None:
            shapes.tell(run)
        run.close()
    assert chosen(run) == chosen(without_a_break)
    assert labels_without_times(run) == labels_without_times(without_a_break)
    assert (run.predictions().probs == without_a_break.predictions().probs).all()
    run.close()


def test_the_same_seed_and_answers_give_the_same_picks_and_another_seed_other_check_images(
    without_a_break, shapes, tmp_path
):
    same = shapes.start(tmp_path / "same", budget=14, seed=5)
    shapes.finish(same)
    assert chosen(same) == chosen(without_a_break)
    assert labels_without_times(same) == labels_without_times(without_a_break)
    other = shapes.start(tmp_path / "other", budget=14, seed=6)
    assert splits(other) != splits(same)
    same.close(), other.close()


def test_what_was_half_made_of_a_round_is_ignored_and_replaced(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=8, batch=6, learner="supervised")
    until_waiting(run)
    for half in (run.folder / "rounds" / ".001.making", run.folder / ".model.making", run.folder / "rounds" / "001"):
        half.mkdir()  # as a killed worker left them
        (half / "predictions.npz").write_bytes(b"half")
        (half / "learner").mkdir()
    shapes.tell(run)
    run.close()
    run = Run.open(run.folder)
    shapes.finish(run)
    assert run.predictions(1) is not None
    assert not (run.folder / "rounds" / ".001.making").exists()
    assert not (run.folder / ".model.making").exists()
    assert not any("old" in p.name for p in run.folder.rglob(".*"))
    run.close()


def test_embedding_goes_on_where_it_was_stopped(shapes, tmp_path, monkeypatch):
    from askless.run.steps import embedding

    monkeypatch.setattr(embedding, "CHUNK", 4)
    monkeypatch.setattr(embedding, "cores", lambda: 1)
    run = shapes.start(tmp_path / "run")
    read = []
    read_item = embedding.read_item

    def counting(pictures, item, side):
        read.append(item)
        if len(read) == 40:
            raise KeyboardInterrupt
        return read_item(pictures, item, side)

    monkeypatch.setattr(embedding, "read_item", counting)
    with pytest.raises(KeyboardInterrupt):
        run.advance()
    run.close()
    run = Run.open(run.folder)
    assert run.advance() == "embedding"
    assert len(read) < 40 + 48
    assert len(read) >= 48
    x = embedding.CachedItems(run.folder / "cache")
    whole = shapes.start(tmp_path / "whole")
    monkeypatch.setattr(embedding, "read_item", read_item)
    whole.advance()
    assert (x.x == embedding.CachedItems(whole.folder / "cache").x).all()
    run.close(), whole.close()


def views_in(run):
    return sorted((run.folder / "cache" / "views").glob("*.npy"))


def test_people_label_while_the_augmented_views_are_embedded_and_a_killed_worker_goes_on(shapes, tmp_path, monkeypatch):
    from askless.features import frozen, stored

    monkeypatch.setattr(stored, "EVERY", 1)
    monkeypatch.setattr(frozen, "BATCH", 8)
    whole, run = (shapes.start(tmp_path / name, learner="fixmatch") for name in ("whole", "run"))
    until_waiting(whole)
    assert [path.name.partition("-")[2] for path in views_in(whole)] == ["strong-0.npy", "strong-1.npy", "weak-0.npy"]
    advance_to(run, "choosing")
    assert len(run.waiting()) == 9  # before any augmented view is there
    assert views_in(run) == []
    shapes.tell(run, run.waiting()[:3])
    seen = []

    def report(step, text, done, total):
        seen.append((step, text, done, total))
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.advance(report)
    assert views_in(run) == []
    run.close()
    run, again = Run.open(run.folder), []
    shapes.tell(run, run.waiting()[:1])
    assert run.advance(lambda *where: again.append(where)) == "embedding"
    assert {(step, text) for step, text, _, _ in seen + again} == {
        ("embedding", "Looking at changed copies of the images, which training needs")
    }
    assert again[1][2] > seen[2][2]  # where it was
    assert again[-1][2] == again[-1][3] == 3 * len(run.run_pool().items)
    for one, other in zip(views_in(run), views_in(whole), strict=True):
        assert one.name == other.name
        assert one.read_bytes() == other.read_bytes()
    assert run.advance() is None
    views_in(run)[1].write_bytes(b"")
    assert run.advance() == "embedding"
    assert views_in(run)[1].read_bytes() == views_in(whole)[1].read_bytes()
    shapes.finish(run)
    run.close(), whole.close()


def test_an_image_that_is_gone_looks_in_every_view_as_it_did_at_first(own_shapes, tmp_path):
    run = own_shapes.start(tmp_path / "run", learner="fixmatch")
    advance_to(run, "choosing")
    items = run.run_pool().items
    (own_shapes.folder / run.paths[items[5]]).unlink()
    away = own_shapes.folder.rename(tmp_path / "away")
    assert run.advance() is None  # training does without views, should it come to that
    away.rename(own_shapes.folder)
    assert until_waiting(run) == ["embedding"]
    x = np.load(run.folder / "cache" / "embeddings.npy")
    for path in views_in(run):
        assert ((np.load(path) == x[items]).all(axis=1) == (np.arange(len(items)) == 5)).all()
    own_shapes.finish(run)
    assert run.is_finished()
    run.close()


def test_a_run_whose_cache_an_earlier_version_left_half_made_goes_on(shapes, tmp_path):
    run = shapes.start(tmp_path / "run")
    until_waiting(run)
    first = run.waiting()
    cache = run.folder / "cache"
    about = json.loads((cache / "material.json").read_text())
    whole = np.load(cache / "embeddings.npy")
    half = whole.copy()
    half[20:] = 0  # rows of which there are as many as items, most of them not made yet
    np.save(cache / "embeddings.npy", half)
    (cache / "material.json").write_text(json.dumps(about | {"done": 20}))
    run.close()
    run = Run.open(run.folder)
    assert until_waiting(run) == ["embedding"]
    assert (np.load(cache / "embeddings.npy") == whole).all()
    assert run.waiting() == first
    run.close()


def test_a_change_of_a_label_in_a_closed_round_trains_it_again(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=8, batch=8, check=0.0, learner="supervised")
    until_waiting(run)
    shapes.tell(run)
    until_waiting(run)
    with run.store.change() as db:
        item, label = db.execute("SELECT item, class FROM answer").fetchone()
        given = Given(label=(label + 1) % 4)
        answer(db, Desk("tell", "t"), "request-change", [item], given, overlap=1, change=True)
    assert until_waiting(run) == ["training", "reporting"]
    assert until_waiting(run) == []
    run.close()


def test_training_now_withdraws_what_is_open_and_it_may_be_chosen_again(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=16, batch=8, check=0.0, learner="supervised")
    until_waiting(run)
    batch = [item for _, item in chosen(run)]
    shapes.tell(run, [run.paths[i] for i in batch[:6]])
    assert run.train_now("request-now", "ann") == 2
    assert until_waiting(run) == ["closing", "training", "choosing"]
    picks = chosen(run)
    assert [i for r, i in picks if r == 1] == batch[:6]
    assert len([i for r, i in picks if r == 2]) == 8
    shapes.finish(run)
    with run.store.look() as db:
        assert progress_of(db).spent == 16
    run.close()


# --- other settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_works_for_two_rounds(shapes, tmp_path, strategy):
    run = shapes.start(
        tmp_path / "run", strategy=strategy, learner="supervised", steps=20, budget=16, batch=8, check=0.0
    )
    shapes.finish(run)
    with run.store.look() as db:
        rows = db.execute("SELECT round, picked_by, reason FROM task ORDER BY round").fetchall()
        assert db.execute("SELECT count(*) FROM fit").fetchone()[0] == 2
    assert [row["round"] for row in rows] == [1] * 8 + [2] * 8
    assert {row["picked_by"] for row in rows if row["round"] == 2} == {strategy}
    assert all(row["reason"] for row in rows)
    run.close()


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_works(shapes, tmp_path, learner):
    run = shapes.start(tmp_path / "run", learner=learner, strategy="random", steps=10, budget=8, batch=8, check=0.0)
    shapes.finish(run)
    probs = run.predictions().probs
    assert probs.shape == (48, 4)
    run.export_model(tmp_path / "taken")
    files = [shapes.folder / path for path in run.paths]
    for place in (run.folder, tmp_path / "taken"):
        np.testing.assert_allclose(load(place).predict_proba(files), probs, atol=2e-3)
    assert load(run.folder).config["net"] == ("neighbours" if learner == "label-propagation" else "linear")
    run.close()


@pytest.mark.parametrize("learner", ["auto", "label-propagation"])
def test_neighbours_are_looked_for_once_in_all_rounds(shapes, tmp_path, learner, monkeypatch):
    made = counted(monkeypatch)
    run = shapes.start(tmp_path / "run", learner=learner, budget=20, batch=5)
    assert shapes.finish(run).count("training") > 2
    assert made == [len(run.run_pool().items)]
    run.close()


def test_neighbours_are_looked_for_again_when_an_item_has_left_the_pool(shapes, tmp_path, monkeypatch):
    made = counted(monkeypatch)
    run = shapes.start(tmp_path / "run", budget=20, batch=5)
    until_waiting(run), shapes.tell(run)
    assert until_waiting(run) == ["closing", "training", "choosing"]
    n = len(run.run_pool().items)
    asked = {item for _, item in chosen(run)}
    run.mark_unreadable(next(item for item in run.run_pool().items.tolist() if item not in asked), "damaged")
    shapes.finish(run)
    assert made == [n, n - 1]
    run.close()


def counted(monkeypatch):
    """How many rows there were, each time that the neighbours of all were looked for."""
    made, find = [], propagation.neighbours

    def neighbours(Q, X, k, *, itself=None):
        made.extend([len(X)] if itself is not None else [])
        return find(Q, X, k, itself=itself)

    for module in (propagation, ground):
        monkeypatch.setattr(module, "neighbours", neighbours)
    return made


def test_a_network_can_be_trained_from_scratch(shapes, tmp_path):
    run = shapes.start(
        tmp_path / "run", net="small-cnn", size=16, learner="supervised", steps=6, budget=12, batch=6, check=0.0
    )
    steps = shapes.finish(run)
    assert steps[0] == "decoding"
    assert run.predictions().probs.shape == (48, 4)
    config = json.loads((run.folder / "model" / "config.json").read_text())
    assert (config["net"], config["backbone"]) == ("small-cnn", None)
    run.close()


def test_a_class_that_comes_after_a_round_gets_the_last_column(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", classes=("red", "green"), budget=24, batch=8, check=0.0, learner="supervised")

    def tell(new):
        for path in run.waiting():
            name = shapes.truth[path]
            run.tell({path: name if name in ("red", "green", *new) else "red"})

    until_waiting(run)
    tell(())
    until_waiting(run)
    assert run.predictions().classes.tolist() == [0, 1]
    with run.store.change() as db:
        add_class(db, "request-owl", "ann", "blue")
    tell(("blue",))
    until_waiting(run)
    assert run.predictions().classes.tolist() == [0, 1, 2]
    assert run.predictions().probs.shape == (48, 3)
    assert (run.folder / "model" / "classes.txt").read_text().splitlines() == ["red", "green", "blue"]
    assert (run.folder / "classes.txt").read_text().splitlines() == ["red", "green", "blue"]
    tell(("blue",))
    assert until_waiting(run) == ["closing", "training", "reporting"]
    run.close()


def test_labels_of_one_class_only_train_nothing_and_choosing_goes_on(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=12, batch=4, check=0.0)
    made = ["embedding", "comparing", "choosing"]
    for expected in (made, ["closing", "choosing"], ["closing", "choosing"]):
        assert until_waiting(run) == expected
        run.tell(dict.fromkeys(run.waiting(), "red"))
    assert until_waiting(run) == ["closing", "reporting"]
    assert run.predictions() is None
    assert account_of(run).measure is None
    assert len(chosen(run)) == 12
    run.close()


def test_unsure_answers_are_spent_and_never_chosen_again(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=12, batch=4, check=0.0)
    seen = []
    for _ in range(3):
        until_waiting(run)
        with run.store.change() as db:
            desk = Desk("ann", "t")
            while (item := next_item(db, desk, 1)) is not None:
                seen.append(item)
                answer(db, desk, f"request-{item}", [item], Given(unsure="quality"), overlap=1)
    assert until_waiting(run) == ["closing", "reporting"]
    assert len(seen) == len(set(seen)) == 12
    run.close()


def test_without_classes_at_the_start_the_first_batch_is_chosen_all_the_same(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", classes=(), budget=8, batch=8, check=0.0, learner="supervised")
    until_waiting(run)
    with run.store.change() as db:
        for i, name in enumerate(("red", "green", "blue", "grey")):
            add_class(db, f"request-{i}", "ann", name)
    shapes.finish(run)
    assert run.predictions().probs.shape == (48, 4)
    run.close()


def test_without_check_images_nothing_is_measured(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", check=0.0, budget=10, batch=10, learner="supervised")
    shapes.finish(run)
    now = account_of(run)
    assert now.measure is None
    assert now.curve[0].accuracy is None
    report = json.loads((run.folder / "report.json").read_text())
    assert report["measure"] is None
    assert "not measured" in (run.folder / "report.html").read_text()
    run.close()


def test_two_people_answer_every_item(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", annotators=2, budget=10, batch=8, learner="supervised")
    until_waiting(run)
    shapes.tell(run, annotator="ann")
    assert until_waiting(run) == []
    shapes.tell(run, annotator="bo")
    assert until_waiting(run) == ["closing", "training", "reporting"]
    assert len(read_answers(run.folder / "labels.csv")) == 20
    with run.store.look() as db:
        assert progress_of(db).spent == 10
    run.close()


# --- sources -------------------------------------------------------------------------------------------------------------


def test_a_table_with_some_labels_starts_with_what_is_known(shapes, tmp_path):
    table = tmp_path / "table.csv"
    paths = sorted(shapes.truth)
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "place"))
        for i, path in enumerate(paths):
            writer.writerow((shapes.folder / path, shapes.truth[path] if i % 2 else "", f"place {i}"))
    notes = []
    quick = {"net": "frozen:raw", "size": 32, "steps": 20, "learner": "supervised", "follow_links": True}
    run = Run.create(table, tmp_path / "run", budget=10, batch=8, notes=notes.append, **quick)
    assert "24 labels were already known." in notes
    assert until_waiting(run) == ["embedding", "comparing", "embedding", "training", "choosing"]
    truth = {path: shapes.truth[str(path).removeprefix(f"{shapes.folder}/")] for path in run.paths}
    while run.waiting():
        run.tell({path: truth[path] for path in run.waiting()})
        until_waiting(run)
    with run.store.look() as db:
        assert progress_of(db).spent == 10
        known = train_labels(db)
        kinds = dict(db.execute("SELECT kind, count(*) FROM task GROUP BY kind").fetchall())
        split = dict(db.execute("SELECT id, split FROM item").fetchall())
    assert kinds == {"prior": 24 - sum(split[i] == "check" for i in range(48) if i % 2), "check": 2, "train": 8}
    assert {split[i] for i in known} == {"pool"}
    with (run.folder / "labels.csv").open(newline="") as file:
        assert {row["place"] for row in csv.DictReader(file)} > {"place 1", "place 3"}
    run.close()


def test_labels_that_are_all_held_out_do_not_stop_the_run(tmp_path):
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    draw = draw_check(60, 20, 0.2, seed=0)
    y = np.where((draw.place >= draw.check) & (draw.place < draw.held), np.arange(60) % 2, -1)
    np.savez(tmp_path / "rows.npz", X=rows, y=y, classes=np.array(["a", "b"]))
    run = Run.create(tmp_path / "rows.npz", tmp_path / "run", budget=20, batch=8)
    assert until_waiting(run) == ["decoding", "comparing", "choosing"]
    run.close()


def test_rows_of_features_are_taken_as_they_are(tmp_path):
    y = np.arange(60) % 3
    rows = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    rows[np.arange(60), y] += 6
    np.savez(tmp_path / "rows.npz", X=rows, ids=np.array([f"row {i}" for i in range(60)]))
    run = Run.create(tmp_path / "rows.npz", tmp_path / "run", classes=("a", "b", "c"), budget=20, batch=8, steps=40)
    assert run.settings.net == "waves"
    steps = until_waiting(run)
    assert steps == ["decoding", "comparing", "choosing"]
    while run.waiting():
        run.tell({path: "abc"[y[int(path.split()[1])]] for path in run.waiting()})
        until_waiting(run)
    best = run.predictions().best_of_all()
    assert (best == y).mean() > 0.8
    run.close()


@pytest.mark.parametrize("net", ["frozen:raw", "small-cnn"])
def test_images_in_an_array_work_like_files(tmp_path, net):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = rng.integers(0, 120, (40, 12, 12, 3)).astype(np.uint8)
    x[y == 1, :, :, 0] += 120
    np.savez(tmp_path / "images.npz", X=x, y=np.where(np.arange(40) < 4, y, -1), classes=np.array(["dark", "red"]))
    run = Run.create(
        tmp_path / "images.npz", tmp_path / "run", net=net, size=12, budget=10, batch=8, steps=20, learner="supervised"
    )
    until_waiting(run)
    while run.waiting():
        run.tell({path: ("dark", "red")[y[int(path)]] for path in run.waiting()})
        until_waiting(run)
    assert (run.predictions().best_of_all() == y).mean() > 0.9
    run.close()


@pytest.mark.parametrize("what", ["nothing", "one picture", "pickled", "text"])
def test_sources_that_cannot_be_used_are_refused_and_leave_nothing(tmp_path, what):
    source = tmp_path / "source"
    if what in ("nothing", "one picture"):
        source.mkdir()
    if what == "one picture":
        Image.new("RGB", (8, 8)).save(source / "a.png")
    if what == "pickled":
        source = tmp_path / "a.npz"
        np.savez(source, X=np.array([{"a": 1}, None], dtype=object))
    if what == "text":
        source = tmp_path / "a.txt"
        source.write_text("hello")
    with pytest.raises(AsklessError, match=source.name):
        Run.create(source, tmp_path / "run")
    assert {p.name for p in tmp_path.iterdir()} == {source.name}


def test_a_folder_with_something_in_it_is_not_overwritten(shapes, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious.txt").write_text("mine")
    with pytest.raises(RunError, match="expected a new folder"):
        shapes.start(tmp_path / "run")
    assert [p.name for p in tmp_path.rglob("*")] == ["run", "precious.txt"]


def test_classes_that_make_no_sense_are_refused_before_anything_is_written(shapes, tmp_path):
    for classes in (("cat", "CAT"), ("a\nb",)):
        with pytest.raises(OptionError, match="classes"):
            shapes.start(tmp_path / "run", classes=classes)
    assert list(tmp_path.iterdir()) == []


def test_a_budget_larger_than_the_collection_is_cut_and_told(shapes, tmp_path):
    notes = []
    run = shapes.start(tmp_path / "run", budget=1000, notes=notes.append)
    assert any("The budget is 48" in note for note in notes)
    assert run.meta("budget") == 48
    run.close()


def test_the_users_files_are_never_changed(own_shapes, tmp_path):
    def content():
        return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in sorted(own_shapes.folder.rglob("*")) if p.is_file()}

    before = content()
    run = own_shapes.start(tmp_path / "run", budget=8, batch=8, learner="supervised", steps=10)
    own_shapes.finish(run)
    assert content() == before
    run.close()


# --- check images --------------------------------------------------------------------------------------------------------


def test_what_looks_like_a_check_image_is_kept_out_of_the_pool(own_shapes, tmp_path):
    paths = sorted(own_shapes.truth)
    draw = draw_check(len(paths), 20, 0.2, seed=0)
    by_split = {split: [i for i in range(48) if draw.split(i) == split] for split in ("check", "reserve", "pool")}
    copies = {by_split["pool"][0]: by_split["check"][0], by_split["pool"][1]: by_split["reserve"][0]}
    for copy, of in copies.items():
        image = np.asarray(Image.open(own_shapes.folder / paths[of])).astype(int)
        noisy = np.clip(image + np.random.default_rng(0).integers(-2, 3, image.shape), 0, 255)
        Image.fromarray(noisy.astype(np.uint8)).save(own_shapes.folder / paths[copy])
    run = own_shapes.start(tmp_path / "run")
    assert run.paths == paths
    advance_to(run, "comparing")
    assert {p for p, split in splits(run).items() if split == "out"} == {paths[i] for i in copies}
    assert account_of(run).skipped["near_check"] == 2
    until_waiting(run)
    assert not set(copies) & {item for _, item in chosen(run)}
    assert not set(copies) & set(run.run_pool().items.tolist())
    run.close()


def damage(own_shapes, path):
    """A file whose header is right and whose pixels are not there."""
    file = own_shapes.folder / path
    file.write_bytes(file.read_bytes()[:60])


def test_a_check_image_that_cannot_be_read_is_replaced_by_the_next_of_the_draw(own_shapes, tmp_path):
    paths = sorted(own_shapes.truth)
    draw = draw_check(48, 20, 0.2, seed=0)
    order = np.argsort(draw.place)
    damage(own_shapes, paths[order[1]])
    damage(own_shapes, paths[next(i for i in range(48) if draw.split(i) == "pool")])
    run = own_shapes.start(tmp_path / "run")
    until_waiting(run)
    with run.store.look() as db:
        checks = {row["item"] for row in db.execute("SELECT item FROM task WHERE kind = 'check'")}
        assert checks == {int(order[i]) for i in (0, 2, 3, 4)}
        assert progress_of(db).check.planned == 4
        assert not db.execute("SELECT 1 FROM task t JOIN item i ON i.id = t.item WHERE problem IS NOT NULL").fetchone()
    with (run.folder / "skipped.csv").open(newline="") as file:
        assert {row["path"] for row in csv.DictReader(file) if row["problem"] == "unreadable"} == {
            paths[order[1]],
            paths[next(i for i in range(48) if draw.split(i) == "pool")],
        }
    own_shapes.finish(run)
    assert np.isnan(run.predictions().probs[order[1]]).all()
    run.close()


def test_marking_an_item_unreadable_twice_is_the_same_as_once(own_shapes, tmp_path):
    run = own_shapes.start(tmp_path / "run")
    for _ in range(2):
        run.mark_unreadable(3, "gone")
    assert account_of(run).skipped["unreadable"] == 1
    run.close()


def test_a_larger_budget_draws_new_check_images_from_the_reserve_only(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=20, batch=16, learner="supervised", steps=10)
    shapes.finish(run)
    before = splits(run)
    run.set_budget("request-more", "ann", 35)
    after = splits(run)
    moved = {path for path in after if after[path] != before[path]}
    assert len(moved) == 3  # seven instead of four
    assert {before[path] for path in moved} == {"reserve"}
    assert {after[path] for path in moved} == {"check"}
    with run.store.look() as db:
        held = [row["path"] for row in db.execute("SELECT path FROM item WHERE place < 7")]
        assert progress_of(db).check == Done(4, 7)
    assert moved <= set(held)
    shapes.finish(run)
    with run.store.look() as db:
        progress = progress_of(db)
    assert (progress.spent, progress.check.done, progress.train.done) == (35, 7, 28)
    run.close()


def test_a_reserve_that_is_used_up_draws_no_more(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=20, check=0.4, batch=8)
    until_waiting(run)
    run.set_budget("request-more", "ann", 48)
    with run.store.look() as db:
        checks = progress_of(db).check.planned
        assert db.execute("SELECT count(*) FROM item WHERE split = 'reserve'").fetchone()[0] == 0
        assert db.execute("SELECT count(*) FROM task WHERE kind = 'check'").fetchone()[0] == checks
    assert checks == 9  # all that were held
    run.close()


def test_a_smaller_budget_is_kept_to(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=30, check=0.2, batch=5, learner="supervised", steps=10)
    until_waiting(run)
    run.set_budget("request-less", "ann", 10)
    shapes.finish(run)
    with run.store.look() as db:
        progress = progress_of(db)
        assert db.execute("SELECT count(*) FROM task WHERE state = 'done'").fetchone()[0] == 10
    assert (progress.spent, progress.check) == (10, Done(2, 2))
    run.close()


@pytest.mark.parametrize("budget", [3, 49, 10**9])
def test_a_budget_that_makes_no_sense_is_refused(shapes, tmp_path, budget):
    run = shapes.start(tmp_path / "run", budget=20, batch=5)
    until_waiting(run)
    with pytest.raises(InputError, match="the budget cannot"):
        run.set_budget("request-bad", "ann", budget)
    assert run.meta("budget") == 20
    run.close()


def test_a_budget_is_set_once_per_request(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=20)
    run.set_budget("request-more", "ann", 30)
    run.set_budget("request-less", "ann", 25)
    with pytest.raises(RepeatedError):
        run.set_budget("request-more", "ann", 30)
    assert run.meta("budget") == 25
    run.close()


def test_the_accuracy_is_that_of_the_check_images_alone(finished):
    with finished.store.look() as db:
        truth = labels_of_check_items(db)
        checks = {row["id"] for row in db.execute("SELECT id FROM item WHERE split = 'check'")}
        shown = {row[0] for row in db.execute("SELECT suggestion_shown FROM answer")}
    assert set(truth) == checks
    best = finished.predictions().best_of_all()
    correct = sum(best[i] == label for i, label in truth.items())
    measure = account_of(finished).measure
    assert (measure["n"], measure["correct"]) == (4, correct)
    assert (measure["low"], measure["high"]) == exact(correct, 4, level_of_look(4, planned=4))
    assert shown == {"none"}


# --- telling -------------------------------------------------------------------------------------------------------------


def test_telling_takes_all_or_nothing(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", batch=5)
    until_waiting(run)
    first, second, *_ = run.waiting()
    asleep = next(path for path in run.paths if path not in run.waiting())
    for labels, error in (
        ({first: "red", second: "purple"}, InputError),
        ({first: "red", "nowhere.png": "red"}, InputError),
        ({first: "red", asleep: "red"}, ConflictError),
    ):
        with pytest.raises(error):
            run.tell(labels)
        assert read_answers(run.folder / "labels.csv") == []
    run.tell({first: "red"})
    with pytest.raises(ConflictError, match="already"):
        run.tell({first: "green"})
    run.close()


# --- the folder ----------------------------------------------------------------------------------------------------------


def test_the_folder_and_its_files_are_their_owners_alone(shapes, tmp_path):
    before = os.umask(0o022)
    try:
        run = shapes.start(tmp_path / "run", budget=8, batch=8, learner="supervised", steps=10)
        assert {oct(p.stat().st_mode & 0o777) for p in run.folder.rglob("*") if p.is_file()} == {"0o600"}
        os.umask(0o077)  # as the server and the worker do
        shapes.finish(run)
    finally:
        os.umask(before)
    assert oct(run.folder.stat().st_mode & 0o777) == "0o700"
    assert {oct(p.stat().st_mode & 0o777) for p in run.folder.rglob("*") if p.is_file()} == {"0o600"}
    assert {oct(p.stat().st_mode & 0o777) for p in run.folder.rglob("*") if p.is_dir()} == {"0o700"}
    run.close()


def test_opening_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match="expected a run"):
        Run.open(tmp_path)
    with pytest.raises(RunError, match="expected a run"):
        Run.open(tmp_path / "nowhere")


def test_the_views_can_be_made_anew_from_the_database(finished):
    before = (finished.folder / "labels.csv").read_bytes()
    (finished.folder / "labels.csv").unlink()
    finished.write_views()
    assert (finished.folder / "labels.csv").read_bytes() == before


def test_the_server_needs_no_torch():
    import subprocess
    import sys

    code = "import sys, askless.label.web.app, askless.label.web.serve; assert 'torch' not in sys.modules, 'torch'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_worker_does_what_is_missing_and_says_what_it_does(shapes, tmp_path):
    from askless.run.steps.worker import Status, catch_up

    run = shapes.start(tmp_path / "run", budget=8, batch=8, learner="supervised", steps=10)
    catch_up(run, Status(run.folder))
    shapes.tell(run)
    catch_up(run, Status(run.folder))
    assert run.is_finished()
    status = json.loads((run.folder / "status.json").read_text())
    assert {"pid", "at", "step", "text", "done", "total", "seconds_left", "problem"} <= set(status)
    Status(run.folder).rest(finished=True)
    assert json.loads((run.folder / "status.json").read_text())["step"] == "finished"
    assert oct((run.folder / "status.json").stat().st_mode & 0o777) == "0o600"
    run.close()


def test_labels_csv_has_its_columns(finished):
    head = (finished.folder / "labels.csv").read_text().splitlines()[0]
    assert head == (
        "path,label,status,split,annotator,labelled_at,seconds,round,rank,picked_by,model_label,model_prob,"
        "suggestion_shown,note,kind,decided,decided_by"
    )


def test_a_thumbnail_that_cannot_be_made_does_not_cost_the_report(own_shapes, tmp_path):
    run = own_shapes.start(tmp_path / "run", budget=8, batch=8, learner="supervised", steps=10)
    own_shapes.finish(run)
    for path in own_shapes.folder.rglob("*.png"):
        path.unlink()
    run.close()
    run = Run.open(run.folder)
    for thumb in (run.folder / "cache" / "thumbs").iterdir():
        thumb.unlink()
    assert run.thumb(0) is None
    assert run.write_report().exists()
    picture = io.BytesIO((run.folder / "report.html").read_bytes())
    assert picture.getbuffer().nbytes > 1000
    run.close()
