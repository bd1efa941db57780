import pytest

from askless.base.errors import InputError
from askless.run import Run
from askless.run.out.answers import LabelRow, import_into, read_answers
from askless.run.store.answering import Given, answer, undo
from askless.run.store.asking import Desk
from askless.run.store.classes import add_class, all_classes, is_shown, merge_class, rename_class
from askless.run.store.importing import import_answers
from askless.run.store.labels import labels_of_check_items, train_labels
from askless.run.store.progress import Done, progress_of
from askless.run.store.store import RepeatedError

from ...log import replay, stored


def take(room, given, policy="keep", who="file", request=None, **options):
    with room.run.store.change() as db:
        return import_answers(
            db, request or room.request(), who, given, overlap=room.run.settings.annotators, policy=policy, **options
        )


def labels(room):
    query = "SELECT item, annotator, class, unsure FROM answer ORDER BY item, annotator"
    return [(i, a, c if u is None else u) for i, a, c, u in room.rows(query)]


def label(room, number, who="ann"):
    item = room.take(who)
    with room.run.store.change() as db:
        answer(db, Desk(who, f"{who}-tab"), room.request(), [item], Given(label=number), overlap=1)
    return item


def names(room):
    with room.run.store.look() as db:
        return [c.name for c in all_classes(db) if is_shown(c)]


def test_labels_become_prior_knowledge_that_costs_no_budget(make_room):
    room = make_room()
    result = take(room, [("3", "cat"), ("4", "DOG"), ("5", "")])
    assert (result.taken, result.same, result.conflicts, result.unknown) == (3, 0, [], [])
    assert labels(room) == [(3, "file", 0), (4, "file", 1), (5, "file", "other")]
    with room.run.store.look() as db:
        assert progress_of(db).spent == 0
        assert train_labels(db) == {3: 0, 4: 1}
    assert room.take("ann") is None  # nobody is asked about them


def test_unknown_paths_are_told_and_do_no_harm(make_room):
    room = make_room()
    result = take(room, [("nowhere.png", "cat"), ("3", "cat"), ("../../etc/passwd", "cat")])
    assert (result.taken, result.unknown) == (1, ["nowhere.png", "../../etc/passwd"])


def test_new_classes_are_added_in_their_order_or_refused(make_room):
    room = make_room()
    with pytest.raises(InputError, match="unknown class 'fox'"):
        take(room, [("3", "cat"), ("4", "fox")], new_classes=False)
    assert labels(room) == []
    take(room, [("3", "fox"), ("4", "elk"), ("5", "Fox")])
    assert names(room) == ["cat", "dog", "fox", "elk"]
    assert [number for _, _, number in labels(room)] == [2, 3, 2]


def test_a_bad_name_of_a_class_stops_the_whole_import(make_room):
    room = make_room()
    with pytest.raises(InputError, match="printable"):
        take(room, [("3", "fox"), ("4", "a\nb")])
    assert labels(room) == []
    assert names(room) == ["cat", "dog"]


def test_classes_that_were_taken_back_before_can_come_back_with_others(make_room):
    room = make_room()
    for name in ("fox", "elk"):
        with room.run.store.change() as db:
            add_class(db, room.request(), "ann", name)
    for _ in range(2):
        with room.run.store.change() as db:
            undo(db, Desk("ann", "ann-tab"), room.request(), overlap=1)
    take(room, [("3", "elk"), ("4", "fox"), ("5", "owl")])
    assert names(room) == ["cat", "dog", "fox", "elk", "owl"]
    assert [number for _, _, number in labels(room)] == [3, 2, 4]


def test_where_the_run_has_another_label_it_is_kept(make_room):
    room = make_room()
    room.ask([3, 4, 5])
    label(room, 0), label(room, 1)
    result = take(room, [("3", "dog"), ("4", "dog"), ("6", "cat")])
    assert (result.taken, result.same, result.conflicts) == (1, 1, [("3", "cat", "dog")])
    assert labels(room) == [(3, "ann", 0), (4, "ann", 1), (6, "file", 0)]


def test_or_it_is_replaced(make_room):
    room = make_room()
    room.ask([3, 4, 5])
    label(room, 0), label(room, 1)
    result = take(room, [("3", "dog"), ("4", "dog")], policy="replace")
    assert (result.taken, result.same, result.conflicts) == (1, 1, [])
    assert labels(room) == [(3, "file", 1), (4, "ann", 1)]
    assert room.rows("SELECT state, answers FROM task WHERE item = 3") == [("done", 1)]


