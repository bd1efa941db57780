"""The log of events and the tables say the same, whatever people do."""

import contextlib
import random
from collections import Counter

import pytest

from askless.errors import InputError
from askless.project import Run, facts
from askless.project.answering import UNSURE, ConflictError, Given, answer, skip, undo
from askless.project.asking import Desk, next_item, release, renew, take_batch
from askless.project.classes import add_class, all_classes, is_shown, merge_class, rename_class
from askless.project.importing import import_answers
from askless.project.replay import replay, stored
from askless.project.store import RepeatedError


class Walk:
    """People who do things at random, some of them impossible."""

    def __init__(self, room, seed, overlap):
        self.room, self.overlap, self.rng = room, overlap, random.Random(seed)
        self.desks = [Desk(name, f"{name}-{tab}") for name in ("ann", "bo", "carl") for tab in (1, 2)]
        self.requests, self.done, self.refused = [], Counter(), Counter()
        self.rounds, self.free = 1, room.pool()
        self.next_round()

    def next_round(self):
        asked = {
            i for (i,) in self.room.rows("SELECT item FROM task UNION SELECT id FROM item WHERE problem IS NOT NULL")
        }
        self.free = [item for item in self.free if item not in asked]
        if self.free:
            batch, self.free = self.free[:8], self.free[8:]
            self.room.ask(batch, self.rounds)
            self.rounds += 1

    def request(self):
        """A new name, or now and then one that was used before."""
        if self.requests and self.rng.random() < 0.05:
            return self.rng.choice(self.requests)
        self.requests.append(self.room.request())
        return self.requests[-1]

    def shown(self, db):
        return [c.id for c in all_classes(db) if is_shown(c)]

    def given(self, db):
        if self.rng.random() < 0.2:
            return Given(unsure=self.rng.choice(UNSURE))
        return Given(label=self.rng.choice(self.shown(db)), seconds=1.0)

    def step(self):
        act = self.rng.choices(
            ("label", "bulk", "skip", "change", "undo", "redo", "add", "rename", "merge", "import", "lease", "renew"),
            (30, 4, 6, 8, 18, 10, 3, 3, 1, 2, 5, 5),
        )[0]
        desk = self.rng.choice(self.desks)
        try:
            with self.room.run.store.change() as db:
                getattr(self, f"do_{act}")(db, desk)
            self.done[act] += 1
        except (ConflictError, InputError, RepeatedError) as error:
            self.refused[type(error).__name__] += 1
        if self.rng.random() < 0.02:
            self.room.run.train_now(self.room.request(), desk.annotator)
        if self.rng.random() < 0.03:
            with contextlib.suppress(InputError):  # below what is labelled already
                self.room.run.set_budget(self.room.request(), desk.annotator, self.rng.randrange(10, 60))
        if self.rng.random() < 0.01:
            self.room.run.mark_unreadable(self.rng.randrange(60), "damaged")
        if self.room.one("SELECT count(*) FROM task WHERE state = 'open' AND kind = 'train'") == 0:
            self.next_round()
        if self.rng.random() < 0.03:
            self.room.run.close()
            self.room.run = Run.open(self.room.run.folder)

    def do_label(self, db, desk):
        item = next_item(db, desk, self.overlap)
        if item is not None:
            answer(db, desk, self.request(), [item], self.given(db), overlap=self.overlap)

    def do_bulk(self, db, desk):
        items = take_batch(db, desk, self.overlap, 5)
        chosen = self.rng.sample(items, min(3, len(items)))
        if self.rng.random() < 0.2:
            chosen.append(self.rng.randrange(60))  # one that is perhaps not theirs
        answer(db, desk, self.request(), chosen, self.given(db), overlap=self.overlap)

    def do_skip(self, db, desk):
        item = next_item(db, desk, self.overlap)
        if item is not None:
            skip(db, desk, self.request(), item, overlap=self.overlap)

    def do_change(self, db, desk):
        mine = [row[0] for row in db.execute("SELECT item FROM answer WHERE annotator = ?", (desk.annotator,))]
        items = self.rng.sample(mine, min(len(mine), self.rng.choice((1, 1, 2))))
        answer(db, desk, self.request(), items, self.given(db), overlap=self.overlap, change=True)

    def do_undo(self, db, desk):
        undo(db, desk, self.request(), overlap=self.overlap)

    def do_redo(self, db, desk):
        undo(db, desk, self.request(), overlap=self.overlap, again=True)

    def do_add(self, db, desk):
        add_class(db, self.request(), desk.annotator, f"class {self.rng.randrange(6)}")

    def do_rename(self, db, desk):
        number = self.rng.randrange(8)
        rename_class(db, self.request(), desk.annotator, number, f"name {self.rng.randrange(20)}")

    def do_merge(self, db, desk):
        merge_class(db, self.request(), desk.annotator, self.rng.randrange(6), self.rng.randrange(6))

    def do_import(self, db, desk):
        given = [(f"{self.rng.randrange(70)}", self.rng.choice(("cat", "dog", "", "imported"))) for _ in range(4)]
        policy = self.rng.choice(("keep", "replace"))
        name = self.rng.choice((desk.annotator, "import"))
        import_answers(db, self.request(), name, given, overlap=self.overlap, policy=policy)

    def do_lease(self, db, desk):
        if self.rng.random() < 0.5:
            release(db, desk)
        else:
            db.execute("UPDATE lease SET expires = 0 WHERE annotator = ?", (desk.annotator,))

    def do_renew(self, db, desk):
        renew(db, desk)
        next_item(db, desk, self.overlap)


