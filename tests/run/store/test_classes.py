import unicodedata

import pytest

from askless.base.errors import InputError
from askless.run import Run
from askless.run.store.answering import Given, answer, undo
from askless.run.store.asking import Desk
from askless.run.store.classes import (
    LONGEST,
    MOST,
    add_class,
    all_classes,
    final_class,
    is_shown,
    merge_class,
    note_action,
    rename_class,
)
from askless.run.store.labels import train_labels
from askless.run.store.progress import classes_with_counts
from askless.run.store.store import record


@pytest.fixture
def room(make_room):
    made = make_room(classes=("cat", "dog", "owl"))
    made.ask(list(range(10)))
    return made


def do(room, act, *args, who="ann"):
    with room.run.store.change() as db:
        return act(db, room.request(), who, *args)


def label(room, number, who="ann"):
    item = room.take(who)
    with room.run.store.change() as db:
        answer(db, Desk(who, f"{who}-tab"), room.request(), [item], Given(label=number), overlap=1)
    return item


def take_back(room, who="ann", again=False):
    with room.run.store.change() as db:
        return undo(db, Desk(who, f"{who}-tab"), room.request(), overlap=1, again=again)


def shown(room):
    with room.run.store.look() as db:
        return {c.id: c.name for c in all_classes(db) if is_shown(c)}


def counts(room):
    with room.run.store.look() as db:
        return {row.name: row.count for row in classes_with_counts(db) if not row.hidden}


def every_label_is_of_a_class_that_is_shown(room):
    with room.run.store.look() as db:
        labels = train_labels(db)
    return set(labels.values()) <= set(shown(room))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("", "blank"),
        (" \t ", "blank"),
        ("x" * (LONGEST + 1), "at most 100 characters, got 101"),
        ("a\nb", "printable"),
        ("a\x00b", "printable"),
        ("\u202egnp.exe", "printable"),
        ("\ud800", "printable"),
        ("cat", "already a class 'cat'"),
        (" CAT ", "already a class 'cat'"),
    ],
)
def test_names_that_cannot_be_used_are_refused(room, given, text):
    for act in (lambda: do(room, add_class, given), lambda: do(room, rename_class, 1, given)):
        with pytest.raises(InputError, match=text):
            act()
    assert shown(room) == {0: "cat", 1: "dog", 2: "owl"}


@pytest.mark.parametrize(
    "given", ["<img src=x onerror=alert(1)>", "=cmd|' /C calc'!A0", "Łódź 🦉", "x" * LONGEST, "a,b;c\"'"]
)
def test_any_printable_name_is_stored_as_it_is(room, given):
    assert do(room, add_class, given) == 3
    assert shown(room)[3] == given


def test_equal_letters_written_in_two_ways_are_one_name(room):
    do(room, add_class, unicodedata.normalize("NFD", "é"))
    assert shown(room)[3] == unicodedata.normalize("NFC", "é")
    with pytest.raises(InputError, match="already"):
        do(room, add_class, unicodedata.normalize("NFC", "É"))


def test_there_is_a_largest_number_of_classes(room):
    with room.run.store.change() as db:
        db.executemany("INSERT INTO class (id, name) VALUES (?, ?)", [(i, f"c{i}") for i in range(3, MOST)])
    with pytest.raises(InputError, match="at most"):
        do(room, add_class, "one more")


def test_renaming_to_other_letters_of_the_same_name_is_allowed(room):
    do(room, rename_class, 0, "Cat")
    assert shown(room)[0] == "Cat"


def test_a_rename_changes_past_labels_and_no_numbers(room):
    label(room, 0)
    do(room, rename_class, 0, "kitten")
    room.run.write_views()
    text = (room.run.folder / "labels.csv").read_text()
    assert "kitten" in text
    assert "cat" not in text
    assert (room.run.folder / "classes.txt").read_text().splitlines() == ["kitten", "dog", "owl"]


def test_merging_moves_past_and_future_labels(room):
    label(room, 0), label(room, 1)
    do(room, merge_class, 1, 0)
    assert shown(room) == {0: "cat", 2: "owl"}
    assert counts(room) == {"cat": 2, "owl": 0}
    with pytest.raises(InputError, match="no class 1"):
        label(room, 1)
    with room.run.store.look() as db:
        assert set(train_labels(db).values()) == {0}


def test_merging_again_takes_along_what_was_merged_before(room):
    label(room, 0), label(room, 1), label(room, 2)
    do(room, merge_class, 0, 1), do(room, merge_class, 1, 2)
    with room.run.store.look() as db:
        assert final_class(db) == {0: 2, 1: 2, 2: 2}
    take_back(room)
    with room.run.store.look() as db:
        assert final_class(db) == {0: 1, 1: 1, 2: 2}
    take_back(room)
    assert counts(room) == {"cat": 1, "dog": 1, "owl": 1}


@pytest.mark.parametrize(
    ("number", "into", "text"), [(0, 0, "itself"), (0, 7, "no class 7"), (7, 0, "no class 7"), (-1, 0, "no class -1")]
)
def test_merges_that_make_no_sense_are_refused(room, number, into, text):
    with pytest.raises(InputError, match=text):
        do(room, merge_class, number, into)


