"""What a person settles an item on: it counts while the answers are those that it was made on, and can be undone."""

import sqlite3

import pytest

from askless.base.errors import InputError
from askless.run.out.answers import LabelRow, import_into, read_answers
from askless.run.store.answering import Given, answer, undo
from askless.run.store.asking import Desk
from askless.run.store.classes import add_class, merge_class
from askless.run.store.deciding import Decision, decide, decisions
from askless.run.store.extra import label_found
from askless.run.store.labels import agreed, kept_items, train_labels
from askless.run.store.repair import examine, repair
from askless.run.store.replay import contradictions
from askless.run.store.store import RepeatedError

CAT, DOG, OWL = 0, 1, 2
DORA = Desk("dora", "tab")


class Pair:
    """A run that two people answer, of which `ask` gives items and what each of them says."""

    def __init__(self, room):
        self.room = room

    def ask(self, *said, number=1):
        first = len(self.room.rows("SELECT 1 FROM task"))
        self.room.ask(list(range(first, first + len(said))), number)
        for place, name in enumerate(("ann", "bo")):
            for both in said:
                item = self.room.take(name)
                given = Given(unsure=both[place]) if isinstance(both[place], str) else Given(label=both[place])
                self.change(answer, Desk(name, f"{name}-tab"), [item], given)

    def change(self, act, desk, *args, **options):
        with self.room.run.store.change() as db:
            return act(db, desk, self.room.request(), *args, overlap=self.room.run.settings.annotators, **options)

    def decide(self, item, label, unsure=None, request=None):
        with self.room.run.store.change() as db:
            decide(db, request or self.room.request(), "dora", item, label, unsure)

    def undo(self, again=False):
        return self.change(undo, DORA, again=again)

    def look(self, function, *args):
        with self.room.run.store.look() as db:
            assert list(contradictions(db)) == []
            return function(db, *args)

    def agreed(self):
        return {a.item: (a.label, a.conflict, a.differ) for a in self.look(agreed)}


@pytest.fixture
def pair(make_room):
    made = Pair(make_room(annotators=2, classes=("cat", "dog", "owl")))
    made.ask((CAT, DOG), (CAT, CAT), (CAT, "quality"))
    return made


def test_a_decision_is_what_counts_and_the_answers_stay(pair):
    before = pair.room.rows("SELECT * FROM answer")
    assert pair.agreed() == {0: (None, True, True), 1: (CAT, False, False), 2: (None, True, True)}
    pair.decide(0, OWL)
    pair.decide(2, None, "ambiguous")
    assert pair.agreed() == {0: (OWL, False, False), 1: (CAT, False, False), 2: (None, False, False)}
    assert pair.look(train_labels) == {0: OWL, 1: CAT}
    assert pair.room.rows("SELECT * FROM answer") == before
    found = pair.look(decisions)
    assert found[0] == Decision("dora", OWL, None, found[0].at)
    assert pair.look(kept_items) == {0, 2}


def test_of_three_people_a_majority_counts_until_somebody_decides(make_room):
    pair = Pair(make_room(annotators=3, classes=("cat", "dog", "owl")))
    pair.ask((CAT, CAT))
    with pytest.raises(InputError, match="all its answers"):
        pair.decide(0, DOG)
    pair.change(answer, Desk("cy", "cy-tab"), [pair.room.take("cy")], Given(label=DOG))
    assert pair.agreed() == {0: (CAT, False, True)}
    pair.decide(0, DOG)
    assert pair.agreed() == {0: (DOG, False, False)}


def test_a_decision_is_undone_and_redone_in_one_step(pair):
    pair.decide(0, CAT)
    pair.decide(0, DOG)
    assert pair.undo()["items"] == [0]
    assert pair.agreed()[0] == (CAT, False, False)
    pair.undo()
    assert pair.agreed()[0] == (None, True, True)
    pair.undo(again=True)
    pair.undo(again=True)
    assert pair.agreed()[0] == (DOG, False, False)


def test_an_undo_is_refused_where_somebody_decided_again_since(pair):
    pair.decide(0, CAT)
    with pair.room.run.store.change() as db:
        decide(db, "request-of-bo", "bo", 0, DOG)
    assert pair.undo()["refused"] == "item 0 has since been decided again"
    assert pair.agreed()[0] == (DOG, False, False)


