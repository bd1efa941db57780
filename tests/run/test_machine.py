"""People, imports, clocks and restarts in any order: a state machine that looks for tables that contradict each other.

`check_invariants` says what must hold after every step. `ASKLESS_MACHINE_STEPS` sets the length of the slow walk.
"""

import os
import random
import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from askless.base.errors import InputError
from askless.run import Run
from askless.run.store import asking, store
from askless.run.store.answering import UNSURE, ConflictError, Given, Suggested, answer, mark_shown, skip, undo
from askless.run.store.asking import (
    Desk,
    Pick,
    ask_second,
    close_rounds,
    current_round,
    left_to_choose,
    next_item,
    plan,
    release,
    renew,
    reserve_items,
    take_batch,
)
from askless.run.store.chunks import Chunk
from askless.run.store.claims import accept_claimed
from askless.run.store.classes import add_class, all_classes, folded, is_shown, merge_class, rename_class
from askless.run.store.deciding import decide
from askless.run.store.extra import label_extra, label_found
from askless.run.store.importing import import_answers
from askless.run.store.labels import confirmed_labels, labels_of_check_items, settled_labels, train_labels
from askless.run.store.looks import COLOURS, choose_look
from askless.run.store.progress import progress_of
from askless.run.store.replay import CAN_BE_UNDONE, EXTRA, contradictions
from askless.run.store.rounds import ask_round, chosen_ahead, keep_ahead, lacks_reserve
from askless.run.store.store import RepeatedError

PEOPLE = ("ann", "bo", "carl", "dora")
NAMES = ("cat", "dog", "owl", "fox", "elk", "Fox", "bee", "emu", "Dog", "ant")
JUMPS = (-1e6, -4000.0, -1500.0, -700.0, -30.0, 1.0, 300.0, 599.0, 601.0, 1300.0, 4000.0, 1e6)
ITEMS, BUDGET = 20, 14
SCENE, SCENES = 16, 16  # steps in a scene at most, scenes in an example
WEIGHTS = {
    **{"label": 20, "answer_late": 4, "label_in_bulk": 3, "skip": 4, "change_an_answer": 6, "tell": 2},
    **{"accept": 5, "accept_claims": 3, "find": 5, "list": 3, "settle": 5, "ask_second": 5},
    **{"undo": 14, "redo": 10, "add": 4, "rename": 3, "merge": 6, "look": 4, "bring_in": 5, "ask": 5, "beat": 3},
    **{"jump": 5, "choose": 3, "choose_ahead": 6, "train_now": 1, "set_budget": 2, "lose_an_image": 0.3, "restart": 1},
}


# --- what must hold -------------------------------------------------------------------------------------------------------


