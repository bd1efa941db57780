"""Texts as features without any download: TF-IDF of their words, reduced by SVD. Everything that has TF-IDF has this one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from askless.base.errors import InputError

DIMENSIONS, WORDS = 256, 50_000  # of the SVD, and of the vocabulary, at most
SMALL = 200  # texts: in a pool below this, a word that one text has counts too


class Tfidf(NamedTuple):
    """Words (V), their inverse document frequencies `idf` (V,) and the directions `components` (d, V)."""

    words: tuple[str, ...]
    idf: np.ndarray
    components: np.ndarray

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) float32, rows of length 1; a text that has none of the words is a row of zeros."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import normalize

        if len(texts) == 0:
            return np.zeros((0, len(self.components)), np.float32)
        counted = TfidfVectorizer(sublinear_tf=True, vocabulary=list(self.words), dtype=np.float32)
        counted.idf_ = self.idf
        return np.asarray(normalize(counted.transform(texts) @ self.components.T), np.float32)


def fit_tfidf(texts: Sequence[str]) -> Tfidf:
    """Of the words that three texts or more have (in a small pool: any text), that are not in most texts, and that are no
    English stop words; and the main directions of their weights. Same texts, same features."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    counted = TfidfVectorizer(
        sublinear_tf=True,
        min_df=1 if len(texts) < SMALL else 3,
        max_df=0.5 if len(texts) >= 4 else 1.0,
        stop_words="english",
        max_features=WORDS,
        dtype=np.float32,
    )
    try:
        weights = counted.fit_transform(texts)
    except ValueError:  # no word is left
        raise InputError(
            f"expected texts with words in common, got {len(texts)} texts without; text features need some, and words "
            "separated by spaces"
        ) from None
    wide = min(DIMENSIONS, *(n - 1 for n in weights.shape))
    if wide < 1:
        raise InputError(f"expected at least two texts with at least two words, got {weights.shape[0]} texts")
    svd = TruncatedSVD(n_components=wide, random_state=0).fit(weights)
    words = tuple(str(word) for word in counted.get_feature_names_out())
    # In C order: safetensors writes an array's memory as it lies there.
    return Tfidf(words, *(np.ascontiguousarray(array, np.float32) for array in (counted.idf_, svd.components_)))
