"""Rounds that are chosen ahead, on tasks given by hand."""

import pytest

from askless.run.store.answering import Given, answer
from askless.run.store.asking import (
    Desk,
    Pick,
    current_round,
    is_batch_open,
    left_to_choose,
    open_tasks,
    take_batch,
    upcoming,
)
from askless.run.store.labels import settled_labels, train_labels
from askless.run.store.progress import CurrentBatch, progress_of
from askless.run.store.replay import contradictions
from askless.run.store.rounds import ask_round, keep_ahead, lacks_reserve


def picks(items):
    return [Pick(item, "by hand", None) for item in items]


@pytest.fixture
def room(make_room):
    """Twelve rows, of which 0 to 2 are asked and 3 to 6 chosen ahead."""
    room = make_room(12, budget=10)
    with room.run.store.change() as db:
        ask_round(db, 1, picks([0, 1, 2]), "margin", 0.1, {})
        assert lacks_reserve(db)
        assert keep_ahead(db, picks([3, 4, 5, 6]), "margin", 0.2, {}, batch=3) == 4
        assert not lacks_reserve(db)
    return room


def label(room, who="ann"):
    item = room.take(who)
    with room.run.store.change() as db:
        answer(db, Desk(who, f"{who}-tab"), room.request(), [item], Given(label=item % 2), overlap=1)
    return item


def batch(room):
    with room.run.store.look() as db:
        return progress_of(db).batch


def rounds(room):
    return room.rows("SELECT id, state FROM round ORDER BY id")


def asked_in(room, number):
    return [item for (item,) in room.rows("SELECT item FROM task WHERE round = ? ORDER BY rank", number)]


def test_what_is_chosen_ahead_comes_when_the_batch_is_used_up_and_the_header_moves_on(room):
    assert batch(room) == CurrentBatch(1, 0, 3)
    assert [label(room) for _ in range(3)] == [0, 1, 2]
    assert batch(room) == CurrentBatch(2, 0, 3, ahead=True)
    assert [label(room) for _ in range(2)] == [3, 4]
    assert batch(room) == CurrentBatch(2, 2, 4, ahead=True)  # half a batch, two items, is for the new model to choose


def test_programs_are_not_asked_what_is_chosen_ahead(room):
    assert room.run.waiting() == ["0", "1", "2"]
    for _ in range(3):
        label(room)
    assert room.run.waiting() == []
    with room.run.store.look() as db:
        assert not is_batch_open(db)
        assert open_tasks(db) == []
        assert current_round(db) == 1


def test_the_reserve_costs_nothing_until_it_is_answered(room):
    with room.run.store.look() as db:
        assert left_to_choose(db) == 7
    for _ in range(5):
        label(room)
    with room.run.store.look() as db:
        assert left_to_choose(db) == 5
        assert train_labels(db).keys() == {0, 1, 2, 3, 4}
        assert settled_labels(db).keys() == {0, 1, 2}


def test_a_model_that_is_ready_keeps_what_was_answered_or_is_on_a_screen(room):
    for _ in range(4):
        label(room)
    assert room.take("bo") == 4
    with room.run.store.change() as db:
        assert ask_round(db, 2, picks([9, 5, 3]), "margin", 0.3, {}) == 4
        assert left_to_choose(db) == 3
    assert asked_in(room, 2) == [3, 4, 9, 5]  # 3 was answered while the model chose, and is not asked twice
    assert asked_in(room, 3) == [6]  # what nobody saw is the next reserve, until there is a newer one
    assert rounds(room) == [(1, "asking"), (2, "asking"), (3, "ahead")]
    assert batch(room) == CurrentBatch(2, 1, 4)
    with room.run.store.change() as db:
        assert lacks_reserve(db)
        assert keep_ahead(db, picks([7, 8, 10, 11]), "margin", 0.3, {}, batch=3) == 3  # the budget has no more
        assert list(contradictions(db)) == []
    assert asked_in(room, 3) == [7, 8, 10]


def test_a_batch_is_asked_even_when_the_budget_leaves_only_what_was_answered_ahead(room):
    for _ in range(7):
        label(room)
    room.run.set_budget(room.request(), "ann", 7)
    assert batch(room) == CurrentBatch(2, 4, 4, ahead=True)
    with room.run.store.change() as db:
        assert ask_round(db, 2, [], "margin", 0.3, {}) == 4
    assert rounds(room) == [(1, "asking"), (2, "asking")]


def test_a_smaller_budget_withdraws_from_the_reserve_first(room):
    room.run.set_budget(room.request(), "ann", 5)
    assert asked_in(room, 1) == [0, 1, 2]
    assert asked_in(room, 2) == [3, 4]
    room.run.set_budget(room.request(), "ann", 3)
    assert asked_in(room, 2) == []


def test_train_now_withdraws_the_batch_and_leaves_what_was_chosen_ahead(room):
    label(room)
    assert room.run.train_now(room.request(), "ann") == 2
    assert label(room) == 3


def test_a_skipped_image_comes_after_another_one_and_before_the_reserve(room):
    from askless.run.store.answering import skip

    assert [label(room) for _ in range(2)] == [0, 1]
    assert room.take("ann") == 2
    with room.run.store.change() as db:
        skip(db, Desk("ann", "ann-tab"), room.request(), 2, overlap=1)
    assert label(room) == 3
    assert label(room) == 2


def test_the_grid_and_the_preloading_take_the_batch_before_what_is_chosen_ahead(room):
    with room.run.store.lend() as db:
        assert upcoming(db, 0, 1e12, 3) == [1, 2, 3]
        assert take_batch(db, Desk("ann", "ann-tab"), 1, 10) == [0, 1, 2]
        assert take_batch(db, Desk("bo", "bo-tab"), 1, 3) == [3, 4, 5]
        assert take_batch(db, Desk("bo", "bo-tab"), 1, 10) == [3, 4, 5, 6]


def test_what_is_withdrawn_or_lost_of_the_reserve_leaves_no_round_without_items(room):
    for item in (3, 4, 5, 6):
        room.run.mark_unreadable(item, "gone")
    for _ in range(3):
        label(room)
    with room.run.store.change() as db:
        assert ask_round(db, 2, [], "margin", 0.3, {}) == 0
    assert rounds(room) == [(1, "asking")]
