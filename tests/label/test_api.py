"""Every route: what it answers, and how it refuses."""

import io
import json
from collections import Counter

import pytest
from PIL import Image, PngImagePlugin

from askless.run.store.labels import train_labels
from askless.run.store.replay import contradictions

PROGRESS = {"spent", "budget", "check", "train", "batch", "classes", "can_undo", "can_redo"}
ITEM = {"id", "name", "width", "height", "kind", "round", "rank", "reason", "suggestion"}
ANSWER = {"item", "class", "unsure", "annotator", "at", "seconds", "model", "doubt"}


def check_progress(progress):
    assert set(progress) >= PROGRESS
    assert set(progress["check"]) == set(progress["train"]) == {"done", "planned"}
    assert progress["batch"] is None or set(progress["batch"]) == {"round", "done", "size", "ahead"}
    for one in progress["classes"]:
        assert set(one) == {"id", "name", "key", "count", "accepted", "hidden", "merged_into", "colour"}


def check_item(item):
    assert set(item) >= ITEM
    assert item["kind"] in ("train", "check")
    assert (item["width"], item["height"]) == (32, 32)
    assert (item["reason"] == "random check image") == (item["kind"] == "check")
    assert (item["round"] is None) == (item["kind"] == "check")


def next_of_kind(browser, kind):
    """Takes items until one of this kind comes; the others are answered."""
    while (item := browser.next()["item"])["kind"] != kind:
        browser.answer(item["id"], 0)
    return item


# --- pages and pictures --------------------------------------------------------------------------------------------------


def test_the_page_and_what_belongs_to_it(guest):
    page = guest.http.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    for name, kind in (("app.js", "text/javascript"), ("style.css", "text/css"), ("favicon.ico", "image/")):
        found = guest.http.get(f"/static/{name}")
        assert found.status_code == 200
        assert found.headers["content-type"].startswith(kind)
    assert guest.http.get("/favicon.ico").status_code == 200


