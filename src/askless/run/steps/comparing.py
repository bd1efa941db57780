"""The step `comparing`: which items look almost the same as check images, and where each lies on a flat map."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from askless.base.files import write_whole
from askless.run.steps.embedding import CachedItems
from askless.run.steps.index import write_skipped
from askless.run.store.asking import plan
from askless.run.store.items import keep_out_of_pool, note_skipped, readable_items
from askless.run.store.store import record, set_meta
from askless.sources import Skipped

if TYPE_CHECKING:
    from askless.run.run import Report, Run

NEAR = 0.8  # the share of words and groups of up to three words that two texts have in common, to be nearly the same
AT_ONCE = 1024  # items that are compared together


def compare(run: "Run", report: "Report") -> None:
    """Draws the map, and the first time keeps what looks like a check image out of the pool."""
    text = f"Looking for near-duplicates of the check {run.noun}s"
    report("comparing", text, 0, 1)
    read = CachedItems(run.folder / "cache")
    with run.store.look() as db:
        everything, held = readable_items(db), readable_items(db, "check", "reserve")
        pool, (budget, check) = readable_items(db, "pool"), plan(db)
    places = flat_map(read.x, np.array(everything, np.int64))
    write_whole(run.folder / "cache" / "map.npy", lambda file: np.save(file, places, allow_pickle=False))
    if run.meta("compared"):  # the cache was deleted: the pool stays as it is, for some of it has been asked
        return
    if run.kind == "texts":
        alike = nearly_same(list(run.texts().values()), held, pool)
    else:
        alike = look_alikes(read.tiny, read.x, held, pool, pictures=run.kind != "features")
    # Where almost everything looks alike, as in a film, too few would be left: then it is only said.
    flattered = len(alike) if len(pool) - len(alike) < max(2, budget - check) else 0
    alike = [] if flattered else alike
    reason = f"looks like a check {run.noun}; never chosen"
    with run.store.change() as db:
        record(db, f"compared-{time.time_ns()}", "near_check", "worker", {"items": alike})
        keep_out_of_pool(db, alike)
        skipped = note_skipped(db, [Skipped(run.paths[i], "look-alike", reason) for i in alike])
        set_meta(db, "flattered", flattered)
        set_meta(db, "compared", True)
    write_skipped(skipped, run.folder / "skipped.csv")
    report("comparing", text, 1, 1)


def look_alikes(
    tiny: np.ndarray, x: np.ndarray, held: list[int], others: list[int], pictures: bool = True
) -> list[int]:
    """Those of `others` that look almost the same as one of `held`: thumbnails that correlate above .99, and embeddings
    (where there are any) whose cosine is above .95. Without pictures, rows of features that are equal but for rounding."""
    if not held or not others:
        return []
    by = [(tiny, 0.99)] if pictures else [(x, 1 - 1e-6)]
    if pictures and x.ndim == 2:
        by.append((x, 0.95))
    known = [directions(rows[held]) for rows, _ in by]
    found: list[int] = []
    for i in range(0, len(others), AT_ONCE):
        part = others[i : i + AT_ONCE]
        near = [directions(rows[part]) @ of.T > least for (rows, least), of in zip(by, known, strict=True)]
        alike = np.logical_and.reduce(near).any(axis=1)
        found += [item for item, is_alike in zip(part, alike, strict=True) if is_alike]
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