def test_a_changed_answer_opens_the_question_again_until_the_change_is_undone(pair):
    pair.decide(0, CAT)
    bo = Desk("bo", "bo-tab")
    pair.change(answer, bo, [0], Given(label=OWL), change=True)
    assert pair.agreed()[0] == (None, True, True)
    pair.change(undo, bo)
    assert pair.agreed()[0] == (CAT, False, False)


def test_a_lone_label_of_a_check_item_is_not_overruled(make_room):
    pair = Pair(make_room(annotators=2, classes=("cat", "dog", "owl"), check=0.2))
    same, split = (pair.room.take("ann"), None)
    for name in ("ann", "bo"):
        while (item := pair.room.take(name)) is not None:
            label = DOG if name == "bo" and item != same else CAT
            pair.change(answer, Desk(name, f"{name}-tab"), [item], Given(label=label))
            split = item if item != same else split
    with pytest.raises(InputError, match="only if people disagree"):
        pair.decide(same, DOG)
    pair.decide(split, DOG)
    assert pair.agreed()[split] == (DOG, False, False)


def test_what_waits_to_measure_is_not_overruled_either(make_room):
    """Else a decision would hold again once the item is drawn, and answered as before."""
    room = make_room(40, budget=20, check=0.2)
    item = room.one("SELECT id FROM item WHERE split = 'reserve' LIMIT 1")
    with room.run.store.change() as db:
        label_found(db, Desk("ann", "tab"), "request-found", [item], Given(label=CAT), overlap=1)
    with pytest.raises(InputError, match="only if people disagree"):
        Pair(room).decide(item, DOG)


def test_an_import_brings_decisions_where_the_answers_are_those_of_the_file(pair, make_room):
    pair.decide(0, OWL)
    pair.decide(2, None, "ambiguous")
    pair.room.run.write_views()
    rows = read_answers(pair.room.run.folder / "labels.csv")
    other, changed = (Pair(make_room(annotators=2, classes=("cat", "dog"))) for _ in range(2))
    for _ in range(2):  # the second time all of it is known
        import_into(other.room.run, rows, "file", "keep", add_classes=True)
        found = other.look(decisions)
        assert {item: (one.annotator, one.label) for item, one in found.items()} == {
            0: ("dora", OWL),
            2: ("dora", None),
        }
    assert other.room.one("SELECT count(*) FROM event WHERE kind = 'decide'") == 2
    assert other.agreed() == pair.agreed()

    import_into(changed.room.run, [LabelRow("0", "cat", annotator="bo")], "file", "keep")
    import_into(changed.room.run, rows, "file", "keep", add_classes=True)
    assert changed.look(decisions).keys() == {2}
    with pytest.raises(InputError, match=r"got 'owl' \(2\)"):
        import_into(make_room(annotators=2).run, rows, "file", "keep")


def test_a_class_that_is_decided_on_is_not_taken_back_and_a_merged_one_counts(pair):
    with pair.room.run.store.change() as db:
        fox = add_class(db, "request-fox", "ann", "fox")
    pair.decide(0, fox)
    assert "now has 1 labels" in pair.change(undo, Desk("ann", "ann-tab"))["refused"]
    with pair.room.run.store.change() as db:
        merge_class(db, "request-merge", "ann", fox, OWL)
    assert pair.agreed()[0] == (OWL, False, False)


def test_a_class_comes_back_with_the_decision_that_is_redone(pair):
    with pair.room.run.store.change() as db:
        fox = add_class(db, "request-fox", "ann", "fox")
    pair.decide(0, fox)
    pair.undo()
    pair.change(undo, Desk("ann", "ann-tab"))
    pair.undo(again=True)
    assert pair.agreed()[0] == (fox, False, False)


def test_only_what_was_answered_is_decided_on_a_class_that_is_there_and_once_for_a_request(pair):
    for item, label, match in ((9, CAT, "all its answers"), (0, 7, "there is no class 7")):
        with pytest.raises(InputError, match=match):
            pair.decide(item, label)
    pair.decide(0, CAT, request="request-once")
    with pytest.raises(RepeatedError):
        pair.decide(0, CAT, request="request-once")


def test_a_repair_keeps_decisions(pair):
    pair.decide(0, OWL)
    folder = pair.room.run.folder
    pair.room.run.close()
    assert examine(folder) == []

    with sqlite3.connect(folder / "state.sqlite") as db:
        db.execute("DELETE FROM decision")
    db.close()
    assert examine(folder) == ["1 decisions differ from the event log"]
    repair(folder)
    assert examine(folder) == []
    pair.room.run = type(pair.room.run).open(folder)
    assert pair.agreed()[0] == (OWL, False, False)
