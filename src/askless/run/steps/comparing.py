"""Which items look almost the same as others, and where each lies on a flat map: what the step `comparing` computes."""

from collections.abc import Sequence

import numpy as np

NEAR = 0.8  # the share of words and groups of up to three words that two texts have in common, to be nearly the same
AT_ONCE = 1024  # items that are compared together


def look_alikes(
    tiny: np.ndarray, x: np.ndarray, held: list[int], others: list[int], pictures: bool = True
) -> list[int]:
    """Those of `others` that look almost the same as one of `held`: thumbnails that correlate above .99, and embeddings
    (where there are any) whose cosine is above .95. Without pictures, rows of features that are equal but for rounding."""
    if not held or not others:
        return []
    if not pictures:
        known = directions(x[held])
        tiles = (others[i : i + AT_ONCE] for i in range(0, len(others), AT_ONCE))
        same = [(directions(x[tile]) @ known.T > 1 - 1e-6).any(axis=1) for tile in tiles]
        return [others[i] for i in np.flatnonzero(np.concatenate(same))]
    found: list[int] = []
    of_held = [directions(a[held]) for a in ((tiny, x) if x.ndim == 2 else (tiny,))]
    for i in range(0, len(others), AT_ONCE):
        part = others[i : i + AT_ONCE]
        alike = directions(tiny[part]) @ of_held[0].T > 0.99
        if x.ndim == 2:
            alike &= directions(x[part]) @ of_held[1].T > 0.95
        found += [item for item, any_alike in zip(part, alike.any(axis=1), strict=True) if any_alike]
    return found


def nearly_same(texts: Sequence[str], held: Sequence[int], others: Sequence[int]) -> list[int]:
    """Those of `others` that share most of their words, and of the groups of two and three words that follow each other,
    with one of `held`: a Jaccard index of at least 0.8."""
    if not len(held) or not len(others):
        return []
    from sklearn.feature_extraction.text import HashingVectorizer

    groups = HashingVectorizer(
        ngram_range=(1, 3), token_pattern=r"(?u)\w+", norm=None, binary=True, alternate_sign=False
    )
    known = groups.transform([texts[i] for i in held])
    sizes = np.asarray(known.sum(axis=1)).ravel()
    found: list[int] = []
    for start in range(0, len(others), AT_ONCE):
        part = others[start : start + AT_ONCE]
        rows = groups.transform([texts[i] for i in part])
        common = (rows @ known.T).toarray()
        union = np.asarray(rows.sum(axis=1)) + sizes - common
        near = (common >= NEAR * np.maximum(union, 1)).any(axis=1)
        found += [item for item, is_near in zip(part, near, strict=True) if is_near]
    return found


def directions(rows: np.ndarray) -> np.ndarray:
    """Rows (n, ...) as centred vectors of length 1; constant rows become 0."""
    flat = rows.reshape(len(rows), -1).astype(np.float32)
    flat -= flat.mean(axis=1, keepdims=True)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)


def flat_map(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """(N, 2) positions from 0 to 1 by the two main directions of variation; NaN for items that are not known."""
    import torch

    rows = torch.from_numpy(np.asarray(x[known]).reshape(len(known), -1).astype(np.float32))
    rows = (rows - rows.mean(dim=0)) / rows.std(dim=0).clamp(min=1e-6) if len(known) > 1 else rows * 0
    # Eigenvectors of the smaller of the two second-moment matrices.
    if rows.shape[1] <= len(rows):
        vectors = torch.linalg.eigh(rows.T @ rows)[1][:, -2:].flip(1)
        place = rows @ vectors
    else:
        values, left = torch.linalg.eigh(rows @ rows.T)
        place = (left * values.clamp(min=0).sqrt())[:, -2:].flip(1)
    if place.shape[1] < 2:
        place = torch.nn.functional.pad(place, (0, 2 - place.shape[1]))
    place = place * torch.where((place**3).sum(dim=0) < 0, -1.0, 1.0)  # eigenvectors come with either sign
    ranks = place.argsort(dim=0).argsort(dim=0).float() / max(len(rows) - 1, 1)
    low, high = place.amin(dim=0), place.amax(dim=0)
    spread = (place - low) / (high - low).clamp(min=1e-9)
    result = np.full((len(x), 2), np.nan, np.float32)
    result[known] = (0.5 * ranks + 0.5 * spread).numpy()  # half by rank, so that outliers do not squeeze all others
    return result