def test_an_open_item_that_is_imported_is_not_asked_any_more(make_room):
    room = make_room()
    room.ask([3, 4])
    take(room, [("3", "dog")])
    assert room.take("ann") == 4
    with room.run.store.look() as db:
        assert progress_of(db).spent == 1  # it was asked, and is answered


def test_of_two_lines_about_one_item_the_last_counts(make_room):
    room = make_room()
    take(room, [("3", "cat"), ("3", "dog")])
    assert labels(room) == [(3, "file", 1)]


def test_labels_of_check_images_count_as_their_answers_and_those_in_reserve_wait(make_room):
    room = make_room(60, budget=20, check=0.2)
    splits = dict(room.rows("SELECT id, split FROM item"))
    take(room, [(str(i), "cat" if i % 2 else "dog") for i in range(60)])
    check = [i for i in splits if splits[i] == "check"]
    with room.run.store.look() as db:
        assert sorted(labels_of_check_items(db)) == check
        assert sorted(train_labels(db)) == [i for i in splits if splits[i] == "pool"]
        assert progress_of(db).check == Done(4, 4)
    room.run.set_budget(room.request(), "ann", 30)
    with room.run.store.look() as db:
        assert len(labels_of_check_items(db)) == 6
        assert progress_of(db).check == Done(6, 6)


def test_the_same_import_twice_is_stored_once(make_room):
    room = make_room()
    take(room, [("3", "fox")], request="request-x")
    with pytest.raises(RepeatedError):
        take(room, [("3", "fox")], request="request-x")
    assert len(labels(room)) == 1


def test_labels_of_merged_classes_are_the_same_as_those_they_were_merged_into(make_room):
    room = make_room()
    take(room, [("3", "dog")])
    with room.run.store.change() as db:
        merge_class(db, room.request(), "ann", 1, 0)
    assert take(room, [("3", "cat")]).same == 1
    assert take(room, [("4", "dog")]).taken == 1  # labels of that name to come are, too
    assert (labels(room)[1], names(room)) == ((4, "file", 0), ["cat"])


# --- files ---------------------------------------------------------------------------------------------------------------


def test_labels_csv_goes_into_a_fresh_run_without_loss(shapes, finished, tmp_path):
    source = finished.folder / "labels.csv"
    fresh = shapes.start(tmp_path / "fresh", seed=9)
    result = import_into(fresh, list(read_answers(source)), "file", "keep")
    assert (result.taken, result.unknown) == (20, [])
    one, other = (read_answers(run.folder / "labels.csv") for run in (finished, fresh))
    assert {r.path: (r.label, r.status) for r in one} == {r.path: (r.label, r.status) for r in other}
    assert {r.annotator for r in read_answers(fresh.folder / "labels.csv")} == {"tell"}
    assert (fresh.folder / "classes.txt").read_text() == (finished.folder / "classes.txt").read_text()
    again = import_into(fresh, list(read_answers(source)), "file", "keep")
    assert (again.taken, again.same) == (0, 20)
    fresh.close()


def test_each_line_keeps_the_name_of_who_gave_it(make_room):
    room = make_room()
    given = [
        LabelRow("3", "cat", annotator="ann"),
        LabelRow("4", "dog"),
        LabelRow("5", "", status="unsure", annotator="bo"),
    ]
    result = import_into(room.run, given, "file", "keep")
    assert result.taken == 3
    assert labels(room) == [(3, "ann", 0), (4, "file", 1), (5, "bo", "other")]


def test_two_peoples_answers_to_one_item_are_both_taken(make_room):
    """labels.csv of a run with two annotators has two lines per item."""
    room = make_room(annotators=2)
    said = (("3", "cat", "ann"), ("3", "dog", "bo"), ("4", "cat", "ann"), ("4", "cat", "bo"))
    given = [LabelRow(path, name, annotator=who) for path, name, who in said]
    import_into(room.run, given, "file", "keep")
    assert labels(room) == [(3, "ann", 0), (3, "bo", 1), (4, "ann", 0), (4, "bo", 0)]


def test_replacing_two_peoples_answers_replaces_each_ones_own(make_room):
    room = make_room(annotators=2)
    for names in (("cat", "dog"), ("dog", "cat")):
        given = [LabelRow("3", name, annotator=who) for who, name in zip(("ann", "bo"), names, strict=True)]
        import_into(room.run, given, "file", "replace")
    assert labels(room) == [(3, "ann", 1), (3, "bo", 0)]
    import_into(room.run, [LabelRow("3", "owl")], "file", "replace", add_classes=True)
    assert labels(room) == [(3, "file", 2)]
    with room.run.store.look() as db:
        assert replay(db) == stored(db)


