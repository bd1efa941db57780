import threading
import time
from types import SimpleNamespace

import pytest

from askless.run.store import asking
from askless.run.store.answering import ConflictError, Given, answer, skip
from askless.run.store.asking import Desk, holders, next_item, release, renew, take_batch
from askless.run.store.store import Store


def label(room, who, item, number=0, tab=""):
    with room.run.store.change() as db:
        desk = Desk(who, tab or f"{who}-tab")
        answer(db, desk, room.request(), [item], Given(label=number), overlap=room.run.settings.annotators)


def put_off(room, who, item):
    with room.run.store.change() as db:
        skip(db, Desk(who, f"{who}-tab"), room.request(), item, overlap=room.run.settings.annotators)


def expire(room, who):
    """As if ten minutes had passed for this person."""
    with room.run.store.change() as db:
        db.execute("UPDATE lease SET expires = ? WHERE annotator = ?", (time.time() - 1, who))


def test_items_are_asked_in_the_order_in_which_they_were_chosen(make_room):
    room = make_room()
    room.ask([7, 3, 5])
    for expected in (7, 3, 5):
        item = room.take("ann")
        assert item == expected
        label(room, "ann", item)
    assert room.take("ann") is None


def test_the_same_tab_gets_the_same_item_again(make_room):
    room = make_room()
    room.ask([7, 3, 5])
    assert [room.take("ann") for _ in range(3)] == [7, 7, 7]
    assert room.one("SELECT count(*) FROM lease") == 1


def test_two_tabs_and_two_people_never_get_the_same_item(make_room):
    room = make_room()
    room.ask([7, 3, 5])
    taken = [room.take("ann", "one"), room.take("ann", "two"), room.take("bo", "one")]
    assert taken == [7, 3, 5]
    assert room.take("bo", "two") is None


def test_a_look_takes_nothing(make_room):
    room = make_room()
    room.ask([7, 3])
    with room.run.store.look() as db:
        assert next_item(db, Desk("ann", "one"), 1, lease=False) == 7
    assert room.one("SELECT count(*) FROM lease") == 0
    assert room.take("bo") == 7


def test_an_expired_lease_is_served_again(make_room):
    room = make_room()
    room.ask([7, 3])
    assert room.take("ann") == 7
    assert room.take("bo") == 3
    expire(room, "ann")
    assert room.take("carl") == 7


def test_a_lease_lasts_ten_minutes_and_is_renewed_by_asking_and_by_the_heartbeat(make_room, monkeypatch):
    room = make_room()
    room.ask([7, 3])
    assert room.take("ann") == 7
    begun = time.time()
    for passed in (590, 1180):
        monkeypatch.setattr(asking.time, "time", lambda at=begun + passed: at)
        assert room.take("bo") == 3
        with room.run.store.lend() as db:
            assert renew(db, Desk("ann", "ann-tab")) == pytest.approx(begun + passed + 600)
    monkeypatch.setattr(asking.time, "time", lambda: begun + 1185)
    assert room.take("ann") == 7  # asks again, which renews
    monkeypatch.setattr(asking.time, "time", lambda: begun + 1782)
    assert room.take("carl") == 3  # of bo, who did not come back


def test_a_heartbeat_does_not_bring_back_what_has_expired(make_room):
    room = make_room()
    room.ask([7])
    room.take("ann")
    expire(room, "ann")
    with room.run.store.lend() as db:
        renew(db, Desk("ann", "ann-tab"))
    assert room.take("bo") == 7


def test_a_late_answer_counts_when_nobody_else_took_the_item(make_room):
    room = make_room()
    room.ask([7])
    room.take("ann")
    expire(room, "ann")
    label(room, "ann", 7, 1)
    assert room.rows("SELECT item, annotator, class FROM answer") == [(7, "ann", 1)]


def test_a_late_answer_is_refused_when_somebody_else_has_the_item(make_room):
    room = make_room()
    room.ask([7])
    room.take("ann")
    expire(room, "ann")
    room.take("bo")
    with pytest.raises(ConflictError, match="given to somebody else") as refused:
        label(room, "ann", 7)
    assert refused.value.item == 7
    label(room, "bo", 7, 1)
    with pytest.raises(ConflictError, match="bo has answered") as refused:
        label(room, "ann", 7)
    assert refused.value.theirs == {"annotator": "bo", "class": 1, "unsure": None}
    assert room.rows("SELECT annotator, class FROM answer") == [("bo", 1)]


