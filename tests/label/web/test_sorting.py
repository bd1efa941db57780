"""The view "Sort" and the buttons that write files, as a browser asks for them."""

import json
from pathlib import Path

import pytest

from askless.run.out.export import export_run
from askless.run.steps.confidence import sharpened
from askless.run.store.items import held_out_items
from askless.run.store.labels import train_labels

from ..conftest import COLOURS

NAMES = list(COLOURS)


@pytest.fixture
def classes(office):
    return {c["name"]: c["id"] for c in office.browser("ann").get("/api/state")["progress"]["classes"]}


def chunk_of(ann, n=8, **more):
    return ann.get("/api/sort", n=n, **more)["chunk"]


def accept(ann, chunk, right=(), out=(), request=None, **more):
    """Accepts all of a chunk but what was put right and clicked out."""
    changed = {*out, *(one["item"] for one in right)}
    items = [item["id"] for item in chunk["items"] if item["id"] not in changed]
    body = {"class": chunk["class"], "accepted": items, "right": list(right), "out": list(out), "tab": ann.tab}
    return ann.post("/api/sort", request_id=request or ann.request(), **body, **more)


def test_a_chunk_has_the_items_that_the_model_is_surest_of(ann, office):
    found = ann.get("/api/sort", n=8)
    asked = dict(office.rows("SELECT item, kind FROM task"))
    check = {item for item, _ in office.rows("SELECT id, split FROM item WHERE split = 'check'")}
    shown = [item["id"] for item in found["chunk"]["items"]]
    assert 1 <= len(shown) <= 8
    assert not {*shown} & {*asked, *check}
    everything = ann.get("/api/sort", n=200, **{"class": found["chunk"]["class"]})["chunk"]["items"]
    probs = {item["id"]: item["prob"] for item in everything}
    assert min(probs[i] for i in shown) >= max([p for i, p in probs.items() if i not in shown], default=0)
    waiting = {one["class"]: one["waiting"] for one in found["classes"]}
    left = [i for i in range(len(office.run.paths)) if i not in asked and i not in check]
    predictions = office.run.predictions()
    sure = sharpened(predictions.probs[left], 1 / predictions.sharpness).max(axis=1)
    assert found["expected_wrong"] == pytest.approx(float((1 - sure).sum()), abs=0.1)
    assert (
        sum(waiting.values()) + found["left_over"]
        == found["waiting"]
        == office.one("SELECT count(*) FROM item WHERE split <> 'check' AND id NOT IN (SELECT item FROM task)")
    )


def test_before_the_first_model_nothing_is_offered(make_hall):
    found = make_hall(6).browser("ann").get("/api/sort")
    assert (found["model"], found["chunk"], found["waiting"], found["precision"]) == (None, None, 0, [])


def test_accepting_a_chunk_is_one_event_that_costs_no_budget(ann, office):
    before = office.one("SELECT count(*) FROM event")
    spent = ann.get("/api/state")["progress"]["spent"]
    with office.run.store.look() as db:
        labels = train_labels(db)
    chunk = chunk_of(ann)
    first, second, *others = (item["id"] for item in chunk["items"])
    other = (chunk["class"] + 1) % 4
    reply = accept(ann, chunk, right=[{"item": first, "class": other}], out=[second])
    assert reply["passed"] == []
    assert office.one("SELECT count(*) FROM event") == before + 1
    assert reply["progress"]["spent"] == spent
    kinds = dict(office.rows("SELECT item, kind FROM task WHERE kind IN ('found', 'accepted')"))
    assert kinds == {first: "found", **dict.fromkeys(others, "accepted")}
    with office.run.store.look() as db:
        held = held_out_items(db)
        assert train_labels(db) == {**labels, **({} if first in held else {first: other})}
    counts = {c["id"]: c["accepted"] for c in reply["progress"]["classes"]}
    assert counts[chunk["class"]] == len(others)


