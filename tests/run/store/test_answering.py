import json

import pytest

from askless.base.errors import InputError
from askless.run import Run
from askless.run.store.answering import ConflictError, Given, Suggested, answer, mark_shown, skip, undo
from askless.run.store.asking import Desk, take_batch
from askless.run.store.classes import add_class, merge_class, rename_class
from askless.run.store.labels import agreed, train_labels
from askless.run.store.progress import progress_of
from askless.run.store.store import RepeatedError


class Person:
    """Somebody with one tab."""

    def __init__(self, room, name="ann"):
        self.room, self.name, self.desk = room, name, Desk(name, f"{name}-tab")

    def change(self, act, *args, request=None, **options):
        with self.room.run.store.change() as db:
            overlap = self.room.run.settings.annotators
            return act(db, self.desk, request or self.room.request(), *args, overlap=overlap, **options)

    def classes(self, act, *args, request=None):
        with self.room.run.store.change() as db:
            return act(db, request or self.room.request(), self.name, *args)

    def label(self, number=0, **options):
        """Takes the next item and labels it."""
        item = self.room.take(self.name)
        self.change(answer, [item], Given(label=number), **options)
        return item

    def undo(self, **options):
        return self.change(undo, **options)

    def redo(self, **options):
        return self.change(undo, again=True, **options)


@pytest.fixture
def room(make_room):
    made = make_room(classes=("cat", "dog", "owl"))
    made.ask(list(range(10)))
    return made


@pytest.fixture
def ann(room):
    return Person(room)


def answers(room):
    return {
        (i, a): c if u is None else u for i, a, c, u in room.rows("SELECT item, annotator, class, unsure FROM answer")
    }


def everything(room):
    """All that an action may change."""
    tables = ("class", "answer", "task", "action", "event", "lease", "meta", "item")
    return {table: room.rows(f"SELECT * FROM {table} ORDER BY 1, 2") for table in tables}


def test_an_answer_is_stored_with_all_that_is_known_of_it(room, ann):
    item = room.take("ann")
    given = Given(label=1, seconds=2.5, bulk=True, note="far away")
    ann.change(answer, [item], given, suggested={item: Suggested(2, 0.75)})
    fields = "class, unsure, seconds, suggestion, suggestion_prob, suggestion_shown, bulk, note"
    assert room.rows(f"SELECT {fields} FROM answer") == [(1, None, 2.5, 2, 0.75, "none", 1, "far away")]
    assert room.rows("SELECT state, answers FROM task WHERE item = ?", item) == [("done", 1)]
    assert room.one("SELECT count(*) FROM lease") == 0
    kind, annotator, of, payload = room.rows(
        "SELECT kind, annotator, item, payload FROM event ORDER BY seq DESC LIMIT 1"
    )[0]
    assert (kind, annotator, of) == ("label", "ann", item)
    assert json.loads(payload)["before"] == [None]


@pytest.mark.parametrize("reason", ["ambiguous", "quality", "other"])
def test_unsure_is_an_answer_that_is_spent_but_not_trained_on(room, ann, reason):
    item = room.take("ann")
    ann.change(answer, [item], Given(unsure=reason))
    assert answers(room) == {(item, "ann"): reason}
    with room.run.store.look() as db:
        assert progress_of(db).spent == 1
        assert train_labels(db) == {}


@pytest.mark.parametrize(
    ("items", "given", "text"),
    [
        ([0], Given(), "either a class or a reason"),
        ([0], Given(label=0, unsure="other"), "either a class or a reason"),
        ([0], Given(label=3), "there is no class 3; the classes are 0 cat, 1 dog, 2 owl"),
        ([0], Given(label=-1), "no class -1"),
        ([0], Given(unsure="lazy"), "one of ambiguous, quality, other"),
        ([], Given(label=0), "at least one"),
        ([0, 0], Given(label=0), "each item once"),
    ],
)
def test_answers_that_make_no_sense_are_refused_and_store_nothing(room, ann, items, given, text):
    room.take("ann")
    before = everything(room)
    with pytest.raises(InputError, match=text):
        ann.change(answer, items, given)
    assert everything(room) == before


def test_of_several_items_all_are_stored_or_none(room, ann):
    with room.run.store.lend() as db:
        take_batch(db, ann.desk, 1, 3)
    before = everything(room)
    with pytest.raises(ConflictError) as refused:
        ann.change(answer, [0, 1, 2, 3], Given(label=0, bulk=True))  # the last one was not given out
    assert refused.value.item == 3
    assert everything(room) == before
    ann.change(answer, [0, 1, 2], Given(label=0, bulk=True))
    assert answers(room) == {(i, "ann"): 0 for i in (0, 1, 2)}


