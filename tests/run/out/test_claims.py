"""Predictions from elsewhere, measured on check items."""

import json
import uuid

import pytest

from askless.base.errors import InputError
from askless.run.out.claims import accept_claims, import_claims, in_a_sentence, read_claims, standing_of, trusted_claims
from askless.run.out.gather import account_of
from askless.run.out.sorting import precisions
from askless.run.store.answering import undo
from askless.run.store.asking import Desk
from askless.run.store.claims import accepted_claims, claims_of, names_of_claims
from askless.run.store.classes import add_class, shown_classes
from askless.run.store.labels import labels_of_check_items, train_labels
from askless.run.store.replay import contradictions
from askless.run.store.store import RepeatedError

from ..conftest import Shapes


@pytest.fixture
def run(shapes: Shapes, tmp_path):
    with shapes.start(tmp_path / "run", check=0.5) as run:
        shapes.finish(run)
        yield run


def look(run, what, *rest):
    with run.store.look() as db:
        return what(db, *rest)


def accept(run, share=0.7, request="request-1", annotator="ann"):
    with run.store.change() as db:
        taken = accept_claims(db, Desk(annotator, "tab"), request, "gpt", share)[1]
    run.write_views()
    return taken


def step(run, again=False, annotator="ann"):
    with run.store.change() as db:
        return undo(db, Desk(annotator, "tab"), f"step-{uuid.uuid4()}", overlap=1, again=again)


def checked(run) -> list[str]:
    with run.store.look() as db:
        return [run.paths[item] for item in labels_of_check_items(db)]


def test_predictions_are_read_with_their_confidence(tmp_path):
    (tmp_path / "p.csv").write_text("path,label,confidence\na.png,cat,0.9\nb.png,,0.1\nc.png,dog,1\n")
    assert read_claims(tmp_path / "p.csv") == {"a.png": ("cat", 0.9), "c.png": ("dog", 1.0)}
    (tmp_path / "p.csv").write_text("file_name,class\na.png,cat\n")
    assert read_claims(tmp_path / "p.csv") == {"a.png": ("cat", None)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path,label,prob\na,cat,90\n", "row 1: expected a prob between 0 and 1, got '90'"),
        ("path,label,score\na,cat,high\n", "row 1: expected a score between 0 and 1, got 'high'"),
        ("path,label,prob\na,cat,0.5\nb,cat,\n", "expected a prob in every row that has a label"),
        ("name,label\na,cat\n", "expected a column path or"),
    ],
)
def test_what_is_no_prediction_is_refused(tmp_path, text, said):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_claims(tmp_path / "p.csv")
    with pytest.raises(InputError, match="got no file"):
        read_claims(tmp_path / "none.csv")


def test_predictions_are_measured_on_check_items_alone(run, shapes):
    """Right of every check item but one, wrong of everything else."""
    check = checked(run)
    wrong = {path: next(c for c in ("red", "green") if c != shapes.truth[path]) for path in shapes.truth}
    given = {path: (shapes.truth[path] if path in check[1:] else wrong[path], 0.5) for path in shapes.truth}
    assert import_claims(run, "gpt", {**given, "strange.png": ("red", 0.5)}) == (len(run.paths), ["strange.png"])
    found = look(run, standing_of, "gpt")
    assert found.measure is not None
    assert (found.measure["n"], found.measure["correct"]) == (10, 9)
    assert [(row["confidence"], row["claims"], row["n"]) for row in found.levels] == [(0.5, len(run.paths), 10)]
    assert sum(row["predicted"] for row in found.classes) == 10


def test_predictions_are_no_labels_and_the_newest_count(run, shapes):
    with run.store.look() as db:
        before = train_labels(db), labels_of_check_items(db)
        numbers = {c.name: c.id for c in shown_classes(db)}
    import_claims(run, "gpt", dict.fromkeys(shapes.truth, ("red", None)))
    import_claims(run, "gpt", dict.fromkeys(list(shapes.truth)[:3], ("blue", None)))
    with run.store.look() as db:
        assert (train_labels(db), labels_of_check_items(db)) == before
        assert names_of_claims(db) == ["gpt"]
        assert {claim.label for claim in claims_of(db, "gpt").values()} == {numbers["blue"]}
        assert len(claims_of(db, "gpt")) == 3
        assert claims_of(db, "nobody") == {}
        assert list(contradictions(db)) == []


