"""The log of events and the tables say the same; `test_machine` says so of whatever people do."""

from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk
from askless.run.store.importing import import_answers

from ...log import replay, stored


def test_an_import_that_replaces_leaves_only_the_imported_answers(make_room):
    room = make_room()
    room.ask([0, 1])
    item = room.take("ann")
    with room.run.store.change() as db:
        answer(db, Desk("ann", "ann-tab"), room.request(), [item], Given(label=0), overlap=1)
        import_answers(db, room.request(), "bo", [("0", "dog")], overlap=1, policy="replace")
        assert stored(db) == {(0, "bo"): (1, None)}
        assert replay(db) == stored(db)
