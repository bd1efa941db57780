"""A model in use: image files, arrays, texts or rows of features in; classes and probabilities out."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.errors import AsklessError, InputError, ModelError
from askless.base.files import damage_of_files, run_beside
from askless.models.card import kind_of, sides
from askless.sources import Source, UnreadableError, open_source, read_arrays, read_image, read_texts
from askless.sources.texts import TABLES

if TYPE_CHECKING:
    from torch import nn

    from askless.models.folder import Trained

BATCH = 32  # items that are read and judged together
# What a description of another kind leads to; a torch module refuses weights by a RuntimeError.
MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError)


class Classifier:
    """A trained model: `predict(paths)` gives class names, `predict_proba(paths)` their probabilities (n, C). A model of
    texts takes texts.

    `folder`: of a run's model or of an exported one, or an ONNX file. `net`: the module, for a model whose network is one of
    your own.
    """

    _forward: Callable[[Any], np.ndarray]
    trained: "Trained | None" = None  # of an ONNX file only the function from items to probabilities is known

    def __init__(self, folder: str | PathLike[str], net: "nn.Module | None" = None) -> None:
        self.folder = Path(folder)
        with self.that_fits():
            file = onnx_file(self.folder)
            if file is not None:
                from askless.models.onnx_run import load_onnx

                self.config, self.preprocess, self._forward = load_onnx(file)
            else:
                self.config, self.preprocess = map(self._described, ("config.json", "preprocess.json"))
            if not all(isinstance(name, str) for name in self.config["classes"]):
                raise TypeError("class names must be strings")
            self.classes_ = np.array(self.config["classes"])
            self.kind = kind_of(self.config)
            self.size = sides(self.preprocess) if self.kind == "image" else None  # (height, width)
            if file is None:
                from askless.models.folder import read_model

                self.trained = read_model(self.folder, self.config, self.preprocess, net)
                self._forward = self.trained.probabilities

    def _described(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            if (self.folder.parent / "state.sqlite").exists():
                why = "no model here yet; label at least two classes and wait for the first round"
            else:
                beside = run_beside(self.folder)
                why = f"expected a run, the folder of an exported model, or an .onnx file, found none{beside}"
            raise ModelError(f"{self.folder}: {why}") from None
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{self.folder}: the model's description is damaged ({error})") from None

    @contextmanager
    def that_fits(self) -> Iterator[None]:
        """Turns what a foreign description leads to into an error that says so."""
        try:
            yield
        except AsklessError:
            raise
        except MISFITS as error:
            why = str(error)[:300] or type(error).__name__
            raise ModelError(f"{self.folder}: the model's description does not match its weights ({why})") from None

    def predict_proba(self, items: Iterable[Any]) -> np.ndarray:
        """(n, C) probabilities of image files, or of arrays (H, W, 3) uint8 (of a model on features: of rows; on texts: of
        texts)."""
        parts = []
        rows = map(self.read_item, [items] if isinstance(items, str) and self.kind == "text" else items)
        while batch := list(islice(rows, BATCH)):
            parts.append(self._judged(batch))
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes_)))

    def predict(self, items: Iterable[Any]) -> np.ndarray:
        """(n,) class names."""
        return self.classes_[self.predict_proba(items).argmax(axis=1)]

    def _judged(self, rows: list[Any]) -> np.ndarray:
        """(n, C) probabilities of what `read_item` gave."""
        if self.kind == "text":
            return self._forward(rows)
        stack = np.stack(rows)
        return self._forward(stack if self.size is None else stack.transpose(0, 3, 1, 2))  # -> (n, C, H, W)

    def read_item(self, item: Any) -> Any:
        """What the model takes of an item: (H, W, 3) or (H, W, 1) uint8 of an image file or array, the text, or the row.
        UnreadableError for a damaged file."""
        if self.kind == "text":
            if not isinstance(item, str):
                raise InputError(f"expected a text, as in the run, got {type(item).__name__}")
            return item
        if self.size is None:
            return self._numbers(item)
        seen = fit_array(item, self.size) if isinstance(item, np.ndarray) else read_image(item, self.size)
        return grey(seen) if self.preprocess["channels"] == "grey" else seen

    def _numbers(self, row: Any) -> np.ndarray:
        shape = tuple(self.config["shape"])
        what = f"a row of {shape[0]} features" if self.kind == "features" else f"{self.kind} of shape {shape}"
        try:
            numbers = np.asarray(row, dtype=np.int64 if self.kind == "tokens" else np.float32)
        except (TypeError, ValueError):
            raise InputError(f"expected {what}, as in the training data, got {row!r}") from None
        if numbers.shape != shape:
            raise InputError(f"expected {what}, got an array of shape {numbers.shape}")
        if not np.isfinite(numbers).all():
            raise UnreadableError("NaN or infinite features")
        return numbers

    def items_in(self, source: Path, column: str = "", encoding: str = "utf-8") -> tuple[list[Any], list[Any]]:
        """The names and items of a file or folder, as pairs, and what was skipped there: image files; the rows of an .npz
        or .npy; or the texts of a table (in `column`, by default as in the run, or as found) or of .txt files."""
        if self.kind == "text":
            found, skipped = self._texts_in(source, column, encoding).read()
            return [(item.id, item.content) for item in found], skipped
        if self.size is None:
            return self._rows_in(source), []
        if not source.is_dir():
            return [(source, source)], []
        below = open_source(source, formats=("folder",)).read()[0]
        return [(source / item.id, source / item.id) for item in below], []

    def _texts_in(self, source: Path, column: str, encoding: str) -> Source:
        if not column and not source.is_dir() and source.suffix.lower() in TABLES:
            with suppress(InputError):
                return read_texts(source, self.config["text"], encoding=encoding)
        return read_texts(source, column, encoding=encoding)

    def _rows_in(self, file: Path) -> list[tuple[str, np.ndarray]]:
        if self.kind != "features":
            shape = tuple(self.config["shape"])
            raise InputError(f"this model takes {self.kind} of shape {shape} as its network does; use it from Python")
        (width,) = self.config["shape"]
        if file.suffix.lower() not in (".npz", ".npy"):
            raise InputError(f"{file}: expected an .npz or .npy file with rows of {width} features, as in the run")
        found = read_arrays(file)
        if found.array.shape[1:] != (width,):
            raise InputError(f"{file}: expected rows of {width} features, got an array of shape {found.array.shape}")
        return [(item.id, found.array[item.content]) for item in found.read()[0]]


def load(folder: str | PathLike[str], net: "nn.Module | None" = None) -> Classifier:
    """The model of a run, from the run's folder or from its folder `model`; or one that was exported, from its folder or
    from a `model.onnx`. `net`: the module, where the network of an exported model is one of your own.

    A folder without a model raises AsklessError.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, net="linear", learner=al.Supervised(steps=20))
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> _ = learner.export("model")
    >>> al.load("model").predict(pool.x[:3])
    array(['lower', 'lower', 'lower'], dtype='<U5')
    """
    place = Path(folder)
    of_run = (place / "model").is_dir() or (place / "state.sqlite").exists()
    if of_run and (place / "model").is_dir() and (found := damage_of_files(place / "model")):
        raise ModelError(f"the model of the run is damaged ({found}); `askless start {place}` trains it again")
    return Classifier(place / "model" if of_run else place, net)


def onnx_file(place: Path) -> Path | None:
    """The ONNX file that is meant: the path itself, or the one in a folder that has no other weights."""
    if place.suffix == ".onnx" and place.is_file():
        return place
    file = place / "model.onnx"
    return file if file.is_file() and not (place / "model.safetensors").is_file() else None


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
