"""Labels for items that people came across: who may give them, what they count as, and that they can be taken back."""

import shutil

import pytest

from askless.base.errors import InputError
from askless.run.store.answering import ConflictError, Given, Suggested, answer, undo
from askless.run.store.asking import Desk, asked_items, draw_more, left_to_choose
from askless.run.store.found import Standing, can, label_found
from askless.run.store.labels import labels_of_check_items, train_labels
from askless.run.store.progress import progress_of
from askless.run.store.repair import examine, repair
from askless.run.store.replay import contradictions
from askless.run.store.store import RepeatedError

ANN, BO = Desk("ann", "ann-tab"), Desk("bo", "bo-tab")


@pytest.fixture
def room(make_room):
    """Forty rows: 4 check items, 4 in reserve, two chosen ones in the open batch."""
    room = make_room(40, budget=20, check=0.2)
    room.ask(room.pool()[:2])
    return room


def label(room, items, number=1, desk=ANN, request=None, overlap=1, **more):
    with room.run.store.change() as db:
        label_found(db, desk, request or room.request(), items, Given(label=number), overlap=overlap, **more)


def take_back(room, desk=ANN, again=False):
    with room.run.store.change() as db:
        return undo(db, desk, room.request(), overlap=1, again=again)


def check_whole(room):
    with room.run.store.look() as db:
        assert list(contradictions(db)) == []


def held_out(room, split):
    return [row[0] for row in room.rows("SELECT id FROM item WHERE split = ? ORDER BY place", split)]


def test_many_items_that_nobody_asked_about_get_one_label_in_one_event_and_cost_no_budget(room):
    items = room.pool()[5:17]
    label(room, items, 1)
    assert room.rows(
        "SELECT DISTINCT kind, picked_by, round, state FROM task WHERE item IN (SELECT item FROM answer)"
    ) == [("found", "search", None, "done")]
    assert room.one("SELECT count(*) FROM event WHERE annotator = 'ann'") == 1
    with room.run.store.look() as db:
        assert train_labels(db) == dict.fromkeys(items, 1)
        progress = progress_of(db, ANN)
        assert (progress.found, progress.spent, progress.can_undo) == (12, 0, True)
        assert left_to_choose(db) == 14  # 20 less 4 check items and the two of the batch
        assert set(items) <= set(asked_items(db))  # and no strategy will choose them
    check_whole(room)


def test_one_answer_to_items_of_every_sort_is_one_step_of_undo(room):
    """Found ones, one of the open batch, and one that was answered before."""
    chosen, free = room.pool()[:2], room.pool()[5:7]
    label(room, chosen[:1], 0)
    label(room, [*free, *chosen], 1)
    assert sorted(room.rows("SELECT item, class FROM answer")) == sorted((i, 1) for i in [*free, *chosen])
    assert room.rows("SELECT kind FROM event WHERE annotator = 'ann'") == [("label",), ("label",)]
    assert take_back(room)["items"] == [*free, *chosen]
    assert room.rows("SELECT item, class FROM answer") == [(chosen[0], 0)]
    assert room.rows("SELECT item FROM task WHERE kind = 'found'") == []
    assert room.rows("SELECT state FROM task WHERE item = ?", chosen[1]) == [("open",)]
    check_whole(room)
    take_back(room, again=True)
    assert sorted(room.rows("SELECT item, class FROM answer")) == sorted((i, 1) for i in [*free, *chosen])
    assert [row[0] for row in room.rows("SELECT item FROM task WHERE kind = 'found' ORDER BY item")] == sorted(free)
    check_whole(room)


def test_changing_only_own_answers_is_recorded_as_a_change(room):
    label(room, room.pool()[5:7], 0)
    label(room, room.pool()[5:7], 1)
    assert [kind for (kind,) in room.rows("SELECT kind FROM event WHERE annotator = 'ann'")] == ["label", "change"]
    assert room.one("SELECT count(*) FROM task WHERE kind = 'found'") == 2


@pytest.mark.parametrize("split", ["check", "reserve"])
def test_what_is_held_out_to_measure_with_cannot_be_labelled_in_a_list(room, split):
    item, free = held_out(room, split)[0], room.pool()[5]
    with pytest.raises(ConflictError, match=f"item {item} is kept to measure the model; it is asked by itself"):
        label(room, [free, item])
    assert room.rows("SELECT * FROM answer") == []  # the other one neither
    assert room.rows("SELECT item FROM task WHERE kind = 'found'") == []


def test_items_in_reserve_are_asked_afresh_when_they_are_drawn(room):
    """Nothing that was found counts as an answer of a check item, whatever was searched before the draw."""
    for item in range(40):
        try:
            label(room, [item])
        except ConflictError:
            continue
    with room.run.store.change() as db:
        assert draw_more(db, 4) == 4
        assert labels_of_check_items(db) == {}
    assert room.rows("SELECT DISTINCT state, answers FROM task WHERE kind = 'check'") == [("open", 0)]


def test_an_own_answer_to_a_check_item_can_be_corrected(room):
    while room.one("SELECT kind FROM task WHERE item = ?", item := room.take("ann")) != "check":
        with room.run.store.change() as db:
            answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=0), overlap=1)
    with room.run.store.change() as db:
        answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=0), overlap=1)
    label(room, [item], 1)
    with room.run.store.look() as db:
        assert labels_of_check_items(db) == {item: 1}
        assert item not in train_labels(db)


