"""A run on texts, from the table to the report, the export and new texts."""

import csv
import json
import shutil

import numpy as np
import pytest

import askless as al
from askless.base.errors import InputError, OptionError
from askless.cli import main
from askless.run import Run
from askless.run.out.export import export_run
from askless.run.steps.index import scan

from ..texts import reviews, truth_of, write_csv

QUICK = {"classes": ("pos", "neg"), "budget": 30, "batch": 12, "steps": 40}


def finish(run: Run) -> Run:
    while not run.is_finished():
        while run.advance():
            pass
        waiting = run.waiting()
        texts = dict(zip(run.paths, run.texts().values(), strict=True))
        run.tell({path: truth_of(texts[path]) for path in waiting})
    return run


def command(*words: object) -> None:
    with pytest.raises(SystemExit) as done:
        main([str(word) for word in words])
    assert done.value.code in (0, None)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = reviews(140)
    rows = [[text, "web"] for text, _ in made]
    rows[3][0] = "<b>lovely & great</b> " + rows[3][0]
    rows += [["", "web"], [rows[0][0].upper().replace(" ", "  "), "app"]]
    return write_csv(tmp_path_factory.mktemp("reviews") / "reviews.csv", ["review", "source"], rows)


@pytest.fixture(scope="module")
def finished(table, tmp_path_factory):
    run = finish(Run.create(table, tmp_path_factory.mktemp("run") / "run", text="review", **QUICK))
    yield run
    run.close()


def test_a_run_on_texts_goes_to_a_good_model(finished):
    assert finished.kind == "texts"
    assert finished.settings.net in ("frozen:tfidf", "frozen:tfidf+minilm")  # the latter where the extra is installed
    assert finished.settings.text == "review"
    assert not finished.pictures.has_pictures
    with (finished.folder / "skipped.csv").open() as file:
        found = [row for row in csv.reader(file) if row[1] != "look-alike"]
    assert found[1:] == [["141", "unreadable", "an empty text"], ["142", "duplicate", "the same text as 1"]]
    new = reviews(100, seed=1)
    model = al.load(finished.folder)
    predicted = model.predict([text for text, _ in new])
    assert (predicted == [name for _, name in new]).mean() > 0.85
    assert model.predict_proba([]).shape == (0, 2)
    with pytest.raises(InputError, match="expected a text, as in the run, got int"):
        model.predict([5])


def test_the_features_are_fitted_without_what_measures(finished):
    """A word that only held-out texts have is not in the vocabulary."""
    about = json.loads((finished.folder / "model" / "text" / "backbone.json").read_text())
    held = finished.readable("check", "reserve").tolist()
    own = {word for text in finished.texts(held).values() for word in text.split() if word.startswith("unique")}
    assert own
    assert not own & set(about["words"])


