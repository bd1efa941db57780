"""The routes that find items and label what was found."""

import pytest

from ...log import replay, stored

ITEM = {"id", "name", "kind", "answer", "model", "can"}


def items(browser, **asked):
    return browser.get("/api/items", **{"limit": 500, **asked})


def ids(browser, **asked):
    return [item["id"] for item in items(browser, **asked)["items"]]


def label(browser, chosen, number=0, **more):
    body = {"request_id": browser.request(), "tab": browser.tab, "items": chosen, "class": number, **more}
    return browser.send("/api/label", body)


def free_items(office):
    """Items of the pool that nobody asked about."""
    return [
        row[0] for row in office.rows("SELECT id FROM item WHERE split = 'pool' AND id NOT IN (SELECT item FROM task)")
    ]


def held_out(office):
    query = "SELECT id FROM item WHERE split = 'check' AND id NOT IN (SELECT item FROM answer)"
    return [row[0] for row in office.rows(query)]


def test_items_come_with_answers_and_what_can_be_done_with_them(ann, office):
    found = items(ann)
    assert found["total"] == len(found["items"]) == 60
    assert found["people"] == ["ann"]
    assert all(set(item) >= ITEM and item["model"] is None for item in found["items"])
    answered = [item for item in found["items"] if item["answer"]]
    assert len(answered) == 8
    assert {item["can"] for item in answered} == {"change"}
    assert set(answered[0]["answer"]) == {"class", "unsure", "annotator", "at"}
    can = {item["id"]: item["can"] for item in found["items"]}
    assert {can[item] for item in held_out(office)} == {"held_out"}
    assert {can[item] for item in free_items(office)} == {"label"}


def test_items_come_in_pages(ann):
    whole = ids(ann, order="name")
    parts = [ann.get("/api/items", order="name", offset=offset, limit=25) for offset in (0, 25, 50, 75)]
    assert [item["id"] for part in parts for item in part["items"]] == whole
    assert [len(part["items"]) for part in parts] == [25, 25, 10, 0]


def test_items_are_found_by_name_class_kind_and_likeness(ann, office):
    names = [item["name"] for item in items(ann, text="RED-0")["items"]]
    assert sorted(names) == sorted(name for name in office.truth if "red-0" in name)
    assert {item["answer"]["class"] for item in items(ann, label=0)["items"]} <= {0}
    assert {item["kind"] for item in items(ann, kind="check")["items"]} == {"check"}
    assert len(ids(ann, show="unsure")) == 1
    free = free_items(office)
    found = ids(ann, like=free[0], show="unanswered")
    assert found[0] == free[0]
    assert ids(ann, items=f"{free[1]},{free[0]}") == sorted(free[:2])


def test_check_items_and_the_reserve_never_come_with_a_prediction(ann, office):
    held = {row[0] for row in office.rows("SELECT id FROM item WHERE split <> 'pool'")}
    assert set(held_out(office)) <= held
    shown = items(ann, model=True)["items"]
    assert {item["id"] for item in shown if item["model"] is None} == held
    for asked in ({"like": free_items(office)[0]}, {"order": "sure"}, {"items": ",".join(map(str, held))}):
        for item in items(ann, model=True, **asked)["items"]:
            assert item["model"] is None or item["id"] not in held
    for number in range(4):
        assert not held & set(ids(ann, predicted=number))
    points = ann.get("/api/map")
    assert {i for i, said in enumerate(points["predicted"]) if said < 0} == held
    assert {points["predicted"][i] for i in range(60) if i not in held} <= set(range(4))


@pytest.mark.parametrize(
    "params",
    [
        {"show": "none"}, {"kind": "train"}, {"order": "worst"}, {"by": "median"}, {"like": "1;2"}, {"items": "-1"},
        {"items": "1,"}, {"like": "1" * 10}, {"label": -1}, {"predicted": 10**6}, {"offset": -1}, {"limit": 501},
        {"text": "x" * 201}, {"model": "perhaps"},
    ],
)  # fmt: skip
def test_odd_queries_are_refused(guest, params):
    response = guest.http.get("/api/items", params=params)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "bad_request")


def test_likeness_to_an_item_that_is_not_there_is_refused(guest):
    response = guest.http.get("/api/items", params={"like": "60"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")


def test_what_was_found_is_labelled_in_one_request_and_taken_back_in_one_step(ann, office):
    spent = ann.get("/api/state")["progress"]["spent"]
    chosen = free_items(office)[:5]
    reply = label(ann, chosen, 2)
    assert reply.status_code == 200
    progress = reply.json()["progress"]
    assert (progress["found"], progress["spent"], progress["can_undo"]) == (5, spent, True)
    assert sorted(ids(ann, kind="found")) == sorted(chosen)
    assert office.rows("SELECT DISTINCT bulk, suggestion_shown FROM answer WHERE item IN (?, ?)", *chosen[:2]) == [
        (1, "none")
    ]
    assert ann.undo()["undone"]["items"] == chosen
    assert ids(ann, kind="found") == []
    assert ann.redo()["undone"]["items"] == chosen
    with office.run.store.look() as db:
        assert replay(db) == stored(db)
    while (item := ann.next()["item"]) is not None:
        ann.answer(item["id"], 1)
    assert "training" in office.work()  # with what was found
    rows = (office.run.folder / "labels.csv").read_text().splitlines()
    assert sum(",search," in row for row in rows) == 5


def test_what_the_model_said_is_noted_where_it_stood_beside(ann, office):
    one, other = free_items(office)[:2]
    assert label(ann, [one], 0, seen=True).status_code == 200
    assert label(ann, [other], 0).status_code == 200
    shown = dict(office.rows("SELECT item, suggestion_shown FROM answer"))
    assert (shown[one], shown[other]) == ("review", "none")


def test_held_out_items_cannot_be_labelled_from_a_list(ann, office):
    free = free_items(office)[0]
    before = office.dump()
    for item in held_out(office):
        reply = label(ann, [free, item])
        assert reply.status_code == 409
        assert reply.json()["error"]["item"] == item
    assert office.dump() == before


def test_the_same_request_is_stored_once(ann, office):
    body = {"request_id": ann.request(), "tab": ann.tab, "items": free_items(office)[:3], "class": 1}
    assert [ann.post("/api/label", **body)["repeated"] for _ in range(3)] == [False, True, True]
    assert office.one("SELECT count(*) FROM event WHERE request_id = ?", body["request_id"]) == 1


@pytest.mark.parametrize(
    "more", [{"items": []}, {"items": [1, 1]}, {"unsure": "quality"}, {"change": True}, {"items": [-1]}]
)
def test_odd_labels_are_refused(ann, more):
    body = {"request_id": ann.request(), "tab": ann.tab, "items": [1], "class": 0, **more}
    assert ann.send("/api/label", body).status_code == 422
