"""A trained model <-> a folder that can be taken anywhere.

`model.safetensors` holds the trained layers ("network.*") and what features are standardised by ("features.mean" and
"features.scale"); `config.json`, `preprocess.json` and `classes.txt` say what makes a model of them. Nothing is unpickled.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from askless import nets
from askless.base.errors import InputError, ModelError, OptionError
from askless.base.files import free_folder, sha256_of, whole_folder
from askless.base.options import check_choice
from askless.data import ImageViews
from askless.features.backbones.backbone import Backbone, TextBackbone
from askless.features.backbones.hugging_face import copy_hf
from askless.features.frozen import Frozen, make_backbone
from askless.features.text_backbone import load_text_backbone
from askless.learn.label_propagation import Neighbours
from askless.models.card import card, kind_of, sides
from askless.models.onnx_file import check_onnx, onnx_bytes
from askless.models.whole import Normalise, Whole, pixels_by, with_backbone

FORMAT = 2  # since 2, features of a network have unit length
KINDS = ("model", "onnx")
INPUTS = {"image": "pixels", "features": "features", "tokens": "tokens", "other": "inputs"}  # names in ONNX
CLOSE = 0.05  # of probabilities: half precision of embeddings costs about 0.001
HALF = (
    "embeddings are stored in half precision, which is too coarse for features that hardly vary; use another backbone"
)
OTHERWISE = (
    "nothing was written; either its images were not pixels from 0 to 255 (or 0 to 1), or the backbone differs each time "
    "it is made; use such images, or another backbone"
)
OWN = "your own module"  # in place of a name that one can be made by
Items = np.ndarray | Sequence[str]  # as they are read: pixels (n, C, H, W) uint8, rows of numbers, or texts


@dataclass
class Trained:
    """A trained network and what stands before it.

    `config` and `preprocess` as the files of these names have them. `features`: what to subtract from features and to
    divide them by. `backbone` and `texts`: what makes features of images or of texts.
    """

    network: nn.Module
    config: dict[str, Any]
    preprocess: dict[str, Any]
    features: tuple[Tensor, Tensor] | None = None
    backbone: Backbone | None = None
    texts: TextBackbone | None = None
    normalise: nn.Module = field(init=False)  # the last step before the network

    def __post_init__(self) -> None:
        if self.kind == "image" and self.config["backbone"] is None:
            self.normalise = pixels_by(self.preprocess["mean"], self.preprocess["std"])
        else:
            self.normalise = nn.Identity() if self.features is None else Normalise(*self.features)

    @property
    def kind(self) -> str:
        return kind_of(self.config)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an item as it is read; `config["shape"]` is what the network takes."""
        if self.backbone is None:
            return tuple(self.config["shape"])
        channels = 1 if self.preprocess["channels"] == "grey" else 3
        return (channels, *sides(self.preprocess))

    @property
    def sharpness(self) -> float:
        """What its logits are multiplied by, so that it is as sure as it should be."""
        return float(self.config.get("sharpness", 1.0))

    @torch.inference_mode()
    def probabilities(self, items: Items) -> np.ndarray:
        """(n, C) probabilities of items; embeddings of images are rounded to half precision, as they are kept."""
        if self.texts is not None:
            x = torch.from_numpy(self.texts.embed(items))  # type: ignore[arg-type]
        else:
            x = torch.from_numpy(np.ascontiguousarray(items))
        if self.backbone is not None:
            x = self.backbone.embed(x).half()
        logits = self.network(x if self.kind == "tokens" else self.normalise(x.float()))
        return np.asarray((self.sharpness * logits.double()).softmax(dim=1).numpy())

    def whole(self) -> Whole:
        """From items as they are read to logits and probabilities, as one module."""
        before = self.normalise
        if self.backbone is not None:
            assert self.features is not None
            before = with_backbone(self.backbone.module, self.backbone.size, self.shape, *self.features)
        return Whole(before, self.network, self.sharpness, numbers=self.kind != "tokens").eval()

    def drawn_items(self) -> Tensor:
        """Items to compare on where there are none, and beside those that there are."""
        g = torch.Generator().manual_seed(0)
        shape = self.shape
        if self.kind == "image":
            noise = torch.randint(0, 256, (4, *shape), generator=g, dtype=torch.uint8)
            flat = torch.tensor([0, 128, 255], dtype=torch.uint8)[:, None, None, None].expand(3, *shape)
            return torch.cat([noise, flat])
        if self.kind == "tokens":
            return torch.empty((0, *shape), dtype=torch.int64)
        rows = torch.randn((4, *shape), generator=g)
        return rows if self.features is None else rows * self.features[1] + self.features[0]