def test_a_class_that_the_run_does_not_have_is_refused_and_nothing_taken(run, shapes):
    with pytest.raises(
        InputError, match="expected predictions of the run's classes, red, green, blue, grey, got 'pink'"
    ):
        import_claims(run, "gpt", {run.paths[0]: ("red", None), run.paths[1]: ("pink", None)})
    with run.store.look() as db:
        assert names_of_claims(db) == []


def test_only_what_check_items_show_is_trusted(run, shapes):
    """All ten check items are right: at 1 % a fifth, that is a share of 0.01 ** (1 / 10) or more, if all are as sure."""
    import_claims(run, "gpt", {path: (name, None) for path, name in shapes.truth.items()})
    found, claims = look(run, trusted_claims, "gpt", 0.7)
    assert found.low == pytest.approx(0.05 ** (1 / 10))  # one level, as all are equally sure
    assert len(claims) == len(run.paths)
    with pytest.raises(InputError, match=r"10 check items cannot show that 95% of any .*at least 90, all right"):
        look(run, trusted_claims, "gpt", 0.95)
    with pytest.raises(InputError, match="expected a share between 0 and 1"):
        look(run, trusted_claims, "gpt", 95)


def test_what_is_trusted_can_be_accepted_and_is_not_trained_on(run, shapes):
    import_claims(run, "gpt", {path: (name, None) for path, name in shapes.truth.items()})
    with run.store.look() as db:
        before = train_labels(db), labels_of_check_items(db)
        free = len(run.paths) - len(before[0]) - len(before[1])
    assert accept(run) == free
    assert accept(run, request="request-2") == 0
    with run.store.look() as db:
        assert (train_labels(db), labels_of_check_items(db)) == before
        assert list(contradictions(db)) == []
    text = (run.folder / "labels.csv").read_text(encoding="utf-8")
    assert text.count(",accepted,") >= free
    assert text.count(",gpt,") >= free  # picked_by


def test_what_was_accepted_is_undone_and_redone_in_one_step(run, shapes):
    import_claims(run, "gpt", {path: (name, None) for path, name in shapes.truth.items()})
    free = accept(run)
    counts = []
    for again in (None, False, True, False):
        if again is not None:
            assert len(step(run, again)["items"]) == free
        counts.append(look(run, accepted_claims).get("gpt", {}))
        assert look(run, lambda db: list(contradictions(db))) == []
        assert look(run, standing_of, "gpt").accepted == sum(counts[-1].values())
        assert look(run, precisions, run.folder) == []  # none of them was in a grid of the model's
    assert [sum(one.values()) for one in counts] == [free, 0, free, 0]
    assert look(run, standing_of, "gpt").levels[0]["free"] == free


def test_the_same_request_accepts_once(run, shapes):
    import_claims(run, "gpt", {path: (name, None) for path, name in shapes.truth.items()})
    accept(run)
    with pytest.raises(RepeatedError):
        accept(run)


def test_the_standing_says_what_could_be_accepted_and_the_account_has_it(run, shapes):
    """Of ten check items all are right, which shows 74 % and not 95 %."""
    import_claims(run, "gpt", {path: (name, None) for path, name in shapes.truth.items()})
    found = look(run, standing_of, "gpt")
    (row,) = found.levels
    assert row["at_least"] == pytest.approx(0.05 ** (1 / 10))
    assert (found.accepted, found.to_accept(), found.needed) == (0, None, 90)
    assert "no group of 48 predictions is shown to be 95 % right, which takes 90 check items" in in_a_sentence(found)
    told = json.loads(json.dumps(account_of(run).as_json()))["claims"]
    assert [(one["name"], one["claims"], one["levels"][0]["free"]) for one in told] == [("gpt", 48, row["free"])]


def test_predictions_of_a_class_that_was_taken_back_are_not_accepted(run, shapes):
    with run.store.change() as db:
        add_class(db, "add-pink", "ann", "pink")
    free = next(path for path in run.paths if path not in checked(run))
    given = {path: (name, None) for path, name in shapes.truth.items()}
    import_claims(run, "gpt", {**given, free: ("pink", None)})
    assert look(run, standing_of, "gpt").claims == len(run.paths)
    step(run)
    assert look(run, standing_of, "gpt").claims == len(run.paths) - 1
    assert accept(run) > 0


def test_a_name_without_predictions_accepts_nothing(run):
    with pytest.raises(InputError, match="nobody: 0 check items cannot show"):
        look(run, trusted_claims, "nobody", 0.7)