def check_invariants(db, overlap):
    """What holds between any two transactions, read from the tables alone and not by the functions that keep it.

    Classes: merges lead without a circle to a class that is not merged; one that was taken back is not merged, has nothing
    merged into it and no labels; names of shown classes differ. So every answer is of a class that is shown.
    Counts: `class.labels`, `tally` and `task.answers` are what a recount gives; a task with all its answers is done, and so
    is one that nobody was asked.
    People: at most as many people as are to answer an item, or two for a second opinion, have answered it or hold it under a
    lease that was not ended, whatever the clock says.
    Training: sees shown classes and items of the pool only, never a check image.
    Budget: the chosen items, the second opinions and the planned check images do not exceed it; no more check images are
    asked than planned.
    Rounds: they are numbered in order; only the last may be ahead, and has items then. A program is asked nothing of it, and
    its labels wait.
    Undo: what a person may redo came after all that they may undo.
    """
    classes = {row["id"]: row for row in db.execute("SELECT * FROM class")}
    root = {}
    for number, row in classes.items():
        path = [number]
        while (into := classes[path[-1]]["merged_into"]) is not None:
            assert into not in path, f"classes are merged in a circle: {path}"
            path.append(into)
        root[number] = path[-1]
        assert row["merged_into"] is None or not row["hidden"], f"class {number} is merged, and was taken back"
    shown = {number for number in classes if root[number] == number and not classes[number]["hidden"]}
    assert set(root.values()) - shown == {number for number in classes if classes[number]["hidden"]}
    assert all(root[number] in shown for number in root if number != root[number]), "merged into a class not shown"
    assert len({folded(classes[number]["name"]) for number in shown}) == len(shown), "two classes have one name"

    answers = db.execute("SELECT item, annotator, class FROM answer").fetchall()
    labels = Counter(row["class"] for row in answers if row["class"] is not None)
    assert {root[number] for number in labels} <= shown, "labels of a class that is not shown"
    assert {number: row["labels"] for number, row in classes.items() if row["labels"]} == labels

    tasks = db.execute(
        "SELECT t.item, kind, round, state, answers, wanted, split, problem FROM task t JOIN item i ON i.id = t.item"
    ).fetchall()
    tally = {tuple(row)[:3]: row["n"] for row in db.execute("SELECT * FROM tally WHERE n <> 0")}
    assert tally == Counter((row["kind"], row["round"] or 0, row["state"]) for row in tasks)
    people = {row["item"]: set() for row in tasks}
    for row in answers:
        people[row["item"]].add(row["annotator"])
    for row in tasks:
        n = len(people[row["item"]])
        assert row["answers"] == n, f"item {row['item']} has {n} answers, not {row['answers']}"
        assert row["state"] == "done" or (n < overlap and row["kind"] in ("train", "check")), (
            f"{row['item']} is still open"
        )
        assert n or row["kind"] not in EXTRA, f"item {row['item']} was not asked, and has no answer"
        held = dict.fromkeys(("prior", *EXTRA), ("pool", "reserve"))
        assert row["split"] in {"train": ("pool",), "check": ("check",), **held}[row["kind"]]
    for item, who in db.execute("SELECT item, annotator FROM lease WHERE expires > 0"):
        people[item].add(who)
    second = {row["item"] for row in tasks if row["wanted"]}
    assert all(row["wanted"] in (0, 2) and row["kind"] != "check" for row in tasks if row["item"] in second)
    most = {item: max(overlap, 2 * (item in second)) for item in people}
    assert all(len(at_it) <= most[item] for item, at_it in people.items()), f"too many people on one item: {people}"

    trained = train_labels(db)
    not_trained = ("check", "accepted")
    assert trained.keys() <= {r["item"] for r in tasks if r["kind"] not in not_trained and r["split"] == "pool"}
    assert set(trained.values()) <= shown == {c.id for c in all_classes(db) if is_shown(c)}

    budget, planned = plan(db)
    kinds = Counter(row["kind"] for row in tasks if row["problem"] is None)
    assert kinds["check"] <= planned
    assert sum(row["kind"] == "train" for row in tasks) + planned + len(second) <= budget, (kinds, planned, budget)

    rounds = db.execute("SELECT id, state FROM round ORDER BY id").fetchall()
    assert [row["id"] for row in rounds] == list(range(1, len(rounds) + 1))
    assert all(row["state"] != "ahead" for row in rounds[:-1])
    ahead = {row["item"] for row in tasks if rounds and rounds[-1]["state"] == "ahead" and row["round"] == len(rounds)}
    assert current_round(db) == len(rounds) - bool(rounds and rounds[-1]["state"] == "ahead")
    assert set(reserve_items(db)) == {row["item"] for row in tasks if row["item"] in ahead and row["answers"] == 0}
    confirmed = confirmed_labels(db)
    assert confirmed.keys() <= {r["item"] for r in tasks if r["kind"] == "accepted" and r["split"] == "pool"}
    assert settled_labels(db) == {item: label for item, label in trained.items() if item not in ahead} | confirmed
    if (batch := progress_of(db).batch) is not None:
        assert batch.ahead <= bool(rounds and rounds[-1]["state"] == "ahead")
        assert batch.done <= batch.size <= budget

    stacks = db.execute(
        "SELECT min(iif(state = 'undone', seq, NULL)) AS redo, max(iif(state = 'done', seq, NULL)) AS undo "
        "FROM action GROUP BY annotator"
    )
    assert all(row["redo"] is None or row["undo"] is None or row["undo"] < row["redo"] for row in stacks)


