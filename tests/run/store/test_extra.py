"""Labels that nobody was asked for: found by a person, or accepted in a grid of the model's."""

import sqlite3
from contextlib import closing

import pytest

from askless.base.errors import InputError
from askless.run import Run
from askless.run.out.answers import import_into, read_answers
from askless.run.store.answering import ConflictError, Suggested, undo
from askless.run.store.asking import Desk, left_to_choose, plan, task_of
from askless.run.store.extra import Chunk, accept_chunk, chunks_of, count_accepted, label_extra, rest_items
from askless.run.store.importing import import_answers
from askless.run.store.labels import labels_key, labels_of_check_items, train_labels
from askless.run.store.progress import progress_of
from askless.run.store.repair import examine, repair
from askless.run.store.store import RepeatedError

from ...log import replay, stored

CAT, DOG = 0, 1
ANN, BO = Desk("ann", "ann-tab"), Desk("bo", "bo-tab")


@pytest.fixture
def room(make_room):
    return make_room(40)


def chunk(labels, out=(), seen=0, removed=0, least=0.5):
    return Chunk(CAT, dict(labels), list(out), seen, removed, least)


def accept(room, labels, out=(), desk=ANN, request=None, **more):
    with room.run.store.change() as db:
        said = {item: Suggested(CAT, 0.9) for item in labels}
        return accept_chunk(db, desk, request or room.request(), chunk(labels, out, **more), said)


def find(room, labels, desk=ANN):
    with room.run.store.change() as db:
        return label_extra(db, desk, room.request(), labels, "found")


def step_back(room, desk=ANN, again=False):
    with room.run.store.change() as db:
        return undo(db, desk, room.request(), overlap=room.run.settings.annotators, again=again)


def held(room, split):
    return [row[0] for row in room.rows("SELECT id FROM item WHERE split = ? ORDER BY place", split)]


def test_a_chunk_is_one_event_and_costs_no_budget(room):
    before = room.one("SELECT count(*) FROM event")
    assert accept(room, {1: CAT, 2: CAT, 3: DOG}, out=[4]) == ([1, 2, 3], [])
    assert room.one("SELECT count(*) FROM event") == before + 1
    with room.run.store.look() as db:
        assert [task_of(db, i).kind for i in (1, 2, 3)] == ["accepted", "accepted", "found"]
        assert task_of(db, 1).picked_by == "model"
        assert progress_of(db).spent == 0
        assert task_of(db, 4) is None
        assert replay(db) == stored(db) == {(1, "ann"): (CAT, None), (2, "ann"): (CAT, None), (3, "ann"): (DOG, None)}


def test_only_what_a_person_put_right_is_trained_on(room):
    with room.run.store.look() as db:
        before = labels_key(db)
    accept(room, {1: CAT, 2: CAT})
    with room.run.store.look() as db:
        assert train_labels(db) == {}
        assert labels_key(db) == before
    accept(room, {5: CAT, 6: DOG})
    find(room, {7: CAT})
    with room.run.store.look() as db:
        assert train_labels(db) == {6: DOG, 7: CAT}


def test_the_model_may_choose_only_what_is_not_accepted(room):
    with room.run.store.look() as db:
        free = left_to_choose(db)
    accept(room, dict.fromkeys(range(30), CAT))
    with room.run.store.look() as db:
        assert left_to_choose(db) == min(free, 10)
        assert rest_items(db) == list(range(30, 40))


def test_undo_takes_a_whole_chunk_back_and_redo_brings_it(room):
    accept(room, {1: CAT, 2: CAT, 3: DOG}, out=[4], seen=4, removed=2)
    with room.run.store.look() as db:
        after = stored(db)
    assert step_back(room)["items"] == [1, 2, 3]
    with room.run.store.look() as db:
        assert stored(db) == replay(db) == {}
        assert chunks_of(db) == []
        assert not set(rest_items(db)) ^ set(range(40))
        assert db.execute("SELECT count(*) FROM lease").fetchone()[0] == 0
    step_back(room, again=True)
    with room.run.store.look() as db:
        assert stored(db) == replay(db) == after
        assert chunks_of(db) == [chunk({1: CAT, 2: CAT, 3: DOG}, [4], seen=4, removed=2)]
        assert count_accepted(db) == {CAT: 2}


def test_redo_is_refused_where_an_item_is_asked_by_now(room):
    accept(room, {1: CAT, 2: CAT})
    step_back(room)
    room.ask([2])
    assert "item 2 was asked or labelled in the meantime" in step_back(room, again=True)["refused"]
    with room.run.store.look() as db:
        assert stored(db) == replay(db) == {}


def test_a_repeated_request_is_stored_once(room):
    accept(room, {1: CAT}, request="request-of-ann")
    with pytest.raises(RepeatedError) as repeated:
        accept(room, {1: CAT}, request="request-of-ann")
    assert repeated.value.payload["items"] == [1]
    assert room.one("SELECT count(*) FROM event WHERE kind = 'accepted'") == 1


