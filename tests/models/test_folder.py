"""A learner's model as a folder, and what is said where that cannot be. (With ONNX: test_onnx.py.)"""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import askless as al
from askless.base.intervals import wilson
from askless.base.machine import versions
from askless.nets.cnn import SmallCNN

MADE_WITH = f"askless {versions(())['askless']}"


@pytest.fixture(scope="module")
def pool():
    return al.data.subset(al.data.digits(), 120)


def trained(pool, net, **options):
    learner = al.ActiveLearner(pool, net=net, learner=al.Supervised(steps=12), classes=10, **options)
    learner.start_balanced(1)
    learner.fit()
    return learner


@pytest.fixture(scope="module")
def learner(pool):
    return trained(pool, "small-cnn", strategy="margin")


def outside(pool, n=6):
    """Some images as a learner takes them, and as a model does."""
    x = pool.test[0][:n]
    return x, [np.asarray(image[0]) for image in x]


def test_a_network_by_name_comes_back_the_same(pool, learner, tmp_path):
    folder = learner.export(tmp_path / "out")
    assert {p.name for p in folder.iterdir()} == {
        *("model.safetensors", "config.json", "preprocess.json", "classes.txt", "README.md")
    }
    model = al.load(folder)
    x, images = outside(pool)
    np.testing.assert_allclose(model.predict_proba(images), learner.predict_proba(x), atol=1e-6)
    assert model.predict(images).tolist() == [str(y) for y in learner.predict(x)]


def test_the_card_tells_the_honest_measure(pool, learner, tmp_path):
    folder = learner.export(tmp_path / "out")
    right = int((learner.predict_test().argmax(axis=1) == pool.test[1]).sum())
    n = len(pool.test[1])
    low, high = wilson(right, n)
    card = (folder / "README.md").read_text()
    assert f"right on {right} of {n} held-out test items, accuracy {right / n:.3f}" in card
    assert f"interval {low:.3f} to {high:.3f}" in card
    for words in ("10 labelled and 110 unlabelled", "Supervised", "margin", MADE_WITH, "model.safetensors, sha256"):
        assert words in card, words
    config = json.loads((folder / "config.json").read_text())
    assert (config["net"], config["shape"], config["labels"], config["strategy"]) == (
        "small-cnn",
        [1, 8, 8],
        10,
        "margin",
    )
    assert json.loads((folder / "preprocess.json").read_text())["channels"] == "grey"
    assert config["date"] in card


def test_a_pool_without_test_items_is_not_measured(pool, tmp_path):
    plain = al.data.subset(al.data.digits(), 60)
    rows = plain.take(np.arange(60)).flatten(1).numpy().astype(np.float32) / 16
    learner = al.ActiveLearner(rows, net="linear", learner=al.Supervised(steps=10), classes=10)
    learner.tell(np.arange(20), plain.labels[:20])
    learner.fit()
    folder = learner.export(tmp_path / "out")
    assert "not measured" in (folder / "README.md").read_text()
    model = al.load(folder)
    np.testing.assert_allclose(model.predict_proba(rows[:5]), learner.predict_proba(rows[:5]), atol=1e-6)
    with pytest.raises(al.InputError, match="expected a row of 64 features"):
        model.predict([rows[0, :5]])


def test_frozen_features_and_a_hidden_layer_come_back_the_same(pool, tmp_path):
    frozen = al.Frozen(backbone="raw", size=6, hidden=8, weak=0, strong=0, cache=tmp_path / "cache")
    learner = trained(pool, frozen)
    model = al.load(learner.export(tmp_path / "out"))
    x, images = outside(pool)
    np.testing.assert_allclose(model.predict_proba(images), learner.predict_proba(x), atol=1e-5)


def test_a_module_of_ones_own_is_passed_again(pool, tmp_path):
    def make():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))

    learner = trained(pool, make())
    folder = learner.export(tmp_path / "out")
    assert "net=the_module" in (folder / "README.md").read_text()
    with pytest.raises(al.AsklessError, match=r"a module of your own; pass the module, as in load\(..., net=net\)"):
        al.load(folder)
    x, images = outside(pool)
    np.testing.assert_allclose(al.load(folder, net=make()).predict_proba(images), learner.predict_proba(x), atol=1e-6)
    with pytest.raises(al.AsklessError, match="description does not match its weights"):
        al.load(folder, net=nn.Linear(64, 10))


def test_tokens_are_taken_as_the_network_takes_them(tmp_path):
    tokens = np.random.default_rng(0).integers(0, 20, size=(30, 6))
    net = nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(24, 2))
    learner = al.ActiveLearner(tokens, net=net, learner=al.Supervised(steps=5), classes=2)
    learner.tell(np.arange(10), np.arange(10) % 2)
    learner.fit()
    model = al.load(learner.export(tmp_path / "out"), net=net)
    np.testing.assert_allclose(model.predict_proba(tokens[:3]), learner.predict_proba(tokens[:3]), atol=1e-6)


TEXTS = [f"{how} {what}" for how in ("a lovely", "a great", "an awful", "a poor") for what in ("day", "film", "song")]


