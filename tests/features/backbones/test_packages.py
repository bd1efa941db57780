"""Backbones of torchvision, timm and Hugging Face against what those packages do themselves."""

import json
import shutil
import traceback

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import askless as al
from askless.features.backbones.hugging_face import hf_images, hf_texts
from askless.features.backbones.images import timm_by_name, torchvision_by_name
from askless.features.frozen import Frozen, frozen_views
from askless.features.text_backbone import embed_texts, load_text_backbone, text_backbone
from askless.nets import make
from askless.nets.optional import last_linear, timm_package, torchvision

pytestmark = [pytest.mark.ecosystem, pytest.mark.filterwarnings("default")]


def images(n=2, side=224, seed=0):
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def drawn(build):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build().eval()


# --- torchvision and timm


@pytest.mark.parametrize(
    "name", ["resnet18", "vit_tiny_patch16_224", "convnext_atto", "efficientnet_b0", "mixer_s32_224"]
)
def test_a_backbone_of_timm_gives_what_timm_gives_to_its_head(name, tmp_path):
    timm = timm_package()
    net = drawn(lambda: timm.create_model(name))
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    backbone = timm_by_name(name, None, tmp_path)
    config = timm.data.resolve_data_config({}, model=net)
    assert backbone.size == config["input_size"][-1]
    x = images(side=backbone.size)
    mean, std = (torch.tensor(config[k])[None, :, None, None] for k in ("mean", "std"))
    with torch.no_grad():
        want = net.forward_head(net.forward_features((x / 255 - mean) / std), pre_logits=True)
    torch.testing.assert_close(backbone.embed(x), want, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "densenet121"])
def test_a_backbone_of_torchvision_gives_what_its_last_layer_gets(name, tmp_path):
    models = torchvision().models
    net = drawn(lambda: models.get_model(name))
    torch.save({"state_dict": net.state_dict()}, tmp_path / "weights.pth")
    backbone = torchvision_by_name(name, None, tmp_path / "weights.pth")
    preset = models.get_model_weights(name).DEFAULT.transforms()
    assert backbone.size == preset.crop_size[0]
    x = images(side=backbone.size)
    seen = []
    last = [m for m in net.modules() if isinstance(m, torch.nn.Linear)][-1]
    last.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        mean, std = (torch.tensor(v)[None, :, None, None] for v in (preset.mean, preset.std))
        net((x / 255 - mean) / std)
    torch.testing.assert_close(backbone.embed(x), seen[0], atol=1e-4, rtol=1e-3)


def published(name, home, content):
    """Puts a file where torchvision keeps the weights that it has downloaded."""
    folder = home / "hub" / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(content, folder / torchvision().models.get_model_weights(name).DEFAULT.url.rpartition("/")[2])


def test_code_in_downloaded_weights_is_never_run(tmp_path, monkeypatch, capfd):
    class Evil:
        def __reduce__(self):
            return (print, ("RAN",))

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    published("resnet18", tmp_path, {"x": Evil()})
    for load in (
        lambda: torchvision_by_name("resnet18", None),
        lambda: make("torchvision/resnet18", classes=3, shape=(3, 32, 32), weights="DEFAULT"),
    ):
        with pytest.raises(al.ModelError, match="expected only tensors, got a file that runs code when loaded"):
            load()
    assert "RAN" not in capfd.readouterr().out


