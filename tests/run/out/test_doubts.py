"""The doubtful labels of a run: by the other labels, and by the model where there are no features."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from askless.cli import app
from askless.run import Run
from askless.run.out.doubts import doubts_of
from askless.run.store.answering import Given, answer
from askless.run.store.asking import Desk
from askless.run.store.store import count_events


@pytest.fixture
def flipped(finished, tmp_path):
    """A finished run in which one label was changed to a wrong class, and a model trained on that."""
    run = Run.open(shutil.copytree(finished.folder, tmp_path / "run"))
    with run.store.look() as db:
        item = db.execute("SELECT item FROM answer JOIN task USING (item) WHERE kind = 'train'").fetchone()[0]
    name = run.paths[item].split("/")[1].split("-")[0]
    wrong = run.settings.classes.index("blue" if name != "blue" else "red")
    with run.store.change() as db:
        answer(db, Desk("tell", "tab"), "wrong-label", [item], Given(wrong), overlap=1, change=True)
    while run.advance():
        pass
    yield run, item, name
    run.close()


def look(run):
    with run.store.look() as db:
        return doubts_of(db, run.folder)


def test_a_wrong_label_stands_out_against_the_others(flipped):
    run, item, name = flipped
    found = look(run)
    assert found.by == "labels"
    assert found.found[0].item == item
    assert run.settings.classes[found.found[0].label] != name
    assert found.found[0].said != found.found[0].label
    assert found.scores[item] == found.found[0].score > 0.5


def test_status_and_report_tell_the_same_doubtful_labels_as_the_page(flipped):
    run, item, _ = flipped
    n, suggested = len(look(run).found), run.settings.classes[look(run).found[0].said]
    said = CliRunner().invoke(app, ["status", str(run.folder)])
    assert f"Doubtful labels: {n}; check them on the page, under Review" in " ".join(said.output.split())
    assert json.loads(CliRunner().invoke(app, ["status", "--json", str(run.folder)]).output)["doubtful"] == n
    run.write_report()
    first = json.loads((run.folder / "report.json").read_text())["problems"]["suspicious"][0]
    assert (first["item"], first["reason"]) == (item, f"the other labels suggest {suggested}")


def test_without_features_the_model_is_asked_and_without_a_model_nobody(flipped):
    run, _, _ = flipped
    (run.folder / "cache" / "embeddings.npy").unlink()
    assert look(run).by == "model"
    for folder in (run.folder / "rounds").iterdir():
        (folder / "predictions.npz").unlink(missing_ok=True)
    assert look(run).by is None


def test_damaged_features_are_no_reason_to_fail(flipped):
    run, _, _ = flipped
    (run.folder / "cache" / "embeddings.npy").write_bytes(b"\x93NUMPY damaged")
    assert look(run).by == "model"


def test_looking_again_changes_nothing_in_the_run(flipped):
    run, _, _ = flipped
    with run.store.look() as db:
        before = count_events(db)
    look(run)
    with run.store.look() as db:
        assert count_events(db) == before
