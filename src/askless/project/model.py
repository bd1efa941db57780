"""The model that a run hands back: weights, preprocessing and class names in open formats, and `load` to use it.

`model.safetensors` holds the trained layers, and for a frozen backbone the mean and scale of its features; the backbone
itself is named in `config.json`. Nothing is unpickled.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.errors import InputError
from askless.project.schema import RunError
from askless.reading import UnreadableError, read_arrays, read_image

if TYPE_CHECKING:
    import torch
    from torch import nn

    from askless.project.settings import Settings
    from askless.project.training import Ground

FORMAT = 1


def save_model(
    folder: Path,
    network: "nn.Module",
    base: "Ground",
    settings: "Settings",
    names: Sequence[str],
    about: dict[str, Any],
) -> None:
    """Writes a model into an empty folder."""
    from safetensors.torch import save_file

    from askless.data import ImageViews
    from askless.project.material import image_side, raw_side

    folder.mkdir(parents=True)
    tensors = {f"network.{name}": tensor.contiguous() for name, tensor in network.state_dict().items()}
    side = image_side(settings)
    if base.mean is not None and base.scale is not None:
        tensors |= {"features.mean": base.mean.contiguous(), "features.scale": base.scale.contiguous()}
        net = "linear"
        preprocess: dict[str, Any] = {"backbone_input": "as the backbone wants it, from pixels 0..255"}
    else:
        views = ImageViews(base.pool)
        net = settings.net
        preprocess = {
            "mean": views.mean.tolist(),
            "std": views.std.tolist(),
            "input": "pixels / 255, then (x - mean) / std",
        }
    save_file(tensors, folder / "model.safetensors")
    config = {
        "format": FORMAT,
        "net": net,
        "backbone": settings.net.removeprefix("frozen:") if settings.frozen else None,
        "backbone_size": raw_side(settings),
        "shape": list(base.pool.shape),
        "classes": list(names),
        "features": base.pool.kind == "features" and not settings.frozen,
        **about,
    }
    preprocess |= {"size": side, "fit": "scaled to cover the square, centre cut out", "interpolation": "bicubic"}
    preprocess |= {"channels": "RGB", "orientation": "EXIF applied"}
    write_json(folder / "config.json", config)
    write_json(folder / "preprocess.json", preprocess)
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    (folder / "README.md").write_text(card(config, preprocess, weights), encoding="utf-8")


def card(config: dict[str, Any], preprocess: dict[str, Any], weights: str) -> str:
    """The model card."""
    backbone = config["backbone"]
    what = (
        f"a linear layer on the frozen features of {backbone}" if backbone else f"{config['net']}, trained from scratch"
    )
    return f"""# An image classifier made with askless

- **What it is**: {what}.
- **Classes**, in the order of its outputs: {", ".join(config["classes"])}.
- **Trained on** {config["labels"]} labelled and {config["unlabelled"]} unlabelled images of one collection, by
  {config["learner"]}, round {config["round"]}. Accuracy on random check images: see report.html of the run.
- **Input**: RGB, EXIF orientation applied, scaled to cover {preprocess["size"]} x {preprocess["size"]} pixels, the
  centre cut out.
- **Weights**: model.safetensors, sha256 {weights}.
- **Made with** {", ".join(f"{name} {version}" for name, version in config["versions"].items())}.
- **Limits**: it knows only these classes and says one of them for any image; it was measured on images of the same
  collection, and may do worse on others.

