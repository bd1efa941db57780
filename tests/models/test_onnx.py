"""ONNX files say what the network says, in onnxruntime; with torchvision, timm and Hugging Face behind them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import askless as al

pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("default")]


def pictures(n=24, side=40, seed=0):
    """(n, 3, side, side) noisy images of two colours, and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.integers(0, 120, (n, 3, side, side))
    x[:, :2] += 100 * (y[:, None] == np.arange(2))[:, :, None, None]
    return x.astype(np.uint8), y


def trained(net, **options):
    x, y = pictures()
    learner = al.ActiveLearner(x, net=net, learner=al.Supervised(steps=8, lr=0.01), classes=["red", "green"], **options)
    learner.tell(np.arange(12), y[:12])
    learner.fit()
    return learner


def check(learner, folder, atol=1e-4):
    """The exported model says of new images what the learner says; the file's own account of the comparison."""
    model = al.load(learner.export(folder, to="onnx"))
    x, _ = pictures(5, seed=1)
    probs = model.predict_proba(list(x.transpose(0, 2, 3, 1)))
    np.testing.assert_allclose(probs, learner.predict_proba(x), atol=atol)
    assert model.predict(list(x.transpose(0, 2, 3, 1))).dtype.kind == "U"
    return json.loads((folder / "config.json").read_text())["compared"]


def test_a_network_trained_from_scratch(tmp_path):
    import onnx

    compared = check(trained("small-cnn"), tmp_path / "out")
    assert compared["logits"] < 1e-4
    assert compared["items"] == 15
    proto = onnx.load(tmp_path / "out" / "model.onnx")
    onnx.checker.check_model(proto)
    told = {p.key: json.loads(p.value) for p in proto.metadata_props}
    assert told["classes"] == ["red", "green"]
    assert told["preprocess"]["size"] == [40, 40]
    assert [o.name for o in proto.graph.output] == ["logits", "probabilities"]
    (given,) = proto.graph.input
    sides = [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim]
    assert sides[1:] == [3, 40, 40]
    assert isinstance(sides[0], str)  # any number of images


def test_a_frozen_backbone_of_torchvision_is_inside(tmp_path):
    from askless.nets.optional import torchvision

    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch.save(torchvision().models.resnet18().state_dict(), tmp_path / "weights.pth")
    frozen = al.Frozen(
        **{"backbone": "torchvision/resnet18", "weights": tmp_path / "weights.pth", "size": 48},
        **{"weak": 0, "strong": 0, "cache": tmp_path / "cache"},
    )
    learner = trained(frozen)
    check(learner, tmp_path / "onnx", atol=2e-3)  # embeddings are kept in half precision
    (tmp_path / "weights.pth").unlink()
    model = al.load(learner.export(tmp_path / "model"))  # which has the backbone's weights inside
    x, _ = pictures(5, seed=1)
    np.testing.assert_allclose(model.predict_proba(list(x.transpose(0, 2, 3, 1))), learner.predict_proba(x), atol=1e-5)


def test_a_frozen_backbone_of_hugging_face_is_inside(tmp_path, tiny_vit):
    frozen = al.Frozen(backbone=f"hf/{tiny_vit}", weak=0, strong=0, cache=tmp_path / "cache")
    learner = trained(frozen)
    check(learner, tmp_path / "onnx", atol=2e-3)
    folder = learner.export(tmp_path / "model")
    tiny_vit.rename(tmp_path / "moved")
    x, _ = pictures(5, seed=1)
    probs = al.load(folder).predict_proba(list(x.transpose(0, 2, 3, 1)))
    np.testing.assert_allclose(probs, learner.predict_proba(x), atol=1e-5)


@pytest.fixture
def no_pooler(tiny_vit):
    """The same without the weights of its pooler, as of a model that was trained with another head."""
    from transformers import ViTModel

    ViTModel.from_pretrained(tiny_vit, add_pooling_layer=False).save_pretrained(tiny_vit)
    return tiny_vit


