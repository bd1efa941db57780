"""The model that a run hands back: weights, preprocessing and class names in open formats, and `load` to use it.

`model.safetensors` holds the trained layers, and for a frozen backbone the mean and scale of its features; the backbone
itself is named in `config.json`. Nothing is unpickled.
"""

import copy
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.errors import AsklessError, InputError
from askless.run.steps.rounds import damage_of_folder
from askless.run.store.schema import RunError, run_beside
from askless.sources import Source, UnreadableError, read_arrays, read_image, read_texts
from askless.sources.texts import TABLES

if TYPE_CHECKING:
    import torch
    from torch import nn

    from askless.run.settings import Settings
    from askless.run.steps.training import Ground

FORMAT = 1


def save_model(
    folder: Path,
    network: "nn.Module",
    base: "Ground",
    settings: "Settings",
    names: Sequence[str],
    about: dict[str, Any],
    text_backbone: Path | None = None,
) -> None:
    """Writes a model into an empty folder; one for texts with its backbone, from the folder that has it."""
    from safetensors.torch import save_file

    from askless.data import ImageViews
    from askless.models.folder import describe, image_preprocess, text_preprocess
    from askless.run.steps.material import raw_side

    folder.mkdir(parents=True)
    tensors = {f"network.{name}": tensor.contiguous() for name, tensor in network.state_dict().items()}
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
        "weights": settings.weights or None,
        "shape": list(base.pool.shape),
        "classes": list(names),
        "features": base.pool.kind == "features" and not settings.frozen,
        **about,
    }
    if text_backbone is not None:
        shutil.copytree(text_backbone, folder / "text")
        config["text"] = settings.text
        preprocess = text_preprocess(str(config["backbone"]))
    elif not config["features"]:
        preprocess |= image_preprocess(base.side, 3)
    describe(folder, config, preprocess)