def test_what_was_clicked_out_comes_back_under_its_next_class_and_at_last_as_left_over(ann):
    item = chunk_of(ann)["items"][0]["id"]
    seen = []
    for _ in NAMES:
        for number in range(len(NAMES)):
            found = ann.get("/api/sort", n=200, **{"class": number})["chunk"]
            if found["class"] == number and item in [one["id"] for one in found["items"]]:
                seen.append(number)
                ann.post("/api/sort", request_id=ann.request(), tab=ann.tab, **{"class": number}, out=[item])
                break
    assert sorted(seen) == [0, 1, 2, 3]
    left = ann.get("/api/sort", n=200, **{"class": -1})
    assert left["left_over"] == 1
    assert [one["id"] for one in left["chunk"]["items"]] == [item]
    assert left["chunk"]["class"] is None
    reply = ann.post("/api/sort", request_id=ann.request(), tab=ann.tab, right=[{"item": item, "class": 2}])
    assert reply["ok"]
    assert ann.get("/api/sort")["left_over"] == 0


def test_a_model_that_people_find_too_sure_expects_more_mistakes_in_what_is_left(ann):
    chunk = chunk_of(ann)
    before = ann.get("/api/sort")["expected_wrong"]
    other = (chunk["class"] + 1) % 4
    accept(ann, chunk, right=[{"item": item["id"], "class": other} for item in chunk["items"]])
    assert ann.get("/api/sort")["expected_wrong"] > before


def test_undo_takes_a_chunk_back_and_says_so(ann, office):
    before = office.dump(but=("event", "action"))
    chunk = chunk_of(ann)
    accept(ann, chunk, out=[chunk["items"][0]["id"]])
    undone = ann.undo()["undone"]
    assert undone["text"] == f"accepted on {len(chunk['items']) - 1} images"
    ann.post("/api/release", tab=ann.tab)
    assert office.dump(but=("event", "action", "lease")) == {k: v for k, v in before.items() if k != "lease"}
    assert {item["id"] for item in chunk_of(ann)["items"]} == {item["id"] for item in chunk["items"]}


def test_a_chunk_that_is_sent_twice_is_stored_once(ann, office):
    chunk = chunk_of(ann)
    for repeated in (False, True):
        assert accept(ann, chunk, request="chunk-of-ann")["repeated"] is repeated
    assert office.one("SELECT count(*) FROM event WHERE kind = 'accepted'") == 1


def test_a_chunk_without_items_or_class_is_refused(ann):
    body = {"tab": ann.tab, "request_id": "a-request-0"}
    assert "each item once, and at least one" in ann.refused(422, "/api/sort", **body)["message"]
    assert "each item once" in ann.refused(422, "/api/sort", **body, accepted=[1], out=[1], **{"class": 0})["message"]
    assert "expected a class" in ann.refused(422, "/api/sort", **body, accepted=[1])["message"]


def test_the_precision_tells_what_was_removed_and_what_check_items_say(ann, office):
    chunk = chunk_of(ann)
    accept(ann, chunk, out=[chunk["items"][0]["id"]])
    of_class, of_all = ann.get("/api/sort")["precision"]
    n = len(chunk["items"])
    assert (of_class["class"], of_all["class"]) == (chunk["class"], None)
    assert of_all["accepted"] == n - 1
    assert (of_all["removed"]["correct"], of_all["removed"]["n"]) == (1, n)
    assert of_class["pooled"]
    assert of_all["check"] is None or of_all["check"]["n"] <= office.one(
        "SELECT count(*) FROM task WHERE kind = 'check'"
    )


def finish(browser, office):
    office.app.state.jobs.thread.join(30)
    return browser.get("/api/jobs")["job"]


def read_lines(job):
    return [json.loads(line) for line in Path(job["path"]).read_text().splitlines()]