# --- writing ---------------------------------------------------------------------------------------------------------


def write_model(
    out: str | Path,
    trained: Trained,
    to: str = "model",
    overwrite: bool = False,
    items: Items | None = None,
    said: np.ndarray | None = None,
) -> Path:
    """Writes the folder atomically: config.json, preprocess.json, classes.txt, README.md, and the weights as
    `model.safetensors` (beside them those of a backbone that no package brings) or, with `to="onnx"`, all of it as
    `model.onnx`. What was written has to say of `items` what the model `said` of them, (n, C) probabilities, before."""
    check_choice("export", "to", to, KINDS)
    if to == "onnx" and trained.texts is not None:
        raise OptionError(
            'a model of texts cannot be written as ONNX: words are not numbers; export it with to="model"'
        )
    place = free_folder(Path(out).resolve(), overwrite, ("config.json", "preprocess.json"))
    config = {"format": FORMAT, **trained.config, "date": datetime.now(timezone.utc).strftime("%Y-%m-%d")}
    try:
        with whole_folder(place) as beside:
            if to == "onnx":
                write_onnx(beside, replace(trained, config=config), items, said)
            else:
                config |= {"backbone_files": None, **write_backbone(beside, trained)}
                write_files(beside, replace(trained, config=config))
                if items is not None and said is not None:
                    own = trained.network if config["net"] is None else None
                    check_said(
                        read_model(beside, config, trained.preprocess, own).probabilities(items), said, OTHERWISE
                    )
    except OSError as error:
        raise InputError(
            f"{place}: the model could not be written ({error}); make room, or choose another place"
        ) from None
    return place


def write_files(folder: Path, trained: Trained) -> None:
    """The trained layers as safetensors, and the files that describe the model. A backbone is named in config.json; what
    `written_backbone` and `load_text_backbone` read of it is already there."""
    # A tensor that two layers share is written for each of them.
    tensors = {f"network.{k}": v.detach().cpu().contiguous().clone() for k, v in trained.network.state_dict().items()}
    if trained.features is not None:
        tensors |= {f"features.{k}": v.contiguous() for k, v in zip(("mean", "scale"), trained.features, strict=True)}
    save_file(tensors, folder / "model.safetensors")
    write_description(folder, {"format": FORMAT, **trained.config}, trained.preprocess)


def write_onnx(folder: Path, trained: Trained, items: Items | None, said: np.ndarray | None) -> None:
    config = trained.config | {"onnx": True, "kind": trained.kind}
    whole, every = trained.whole(), trained.drawn_items()
    if isinstance(items, np.ndarray):
        given = torch.from_numpy(items)
        every = torch.cat([given, every])
        if said is not None:
            with torch.no_grad():
                check_said(whole(given)[1].double().numpy(), said, HALF)
    if not len(every):
        raise ModelError("expected some items to compare the ONNX file on, got none")
    told = {"config": config, "preprocess": trained.preprocess, "classes": config["classes"]}
    data = onnx_bytes(whole, every, INPUTS[trained.kind], told)
    (folder / "model.onnx").write_bytes(data)
    write_description(folder, config | {"compared": check_onnx(data, whole, every)}, trained.preprocess)


def check_said(probs: np.ndarray, said: np.ndarray, advice: str) -> None:
    """An error where probabilities of the exported model are others than those that were trained and measured."""
    off = float(np.abs(probs - said).max())
    if not off <= CLOSE:
        raise ModelError(
            f"the exported model would give probabilities that differ by {off:.2g} from the model's; {advice}"
        )