def test_labels_come_with_their_texts(finished, tmp_path):
    with (finished.folder / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert all(row["label"] == truth_of(row["review"]) and row["source"] == "web" for row in rows)
    result = export_run(finished, "csv", tmp_path / "out.csv", what="human+model")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert all(row["review"] for row in csv.DictReader(file))
    assert result.pseudo > 50
    for to in ("imagefolder", "coco", "npz", "hf"):
        with pytest.raises(OptionError, match=f"{to} is for images; texts go to csv, jsonl, parquet"):
            export_run(finished, to, tmp_path / "x")


def test_the_report_speaks_of_texts_and_escapes_them(finished):
    page = finished.write_report().read_text()
    assert "<blockquote" in page
    assert "<b>lovely" not in page
    assert "check texts" in page
    assert "check image" not in page
    facts = json.loads((finished.folder / "report.json").read_text())
    assert facts["data"]["noun"] == "text"
    assert "tfidf" in facts["model"]["architecture"]


def test_a_run_goes_on_when_its_table_and_its_cache_are_gone(table, tmp_path):
    import shutil

    own = shutil.copy(table, tmp_path / "own.csv")
    run = Run.create(own, tmp_path / "run", text="review", **QUICK)
    while run.advance():
        pass
    first = run.waiting()
    before = np.load(run.folder / "cache" / "embeddings.npy")
    (tmp_path / "own.csv").unlink()
    run.close()
    shutil.rmtree(run.folder / "cache")
    with Run.open(run.folder) as again:
        assert again.advance() == "embedding"
        assert (np.load(run.folder / "cache" / "embeddings.npy") == before).all()
        assert again.waiting() == first
        finish(again)


def test_predict_reads_a_new_table_and_lists_what_it_cannot(finished, tmp_path, capsys):
    new = reviews(12, seed=2)
    given = write_csv(tmp_path / "new.csv", ["id", "body"], [[f"r{i}", text] for i, (text, _) in enumerate(new)])
    with given.open("ab") as file:
        file.write(b"r99,\xff\xfe\n")
    out = tmp_path / "predictions.csv"
    command("predict", finished.folder, given, "--text", "body", "--out", out, "--probabilities")
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [f"r{i}" for i in range(12)]
    assert np.mean([row["label"] == name for row, (_, name) in zip(rows, new, strict=True)]) > 0.7
    assert abs(float(rows[0]["pos"]) + float(rows[0]["neg"]) - 1) < 1e-3
    said = capsys.readouterr().err
    assert "r99: not valid utf-8" in said
    assert "1 of 13 texts could not be read" in said
    command("predict", finished.folder, given, "--out", out, "--overwrite")  # the only column that can be meant


def test_known_labels_and_folders_of_texts(tmp_path):
    for i, (text, name) in enumerate(reviews(30)):
        (tmp_path / "texts" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / name / f"{i}.txt").write_text(text)
    index = scan(tmp_path / "texts", labels_from_folders=True)
    assert index.kind == "texts"
    assert index.classes == ("neg", "pos")
    assert {item.id.split("/")[0] for item in index.items if item.label == "pos"} == {"pos"}
    notes = []
    options = {"labels_from_folders": True, "budget": 10, "notes": notes.append}
    with Run.create(tmp_path / "texts", tmp_path / "run", **options):
        assert notes == ["30 labels were already known."]


def test_networks_for_images_are_refused(table, tmp_path):
    with pytest.raises(
        OptionError, match=r"texts need .*, frozen:tfidf, .*, frozen:tfidf\+minilm or frozen:hf/FOLDER, got 'small-cnn'"
    ):
        Run.create(table, tmp_path / "run", text="review", net="small-cnn")
    assert not (tmp_path / "run").exists()
    np.savez(tmp_path / "x.npz", X=np.zeros((4, 8, 8, 3), np.uint8) + np.arange(4, dtype=np.uint8)[:, None, None, None])
    with pytest.raises(OptionError, match="frozen:tfidf is for texts"):
        Run.create(tmp_path / "x.npz", tmp_path / "run", net="frozen:tfidf")


def test_the_names_of_backbones_are_those_that_there_are():
    from askless.features import text_backbone
    from askless.run import settings

    assert settings.TEXT_BACKBONES == text_backbone.TEXT_BACKBONES


def test_the_doctor_does_not_look_for_the_table(finished, capsys):
    command("doctor", finished.folder)
    assert "texts of the run" in " ".join(capsys.readouterr().out.split())


def test_a_model_is_trained_again_when_its_texts_were_embedded_again(table, tmp_path):
    """Another version of askless may make other features of them: what the last one trained does not fit those."""
    with Run.create(table, tmp_path / "run", text="review", **QUICK) as run:
        finish(run)
    shutil.rmtree(tmp_path / "run" / "cache")
    with Run.open(tmp_path / "run") as run:
        run.set_budget("more", "ann", 40)
        steps = [run.advance() for _ in range(4)]
        assert steps == ["embedding", "comparing", "training", "choosing"]
        finish(run)
