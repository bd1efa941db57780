"""Labels that nobody was asked for, found by a person or accepted in a grid of the model's."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from askless.base.errors import InputError
from askless.run import Run
from askless.run.out.answers import import_into, read_answers
from askless.run.out.gather import account_of, gather
from askless.run.store.answering import ConflictError, Given, Suggested, answer, undo
from askless.run.store.asking import (
    Desk,
    ask_check_images,
    asked_items,
    draw_more,
    left_to_choose,
    plan,
    task_of,
    withdraw,
)
from askless.run.store.chunks import Chunk, chunks_of
from askless.run.store.claims import Claim, accept_claimed, accepted_claims, put_claims
from askless.run.store.extra import (
    Standing,
    can,
    count_accepted,
    label_extra,
    label_found,
    rest_items,
)
from askless.run.store.importing import import_answers
from askless.run.store.labels import labels_key, labels_of_check_items, settled_labels, train_labels
from askless.run.store.progress import progress_of
from askless.run.store.repair import examine, repair
from askless.run.store.replay import contradictions
from askless.run.store.store import RepeatedError

from ...log import replay, stored

CAT, DOG = 0, 1
ANN, BO = Desk("ann", "ann-tab"), Desk("bo", "bo-tab")


@pytest.fixture
def room(make_room):
    return make_room(40)


@pytest.fixture
def asking(make_room):
    """Forty rows: 4 check items, 4 in reserve, two chosen ones in the open batch."""
    room = make_room(40, budget=20, check=0.2)
    room.ask(room.pool()[:2])
    return room


def chunk(labels, out=(), seen=0, removed=0, least=0.5):
    return Chunk(CAT, dict(labels), list(out), seen, removed, least)


def accept(room, labels, out=(), desk=ANN, request=None, **more):
    with room.run.store.change() as db:
        said = {item: Suggested(CAT, 0.9) for item in labels}
        return label_extra(db, desk, request or room.request(), labels, "accepted", said, chunk(labels, out, **more))


def find(room, labels, desk=ANN):
    with room.run.store.change() as db:
        return label_extra(db, desk, room.request(), labels, "found")


def step_back(room, desk=ANN, again=False):
    with room.run.store.change() as db:
        return undo(db, desk, room.request(), overlap=room.run.settings.annotators, again=again)


def held(room, split):
    return [row[0] for row in room.rows("SELECT id FROM item WHERE split = ? ORDER BY place", split)]


def label(room, items, number=1, desk=ANN, request=None, overlap=1, **more):
    with room.run.store.change() as db:
        label_found(db, desk, request or room.request(), items, Given(label=number), overlap=overlap, **more)


def check_whole(room):
    with room.run.store.look() as db:
        assert list(contradictions(db)) == []


def look(room, function):
    with room.run.store.look() as db:
        return function(db)


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


def test_accepted_labels_are_trained_on_where_a_person_looked(room):
    with room.run.store.look() as db:
        before = labels_key(db)
    with room.run.store.change() as db:
        put_claims(db, "claims-1", "gpt", {2: Claim(CAT, 0.9)})
        accept_claimed(db, ANN, room.request(), "gpt", 0.9, {2: CAT})
        assert settled_labels(db) == {}
        assert labels_key(db) == before
    accept(room, {5: CAT, 6: DOG}, out=[9])
    find(room, {7: CAT})
    with room.run.store.look() as db:
        assert train_labels(db) == {6: DOG, 7: CAT}  # what people judged
        assert settled_labels(db) == {5: CAT, 6: DOG, 7: CAT}
        assert labels_key(db) != before
    step_back(room), step_back(room)
    with room.run.store.look() as db:
        assert settled_labels(db) == {}
        assert labels_key(db) == before


def test_page_and_report_count_the_same_answers_of_people(room):
    accept(room, {1: CAT, 2: CAT, 3: DOG})
    facts = gather(room.run)
    assert {p.name: p.answers for p in facts.process.people} == account_of(room.run).annotators == {"ann": 1}


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


def test_undo_takes_back_what_is_as_it_was_of_many(make_room):
    room = make_room(60, budget=20, check=0.2)
    drawn, *_ = held(room, "reserve")
    one, other = room.pool()[:2]
    accept(room, {drawn: CAT, one: CAT, other: DOG})
    room.run.set_budget(room.request(), "ann", 30)  # which draws the first of them
    with room.run.store.change() as db:
        import_answers(db, room.request(), "ann", [(str(other), "cat")], overlap=1, policy="replace")
    for _ in range(2):
        assert step_back(room)["items"] == [one]
        with room.run.store.look() as db:
            assert stored(db) == replay(db) == {(other, "ann"): (CAT, None)}
            assert task_of(db, one) is None
        assert step_back(room, again=True)["items"] == [one]
        with room.run.store.look() as db:
            assert stored(db) == replay(db) == {(one, "ann"): (CAT, None), (other, "ann"): (CAT, None)}
            assert task_of(db, drawn).state == "open"
    assert examine_closed(room) == []


def test_redo_is_refused_where_the_item_is_asked_by_now(room):
    accept(room, {2: CAT})
    step_back(room)
    room.ask([2])
    assert "item 2 was asked or labelled in the meantime" in step_back(room, again=True)["refused"]
    with room.run.store.look() as db:
        assert stored(db) == replay(db) == {}


def test_what_was_found_answers_what_has_been_chosen_since_when_it_is_redone(room):
    find(room, {1: DOG})
    step_back(room)
    room.ask([1])
    for _ in range(2):
        assert step_back(room, again=True)["items"] == [1]
        with room.run.store.look() as db:
            assert (task_of(db, 1).kind, task_of(db, 1).state) == ("train", "done")
            assert stored(db) == replay(db) == {(1, "ann"): (DOG, None)}
        assert step_back(room)["items"] == [1]
        with room.run.store.look() as db:
            assert (task_of(db, 1).kind, task_of(db, 1).state) == ("train", "open")
    with room.run.store.change() as db:
        withdraw(db, 1)
        db.execute("UPDATE item SET split = 'check' WHERE id = 1")
        ask_check_images(db)
    assert "was asked or labelled in the meantime" in step_back(room, again=True)["refused"]


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


def test_an_accepted_label_that_a_person_changes_is_found_until_that_is_undone(room):
    """By whatever way: it is a judgement then, and trained on."""
    accept(room, {1: CAT, 3: CAT})
    with room.run.store.change() as db:
        put_claims(db, "claims-1", "gpt", {2: Claim(CAT, 0.9)})
        accept_claimed(db, ANN, room.request(), "gpt", 0.9, {2: CAT})
    accepted = {1: ("accepted", "model"), 2: ("accepted", "gpt"), 3: ("accepted", "model")}

    def kinds():
        rows = room.rows("SELECT item, kind, picked_by FROM task ORDER BY item")
        return {item: found for item, *found in rows}, look(room, train_labels), look(room, count_accepted)

    def change(items, label, **options):
        with room.run.store.change() as db:
            given = Given(label=label)
            if options:
                answer(db, ANN, room.request(), items, given, overlap=1, **options)
            else:
                label_found(db, ANN, room.request(), items, given, overlap=1)

    before = kinds()
    assert {item: tuple(found) for item, found in before[0].items()} == accepted
    change([1], DOG, change=True)
    change([2, 7], DOG)
    after = kinds()
    assert after[1] == {1: DOG, 2: DOG, 7: DOG}
    assert after[2] == {CAT: 1}
    assert look(room, accepted_claims) == {"gpt": {}}
    for _ in range(2):
        step_back(room), step_back(room)
        assert kinds() == before
        assert look(room, accepted_claims) == {"gpt": {CAT: 1}}
        step_back(room, again=True), step_back(room, again=True)
        assert kinds() == after
    room.run.close()
    with closing(sqlite3.connect(room.run.folder / "state.sqlite")) as db, db:
        db.execute("DROP TABLE task")
    repair(room.run.folder)
    room.run = Run.open(room.run.folder)
    assert kinds() == after
    step_back(room), step_back(room)
    assert kinds() == before


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
        with pytest.raises(ConflictError, match=f"item {item} is a check item, which measures the model"):
            accept(room, labels, out=out)
    with room.run.store.look() as db:
        assert item not in rest_items(db)
    with pytest.raises(ConflictError, match="the run has no item 400"):
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
    assert "has since been replaced" in step_back(room)["refused"]
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


def test_accepted_labels_of_an_export_never_answer_what_people_are_asked(room, make_room):
    accept(room, {1: CAT, 2: CAT, 3: CAT})
    room.run.write_views()
    other = make_room(40)
    other.ask([1])
    find(other, {2: CAT, 3: DOG})
    rows = read_answers(room.run.folder / "labels.csv")
    for policy in ("keep", "replace"):
        found = import_into(other.run, rows, "file", policy)
        assert (found.taken, found.unknown, found.same, found.conflicts) == (0, ["1"], 1, [("3", "dog", "cat")])
    assert other.rows("SELECT item, class FROM answer ORDER BY item") == [(2, CAT), (3, DOG)]
    assert other.one("SELECT state FROM task WHERE item = 1") == "open"


# --- found in a list


def test_what_is_found_before_the_first_batch_is_not_chosen_for_it(make_room):
    room = make_room(40, budget=20, check=0.2)
    found = room.pool()[:15]
    label(room, found)
    while room.run.advance():
        pass
    chosen = {item for (item,) in room.rows("SELECT item FROM task WHERE kind = 'train'")}
    assert chosen
    assert not chosen & {*found}


def test_many_items_that_nobody_asked_about_get_one_label_in_one_event_and_cost_no_budget(asking):
    items = asking.pool()[5:17]
    label(asking, items, 1)
    assert asking.rows(
        "SELECT DISTINCT kind, picked_by, round, state FROM task WHERE item IN (SELECT item FROM answer)"
    ) == [("found", "search", None, "done")]
    assert asking.one("SELECT count(*) FROM event WHERE annotator = 'ann'") == 1
    with asking.run.store.look() as db:
        assert train_labels(db) == dict.fromkeys(items, 1)
        progress = progress_of(db, ANN)
        assert (progress.found, progress.spent, progress.can_undo) == (12, 0, True)
        assert left_to_choose(db) == 14  # 20 less 4 check items and the two of the batch
        assert set(items) <= set(asked_items(db))  # and no strategy will choose them
    check_whole(asking)


def test_one_answer_to_items_of_every_sort_is_one_step_of_undo(asking):
    """Found ones, one of the open batch, and one that was answered before."""
    chosen, free = asking.pool()[:2], asking.pool()[5:7]
    label(asking, chosen[:1], 0)
    label(asking, [*free, *chosen], 1)
    assert sorted(asking.rows("SELECT item, class FROM answer")) == sorted((i, 1) for i in [*free, *chosen])
    assert asking.rows("SELECT kind FROM event WHERE annotator = 'ann'") == [("label",), ("label",)]
    assert step_back(asking)["items"] == [*free, *chosen]
    assert asking.rows("SELECT item, class FROM answer") == [(chosen[0], 0)]
    assert asking.rows("SELECT item FROM task WHERE kind = 'found'") == []
    assert asking.rows("SELECT state FROM task WHERE item = ?", chosen[1]) == [("open",)]
    check_whole(asking)
    step_back(asking, again=True)
    assert sorted(asking.rows("SELECT item, class FROM answer")) == sorted((i, 1) for i in [*free, *chosen])
    assert [row[0] for row in asking.rows("SELECT item FROM task WHERE kind = 'found' ORDER BY item")] == sorted(free)
    check_whole(asking)


def test_changing_only_own_answers_is_recorded_as_a_change(asking):
    label(asking, asking.pool()[5:7], 0)
    label(asking, asking.pool()[5:7], 1)
    assert [kind for (kind,) in asking.rows("SELECT kind FROM event WHERE annotator = 'ann'")] == ["label", "change"]
    assert asking.one("SELECT count(*) FROM task WHERE kind = 'found'") == 2


def test_a_check_item_cannot_be_labelled_in_a_list(asking):
    item, free = held(asking, "check")[0], asking.pool()[5]
    with pytest.raises(ConflictError, match=f"item {item} is a check item, which measures the model"):
        label(asking, [free, item])
    assert asking.rows("SELECT * FROM answer") == []  # the other one neither
    assert asking.rows("SELECT item FROM task WHERE kind = 'found'") == []


def test_items_in_reserve_are_asked_afresh_when_they_are_drawn(asking):
    """Nothing that was found counts as an answer of a check item, whatever was searched before the draw."""
    for item in range(40):
        try:
            label(asking, [item])
        except ConflictError:
            continue
    with asking.run.store.change() as db:
        assert draw_more(db, 4) == 4
        assert labels_of_check_items(db) == {}
    assert asking.rows("SELECT DISTINCT state, answers FROM task WHERE kind = 'check'") == [("open", 0)]


def test_an_own_answer_to_a_check_item_can_be_corrected(asking):
    while asking.one("SELECT kind FROM task WHERE item = ?", item := asking.take("ann")) != "check":
        with asking.run.store.change() as db:
            answer(db, Desk("ann", "ann-tab"), asking.request(), [item], Given(label=0), overlap=1)
    with asking.run.store.change() as db:
        answer(db, Desk("ann", "ann-tab"), asking.request(), [item], Given(label=0), overlap=1)
    label(asking, [item], 1)
    with asking.run.store.look() as db:
        assert labels_of_check_items(db) == {item: 1}
        assert item not in train_labels(db)


@pytest.mark.parametrize("split", ["reserve", "out"])
def test_labels_of_what_is_held_out_count_but_are_not_trained_on(asking, split):
    item = asking.pool()[9]
    with asking.run.store.change() as db:
        db.execute("UPDATE item SET split = ? WHERE id = ?", (split, item))
    label(asking, [item])
    with asking.run.store.look() as db:
        assert stored(db) == {(item, "ann"): (1, None)}
        assert train_labels(db) == {}


def test_items_that_cannot_be_read_or_are_not_there_are_refused(asking):
    item = asking.pool()[9]
    with asking.run.store.change() as db:
        db.execute("UPDATE item SET problem = 'torn' WHERE id = ?", (item,))
    with pytest.raises(ConflictError, match=f"item {item} cannot be read"):
        label(asking, [item])
    with pytest.raises(ConflictError, match="the run has no item 99"):
        label(asking, [99])


def test_what_somebody_else_has_or_answered_is_refused_with_their_answer(asking):
    free, chosen = asking.pool()[5], asking.take("bo")
    label(asking, [free], 0, desk=BO)
    with pytest.raises(ConflictError, match=f"item {free} was answered by somebody else") as error:
        label(asking, [free])
    assert error.value.theirs == {"annotator": "bo", "class": 0, "unsure": None}
    while asking.one("SELECT kind FROM task WHERE item = ?", chosen) != "train":
        with asking.run.store.change() as db:
            answer(db, BO, asking.request(), [chosen], Given(label=0), overlap=1)
        chosen = asking.take("bo")
    with pytest.raises(ConflictError, match=f"item {chosen} was given to somebody else"):
        label(asking, [chosen])


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


def test_the_same_request_twice_is_stored_once(asking):
    request = asking.request()
    label(asking, asking.pool()[5:7], request=request)
    with pytest.raises(RepeatedError):
        label(asking, asking.pool()[5:7], request=request)
    assert asking.one("SELECT count(*) FROM answer") == 2


@pytest.mark.parametrize(("seen", "shown"), [(True, "review"), (False, "none")])
def test_whether_the_models_opinion_stood_beside_is_noted(asking, seen, shown):
    item = asking.pool()[5]
    label(asking, [item], 1, suggested={item: Suggested(0, 0.7)}, seen=seen)
    assert asking.rows("SELECT suggestion, suggestion_prob, suggestion_shown FROM answer") == [(0, 0.7, shown)]


def test_answers_that_make_no_sense_are_refused(asking):
    free = asking.pool()[5]
    for items, number, text in (
        ([], 1, "expected each item once and at least one"),
        ([free, free], 1, "expected each item once"),
        ([free], 7, "there is no class 7"),
    ):
        with pytest.raises(InputError, match=text):
            label(asking, items, number)


def as_before(room):
    """The log as earlier versions wrote it: what was found is listed apart from the items."""
    with room.run.store.change() as db:
        db.execute("DROP TRIGGER event_stays")
        for seq, text in db.execute("SELECT seq, payload FROM event WHERE kind = 'label'").fetchall():
            payload = json.loads(text)
            kinds = payload.pop("kinds")
            payload["found"] = [i for i, kind in zip(payload["items"], kinds, strict=True) if kind]
            db.execute("UPDATE event SET payload = ? WHERE seq = ?", (json.dumps(payload), seq))


def test_what_earlier_versions_found_is_taken_back_and_brought_again(asking):
    chosen, free = asking.pool()[:1], asking.pool()[5:7]
    label(asking, [*free, *chosen])
    as_before(asking)
    step_back(asking)
    assert asking.rows("SELECT item FROM task WHERE kind = 'found'") == []
    step_back(asking, again=True)
    assert [row[0] for row in asking.rows("SELECT item FROM task WHERE kind = 'found' ORDER BY item")] == sorted(free)
    check_whole(asking)


@pytest.mark.parametrize("before", [False, True])
def test_repair_rebuilds_what_was_found_from_the_log(asking, before):
    free = asking.pool()[5:9]
    label(asking, free, 1)
    if before:
        as_before(asking)
    with asking.run.store.change() as db:
        db.execute("DELETE FROM answer")
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("DELETE FROM task WHERE kind = 'found'")
    folder = asking.run.folder
    assert examine(folder)
    asking.run.close()
    copy = shutil.copytree(folder, folder.with_name("copy"))
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
        (("reserve", None, None, None, 0, 0), "label"),
        (("out", None, None, None, 0, 0), "label"),
        (("pool", "torn", None, None, 0, 0), "unreadable"),
    ],
)
def test_who_may_label_what(standing, expected):
    assert can(Standing(*standing), overlap=1) == expected