def test_a_second_answer_needs_the_word_change(room, ann):
    item = ann.label(0)
    with pytest.raises(ConflictError, match="already answered item 0"):
        ann.change(answer, [item], Given(label=1))
    ann.change(answer, [item], Given(label=1), change=True)
    assert answers(room) == {(item, "ann"): 1}
    ann.change(answer, [item], Given(unsure="quality"), change=True)
    assert answers(room) == {(item, "ann"): "quality"}


def test_only_ones_own_answer_can_be_changed(room, ann):
    item = ann.label(0)
    for who, of in ((Person(room, "bo"), item), (ann, 5), (ann, 29), (ann, 10**9)):
        with pytest.raises(ConflictError, match="no answer of yours"):
            who.change(answer, [of], Given(label=1), change=True)
    assert answers(room) == {(item, "ann"): 0}


# --- the same request twice ----------------------------------------------------------------------------------------------


def twice(room, act):
    """Does something, and again under the same name; both times with the same outcome, the second without any effect."""
    request = room.request()
    act(request)
    after = everything(room)
    with pytest.raises(RepeatedError):
        act(request)
    assert everything(room) == after


def test_a_label_that_is_sent_twice_is_stored_once(room, ann):
    item = room.take("ann")
    twice(room, lambda request: ann.change(answer, [item], Given(label=0), request=request))


def test_unsure_that_is_sent_twice_is_stored_once(room, ann):
    item = room.take("ann")
    twice(room, lambda request: ann.change(answer, [item], Given(unsure="other"), request=request))


def test_a_bulk_answer_that_is_sent_twice_is_stored_once(room, ann):
    with room.run.store.lend() as db:
        items = take_batch(db, ann.desk, 1, 4)
    twice(room, lambda request: ann.change(answer, items, Given(label=0, bulk=True), request=request))


def test_a_change_that_is_sent_twice_is_stored_once(room, ann):
    item = ann.label(0)
    twice(room, lambda request: ann.change(answer, [item], Given(label=1), change=True, request=request))


def test_a_skip_that_is_sent_twice_is_stored_once(room, ann):
    item = room.take("ann")
    twice(room, lambda request: ann.change(skip, item, request=request))


def test_an_undo_or_redo_that_is_sent_twice_is_done_once(room, ann):
    ann.label(0), ann.label(1)
    twice(room, lambda request: ann.undo(request=request))
    twice(room, lambda request: ann.redo(request=request))
    assert len(answers(room)) == 2


def test_changes_of_classes_that_are_sent_twice_are_stored_once(room, ann):
    twice(room, lambda request: ann.classes(add_class, "fox", request=request))
    twice(room, lambda request: ann.classes(rename_class, 3, "wolf", request=request))
    twice(room, lambda request: ann.classes(merge_class, 3, 0, request=request))


def test_a_budget_and_a_training_that_are_sent_twice_are_stored_once(make_room):
    room = make_room(30, budget=10)
    room.ask([0, 1, 2])
    twice(room, lambda request: room.run.set_budget(request, "ann", 15))
    twice(room, lambda request: room.run.train_now(request, "ann"))


def test_a_label_is_known_again_after_somebody_else_undid_nothing_of_it(room, ann):
    """The browser resends after a crash; meanwhile the same person has gone on."""
    request = room.request()
    item = room.take("ann")
    ann.change(answer, [item], Given(label=0), request=request)
    ann.change(answer, [item], Given(label=1), change=True)
    with pytest.raises(RepeatedError):
        ann.change(answer, [item], Given(label=0), request=request)
    assert answers(room) == {(item, "ann"): 1}


def test_the_name_of_a_request_is_not_taken_for_something_else(room, ann):
    request = room.request()
    item = room.take("ann")
    ann.change(skip, item, request=request)
    with pytest.raises(InputError, match="request"):
        ann.classes(add_class, "fox", request=request)
    assert room.one("SELECT count(*) FROM class") == 3


# --- undo and redo -------------------------------------------------------------------------------------------------------


