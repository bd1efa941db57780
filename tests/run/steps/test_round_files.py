"""Files of a fit and of the cache that are missing or damaged: noticed, said, and made again."""

import shutil
from pathlib import Path

import pytest

from askless.base.errors import ModelError
from askless.models import load
from askless.run import Run, RunError
from askless.run.out.export import export_run
from askless.run.out.gather import account_of
from askless.run.steps.round_files import FILES, damage_of_fit, files_in, is_cache_whole, read_map, round_folder

QUICK = {"budget": 14, "batch": 4, "check": 0.3, "steps": 3}
DAMAGES = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(b"\x93NUMPY PK\x03\x04 {not json}\xff" * 30),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.fixture(scope="module")
def two_rounds(shapes, tmp_path_factory) -> Path:
    """A run in its third round, with all check images labelled, two models, and a batch out."""
    folder = tmp_path_factory.mktemp("rounds") / "run"
    with shapes.start(folder, **QUICK) as run:
        while run.advance():
            pass
        shapes.tell(run)
        while run.advance():
            pass
        shapes.tell(run)
        while run.advance():
            pass
    return folder


@pytest.fixture
def folder(two_rounds, tmp_path) -> Path:
    shutil.copytree(two_rounds, tmp_path / "run")
    return tmp_path / "run"


def parts(folder: Path) -> list[str]:
    """All files of the last fit."""
    places = (round_folder(folder, 2), folder / "model")
    return [path.relative_to(folder).as_posix() for place in places for path in files_in(place)]


def test_every_file_of_a_fit_is_noticed_whatever_happened_to_it(folder):
    assert damage_of_fit(folder, 1, last=False) is damage_of_fit(folder, 2) is None
    names = parts(folder)
    assert {"rounds/002/predictions.npz", "rounds/002/picked.csv", "model/model.safetensors"} <= set(names)
    for name in names:
        path = folder / name
        content = path.read_bytes()
        for kind, damage in DAMAGES.items():
            damage(path)
            found = damage_of_fit(folder, 2)
            if (
                kind == "missing" and path.name == FILES
            ):  # as an earlier version left it: the files themselves are looked at
                assert found is None
            else:
                assert found is not None, (name, kind)
                assert str(folder) in found
            path.write_bytes(content)
    shutil.rmtree(folder / "model")
    assert "is missing" in damage_of_fit(folder, 2)
    assert damage_of_fit(folder, 2, last=False) is None
    shutil.rmtree(round_folder(folder, 1))
    assert "is missing" in damage_of_fit(folder, 1, last=False)


def test_without_the_list_of_files_what_cannot_be_read_is_noticed(folder):
    for place in (round_folder(folder, 2), folder / "model"):
        (place / FILES).unlink()
    assert damage_of_fit(folder, 2) is None
    for name in ("predictions.npz", "metrics.json", "learner/learner.json", "net", "../../model/model.safetensors"):
        place = round_folder(folder, 2)
        path = next((place / "learner").glob("net-*")) if name == "net" else place / name
        content = path.read_bytes()
        for damage in DAMAGES.values():
            damage(path)
            assert damage_of_fit(folder, 2) is not None, name
            path.write_bytes(content)


def test_a_fit_is_read_once_while_nothing_changes(folder, monkeypatch):
    assert damage_of_fit(folder, 2) is None
    monkeypatch.setattr("askless.run.steps.round_files.damage_of_folder", lambda place: "read again")
    assert damage_of_fit(folder, 2) is None
    (folder / "model" / "config.json").touch()
    assert damage_of_fit(folder, 2) == "read again"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("predictions.npz", kind) for kind in DAMAGES),
        *(("learner/learner.json", "cut"), ("../../model/model.safetensors", "zeros"), ("metrics.json", "empty")),
    ],
)
def test_labels_do_not_need_the_model_and_a_damaged_one_is_trained_again(folder, tmp_path, name, kind, shapes):
    with Run.open(folder) as run:
        whole = account_of(run)
        assert run.next_step() is None
    DAMAGES[kind](round_folder(folder, 2) / name)
    with Run.open(folder) as run:
        found = account_of(run)
        assert "The model of round 2 is damaged (" in found.advice.text
        assert found.advice.text.endswith("); askless will train it again.")
        assert "the model of round 2 is damaged" in found.advice.reasons[-1]
        assert found.progress == whole.progress
        exported = export_run(run, "csv", tmp_path / "labels.csv", what="human+model")
        assert exported.labels == whole.progress.spent
        if name == "predictions.npz":
            with pytest.raises(
                RunError, match=r"cannot be read \(.*\); the model of round 2 is damaged; askless will train it again"
            ):
                run.predictions()
            assert (exported.pseudo, found.curve[-1].n) == (0, 0)
            assert exported.notes[-1].startswith(
                "The model's predictions are left out: the model of round 2 is damaged"
            )
        if "model" not in name:  # that of the run is whole
            run.export_model(tmp_path / "whole")
        else:
            with pytest.raises(
                ModelError, match=r"the model of the run is damaged \(.*\); `askless start .*` trains it again"
            ):
                load(folder)
        assert run.write_report().is_file()
        run.write_views()
        assert "damaged" in (folder / "report.html").read_text(encoding="utf-8")
        waiting = run.waiting()
        assert run.advance() == "training"
        assert run.advance() is None
        assert run.waiting() == waiting
        assert account_of(run).advice == whole.advice
        run.export_model(tmp_path / "model")
        shapes.finish(run)
        assert run.is_finished()


