import json
import os
import re
from inspect import signature

import pytest
from PIL import Image

from askless import acquire, learn, nets
from askless.base.errors import AsklessError, InputError, OptionError
from askless.features import frozen
from askless.features.backbones import minilm
from askless.features.backbones.images import LITE
from askless.run import Run, RunError, Settings, settings
from askless.run.settings import (
    BACKBONE,
    FALLBACK,
    LEARNERS,
    STRATEGIES,
    read_classes,
    read_keys,
    read_settings,
    with_backbone_here,
    write_settings,
)


def test_a_run_offers_every_strategy_that_looks_at_what_a_run_has():
    dropout = {name for name, info in acquire.STRATEGIES.items() if "probs_by_pass" in info.make().needs}
    assert set(STRATEGIES) == set(acquire.STRATEGIES) - dropout  # a run has no network with dropout


def test_every_learner_can_be_made():
    from askless.run.steps.one_round import training

    assert set(LEARNERS) == set(learn.LEARNERS)
    for name in LEARNERS:
        made = training(Settings("x", learner=name, steps=7))
        assert type(made) is learn.LEARNERS[name]
        assert getattr(made, "steps", None) == (7 if isinstance(made, learn.Training) else None)


def test_settings_come_back_as_they_were_written(tmp_path):
    settings = Settings(
        source='/a "quoted" päth\\with\nall',
        budget=30,
        check=0.1,
        classes=("cat", "=dog", "<b>", "Łódź", "😀", "\x7f", "\\ud83d\\ude00"),
        keys={"c": "cat", '"': "=dog", "😀": "cat"},
        target=0.95,
        follow_links=True,
        versions={"askless": "1", "torch": "2.6"},
    )
    write_settings(settings, tmp_path / "project.toml")
    assert read_settings(tmp_path / "project.toml") == settings
    assert (tmp_path / "project.toml").stat().st_mode & 0o777 == 0o600


def test_a_project_file_with_halves_of_characters_is_read(tmp_path):
    """As earlier versions wrote it."""
    classes = ("cat", "😀", "a\\ud83d", "Łódź")
    (tmp_path / "project.toml").write_text(
        f"source = {json.dumps(os.fsdecode(b'/caf' + bytes([0xE9])))}\nclasses = {json.dumps(classes)}\n",
        encoding="ascii",
    )
    read = read_settings(tmp_path / "project.toml")
    assert read.classes == classes
    assert os.fsencode(read.source) == b"/caf\xe9"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("budget", 0, "budget: expected a whole number of at least 1, got 0"),
        ("budget", 2.5, "budget"),
        ("budget", True, "budget"),
        ("batch", 0, "batch"),
        ("steps", 0, "steps"),
        ("annotators", 0, "annotators"),
        ("seed", -1, "seed"),
        ("check", 1.0, "check: expected a share of the budget from 0 to 0.9"),
        ("check", -0.1, "check"),
        ("check", float("nan"), "check"),
        ("target", 1.0, "target"),
        ("strategy", "magic", "unknown strategy 'magic'; the known ones are askless, random, "),
        ("strategy", "bagde", r"unknown strategy 'bagde'; did you mean 'badge'\? the known ones are askless"),
        (
            "net",
            "frozen:efficientnet",
            r"unknown net .*; did you mean 'frozen:efficientnet-lite[012]'\? the known ones are",
        ),
        ("learner", "magic", "unknown learner"),
        ("suggestions", "always", "unknown suggestions"),
    ],
)
def test_settings_that_make_no_sense_are_refused(option, value, text):
    with pytest.raises(OptionError, match=text):
        Settings("x", **{option: value})


@pytest.mark.parametrize(
    "text",
    [
        "budget = ",
        "\x00",
        'source = "x"\nfuture = 1',
        'source = "x"\nbudget = "many"',
        'source = "x"\ncheck = "a"',
        "budget = 5",
    ],
)
def test_a_damaged_project_file_is_refused_cleanly(tmp_path, text):
    path = tmp_path / "project.toml"
    path.write_text(text)
    with pytest.raises(AsklessError):
        read_settings(path)


def test_a_folder_without_a_project_is_no_run(tmp_path):
    with pytest.raises(RunError, match="expected a run"):
        read_settings(tmp_path / "project.toml")


