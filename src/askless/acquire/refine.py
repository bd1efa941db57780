"""Refine: several strategies narrow the pool, and one chooses from what is left (Huseljic et al., CVPR 2026)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from askless.acquire.strategy import Selection, Strategy, View, looks_at, uses_history
from askless.acquire.table import make
from askless.acquire.two_level import choose_among
from askless.base.errors import InputError
from askless.base.options import Count, CountOrZero, Share, options


@options
class Refine:
    """`depth` times, each of the `strategies` chooses n items from several random parts of the pool, which then becomes what
    any of them chose; `final` chooses the batch from the last pool.

    What one strategy overrates the others do not ask for, and it is gone if none does. `batches` is how many batches all
    strategies choose in one stage (each the same number, one at least). A part has `subset` items in the first stage, then
    a share `alpha` of the pool, n at least; a pool of more than `most` items is cut at random. Labelled items are seen in
    every part. `depth=0` is `final` alone.

    Strategies are names, or objects with options such as BAIT(directions=50). The paper has random, margin, BADGE, BAIT,
    TypiClust, ALFA-Mix, DropQuery, MaxHerding and UHerding, and the last of them as `final`; by default `askless`, a
    herding weighted by uncertainty, stands for the herdings, and BAIT is left out for its cost. Strategies that learn from
    their history cannot take part. Cost: `depth` times `batches` choices from parts, whose rows are copied. Scores are those
    of `final`, and `info["final"]` what it says; `info["pools"]` are the sizes of the pools.

    >>> F, p = [[1.0], [1.0], [2.0]], [[0.9, 0.1], [0.5, 0.5], [0.6, 0.4]]
    >>> fast = al.Refine(strategies=("random", "margin"), final="margin", depth=1, batches=2)
    >>> al.select(fast, 1, features=F, probs=p).indices
    array([1])
    """

    strategies: tuple[str | Strategy, ...] = ("random", "margin", "badge", "typiclust", "askless")
    final: str | Strategy = "askless"
    depth: CountOrZero = 5
    batches: Count = 100
    alpha: Share = 0.4
    subset: Count = 5000
    most: Count = 10_000
    name = "refine"

    def __post_init__(self) -> None:
        if isinstance(self.strategies, str) or not self.strategies:
            raise InputError(f"Refine: expected strategies such as ('margin', 'typiclust'), got {self.strategies!r}")
        for one in (*self.strategies, self.final):
            if isinstance(one, type) or not (isinstance(one, str) or hasattr(one, "select")):
                raise InputError(f"Refine: expected a strategy's name or an object such as Margin(), got {one!r}")
            if uses_history(made := as_strategy(one)):
                raise InputError(
                    f"Refine: {made.name} remembers earlier picks, which does not work on parts; use another"
                )

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self._all() for name in one.needs))

    @property
    def wants(self) -> tuple[str, ...]:
        wanted = dict.fromkeys(name for one in self._all() for name in looks_at(one))
        return tuple(name for name in wanted if name not in self.needs)

    def _all(self) -> list[Strategy]:
        used = (*self.strategies, self.final) if self.depth else (self.final,)
        return [as_strategy(one) for one in used]

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        *strategies, final = self._all()
        pool, size, sizes = view.unlabelled, self.subset, []
        for stage in range(self.depth if n else 0):
            pool = narrowed(strategies, self.batches // len(strategies), pool, max(n, size), view, n, rng)
            if len(pool) > max(n, self.most):
                pool = np.sort(rng.choice(pool, max(n, self.most), replace=False))
            size = int(self.alpha * len(pool))
            sizes.append(len(pool))
            view.report((stage + 1) * n // (self.depth + 1), n)
        last = choose_among(final, pool, view, n, rng)
        info: dict[str, Any] = {"pools": sizes, "final": {"strategy": final.name} | last.info}
        return Selection(last.indices, last.scores, info)


def as_strategy(one: str | Strategy) -> Strategy:
    return make(one) if isinstance(one, str) else one


def narrowed(
    strategies: Sequence[Strategy],
    times: int,
    pool: np.ndarray,
    size: int,
    view: View,
    n: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """What any of the strategies chose from one of its random parts of the pool, ascending."""
    size = min(size, len(pool))
    chosen = [
        choose_among(one, np.sort(rng.choice(pool, size, replace=False)), view, n, rng).indices
        for one in strategies
        for _ in range(max(1, times))
    ]
    return np.unique(np.concatenate(chosen))