def test_a_pooler_that_was_never_trained_stays_out_of_an_export(tmp_path, no_pooler):
    from safetensors import safe_open

    learner = trained(al.Frozen(backbone=f"hf/{no_pooler}", weak=0, strong=0, cache=tmp_path / "cache"))
    folder = learner.export(tmp_path / "model")
    assert json.loads((folder / "config.json").read_text())["pooling"] == "mean"
    with safe_open(folder / "backbone" / "model.safetensors", "pt") as file:
        assert not [name for name in file.keys() if "pooler" in name]  # noqa: SIM118 - no mapping
    x, _ = pictures(5, seed=1)
    images = list(x.transpose(0, 2, 3, 1))
    np.testing.assert_allclose(al.load(folder).predict_proba(images), learner.predict_proba(x), atol=1e-5)


def test_the_exported_model_of_a_run_says_what_the_run_says(tmp_path, no_pooler):
    from askless.run import Run

    x, y = pictures(24)
    np.savez(tmp_path / "photos.npz", x=x.transpose(0, 2, 3, 1))
    options = {"budget": 12, "batch": 6, "steps": 20, "net": f"frozen:hf/{no_pooler}"}
    run = Run.create(tmp_path / "photos.npz", tmp_path / "run", classes=("a", "b"), **options)
    while not run.is_finished():
        while run.advance():
            pass
        run.tell({path: "ab"[y[run.paths.index(path)]] for path in run.waiting()})
    images = list(x.transpose(0, 2, 3, 1))
    want = al.load(run.folder).predict_proba(images)
    folder = run.export_model(tmp_path / "model")
    run.close()
    no_pooler.rename(tmp_path / "moved")
    np.testing.assert_allclose(al.load(folder).predict_proba(images), want, atol=1e-5)


def test_a_backbone_that_comes_back_as_another_is_never_written(tmp_path, tiny_vit, monkeypatch):
    from askless.models import folder as writing

    original = writing.copy_hf

    def other(features, place, folder):
        with torch.no_grad():
            features.net.layernorm.weight.zero_()  # so that all images look the same
        return original(features, place, folder)

    learner = trained(al.Frozen(backbone=f"hf/{tiny_vit}", weak=0, strong=0, cache=tmp_path / "cache"))
    monkeypatch.setattr(writing, "copy_hf", other)
    with pytest.raises(al.ModelError, match=r"differ by .* from the model's; nothing was written"):
        learner.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_module_of_ones_own_needs_no_code_any_more(tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
        net(torch.zeros(2, 3, 40, 40))
    check(trained(net), tmp_path / "out")


def test_features_and_tokens(tmp_path):
    rows = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    tokens = np.random.default_rng(0).integers(0, 20, size=(30, 6))
    for name, x, net in (
        ("rows", rows, "linear"),
        ("tokens", tokens, nn.Sequential(nn.Embedding(20, 4), nn.Flatten(), nn.Linear(24, 2))),
    ):
        learner = al.ActiveLearner(x, net=net, learner=al.Supervised(steps=5), classes=2)
        learner.tell(np.arange(10), np.arange(10) % 2)
        learner.fit()
        model = al.load(learner.export(tmp_path / name, to="onnx"))
        np.testing.assert_allclose(model.predict_proba(x[:7]), learner.predict_proba(x[:7]), atol=1e-5)


def test_a_file_that_says_something_else_is_never_written(tmp_path, monkeypatch):
    from askless.models import folder as writing

    original = writing.onnx_bytes

    def other(whole, items, name, told):
        with torch.no_grad():
            whole.network[-1].bias += 0.1
        try:
            return original(whole, items, name, told)
        finally:
            with torch.no_grad():
                whole.network[-1].bias -= 0.1

    learner = trained(nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(75, 2)))
    monkeypatch.setattr(writing, "onnx_bytes", other)
    with pytest.raises(al.ModelError, match=r"does not match the network: logits differ by .*nothing was written"):
        learner.export(tmp_path / "out", to="onnx")
    assert list(tmp_path.iterdir()) == []