def check_log(db, before):
    """The log only grows, each request is in it once, only a person's own actions are theirs to undo, and a replay of the
    log gives answers, classes and actions. The log, for the next time."""
    log = [tuple(row) for row in db.execute("SELECT * FROM event ORDER BY seq")]
    assert log[: len(before)] == before, "an event was changed"
    assert [row[0] for row in log] == list(range(1, len(log) + 1))
    assert len({row[1] for row in log}) == len(log)
    actions = db.execute("SELECT e.kind, e.annotator = a.annotator FROM action a JOIN event e USING (seq)")
    assert all(kind in CAN_BE_UNDONE and own for kind, own in actions)
    assert list(contradictions(db)) == []
    progress = progress_of(db)
    assert progress.spent == sum(
        row["kind"] in ("train", "check") for row in db.execute("SELECT kind FROM task WHERE state = 'done'")
    ) + sum(row["answers"] >= row["wanted"] for row in db.execute("SELECT answers, wanted FROM task WHERE wanted > 0"))
    assert labels_of_check_items(db).keys() <= {
        row[0] for row in db.execute("SELECT id FROM item WHERE split = 'check'")
    }
    return log


# --- the machine ----------------------------------------------------------------------------------------------------------


class Office(RuleBasedStateMachine):
    """Four people at one run. What a step refuses is refused; whatever else is raised fails the test.

    Hypothesis draws what is not done in an example, and scenes of a few steps by their seed and length: its own mutations
    repeat whole rules, which here would mostly be refused.
    """

    home = clock = tally = None  # of the class that `office` makes

    @initialize(overlap=st.sampled_from((1, 1, 2, 3)), without=st.sets(st.sampled_from(sorted(WEIGHTS)), max_size=6))
    def open_run(self, overlap, without):
        self.overlap, self.requests, self.steps, self.log = overlap, 0, 0, []
        self.weights = {name: weight for name, weight in WEIGHTS.items() if name not in without}
        self.folder = self.home / "run"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.home / f"of{overlap}", self.folder)
        self.clock.at = 1e9
        self.run = Run.open(self.folder)

    def teardown(self):
        if hasattr(self, "run"):
            with self.run.store.look() as db:
                check_log(db, self.log)
            self.run.close()

    @rule(seed=st.integers(0, 2**32 - 1), length=st.integers(1, SCENE))
    def scene(self, seed, length):
        self.rng = random.Random(f"{seed} {self.steps}")
        for name in self.rng.choices(list(self.weights), list(self.weights.values()), k=length):
            self.desk = Desk(self.rng.choice(PEOPLE), self.rng.choices(("tab", "other tab"), (7, 1))[0])
            note(f"{name} by {self.desk.annotator}")
            getattr(self, name)()

    def do(self, name, function, *args, **options):
        """One step; what it returned, or None where it was refused."""
        self.steps += 1
        self.tally["steps"] += 1
        result = None
        try:
            result = function(*args, **options)
            self.tally[name] += 1
        except (InputError, ConflictError, RepeatedError) as error:
            self.tally[f"{name}: {type(error).__name__}"] += 1
        with self.run.store.look() as db:
            check_invariants(db, self.overlap)
            if self.steps % 20 == 0:
                self.log = check_log(db, self.log)
        return result

    def change(self, name, function, *args, **options):
        """One step in one transaction."""

        def act():
            with self.run.store.change() as db:
                return function(db, *args, **options)

        return self.do(name, act)

    def request(self):
        """A new name, or now and then one that was used before."""
        self.requests += 1
        return f"request-{self.requests if self.rng.random() > 0.03 else self.rng.randrange(self.requests)}"

    def rows(self, query, *values):
        with self.run.store.look() as db:
            return [tuple(row) for row in db.execute(query, values)]

    def shown(self):
        with self.run.store.look() as db:
            return [c for c in all_classes(db) if is_shown(c)]

    def given(self):
        if self.rng.random() < 0.15:
            return Given(unsure=self.rng.choice(UNSURE))
        return Given(label=self.rng.choice(self.shown()).id)

    def item(self):
        return self.rng.randrange(ITEMS)

    # --- answers

    def label(self):
        given, peeks = self.given(), self.rng.random() < 0.2

        def act(db):
            item = next_item(db, self.desk, self.overlap)
            if item is not None and peeks:
                mark_shown(db, self.desk, item, "peek")
            answer(db, self.desk, self.request(), [self.item() if item is None else item], given, overlap=self.overlap)

        if not self.rows("SELECT 1 FROM task WHERE state = 'open' AND kind = 'train' LIMIT 1"):
            self.choose()
            self.choose_ahead()
        self.change("label", act)

    def answer_late(self):
        """An item that this person was given some time ago, or never."""
        held = self.rows("SELECT item, tab FROM lease WHERE annotator = ? ORDER BY item", self.desk.annotator)
        item, tab = self.rng.choice(held or [(self.item(), "tab")])
        desk = Desk(self.desk.annotator, tab)
        self.change("late", answer, desk, self.request(), [item], self.given(), overlap=self.overlap)

    def label_in_bulk(self):
        given, n = self.given(), self.rng.randrange(2, 5)

        def act(db):
            items = take_batch(db, self.desk, self.overlap, n) or [self.item()]
            answer(db, self.desk, self.request(), items, given, overlap=self.overlap)

        self.change("bulk", act)

    def skip(self):
        def act(db):
            item = next_item(db, self.desk, self.overlap)
            skip(db, self.desk, self.request(), self.item() if item is None else item, overlap=self.overlap)

        self.change("skip", act)

    def change_an_answer(self):
        mine = self.rows("SELECT item FROM answer WHERE annotator = ? ORDER BY item", self.desk.annotator)
        items = list(self.rng.choice(mine or [(self.item(),)]))
        options = {"overlap": self.overlap, "change": True}
        self.change("change", answer, self.desk, self.request(), items, self.given(), **options)

    def settle(self):
        """A decision, mostly on an item that has its answers."""
        done = self.rows("SELECT item FROM task WHERE state = 'done' ORDER BY item") or [(self.item(),)]
        given, (item,) = self.given(), self.rng.choice(done)
        self.change("settle", decide, self.request(), self.desk.annotator, item, given.label, given.unsure)

    def tell(self):
        """A program answers an item, whoever has it."""
        path = self.rng.choice(self.run.waiting() or ["0"])
        self.do("tell", self.run.tell, {path: self.rng.choice(self.shown()).name}, self.desk.annotator)

    # --- what nobody was asked for

    def extra(self):
        """A few items, of which some may be asked, labelled or held out, and a class for each."""
        numbers = [c.id for c in self.shown()]
        return {self.item(): self.rng.choice(numbers) for _ in range(self.rng.randrange(4))}

    def accept(self):
        labels, number, out = self.extra(), self.rng.choice(self.shown()).id, self.item()
        said = {item: Suggested(number, 0.9) for item in labels}
        chunk = Chunk(number, labels, [out] if out not in labels else [], len(labels), 0, 0.5)
        self.change("accept", label_extra, self.desk, self.request(), labels, "accepted", said, chunk)

    def accept_claims(self):
        self.change("accept_claims", accept_claimed, self.desk, self.request(), "gpt", 0.5, self.extra())

    def find(self):
        self.change("find", label_extra, self.desk, self.request(), self.extra(), "found")

    def list(self):
        items = sorted(self.extra())
        self.change("list", label_found, self.desk, self.request(), items, self.given(), overlap=self.overlap)

    # --- taking back

    def undo(self, name="undo", **options):
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            what = self.change(name, undo, self.desk, self.request(), overlap=self.overlap, **options)
            if what is not None:
                self.tally[f"{name} {what['kind']}{' refused' if 'refused' in what else ''}"] += 1

    def redo(self):
        able = self.rows("SELECT DISTINCT annotator FROM action WHERE state = 'undone' ORDER BY 1")
        self.desk = Desk(self.rng.choice(able or [(self.desk.annotator,)])[0], self.desk.tab)
        self.undo("redo", again=True)

    # --- classes

    def add(self):
        self.change("add", add_class, self.request(), self.desk.annotator, self.rng.choice(NAMES))

    def rename(self):
        number, name = self.rng.choice(self.shown()).id, self.rng.choice(NAMES)
        self.change("rename", rename_class, self.request(), self.desk.annotator, number, name)

    def merge(self):
        one, other = self.rng.choices(self.shown(), k=2)
        self.change("merge", merge_class, self.request(), self.desk.annotator, one.id, other.id)

    def look(self):
        look = self.rng.choice((None, *range(COLOURS))), self.rng.choice((None, "", "1", "2", "x", "y"))
        one = self.rng.choice(self.shown()).id
        self.change("look", choose_look, self.request(), self.desk.annotator, one, *look, {})

    # --- from elsewhere

    def bring_in(self):
        mine = self.rows("SELECT item FROM answer ORDER BY item") or [(ITEMS,)]  # the last one is not known
        item = self.rng.choice((self.item(), self.rng.choice(mine)[0]))
        given, who = [(str(item), self.rng.choice((*NAMES, "")))], self.rng.choice((*PEOPLE, "file"))
        options = {"overlap": self.overlap, "policy": self.rng.choice(("keep", "replace"))}
        self.change("import", import_answers, self.request(), who, given, **options)

    # --- leases and clocks

    def ask(self):
        self.change("ask", next_item, self.desk, self.overlap)

    def beat(self):
        self.change("beat", self.rng.choice((renew, release)), self.desk)

    def jump(self):
        def act():
            self.clock.at += self.rng.choice(JUMPS)

        self.do("jump", act)

    # --- the worker, the budget, the process

    def choose(self):
        """The next batch, as the worker puts it out: at times while one is open still."""

        def act(db):
            close_rounds(db)
            ask_round(db, current_round(db) + 1, self.picks(db), "random", 0.0, {})

        self.change("choose", act)

    def ask_second(self):
        """Second opinions on a few items, some of which are not labelled, or check items."""
        items, most = self.rng.sample(range(ITEMS), 6), self.rng.randrange(1, 6)
        self.tally["second"] += len(self.change("ask second", ask_second, items, most) or [])

    def choose_ahead(self):
        """What comes after it."""

        def act(db):
            if current_round(db) and lacks_reserve(db):
                keep_ahead(db, self.picks(db), "random", 0.0, {}, batch=3)
                self.tally["ahead"] += 1

        self.change("choose ahead", act)

    def picks(self, db):
        """Items that may be chosen, at times some that may not."""
        out = set(chosen_ahead(db).kept)
        free = db.execute("SELECT id FROM item WHERE split = 'pool' AND problem IS NULL ORDER BY id").fetchall()
        free = [row["id"] for row in free if row["id"] not in out or self.rng.random() < 0.1]
        n = min(len(free), left_to_choose(db), self.rng.randrange(1, 6))
        return [Pick(item, "drawn at random", None) for item in self.rng.sample(free, n)]

    def train_now(self):
        self.do("train now", self.run.train_now, self.request(), self.desk.annotator)

    def set_budget(self):
        budget = self.rng.randrange(1, ITEMS + 2)
        self.do("budget", self.run.set_budget, self.request(), self.desk.annotator, budget)

    def lose_an_image(self):
        self.do("unreadable", self.run.mark_unreadable, self.item(), "damaged")

    def restart(self):
        def act():
            self.run.close()
            self.run = Run.open(self.folder)

        self.do("restart", act)


