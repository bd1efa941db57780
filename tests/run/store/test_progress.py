"""What is counted as it changes, against counting."""

import pytest

from askless.base.errors import InputError
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk, plan
from askless.run.store.classes import merge_class
from askless.run.store.importing import import_answers
from askless.run.store.progress import classes_with_counts, progress_of


def check(room):
    kept = room.rows("SELECT kind, round, state, n FROM tally WHERE n <> 0 ORDER BY 1, 2, 3")
    assert kept == room.rows("SELECT kind, coalesce(round, 0), state, count(*) FROM task GROUP BY 1, 2, 3")
    kept = room.rows("SELECT id, labels FROM class WHERE labels <> 0 ORDER BY 1")
    assert kept == room.rows("SELECT class, count(*) FROM answer WHERE class IS NOT NULL GROUP BY 1")


def test_counts_follow_imports_merges_budgets_and_withdrawals(make_room):
    room = make_room(60, check=0.2, budget=40)
    room.ask(room.pool()[:10])
    given = [(str(i), ("cat", "dog", "fox")[i % 3]) for i in range(0, 60, 4)]
    for policy in ("keep", "replace"):
        with room.run.store.change() as db:
            import_answers(db, room.request(), f"file-{policy}", given, overlap=1, policy=policy)
        check(room)
    with room.run.store.change() as db:
        merge_class(db, room.request(), "ann", 1, 0)
    with room.run.store.look() as db:
        counts = {c.name: c.count for c in progress_of(db).classes}
    assert counts == {"cat": 10, "dog": 0, "fox": 5}
    for budget in (50, 30):
        room.run.set_budget(room.request(), "ann", budget)
        check(room)
    room.run.mark_unreadable(room.one("SELECT item FROM task WHERE state = 'open' AND kind = 'check'"), "gone")
    check(room)
    room.run.train_now(room.request(), "ann")
    check(room)
    with room.run.store.look() as db:
        assert progress_of(db).batch.size == room.one("SELECT count(*) FROM task WHERE round = 1")


def test_a_budget_covers_check_items_that_only_one_of_two_people_has_answered(make_room):
    """They cannot go back into the reserve."""
    room = make_room(40, annotators=2, budget=20, check=0.2)
    for _ in range(3):
        item = room.take("ann")
        with room.run.store.change() as db:
            answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=0), overlap=2)
    with pytest.raises(InputError, match="below the 3 rows already labelled or chosen"):
        room.run.set_budget(room.request(), "ann", 2)
    room.run.set_budget(room.request(), "ann", 3)
    with room.run.store.look() as db:
        assert plan(db) == (3, 3)


def test_a_class_says_which_class_it_stands_for_through_several_merges(make_room):
    room = make_room(classes=("cat", "dog", "owl"))
    with room.run.store.change() as db:
        merge_class(db, room.request(), "ann", 0, 1)
        merge_class(db, room.request(), "bo", 1, 2)
        assert [c.merged_into for c in classes_with_counts(db)] == [2, 2, None]