class Classifier:
    """A trained model: `predict(paths)` gives class names, `predict_proba(paths)` their probabilities (n, C). A model of a
    run on texts takes texts.

    `folder`: of a run's model or of an exported one, or an ONNX file. `net`: the module, for a model whose network is one of
    your own.
    """

    def __init__(self, folder: str | PathLike[str], net: "nn.Module | None" = None) -> None:
        self.folder = Path(folder)
        file = onnx_file(self.folder)
        if file is not None:
            with self.that_fits():
                self._load_onnx(file)
            return
        try:
            self.config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            self.preprocess = json.loads((self.folder / "preprocess.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            if (self.folder.parent / "state.sqlite").exists():
                why = "no model here yet; label at least two classes and let the first round be trained"
            else:
                beside = run_beside(self.folder)
                why = f"expected a run, the folder of an exported model, or an .onnx file, found none{beside}"
            raise RunError(f"{self.folder}: {why}") from None
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.folder}: the model's description is damaged ({error})") from None
        with self.that_fits():
            self._describe()
            self._forward = self._load(net)

    @contextmanager
    def that_fits(self) -> Iterator[None]:
        """What a description that is not ours leads to becomes an error that says so."""
        try:
            yield
        except AsklessError:
            raise
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
            RuntimeError,
            MemoryError,
        ) as error:
            why = str(error)[:300] or type(error).__name__  # a torch module refuses weights by a RuntimeError
            raise RunError(f"{self.folder}: the model's description and its weights do not fit ({why})") from None

    def _describe(self) -> None:
        if not all(isinstance(name, str) for name in self.config["classes"]):
            raise TypeError("class names must be strings")
        self.classes_ = np.array(self.config["classes"])
        self.size = sides(self.preprocess) if self.kind == "image" else None

    def _load_onnx(self, file: Path) -> None:
        from askless.models.onnx_run import load_onnx

        self.config, self.preprocess, self._forward = load_onnx(file)
        self._describe()

    def _load(self, own: "nn.Module | None") -> Any:
        import torch
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        from askless import nets
        from askless.models.folder import written_backbone

        try:
            tensors = load_file(self.folder / "model.safetensors")
        except (OSError, SafetensorError) as error:
            raise RunError(f"{self.folder}: the weights cannot be read ({error})") from None
        name, options = self.config["net"], self.config.get("options", {})
        if own is None and name is None:
            raise RunError(
                f"{self.folder}: its network is a module of your own; pass the module, as in load(..., net=net)"
            )
        shape = tuple(self.config["shape"])
        net = nets.make(name, classes=len(self.classes_), shape=shape, **options) if own is None else copy.deepcopy(own)
        net.load_state_dict({k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")})
        net.eval()
        self.network, self.tensors, self.backbone, self.texts = net, tensors, None, None
        if self.kind == "text":
            from askless.features.text_backbone import load_text_backbone

            self.texts = of_texts = load_text_backbone(self.folder / "text")
            mean, scale = tensors["features.mean"], tensors["features.scale"]

            def features(pixels: Any) -> "torch.Tensor":
                return (torch.from_numpy(of_texts.embed(pixels)) - mean) / scale
        elif self.config["backbone"] is not None:
            self.backbone = backbone = written_backbone(self.folder, self.config)
            mean, scale = tensors["features.mean"], tensors["features.scale"]

            def features(pixels: Any) -> "torch.Tensor":
                return (backbone.embed(pixels).half().float() - mean) / scale
        elif self.size is None:
            mean, scale = tensors.get("features.mean", torch.zeros(())), tensors.get("features.scale", torch.ones(()))

            def features(pixels: Any) -> "torch.Tensor":
                return (pixels.float() - mean) / scale if self.kind != "tokens" else pixels
        else:
            shift, spread = (torch.tensor(self.preprocess[k])[None, :, None, None] * 255 for k in ("mean", "std"))

            def features(pixels: Any) -> "torch.Tensor":
                return (pixels.float() - shift) / spread

        @torch.inference_mode()
        def forward(rows: Any) -> np.ndarray:
            logits = net(features(rows if self.kind == "text" else torch.from_numpy(np.ascontiguousarray(rows))))
            return logits.double().softmax(dim=1).numpy()

        return forward

    @property
    def kind(self) -> str:
        """What an item is: "image", "text", "features" (a row), "tokens", or "other": numbers that the network takes as they
        are."""
        if "text" in self.config:
            return "text"
        return "features" if self.config["features"] else str(self.config.get("kind", "image"))

    def predict_proba(self, images: Iterable[Any]) -> np.ndarray:
        """(n, C) probabilities of image files, or of arrays (H, W, 3) uint8 (of a run on features: of rows; on texts: of
        texts)."""
        parts, rows = [], []
        stack = list if self.kind == "text" else np.stack
        for image in [images] if isinstance(images, str) and self.kind == "text" else images:
            rows.append(self._row(self.pixels(image)))
            if len(rows) == 32:
                parts.append(self._forward(stack(rows)))
                rows = []
        if rows:
            parts.append(self._forward(stack(rows)))
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes_)))

    def predict(self, images: Iterable[Any]) -> np.ndarray:
        """(n,) class names."""
        return self.classes_[self.predict_proba(images).argmax(axis=1)]

    def pixels(self, image: Any) -> Any:
        """(H, W, 3) or (H, W, 1) uint8 of an image file or array: what the model looks at, or the text. UnreadableError for
        a damaged file."""
        if self.kind == "text":
            if not isinstance(image, str):
                raise InputError(f"expected a text, as the run was made from, got {type(image).__name__}")
            return image
        if self.size is None:
            return self._features(image)
        seen = fit_array(image, self.size) if isinstance(image, np.ndarray) else read_image(image, self.size)
        return grey(seen) if self.preprocess["channels"] == "grey" else seen

    def texts_in(self, source: Path, column: str = "", encoding: str = "utf-8") -> Source:
        """The texts of a table (in `column`, by default as in the run, or as found) or of a folder of .txt files."""
        if column or source.is_dir() or source.suffix.lower() not in TABLES:
            return read_texts(source, column, encoding=encoding)
        try:
            return read_texts(source, self.config["text"], encoding=encoding)
        except InputError:
            return read_texts(source, encoding=encoding)

    def rows_in(self, file: Path) -> list[tuple[str, np.ndarray]]:
        """The id and the features of each row of an .npz or .npy, for a run on features."""
        if self.kind != "features":
            shape = tuple(self.config["shape"])
            raise InputError(f"this model takes {self.kind} of shape {shape} as its network does; use it from Python")
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
        shape = tuple(self.config["shape"])
        what = f"a row of {shape[0]} features" if self.kind == "features" else f"{self.kind} of shape {shape}"
        try:
            features = np.asarray(row, dtype=np.int64 if self.kind == "tokens" else np.float32)
        except (TypeError, ValueError):
            raise InputError(f"expected {what}, as the model was made from, got {row!r}") from None
        if features.shape != shape:
            raise InputError(f"expected {what}, got an array of shape {features.shape}")
        if not np.isfinite(features).all():
            raise UnreadableError("NaN or infinite features")
        return features

    def _row(self, pixels: Any) -> Any:
        return pixels if self.size is None else pixels.transpose(2, 0, 1)


def load(folder: str | PathLike[str], net: "nn.Module | None" = None) -> Classifier:
    """The model of a run, from the run's folder or from its folder `model`; or one that was exported, from its folder or
    from a `model.onnx`. `net`: the module, where the network of an exported model is one of your own."""
    place = Path(folder)
    of_run = (place / "model").is_dir() or (place / "state.sqlite").exists()
    if of_run and (place / "model").is_dir() and (found := damage_of_folder(place / "model")):
        raise RunError(f"the model of the run is damaged ({found}); `askless start {place}` trains it again")
    return Classifier(place / "model" if of_run else place, net)


def onnx_file(place: Path) -> Path | None:
    """The ONNX file that is meant: the path itself, or the one in a folder that has no other weights."""
    if place.suffix == ".onnx" and place.is_file():
        return place
    file = place / "model.onnx"
    return file if file.is_file() and not (place / "model.safetensors").is_file() else None


def sides(preprocess: dict[str, Any]) -> tuple[int, int]:
    """(height, width) of the images that a model sees."""
    size = preprocess["size"]
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def fit_array(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(H, W, 3) of an image (h, w, 3), (h, w, 1) or (h, w): scaled to cover `size`, the centre cut out."""
    from PIL import Image, ImageOps

    image = image[:, :, None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype != np.uint8:
        raise InputError(f"expected an image (H, W, 3) of uint8, got {image.dtype} of shape {image.shape}")
    image = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image
    if image.shape[:2] == size:
        return image
    return np.asarray(ImageOps.fit(Image.fromarray(image), size[::-1], Image.Resampling.BICUBIC))


def grey(image: np.ndarray) -> np.ndarray:
    """(H, W, 1) of (H, W, 3), by the weights that Pillow and others use."""
    return np.rint(image @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)[:, :, None]