```python
import askless
model = askless.load("the folder of the run")
model.predict(["photo.jpg"]), model.predict_proba(["photo.jpg"]), model.classes_
```
"""


class Classifier:
    """A trained model: `predict(paths)` gives class names, `predict_proba(paths)` their probabilities (n, C)."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)
        try:
            self.config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            self.preprocess = json.loads((self.folder / "preprocess.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(
                f"{self.folder}: no model here yet; label at least two classes and let the first round be trained"
            ) from None
        except ValueError as error:
            raise RunError(f"{self.folder}: the model's description is damaged ({error})") from None
        try:
            self.classes_, self.side = np.array(self.config["classes"]), int(self.preprocess["size"])
            self._forward = self._load()
        except (KeyError, TypeError, RuntimeError) as error:  # a torch module refuses weights by a RuntimeError
            raise RunError(f"{self.folder}: the model's description and its weights do not fit ({error})") from None

    def _load(self) -> Any:
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from askless import nets
        from askless.frozen import Frozen, make_backbone

        try:
            tensors = load_file(self.folder / "model.safetensors")
        except (OSError, SafetensorError) as error:
            raise RunError(f"{self.folder}: the weights cannot be read ({error})") from None
        net = nets.make(self.config["net"], classes=len(self.classes_), shape=tuple(self.config["shape"]))
        net.load_state_dict({k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")})
        net.eval()
        if self.config["backbone"] is not None:
            backbone = make_backbone(Frozen(backbone=self.config["backbone"], size=self.config["backbone_size"]))
            mean, scale = tensors["features.mean"], tensors["features.scale"]

            def features(pixels: "torch.Tensor") -> "torch.Tensor":
                return (backbone.embed(pixels).half().float() - mean) / scale
        elif self.config["features"]:
            mean, scale = tensors["features.mean"], tensors["features.scale"]

            def features(pixels: "torch.Tensor") -> "torch.Tensor":
                return (pixels.float() - mean) / scale
        else:
            shift, spread = (torch.tensor(self.preprocess[k])[None, :, None, None] * 255 for k in ("mean", "std"))

            def features(pixels: "torch.Tensor") -> "torch.Tensor":
                return (pixels.float() - shift) / spread

        @torch.inference_mode()
        def forward(rows: np.ndarray) -> np.ndarray:
            logits = net(features(torch.from_numpy(np.ascontiguousarray(rows))))
            return logits.double().softmax(dim=1).numpy()

        return forward

    def predict_proba(self, images: Iterable[Any]) -> np.ndarray:
        """(n, C) probabilities of image files, or of arrays (H, W, 3) uint8 (for a run on features: of rows)."""
        parts, rows = [], []
        for image in images:
            rows.append(self._row(self.pixels(image)))
            if len(rows) == 32:
                parts.append(self._forward(np.stack(rows)))
                rows = []
        if rows:
            parts.append(self._forward(np.stack(rows)))
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes_)))

    def predict(self, images: Iterable[Any]) -> np.ndarray:
        """(n,) class names."""
        return self.classes_[self.predict_proba(images).argmax(axis=1)]

    def pixels(self, image: Any) -> np.ndarray:
        """(side, side, 3) uint8 of an image file or array: what the model looks at. UnreadableError for a damaged file."""
        if self.config["features"]:
            return self._features(image)
        from askless.project.material import fitted

        side = self.side
        return fitted(image, side) if isinstance(image, np.ndarray) else read_image(image, (side, side))

    def rows_in(self, file: Path) -> list[tuple[str, np.ndarray]]:
        """The id and the features of each row of an .npz or .npy, for a run on features."""
        (width,) = self.config["shape"]
        if file.suffix.lower() not in (".npz", ".npy"):
            raise InputError(
                f"{file}: expected an .npz or .npy with rows of {width} features, as the run was made from"
            )
        found = read_arrays(file)
        if found.x.shape[1:] != (width,):
            raise InputError(f"{file}: expected rows of {width} features, got an array of shape {found.x.shape}")
        return list(zip(found.ids, found.x, strict=True))

    def _features(self, row: Any) -> np.ndarray:
        width = tuple(self.config["shape"])
        try:
            features = np.asarray(row, dtype=np.float32)
        except (TypeError, ValueError):
            raise InputError(f"expected a row of {width[0]} features, as the run was made from, got {row!r}") from None
        if features.shape != width:
            raise InputError(f"expected a row of {width[0]} features, got an array of shape {features.shape}")
        if not np.isfinite(features).all():
            raise UnreadableError("NaN or infinite features")
        return features

    def _row(self, pixels: np.ndarray) -> np.ndarray:
        return pixels if pixels.ndim == 1 else pixels.transpose(2, 0, 1)


def load(folder: str | PathLike[str]) -> Classifier:
    """The model of a run, from the run's folder or from its folder `model`."""
    place = Path(folder)
    return Classifier(place / "model" if (place / "model").is_dir() or (place / "state.sqlite").exists() else place)


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
