"""Choosing in two levels: in each part of the pool by itself, then among what was chosen there."""

import dataclasses
import itertools
import math
from typing import Any

import numpy as np

from askless.acquire.strategy import Selection, Strategy, View, looks_at, uses_history
from askless.acquire.table import BY_ROWS, PER_ITEM
from askless.base.errors import InputError
from askless.base.options import Count, options


@options
class TwoLevel:
    """`of` chooses n items of each part, seeing all that is labelled, and then n among the winners of all parts.

    For pools whose size makes a strategy slow, and for parts on other machines: the other strategies read shards as they
    are, and choose what they would in memory. Parts are ranges of positions, each loaded once; `parts` is their number, by
    default as many as make one fit in half of `max_memory`. Exact for strategies that score each item by itself (margin,
    entropy, EGL, dynamicAL): the n best of the pool are among the n best of their parts. For the others an approximation,
    in which a part's winners stand for their neighbours. The winners, n times the parts, are loaded together in the end.

    >>> p = [[0.9, 0.1], [0.6, 0.4], [0.8, 0.2], [0.55, 0.45]]
    >>> al.select(al.TwoLevel(of=al.Margin(), parts=2), 1, probs=p).indices
    array([3])
    """

    of: Strategy
    parts: Count | None = None

    def __post_init__(self) -> None:
        if isinstance(self.of, str | type) or not hasattr(self.of, "select"):
            raise InputError(f"TwoLevel: expected a strategy such as TypiClust(), got {self.of!r}")
        if uses_history(self.of):
            raise InputError(
                f"TwoLevel: {self.of.name} remembers earlier picks, which does not work on parts; use another"
            )

    @property
    def name(self) -> str:
        return f"two-level {self.of.name}"

    @property
    def needs(self) -> tuple[str, ...]:
        return self.of.needs

    @property
    def wants(self) -> tuple[str, ...]:
        return tuple(getattr(self.of, "wants", ()))

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        ends = np.linspace(0, len(view.unlabelled), self.how_many(view) + 1).astype(np.int64)
        winners = []
        for k, (start, end) in enumerate(itertools.pairwise(ends)):
            part = view.unlabelled[start:end]
            winners.append(choose_among(self.of, part, view, min(n, len(part)), rng).indices)
            view.report((k + 1) * n // len(ends), n)
        last = choose_among(self.of, np.sort(np.concatenate(winners)), view, n, rng)
        view.report(n, n)
        info: dict[str, Any] = {"parts": len(winners), "winners": sum(map(len, winners)), "among_winners": last.info}
        return dataclasses.replace(last, info=info)

    def how_many(self, view: View) -> int:
        """The number of parts."""
        if self.parts is not None:
            return min(self.parts, max(1, len(view.unlabelled)))
        arrays = [getattr(view, name) for name in looks_at(self.of) if name in BY_ROWS]
        row = sum(a.dtype.itemsize * math.prod(a.shape[1:]) for a in arrays if a is not None)
        return max(1, -(-2 * row * view.N // view.max_memory))


def choose_among(strategy: Strategy, unlabelled: np.ndarray, view: View, n: int, rng: np.random.Generator) -> Selection:
    """What it chooses where these, and all labelled items, are a pool of their own."""
    at = np.sort(np.concatenate([unlabelled, view.labelled]))
    arrays = {name: getattr(view, name) if name in looks_at(strategy) else None for name in PER_ITEM}
    own: dict[str, Any] = {name: None if array is None else array[at] for name, array in arrays.items()}
    labelled, unlabelled = (np.searchsorted(at, some) for some in (view.labelled, unlabelled))
    part = dataclasses.replace(view, N=len(at), labelled=labelled, unlabelled=unlabelled, progress=None, **own)
    picks = strategy.select(part, n, rng)
    return dataclasses.replace(picks, indices=at[picks.indices])