def test_a_failed_import_leaves_the_run_as_it_was(make_room):
    room = make_room()
    with pytest.raises(InputError):
        import_into(
            room.run, [LabelRow("3", "cat", annotator="ann"), LabelRow("4", "\x00", annotator="bo")], "file", "keep"
        )
    assert labels(room) == []
    Run.open(room.run.folder).close()


def test_a_name_that_a_class_had_means_that_class(make_room):
    room = make_room()
    with room.run.store.change() as db:
        kitten = add_class(db, room.request(), "ann", "kitten")
        merge_class(db, room.request(), "ann", kitten, 0)
        rename_class(db, room.request(), "ann", 1, "hound")
    given = [LabelRow("3", "kitten"), LabelRow("4", "dog"), LabelRow("5", "Hound"), LabelRow("6", "cat")]
    assert import_into(room.run, given, "file", "keep").taken == 4
    assert labels(room) == [(3, "file", 0), (4, "file", 1), (5, "file", 1), (6, "file", 0)]
    assert names(room) == ["cat", "hound"]
    with room.run.store.look() as db:
        assert replay(db) == stored(db)


def test_accents_are_the_same_however_they_are_written(make_room):
    """Names of folders on a Mac have the letter and its accent one after the other."""
    room = make_room()
    with room.run.store.change() as db:
        add_class(db, room.request(), "ann", "café")
    assert import_into(room.run, [LabelRow("3", "cafe\N{COMBINING ACUTE ACCENT}")], "file", "keep").taken == 1
    assert (labels(room), names(room)) == ([(3, "file", 2)], ["cat", "dog", "café"])


# --- what people did before and after --------------------------------------------------------------------------------------


def take_back(room, who="ann", again=False):
    with room.run.store.change() as db:
        overlap = room.run.settings.annotators
        return undo(db, Desk(who, f"{who}-tab"), room.request(), overlap=overlap, again=again)


@pytest.mark.parametrize("what", ["undo of a change", "redo of a change", "redo of a label", "undo of a label"])
def test_undo_and_redo_bring_no_second_answer_beside_an_imported_one(make_room, what):
    room = make_room()
    room.ask([3])
    label(room, 0)
    if "change" in what:
        with room.run.store.change() as db:
            answer(db, Desk("ann", "ann-tab"), room.request(), [3], Given(label=1), overlap=1, change=True)
    if "redo" in what:
        take_back(room)
    take(room, [("3", "fox")], policy="replace")
    assert "refused" in take_back(room, again="redo" in what)
    assert labels(room) == [(3, "file", 2)]
    assert room.rows("SELECT state, answers FROM task") == [("done", 1)]


def test_an_own_answer_that_was_imported_over_is_not_taken_back(make_room):
    room = make_room()
    room.ask([3])
    label(room, 0)
    take(room, [("3", "dog")], policy="replace", who="ann")
    assert "your answer to item 3 has since been replaced" in take_back(room)["refused"]
    assert labels(room) == [(3, "ann", 1)]


def test_nobody_keeps_an_item_that_was_imported_while_they_had_it(make_room):
    room = make_room(annotators=2)
    room.ask([3, 4])
    assert (room.take("ann"), room.take("bo")) == (3, 3)
    take(room, [("3", "dog")])
    assert room.rows("SELECT * FROM lease WHERE expires > 0") == []
    assert room.take("ann") == 4


def test_after_an_import_and_an_undo_only_two_of_two_are_at_an_item(make_room):
    room = make_room(annotators=2)
    room.ask([3])
    item = room.take("ann")
    with room.run.store.change() as db:
        answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=0), overlap=2)
    assert room.take("bo") == 3
    take(room, [("3", "dog")])
    assert take_back(room)["items"] == [3]
    people = {
        who for (who,) in room.rows("SELECT annotator FROM answer UNION SELECT annotator FROM lease WHERE expires > 0")
    }
    assert people == {"ann", "file"}


def test_a_program_that_answers_leaves_as_many_people_as_are_wanted(make_room):
    room = make_room(annotators=2)
    room.ask([3])
    assert (room.take("ann"), room.take("bo")) == (3, 3)
    room.run.tell({"3": "cat"})
    assert [who for (who,) in room.rows("SELECT annotator FROM lease WHERE expires > 0")] == ["bo"]