@pytest.mark.parametrize("name", ["resnet18", "densenet121", "googlenet", "mnasnet1_0"])
def test_downloaded_weights_give_what_torchvision_makes_of_them(name, tmp_path, monkeypatch):
    models = torchvision().models
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    options = {"aux_logits": True, "init_weights": False} if name == "googlenet" else {}
    state = drawn(lambda: models.get_model(name, **options)).state_dict()
    if name == "densenet121":  # as they are published
        state = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
        state = {k.replace(".norm1.", ".norm.1.").replace(".conv2.", ".conv.2."): v for k, v in state.items()}
    published(name, tmp_path, state)
    backbone = torchvision_by_name(name, None)
    with torch.no_grad():
        net = models.get_model(name, weights="DEFAULT").eval()
        net.set_submodule(last_linear(name, net), torch.nn.Identity())
        x = images(side=backbone.size)
        preset = models.get_model_weights(name).DEFAULT.transforms()
        mean, std = (torch.tensor(v)[None, :, None, None] for v in (preset.mean, preset.std))
        want = net((x / 255 - mean) / std)
    torch.testing.assert_close(backbone.embed(x), want, atol=1e-4, rtol=1e-3)
    save_file(backbone.module.body.state_dict(), tmp_path / "copy.safetensors")  # as an exported model has them
    torch.testing.assert_close(torchvision_by_name(name, None, tmp_path / "copy.safetensors").embed(x), want)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("timm/resnet18", (1, 32, 32)),
        ("timm/vit_tiny_patch16_224", (3, 32, 32)),
        ("timm/mixer_s16_224", (3, 32, 32)),
        ("torchvision/vit_b_16", (3, 32, 32)),
        ("torchvision/googlenet", (3, 32, 32)),
        ("torchvision/vgg11", (3, 32, 32)),
    ],
)
def test_a_network_of_another_package_is_made_for_images_of_any_size(name, shape):
    net = make(name, classes=3, shape=shape)
    assert net.train()(torch.zeros(2, *shape)).shape == (2, 3)


def test_a_network_of_another_package_trains_in_the_loop():
    pool = al.data.subset(al.data.digits(), 30)
    learner = al.ActiveLearner(pool, net="timm/test_resnet", learner=al.Supervised(steps=3, batch=8), classes=10)
    learner.start_balanced(1)
    learner.fit()
    assert learner.predict_pool().shape == (30, 10)
    assert len(learner.ask(4)) == 4


def test_weights_of_a_file_go_into_a_network_with_another_head(tmp_path):
    net = drawn(lambda: timm_package().create_model("resnet18"))
    torch.save(net.state_dict(), tmp_path / "weights.pth")
    made = make("timm/resnet18", classes=3, shape=(3, 32, 32), weights=tmp_path / "weights.pth")
    assert torch.equal(made.conv1.weight, net.conv1.weight)
    assert made.fc.out_features == 3
    other = drawn(lambda: torchvision().models.mobilenet_v3_small())
    torch.save(other.state_dict(), tmp_path / "other.pth")
    with pytest.raises(al.ModelError, match="expected the weights of this network, got others"):
        make("timm/resnet18", classes=3, shape=(3, 32, 32), weights=tmp_path / "other.pth")
    made = make("torchvision/mobilenet_v3_small", classes=3, shape=(3, 32, 32), weights=tmp_path / "other.pth")
    assert torch.equal(made.features[0][0].weight, other.features[0][0].weight)


def test_a_fixed_size_is_said(tmp_path):
    torch.save(timm_package().create_model("vit_tiny_patch16_224").state_dict(), tmp_path / "weights.pth")
    with pytest.raises(al.OptionError, match="takes images of 224 pixels only, got size=64; leave size out"):
        timm_by_name("vit_tiny_patch16_224", 64, tmp_path / "weights.pth")


@pytest.mark.parametrize("offline", ["1", ""])
def test_without_a_network_it_is_said_at_once(offline, monkeypatch):
    asked = []

    def no_network(*args, **options):
        asked.append("".join(traceback.format_stack(limit=40)))
        raise OSError(-2, "Name or service not known")

    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    monkeypatch.setattr("askless.nets.hub.getproxies", dict)
    monkeypatch.setattr("socket.getaddrinfo", no_network)
    for make_it in (lambda: timm_by_name("resnet18", None), lambda: hf_images("google/vit-base-patch16-224")):
        with pytest.raises(al.ModelError, match="the hub cannot be reached"):
            make_it()
    ours = [stack for stack in asked if "can_ask_hub" in stack]
    assert len(ours) == (0 if offline else 2)
    assert len(asked) - len(ours) <= 1  # the hub's client asks once about itself; nothing is tried again


