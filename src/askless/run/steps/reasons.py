"""Why an item was chosen, in a few words and with the number behind them."""

from collections.abc import Sequence

import numpy as np

from askless.acquire import STRATEGIES, Selection
from askless.active.learner import ActiveLearner
from askless.base.rng import stream
from askless.data import Pool
from askless.linalg import GramRows, gram_score

HESITATES = 0.3  # difference of the two largest probabilities below which the model hesitates
REPLACEMENTS = 5  # random items that a pick is compared with
FAR = 0.9  # of the items are nearer to a label than one that is called unlike them all
COUNTED = 20_000  # items whose nearest pick is looked for, at most
TILE = 2048  # items that are compared at a time


def reasons(
    learner: ActiveLearner,
    pool: Pool,
    picks: Selection,
    probs: np.ndarray | None,
    names: Sequence[str],
    noun: str = "image",
) -> list[str]:
    """One short text per pick; `noun` is what one item is called."""
    name = learner.strategy.name
    reason = STRATEGIES[name].reason if name in STRATEGIES else "hesitates"
    if reason == "random":
        return ["drawn at random"] * len(picks)
    unsure = [None] * len(picks) if probs is None else [between(probs[i], names) for i in picks.indices.tolist()]
    features = np.asarray(pool.x, dtype=np.float32) if pool.kind == "features" else None
    fallback = ["chosen by " + name] * len(picks)
    if features is not None:
        fallback = regions(features, learner.labelled, picks.indices, noun)
    if reason == "eigenvalue" and features is not None and len(picks) > 1:
        gains = eigenvalue_gains(features, learner.labelled, picks.indices, learner.seed)
        spectral = [f"adds more variety than a random {noun} would" if high > low else "" for low, high in gains]
        return [one or doubt or other for one, doubt, other in zip(spectral, unsure, fallback, strict=True)]
    if reason == "new region":
        return fallback
    if reason == "stands for" and len(picks.info.get("stands_for", ())) == len(picks):
        others = zip(picks.info["stands_for"], fallback, strict=True)
        stand = [f"typical of {k} similar {noun}s" if k > 1 else other for k, other in others]
        return [f"{one}; {doubt}" if doubt else one for one, doubt in zip(stand, unsure, strict=True)]
    return [doubt or other for doubt, other in zip(unsure, fallback, strict=True)]


def between(probs: np.ndarray, names: Sequence[str]) -> str | None:
    """That the model hesitates between two classes, where it does."""
    first, second = np.argsort(-probs, kind="stable")[:2]
    if probs[first] - probs[second] >= HESITATES:
        return None
    return f"the model hesitates between {names[first]} and {names[second]}"


def regions(features: np.ndarray, labelled: np.ndarray, picks: np.ndarray, noun: str = "image") -> list[str]:
    """How an item lies to the others: far from all labels, typical of many, or in a gap between the labels."""
    farther = shares_nearer_a_label(features, labelled, picks)
    alike, about = count_alike(features, labelled, picks)

    def text(share: float, n: int) -> str:
        far = f"farther from every label than {int(100 * share)} % of the {noun}s"
        if share >= FAR:
            return f"unlike anything labelled so far: {far}"
        if n > 1:
            return f"typical of {about}{n:,} similar {noun}s"
        return far if share >= 0.5 else "fills a gap in the batch"

    return [text(share, n) for share, n in zip(farther, alike, strict=True)]


def shares_nearer_a_label(features: np.ndarray, labelled: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """For each pick the share of the items that are nearer to a label than it is; 0 before there are labels."""
    if len(labelled) == 0:
        return np.zeros(len(picks))
    known = features[labelled]
    usual = np.sort(sq_dist(features[:: max(1, len(features) // 1000)], known).min(axis=1))
    return np.searchsorted(usual, sq_dist(features[picks], known).min(axis=1)) / len(usual)


def count_alike(features: np.ndarray, labelled: np.ndarray, picks: np.ndarray) -> tuple[list[int], str]:
    """For each pick how many other items are nearer to it than to any other pick or label; "about " where only some of the
    items were looked at.

    >>> x = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]], np.float32)
    >>> count_alike(x, np.array([3]), np.array([1]))
    ([2], '')
    """
    centres = features[np.concatenate([picks, labelled]).astype(np.int64)]
    step = -(-len(features) // COUNTED)
    others = np.setdiff1d(np.arange(0, len(features), step), picks)
    counts = np.zeros(len(centres), np.int64)
    for start in range(0, len(others), TILE):
        nearest = sq_dist(features[others[start : start + TILE]], centres).argmin(axis=1)
        counts += np.bincount(nearest, minlength=len(centres))
    return [int(n) * step for n in counts[: len(picks)]], "about " if step > 1 else ""


def sq_dist(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances: (n, d), (m, d) -> (n, m)."""
    gaps = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1) - 2 * rows @ centres.T
    return np.maximum(gaps, 0)


def eigenvalue_gains(
    features: np.ndarray, labelled: np.ndarray, picks: np.ndarray, seed: int
) -> list[tuple[float, float]]:
    """For each pick the smallest eigenvalue of labelled and chosen items' kernel with a random item in its place (the
    median of some), and with itself."""
    rng = stream(seed, f"reasons {len(labelled)}")
    members = np.concatenate([labelled, picks]).astype(np.int64)
    others = np.setdiff1d(np.arange(len(features)), members)
    if len(others) == 0:
        return [(0.0, 0.0)] * len(picks)
    stand_ins = rng.choice(others, REPLACEMENTS)
    rows = GramRows(features)
    high = gram_score(rows.take(members)).value
    result = []
    for pick in picks:
        lows = [gram_score(rows.take(np.where(members == pick, other, members))).value for other in stand_ins]
        result.append((float(np.median(lows)), high))
    return result
