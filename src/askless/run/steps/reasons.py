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
        spectral = [
            f"raises the smallest eigenvalue ({low:.3g} with a random {noun}, {high:.3g} with this)"
            if high > low
            else ""
            for low, high in gains
        ]
        return [one or doubt or other for one, doubt, other in zip(spectral, unsure, fallback, strict=True)]
    if reason == "new region":
        return fallback
    if reason == "stands for" and len(picks.info.get("stands_for", ())) == len(picks):
        others = zip(picks.info["stands_for"], fallback, strict=True)
        stand = [f"stands for {k} {noun}s like it" if k > 1 else other for k, other in others]
        return [f"{one}; {doubt}" if doubt else one for one, doubt in zip(stand, unsure, strict=True)]
    return [doubt or other for doubt, other in zip(unsure, fallback, strict=True)]


def between(probs: np.ndarray, names: Sequence[str]) -> str | None:
    """That the model hesitates between two classes, where it does."""
    first, second = np.argsort(-probs, kind="stable")[:2]
    if probs[first] - probs[second] >= HESITATES:
        return None
    return f"the model hesitates between {names[first]} and {names[second]}"


def regions(features: np.ndarray, labelled: np.ndarray, picks: np.ndarray, noun: str = "image") -> list[str]:
    """How an item lies to what is labelled: far from all of it, or typical of many others."""
    known = features[labelled]
    if len(known) == 0:
        return [f"covers a new region: typical of a group of {noun}s without a label"] * len(picks)
    squared = (known**2).sum(axis=1)

    def nearest(rows: np.ndarray) -> np.ndarray:
        gaps = (rows**2).sum(axis=1)[:, None] + squared - 2 * rows @ known.T
        return np.sqrt(np.maximum(gaps.min(axis=1), 0))

    sample = features[:: max(1, len(features) // 1000)]
    usual = np.sort(nearest(sample))
    share = np.searchsorted(usual, nearest(features[picks])) / len(usual)
    return [
        f"covers a new region: farther from every label than {s:.0%} of the {noun}s"
        if s >= 0.5
        else "near other labels"
        for s in share
    ]


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
