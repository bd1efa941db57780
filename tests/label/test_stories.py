"""The user stories of the labelling page, in this process; the worker's part is done by hand."""

import csv
import json
import threading
import time

import numpy as np
import pytest
from PIL import Image

from askless.base.intervals import exact
from askless.models import load
from askless.run import Run
from askless.run.steps.estimate import level_of_look, planned_looks
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk
from askless.run.store.labels import train_labels

from ..log import replay, stored

NAMES = ["red", "green", "blue", "grey"]


def answer_everything(office, browser, truth):
    """Labels by the truth, whatever is asked, and lets the worker work in between; the items in their order."""
    order = []
    while True:
        office.work()
        found = browser.next()
        if found["item"] is None:
            assert found["code"] == "finished", found
            return order
        order.append(found["item"]["id"])
        browser.answer(found["item"]["id"], NAMES.index(truth[found["item"]["name"]]), seconds=1.0)


# --- 1 -------------------------------------------------------------------------------------------------------------------


def test_story_1_first_label_fast(tmp_path, make_office):
    """As a biologist with a folder of images I type one command and label within a minute."""
    folder = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for i in range(300):
        place = folder / f"camera {i % 3}" / f"day-{i % 7}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(place / f"é {i}.png")
    files = sorted(folder.rglob("*.png"))
    for i in range(3):
        (folder / f"broken {i}.png").write_bytes(files[i].read_bytes()[:20])
    for i in range(10):
        (folder / f"copy {i}.png").write_bytes(files[i].read_bytes())
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    begun = time.process_time()
    office = make_office(Run.create(folder, tmp_path / "run", classes=("a", "b"), budget=30, net="frozen:raw"))
    ann = office.browser("ann")
    found = ann.next()  # before anything was embedded
    assert found["item"]["kind"] == "check"
    assert ann.http.get(f"/image/{found['item']['id']}").status_code == 200
    ann.answer(found["item"]["id"], 0)
    assert time.process_time() - begun < 10

    with (tmp_path / "run" / "skipped.csv").open(newline="") as file:
        problems = [row["problem"] for row in csv.DictReader(file)]
    assert (problems.count("unreadable"), problems.count("duplicate")) == (3, 10)
    assert len(office.run.paths) == 300
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_story_1_check_images_that_cannot_be_read_are_passed_over(draw_own, make_office, tmp_path):
    own = draw_own(15)
    office = make_office(own.start(tmp_path / "run"))
    checks = [row[0] for row in office.rows("SELECT item FROM task JOIN item ON item.id = item ORDER BY place")]
    damaged = own.folder / office.run.paths[checks[0]]
    damaged.write_bytes(damaged.read_bytes()[:60])
    ann = office.browser("ann")
    seen = []
    while (item := ann.next()["item"]) is not None:
        assert ann.http.get(f"/image/{item['id']}").status_code == 200
        seen.append(item["id"])
        ann.answer(item["id"], 0)
    assert checks[0] not in seen
    assert len(seen) == len(checks)  # another one took its place
    assert "unreadable" in (office.run.folder / "skipped.csv").read_text()


# --- 2 -------------------------------------------------------------------------------------------------------------------


