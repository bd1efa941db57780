"""Embed texts as features (n, d), with a backbone by name that is never trained further.

`tfidf` is the default and needs no download: weights of words, fitted on the pool, reduced by SVD. `minilm` is a sentence
encoder inside a package, `tfidf+minilm` both side by side. `hf/FOLDER` and `hf/NAME` are models of Hugging Face.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from askless.base import digest
from askless.base.errors import InputError, ModelError, OptionError
from askless.data import PlainViews, Pool, as_pool
from askless.data.tfidf import Tfidf, fit_tfidf
from askless.features.backbones.backbone import TextBackbone
from askless.features.backbones.hugging_face import hf_texts
from askless.features.backbones.minilm import joined, minilm, side_by_side
from askless.features.frozen import TEXT_BACKBONES, Frozen, cache_folder
from askless.features.scaling import evened
from askless.features.stored import Piece, Progress, is_whole, write_rows

FORMAT = 1  # of the cached embeddings


def text_backbone(backbone: str | Frozen, texts: Sequence[str]) -> TextBackbone:
    """The backbone, by its name or with options, fitted on these texts where it is one that is fitted."""
    name = backbone if isinstance(backbone, str) else backbone.backbone
    if name == "tfidf":
        return by_words(fit_tfidf(texts))
    if name == "minilm":
        return minilm()
    if name == "tfidf+minilm":
        sentences = minilm()  # first: a missing package is said before anything is fitted
        return side_by_side(by_words(fit_tfidf(texts)), sentences)
    if isinstance(name, str) and name.startswith("hf/"):
        return hf_texts(name.removeprefix("hf/"), "auto" if isinstance(backbone, str) else backbone.pooling)
    known = ", ".join((*TEXT_BACKBONES, "hf/FOLDER", "hf/NAME"))
    raise OptionError(f"unknown backbone {name!r} for texts; the known ones are {known}")


def by_words(fitted: Tfidf) -> TextBackbone:
    return TextBackbone(fitted.embed, "tfidf", fitted.words, {"idf": fitted.idf, "components": fitted.components})


def load_text_backbone(folder: Path) -> TextBackbone:
    """Load what `TextBackbone.save` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        about = json.loads((folder / "backbone.json").read_text(encoding="utf-8"))
        name, model = about["name"], folder / "model" if about.get("whole") else None
        if name == "minilm":
            return minilm(model)
        if name not in TEXT_BACKBONES:
            place = name if model is None else f"hf/{model}"
            return text_backbone(Frozen(backbone=place, pooling=about.get("pooling", "auto")), ())
        arrays = load_file(folder / "backbone.safetensors")
        words = by_words(Tfidf(tuple(about["words"]), arrays["idf"], arrays["components"]))
        return words if name == "tfidf" else side_by_side(words, minilm(model))
    except ModelError:  # a package that is missing
        raise
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise InputError(f"{folder}: expected a text backbone saved by askless, got something else ({error})") from None


def embed_texts(
    texts: Sequence[str], backbone: str | Frozen, progress: Progress | None = None, batch: int = 32
) -> np.ndarray:
    """Features (N, d) float32 of texts, embedded once and cached by their content.

    `backbone`: "tfidf", "minilm" or `Frozen(...)`. `batch`: texts per pass.

    >>> al.embed_texts(["a cheap pill", "lunch at noon", "cheap pills"], "tfidf").shape
    (3, 2)
    """
    return backbone_and_rows(list(texts), backbone, progress, batch)[1]


def backbone_and_rows(
    texts: Sequence[str], backbone: str | Frozen, progress: Progress | None, batch: int
) -> tuple[TextBackbone, np.ndarray]:
    """The backbone, and the features of the texts (N, d) float32; those of a pretrained model are kept on disk."""
    if not texts:
        raise InputError("expected at least one text to embed, got none")
    made = text_backbone(backbone, texts)
    return made, rows_of(
        texts, made, Frozen(backbone=backbone) if isinstance(backbone, str) else backbone, progress, batch
    )


def rows_of(
    texts: Sequence[str], made: TextBackbone, frozen: Frozen, progress: Progress | None = None, batch: int = 256
) -> np.ndarray:
    """The features (N, d) float32 of texts by a backbone that is ready; those of a pretrained model are kept on disk."""
    if made.parts is not None:
        words, sentences = made.parts
        return joined(words.embed(texts), rows_of(texts, sentences, frozen, progress, batch))
    n = len(texts)

    def pieces(done: int, _: Any) -> Iterator[Piece]:
        return (Piece([made.embed(texts[i : i + batch])]) for i in range(done, n, batch))

    if not made.key:
        parts: list[np.ndarray] = []
        for piece in pieces(0, None):
            parts += piece.rows
            if progress is not None:
                progress(min(len(parts) * batch, n), n)
        return np.concatenate(parts)
    path = cache_folder(frozen) / f"{digest.of_text(FORMAT, made.key, list(texts))[:32]}.npy"
    if not is_whole(path, n):
        write_rows([path], n, made.key, pieces, progress, shared=True)
    return np.asarray(np.load(path, allow_pickle=False))


# --- as a network sees them


class TextViews(PlainViews):
    """Texts as a network sees them: their features `rows`, less `mean`, by `scale`; those from outside are embedded when
    they come."""

    def __init__(self, backbone: TextBackbone, rows: Tensor) -> None:
        self.backbone = backbone
        self.mean, self.scale = evened(rows)
        super().__init__(as_pool(self.standardised(rows), kind="features"))

    def standardised(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) / self.scale

    def of(self, x: Any) -> Tensor:
        return self._ready(self.standardised(torch.from_numpy(self.backbone.embed(as_texts(x)))))


def text_views(pool: Pool, backbone: str | Frozen, progress: Progress | None = None) -> TextViews:
    """The features of a pool of texts, by a backbone."""
    texts = [str(pool.x[i]) for i in range(len(pool))]
    if progress is not None:
        progress(0, len(texts))
    made, rows = backbone_and_rows(texts, backbone, progress, batch=256)
    if progress is not None:
        progress(len(texts), len(texts))
    return TextViews(made, torch.from_numpy(rows))


def as_texts(x: Any) -> list[str]:
    if isinstance(x, str):
        return [x]
    texts = list(x)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"item {i}: expected a text, as in the pool, got {type(text).__name__}")
    return [str(text) for text in texts]