def test_the_name_of_a_merged_class_is_free_again(room):
    do(room, merge_class, 1, 0)
    assert do(room, add_class, "dog") == 3
    take_back(room), take_back(room)  # the class, then the merge
    with pytest.raises(InputError, match="already"):
        do(room, add_class, "dog")


def test_two_classes_never_have_one_name(room):
    """Whatever comes back by undo or redo."""
    do(room, merge_class, 1, 0)
    assert do(room, add_class, "dog", who="bo") == 3
    assert "another class 'dog'" in take_back(room)["refused"]
    assert shown(room) == {0: "cat", 2: "owl", 3: "dog"}
    assert take_back(room)["kind"] is None


def test_a_merge_and_a_new_class_of_that_name_are_undone_and_redone_by_one_person(room):
    do(room, merge_class, 1, 0), do(room, add_class, "dog")
    for _ in range(2):
        take_back(room), take_back(room)
        assert shown(room) == {0: "cat", 1: "dog", 2: "owl"}
        take_back(room, again=True), take_back(room, again=True)
        assert shown(room) == {0: "cat", 2: "owl", 3: "dog"}


def test_a_class_without_labels_survives_reopening(room):
    do(room, add_class, "fox")
    room.run.close()
    room.run = Run.open(room.run.folder)
    assert shown(room)[3] == "fox"


def test_a_class_that_was_taken_back_keeps_its_number_when_it_returns(room):
    assert do(room, add_class, "fox") == 3
    take_back(room)
    assert 3 not in shown(room)
    assert do(room, add_class, "wolf") == 4
    assert do(room, add_class, "Fox") == 3
    assert shown(room)[3] == "Fox"


def test_the_classes_at_the_start_cannot_be_undone(room):
    assert take_back(room)["kind"] is None
    assert len(shown(room)) == 3


def test_a_class_that_has_labels_of_others_cannot_be_undone(room):
    do(room, add_class, "fox")
    label(room, 3, who="bo")
    do(room, rename_class, 3, "wolf")
    take_back(room)
    assert "'fox' now has 1 labels" in take_back(room)["refused"]
    assert 3 in shown(room)


def test_what_cannot_be_undone_does_not_keep_from_undoing_what_was_before_it(room):
    item = label(room, 0)
    do(room, add_class, "fox")
    label(room, 3, who="bo")
    assert "refused" in take_back(room)
    assert take_back(room)["items"] == [item]


def test_a_class_into_which_another_was_merged_cannot_be_undone(room):
    label(room, 0, who="bo")
    do(room, add_class, "fox")
    do(room, merge_class, 0, 3, who="bo")
    assert "fox" in take_back(room)["refused"]
    assert every_label_is_of_a_class_that_is_shown(room)


@pytest.mark.parametrize("how", ["redo", "undo of a change"])
def test_a_label_that_comes_back_brings_its_class_back(room, how):
    do(room, add_class, "fox")
    item = label(room, 3, who="bo")
    if how == "redo":
        take_back(room, "bo")
    else:
        with room.run.store.change() as db:
            answer(db, Desk("bo", "bo-tab"), room.request(), [item], Given(label=0), overlap=1, change=True)
    take_back(room)
    assert 3 not in shown(room)
    take_back(room, "bo", again=how == "redo")
    assert counts(room)["fox"] == 1
    assert every_label_is_of_a_class_that_is_shown(room)


def test_merges_of_two_people_never_hide_a_label(room):
    label(room, 0), label(room, 1), label(room, 2)
    do(room, merge_class, 0, 1)
    take_back(room)
    do(room, merge_class, 1, 2, who="bo")
    assert "refused" in take_back(room, again=True)  # class 1 is gone
    assert every_label_is_of_a_class_that_is_shown(room)
    take_back(room, "bo")
    assert counts(room) == {"cat": 1, "dog": 1, "owl": 1}


def test_two_merges_cannot_go_in_a_circle(room):
    label(room, 0), label(room, 1)
    do(room, merge_class, 0, 1)
    take_back(room)
    do(room, merge_class, 1, 0, who="bo")
    assert "refused" in take_back(room, again=True)
    assert counts(room) == {"cat": 2, "owl": 0}


def test_an_undone_merge_in_the_middle_of_others_leaves_every_label_somewhere(room):
    do(room, add_class, "fox")
    for number in range(4):
        label(room, number, who="carl")
    do(room, merge_class, 0, 1)
    do(room, merge_class, 1, 2, who="bo")
    take_back(room)  # 0 is itself again
    do(room, merge_class, 3, 0, who="carl")
    take_back(room, "bo")  # 1 and, as it was, 0 into 1
    assert every_label_is_of_a_class_that_is_shown(room)
    assert sum(counts(room).values()) == 4