def test_look_alikes_of_check_items_cannot_be_labelled(room):
    item = room.pool()[9]
    with room.run.store.change() as db:
        db.execute("UPDATE item SET split = 'out' WHERE id = ?", (item,))
    with pytest.raises(ConflictError, match=f"item {item} looks like a check item, so it is never trained on"):
        label(room, [item])


def test_items_that_cannot_be_read_or_are_not_there_are_refused(room):
    item = room.pool()[9]
    with room.run.store.change() as db:
        db.execute("UPDATE item SET problem = 'torn' WHERE id = ?", (item,))
    with pytest.raises(ConflictError, match=f"item {item} cannot be read"):
        label(room, [item])
    with pytest.raises(ConflictError, match="the run has no item 99"):
        label(room, [99])


def test_what_somebody_else_has_or_answered_is_refused_with_their_answer(room):
    free, chosen = room.pool()[5], room.take("bo")
    label(room, [free], 0, desk=BO)
    with pytest.raises(ConflictError, match=f"item {free} was answered by somebody else") as error:
        label(room, [free])
    assert error.value.theirs == {"annotator": "bo", "class": 0, "unsure": None}
    while room.one("SELECT kind FROM task WHERE item = ?", chosen) != "train":
        with room.run.store.change() as db:
            answer(db, BO, room.request(), [chosen], Given(label=0), overlap=1)
        chosen = room.take("bo")
    with pytest.raises(ConflictError, match=f"item {chosen} was given to somebody else"):
        label(room, [chosen])


def test_two_people_may_label_what_one_found_where_two_are_wanted(make_room):
    room = make_room(10, annotators=2)
    label(room, [3], 0, overlap=2)
    assert room.rows("SELECT kind, state FROM task WHERE item = 3") == [("found", "done")]
    label(room, [3], 1, desk=BO, overlap=2)
    assert room.rows("SELECT annotator, class FROM answer ORDER BY annotator") == [("ann", 0), ("bo", 1)]
    with room.run.store.change() as db:
        undo(db, BO, room.request(), overlap=2)
    assert room.rows("SELECT annotator FROM answer") == [("ann",)]  # and the item stays found
    assert room.rows("SELECT kind FROM task") == [("found",)]
    check_whole(room)


def test_the_same_request_twice_is_stored_once(room):
    request = room.request()
    label(room, room.pool()[5:7], request=request)
    with pytest.raises(RepeatedError):
        label(room, room.pool()[5:7], request=request)
    assert room.one("SELECT count(*) FROM answer") == 2


def test_an_item_that_was_taken_back_and_chosen_since_is_answered_as_a_chosen_one(room):
    item = room.pool()[5]
    label(room, [item], 1)
    take_back(room)
    room.ask([item], number=2)
    take_back(room, again=True)
    assert room.rows("SELECT kind, state FROM task WHERE item = ?", item) == [("train", "done")]
    take_back(room)
    assert room.rows("SELECT kind, state FROM task WHERE item = ?", item) == [("train", "open")]
    check_whole(room)


@pytest.mark.parametrize(("seen", "shown"), [(True, "review"), (False, "none")])
def test_whether_the_models_opinion_stood_beside_is_noted(room, seen, shown):
    item = room.pool()[5]
    label(room, [item], 1, suggested={item: Suggested(0, 0.7)}, seen=seen)
    assert room.rows("SELECT suggestion, suggestion_prob, suggestion_shown FROM answer") == [(0, 0.7, shown)]


def test_answers_that_make_no_sense_are_refused(room):
    free = room.pool()[5]
    for items, number, text in (
        ([], 1, "expected each item once and at least one"),
        ([free, free], 1, "expected each item once"),
        ([free], 7, "there is no class 7"),
    ):
        with pytest.raises(InputError, match=text):
            label(room, items, number)


def test_repair_rebuilds_what_was_found_from_the_log(room):
    free = room.pool()[5:9]
    label(room, free, 1)
    with room.run.store.change() as db:
        db.execute("DELETE FROM answer")
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("DELETE FROM task WHERE kind = 'found'")
    before = room.run.folder
    assert examine(before)
    room.run.close()
    copy = shutil.copytree(before, before.with_name("copy"))
    said = repair(copy)
    assert any(text.startswith("Read all ") for text in said), said
    from askless.run import Run

    with Run.open(copy) as run, run.store.look() as db:
        rows = db.execute(
            "SELECT item, kind, picked_by, state FROM task WHERE kind <> 'check' AND round IS NULL ORDER BY item"
        )
        assert [tuple(row) for row in rows] == [(item, "found", "search", "done") for item in free]
        assert train_labels(db) == dict.fromkeys(free, 1)


@pytest.mark.parametrize(
    ("standing", "expected"),
    [
        (("pool", None, None, None, 0, 0), "label"),
        (("pool", None, "train", "open", 0, 0), "label"),
        (("pool", None, "train", "done", 1, 0), "theirs"),
        (("pool", None, "prior", "done", 1, 0), "theirs"),
        (("pool", None, "train", "done", 1, 1), "change"),
        (("check", None, "check", "done", 1, 1), "change"),
        (("check", None, "check", "open", 0, 0), "held_out"),
        (("reserve", None, None, None, 0, 0), "held_out"),
        (("out", None, None, None, 0, 0), "look_alike"),
        (("pool", "torn", None, None, 0, 0), "unreadable"),
    ],
)
def test_who_may_label_what(standing, expected):
    assert can(Standing(*standing), overlap=1) == expected