def test_items_that_others_took_meanwhile_are_passed_over(room):
    accept(room, {1: CAT, 2: CAT}, desk=BO)
    assert accept(room, {1: DOG, 2: CAT, 3: CAT}) == ([3], [1, 2])
    with pytest.raises(ConflictError, match="item 1 was asked or labelled in the meantime; load the next ones"):
        accept(room, {1: CAT})
    with room.run.store.look() as db:
        assert stored(db)[1, "bo"] == (CAT, None)
        assert (1, "ann") not in stored(db)


def test_a_chunk_of_which_all_was_clicked_out_is_remembered(room):
    accept(room, {}, out=[1, 2], seen=2, removed=2)
    with room.run.store.look() as db:
        assert [c.out for c in chunks_of(db)] == [[1, 2]]
    assert step_back(room)["items"] == []
    with room.run.store.look() as db:
        assert chunks_of(db) == []
    with pytest.raises(InputError, match="expected at least one item, got none"):
        accept(room, {})


def test_check_items_are_never_accepted(make_room):
    room = make_room(40, budget=20, check=0.2)
    item = held(room, "check")[0]
    for labels, out in (({item: CAT}, []), ({}, [item])):
        with pytest.raises(InputError, match=f"item {item} is a check item, which measures the model"):
            accept(room, labels, out=out)
    with room.run.store.look() as db:
        assert item not in rest_items(db)
    with pytest.raises(InputError, match="expected an item that can be read, got 400"):
        accept(room, {400: CAT})


def test_an_accepted_item_of_the_reserve_is_asked_afresh_once_it_is_drawn(make_room):
    room = make_room(60, budget=20, check=0.2)
    first, second = held(room, "reserve")[:2]
    with room.run.store.look() as db:
        n = plan(db).check
    accept(room, {first: CAT, second: DOG})
    with room.run.store.look() as db:
        assert train_labels(db) == {}  # held out: neither what was accepted nor what was put right
    room.run.set_budget(room.request(), "ann", 20 + 10)
    with room.run.store.look() as db:
        assert plan(db).check == n + 2
        for item in (first, second):
            task = task_of(db, item)
            assert (task.kind, task.state) == ("check", "open")
        assert labels_of_check_items(db) == {}
        assert stored(db) == replay(db) == {}
    assert "has been replaced since" in step_back(room)["refused"]
    assert examine_closed(room) == []


def examine_closed(room):
    room.run.close()
    found = examine(room.run.folder)
    room.run = Run.open(room.run.folder)
    return found


def test_an_import_of_an_accepted_item_makes_it_one_of_the_labels_from_before(make_room):
    room = make_room(20, annotators=2)
    accept(room, {1: CAT, 2: CAT})
    with room.run.store.change() as db:
        import_answers(db, room.request(), "file", [("1", "cat")], overlap=2)
        assert [task_of(db, i).kind for i in (1, 2)] == ["prior", "accepted"]
    step_back(room)
    with room.run.store.look() as db:
        assert stored(db) == replay(db) == {(1, "file"): (CAT, None)}
        assert task_of(db, 2) is None


def test_a_lost_task_table_is_rebuilt_with_the_kinds(room):
    accept(room, {1: CAT, 2: CAT, 3: DOG}, out=[4])
    find(room, {5: DOG})
    accept(room, {6: CAT})
    step_back(room)
    with room.run.store.change() as db:
        import_answers(db, room.request(), "ann", [("2", "dog")], overlap=1, policy="replace")
    room.run.close()
    path = room.run.folder / "state.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("DELETE FROM task")
    assert examine(room.run.folder)
    repair(room.run.folder)
    assert examine(room.run.folder) == []
    room.run = Run.open(room.run.folder)
    kinds = dict(room.rows("SELECT item, kind FROM task"))
    assert kinds == {1: "accepted", 2: "prior", 3: "found", 5: "found"}
    with room.run.store.look() as db:
        assert [c.out for c in chunks_of(db)] == [[4]]
        assert train_labels(db) == {2: DOG, 3: DOG, 5: DOG}


def test_accepted_labels_of_an_export_stay_accepted_in_another_run(room, make_room):
    accept(room, {1: CAT, 2: CAT, 3: DOG})
    room.run.write_views()
    other = make_room(40, budget=20, check=0.2)
    import_into(other.run, read_answers(room.run.folder / "labels.csv"), "file", "keep")
    check = {*held(other, "check")}
    kinds = dict(other.rows("SELECT item, kind FROM task WHERE answers > 0"))
    expected = {1: "accepted", 2: "accepted", 3: "prior"}
    assert kinds == {i: "check" if i in check else kind for i, kind in expected.items() if i not in check or i == 3}
    with other.run.store.look() as db:
        assert not {1, 2} & train_labels(db).keys()
        assert replay(db) == stored(db)