# --- Hugging Face


def test_images_are_seen_as_their_processor_has_them(tiny_vit):
    from transformers import AutoImageProcessor, AutoModel

    backbone = hf_images(str(tiny_vit))
    assert backbone.size == 32
    x = images(3, 32)
    net, processor = AutoModel.from_pretrained(tiny_vit).eval(), AutoImageProcessor.from_pretrained(tiny_vit)
    given = processor(images=[one.permute(1, 2, 0).numpy() for one in x], return_tensors="pt")
    with torch.no_grad():
        out = net(**given)
    torch.testing.assert_close(backbone.embed(x), out.pooler_output)
    hidden = out.last_hidden_state
    torch.testing.assert_close(hf_images(str(tiny_vit), pooling="cls").embed(x), hidden[:, 0])
    torch.testing.assert_close(hf_images(str(tiny_vit), pooling="mean").embed(x), hidden.mean(dim=1))
    assert hf_images(str(tiny_vit)).embed(images(2, 50)).shape == (2, 16)


def test_a_pool_of_images_is_embedded_by_a_folder(tiny_vit, tmp_path):
    pool = al.data.subset(al.data.digits(), 20)  # grey, 8 x 8
    views = frozen_views(pool, Frozen(backbone=f"hf/{tiny_vit}", weak=1, strong=0, cache=tmp_path / "cache"))
    assert views.plain(torch.arange(20)).shape == (20, 16)


def test_a_run_takes_the_size_that_its_backbone_sees(tiny_vit, tmp_path, monkeypatch):
    from PIL import Image

    from askless.models import load
    from askless.run import Run

    photos = tmp_path / "photos"
    photos.mkdir()
    x = np.random.default_rng(0).integers(0, 256, (24, 40, 40, 3), dtype=np.uint8)
    for i, image in enumerate(x):
        image[:, :, i % 2] //= 4
        Image.fromarray(image).save(photos / f"{i:02d}.png")
    monkeypatch.chdir(tiny_vit.parent)
    options = {"budget": 12, "batch": 6, "steps": 20, "net": f"frozen:hf/./{tiny_vit.name}"}
    run = Run.create(photos, tmp_path / "run", classes=("a", "b"), **options)
    assert run.settings.net == f"frozen:hf/{tiny_vit}"
    while not run.is_finished():
        while run.advance():
            pass
        run.tell({path: "ab"[int(path[:2]) % 2] for path in run.waiting()})
    model = load(run.folder)
    assert model.size == (32, 32)
    files = [photos / path for path in run.paths]
    np.testing.assert_allclose(model.predict_proba(files), run.predictions().probs, atol=2e-3)
    run.close()


@pytest.fixture
def tiny_bert(tmp_path):
    torchvision()  # transformers imports it, and it may need its guard
    from transformers import BertConfig, BertForMaskedLM, BertModel, BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", "cat", "dog", "sat", "ran", "on", "mat"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(words), max_position_embeddings=40, **sizes)
    for name, kind in (("bert", BertModel), ("masked", BertForMaskedLM)):
        drawn(lambda kind=kind: kind(config)).save_pretrained(tmp_path / name)
        BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / name)
    return tmp_path / "bert"


TEXTS = ["the cat sat", "a dog ran on the mat the cat sat on", "", "the " * 100]