def test_a_model_of_texts_comes_back_the_same(tmp_path):
    from askless.cli import main

    for net in ("frozen:tfidf", al.Frozen(backbone="tfidf", hidden=8)):
        learner = al.ActiveLearner(TEXTS, net=net, classes=["pos", "neg"], learner=al.Supervised(steps=10))
        learner.tell([0, 4, 7, 11], ["pos", "pos", "neg", "neg"])
        learner.fit()
        folder = learner.export(tmp_path / "out", overwrite=True)
        model = al.load(folder)
        assert model.kind == "text"
        new = ["a great song", "awful", "words that nobody knows"]
        np.testing.assert_allclose(model.predict_proba(new), learner.predict_proba(new), atol=1e-6)
    card = (folder / "README.md").read_text()
    assert "A text classifier" in card
    assert "a small network on the frozen features of tfidf" in card
    (tmp_path / "new.csv").write_text("text\na great song\nawful\n")
    with pytest.raises(SystemExit, match="0"):
        main(["predict", str(folder), str(tmp_path / "new.csv"), "--out", str(tmp_path / "said.csv")])
    said = [line.split(",")[1] for line in (tmp_path / "said.csv").read_text().splitlines()]
    assert said == ["label", *model.predict(["a great song", "awful"])]
    with pytest.raises(al.OptionError, match=r'cannot be written as ONNX: words are not numbers; .*to="model"'):
        learner.export(tmp_path / "onnx", to="onnx")
    assert not (tmp_path / "onnx").exists()


def test_label_propagation_is_exported_as_its_items(pool, tmp_path):
    frozen = al.Frozen(backbone="raw", weak=0, strong=0, cache=tmp_path / "cache")
    learner = al.ActiveLearner(pool, net=frozen, learner="label-propagation")
    learner.start_balanced(1)
    learner.fit()
    model = al.load(learner.export(tmp_path / "out"))
    assert (model.config["net"], model.config["options"]["items"]) == ("neighbours", 120)
    assert "the nearest labelled and unlabelled items" in (tmp_path / "out" / "README.md").read_text()
    x, images = outside(pool)
    np.testing.assert_allclose(model.predict_proba(images), learner.predict_proba(x), atol=2e-3)


def test_what_cannot_be_exported_says_why(pool, tmp_path):
    with pytest.raises(al.ModelError, match="has not been trained yet"):
        al.ActiveLearner(pool, net="linear", learner=al.Supervised(steps=5)).export(tmp_path / "out")
    body = nn.Sequential(nn.AvgPool2d(2), nn.Flatten())
    own = trained(pool, al.Frozen(backbone=body, weak=0, strong=0, cache=tmp_path / "cache"))
    with pytest.raises(al.OptionError, match='export with to="onnx"'):
        own.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["cache"]


def test_images_of_four_channels_are_not_called_grey(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (20, 4, 8, 8), dtype=np.uint8)
    learner = trained(al.data.as_pool((x, np.arange(20) % 10), kind="image", layout="chw"), "linear")
    with pytest.raises(al.InputError, match="expected images with 1 or 3 channels, as image files have, got 4"):
        learner.export(tmp_path / "out")


def test_a_network_that_comes_back_as_another_is_not_handed_out(learner, tmp_path, monkeypatch):
    from askless.models import folder as reading

    class Turned(SmallCNN):
        def forward(self, x):
            return -5 * super().forward(x)

    monkeypatch.setattr(reading.nets, "make", lambda name, classes, shape: Turned(shape, classes))
    with pytest.raises(al.ModelError, match=r"differ by .* from the model's; nothing was written"):
        learner.export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_model_is_told_what_one_is(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"no model")
    (tmp_path / "photos-run").mkdir()
    for name in ("photo.jpg", "photos"):
        with pytest.raises(
            al.ModelError, match=r"expected a run, the folder of an exported model, or an \.onnx file"
        ) as e:
            al.load(tmp_path / name)
    assert str(e.value).endswith(f"there is a run in {tmp_path / 'photos-run'}")


def test_nothing_that_is_there_is_lost(learner, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    with pytest.raises(al.InputError, match="got a folder with files; pass overwrite"):
        learner.export(tmp_path / "mine")
    with pytest.raises(al.InputError, match="expected an earlier export to overwrite, got a folder with other files"):
        learner.export(tmp_path / "mine", overwrite=True)
    with pytest.raises(al.InputError, match="got a file"):
        learner.export(tmp_path / "mine" / "diary.txt")
    with pytest.raises(al.OptionError, match="to must be one of model, onnx, got 'pickle'"):
        learner.export(tmp_path / "new", to="pickle")
    learner.export(tmp_path / "out")
    learner.export(tmp_path / "out", overwrite=True)
    assert (tmp_path / "mine" / "diary.txt").read_text() == "dear"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine", "out"]


def test_a_missing_package_names_the_extra(learner, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(al.ModelError, match=r"expected the package onnx, .*pip install 'askless\[onnx\]'"):
        learner.export(tmp_path / "out", to="onnx")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "model.onnx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(al.ModelError, match=r"pip install 'askless\[onnx\]'"):
        al.load(tmp_path / "model.onnx")


def test_using_an_onnx_model_imports_no_torch():
    code = "import sys, askless.models.onnx_run, askless; askless.load, askless.Run; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_weights_in_an_export_do_not_lead_out_of_its_folder(learner, tmp_path):
    folder = learner.export(tmp_path / "out")
    config = json.loads((folder / "config.json").read_text())
    config |= {"backbone": "timm/resnet18", "backbone_files": "../../elsewhere.safetensors"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(al.AsklessError):
        al.load(folder)


def test_grey_images_are_read_from_files(learner, pool, tmp_path):
    from PIL import Image

    x, images = outside(pool, 3)
    for i, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    model = al.load(learner.export(tmp_path / "out"))
    files = [tmp_path / f"{i}.png" for i in range(3)]
    np.testing.assert_allclose(model.predict_proba(files), learner.predict_proba(x), atol=1e-6)
    assert isinstance(x, torch.Tensor)
