"""What is told of the rest of a run, and of what was accepted of it."""

from collections import Counter

import pytest

from askless.run.out.gather import gather
from askless.run.out.report import page
from askless.run.out.sorting import as_trained, check_items, precisions, rest_of
from askless.run.store.asking import Desk
from askless.run.store.chunks import Chunk
from askless.run.store.extra import label_extra
from askless.run.store.items import item_paths, readable_items
from askless.run.store.labels import labels_of_check_items

ANN = Desk("ann", "ann-tab")


@pytest.fixture
def run(shapes, tmp_path):
    run = shapes.start(tmp_path / "run", budget=20, check=0.5)
    shapes.finish(run)
    yield run
    run.close()


def accept(run, number, labels, out, seen, removed, least=0.0):
    with run.store.change() as db:
        chunk = Chunk(number, labels, out, seen, removed, least)
        label_extra(db, ANN, f"chunk-of-class-{number}", labels, "accepted", {}, chunk)


def test_every_unlabelled_item_but_the_check_items_is_offered_once(run):
    with run.store.look() as db:
        rest = rest_of(db, run.folder)
        labelled = {row[0] for row in db.execute("SELECT item FROM task")}
        assert sorted(rest.items.tolist()) == [i for i in readable_items(db) if i not in labelled]
    offered = [item for number in range(4) for item in rest.offered(number)]
    assert sorted(offered) == sorted(rest.items.tolist())
    for number in range(4):
        probs = [rest.offered(number)[item] for item in rest.surest(number, 100)]
        assert probs == sorted(probs, reverse=True)


def test_check_items_count_for_the_class_in_which_the_model_puts_them_as_surely(run):
    with run.store.look() as db:
        truth = labels_of_check_items(db)
        trained = run.predictions()._replace(probs=as_trained(run.predictions()))
        said = {item: trained.best(item) for item in truth}
        everything = check_items(db, run.folder, dict.fromkeys(range(4), 0.0))
        assert {number: n for number, (_, n) in everything.items()} == Counter(number for number, _ in said.values())
        assert sum(right for right, _ in everything.values()) == sum(said[i][0] == truth[i] for i in truth)
        assert check_items(db, run.folder, dict.fromkeys(range(4), 1.1)) == {}
        number, middle = sorted(said.values(), key=lambda one: one[1])[len(said) // 2]
        assert sum(n for _, n in check_items(db, run.folder, {number: middle}).values()) == sum(
            c == number and prob >= middle for c, prob in said.values()
        )


def test_the_precision_of_what_was_accepted_is_told_by_class_and_in_all(run):
    with run.store.look() as db:
        assert precisions(db, run.folder) == []
        rest = rest_of(db, run.folder)
    of = [list(rest.offered(number)) for number in range(4)]
    full = [number for number in range(4) if len(of[number]) >= 3][:2]
    for number in full:
        first, *others = of[number]
        accept(run, number, dict.fromkeys(others, number), [first], len(of[number]), 1)
    with run.store.look() as db:
        told = precisions(db, run.folder)
        n_check = sum(n for _, n in check_items(db, run.folder, dict.fromkeys(full, 0.0)).values())
    *classes, everything = told
    assert [one.class_ for one in classes] == full
    assert [one.accepted for one in classes] == [len(of[number]) - 1 for number in full]
    assert everything.accepted == sum(one.accepted for one in classes)
    assert everything.removed["correct"] == 2
    assert everything.check["n"] == n_check
    assert all(one.wrong.most >= one.wrong.expected >= 0 for one in told)


def test_the_report_tells_accepted_labels_apart_from_the_budget(run):
    before = gather(run)
    assert before.accepted == []
    with run.store.look() as db:
        rest, paths = rest_of(db, run.folder), item_paths(db)
    items = [item for item in rest.items.tolist() if paths[item].split("/")[1].startswith("red")]
    accept(run, 0, dict.fromkeys(items, 0), [], len(items), 0)
    after = gather(run)
    assert after.labels == before.labels
    assert after.measure == before.measure
    assert [(one.name, one.labels) for one in after.accepted] == [("red", len(items)), ("all", len(items))]
    text = page(after, lambda item: None)
    assert "Accepted in a grid" in text
    assert "Accepted in a grid" not in page(before, lambda item: None)