def test_texts_are_embedded_one_by_one_as_together(tiny_bert):
    from transformers import AutoModel, AutoTokenizer

    backbone = hf_texts(str(tiny_bert))
    together = backbone.embed(TEXTS)
    assert together.dtype == np.float32
    assert together.shape == (4, 16)
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(backbone.embed([text])[0], row, atol=1e-5)
    net, tokenizer = AutoModel.from_pretrained(tiny_bert).eval(), AutoTokenizer.from_pretrained(tiny_bert)
    with torch.no_grad():
        out = net(**tokenizer(TEXTS[:1], return_tensors="pt"))
    np.testing.assert_allclose(together[:1], out.pooler_output.numpy(), atol=1e-5)
    for pooling, want in (("cls", out.last_hidden_state[:, 0]), ("mean", out.last_hidden_state.mean(dim=1))):
        got = hf_texts(str(tiny_bert), pooling).embed(TEXTS)  # beside longer texts: padding counts for nothing
        np.testing.assert_allclose(got[:1], want.numpy(), atol=1e-5)


def test_a_pooler_that_was_never_trained_is_not_used(tiny_bert):
    masked = str(tiny_bert.with_name("masked"))
    np.testing.assert_array_equal(hf_texts(masked).embed(TEXTS), hf_texts(masked, "mean").embed(TEXTS))
    with pytest.raises(al.OptionError, match="no trained pooler; use pooling='mean' or 'cls'"):
        hf_texts(masked, "pooler").embed(TEXTS)


def test_a_model_without_a_trained_pooler_has_one_name(tiny_bert):
    masked = str(tiny_bert.with_name("masked"))
    before = torch.random.get_rng_state()
    assert hf_texts(masked).key == hf_texts(masked).key
    assert hf_texts(masked).key != hf_texts(masked, "cls").key
    assert torch.equal(torch.random.get_rng_state(), before)  # what is drawn for the pooler disturbs nobody


def test_features_of_texts_are_kept(tiny_bert, tmp_path):
    frozen = Frozen(backbone=f"hf/{tiny_bert}", cache=tmp_path / "cache")
    steps = []
    first = embed_texts(TEXTS, frozen, progress=lambda done, total: steps.append((done, total)), batch=3)
    assert steps == [(3, 4), (4, 4)]
    np.testing.assert_array_equal(embed_texts(TEXTS, frozen, progress=lambda done, total: 1 / 0), first)
    np.testing.assert_allclose(text_backbone(frozen, ()).embed(TEXTS), first, atol=1e-5)
    with pytest.raises(al.InputError, match="expected a list of texts"):
        text_backbone(frozen, ()).embed("one text")


def test_a_pool_of_texts_has_the_features_of_embed_texts(tiny_bert, tmp_path, monkeypatch):
    def learner_of(pooling):
        frozen = Frozen(backbone=f"hf/{tiny_bert}", pooling=pooling, cache=tmp_path / "cache")
        return al.ActiveLearner(TEXTS, net=frozen, classes=2, learner=al.Supervised(steps=2)), frozen

    seen = {}
    for pooling in ("cls", "mean"):
        learner, frozen = learner_of(pooling)
        rows = torch.from_numpy(embed_texts(TEXTS, frozen))
        seen[pooling] = learner.views.plain(torch.arange(len(TEXTS)))
        torch.testing.assert_close(seen[pooling], (rows - learner.views.mean) / learner.views.scale)
        torch.testing.assert_close(learner.views.of(TEXTS), seen[pooling], atol=1e-3, rtol=1e-4)
    assert not torch.allclose(seen["cls"], seen["mean"])
    assert len(list((tmp_path / "cache").iterdir())) == 2
    monkeypatch.setattr("askless.features.text_backbone.write_rows", lambda *given: 1 / 0)  # nothing is embedded again
    assert torch.equal(learner_of("cls")[0].views.plain(torch.arange(len(TEXTS))), seen["cls"])