def test_a_late_skip_is_refused_when_somebody_else_has_the_item(make_room):
    room = make_room()
    room.ask([7])
    room.take("ann")
    expire(room, "ann")
    room.take("bo")
    with pytest.raises(ConflictError):
        put_off(room, "ann", 7)
    assert room.one("SELECT skips FROM task WHERE item = 7") == 0


def test_an_item_that_is_not_leased_to_the_tab_cannot_be_answered(make_room):
    room = make_room()
    room.ask([7, 3])
    room.take("ann", "one")
    for who, tab, item in (
        ("ann", "two", 7),
        ("bo", "one", 7),
        ("ann", "one", 3),
        ("ann", "one", 20),
        ("ann", "one", 10**9),
    ):
        with pytest.raises(ConflictError):
            label(room, who, item, tab=tab)
    assert room.one("SELECT count(*) FROM answer") == 0
    assert room.one("SELECT count(*) FROM event WHERE kind = 'label'") == 0


def test_with_two_answers_each_item_goes_to_two_different_people(make_room):
    room = make_room(annotators=2)
    room.ask([7, 3])
    assert room.take("ann") == 7
    assert room.take("bo") == 7
    assert room.take("carl") == 3  # two are at the first one
    label(room, "ann", 7, 0)
    assert room.one("SELECT state FROM task WHERE item = 7") == "open"
    assert room.take("ann") == 3
    assert room.take("dora") is None  # seven: ann has answered, bo is at it; three: carl and ann
    label(room, "bo", 7, 1)
    assert room.one("SELECT state FROM task WHERE item = 7") == "done"
    with pytest.raises(ConflictError):
        label(room, "dora", 7)


def test_with_two_answers_nobody_is_asked_the_same_item_twice(make_room):
    room = make_room(annotators=2)
    room.ask([7])
    assert room.take("ann", "one") == 7
    assert room.take("ann", "two") is None
    label(room, "ann", 7, tab="one")
    assert room.take("ann", "one") is None
    assert room.take("ann", "two") is None
    assert room.take("bo") == 7


def test_what_was_skipped_comes_back_last(make_room):
    room = make_room()
    room.ask([7, 3, 5])
    seen = []
    for _ in range(5):
        item = room.take("ann")
        seen.append(item)
        if item in (7, 3) and seen.count(item) == 1:
            put_off(room, "ann", item)
        else:
            label(room, "ann", item)
    assert seen == [7, 3, 5, 7, 3]
    assert room.take("ann") is None


def test_a_skipped_item_may_go_to_somebody_else(make_room):
    room = make_room()
    room.ask([7])
    room.take("ann")
    put_off(room, "ann", 7)
    assert room.take("bo") == 7


def test_giving_back_frees_what_the_tab_has_and_nothing_else(make_room):
    room = make_room()
    room.ask([7, 3, 5])
    room.take("ann", "one"), room.take("ann", "two")
    with room.run.store.lend() as db:
        release(db, Desk("ann", "one"))
    assert room.take("bo") == 7
    assert room.take("carl") == 5


def test_the_grid_takes_several_items_and_keeps_what_the_tab_had(make_room):
    room = make_room()
    room.ask([7, 3, 5, 9])
    room.take("ann")
    room.take("bo")
    with room.run.store.lend() as db:
        assert take_batch(db, Desk("ann", "ann-tab"), 1, 2) == [7, 5]
        assert take_batch(db, Desk("ann", "ann-tab"), 1, 10) == [7, 5, 9]
        assert take_batch(db, Desk("ann", "ann-tab"), 1, 10) == [7, 5, 9]
        assert take_batch(db, Desk("carl", "c"), 1, 10) == []
    assert room.rows("SELECT item FROM lease WHERE annotator = 'bo'") == [(3,)]


def test_the_grid_shows_chosen_items_and_check_images_only_where_there_are_no_others(make_room):
    room = make_room(budget=20, check=0.2)
    checks = {item for (item,) in room.rows("SELECT item FROM task")}
    assert len(checks) == 4
    chosen = room.pool()[:3]
    room.ask(chosen)
    with room.run.store.lend() as db:
        assert set(take_batch(db, Desk("ann", "a"), 1, 10)) == set(chosen)
        assert set(take_batch(db, Desk("bo", "b"), 1, 10)) == checks


