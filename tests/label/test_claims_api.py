"""Predictions from elsewhere, as a browser sees and accepts them."""

import pytest

from askless.run.out.claims import import_claims
from askless.run.store.labels import labels_of_check_items, train_labels


@pytest.fixture
def told(office, shapes):
    """The standing of an older model that knows everything but how sure it is."""
    import_claims(office.run, "old", {path: (name, None) for path, name in shapes.truth.items()})
    return lambda ann: ann.get("/api/progress")["claims"][0]


ACCEPT = "/api/claims/accept"


def body(ann, share=0.1, name="old", request=None):
    return {"name": name, "share": share, "tab": ann.tab, "request_id": request or ann.request()}


def accept(ann, **more):
    return ann.post(ACCEPT, **body(ann, **more))


def kinds(office):
    return dict(office.rows("SELECT kind, count(*) FROM task GROUP BY kind"))


def test_without_predictions_there_is_nothing_to_show(ann):
    assert ann.get("/api/progress")["claims"] == []


def test_a_share_that_check_items_show_is_accepted_in_one_step_of_undo(ann, office, told):
    with office.run.store.look() as db:
        before = train_labels(db), labels_of_check_items(db)
    asked, free = kinds(office), told(ann)["levels"][0]["free"]
    assert free > 0
    found = accept(ann)
    assert (found["accepted"], found["progress"]["can_undo"]) == (free, True)
    assert kinds(office) == {**asked, "accepted": free}
    assert (told(ann)["accepted"], told(ann)["levels"][0]["free"]) == (free, 0)
    with office.run.store.look() as db:
        assert (train_labels(db), labels_of_check_items(db)) == before
    undone = ann.post("/api/undo", request_id=ann.request(), tab=ann.tab)["undone"]
    assert undone["text"] == f"accepted on {free} images"
    assert (kinds(office), told(ann)["accepted"]) == (asked, 0)


def test_check_items_are_never_accepted_nor_shown_what_is_predicted(ann, office, told):
    accept(ann)
    check = {item for (item,) in office.rows("SELECT id FROM item WHERE split = 'check'")}
    assert check
    assert not check & {item for (item,) in office.rows("SELECT item FROM task WHERE kind = 'accepted'")}
    assert not office.rows("SELECT 1 FROM answer WHERE suggestion_shown <> 'none'")


def test_a_request_that_is_sent_twice_accepts_once(ann, office, told):
    first, again = (accept(ann, request="accept-once-1") for _ in range(2))
    assert (first["repeated"], again["repeated"], again["accepted"]) == (False, True, 0)
    assert kinds(office)["accepted"] == first["accepted"]


@pytest.mark.parametrize("share", [0, 1, 95, "0.9"])
def test_what_is_no_share_is_refused(ann, told, share):
    ann.refused(422, ACCEPT, **body(ann, share))


def test_what_check_items_do_not_show_is_refused(ann, office, told):
    before = kinds(office)
    assert "cannot show that 99%" in ann.refused(400, ACCEPT, **body(ann, 0.99))["message"]
    assert "nobody: 0 check items" in ann.refused(400, ACCEPT, **body(ann, name="nobody"))["message"]
    assert kinds(office) == before