def test_keys_are_given_in_order_and_skip_what_is_hidden(room):
    for i in range(20):
        do(room, add_class, f"more {i}")
    do(room, merge_class, 1, 0)
    with room.run.store.look() as db:
        keys = {row.id: row.key for row in classes_with_counts(db)}
    assert [keys[i] for i in (0, 1, 2, 10, 11, 20, 21)] == ["1", "", "2", "0", "Shift+1", "Shift+0", ""]


# --- several people at the same classes ---------------------------------------------------------------------------------


def test_merges_of_two_people_are_undone_in_any_order(room):
    for number in range(3):
        label(room, number, who="carl")
    do(room, merge_class, 0, 1)
    do(room, merge_class, 1, 2, who="bo")
    assert counts(room) == {"owl": 3}
    take_back(room)
    assert counts(room) == {"cat": 1, "owl": 2}
    take_back(room, "bo")
    assert counts(room) == {"cat": 1, "dog": 1, "owl": 1}
    take_back(room, "bo", again=True), take_back(room, again=True)
    assert counts(room) == {"cat": 1, "owl": 2}  # dog is merged again, so cat cannot follow


def test_an_undone_merge_takes_back_nothing_of_other_merges(room):
    """The old undo of bo's merge merged cat into dog again, which ann had undone."""
    do(room, merge_class, 0, 1)
    do(room, merge_class, 1, 2, who="bo")
    take_back(room)
    take_back(room, "bo")
    assert shown(room) == {0: "cat", 1: "dog", 2: "owl"}


def test_four_people_who_merge_and_undo_leave_no_label_in_a_hidden_class(room):
    """A class that was taken back while something was merged into it swallowed the labels that came back to that."""
    first = label(room, 0, who="dora")
    take_back(room, "dora")
    do(room, add_class, "fox")
    do(room, merge_class, 0, 3, who="bo")
    assert "'cat' has since been merged into 'fox'" in take_back(room)["refused"]
    take_back(room, "dora", again=True)
    assert room.rows("SELECT item, class FROM answer") == [(first, 0)]
    assert every_label_is_of_a_class_that_is_shown(room)
    assert counts(room)["fox"] == 1


def test_a_class_that_was_merged_since_is_not_taken_back(room):
    do(room, add_class, "fox")
    do(room, merge_class, 3, 0, who="bo")
    assert "'fox' has since been merged into 'cat'" in take_back(room)["refused"]
    take_back(room, "bo")
    assert shown(room)[3] == "fox"


def test_a_name_that_somebody_has_changed_since_stays(room):
    do(room, rename_class, 0, "kitten")
    do(room, rename_class, 0, "puss", who="bo")
    assert "'kitten' has since been renamed to 'puss'" in take_back(room)["refused"]
    assert shown(room)[0] == "puss"
    take_back(room, "bo")
    assert shown(room)[0] == "kitten"


def test_a_class_that_is_back_already_is_not_added_again(room):
    do(room, add_class, "fox")
    take_back(room)
    do(room, add_class, "fox", who="bo")
    assert "there is already a class 'fox'" in take_back(room, again=True)["refused"]
    take_back(room, "bo")  # it is bo's now
    assert 3 not in shown(room)


# --- runs of earlier versions -------------------------------------------------------------------------------------------


def test_a_run_with_labels_in_a_hidden_class_shows_that_class_again(make_room):
    room = make_room(classes=("cat", "dog"), steps=5, batch=4)
    while room.run.advance():
        pass
    waiting = room.run.waiting()
    room.run.tell({path: ("cat", "dog")[i % 2] for i, path in enumerate(waiting)})
    with room.run.store.change() as db:
        db.execute("UPDATE class SET hidden = 1 WHERE id = 0")
    room.run.close()
    room.run = Run.open(room.run.folder)
    assert counts(room) == {"cat": 2, "dog": 2}
    steps = [room.run.advance() for _ in range(3)]
    assert steps == ["closing", "training", "choosing"]
    with pytest.raises(InputError, match="already a class 'cat'"):
        do(room, add_class, "cat")


def test_such_labels_count_for_a_class_that_has_got_the_name_since(room):
    label(room, 0), label(room, 1)
    with room.run.store.change() as db:
        db.execute("UPDATE class SET hidden = 1 WHERE id = 0")
        db.execute("UPDATE class SET name = 'Cat' WHERE id = 1")
    assert counts(room) == {"Cat": 2, "owl": 0}
    assert every_label_is_of_a_class_that_is_shown(room)


def test_a_merge_of_an_earlier_version_is_undone_with_what_it_took_along(room):
    """Those pointed what had been merged before at the new class, too."""
    with room.run.store.change() as db:
        for number, into, moved in ((0, 1, [0]), (1, 2, [1, 0])):
            payload = {"class": number, "into": into, "moved": moved}
            seq, _ = record(db, room.request(), "class_merge", "ann", payload)
            db.executemany("UPDATE class SET merged_into = ? WHERE id = ?", [(into, i) for i in moved])
            note_action(db, seq, "ann")
    take_back(room)
    with room.run.store.look() as db:
        assert final_class(db) == {0: 1, 1: 1, 2: 2}
    take_back(room)
    assert shown(room) == {0: "cat", 1: "dog", 2: "owl"}