@pytest.fixture
def office(tmp_path, monkeypatch):
    """`office(n)`: at least n steps by people at small runs that are never synced; what was done how often."""
    source = tmp_path / "rows.npz"
    np.savez(source, X=np.random.default_rng(0).normal(size=(ITEMS, 4)).astype(np.float32))
    for overlap in (1, 2, 3):
        options = {"classes": NAMES[:3], "budget": BUDGET, "check": 0.2, "annotators": overlap}
        Run.create(source, tmp_path / f"of{overlap}", **options).close()
    clock, connect = SimpleNamespace(at=0.0), store.connect
    monkeypatch.setattr(store, "connect", lambda path, journal, sync: connect(path, journal, "OFF"))
    monkeypatch.setattr(asking, "time", SimpleNamespace(time=lambda: clock.at))
    monkeypatch.setattr(Run, "write_views", lambda run: None)

    def walk(steps):
        tally = Counter()
        while tally["steps"] < steps:  # lengths are drawn; under another name, hypothesis draws others
            machine = type(f"Office{tally['steps']}", (Office,), {"home": tmp_path, "clock": clock, "tally": tally})
            examples = 1 + (steps - tally["steps"]) // (SCENES * SCENE // 2)
            run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=SCENES))
        return tally

    return walk


def test_no_order_of_steps_breaks_an_invariant(office):
    tally = office(10_000)
    assert tally["steps"] >= 10_000
    kinds = {f"undo {kind}" for kind in CAN_BE_UNDONE} | {f"redo {kind}" for kind in CAN_BE_UNDONE}
    refused = {
        "undo label refused",
        "undo class_add refused",
    }  # those of names and merges are rare: store/test_classes.py
    assert (
        kinds | refused | {"import", "late", "tell", "jump", "restart", "train now", "budget", "ahead", "second"}
        <= tally.keys()
    ), tally


@pytest.mark.slow
def test_no_order_of_many_steps_breaks_an_invariant(office):
    tally = office(int(os.environ.get("ASKLESS_MACHINE_STEPS", "100000")))
    print(f"state machine: {tally['steps']:,} steps, 0 broken invariants")