def test_features_that_half_precision_cannot_hold_are_told(tmp_path):
    class Faint(nn.Module):
        def forward(self, x):
            return 1 + 1e-6 * nn.functional.avg_pool2d(x, 20).flatten(1)

    learner = trained(al.Frozen(backbone=Faint(), weak=0, strong=0, cache=tmp_path / "cache"))
    with torch.no_grad():
        learner.model.head.weight += 1  # so that it would matter
    with pytest.raises(al.ModelError, match=r"differ by .* from the model's; embeddings are stored in half precision"):
        learner.export(tmp_path / "out", to="onnx")


def test_a_network_that_cannot_be_traced_says_so(tmp_path):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(75, 2)

        def forward(self, x):
            x = nn.functional.avg_pool2d(x, 8).flatten(1)
            return self.head(x) if float(x.mean()) > -100 else self.head(2 * x)

    with pytest.raises(al.ModelError, match="the network cannot be written as ONNX"):
        trained(Odd()).export(tmp_path / "out", to="onnx")


def test_a_network_that_is_too_large_for_a_file_says_so(tmp_path, monkeypatch):
    class Large:
        class model_proto:
            producer_name = ""

            @staticmethod
            def SerializeToString():
                raise ValueError("Message onnx.ModelProto exceeds maximum protobuf size of 2GB: 2500000000")

    import onnx

    monkeypatch.setattr(torch.onnx, "export", lambda *given, **options: Large)
    monkeypatch.setattr(onnx.helper, "set_model_props", lambda proto, told: None)
    with pytest.raises(al.ModelError, match=r'exceeds maximum .*: one file holds 2 GB; export it with to="model"'):
        trained("linear").export(tmp_path / "out", to="onnx")
    assert list(tmp_path.iterdir()) == []


def test_damaged_and_foreign_files_are_refused(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    (tmp_path / "model.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(al.ModelError, match="expected an ONNX file, got another, or a damaged one"):
        al.load(tmp_path)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "model.onnx"
    )
    with pytest.raises(al.ModelError, match="expected an ONNX file written by askless"):
        al.load(tmp_path / "model.onnx")


def test_predicting_by_onnx_never_imports_torch(tmp_path):
    """A run's model and the command line, in a process in which torch cannot be imported."""
    from askless.run import Run

    x, y = pictures(40, side=24)
    (tmp_path / "photos").mkdir()
    for i, image in enumerate(x):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / "photos" / f"{i:02d}.png")
    run = Run.create(
        tmp_path / "photos", tmp_path / "run", classes=("a", "b"), budget=16, batch=8, net="frozen:raw", steps=30
    )
    while not run.is_finished():
        while run.advance():
            pass
        run.tell({path: "ab"[y[int(path[:2])]] for path in run.waiting()})
    folder = run.export_model(tmp_path / "onnx", to="onnx")
    assert "random check images, accuracy" in (folder / "README.md").read_text()
    files = sorted((tmp_path / "photos").iterdir())
    want = al.load(run.folder).predict_proba(files)
    run.close()
    np.testing.assert_allclose(al.load(folder / "model.onnx").predict_proba(files), want, atol=2e-3)
    (tmp_path / "photos" / "broken.png").write_bytes(b"no image")
    code = (
        "import sys; sys.modules['torch'] = None; from askless.cli import main; "
        f"main(['predict', {str(folder)!r}, {str(tmp_path / 'photos')!r}, '--out', {str(tmp_path / 'p.csv')!r}, "
        "'--probabilities'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "broken.png" in done.stderr
    assert "1 of 41 images could not be read" in done.stderr
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "path,label,prob,a,b"
    assert len(lines) == 41
    np.testing.assert_allclose([float(line.split(",")[3]) for line in lines[1:]], want[:, 0], atol=2e-3)
