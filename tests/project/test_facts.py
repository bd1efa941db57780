"""What is counted as it changes, against counting."""

import numpy as np

from askless.project import facts
from askless.project.answering import Given, answer, skip, undo
from askless.project.asking import Desk
from askless.project.classes import merge_class
from askless.project.importing import import_answers


def check(room):
    kept = room.rows("SELECT kind, round, state, n FROM tally WHERE n <> 0 ORDER BY 1, 2, 3")
    assert kept == room.rows("SELECT kind, coalesce(round, 0), state, count(*) FROM task GROUP BY 1, 2, 3")
    kept = room.rows("SELECT id, labels FROM class WHERE labels <> 0 ORDER BY 1")
    assert kept == room.rows("SELECT class, count(*) FROM answer WHERE class IS NOT NULL GROUP BY 1")


def test_counts_follow_whatever_is_done(make_room):
    room = make_room(60, check=0.2, budget=40)
    room.ask(room.pool()[:20])
    check(room)
    rng = np.random.default_rng(0)
    desks = [Desk(name, f"{name}-tab") for name in ("ann", "bo")]
    for step in range(300):
        desk = desks[step % 2]
        kind = rng.choice(["label", "label", "label", "unsure", "skip", "undo", "undo", "redo", "change"])
        if kind in ("undo", "redo"):
            with room.run.store.change() as db:
                undo(db, desk, room.request(), overlap=1, again=kind == "redo")
        elif kind == "change":
            own = room.rows("SELECT item FROM answer WHERE annotator = ?", desk.annotator)
            if own:
                given = Given(label=int(rng.integers(2)))
                with room.run.store.change() as db:
                    answer(db, desk, room.request(), [own[0][0]], given, overlap=1, change=True)
        elif (item := room.take(desk.annotator)) is not None:
            with room.run.store.change() as db:
                if kind == "skip":
                    skip(db, desk, room.request(), item, overlap=1)
                else:
                    given = Given(label=int(rng.integers(2))) if kind == "label" else Given(unsure="quality")
                    answer(db, desk, room.request(), [item], given, overlap=1)
        check(room)


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
        counts = {c["name"]: c["count"] for c in facts.progress(db)["classes"]}
    assert counts == {"cat": 10, "dog": 0, "fox": 5}
    for budget in (50, 30):
        room.run.set_budget(room.request(), "ann", budget)
        check(room)
    room.run.mark_unreadable(room.one("SELECT item FROM task WHERE state = 'open' AND kind = 'check'"), "gone")
    check(room)
    room.run.train_now(room.request(), "ann")
    check(room)
    with room.run.store.look() as db:
        assert facts.progress(db)["batch"]["size"] == room.one("SELECT count(*) FROM task WHERE round = 1")