@pytest.mark.parametrize(
    "name", ["none.js", "..", "index.py", ".hidden", "app.js%00", "%2e%2e%2fapp.py", "..%2fguard.py"]
)
def test_other_files_are_not_there(guest, name):
    response = guest.http.get(f"/static/{name}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("size", ["full", "thumb", None])
def test_pictures_are_encoded_anew_without_what_else_is_in_the_file(draw_own, make_office, tmp_path, size):
    own = draw_own()
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", "a secret place")
    with Image.open(own.folder / sorted(own.truth)[3]) as image:
        image.save(own.folder / sorted(own.truth)[3], pnginfo=about)
    assert b"secret" in (own.folder / sorted(own.truth)[3]).read_bytes()
    ann = make_office(own.start(tmp_path / "own")).browser("ann")
    response = ann.http.get("/image/3", params={"size": size} if size else {})
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/png"
    assert "private" in response.headers["cache-control"]
    assert b"secret" not in response.content
    with Image.open(io.BytesIO(response.content)) as found, Image.open(own.folder / sorted(own.truth)[3]) as original:
        assert found.tobytes() == original.tobytes()


def test_a_size_that_is_not_offered_is_refused(guest):
    response = guest.http.get("/image/3", params={"size": "huge"})
    assert (response.status_code, response.json()["error"]["code"]) == (422, "bad_request")


def test_a_route_that_is_not_there(guest):
    response = guest.http.get("/api/nothing")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


# --- state and asking ----------------------------------------------------------------------------------------------------


def test_state(guest, castle):
    state = guest.get("/api/state", tab=guest.tab)
    assert set(state) >= {"run", "annotator", "progress", "last", "worker", "model", "version"}
    run = state["run"]
    assert run["name"] == "run"
    assert run["folder"] == str(castle.run.folder)
    assert (run["finished"], run["suggestions"], run["annotators"], run["keys"], run["map"]) == (
        False,
        "peek",
        1,
        {},
        True,
    )
    assert run["check_share"] == 0.25
    assert state["annotator"] == {"name": "ann", "asked": True}
    check_progress(state["progress"])
    assert state["progress"]["spent"] == 8
    assert state["progress"]["batch"] == {"round": 2, "done": 0, "size": 6, "ahead": False}
    assert len(state["last"]) == 8
    for answer in state["last"]:
        assert set(answer) >= ANSWER
        check_item(answer["item"])
        assert (answer["model"] is None) == (answer["item"]["kind"] == "check")
    assert [a["at"] for a in state["last"]] == sorted((a["at"] for a in state["last"]), reverse=True)
    assert set(state["worker"]) >= {"step", "text", "done", "total", "seconds_left", "problem"}
    assert state["worker"]["step"] == "waiting"
    assert state["model"] == {"round": 1, "labels": 5}


def test_the_version_grows_with_every_change(ann):
    versions = [ann.get("/api/state")["version"]]
    for act in (lambda: ann.label(0), ann.undo, lambda: ann.post("/api/classes", request_id=ann.request(), name="owl")):
        act()
        versions.append(ann.get("/api/state")["version"])
    assert versions == sorted(set(versions))


def test_somebody_who_has_no_name_yet_is_the_computers_user(castle, monkeypatch):
    state = castle.browser().get("/api/state")
    assert state["annotator"]["asked"] is False
    assert state["annotator"]["name"]


def test_next_hands_out_an_item_and_says_what_follows(ann):
    found = ann.next()
    assert set(found) == {"item", "next", "why", "code", "progress"}
    check_item(found["item"])
    check_progress(found["progress"])
    assert (found["code"], found["why"]) == ("ok", "")
    assert found["item"]["id"] not in found["next"]
    assert 1 <= len(found["next"]) <= 4
    assert ann.next()["item"] == found["item"]


def test_a_look_at_next_leases_nothing(ann, office):
    found = ann.get("/api/next", tab=ann.tab)
    assert set(found) == {"item", "next", "why", "code", "progress"}
    assert office.one("SELECT count(*) FROM lease") == 0
    assert ann.next()["item"]["id"] == found["item"]["id"]


def test_why_there_is_no_item(make_hall):
    hall = make_hall(3, annotators=1)
    ann, bo, carl = (hall.browser(name) for name in ("ann", "bo", "carl"))
    for browser in (ann, bo):
        browser.next()
    ann.post("/api/grid", tab=ann.tab, n=10)
    found = carl.next()
    assert (found["item"], found["code"]) == (None, "held")
    assert "2 with ann" in found["why"]
    assert "1 with bo" in found["why"]
    for browser in (ann, bo):
        while (item := browser.next()["item"]) is not None:
            browser.answer(item["id"], 0)
    for step in ("training", "finished", "waiting"):  # what the worker said may be older than the last answer
        (hall.run.folder / "status.json").write_text(json.dumps({"step": step, "text": "Training on 3 labels"}))
        found = carl.next()
        assert found["code"] == "training"
        assert ("Training on 3 labels" in found["why"]) == (step == "training")
    (hall.run.folder / "status.json").write_text('{"step": "failed", "problem": "out of memory"}')
    found = carl.next()
    assert (found["code"], "out of memory" in found["why"]) == ("failed", True)
    hall.work()
    assert carl.next()["code"] == "finished"


def test_another_tab_of_ones_own_is_no_other_person(make_hall):
    hall = make_hall(3)
    first, second = hall.browser("ann"), hall.browser("ann")
    first.post("/api/grid", tab=first.tab, n=3)
    found = second.next()
    assert (found["item"], found["code"]) == (None, "other_tab")
    assert (
        found["why"] == "3 rows are open in another tab of yours. Label there, or close that tab and reload this page."
    )
    bo = hall.browser("bo")
    assert bo.next()["why"] == "Others are labelling all remaining rows: 3 with ann."


def test_a_used_budget_is_not_everything(make_hall):
    hall = make_hall(6, ask=False, budget=2)
    hall.ask([0, 1])
    ann = hall.browser("ann")
    for number in range(2):
        ann.label(number)
    hall.work()
    found = ann.next()
    assert (found["code"], found["why"]) == ("finished", "The budget is used: 2 of 6 rows are labelled.")


def test_while_the_model_trains_the_page_shows_what_was_chosen_ahead(shapes, make_office, tmp_path):
    office = make_office(shapes.start(tmp_path / "run", check=0, batch=4), shapes.truth)
    assert "choosing ahead" in office.work(reserve=True)
    ann = office.browser("ann")
    names = [c["name"] for c in ann.get("/api/state")["progress"]["classes"]]

    def label():
        item = ann.next()["item"]
        return ann.answer(item["id"], names.index(shapes.truth[item["name"]]))["progress"]["batch"]

    assert [label()["done"] for _ in range(3)] == [1, 2, 3]
    assert label() == {"round": 2, "done": 0, "size": 4, "ahead": True}
    assert ann.post("/api/next", tab=ann.tab, ahead=False)["code"] == "training"  # as a program asks
    assert label() == {"round": 2, "done": 1, "size": 4, "ahead": True}
    assert ann.get("/api/map")["current"] == []
    assert office.work(reserve=True) == ["closing", "training", "choosing", "choosing ahead"]
    assert ann.next()["progress"]["batch"] == {"round": 2, "done": 1, "size": 4, "ahead": False}
    assert len(ann.get("/api/map")["current"]) == 3


def test_without_classes_the_page_is_told_so(make_hall):
    ann = make_hall(3, classes=()).browser("ann")
    found = ann.next()
    assert found["code"] == "no_classes"
    ann.post("/api/classes", request_id=ann.request(), name="first")
    assert ann.next()["code"] == "ok"


def test_grid(ann, office):
    found = ann.post("/api/grid", tab=ann.tab, n=4)
    assert set(found) >= {"items", "progress"}
    assert len(found["items"]) == 4
    for item in found["items"]:
        check_item(item)
        assert item["answer"] is None
        assert (item["kind"], item["round"]) == ("train", 2)
    held = {row[0] for row in office.rows("SELECT item FROM lease")}
    assert held == {item["id"] for item in found["items"]}
    body = {"request_id": ann.request(), "tab": ann.tab, "items": sorted(held), "class": 1, "bulk": True}
    assert ann.post("/api/answers", **body)["progress"]["spent"] == 12
    assert {
        row[0] for row in office.rows("SELECT bulk FROM answer WHERE item IN (SELECT item FROM task WHERE round = 2)")
    } == {1}
    assert ann.undo()["undone"] == {"kind": "label", "items": sorted(held), "text": "label on 4 images"}


@pytest.mark.parametrize("n", [0, 201, -1, "4", 2.5, True])
def test_grids_of_odd_sizes_are_refused(guest, n):
    assert guest.refused(422, "/api/grid", tab=guest.tab, n=n)["code"] == "bad_request"


def test_heartbeat_and_release(ann, office):
    ann.next()
    office.run.store._writer.execute("UPDATE lease SET expires = expires - 300")
    before = office.one("SELECT expires FROM lease")
    found = ann.post("/api/heartbeat", tab=ann.tab)
    assert found["ok"] is True
    assert found["expires"].endswith("Z")
    assert office.one("SELECT expires FROM lease") > before + 200
    assert ann.post("/api/release", tab=ann.tab) == {"ok": True}
    assert office.one("SELECT count(*) FROM lease") == 0


# --- answering -----------------------------------------------------------------------------------------------------------


def test_answers_are_stored(ann, office):
    item = ann.next()["item"]["id"]
    found = ann.answer(item, 2, seconds=2.25, note="blurred")
    assert found["ok"] is True
    assert found["repeated"] is False
    check_progress(found["progress"])
    assert found["progress"]["spent"] == 9
    assert found["progress"]["can_undo"] is True
    assert office.rows("SELECT class, seconds, note, annotator FROM answer WHERE item = ?", item) == [
        (2, 2.25, "blurred", "ann")
    ]


def test_an_answer_that_is_sent_again_is_a_success_and_stored_once(ann, office):
    item = ann.next()["item"]["id"]
    request = ann.request()
    ann.answer(item, 2, request)
    before = office.dump()
    again = ann.answer(item, 2, request)
    assert (again["ok"], again["repeated"]) == (True, True)
    check_progress(again["progress"])
    assert office.dump() == before


@pytest.mark.parametrize("reason", ["ambiguous", "quality", "other"])
def test_unsure_is_an_answer(ann, office, reason):
    item = ann.next()["item"]["id"]
    ann.post("/api/answers", request_id=ann.request(), tab=ann.tab, items=[item], unsure=reason)
    assert office.rows("SELECT class, unsure FROM answer WHERE item = ?", item) == [(None, reason)]


def test_an_item_that_is_not_this_tabs_is_a_conflict(ann, office):
    item = ann.next()["item"]["id"]
    other = office.browser("ann", "other-tab")
    before = office.dump()
    error = other.refused(409, "/api/answers", **other.answer_body(item, 1))
    assert (error["code"], error["item"]) == ("conflict", item)
    assert "message" in error
    assert office.dump() == before


def test_a_conflict_shows_both_answers(ann, office):
    item = ann.next()["item"]["id"]
    with office.run.store.change() as db:
        db.execute("UPDATE lease SET expires = 0")
    bo = office.browser("bo")
    assert bo.next()["item"]["id"] == item
    bo.answer(item, 3)
    error = ann.refused(409, "/api/answers", **ann.answer_body(item, 1))
    assert error["theirs"]["annotator"] == "bo"
    assert error["theirs"]["class"] == 3
    assert error["yours"]["class"] == 1
    assert office.rows("SELECT annotator, class FROM answer WHERE item = ?", item) == [("bo", 3)]


def test_an_own_answer_can_be_changed_without_a_lease(ann, office):
    item = ann.label(0)
    found = ann.answer(item, 1, change=True)
    assert found["ok"] is True
    assert office.one("SELECT class FROM answer WHERE item = ?", item) == 1
    bo = office.browser("bo")
    assert bo.refused(409, "/api/answers", **bo.answer_body(item, 2), change=True)["code"] == "conflict"


@pytest.mark.parametrize(
    "change",
    [
        {"class": None},
        {"unsure": "other"},
        {"class": "1"},
        {"class": 1.5},
        {"class": -1},
        {"class": True},
        {"items": []},
        {"items": [1, 1]},
        {"items": [-1]},
        {"items": [2**60]},
        {"items": ["1"]},
        {"items": 1},
        {"items": list(range(2001))},
        {"seconds": -1},
        {"seconds": 1e9},
        {"seconds": "soon"},
        {"note": "x" * 1001},
        {"note": 5},
        {"bulk": 1},
        {"tab": ""},
        {"tab": "a b"},
        {"tab": "x" * 101},
        {"request_id": "short"},
        {"request_id": "x" * 101},
        {"request_id": "späßchen-1"},
        {"unknown": 1},
        {"class_": 1},
    ],
)
def test_answers_with_odd_fields_are_refused(guest, castle, change):
    item = guest.next()["item"]["id"]
    before = castle.dump()
    error = guest.refused(422, "/api/answers", **{**guest.answer_body(item, 1), **change})
    assert error["code"] == "bad_request"
    assert castle.dump() == before


def test_a_class_that_is_not_there_is_refused(guest, castle):
    item = guest.next()["item"]["id"]
    assert guest.refused(400, "/api/answers", **guest.answer_body(item, 9))["code"] == "bad_request"


def test_skip(ann, office):
    item = ann.next()["item"]
    request = ann.request()
    found = ann.post("/api/skip", request_id=request, tab=ann.tab, item=item["id"])
    assert found["ok"] is True
    check_progress(found["progress"])
    assert ann.post("/api/skip", request_id=request, tab=ann.tab, item=item["id"])["ok"] is True
    assert office.one("SELECT skips FROM task WHERE item = ?", item["id"]) == 1
    assert ann.next()["item"]["id"] != item["id"]
    assert ann.refused(409, "/api/skip", request_id=ann.request(), tab=ann.tab, item=10**6)["item"] == 10**6


def test_undo_and_redo(ann, office):
    item = ann.label(0)
    found = ann.undo()
    assert set(found) >= {"ok", "undone", "item", "progress"}
    assert found["undone"]["kind"] == "label"
    assert found["undone"]["items"] == [item]
    assert office.run.paths[item] in found["undone"]["text"]
    assert found["item"]["id"] == item
    assert found["progress"]["can_redo"] is True
    assert found["progress"]["spent"] == 8
    found = ann.redo()
    assert found["undone"]["items"] == [item]
    assert found["progress"]["spent"] == 9
    assert found["progress"]["can_redo"] is False
    assert ann.redo()["undone"] is None


def test_an_undo_that_is_sent_again_is_done_once(ann, office):
    ann.label(0), ann.label(1)
    request = ann.request()
    for _ in range(3):
        assert ann.post("/api/undo", request_id=request, tab=ann.tab)["progress"]["spent"] == 9
    assert ann.undo()["progress"]["spent"] == 8


def test_with_nothing_to_undo(office):
    found = office.browser("new").undo()
    assert (found["ok"], found["undone"]) == (True, None)


def test_the_name_of_a_request_is_not_used_for_two_things(ann, office):
    item = ann.next()["item"]["id"]
    request = ann.request()
    ann.post("/api/skip", request_id=request, tab=ann.tab, item=item)
    for path, body in (
        ("/api/classes", {"name": "owl"}),
        ("/api/classes/0/rename", {"name": "owl"}),
        ("/api/classes/0/look", {"colour": 1}),
        ("/api/budget", {"budget": 30}),
        ("/api/settings", {"suggestions": "off"}),
        ("/api/undo", {"tab": ann.tab}),
        ("/api/train", {}),
    ):
        assert ann.refused(400, path, request_id=request, **body)["code"] == "bad_request"


# --- suggestions ---------------------------------------------------------------------------------------------------------


def test_peek_tells_what_the_model_says_and_notes_that_it_did(ann, office):
    item = next_of_kind(ann, "train")
    found = ann.post("/api/peek", tab=ann.tab, item=item["id"])
    assert set(found["suggestion"]) == {"class", "prob"}
    assert 0 < found["suggestion"]["prob"] <= 1
    ann.answer(item["id"], 0)
    rows = office.rows("SELECT suggestion, suggestion_shown FROM answer WHERE item = ?", item["id"])
    assert rows == [(found["suggestion"]["class"], "peek")]
    assert office.one("SELECT count(*) FROM event WHERE kind = 'peek'") == 1


def test_without_a_peek_nothing_was_shown(ann, office):
    item = next_of_kind(ann, "train")
    assert item["suggestion"] is None
    ann.answer(item["id"], 0)
    assert office.one("SELECT suggestion_shown FROM answer WHERE item = ?", item["id"]) == "none"


def test_the_model_is_never_asked_about_check_images(ann, office):
    item = next_of_kind(ann, "check")
    assert ann.refused(409, "/api/peek", tab=ann.tab, item=item["id"])["code"] == "conflict"
    assert ann.refused(409, "/api/peek", tab=ann.tab, item=10**6)["code"] == "conflict"
    ann.post("/api/settings", request_id=ann.request(), suggestions="prefill")
    assert ann.next()["item"]["suggestion"] is None
    ann.answer(item["id"], 0)
    assert office.rows("SELECT suggestion, suggestion_shown FROM answer WHERE item = ?", item["id"]) == [(None, "none")]


def test_with_suggestions_off_there_is_no_peek(ann):
    item = next_of_kind(ann, "train")
    ann.post("/api/settings", request_id=ann.request(), suggestions="off")
    assert ann.refused(400, "/api/peek", tab=ann.tab, item=item["id"])["code"] == "bad_request"


def test_prefill_shows_a_suggestion_with_most_chosen_images(ann, office):
    ann.post("/api/settings", request_id=ann.request(), suggestions="prefill")
    shown = []
    while (item := ann.next()["item"]) is not None:
        if item["kind"] == "train":
            assert (item["suggestion"] is None) == (item["id"] % 10 == 0)  # one in ten without
            shown.append((item["id"], "none" if item["suggestion"] is None else "prefill"))
        else:
            assert item["suggestion"] is None
        ann.answer(item["id"], 0)
    assert len(shown) == 6
    stored = dict(office.rows("SELECT item, suggestion_shown FROM answer"))
    assert all(stored[item] == how for item, how in shown)


def test_a_look_shows_no_suggestion(ann):
    ann.post("/api/settings", request_id=ann.request(), suggestions="prefill")
    assert ann.get("/api/next", tab=ann.tab)["item"]["suggestion"] is None


# --- classes -------------------------------------------------------------------------------------------------------------


def test_classes_are_added_renamed_and_merged(ann, office):
    request = ann.request()
    for _ in range(2):  # the second time the same request
        found = ann.post("/api/classes", request_id=request, name=" owl ")
        plain = {"count": 0, "accepted": 0, "hidden": False, "merged_into": None, "colour": 4}
        assert found["class"] == {"id": 4, "name": "owl", "key": "5", **plain}
        check_progress(found["progress"])
        assert len(found["progress"]["classes"]) == 5
    request = ann.request()
    for _ in range(2):
        assert ann.post("/api/classes/4/rename", request_id=request, name="bird")["class"]["name"] == "bird"
    request = ann.request()
    for _ in range(2):
        merged = ann.post("/api/classes/4/merge", request_id=request, into=0)["class"]
        assert (merged["hidden"], merged["merged_into"]) == (True, 0)
    assert office.one("SELECT count(*) FROM event WHERE kind LIKE 'class_%' AND annotator = 'ann'") == 3


@pytest.mark.parametrize("name", ["", "  ", "red", "RED", "a\nb", "a\x00", "x" * 101, "\u202e"])
def test_names_that_cannot_be_used_are_refused(guest, name):
    for path in ("/api/classes", "/api/classes/1/rename"):
        error = guest.refused(400, path, request_id=guest.request(), name=name)
        assert (error["code"], bool(error["message"])) == ("bad_request", True)


@pytest.mark.parametrize("number", [7, -1, 10**30])
def test_classes_that_are_not_there_cannot_be_changed(guest, number):
    assert (
        guest.refused(400, f"/api/classes/{number}/rename", request_id=guest.request(), name="x")["code"]
        == "bad_request"
    )
    assert (
        guest.refused(400, f"/api/classes/{number}/merge", request_id=guest.request(), into=0)["code"] == "bad_request"
    )


def test_a_number_of_a_class_is_a_number(guest):
    assert guest.refused(422, "/api/classes/red/rename", request_id=guest.request(), name="x")["code"] == "bad_request"


# --- looking -------------------------------------------------------------------------------------------------------------


def test_review_comes_in_pages(make_hall):
    hall = make_hall(4, annotators=2)
    ann, bo = hall.browser("ann"), hall.browser("bo")
    for item in range(4):
        assert (ann.label(0), bo.label(1)) == (item, item)
    whole = ann.get("/api/review", show="conflicts")["answers"]
    assert len(whole) == 4
    parts = [ann.get("/api/review", show="conflicts", offset=offset, limit=3) for offset in (0, 3, 6)]
    assert [part["total"] for part in parts] == [4] * 3
    assert [a["item"]["id"] for part in parts for a in part["answers"]] == [a["item"]["id"] for a in whole]


@pytest.mark.parametrize(
    "params", [{"show": "all"}, {"offset": -1}, {"limit": 0}, {"limit": 501}, {"offset": "x"}, {"offset": 10**40}]
)
def test_odd_reviews_are_refused(guest, params):
    response = guest.http.get("/api/review", params=params)
    assert (response.status_code, response.json()["error"]["code"]) == (422, "bad_request")


def wrong_label(ann, office):
    """Labels everything as it is but for one item, and trains a model on that; the item, its class and its true one."""
    names = list(office.run.settings.classes)
    while (item := ann.next()["item"]) is not None:
        ann.answer(item["id"], names.index(office.truth[item["name"]]))
    office.work()
    agreed = [
        i
        for i in ann.get("/api/items", show="labelled", model=True)["items"]
        if i["model"] and i["answer"]["class"] == i["model"]["class"]
    ]
    often = Counter(i["answer"]["class"] for i in agreed)  # a class that the other labels know
    sure = max(agreed, key=lambda i: (often[i["answer"]["class"]], i["model"]["prob"]))
    item, true = sure["id"], sure["answer"]["class"]
    ann.answer(item, (true + 1) % len(names), change=True)
    ann.post("/api/train", request_id=ann.request())
    assert "training" in office.work()
    return item, (true + 1) % len(names), true


def test_a_wrong_label_is_found_although_the_model_was_trained_on_it(ann, office):
    item, wrong, true = wrong_label(ann, office)
    found = ann.get("/api/review", show="doubtful")
    query = "SELECT count(class) FROM answer JOIN task USING (item) WHERE kind = 'train'"
    assert (found["by"], found["labels"]) == ("labels", office.one(query))
    assert ann.get("/api/items", doubtful=True)["items"][0]["id"] == item
    first = found["answers"][0]
    assert first["item"]["id"] == item
    assert 0.5 < first["doubt"] <= 1
    assert (first["against"]["label"], first["against"]["class"]) == (wrong, true)
    labels = dict(office.rows("SELECT item, class FROM answer"))
    checks = {row[0] for row in office.rows("SELECT item FROM task WHERE kind = 'check'")}
    for side, label in zip(first["sides"], (wrong, true), strict=True):
        assert side["class"] == label
        near = [each["id"] for each in side["items"]]
        assert near
        assert {labels[i] for i in near} == {label}
        assert not checks & set(near)
        assert item not in near
    assert all(answer["item"]["kind"] == "train" for answer in found["answers"])
    account = ann.get("/api/progress")
    assert account["doubtful"] == found["total"]
    assert any("doubtful; check them under Review" in reason for reason in account["advice"]["reasons"])


def test_a_label_that_was_kept_is_not_doubtful_until_that_is_undone_or_it_is_changed(ann, office):
    item, wrong, true = wrong_label(ann, office)

    def doubted():
        return {answer["item"]["id"] for answer in ann.get("/api/review", show="doubtful")["answers"]}

    assert item in doubted()
    ann.answer(item, wrong, change=True)
    assert item not in doubted()
    ann.undo()
    assert item in doubted()
    ann.post("/api/redo", tab=ann.tab, request_id=ann.request())
    assert item not in doubted()
    with office.run.store.look() as db:
        assert list(contradictions(db)) == []
    ann.answer(item, true, change=True)
    ann.answer(item, wrong, change=True)  # wrong again: that is another answer, which nobody has kept
    assert item in doubted()


def test_too_few_labels_are_not_judged_and_the_page_is_told(make_hall):
    ann = make_hall(30).browser("ann")
    for label in (0, 1, 0):
        ann.label(label)
    found = ann.get("/api/review", show="doubtful")
    assert found == {"answers": [], "total": 0, "by": None, "labels": 3}


def test_disagreements_show_what_each_one_said_until_somebody_decides(make_hall):
    hall = make_hall(4, annotators=2)
    ann, bo = hall.browser("ann"), hall.browser("bo")
    item = ann.label(0)
    assert ann.get("/api/review", show="conflicts")["total"] == 0
    decided = {"tab": ann.tab, "item": item, "class": 1}
    assert "all its answers" in ann.refused(400, "/api/decide", request_id=ann.request(), **decided)["message"]
    assert bo.label(1) == item
    found = ann.get("/api/review", show="conflicts")
    (row,) = found["answers"]
    assert (found["total"], row["item"]["id"], row["keep"], row["sides"]) == (1, item, None, [])
    assert row["given"] == [
        {"annotator": "ann", "class": 0, "unsure": None},
        {"annotator": "bo", "class": 1, "unsure": None},
    ]
    assert ann.get("/api/progress")["disagreements"] == {"open": 1, "without_majority": 1}
    request = ann.request()
    for again in (False, True):
        assert ann.post("/api/decide", request_id=request, **decided)["repeated"] is again
    assert ann.get("/api/review", show="conflicts") == {"answers": [], "total": 0}
    assert ann.get("/api/progress")["disagreements"] == {"open": 0, "without_majority": 0}
    undone = ann.undo()["undone"]
    assert (undone["kind"], undone["items"]) == ("decide", [item])
    assert undone["text"].startswith("decision on ")
    assert ann.get("/api/review", show="conflicts")["total"] == 1


def test_a_decision_is_either_a_class_or_a_reason_to_be_unsure(ann):
    for given in ({}, {"class": 0, "unsure": "other"}):
        body = {"tab": ann.tab, "request_id": ann.request(), "item": 0, **given}
        assert "either class or unsure" in ann.refused(422, "/api/decide", **body)["message"]


def test_another_persons_doubtful_label_is_settled_by_a_decision(ann, office):
    item, wrong, true = wrong_label(ann, office)
    bo = office.browser("bo")
    bo.post("/api/decide", tab=bo.tab, request_id=bo.request(), item=item, **{"class": true})
    with office.run.store.look() as db:
        assert train_labels(db)[item] == true
        assert list(contradictions(db)) == []
    assert office.rows("SELECT annotator, class FROM answer WHERE item = ?", item) == [("ann", wrong)]
    assert item not in {a["item"]["id"] for a in ann.get("/api/review", show="doubtful")["answers"]}


def test_a_doubtful_label_that_two_people_gave_is_listed_once(ann, office):
    item, wrong, _true = wrong_label(ann, office)
    with office.run.store.change() as db:
        db.execute("UPDATE task SET wanted = 2 WHERE item = ?", (item,))
    bo, carl = office.browser("bo"), office.browser("carl")
    assert bo.next()["item"]["id"] == item
    bo.answer(item, wrong)
    for browser, name in ((ann, "ann"), (bo, "bo"), (carl, "bo")):  # one's own, else the newest
        found = browser.get("/api/review", show="doubtful")
        assert [a["annotator"] for a in found["answers"] if a["item"]["id"] == item] == [name]
        assert found["total"] == len(found["answers"]) == browser.get("/api/progress")["doubtful"]


def test_progress(guest):
    found = guest.get("/api/progress")
    assert set(found) >= {"progress", "curve", "advice", "measure", "rate", "mix", "skipped", "annotators", "outlook"}
    check_progress(found["progress"])
    assert found["progress"]["can_undo"] is True
    (point,) = found["curve"]
    assert set(point) >= {"round", "labels", "n", "correct", "accuracy", "low", "high", "seconds", "change", "margin"}
    assert set(found["measure"]) == {"n", "correct", "accuracy", "low", "high", "worth"}
    assert found["measure"]["n"] == 2
    assert set(found["advice"]) == {"verdict", "text", "reasons"}
    assert set(found["skipped"]) >= {"unreadable", "duplicates", "outside", "near_check"}
    assert sum(one["share"] for one in found["mix"]) == pytest.approx(1)


def test_map(guest, castle):
    found = guest.get("/api/map")
    assert set(found) == {"points", "labels", "predicted", "rounds", "current"}
    assert len(found["points"]) == len(found["labels"]) == len(found["rounds"]) == 60
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in found["points"])
    assert sum(label >= 0 for label in found["labels"]) == 7
    assert {found["rounds"][i] for i in found["current"]} == {2}
    assert len(found["current"]) == 6