def test_story_2_whole_loop_unattended(shapes, make_office, tmp_path):
    """As a user I give a budget and get a model, labels and a report; again with the same answers, the same picks."""
    orders = []
    for name in ("one", "two"):
        office = make_office(shapes.start(tmp_path / name, budget=40, batch=10))
        orders.append(answer_everything(office, office.browser("ann"), shapes.truth))
        assert office.browser("ann").get("/api/state")["run"]["finished"] is True
    assert orders[0] == orders[1]

    run = office.run
    with (run.folder / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert [row["split"] for row in rows].count("check") == 10
    assert all(row["label"] == shapes.truth[row["path"]] for row in rows)
    assert {row["annotator"] for row in rows} == {"ann"}

    new = tmp_path / "new"
    new.mkdir()
    for i in range(20):
        Image.new("RGB", (40, 30), (i * 12, 90, 200 - i * 9)).save(new / f"{i}.png")
    assert set(load(run.folder).predict(sorted(new.iterdir()))) <= set(NAMES)

    report = json.loads((run.folder / "report.json").read_text())
    assert len(report["curve"]) >= 3
    for look, point in enumerate(report["curve"], 1):
        assert point["n"] == 10
        level = level_of_look(look, planned_looks(run.settings.budget, run.settings.check, run.settings.batch))
        assert (point["low"], point["high"]) == pytest.approx(exact(point["correct"], 10, level), abs=1e-3)
    assert report["measure"]["accuracy"] >= 0.7
    assert report["measure"]["accuracy"] >= report["baseline"]


# --- 4 -------------------------------------------------------------------------------------------------------------------


def test_story_4_eight_people_at_once_never_get_the_same_image(make_hall):
    """As a pair we label at the same time and never get the same image."""
    n = 500
    hall = make_hall(n)
    taken = [[] for _ in range(8)]
    problems = []

    def work(number):
        try:
            browser = hall.browser(f"person {number}")
            while (item := browser.next()["item"]) is not None:
                browser.answer(item["id"], number % 2)
                taken[number].append(item["id"])
        except BaseException as error:
            problems.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert sorted(item for items in taken for item in items) == list(range(n))
    assert hall.one("SELECT count(*) FROM answer") == n
    with hall.run.store.look() as db:
        assert replay(db) == stored(db)


def test_story_4_reload_expired_lease_and_stale_answer(make_hall):
    hall = make_hall(10)
    ann = hall.browser("ann", "tab-a")
    item = ann.next()["item"]["id"]
    again = hall.browser("ann", "tab-a")  # the page was loaded again
    assert again.next()["item"]["id"] == item
    bo = hall.browser("bo")
    assert bo.next()["item"]["id"] != item
    with hall.run.store.change() as db:
        db.execute("UPDATE lease SET expires = 0 WHERE annotator = 'ann'")
    carl = hall.browser("carl")
    assert carl.next()["item"]["id"] == item
    assert ann.refused(409, "/api/answers", **ann.answer_body(item, 0))["item"] == item
    carl.answer(item, 1)
    error = ann.refused(409, "/api/answers", **ann.answer_body(item, 0))
    assert error["theirs"]["annotator"] == "carl"
    assert hall.rows("SELECT annotator, class FROM answer WHERE item = ?", item) == [("carl", 1)]
    assert ann.next()["item"]["id"] != item


def test_story_4_with_two_annotators_each_item_has_two_and_the_second_does_not_see_the_first(make_hall):
    hall = make_hall(12, annotators=2)
    people = [hall.browser(name) for name in ("ann", "bo", "carl")]
    turn = 0
    while True:
        found = [person.next() for person in people]
        if all(one["item"] is None for one in found):
            break
        person, one = people[turn % 3], found[turn % 3]
        turn += 1
        if one["item"] is None:
            continue
        shown = json.dumps({"item": one["item"], "next": one["next"]})
        assert not any(name in shown for name in ("ann", "bo", "carl", "cat", "dog"))
        assert "answer" not in one["item"]
        person.answer(one["item"]["id"], turn % 2)
    pairs = hall.rows("SELECT item, count(DISTINCT annotator) FROM answer GROUP BY item")
    assert pairs == [(item, 2) for item in range(12)]


# --- 5 -------------------------------------------------------------------------------------------------------------------


def test_story_5_undo_after_a_restart_of_the_server(make_hall):
    """As a fast annotator I press one key per image and can take back mistakes: keys 1, 2, Backspace, 1."""
    hall = make_hall(5)
    ann = hall.browser("ann", "tab-a")
    first = ann.label(0)
    second = ann.label(1)
    hall.reopen()
    ann = hall.browser("ann", "tab-a")
    undone = ann.undo()
    assert undone["undone"]["items"] == [second]
    assert undone["item"]["id"] == second
    ann.answer(second, 0)
    assert hall.rows("SELECT item, class FROM answer ORDER BY item") == [(first, 0), (second, 0)]
    assert ann.undo()["undone"]["items"] == [second]
    assert ann.undo()["undone"]["items"] == [first]
    assert ann.undo()["undone"] is None


def test_story_5_a_key_that_repeats_gives_one_label(make_hall):
    """Ten events in fifty milliseconds, as a browser that does not stop them would send them."""
    hall = make_hall(12)
    ann = hall.browser("ann")
    item = ann.next()["item"]["id"]
    codes = [ann.send("/api/answers", ann.answer_body(item, 0)).status_code for _ in range(10)]
    assert codes == [200, *[409] * 9]
    assert hall.one("SELECT count(*) FROM answer") == 1


def test_story_5_a_digit_for_an_image_that_is_no_longer_shown_is_rejected(make_hall):
    hall = make_hall(12)
    ann = hall.browser("ann")
    item = ann.next()["item"]["id"]
    ann.post("/api/skip", request_id=ann.request(), tab=ann.tab, item=item)
    ann.next()
    assert ann.refused(409, "/api/answers", **ann.answer_body(item, 0))["code"] == "conflict"
    assert hall.one("SELECT count(*) FROM answer") == 0


# --- 6 -------------------------------------------------------------------------------------------------------------------


def test_story_6_new_class_half_way(shapes, make_office, tmp_path):
    """As an explorer I meet a class I did not list."""
    office = make_office(shapes.start(tmp_path / "run", classes=("red", "green"), budget=24, check=0.0, batch=8))
    ann = office.browser("ann")
    office.work()

    def label_batch(new=None):
        given = 0
        while (item := ann.next()["item"]) is not None:
            name = shapes.truth[item["name"]]
            if new is not None and name not in ("red", "green"):
                ann.answer(item["id"], new)
                given += 1
            else:
                ann.answer(item["id"], 0 if name == "red" else 1)
        return given

    label_batch()
    assert "training" in office.work()
    made = ann.post("/api/classes", request_id=ann.request(), name="owl")
    assert made["class"]["id"] == 2
    text = ann.post("/api/classes", request_id=ann.request(), name="<script>alert(1)</script>")["class"]
    assert text["name"] == "<script>alert(1)</script>"
    assert label_batch(new=2) >= 1
    assert "training" in office.work()
    assert office.run.predictions().probs.shape[1] == 4
    assert (office.run.folder / "classes.txt").read_text().splitlines() == ["red", "green", "owl", text["name"]]
    assert (office.run.folder / "model" / "classes.txt").read_text().splitlines()[:2] == ["red", "green"]

    office.reopen()  # a class without labels is still there
    ann = office.browser("ann")
    classes = {c["name"]: c for c in ann.get("/api/state")["progress"]["classes"]}
    assert classes[text["name"]]["count"] == 0
    owls = classes["owl"]["count"]
    ann.post("/api/classes/2/rename", request_id=ann.request(), name="bird")
    ann.post("/api/classes/2/merge", request_id=ann.request(), into=0)
    office.run.write_views()
    rows = (office.run.folder / "labels.csv").read_text()
    assert "owl" not in rows
    after = {c["name"]: c["count"] for c in ann.get("/api/state")["progress"]["classes"]}
    assert after["red"] == classes["red"]["count"] + owls
    kinds = [row[0] for row in office.rows("SELECT kind FROM event WHERE kind LIKE 'class_%' AND annotator = 'ann'")]
    assert kinds == ["class_add", "class_add", "class_rename", "class_merge"]
    for name in ("red", "", "  "):
        assert ann.refused(400, "/api/classes", request_id=ann.request(), name=name)["code"] == "bad_request"
    label_batch()
    assert "training" in office.work()  # and it trains on with the classes that are left
    assert office.run.predictions().classes.tolist() == [0, 1, 3]


# --- 7 -------------------------------------------------------------------------------------------------------------------


def test_story_7_not_fooled_by_its_own_choices(make_office, tmp_path):
    """As a manager I want a number I can trust: on a set where chosen items are harder than average."""
    rng = np.random.default_rng(1)
    y = np.arange(200) % 2
    rows = rng.normal(size=(200, 3)).astype(np.float32)
    rows[:, 0] += 7 * y
    hard = np.arange(200) % 5 == 0  # of both classes
    rows[hard, 0] = 3.5 + rng.normal(size=hard.sum()) / 10  # between the two, where margin looks
    rows[:, 1:] = rows[:, :1] + rows[:, 1:] / 10  # nothing else to tell the hard ones apart by
    np.savez(tmp_path / "rows.npz", X=rows)
    run = Run.create(
        tmp_path / "rows.npz",
        tmp_path / "run",
        **{
            "classes": ("a", "b"),
            "budget": 60,
            "check": 0.5,
            "batch": 15,
            "strategy": "margin",
            "learner": "supervised",
        },
        **{"suggestions": "prefill", "steps": 40, "net": "linear"},
    )
    office = make_office(run)
    ann = office.browser("ann")
    while True:
        office.work()
        item = ann.next()["item"]
        if item is None:
            break
        ann.answer(item["id"], int(y[item["id"]]))
    chosen = [row[0] for row in office.rows("SELECT item FROM task WHERE kind = 'train' AND round > 1")]
    checks = [row[0] for row in office.rows("SELECT item FROM task WHERE kind = 'check'")]
    assert hard[chosen].mean() > hard.mean()  # the chosen ones are harder than average
    assert len(checks) == 30

    found = ann.get("/api/progress")["measure"]
    best = run.predictions().best_of_all()
    correct = int((best[checks] == y[checks]).sum())
    assert (found["n"], found["correct"]) == (30, correct)
    assert found["low"] <= correct / 30 <= found["high"]
    assert found["worth"] >= 30
    assert not set(checks) & set(chosen)
    with run.store.look() as db:
        assert not set(train_labels(db)) & set(checks)
    shown = office.rows("SELECT kind, suggestion_shown FROM answer a JOIN task t ON t.item = a.item")
    assert [how for kind, how in shown if kind == "check"] == ["none"] * 30
    assert ("train", "prefill") in shown
    with (run.folder / "labels.csv").open(newline="") as file:
        by_split = [row["suggestion_shown"] for row in csv.DictReader(file) if row["split"] == "check"]
    assert set(by_split) == {"none"}


def test_story_7_without_check_images_the_report_says_not_measured(shapes, make_office, tmp_path):
    office = make_office(shapes.start(tmp_path / "run", check=0.0, budget=12, batch=12))
    ann = office.browser("ann")
    answer_everything(office, ann, shapes.truth)
    assert ann.get("/api/progress")["measure"] is None
    assert json.loads((office.run.folder / "report.json").read_text())["measure"] is None
    assert "not measured" in (office.run.folder / "report.html").read_text()


# --- 8 -------------------------------------------------------------------------------------------------------------------
# Story 8, safe on a shared machine, is in test_attacks.py: a test for each threat.


def test_story_8_the_page_asks_nothing_of_other_computers(office, ann):
    """The page and its parts name no address but this one."""
    import re

    from askless.label.web.app import STATIC

    for file in sorted(STATIC.iterdir()):
        if file.suffix not in (".html", ".js", ".css"):
            continue
        text = file.read_text(encoding="utf-8")
        found = set(re.findall(r"""(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}""", text)) - {"http://www.w3.org"}
        assert found == set(), (file.name, found)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)[^>]*>", page)  # no script inside the page
    assert not re.search(r"\son\w+\s*=", page)
    assert "style=" not in page
    assert "<style" not in page


# --- a bad day -----------------------------------------------------------------------------------------------------------


def test_a_lost_reply_is_sent_again_and_stored_once(make_hall):
    """The server stores an answer and is killed before it says so; the browser sends it again to the next one."""
    hall = make_hall(10)
    ann = hall.browser("ann", "tab-a")
    item = ann.next()["item"]["id"]
    body = ann.answer_body(item, 1)
    with hall.run.store.change() as db:
        answer(db, Desk("ann", "tab-a"), body["request_id"], [item], Given(label=1), overlap=1)
    hall.reopen()
    ann = hall.browser("ann", "tab-a")
    again = ann.post("/api/answers", **body)
    assert (again["ok"], again["repeated"]) == (True, True)
    assert hall.rows("SELECT item, class FROM answer") == [(item, 1)]
    assert ann.next()["item"]["id"] != item
