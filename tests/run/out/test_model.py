import json
import pickle
import shutil

import numpy as np
import pytest
from PIL import Image

import askless
from askless.base.errors import AsklessError, InputError, ModelError
from askless.models import load
from askless.run import Run


@pytest.fixture(scope="module")
def own_network(shapes, tmp_path_factory):
    run = shapes.start(
        tmp_path_factory.mktemp("cnn") / "run",
        **{
            "net": "small-cnn",
            "size": 16,
            "learner": "supervised",
            "steps": 6,
            "budget": 12,
            "batch": 12,
            "check": 0.0,
        },
    )
    shapes.finish(run)
    return run


@pytest.fixture(scope="module")
def on_features(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    y = np.arange(40) % 2
    rows = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32) + 4 * y[:, None]
    np.savez(folder / "rows.npz", X=rows)
    run = Run.create(folder / "rows.npz", folder / "run", classes=("a", "b"), budget=10, batch=10, check=0.0, steps=20)
    while run.advance() is not None or run.waiting():
        run.tell({path: "ab"[y[int(path)]] for path in run.waiting()})
    return run, rows


@pytest.fixture
def copy(finished, tmp_path):
    """A copy of a model that may be damaged."""
    return shutil.copytree(finished.folder / "model", tmp_path / "model")


def says_the_same(run, model, inputs):
    probs = model.predict_proba(inputs)
    assert probs.shape == (len(inputs), len(model.classes_))
    assert probs.sum(axis=1) == pytest.approx(1)
    np.testing.assert_allclose(probs, run.predictions().probs, atol=2e-3)  # which are kept in half precision
    assert (model.predict(inputs) == model.classes_[probs.argmax(axis=1)]).all()


@pytest.mark.parametrize("which", ["finished", "own_network"])
def test_the_model_says_of_files_what_the_run_says(request, shapes, which):
    run = request.getfixturevalue(which)
    model = load(run.folder)
    assert model.classes_.tolist() == ["red", "green", "blue", "grey"]
    says_the_same(run, model, [shapes.folder / path for path in run.paths])


def test_the_model_says_of_rows_what_the_run_says(on_features):
    run, rows = on_features
    says_the_same(run, load(run.folder), list(rows))


def test_a_model_on_features_takes_rows_only(on_features, tmp_path):
    run, rows = on_features
    model = load(run.folder)
    for given in (tmp_path / "photo.jpg", "photo.jpg", rows[0, :4], np.zeros((8, 8, 3), np.uint8)):
        with pytest.raises(InputError, match="expected a row of 5 features"):
            model.predict([given])
    with pytest.raises(InputError, match="NaN"):
        model.predict([rows[0] * np.nan])
    np.save(tmp_path / "rows.npy", rows[:3])
    assert [name for name, _ in model.items_in(tmp_path / "rows.npy")[0]] == ["0", "1", "2"]


def test_the_model_takes_arrays_and_files_alike(finished, shapes):
    model = load(finished.folder)
    files = [shapes.folder / path for path in finished.paths[:5]]
    arrays = [np.asarray(Image.open(file).convert("RGB")) for file in files]
    np.testing.assert_allclose(model.predict_proba(arrays), model.predict_proba(files), atol=1e-6)


def test_the_model_works_on_new_pictures(finished, tmp_path):
    sizes = [(32, 32), (64, 64), (200, 90), (7, 31)]
    files = []
    for i, size in enumerate(sizes):
        files.append(tmp_path / f"{i}.png")
        Image.new("RGB", size, (200 - 40 * i, 40, 50 * i)).save(files[-1])
    grey = tmp_path / "grey.jpg"
    Image.new("L", (20, 20), 99).save(grey)
    model = askless.load(finished.folder)
    assert set(model.predict([*files, grey, str(files[0])])) <= set(model.classes_)
    assert len(model.predict([])) == 0
    assert model.predict_proba([]).shape == (0, 4)


def test_the_model_can_be_taken_elsewhere(copy, finished, shapes):
    files = [shapes.folder / path for path in finished.paths]
    np.testing.assert_allclose(load(copy).predict_proba(files), load(finished.folder).predict_proba(files))