def test_there_is_no_map_before_the_images_were_read(shapes, make_office, tmp_path):
    office = make_office(shapes.start(tmp_path / "fresh"))
    ann = office.browser("ann")
    assert ann.get("/api/map") == {"points": [], "labels": [], "predicted": [], "rounds": [], "current": []}
    assert ann.get("/api/state")["run"]["map"] is False
    assert ann.get("/api/progress")["measure"] is None


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY garbage", None])
def test_every_view_works_whatever_happened_to_derived_files(office, ann, content):
    """As after a power cut; the worker makes them again."""
    whole = ann.get("/api/progress")
    folder = office.run.folder
    for path in [f for place in ("rounds/*/*.*", "model/*", "cache/*.*", "cache/views/*") for f in folder.glob(place)]:
        path.unlink() if content is None else path.write_bytes(content)
    found = ann.get("/api/progress")
    assert "The model of round 1 is damaged (" in found["advice"]["text"]
    assert found["progress"] == whole["progress"]
    assert ann.get("/api/map")["points"] == []
    for show in ("doubtful", "conflicts"):
        assert ann.get("/api/review", show=show)["answers"] == []
    assert all(item["model"] is None for item in ann.get("/api/items", model=True)["items"])
    assert ann.http.get("/api/items", params={"like": 0}).status_code == 400
    assert len(ann.post("/api/grid", tab=ann.tab, n=6)["items"]) >= 3
    item = ann.next()["item"]["id"]
    ann.answer(item, 0)
    ann.undo()
    assert ann.get("/api/state")
    assert office.work() == ["embedding", "comparing", "embedding", "training"]
    assert "damaged" not in ann.get("/api/progress")["advice"]["text"]
    assert ann.get("/api/map")["points"]