def test_sorting_into_folders_copies_labelled_and_accepted_images(ann, office):
    chunk = chunk_of(ann, n=12)
    accept(ann, chunk)
    plan = ann.get("/api/jobs")["plan"]
    labelled = office.one("SELECT count(*) FROM answer WHERE class IS NOT NULL")
    assert plan["items"] == labelled
    assert plan["bytes"] > 0
    out = office.run.folder.with_name("run-sorted")
    assert plan["out"] == str(out)
    assert ann.post("/api/jobs/folders", request_id="folders-1", rest="unsorted")["ok"]
    job = finish(ann, office)
    assert (job["state"], job["path"]) == ("done", str(out)), job
    files = [path.relative_to(out).as_posix() for path in out.rglob("*.png")]
    assert len(files) == len(office.run.paths)
    assert len([name for name in files if name.startswith("unsorted/")]) == len(office.run.paths) - labelled
    rows = (out / "labels.csv").read_text().splitlines()
    assert rows[0].split(",")[14] == "kind"
    assert sum(",accepted," in row for row in rows) == len(chunk["items"])
    assert ann.post("/api/jobs/folders", request_id="folders-1", rest="unsorted")["ok"]  # repeated: nothing new
    reply = ann.post("/api/jobs/folders", request_id="folders-2")
    assert reply == {"ok": False, "exists": str(out)}
    assert ann.post("/api/jobs/folders", request_id="folders-3", overwrite=True)["ok"]
    assert finish(ann, office)["state"] == "done"
    assert not (out / "unsorted").exists()


def test_a_folder_that_is_not_an_export_is_never_replaced(ann, office):
    out = office.run.folder.with_name("run-sorted")
    out.mkdir()
    (out / "letter.txt").write_text("dear")
    ann.post("/api/jobs/folders", request_id="folders-1", overwrite=True)
    job = finish(ann, office)
    assert job["state"] == "failed"
    assert "expected an earlier export to overwrite" in job["text"]
    assert (out / "letter.txt").read_text() == "dear"


def test_files_are_written_only_where_they_belong(ann, office, shapes):
    for typed, why in (
        ("/etc/sorted", "expected a folder below"),
        ("../../../../etc", "expected a folder below"),
        (".hidden/sorted", "not hidden"),
        ("run/inside", "outside the run and its images"),
        (str(shapes.folder / "sorted"), "expected a folder"),
        ("a\x00b", "unprintable characters"),
        ("a" * 300, "cannot be written to"),
    ):
        error = ann.refused(400, "/api/jobs/folders", request_id=ann.request(), out=typed)
        assert why in error["message"], (typed, error)
    assert ann.get("/api/jobs")["job"] is None


def test_the_buttons_write_labels_and_the_report(ann, office):
    accept(ann, chunk_of(ann))
    assert ann.post("/api/jobs/export", request_id="export-01", to="jsonl")["ok"]
    job = finish(ann, office)
    lines = read_lines(job)
    assert {"accepted", "train", "check"} >= {line["kind"] for line in lines} >= {"accepted"}
    ann.post("/api/jobs/export", request_id="export-02", to="jsonl", accepted=False, out="without.jsonl")
    lines = read_lines(finish(ann, office))
    assert "accepted" not in {line["kind"] for line in lines}
    ann.post("/api/jobs/report", request_id="report-01")
    job = finish(ann, office)
    assert job["state"] == "done", job
    assert job["path"].endswith("report.html")


def test_a_training_set_has_what_was_accepted_in_a_split_of_its_own(ann, office, tmp_path):
    chunk = chunk_of(ann)
    accept(ann, chunk)
    export_run(office.run, "hf", tmp_path / "hf")
    assert len(list((tmp_path / "hf" / "accepted").glob("*.png"))) == len(chunk["items"])
    export_run(office.run, "imagefolder", tmp_path / "split", by_split=True)
    assert len(list((tmp_path / "split" / "accepted").rglob("*.png"))) == len(chunk["items"])
    done = export_run(office.run, "imagefolder", tmp_path / "without", accepted=False)
    assert done.labels == office.one("SELECT count(*) FROM answer WHERE class IS NOT NULL") - len(chunk["items"])