def test_undo_takes_everything_back_and_redo_does_it_again(room, ann):
    """Every kind of action, to the beginning and to the end again."""
    states = []

    def note():
        states.append(current())

    def current():  # a class that was taken back stays in its place, hidden
        classes = room.rows("SELECT * FROM class WHERE NOT hidden")
        return {"answers": answers(room), "classes": classes, "skips": room.rows("SELECT item, skips FROM task")}

    note()
    first = ann.label(0)
    note()
    ann.change(skip, room.take("ann"))
    note()
    ann.change(answer, [room.take("ann")], Given(unsure="quality"))
    note()
    with room.run.store.lend() as db:
        items = take_batch(db, ann.desk, 1, 3)
    ann.change(answer, items, Given(label=1, bulk=True))
    note()
    ann.change(answer, [first, items[0]], Given(label=2), change=True)
    note()
    ann.classes(add_class, "fox")
    note()
    ann.label(3)
    note()
    ann.classes(rename_class, 0, "kitten")
    note()
    ann.classes(merge_class, 3, 0)
    note()
    kinds = ["label", "skip", "unsure", "label", "change", "class_add", "label", "class_rename", "class_merge"]

    for _ in range(2):
        for kind, state in zip(kinds[::-1], states[-2::-1], strict=True):
            assert ann.undo()["kind"] == kind
            assert current() == state
        assert ann.undo()["kind"] is None
        for kind, state in zip(kinds, states[1:], strict=True):
            assert ann.redo()["kind"] == kind
            assert current() == state
        assert ann.redo()["kind"] is None


def test_undo_survives_reopening_the_run(room, ann):
    items = [ann.label(0), ann.label(1), ann.label(2)]
    ann.undo()
    room.run.close()
    room.run = Run.open(room.run.folder)
    assert ann.undo() == {"kind": "label", "items": [items[1]], "seq": room.one("SELECT min(seq) + 1 FROM action")}
    assert answers(room) == {(items[0], "ann"): 0}
    ann.redo(), ann.redo()
    assert answers(room) == {(item, "ann"): number for number, item in enumerate(items)}


def test_what_was_undone_is_this_tabs_to_answer_again(room, ann):
    first, second = ann.label(0), ann.label(0)
    assert room.take("ann") == 2
    ann.undo()
    assert room.take("ann") == second
    ann.undo()
    assert room.take("ann") == first
    assert room.take("bo") == 3


def test_undo_of_a_bulk_answer_is_one_step(room, ann):
    with room.run.store.lend() as db:
        items = take_batch(db, ann.desk, 1, 5)
    ann.change(answer, items, Given(label=0, bulk=True))
    assert ann.undo()["items"] == items
    assert answers(room) == {}
    with room.run.store.lend() as db:
        assert take_batch(db, ann.desk, 1, 5) == items


def test_something_new_drops_the_redo(room, ann):
    ann.label(0)
    ann.undo()
    ann.label(1)
    assert ann.redo()["kind"] is None
    assert ann.undo()["kind"] == "label"
    assert answers(room) == {}
    assert ann.undo()["kind"] is None


def test_undo_is_each_persons_own(room, ann):
    bo = Person(room, "bo")
    mine, theirs = ann.label(0), bo.label(1)
    assert ann.undo()["items"] == [mine]
    assert ann.undo()["kind"] is None
    assert answers(room) == {(theirs, "bo"): 1}


def test_undo_with_nothing_to_undo_changes_no_answers(room, ann):
    assert ann.undo() == {"kind": None, "items": [], "seq": None}
    assert ann.redo()["kind"] is None


def test_redo_after_somebody_else_has_answered_is_a_conflict(room, ann):
    item = ann.label(0)
    ann.undo()
    with room.run.store.change() as db:
        db.execute("DELETE FROM lease")  # as after ten minutes
    bo = Person(room, "bo")
    assert bo.label(1) == item
    assert "somebody else" in ann.redo()["refused"]
    assert answers(room) == {(item, "bo"): 1}
    assert ann.redo()["kind"] is None  # it is passed over for good


def test_redo_of_an_answer_to_an_item_that_was_withdrawn_is_a_conflict(room, ann):
    ann.label(0)
    item = ann.label(0)
    ann.undo()
    room.run.train_now(room.request(), "ann")
    assert "no longer being asked" in ann.redo()["refused"]
    assert (item, "ann") not in answers(room)


def test_undo_of_a_skip_leaves_the_item_with_whom_it_is_now(room, ann):
    item = room.take("ann")
    ann.change(skip, item)
    while (other := room.take("bo")) != item:
        Person(room, "bo").change(answer, [other], Given(label=0))
    ann.undo()
    assert room.one("SELECT skips FROM task WHERE item = ?", item) == 0
    assert room.rows("SELECT annotator FROM lease WHERE item = ?", item) == [("bo",)]


