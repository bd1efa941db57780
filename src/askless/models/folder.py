"""A trained model -> a folder that can be taken anywhere."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from askless.base.errors import InputError, ModelError, OptionError
from askless.base.files import sha256_of, whole_folder
from askless.base.options import check_choice
from askless.features.backbones import Backbone, TextBackbone, copy_hf
from askless.features.frozen import Frozen, make_backbone
from askless.features.text_backbone import load_text_backbone
from askless.models.card import card
from askless.models.onnx_file import check_onnx, onnx_bytes
from askless.models.whole import Normalise, Whole, pixels_by, with_backbone

FORMAT = 1
KINDS = ("model", "onnx")
INPUTS = {"image": "pixels", "features": "features", "tokens": "tokens", "other": "inputs"}  # names in ONNX
CLOSE = 0.05  # of probabilities: half precision of embeddings costs about 0.001
HALF = "embeddings are kept in half precision, which features that hardly vary do not survive; use another backbone"
OTHERWISE = (
    "nothing was written; either its images were no pixels from 0 to 255 (or 0 to 1), or the backbone is another one when "
    "it is made again; use such images, or another backbone"
)
OWN = "your own module"  # in place of a name that one can be made by


@dataclass(frozen=True)
class Trained:
    """A trained network and what stands before it.

    `config` and `preprocess` as the files of these names have them. `features`: what to subtract from features and to
    divide them by. `kind`: what an item is. `texts`: what makes features of texts. `items`: some of them as they are read,
    to compare what was written on.
    """

    network: nn.Module
    config: dict[str, Any]
    preprocess: dict[str, Any]
    kind: str
    features: tuple[Tensor, Tensor] | None = None
    backbone: Backbone | None = None
    texts: TextBackbone | None = None
    items: Tensor | Sequence[str] | None = None
    said: np.ndarray | None = None  # probabilities (n, C) of these items, as they were before the export

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an item as it is read; `config["shape"]` is what the network takes."""
        if self.backbone is None:
            return tuple(self.config["shape"])
        size = self.preprocess["size"]
        channels = 1 if self.preprocess["channels"] == "grey" else 3
        return (channels, size, size) if isinstance(size, int) else (channels, *size)

    def whole(self) -> Whole:
        """From items as they are read to logits and probabilities."""
        before: nn.Module = nn.Identity()
        if self.backbone is not None:
            assert self.features is not None
            if self.backbone.module is None:
                raise ModelError(f"the backbone {self.backbone.name} is no module; it cannot be exported")
            before = with_backbone(self.backbone.module, self.backbone.size, self.shape, *self.features)
        elif self.features is not None:
            before = Normalise(*self.features)
        elif self.kind == "image":
            before = pixels_by(self.preprocess["mean"], self.preprocess["std"])
        return Whole(before, self.network, numbers=self.kind != "tokens").eval()

    def some_items(self) -> Tensor:
        """Items to compare on: those that there are, and drawn ones."""
        g = torch.Generator().manual_seed(0)
        shape = self.shape
        drawn: list[Tensor] = []
        if self.kind == "image":
            noise = torch.randint(0, 256, (4, *shape), generator=g, dtype=torch.uint8)
            flat = torch.tensor([0, 128, 255], dtype=torch.uint8)[:, None, None, None].expand(3, *shape)
            drawn = [noise, flat]
        elif self.kind != "tokens":
            rows = torch.randn((4, *shape), generator=g)
            drawn = [rows if self.features is None else rows * self.features[1] + self.features[0]]
        given = [self.items] if isinstance(self.items, Tensor) else []
        if not given and not drawn:
            raise ModelError("expected some items to compare the ONNX file on, got none")
        return torch.cat([*given, *drawn])


def write_model(out: str | Path, trained: Trained, to: str = "model", overwrite: bool = False) -> Path:
    """Writes the folder, whole or not at all: config.json, preprocess.json, classes.txt, README.md, and the weights as
    `model.safetensors` (beside them those of a backbone that no package brings) or, with `to="onnx"`, all of it as
    `model.onnx`. What was written is compared with what the network said before it is handed out."""
    check_choice("export", "to", to, KINDS)
    if to == "onnx" and trained.texts is not None:
        raise OptionError('a model of texts cannot be written as ONNX: words are no numbers; export it with to="model"')
    place = free_place(Path(out), overwrite)
    try:
        with whole_folder(place) as beside:
            config = {"format": FORMAT, **trained.config, "date": datetime.now(timezone.utc).strftime("%Y-%m-%d")}
            if to == "onnx":
                config = write_onnx(beside, trained, config)
            else:
                config = write_safetensors(beside, trained, config)
            describe(beside, config, trained.preprocess)
    except OSError as error:
        raise InputError(
            f"{place}: the model could not be written ({error}); make room, or choose another place"
        ) from None
    return place


def write_onnx(folder: Path, trained: Trained, config: dict[str, Any]) -> dict[str, Any]:
    config = config | {"onnx": True, "kind": trained.kind}
    whole, items = trained.whole(), trained.some_items()
    told = {"config": config, "preprocess": trained.preprocess, "classes": config["classes"]}
    if isinstance(trained.items, Tensor):
        with torch.no_grad():
            check_said(trained, whole(trained.items)[1], HALF)
    data = onnx_bytes(whole, items, INPUTS[trained.kind], told)
    (folder / "model.onnx").write_bytes(data)
    return config | {"compared": check_onnx(data, whole, items)}