def test_a_pool_of_texts_and_a_run_on_texts_take_a_model_of_hugging_face(tiny_bert, tmp_path):
    texts = [f"{pet} {verb} on the mat" for pet in ("cat", "dog") for verb in ("sat", "ran")] * 5
    classes = [int(text.startswith("dog")) for text in texts]
    pool = al.data.as_pool(texts, classes, classes=("cat", "dog"))
    learner = al.ActiveLearner(pool, net=f"frozen:hf/{tiny_bert}", learner=al.Supervised(steps=5, batch=4), seed=0)
    picks = learner.ask(4)
    learner.tell(picks.indices, pool.labels[picks.indices])
    learner.fit()
    assert learner.predict_proba(["a cat sat"]).shape == (1, 2)

    saved = text_backbone(f"hf/{tiny_bert}", ())
    saved.save(tmp_path / "saved")
    np.testing.assert_array_equal(
        load_text_backbone(tmp_path / "saved").embed(TEXTS), hf_texts(str(tiny_bert)).embed(TEXTS)
    )


@pytest.mark.parametrize("name", ["bert", "masked"])
def test_exported_models_of_texts_need_nothing_else(tiny_bert, name, tmp_path):
    from askless.run import Run

    model_folder = tiny_bert.with_name(name)
    texts = [
        f"{pet} {verb} {where}" for pet in ("cat", "dog") for verb in ("sat", "ran") for where in ("a", "on", "the")
    ]
    (tmp_path / "pets.csv").write_text("text\n" + "".join(f"{text}\n" for text in texts))
    learner = al.ActiveLearner(
        texts, net=f"frozen:hf/{model_folder}", classes=["cat", "dog"], learner=al.Supervised(steps=20, batch=4)
    )
    learner.tell([0, 1, 6, 7], [0, 0, 1, 1])
    learner.fit()
    run = Run.create(
        tmp_path / "pets.csv",
        tmp_path / "run",
        **{"text": "text", "classes": ("cat", "dog"), "net": f"frozen:hf/{model_folder}"},
        **{"budget": 8, "batch": 4, "steps": 20},
    )
    while not run.is_finished():
        while run.advance():
            pass
        run.tell({path: texts[int(path) - 1].split()[0] for path in run.waiting()})
    want = [learner.predict_proba(texts), al.load(run.folder).predict_proba(texts)]
    folders = [learner.export(tmp_path / "of_learner"), run.export_model(tmp_path / "of_run")]
    run.close()
    shutil.rmtree(model_folder)
    for folder, probs in zip(folders, want, strict=True):
        moved = folder.rename(tmp_path / f"{folder.name}-moved")
        np.testing.assert_allclose(al.load(moved).predict_proba(texts), probs, atol=1e-5)


def test_a_saved_learner_goes_on_from_another_folder(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tiny_bert.parent)
    for net in ("frozen:hf/bert", Frozen(backbone="hf/./bert", cache=tmp_path / "cache")):
        monkeypatch.chdir(tiny_bert.parent)
        learner = al.ActiveLearner(TEXTS, net=net, classes=2, learner=al.Supervised(steps=2))
        learner.save(tmp_path / "saved")
        (tmp_path / "elsewhere").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "elsewhere")
        again = al.ActiveLearner.load(tmp_path / "saved")
        assert torch.equal(again.views.plain(torch.arange(4)), learner.views.plain(torch.arange(4)))


def test_code_that_comes_with_a_model_is_never_run(tiny_vit, capfd):
    config = json.loads((tiny_vit / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.C", "AutoModel": "mine.M"}}
    (tiny_vit / "config.json").write_text(json.dumps(config))
    (tiny_vit / "mine.py").write_text("print('RAN')")
    with pytest.raises(al.ModelError, match="expected a model"):
        hf_images(str(tiny_vit))
    assert "RAN" not in capfd.readouterr().out


def test_what_a_folder_lacks_is_said(tiny_vit, tiny_bert, tmp_path):
    with pytest.raises(al.ModelError, match="expected an image processor"):
        hf_images(str(tiny_bert))
    with pytest.raises(al.ModelError, match="expected a tokenizer"):
        hf_texts(str(tiny_vit))
    with pytest.raises(al.ModelError, match="the folder is not there; check the path"):
        hf_images(str(tmp_path / "nowhere"))
