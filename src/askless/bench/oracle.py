"""An oracle in the manner of BoSS (Huseljic et al. 2025), the ceiling of a benchmark: it looks at every label."""

from collections.abc import Callable
from dataclasses import field, replace

import numpy as np

from askless.acquire import Selection, Strategy, View, looks_at
from askless.acquire.two_level import choose_among
from askless.base.errors import AsklessError
from askless.base.options import Count, options

Judge = Callable[[np.ndarray], tuple[float, ...]]


@options
class Oracle:
    """Of `batches` candidate batches, the one that a `judge` finds best: how well the learner does if it is trained with the
    labels of a batch as well, which only a benchmark can know.

    The strategies take turns to choose candidates: at first from the whole pool, then from random parts of it, of 4 n items
    to all. It is a ceiling of single steps, not of a whole curve: the batch that is best now need not be the best in the
    end.
    """

    strategies: tuple[Strategy, ...]
    batches: Count = 20
    judge: Judge | None = field(default=None, repr=False, compare=False)
    name = "oracle"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self.strategies for name in looks_at(one)))

    def judged_by(self, judge: Judge) -> "Oracle":
        return replace(self, judge=judge)

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        if self.judge is None:
            raise AsklessError("the oracle looks at every label: only a benchmark can ask it; use another strategy")
        candidates, free = [], view.unlabelled
        for k in range(self.batches):
            size = len(free) if k < len(self.strategies) else int(rng.integers(min(4 * n, len(free)), len(free) + 1))
            part = np.sort(rng.choice(free, size, replace=False))
            candidates.append(choose_among(self.strategies[k % len(self.strategies)], part, view, n, rng).indices)
        worth = [self.judge(batch) for batch in candidates]
        best = max(range(len(worth)), key=lambda k: worth[k])
        return Selection(candidates[best], None, {"by": self.strategies[best % len(self.strategies)].name})