def write_backbone(folder: Path, trained: Trained) -> dict[str, Any]:
    """The weights of a backbone that no package brings, and what the configuration has to say of them."""
    if trained.texts is not None:
        trained.texts.save(folder / "text", whole=True)
    if trained.backbone is None:
        return {}
    name, body = trained.config["backbone"], trained.backbone.module.body
    if name == OWN:
        raise OptionError('a backbone that is a module of your own cannot be made by its name; export with to="onnx"')
    if name.startswith("hf/"):
        return {"pooling": copy_hf(body, name.removeprefix("hf/"), folder / "backbone"), "backbone_files": "backbone"}
    if name.startswith(("timm/", "torchvision/")):
        save_file({k: v.contiguous() for k, v in body.state_dict().items()}, folder / "backbone.safetensors")
        return {"backbone_files": "backbone.safetensors"}
    return {}


def write_description(folder: Path, config: dict[str, Any], preprocess: dict[str, Any]) -> None:
    """The files for people and for `askless.load`, beside the weights."""
    for name, value in (("config.json", config), ("preprocess.json", preprocess)):
        (folder / name).write_text(json.dumps(value, indent=1), encoding="utf-8")
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in config["classes"]), encoding="utf-8")
    hashes = {}
    for path in sorted(f for f in folder.rglob("*") if f.suffix in (".safetensors", ".onnx")):
        with path.open("rb") as file:
            hashes[path.relative_to(folder).as_posix()] = sha256_of(file).hex()
    (folder / "README.md").write_text(card(config, preprocess, hashes), encoding="utf-8")


def image_preprocess(size: int | list[int], channels: int, views: ImageViews | None = None) -> dict[str, Any]:
    """What is done with an image file before the network sees it; `views`: those that it was trained on, or None where a
    backbone is given pixels from 0 to 255."""
    if channels not in (1, 3):
        raise InputError(
            f"export: expected images with 1 or 3 channels, as image files have, got {channels}; `save` keeps the learner"
        )
    known: dict[str, Any] = {
        **{"size": size, "fit": "scaled to cover the square, centre crop", "interpolation": "bicubic"},
        **{"channels": "RGB" if channels == 3 else "grey", "orientation": "EXIF applied"},
        "input": "as the backbone requires, from pixels 0..255",
    }
    if views is not None:
        known |= {"input": "pixels / 255, then (x - mean) / std"}
        known |= {"mean": views.mean.tolist(), "std": views.std.tolist()}
    return known


def text_preprocess(backbone: str) -> dict[str, Any]:
    """What is done with a text before the network sees it."""
    return {"input": f"a text; {backbone} makes features of it, then (x - mean) / scale"}


# --- reading ---------------------------------------------------------------------------------------------------------


def read_model(folder: Path, config: dict[str, Any], preprocess: dict[str, Any], own: nn.Module | None) -> Trained:
    """What `write_files` wrote, and the backbone that goes with it. `own`: the module, where the network is not one that
    `nets.make` knows."""
    try:
        tensors = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder}: the weights cannot be read ({error})") from None
    name, options = config["net"], config.get("options", {})
    if own is None and name is None:
        raise ModelError(f"{folder}: its network is a module of your own; pass the module, as in load(..., net=net)")
    if own is None:
        make = Neighbours if name == "neighbours" else partial(nets.make, name)
        net = make(classes=len(config["classes"]), shape=tuple(config["shape"]), **options)
    else:
        net = copy.deepcopy(own)
    net.load_state_dict({k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")})
    net.eval()
    texts = load_text_backbone(folder / "text") if kind_of(config) == "text" else None
    backbone = written_backbone(folder, config) if texts is None and config["backbone"] is not None else None
    features = None
    if texts is not None or backbone is not None or "features.mean" in tensors:
        features = tensors["features.mean"], tensors["features.scale"]
    return Trained(net, config, preprocess, features, backbone, texts)


def written_backbone(folder: Path, config: dict[str, Any]) -> Backbone:
    """The backbone of a model, from its folder where it has the weights inside."""
    name, weights, files = config["backbone"], config.get("weights"), config.get("backbone_files")
    if files is not None:
        weights = folder / Path(files).name
        name, weights = (f"hf/{weights}", None) if name.startswith("hf/") else (name, weights)
    size, pooling = config["backbone_size"], config.get("pooling", "auto")
    backbone = make_backbone(Frozen(backbone=name, weights=weights, size=size, pooling=pooling))
    backbone.module.unit &= config.get("format", 1) > 1
    return backbone
