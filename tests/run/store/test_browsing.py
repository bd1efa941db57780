"""Which items match what a person looks for, and whose answer is shown."""

import pytest

from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk
from askless.run.store.browsing import Filters, known_items, matching_items
from askless.run.store.classes import merge_class
from askless.run.store.extra import label_found
from askless.run.store.importing import import_answers


@pytest.fixture
def room(make_room):
    """Twelve rows: 0 and 1 are answered by ann, 2 as unsure, 3 by bo, 4 was found by ann, 5 labelled before, 6 is asked."""
    room = make_room(12)
    room.ask([0, 1, 2, 3, 6])
    given = [
        (0, "ann", Given(label=0)),
        (1, "ann", Given(label=1)),
        (2, "ann", Given(unsure="other")),
        (3, "bo", Given(label=1)),
    ]
    for item, who, said in given:
        with room.run.store.change() as db:
            desk = Desk(who, who)
            db.execute("DELETE FROM lease")
            db.execute(
                "INSERT INTO lease (item, annotator, tab, expires, taken) VALUES (?, ?, ?, 9e9, 1)", (item, who, who)
            )
            answer(db, desk, room.request(), [item], said, overlap=1)
    with room.run.store.change() as db:
        label_found(db, Desk("ann", "ann"), room.request(), [4], Given(label=1), overlap=1)
        import_answers(db, room.request(), "import", [("5", "dog")], overlap=1)
    return room


def match(room, by="id", who="ann", **wanted):
    with room.run.store.look() as db:
        return [found.item for found in matching_items(db, who, Filters(**wanted), by)]


@pytest.mark.parametrize(
    ("wanted", "items"),
    [
        ({}, [*range(12)]),
        ({"show": "answered"}, [0, 1, 2, 3, 4, 5]),
        ({"show": "unanswered"}, [6, 7, 8, 9, 10, 11]),
        ({"show": "labelled"}, [0, 1, 3, 4, 5]),
        ({"show": "unsure"}, [2]),
        ({"label": 1}, [1, 3, 4, 5]),
        ({"label": 1, "person": "ann"}, [1, 4]),
        ({"label": 99}, []),
        ({"person": "bo"}, [3]),
        ({"person": "nobody"}, []),
        ({"kind": "chosen"}, [0, 1, 2, 3, 6]),
        ({"kind": "found"}, [4]),
        ({"kind": "before"}, [5]),
        ({"kind": "accepted"}, []),
        ({"kind": "unasked"}, [7, 8, 9, 10, 11]),
        ({"text": "1"}, [1, 10, 11]),
        ({"text": "1", "show": "unanswered"}, [10, 11]),
        ({"text": "%"}, []),
        ({"items": (11, 3, 99)}, [3, 11]),
        ({"items": ()}, []),
    ],
)
def test_filters(room, wanted, items):
    assert match(room, **wanted) == items


def test_orders(room):
    assert match(room, by="newest", show="answered") == [5, 4, 3, 2, 1, 0]
    assert match(room, by="newest")[6:] == [6, 7, 8, 9, 10, 11]
    assert match(room, by="name", text="1") == [1, 10, 11]
    assert match(room, by="name")[:4] == [0, 1, 10, 11]


def test_a_merged_class_counts_as_the_one_it_became(room):
    with room.run.store.change() as db:
        merge_class(db, room.request(), "ann", 1, 0)
    assert match(room, label=0) == match(room, label=1) == [0, 1, 3, 4, 5]
    with room.run.store.look() as db:
        assert known_items(db, "ann", [1])[0].label == 0


def test_what_is_known_comes_in_the_order_asked_for(room):
    with room.run.store.look() as db:
        found = known_items(db, "ann", [7, 3, 2])
    assert [(known.item, known.label, known.unsure, known.annotator) for known in found] == [
        (7, None, None, None),
        (3, 1, None, "bo"),
        (2, None, "other", "ann"),
    ]
    assert [known.standing.mine for known in found] == [0, 0, 1]


def test_nobody_sees_anothers_answer_before_giving_one(make_room):
    room = make_room(6, annotators=2)
    room.ask([0])
    for who, label, sees in (("ann", 0, []), ("bo", 1, [0])):
        assert match(room, who=who, show="answered") == []
        with room.run.store.look() as db:
            assert known_items(db, who, [0])[0].annotator is None
        room.take(who)
        with room.run.store.change() as db:
            answer(db, Desk(who, f"{who}-tab"), room.request(), [0], Given(label=label), overlap=2)
        with room.run.store.look() as db:
            assert known_items(db, who, [0])[0].annotator == who
            assert [k.label for k in known_items(db, who, sees, person="ann")] == ([0] if sees else [])


def test_names_are_searched_whatever_their_case_and_texts_too(tmp_path):
    from askless.run import Run

    table = tmp_path / "texts.csv"
    table.write_text("path,text\na,Über den Wolken\nb,unter der Brücke\nc,nothing here\n", encoding="utf-8")
    run = Run.create(table, tmp_path / "run", text="text", classes=("x", "y"), budget=3, check=0.0)
    with run, run.store.look() as db:
        for text, items in (("ÜBER", [0]), ("brücke", [1]), ("DER", [1]), ("text", []), ("'", [])):
            assert [m.item for m in matching_items(db, "ann", Filters(text=text))] == items, text
