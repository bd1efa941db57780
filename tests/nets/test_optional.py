"""torchvision and timm: with stand-ins for the packages, and with the packages themselves where installed."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from askless.base.errors import InputError, ModelError, OptionError
from askless.nets import make, optional


class Body(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv = nn.Conv2d(channels, 6, 3)
        self.fc = nn.Linear(6, classes)

    def forward(self, x):
        return self.fc(self.conv(x).mean(dim=(2, 3)))


def get_model(name, num_classes=1000):
    return nn.Conv2d(3, num_classes, 1) if name == "headless" else Body(3, num_classes)


class Published:
    """The weights of the body: all ones."""

    def __init__(self, name):
        self.name = name

    def verify(self, weights):
        return Published(weights)

    def get_state_dict(self, progress, check_hash, weights_only, map_location):
        assert weights_only
        assert check_hash
        if self.name == "MISSING":
            raise OSError("no route to host")
        return {name: torch.ones_like(tensor) for name, tensor in Body(3, 1000).state_dict().items()}


@pytest.fixture
def packages(monkeypatch):
    models = SimpleNamespace(
        get_model=get_model, get_model_weights=Published, list_models=lambda module: ["body", "headless"]
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    timm = SimpleNamespace(
        is_model=lambda name: name == "body",
        get_pretrained_cfg=lambda name: None,
        create_model=lambda name, num_classes, in_chans: Body(in_chans, num_classes),
    )
    monkeypatch.setitem(sys.modules, "timm", timm)


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_a_missing_package_names_the_extra(package, packages, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"expected the package {package}, which cannot be imported .*; run `pip install 'askless\[vision\]'`"
    with pytest.raises(ModelError, match=message):
        make(f"{package}/body", classes=3, shape=(3, 32, 32))


@pytest.mark.parametrize("name", ["torchvision/body", "timm/body"])
def test_a_net_of_another_package_is_seeded_as_ours_are(name, packages):
    before = torch.random.get_rng_state()
    first, again = (make(name, classes=3, shape=(3, 32, 32), seed=4) for _ in range(2))
    assert torch.equal(first.fc.weight, again.fc.weight)
    assert first.fc.out_features == 3
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_pretrained_head_is_made_anew_for_other_classes(packages):
    net = make("torchvision/body", classes=3, shape=(3, 32, 32), weights="DEFAULT")
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 3)
    assert (net.conv.weight == 1).all()
    kept = make("torchvision/body", classes=1000, shape=(3, 32, 32), weights="DEFAULT")
    assert (kept.fc.weight == 1).all()


def test_timm_takes_any_number_of_channels_and_torchvision_three(packages):
    assert make("timm/body", classes=3, shape=(1, 32, 32)).conv.in_channels == 1
    with pytest.raises(InputError, match="torchvision/body: expected 3 channels, got 1; repeat the grey channel"):
        make("torchvision/body", classes=3, shape=(1, 32, 32))


@pytest.mark.parametrize("name", ["torchvision/bodi", "timm/bodi"])
def test_an_unknown_net_says_where_the_known_ones_are(name, packages):
    with pytest.raises(OptionError, match=rf"unknown net '{name}'; .*list_models\(\) lists the known ones"):
        make(name, classes=3, shape=(3, 32, 32))


def test_what_another_package_refuses_is_passed_on(packages):
    with pytest.raises(ModelError, match="got OSError: no route to host; check the name; download the weights once"):
        make("torchvision/body", classes=3, shape=(3, 32, 32), weights="MISSING")
    with pytest.raises(ModelError, match=r"timm/body: expected a network from options .*depth=3.*got TypeError"):
        make("timm/body", classes=3, shape=(3, 32, 32), depth=3)


def test_a_net_without_a_linear_layer_is_refused(packages):
    message = (
        "torchvision/headless: expected a network that ends in a linear layer, got Conv2d without one; choose another"
    )
    with pytest.raises(ModelError, match=message):
        make("torchvision/headless", classes=3, shape=(3, 32, 32))


def test_missing_operators_of_torchvision_are_named_and_the_import_tried_again(monkeypatch):
    defined, answers = [], [RuntimeError("operator torchvision::nms does not exist"), "the package"]

    def import_module(name):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(optional, "FRAGMENTS", [])
    monkeypatch.setattr(optional.torch.library, "Library", lambda *args: SimpleNamespace(define=defined.append))
    monkeypatch.setattr("askless.base.machine.import_module", import_module)
    assert optional.torchvision() == "the package"
    assert [schema.split("(")[0] for schema in defined] == ["nms", "qnms"]


def test_any_other_failure_of_torchvision_is_not_hidden(monkeypatch):
    def import_module(name):
        raise RuntimeError("something else")

    monkeypatch.setattr("askless.base.machine.import_module", import_module)
    with pytest.raises(RuntimeError, match="something else"):
        optional.torchvision()


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["torchvision/resnet18", "timm/resnet18"])
def test_the_packages_themselves(name):
    if importlib.util.find_spec(name.split("/")[0]) is None:
        pytest.skip(f"{name.split('/')[0]} is not installed (extra: vision)")
    net = make(name, classes=5, shape=(3, 64, 64)).eval()
    assert net(torch.zeros(1, 3, 64, 64)).shape == (1, 5)