def test_a_round_is_trained_without_the_one_before_where_that_is_damaged(folder, shapes):
    shutil.rmtree(round_folder(folder, 1))
    (round_folder(folder, 2) / "predictions.npz").write_bytes(b"")
    with Run.open(folder) as run:
        shapes.tell(run)
        assert shapes.finish(run)[:2] == ["closing", "training"]
        found = account_of(run)
    assert [point.n > 0 for point in found.curve][:3] == [False, False, True]
    assert found.curve[2].change is None
    said = [text for text in found.advice.reasons if "damaged" in text]
    assert said == [
        f"the predictions of round {number} are damaged, so their accuracy is not measured" for number in (1, 2)
    ]


def test_a_damaged_model_of_a_finished_run_is_trained_again(finished, tmp_path):
    shutil.copytree(finished.folder, tmp_path / "run")
    (tmp_path / "run" / "model" / "model.safetensors").write_bytes(b"")
    with Run.open(tmp_path / "run") as run:
        assert not run.is_finished()
        assert run.advance() == "training"
        while run.advance():
            pass
        assert run.is_finished()
    assert len(load(tmp_path / "run").classes_) == 4


def test_without_labels_of_two_classes_a_damaged_model_is_no_reason_to_stop(folder):
    with Run.open(folder) as run:
        (round_folder(folder, 2) / "predictions.npz").unlink()
        with run.store.change() as db:
            db.execute("DELETE FROM answer")
            db.execute("DELETE FROM task WHERE state = 'open'")
        assert [run.advance() for _ in range(2)] == ["closing", "choosing"]


@pytest.mark.parametrize("name", ["material.json", "embeddings.npy", "tiny.npy", "map.npy"])
def test_a_damaged_cache_is_made_again(folder, name, shapes):
    path = folder / "cache" / name
    listed = {"a list": lambda path: path.write_text("[]")} if name == "material.json" else {}
    for kind, damage in {**DAMAGES, **listed}.items():
        damage(path)
        assert is_cache_whole(folder / "cache") == (name == "map.npy"), kind
        assert (read_map(folder / "cache", len(shapes.truth)) is None) == (name == "map.npy"), kind
        with Run.open(folder) as run:
            assert run.advance() == ("comparing" if name == "map.npy" else "embedding"), kind
            assert run.advance() is None
    assert is_cache_whole(folder / "cache")


def test_the_backbone_of_texts_belongs_to_the_cache(tmp_path):
    texts = [f"{'good fine nice' if i % 2 else 'bad poor awful'} day number{i % 5} word{i}" for i in range(30)]
    (tmp_path / "texts.csv").write_text("text\n" + "\n".join(texts) + "\n")
    with Run.create(tmp_path / "texts.csv", tmp_path / "run", classes=("a", "b"), budget=8, batch=4) as run:
        assert run.advance() == "embedding"
        for name in ("backbone.json", "backbone.safetensors"):
            path = tmp_path / "run" / "cache" / "text" / name
            for damage in DAMAGES.values():
                damage(path)
                assert not is_cache_whole(tmp_path / "run" / "cache")
                assert run.advance() == "embedding"
                assert is_cache_whole(tmp_path / "run" / "cache")


def test_a_model_that_is_made_again_learns_from_the_labels_of_then(folder, shapes):
    """Answers of the batch that is out belong to the next round."""
    with Run.open(folder) as run:
        before = [point.labels for point in account_of(run).curve]
        first, *_ = run.waiting()
        run.tell({first: shapes.truth[first]})
    DAMAGES["cut"](round_folder(folder, 2) / "predictions.npz")
    with Run.open(folder) as run:
        assert run.advance() == "training"
        assert [point.labels for point in account_of(run).curve] == before