def ever_answered(db):
    rows = db.execute(
        "SELECT value FROM event, json_each(payload, '$.items') WHERE kind IN ('label', 'unsure', 'import')"
    )
    return {row[0] for row in rows}


def check(walk):
    """What must hold at all times."""
    with walk.room.run.store.look() as db:
        assert replay(db) == stored(db)
        for item, kind, state, n, counted in db.execute(
            "SELECT t.item, t.kind, t.state, t.answers, (SELECT count(*) FROM answer a WHERE a.item = t.item) FROM task t"
        ):
            assert n == counted, (item, kind, state)
            if kind == "prior" or n >= walk.overlap:
                assert state == "done", (item, kind, n)
        held = "SELECT item FROM lease WHERE expires > unixepoch('subsec')"
        if walk.overlap == 1:
            twice = db.execute(
                f"SELECT item, count(*) FROM lease l WHERE item IN ({held}) AND expires > unixepoch('subsec') "
                "AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.item = l.item) GROUP BY item HAVING count(*) > 1"
            ).fetchall()
            assert twice == [], [tuple(row) for row in twice]
        too_many = db.execute(
            "SELECT item, count(DISTINCT annotator) FROM answer WHERE item NOT IN "
            "(SELECT value FROM event, json_each(payload, '$.items') WHERE kind = 'import') "
            "GROUP BY item HAVING count(DISTINCT annotator) > ?",
            (walk.overlap,),
        ).fetchall()
        assert too_many == []
        progress = facts.progress(db)
        assert progress["spent"] == progress["check"]["done"] + progress["train"]["done"]
        done = db.execute("SELECT count(*) FROM task WHERE state = 'done' AND kind <> 'prior'").fetchone()[0]
        assert progress["spent"] == done
        if progress["batch"] is not None:
            number, size, n = progress["batch"]["round"], progress["batch"]["size"], progress["batch"]["done"]
            rows = db.execute("SELECT state FROM task WHERE round = ?", (number,)).fetchall()
            assert (size, n) == (len(rows), sum(row["state"] == "done" for row in rows))
        counts = sum(c["count"] for c in progress["classes"])
        assert counts == db.execute("SELECT count(*) FROM answer WHERE class IS NOT NULL").fetchone()[0]
        assert set(facts.train_labels(db).values()) <= set(walk.shown(db))  # else nothing could be trained
        named = Counter(c.name.casefold() for c in all_classes(db) if is_shown(c))
        assert max(named.values()) == 1
        for item, kind, split, problem, n in db.execute(
            "SELECT t.item, t.kind, i.split, i.problem, t.answers FROM task t JOIN item i ON i.id = t.item"
        ):
            assert split in {"train": ("pool",), "check": ("check",), "prior": ("pool", "reserve")}[kind], (item, kind)
            assert problem is None or n > 0 or item in ever_answered(db), (item, kind)
        budget, planned = facts.plan(db)
        checks = db.execute(
            "SELECT count(*) FROM task t JOIN item i ON i.id = t.item WHERE kind = 'check' AND problem IS NULL"
        ).fetchone()[0]
        assert checks <= planned <= budget
        requests = [row[0] for row in db.execute("SELECT request_id FROM event")]
        assert len(requests) == len(set(requests))


@pytest.mark.parametrize(("seed", "overlap"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_the_log_says_what_the_tables_say(make_room, seed, overlap):
    room = make_room(60, budget=40, check=0.2, annotators=overlap)
    walk = Walk(room, seed, overlap)
    for _ in range(100):
        for _ in range(3):
            walk.step()
        check(walk)
    assert walk.done.total() > 200, walk.refused
    assert min(walk.done[act] for act in ("label", "bulk", "skip", "change", "undo", "redo", "add", "import")) > 0
    room.run.write_views()  # labels.csv can be written of it


def test_an_import_that_replaces_leaves_only_the_imported_answers(make_room):
    room = make_room()
    room.ask([0, 1])
    item = room.take("ann")
    with room.run.store.change() as db:
        answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=0), overlap=1)
        import_answers(db, room.request(), "bo", [("0", "dog")], overlap=1, policy="replace")
        assert stored(db) == {(0, "bo"): (1, None)}
        assert replay(db) == stored(db)