def test_undo_in_a_later_round_opens_the_earlier_task_again(room, ann):
    while room.take("ann") is not None:
        ann.label(0)
    with room.run.store.change() as db:
        db.execute("UPDATE round SET state = 'closed'")
    room.ask([20, 21], number=2)
    ann.undo()
    assert room.take("ann") == 9


# --- suggestions ---------------------------------------------------------------------------------------------------------


def test_what_was_shown_of_the_model_is_kept_with_the_answer(room, ann):
    item = room.take("ann")
    with room.run.store.lend() as db:
        mark_shown(db, ann.desk, item, "peek")
        mark_shown(db, ann.desk, item, "prefill")  # the first one counts
    ann.change(answer, [item], Given(label=0), suggested={item: Suggested(1, 0.9)})
    assert room.rows("SELECT suggestion, suggestion_prob, suggestion_shown FROM answer") == [(1, 0.9, "peek")]


# --- several people ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(make_room):
    made = make_room(annotators=2, classes=("cat", "dog", "owl"))
    made.ask([0, 1, 2, 3])
    return made


def test_two_people_agree_or_they_do_not(pair):
    given = {0: (0, 0), 1: (0, 1), 2: (2, "other"), 3: ("quality", "quality")}
    for place, name in enumerate(("ann", "bo")):
        person = Person(pair, name)
        for both in given.values():
            one = both[place]
            item = pair.take(name)
            person.change(answer, [item], Given(unsure=one) if isinstance(one, str) else Given(label=one))
    with pair.run.store.look() as db:
        found = {a.item: (a.label, a.conflict) for a in agreed(db)}
        assert train_labels(db) == {0: 0}
        assert progress_of(db).spent == 4
    assert found == {0: (0, False), 1: (None, True), 2: (None, True), 3: (None, False)}


def test_an_item_with_one_of_two_answers_is_not_spent(pair):
    Person(pair).label(0)
    with pair.run.store.look() as db:
        assert progress_of(db).spent == 0


def test_of_three_people_the_majority_counts(make_room):
    room = make_room(annotators=3, classes=("cat", "dog", "owl"))
    room.ask([0, 1])
    for name, labels in (("ann", (0, 0)), ("bo", (1, 1)), ("carl", (0, 2))):
        for number in labels:
            Person(room, name).label(number)
    with room.run.store.look() as db:
        assert [(a.label, a.conflict) for a in agreed(db)] == [(0, False), (None, True)]


def test_labels_of_merged_classes_agree(pair):
    Person(pair, "ann").label(0), Person(pair, "bo").label(1)
    with pair.run.store.look() as db:
        assert agreed(db)[0].conflict
    Person(pair).classes(merge_class, 1, 0)
    with pair.run.store.look() as db:
        assert agreed(db)[0].label == 0
        assert not agreed(db)[0].conflict


def test_undo_of_one_of_two_answers_leaves_the_other(pair):
    ann, bo = Person(pair), Person(pair, "bo")
    ann.label(0), bo.label(1)
    ann.undo()
    assert answers(pair) == {(0, "bo"): 1}
    assert pair.rows("SELECT state, answers FROM task WHERE item = 0") == [("open", 1)]
    assert pair.take("ann") == 0


def test_what_was_shown_of_the_model_stays_known_through_skip_and_undo(room, ann):
    item = room.take("ann")
    with room.run.store.change() as db:
        mark_shown(db, Desk("ann", "ann-tab"), item, "peek")
    ann.change(skip, item)
    ann.undo()
    assert room.take("ann") == item
    ann.change(answer, [item], Given(label=0))
    assert room.one("SELECT suggestion_shown FROM answer WHERE item = ?", item) == "peek"
    ann.undo()
    ann.change(answer, [item], Given(label=1))
    assert room.one("SELECT suggestion_shown FROM answer WHERE item = ?", item) == "peek"


def test_a_changed_answer_says_that_the_model_s_opinion_stood_beside_it(room, ann):
    item = ann.label(0)
    with room.run.store.change() as db:
        answer(
            db,
            Desk("ann", "ann-tab"),
            room.request(),
            [item],
            Given(label=1),
            overlap=1,
            change=True,
            suggested={item: Suggested(1, 0.9)},
        )
    assert room.one("SELECT suggestion_shown FROM answer WHERE item = ?", item) == "review"