# --- steering ------------------------------------------------------------------------------------------------------------


def test_budget(ann, office):
    request = ann.request()
    for _ in range(2):
        found = ann.post("/api/budget", request_id=request, budget=40)
        assert found["ok"] is True
        assert found["progress"]["budget"] == 40
    assert office.one("SELECT count(*) FROM event WHERE kind = 'budget'") == 1
    for budget in (1, 61):
        assert ann.refused(400, "/api/budget", request_id=ann.request(), budget=budget)["code"] == "bad_request"
    for budget in (0, -5, "40", 2.5, 10**10):
        assert ann.refused(422, "/api/budget", request_id=ann.request(), budget=budget)["code"] == "bad_request"


def test_train_now(ann, office):
    for _ in range(4):
        ann.label(1)
    started = []
    office.app.state.page.restart = lambda: started.append(True)
    found = ann.post("/api/train", request_id=ann.request())
    assert found["ok"] is True
    assert started == [True]
    assert office.one("SELECT count(*) FROM task WHERE state = 'open' AND kind = 'train'") == 0
    assert office.work()[:2] == ["closing", "training"]


def test_settings(ann):
    for how in ("prefill", "peek", "off"):
        assert ann.post("/api/settings", request_id=ann.request(), suggestions=how)["ok"] is True
        assert ann.get("/api/state")["run"]["suggestions"] == how
    assert ann.refused(422, "/api/settings", request_id=ann.request(), suggestions="always")["code"] == "bad_request"


