"""Texts -> features (n, d), by a backbone that is called by name and never trained further.

`tfidf` is the default and needs no download: weights of words, fitted on the pool, reduced by SVD. `hf/FOLDER` and `hf/NAME`
are models of Hugging Face.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from askless.base import digest
from askless.base.errors import InputError, OptionError
from askless.base.files import write_whole
from askless.data import PlainViews, Pool, as_pool, data_home
from askless.features.backbones import TextBackbone, hf_texts
from askless.features.frozen import Frozen, is_whole, save_array

TEXT_BACKBONES = ("tfidf",)
DIMENSIONS, WORDS = 256, 20_000  # of the SVD, and of the vocabulary, at most
SMALL = 200  # texts: in a pool below this, a word that one text has counts too
SQ_LENGTH = 1000.0  # mean squared length of the rows that a linear head learns well from, as of frozen image features
FORMAT = 1


class Embedder(NamedTuple):
    """`embed`: texts -> (n, d) float32. `name`: "tfidf" or "hf/PLACE". What was fitted, if anything, is in `words` and
    `arrays`, from which `load_text_backbone` makes it again; `model` is one of Hugging Face."""

    embed: Callable[[Sequence[str]], np.ndarray]
    name: str
    words: tuple[str, ...] = ()
    arrays: dict[str, np.ndarray] = {}  # noqa: RUF012
    model: TextBackbone | None = None

    def save(self, folder: Path, whole: bool = False) -> None:
        """Writes backbone.json and, where anything was fitted, backbone.safetensors; nothing is ever unpickled. A model of
        Hugging Face is named, or, with `whole`, copied into the folder `model`, which then needs nothing else."""
        from safetensors.numpy import save

        folder.mkdir(parents=True, exist_ok=True)
        if self.arrays:
            content = save(self.arrays)
            write_whole(folder / "backbone.safetensors", lambda file: file.write(content))
        about: dict[str, Any] = {"format": FORMAT, "name": self.name, "words": self.words}
        if self.model is not None:
            about |= {"pooling": self.model.pooling, "whole": whole}
            if whole:
                self.model.copy(folder / "model")
        text = json.dumps(about, ensure_ascii=False)
        write_whole(folder / "backbone.json", lambda file: file.write(text.encode()))


def text_backbone(backbone: str | Frozen, texts: Sequence[str]) -> Embedder:
    """The backbone, by its name or with options, fitted on these texts where it is one that is fitted."""
    name = backbone if isinstance(backbone, str) else backbone.backbone
    if name == "tfidf":
        return fitted(texts)
    if isinstance(name, str) and name.startswith("hf/"):
        pooling = "auto" if isinstance(backbone, str) else backbone.pooling
        model = hf_texts(name.removeprefix("hf/"), pooling)
        return Embedder(model.embed, name, model=model)
    known = ", ".join((*TEXT_BACKBONES, "hf/FOLDER", "hf/NAME"))
    raise OptionError(f"unknown backbone {name!r} for texts; the known ones are {known}")


def load_text_backbone(folder: Path) -> Embedder:
    """What `Embedder.save` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        about = json.loads((folder / "backbone.json").read_text(encoding="utf-8"))
        if about["name"] != "tfidf":
            name = f"hf/{folder / 'model'}" if about.get("whole") else about["name"]
            return text_backbone(Frozen(backbone=name, pooling=about.get("pooling", "auto")), ())
        return tfidf(tuple(about["words"]), load_file(folder / "backbone.safetensors"))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise InputError(f"{folder}: expected a backbone for texts that askless saved, got another ({error})") from None


def embed_texts(
    texts: Sequence[str],
    backbone: str | Frozen,
    progress: Callable[[int, int], None] | None = None,
    batch: int = 32,
) -> np.ndarray:
    """Features (N, d) float32 of texts, embedded once and found again by their content."""
    return embedder_and_rows(list(texts), backbone, progress, batch)[1]


