"""The colour and the key of a class: chosen, taken back, refused."""

import pytest

from askless.base.errors import InputError
from askless.run.store.answering import undo
from askless.run.store.asking import Desk
from askless.run.store.classes import add_class, merge_class
from askless.run.store.looks import Look, choose_look, chosen_looks, keys_of
from askless.run.store.progress import classes_with_counts
from askless.run.store.store import RepeatedError


@pytest.fixture
def room(make_room):
    return make_room(classes=("cat", "dog", "owl"))


def choose(room, number, colour=None, key=None, who="ann", request="", started=None):
    with room.run.store.change() as db:
        choose_look(db, request or room.request(), who, number, colour, key, started or {})


def take_back(room, who="ann", again=False):
    with room.run.store.change() as db:
        return undo(db, Desk(who, f"{who}-tab"), room.request(), overlap=1, again=again)


def looks(room):
    """The colour and the key of each class that is shown."""
    with room.run.store.look() as db:
        return {c.name: (c.colour, c.key) for c in classes_with_counts(db) if not c.hidden}


def test_classes_have_the_colour_of_their_number_and_the_digit_of_their_place(room):
    assert looks(room) == {"cat": (0, "1"), "dog": (1, "2"), "owl": (2, "3")}
    with room.run.store.change() as db:
        merge_class(db, room.request(), "ann", 0, 1)
    assert looks(room) == {"dog": (1, "1"), "owl": (2, "2")}


def test_a_colour_and_a_key_are_chosen_and_last(room):
    choose(room, 1, colour=6, key="D")
    assert looks(room) == {"cat": (0, "1"), "dog": (6, "d"), "owl": (2, "3")}
    choose(room, 1, colour=3)
    assert looks(room)["dog"] == (3, "d")
    choose(room, 1, key="")
    assert looks(room)["dog"] == (3, "2")


def test_a_choice_is_stored_once_and_taken_back_and_made_again(room):
    choose(room, 1, colour=6, request="request-x")
    with pytest.raises(RepeatedError):
        choose(room, 1, colour=6, request="request-x")
    choose(room, 1, colour=6, key="k")
    take_back(room)
    assert looks(room)["dog"] == (6, "2")
    take_back(room)
    assert looks(room)["dog"] == (1, "2")
    take_back(room, again=True), take_back(room, again=True)
    assert looks(room)["dog"] == (6, "k")


def test_a_choice_that_somebody_changed_since_is_not_taken_back(room):
    choose(room, 1, colour=6)
    choose(room, 1, colour=7, who="bo")
    assert take_back(room)["refused"] == "the class 'dog' has since been given another colour or key"
    assert looks(room)["dog"] == (7, "2")


def test_a_key_that_another_class_took_since_does_not_come_back(room):
    choose(room, 1, key="k")
    choose(room, 1, key="")
    choose(room, 2, key="k", who="bo")
    assert take_back(room)["refused"] == "'k' is already the key of 'owl'; choose another one"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("1", "'1' is already the key of 'cat'; choose another one"),
        ("o", "'o' is already the key of 'owl'; choose another one"),
        ("x", "'x' is already the key of 'owl'; choose another one"),
        ("-", "expected one letter or digit as the key of a class, got '-'"),
    ],
)
def test_a_key_that_is_taken_or_none_is_refused(room, key, told):
    started = {"x": 2}
    if key == "o":
        choose(room, 2, key="o")
    with pytest.raises(InputError, match=told):
        choose(room, 1, key=key, started=started)
    assert looks(room)["dog"] == (1, "2")


def test_a_colour_that_does_not_exist_is_refused(room):
    with pytest.raises(InputError, match="expected a colour from 0 to 7, got 8"):
        choose(room, 1, colour=8)


def test_a_class_whose_digit_is_taken_gets_one_that_is_free(room):
    choose(room, 0, key="4")
    with room.run.store.change() as db:
        add_class(db, room.request(), "ann", "fox")
        add_class(db, room.request(), "ann", "elk")
    assert {name: key for name, (_, key) in looks(room).items()} == dict(cat="4", dog="2", owl="3", fox="1", elk="5")
    choose(room, 1, key="b")  # its digit is free now, and nobody's key changes by that
    assert looks(room)["fox"][1] == "1"


def test_no_two_classes_share_a_key_where_one_comes_back():
    both = {0: Look(key="k"), 2: Look(key="k")}
    assert keys_of([0, 1, 2], both) == {0: "k", 1: "2", 2: "3"}
    assert len(set(keys_of(list(range(30)), {0: Look(key="5"), 25: Look(key="z")}).values())) == 22  # 20, z and none


def test_what_is_as_by_default_is_not_kept(room):
    choose(room, 1, key="d")
    choose(room, 1, key="")
    with room.run.store.look() as db:
        assert chosen_looks(db) == {}