def test_annotator(office):
    browser = office.browser()
    found = browser.post("/api/annotator", name=" Zoë <b> ")
    assert found["annotator"] == {"name": "Zoë <b>", "asked": True}
    assert browser.get("/api/state")["annotator"] == {"name": "Zoë <b>", "asked": True}
    assert browser.refused(400, "/api/annotator", name="  ")["code"] == "bad_request"
    assert browser.refused(400, "/api/annotator", name="a\nb")["code"] == "bad_request"
    for name in ("", "x" * 61, 5, None):
        assert browser.refused(422, "/api/annotator", name=name)["code"] == "bad_request"
    assert browser.get("/api/state")["annotator"]["name"] == "Zoë <b>"


def test_keys_of_classes_follow_a_rename_or_go_away(make_hall):
    hall = make_hall(4, keys={"c": "cat"})
    ann = hall.browser("ann")
    assert ann.get("/api/state")["run"]["keys"] == {"c": 0}


def test_a_class_gets_a_colour_and_a_key_that_everybody_sees(make_hall):
    hall = make_hall(4, keys={"c": "cat", "d": "dog"})
    ann, bo = hall.browser("ann"), hall.browser("bo")
    request = ann.request()
    for _ in range(2):  # a request that is repeated is stored once
        found = ann.post("/api/classes/0/look", request_id=request, colour=6, key="k")["class"]
        assert (found["colour"], found["key"]) == (6, "k")
    state = bo.get("/api/state")
    assert state["run"]["keys"] == {"d": 1}  # the chosen key stands in the place of the one from the start
    assert next((c["colour"], c["key"]) for c in state["progress"]["classes"]) == (6, "k")
    taken = ann.refused(400, "/api/classes/0/look", request_id=ann.request(), key="d")
    assert taken["message"] == "'d' is already the key of 'dog'; choose another one"
    for body in ({"colour": 8}, {"colour": "blue"}, {"key": "kk"}, {"shape": 1}):
        ann.refused(422, "/api/classes/0/look", request_id=ann.request(), **body)
    undone = ann.undo()["undone"]
    assert (undone["kind"], undone["text"]) == ("class_look", "colour or key of a class")
    assert bo.get("/api/state")["run"]["keys"] == {"c": 0, "d": 1}


def test_the_last_answers_are_the_newest_eight_of_this_person(make_hall):
    hall = make_hall(20)
    ann, bo = hall.browser("ann"), hall.browser("bo")
    items = [ann.label(i % 2) for i in range(10)]
    bo.label(0)
    last = ann.get("/api/state")["last"]
    assert [a["item"]["id"] for a in last] == items[:1:-1]
    assert [a["class"] for a in last] == [i % 2 for i in range(10)][:1:-1]