def test_nothing_is_unpickled(copy, shapes, monkeypatch):
    import torch

    def refuse(*args, **options):
        raise AssertionError("unpickled")

    for module, name in ((pickle, "loads"), (pickle, "load"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    assert len(load(copy).predict([shapes.folder / sorted(shapes.truth)[0]])) == 1


def test_the_files_of_a_model_are_open(finished):
    from safetensors.numpy import load_file

    folder = finished.folder / "model"
    assert {p.name for p in folder.iterdir()} == {
        *("model.safetensors", "config.json", "preprocess.json", "classes.txt", "README.md", "files.json")
    }
    tensors = load_file(folder / "model.safetensors")
    assert tensors["features.mean"].shape == tensors["features.scale"].shape == (16 * 16 * 3,)
    assert (folder / "classes.txt").read_text() == "red\ngreen\nblue\ngrey\n"
    card = (folder / "README.md").read_text()
    assert "red, green, blue, grey" in card
    config = json.loads((folder / "config.json").read_text())
    assert (config["labels"], config["backbone"], config["learner"]) == (16, "raw", "auto")


def test_a_run_without_a_model_says_so(shapes, tmp_path):
    run = shapes.start(tmp_path / "run")
    with pytest.raises(ModelError, match="no model here yet"):
        load(run.folder)
    run.close()


@pytest.mark.parametrize("name", ["config.json", "preprocess.json", "model.safetensors"])
@pytest.mark.parametrize("damage", ["missing", "empty", "half", "other", "list"])
def test_damaged_files_give_clean_errors(copy, name, damage):
    file = copy / name
    if damage == "missing":
        file.unlink()
    elif damage == "half":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    else:
        file.write_bytes({"empty": b"", "other": b"{}", "list": b"[]"}[damage])
    with pytest.raises(AsklessError, match="model"):
        load(copy)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("classes", ["a", "b"]),
        ("classes", "red"),
        ("net", "nonsense"),
        ("shape", [3]),
        ("backbone", "nonsense"),
        ("backbone", None),
    ],
)
def test_a_description_that_does_not_fit_the_weights_is_refused(copy, key, value):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(AsklessError):
        load(copy)


def test_a_damaged_picture_is_told_by_its_name(finished, tmp_path):
    from askless.sources import UnreadableError

    file = tmp_path / "bad.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    with pytest.raises((UnreadableError, InputError)):
        load(finished.folder).predict([file])
    with pytest.raises((UnreadableError, InputError)):
        load(finished.folder).predict([tmp_path / "nowhere.png"])


def test_the_final_model_has_learnt_from_the_check_images_and_says_what_was_measured_before(finished, shapes, tmp_path):
    plain, final = (finished.export_model(tmp_path / name, final=name == "final") for name in ("plain", "final"))
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (plain, final))
    check = before["measure"]["n"]
    assert check > 0
    assert after["labels"] == before["labels"] + check
    assert {k: v for k, v in after["measure"].items() if k != "on"} == {
        k: v for k, v in before["measure"].items() if k != "on"
    }
    assert after["measure"]["on"] == "random check images before it was trained on them too"
    assert "check images before it was trained on them too, accuracy" in (final / "README.md").read_text()
    path = shapes.folder / sorted(shapes.truth)[0]
    one, two = (load(folder).predict_proba([path]) for folder in (plain, final))
    assert not np.allclose(one, two)


def test_a_final_model_of_features_and_none_before_the_first(on_features, shapes, tmp_path):
    run = on_features[0]
    config = json.loads((run.export_model(tmp_path / "out", final=True) / "config.json").read_text())
    assert config["labels"] == json.loads((run.folder / "model" / "config.json").read_text())["labels"]
    with shapes.start(tmp_path / "run") as new, pytest.raises(AsklessError, match="no model yet"):
        new.export_model(tmp_path / "none", final=True)


def test_a_final_model_needs_what_was_read_of_the_images(finished, tmp_path):
    folder = shutil.copytree(finished.folder, tmp_path / "run")
    about = folder / "cache" / "material.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": 1}))
    for damage in (lambda: None, lambda: shutil.rmtree(folder / "cache")):
        damage()
        with (
            Run.open(folder) as run,
            pytest.raises(AsklessError, match="are missing, or an earlier askless made them"),
        ):
            run.export_model(tmp_path / "out", final=True)