def test_who_holds_what_is_told_to_others_only(make_room):
    room = make_room()
    room.ask([7, 3, 5])
    room.take("ann", "one"), room.take("ann", "two"), room.take("bo")
    with room.run.store.look() as db:
        assert holders(db, Desk("carl", "c")) == {"ann": 2, "bo": 1}
        assert holders(db, Desk("ann", "one")) == {"ann": 1, "bo": 1}
    expire(room, "ann")
    with room.run.store.look() as db:
        assert holders(db, Desk("carl", "c")) == {"bo": 1}


def test_check_images_come_at_their_planned_share_all_along(make_room):
    room = make_room(60, budget=40, check=0.25)
    room.ask(room.pool()[:30])
    kinds = []
    while (item := room.take("ann")) is not None:
        kinds.append(room.one("SELECT kind FROM task WHERE item = ?", item))
        label(room, "ann", item)
        n = len(kinds)
        assert abs(kinds.count("check") - n / 4) <= 1, kinds
    assert (kinds.count("check"), kinds.count("train")) == (10, 30)


def test_while_nothing_is_chosen_check_images_are_asked(make_room):
    room = make_room(budget=20, check=0.2)
    kinds = set()
    for _ in range(4):
        item = room.take("ann")
        kinds.add(room.one("SELECT kind FROM task WHERE item = ?", item))
        label(room, "ann", item)
    assert kinds == {"check"}
    assert room.take("ann") is None


def test_many_threads_and_connections_never_take_one_item_twice(make_room):
    room = make_room(120)
    room.ask(list(range(100)))
    stores = [Store(room.run.store.path) for _ in range(3)]  # as other processes would
    taken = [[] for _ in range(6)]

    def work(number):
        desk, mine = Desk(f"p{number}", "t"), stores[number % 3]
        while True:
            with mine.lend() as db:
                item = next_item(db, desk, 1)
            if item is None:
                return
            taken[number].append(item)
            with mine.change() as db:
                answer(db, desk, f"thread-{number}-{item}", [item], Given(label=0), overlap=1)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    everything = sorted(item for items in taken for item in items)
    assert everything == list(range(100))
    assert room.one("SELECT count(*) FROM answer") == 100


# --- clocks that jump ------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """`clock(t)` sets the time."""
    at = [1e9]
    monkeypatch.setattr(asking, "time", SimpleNamespace(time=lambda: at[0]))
    return lambda t: at.__setitem__(0, 1e9 + t)


def test_a_clock_that_is_set_back_does_not_make_a_lease_eternal(make_room, clock):
    room = make_room()
    room.ask([7])
    assert room.take("ann") == 7
    clock(-86_400)
    assert room.take("bo") == 7
    with pytest.raises(ConflictError, match="somebody else"):
        label(room, "ann", 7)
    clock(0)  # and when it is right again, ann's lease does not come back
    assert room.take("ann") is None or room.take("bo") is None
    assert room.one("SELECT count(*) FROM lease WHERE expires > 0") == 1


def test_a_clock_that_is_set_back_a_little_changes_nothing(make_room, clock):
    room = make_room()
    room.ask([7])
    room.take("ann")
    clock(-30)
    assert room.take("bo") is None
    with room.run.store.lend() as db:
        renew(db, Desk("ann", "ann-tab"))
    clock(540)
    assert room.take("bo") is None
    clock(571)
    assert room.take("bo") == 7


def test_who_keeps_the_item_may_answer_whatever_the_clock_does(make_room, clock):
    room = make_room()
    room.ask([7, 3])
    for t, item in ((86_400, 7), (-86_400, 3)):
        clock(0)
        assert room.take("ann") == item
        clock(t)
        label(room, "ann", item)
    assert room.one("SELECT count(*) FROM answer") == 2


def test_a_clock_to_and_fro_never_gives_one_item_to_two(make_room, clock):
    room = make_room()
    room.ask([7])
    assert room.take("ann") == 7
    clock(700)
    assert room.take("bo") == 7
    clock(100)  # both leases would have their end ahead
    assert room.take("ann") is None
    with pytest.raises(ConflictError, match="somebody else"):
        label(room, "ann", 7)
    label(room, "bo", 7, 1)