def test_without_the_pretrained_network_pixels_are_used_and_it_is_said(monkeypatch):
    monkeypatch.setattr("askless.run.settings.find_spec", lambda name: None)
    settings, text = with_backbone_here(Settings("x"))
    assert (settings.net, "pip install" in text) == (FALLBACK, True)
    for net in ("frozen:raw", "small-cnn"):
        assert with_backbone_here(Settings("x", net=net)) == (Settings("x", net=net), "")
    for name, extra in (("efficientnet-lite0", "pretrained"), ("minilm", "text"), ("tfidf+minilm", "text")):
        text = f"net: {name} is not installed; run `pip install 'askless[{extra}]'`, or leave net out"
        with pytest.raises(OptionError, match=re.escape(text)):
            with_backbone_here(Settings("x", net=f"frozen:{name}"))
    monkeypatch.setattr("askless.run.settings.find_spec", lambda name: object())
    assert with_backbone_here(Settings("x"))[0].net == BACKBONE


def test_keys_are_read():
    assert read_keys("cat=c, dog = d", ("cat", "dog")) == {"c": "cat", "d": "dog"}
    assert read_keys("a=b=1", ("a=b",)) == {"1": "a=b"}
    assert read_keys("", ("cat",)) == {}
    for given, text in (
        ("cat", "class=key"),
        ("cat=cc", "one character"),
        ("owl=o", "unknown class"),
        ("cat=c,dog=c", "its own"),
    ):
        with pytest.raises(OptionError, match=text):
            read_keys(given, ("cat", "dog"))


def test_classes_are_read_from_the_command_line_or_a_file(tmp_path):
    assert read_classes("cat, dog ,,") == ("cat", "dog")
    assert read_classes(None) == ()
    (tmp_path / "classes.txt").write_text("cat\n\n dog \n", encoding="utf-8-sig")
    assert read_classes(str(tmp_path / "classes.txt")) == ("cat", "dog")
    with pytest.raises(InputError, match="one class per line"):
        read_classes(str(tmp_path / "none.txt"))


def test_the_names_of_networks_are_those_that_there_are():
    patterns = {"wrn-28-K", "torchvision/NAME", "timm/NAME"}
    assert {*settings.NETS, *patterns} == set(nets.NETS)
    assert frozen.IMAGE_BACKBONES == settings.BACKBONES
    assert set(settings.NEEDS) == {*LITE, "minilm", "tfidf+minilm"}
    assert settings.NEEDS["minilm"][-1] == minilm.PACKAGE


@pytest.mark.parametrize("net", ["small-cnn", "wrn-28-2", "frozen:raw", "frozen:timm/resnet18", "timm/resnet18"])
def test_known_networks_are_taken(net):
    assert settings.Settings(source="x", net=net).net == net


@pytest.mark.parametrize("net", ["wrn", "frozen:resnet", "small-cnn2", "wrn-28-0", ""])
def test_unknown_networks_are_refused_at_once(net):
    with pytest.raises(OptionError, match="unknown net"):
        settings.Settings(source="x", net=net)


def test_a_learner_of_features_is_refused_before_a_run_is_made_where_there_are_none(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(OptionError, match="label-propagation works on features, got the network small-cnn"):
        Run.create(tmp_path, tmp_path / "run", net="small-cnn", learner="label-propagation", classes=("a", "b"))
    assert not (tmp_path / "run").exists()


def test_a_network_from_scratch_is_trained_by_fixmatch_unless_another_is_named():
    assert settings.fit_for(Settings("x", net="small-cnn"), "images", "").learner == "fixmatch"
    assert settings.fit_for(Settings("x", net="small-cnn", learner="supervised"), "images", "").learner == "supervised"
    assert settings.fit_for(Settings("x"), "images", "").learner == "auto"
    for net, learner in (("small-cnn", "auto"), ("linear", "auto"), ("mlp", "fixmatch")):
        assert settings.fit_for(Settings("x", net=net), "features", "").learner == learner
    assert settings.fit_for(Settings("x"), "features", "").net == "waves"
    assert settings.fit_for(Settings("x", net="linear"), "features", "").net == "linear"


def test_create_spells_out_the_settings_with_their_defaults():
    given = {name: p.default for name, p in signature(Run.create).parameters.items() if p.kind is p.KEYWORD_ONLY}
    given = {name: default for name, default in given.items() if name not in ("progress", "notes")}
    made = vars(Settings(source="photos"))
    assert set(given) == set(made) - {"source", "versions"}
    assert {**given, "keys": {}} == {name: made[name] for name in given}