def check_said(trained: Trained, probs: Tensor, advice: str) -> None:
    """An error where these probabilities of `items` are others than those that were trained and measured."""
    if trained.said is None:
        return
    off = float(np.abs(probs.double().numpy() - trained.said).max())
    if not off <= CLOSE:
        raise ModelError(
            f"the exported model would give probabilities that differ by {off:.2g} from those before; {advice}"
        )


def write_safetensors(folder: Path, trained: Trained, config: dict[str, Any]) -> dict[str, Any]:
    """The weights of the network, and those of its backbone; the configuration with what makes it again."""
    save_file(tensors_of(trained), folder / "model.safetensors")
    config = config | {"backbone_files": None}
    if trained.backbone is not None and trained.backbone.module is not None:
        config |= write_backbone(folder, config["backbone"], trained.backbone.module)
    if trained.texts is not None:
        trained.texts.save(folder / "text", whole=True)
    check_written(folder, trained, config)
    return config


def write_backbone(folder: Path, name: str, eye: nn.Module) -> dict[str, Any]:
    """The weights of a backbone that no package brings, and what the configuration has to say of them."""
    if name == OWN:
        raise OptionError('a backbone that is a module of your own cannot be made by its name; export with to="onnx"')
    body = eye.body
    assert isinstance(body, nn.Module)
    if name.startswith("hf/"):
        return {"pooling": copy_hf(body, name.removeprefix("hf/"), folder / "backbone"), "backbone_files": "backbone"}
    if name.startswith(("timm/", "torchvision/")):
        save_file({k: v.contiguous() for k, v in body.state_dict().items()}, folder / "backbone.safetensors")
        return {"backbone_files": "backbone.safetensors"}
    return {}


def written_backbone(folder: Path, config: dict[str, Any]) -> Backbone:
    """The backbone of a model, from its folder where it has the weights inside."""
    name, files = config["backbone"], config.get("backbone_files")
    size, pooling = config["backbone_size"], config.get("pooling", "auto")
    if files is None:
        return make_backbone(Frozen(backbone=name, weights=config.get("weights"), size=size, pooling=pooling))
    place = folder / Path(files).name
    if name.startswith("hf/"):
        return make_backbone(Frozen(backbone=f"hf/{place}", size=size, pooling=pooling))
    return make_backbone(Frozen(backbone=name, weights=place, size=size))


def check_written(folder: Path, trained: Trained, config: dict[str, Any]) -> None:
    """An error where the network, on what the written backbone makes of `items`, says something else than it did."""
    if trained.items is None:
        return
    with torch.no_grad():
        if isinstance(trained.items, Tensor) and (trained.backbone is None or trained.features is None):
            probs = trained.whole()(trained.items)[1]
        else:
            assert trained.features is not None
            mean, scale = trained.features
            if isinstance(trained.items, Tensor):
                rows = written_backbone(folder, config).embed(trained.items).half().float()  # as they are kept
            else:
                rows = torch.from_numpy(load_text_backbone(folder / "text").embed(trained.items))
            probs = trained.network((rows - mean) / scale).float().softmax(dim=1)
    check_said(trained, probs, OTHERWISE)


def tensors_of(trained: Trained) -> dict[str, Tensor]:
    # A tensor that two layers share is written for each of them.
    tensors = {f"network.{k}": v.detach().cpu().contiguous().clone() for k, v in trained.network.state_dict().items()}
    if trained.features is not None:
        mean, scale = trained.features
        tensors |= {"features.mean": mean.contiguous(), "features.scale": scale.contiguous()}
    return tensors


def describe(folder: Path, config: dict[str, Any], preprocess: dict[str, Any]) -> None:
    """The files for people and for `askless.load`, beside the weights."""
    write_json(folder / "config.json", config)
    write_json(folder / "preprocess.json", preprocess)
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in config["classes"]), encoding="utf-8")
    weights = sorted(f for f in folder.rglob("*") if f.suffix in (".safetensors", ".onnx"))
    hashes = {}
    for path in weights:
        with path.open("rb") as file:
            hashes[path.relative_to(folder).as_posix()] = sha256_of(file).hex()
    (folder / "README.md").write_text(card(config, preprocess, hashes), encoding="utf-8")


def free_place(out: Path, overwrite: bool) -> Path:
    """Where to write, once nothing can be lost there."""
    out = out.resolve()
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a folder or a name that is free, got a file; choose another name")
    if out.is_dir() and any(out.iterdir()):
        if not overwrite:
            raise InputError(
                f"{out}: expected an empty folder or a new name, got files in it; pass overwrite (--overwrite)"
            )
        if not ((out / "config.json").is_file() and (out / "preprocess.json").is_file()):
            raise InputError(f"{out}: expected an earlier export to overwrite, got other files; choose another name")
    return out


def image_preprocess(size: int | list[int], channels: int) -> dict[str, Any]:
    """What is done with an image file before the network, or its backbone, sees pixels from 0 to 255."""
    if channels not in (1, 3):
        raise InputError(
            f"export: expected images with 1 or 3 channels, as image files have, got {channels}; `save` keeps the learner"
        )
    return {
        **{"size": size, "fit": "scaled to cover the square, centre cut out", "interpolation": "bicubic"},
        **{"channels": "RGB" if channels == 3 else "grey", "orientation": "EXIF applied"},
    }


def text_preprocess(backbone: str) -> dict[str, Any]:
    """What is done with a text before the network sees it."""
    return {"input": f"a text; {backbone} makes features of it, then (x - mean) / scale"}


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