def embedder_and_rows(
    texts: Sequence[str], backbone: str | Frozen, progress: Callable[[int, int], None] | None = None, batch: int = 32
) -> tuple[Embedder, np.ndarray]:
    """The backbone, and the features of the texts (N, d) float32; those of a model of Hugging Face are kept on disk."""
    if not texts:
        raise InputError("expected at least one text to embed, got none")
    embedder = text_backbone(backbone, texts)
    path = None
    if embedder.model is not None:
        cache = None if isinstance(backbone, str) else backbone.cache
        folder = data_home() / "embeddings" if cache is None else Path(cache)
        path = folder / f"{digest.of_text(FORMAT, embedder.model.name, list(texts))[:32]}.npy"
        if is_whole(path, len(texts)):
            return embedder, np.load(path, allow_pickle=False)
    parts = []
    for start in range(0, len(texts), batch):
        parts.append(embedder.embed(texts[start : start + batch]))
        if progress is not None:
            progress(min(start + batch, len(texts)), len(texts))
    rows = np.concatenate(parts)
    if path is not None:
        save_array(path, rows)
    return embedder, rows


# --- TF-IDF and SVD


def fitted(texts: Sequence[str]) -> Embedder:
    """TF-IDF of the words that are not in most texts, and the main directions of it. Same texts, same features."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    least = 1 if len(texts) < SMALL else 2
    counted = TfidfVectorizer(
        sublinear_tf=True, min_df=least, max_df=0.5 if len(texts) >= 4 else 1.0, max_features=WORDS, dtype=np.float32
    )
    try:
        weights = counted.fit_transform(texts)
    except ValueError:  # no word is left
        raise InputError(
            f"expected texts with words in common, got {len(texts)} texts without; text features need some, and words "
            "that are divided by blanks"
        ) from None
    wide = min(DIMENSIONS, *(n - 1 for n in weights.shape))
    if wide < 1:
        raise InputError(f"expected at least two texts with at least two words, got {weights.shape[0]} texts")
    svd = TruncatedSVD(n_components=wide, random_state=0).fit(weights)
    words = tuple(str(word) for word in counted.get_feature_names_out())
    # In C order: safetensors writes an array's memory as it lies there.
    found = {"idf": counted.idf_, "components": svd.components_}
    return tfidf(words, {name: np.ascontiguousarray(array, np.float32) for name, array in found.items()})


def tfidf(words: tuple[str, ...], arrays: dict[str, np.ndarray]) -> Embedder:
    """The function with these words, their inverse document frequencies (V,) and directions (d, V). Rows have length 1; a
    text that has none of the words is a row of zeros."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    counted = TfidfVectorizer(sublinear_tf=True, vocabulary=list(words), dtype=np.float32)
    counted.idf_ = arrays["idf"]

    def embed(texts: Sequence[str]) -> np.ndarray:
        if len(texts) == 0:
            return np.zeros((0, len(arrays["components"])), np.float32)
        rows = counted.transform(texts) @ arrays["components"].T
        return np.asarray(normalize(rows), np.float32)

    return Embedder(embed, "tfidf", words, arrays)


# --- as a network sees them


def evened(plain: Tensor) -> tuple[Tensor, Tensor]:
    """What to subtract from features (n, d) and to divide them by: the mean, and one number for all columns.

    The directions of an SVD stay as strong as they are: dividing each by its own deviation, as is right for images, would
    make the weakest, which are noise, as loud as the first.
    """
    mean = plain.mean(dim=0)
    length = (plain - mean).square().sum(dim=1).mean().clamp(min=1e-12)
    return mean, (length / SQ_LENGTH).sqrt().expand_as(mean).clone()


class TextViews(PlainViews):
    """Texts as a network sees them: their features `rows`, less `mean`, by `scale`; those from outside are embedded when
    they come."""

    def __init__(self, backbone: Embedder, rows: Tensor) -> None:
        self.backbone = backbone
        self.mean, self.scale = evened(rows)
        super().__init__(as_pool((rows - self.mean) / self.scale, kind="features"))

    def of(self, x: Any) -> Tensor:
        return self._ready((torch.from_numpy(self.backbone.embed(as_texts(x))) - self.mean) / self.scale)


def text_views(
    pool: Pool, backbone: str | Frozen, progress: Callable[[int, int], None] | None = None, batch: int = 256
) -> TextViews:
    """The features of a pool of texts, by a backbone."""
    texts = [str(pool.x[i]) for i in range(len(pool))]
    if progress is not None:
        progress(0, len(texts))
    embedder, rows = embedder_and_rows(texts, backbone, progress, batch)
    if progress is not None:
        progress(len(texts), len(texts))
    return TextViews(embedder, torch.from_numpy(rows))


def as_texts(x: Any) -> list[str]:
    if isinstance(x, str):
        return [x]
    texts = list(x)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"item {i}: expected a text, as in the pool, got {type(text).__name__}")
    return [str(text) for text in texts]
