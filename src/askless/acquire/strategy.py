"""What every strategy receives (`View`), returns (`Selection`) and offers (`Strategy`)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

import numpy as np

from askless.acquire.kernel import Kernel, Progress
from askless.acquire.table import ARRAYS
from askless.base.errors import AsklessError, some, unknown

TILE = 2**22  # bytes: no more at a time than a processor's cache holds


@dataclass(frozen=True)
class View:
    """The arrays that a strategy may use; every position is a position in the pool of N items.

    The arrays are checked and never written to. Those not given are None; a strategy lists the ones it uses in `needs` and
    finds them here: `features`, `probs`, `probs_by_pass`, `logits`, `grad_sq`, `grad_dot` and `grad_sq_by_class`, with
    shapes as in `select`. `history`: the earlier selections. `kernel` gives parts of the kernel of all items. `max_memory`
    bounds the working memory in bytes; `progress` is called by `report`. An array that is not there raises AsklessError.

    >>> class Largest:
    ...     name, needs = "largest", ("features",)
    ...     def select(self, view, n, rng):
    ...         return al.acquire.strategy.top(view["features"][:, 0], view.unlabelled, n, rng)
    >>> al.select(Largest(), 2, features=[[3.0], [9.0], [5.0]], labelled=[1]).indices
    array([2, 0])
    """

    N: int
    labelled: np.ndarray  # (L,) int64
    unlabelled: np.ndarray  # (N - L,) int64, ascending
    labels: np.ndarray | None = None  # (L,) int64
    features: np.ndarray | None = None  # (N, d)
    probs: np.ndarray | None = None  # (N, C)
    probs_by_pass: np.ndarray | None = None  # (N, K, C), of K passes with dropout or K networks
    logits: np.ndarray | None = None  # (N, C)
    grad_sq: np.ndarray | None = None  # (N,)
    grad_dot: np.ndarray | None = None  # (N,)
    grad_sq_by_class: np.ndarray | None = None  # (N, C), one column per possible label
    kernel: Kernel | None = None  # over the N items; parts of it are asked for
    classes: int | None = None  # how many there are, as far as that is known
    history: tuple["Selection", ...] = ()  # what was selected so far; -1 for what the pool no longer has
    max_memory: int = 2**28  # bytes of working memory, beside the arrays themselves and O(N) numbers
    progress: Progress | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        """The array called `name`; the caller has declared it in `needs`."""
        if name not in ARRAYS:
            raise AsklessError(unknown("array", name, ARRAYS))
        array: np.ndarray | None = getattr(self, name)
        if array is None:
            raise AsklessError(f"expected an array that the strategy needs, got {name!r}; add it to needs")
        return array

    def report(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)

    def by_rows(self, score: Callable[..., np.ndarray], *names: str) -> np.ndarray:
        """`score` of the rows of these arrays in float64, (N,), a tile at a time."""
        arrays = [self[name] for name in names]
        row = 8 * 4 * sum(math.prod(a.shape[1:]) for a in arrays)
        step = max(1, min(self.max_memory, TILE) // row)
        return filled(np.empty(self.N), step, lambda part: score(*(a[part].astype(np.float64) for a in arrays)))


@dataclass(frozen=True, repr=False)
class Selection:
    """`indices` (n,) int64, best first; `scores` (n,) float64, higher is better, perhaps infinite but never NaN, or None;
    `info`, a plain dict. `pool`: the items, for a notebook to show them.

    Use it like its indices: `X[picks]`, `np.asarray(picks)`, `for i in picks`, `tell(picks, labels)`.

    >>> picks = Selection(np.array([7, 2]), None, {"strategy": "npc"})
    >>> picks, picks[0], [i for i in picks], np.arange(9)[picks]
    (<Selection of 2 by npc: 7, 2>, 7, [7, 2], array([7, 2]))
    """

    indices: np.ndarray
    scores: np.ndarray | None = None
    info: dict[str, Any] = field(default_factory=dict)
    pool: Any = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    @overload
    def __getitem__(self, which: int | np.integer[Any]) -> int: ...

    @overload
    def __getitem__(self, which: slice | np.ndarray | list[int]) -> np.ndarray: ...

    def __getitem__(self, which: Any) -> Any:
        found = self.indices[which]
        return found if isinstance(found, np.ndarray) else int(found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.indices, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        by = f" by {self.info['strategy']}" if "strategy" in self.info else ""
        return f"<Selection of {len(self)}{by}: {some(np.asarray(self.indices).tolist()) or 'nothing'}>"

    def _repr_html_(self) -> str:
        from askless.acquire.notebook import table_of

        return table_of(self)

    def as_plain(self) -> dict[str, Any]:
        """What a later selection may look at, for JSON."""
        return {"indices": self.indices.tolist(), "info": self.info}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Selection":
        return cls(np.array(plain["indices"], np.int64), None, plain["info"])


class Strategy(Protocol):
    """A frozen object that holds options. `select` is a pure function of the view, n and the generator.

    >>> al.NPC().name, al.NPC().needs
    ('npc', ('features',))
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the arrays it requires (`labelled` is always there, perhaps empty). A strategy may also have `wants`, the
        arrays it uses if given (see `looks_at`), and `uses_history = True` if it learns from earlier selections (see
        `uses_history`). Raise its `revision`, 1 by default, when the same options give different picks: a benchmark then
        refuses to mix old and new picks."""
        ...

    def select(self, view: View, n: int, rng: np.random.Generator) -> Selection: ...


def looks_at(strategy: Strategy) -> tuple[str, ...]:
    """The arrays that a strategy uses: those it needs, and the optional ones in its `wants`, if it has any.

    >>> al.acquire.looks_at(al.TCM())
    ('features', 'probs')
    """
    return (*strategy.needs, *getattr(strategy, "wants", ()))


def uses_history(strategy: Strategy) -> bool:
    """Whether it uses `view.history`. The `info` of its selections is then saved, so it must be plain data.

    >>> al.acquire.uses_history(al.ALBL()), al.acquire.uses_history(al.Margin())
    (True, False)
    """
    return bool(getattr(strategy, "uses_history", False))


def top(scores: np.ndarray, allowed: np.ndarray, n: int, rng: np.random.Generator) -> Selection:
    """The n positions of `allowed` with the highest scores (N,), ties in random order.

    >>> top([0.3, 0.9, 0.5], np.array([0, 2]), 1, np.random.default_rng(0))
    <Selection of 1: 2>
    """
    scores = np.asarray(scores, dtype=np.float64)[allowed]
    ties = rng.random(len(allowed))
    order = np.arange(len(allowed))
    if 0 < n < len(allowed):  # only what reaches the n-th highest score need be sorted
        order = np.flatnonzero(-scores <= np.partition(-scores, n - 1)[n - 1])
    order = order[np.lexsort((ties[order], -scores[order]))[:n]]
    return Selection(allowed[order], scores[order])


def filled(out: np.ndarray, step: int, rows: Callable[[slice], np.ndarray]) -> np.ndarray:
    """`out`, of which `rows` gives the rows of a slice, `step` of them at a time."""
    for i in range(0, len(out), step):
        out[i : i + step] = rows(slice(i, i + step))
    return out


class Typed(Protocol):
    @property
    def dtype(self) -> np.dtype[Any]: ...


def working_type(array: Typed) -> type[np.float32] | type[np.float64]:
    """float64 stays, anything narrower is computed in float32."""
    return np.float64 if array.dtype.itemsize >= 8 else np.float32


def drawn(N: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """All positions below N, or that number of them drawn at random, ascending."""
    return np.arange(N) if most >= N else np.sort(rng.choice(N, most, replace=False))


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k largest, in no order."""
    k = min(k, len(values))
    return np.argpartition(values, len(values) - k)[len(values) - k :]


def runs(ends: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries of some rows are, one row after the other, and how many each has: row i has ends[i] to ends[i + 1].

    >>> runs(np.array([0, 2, 2, 5]), np.array([2, 0]))
    (array([2, 3, 4, 0, 1]), array([3, 2]))
    """
    many = ends[rows + 1] - ends[rows]
    return np.arange(many.sum()) + np.repeat(ends[rows + 1] - np.cumsum(many), many), many


def run_sums(values: np.ndarray, many: np.ndarray) -> np.ndarray:
    """The sum of the first many[0] values, of the next many[1], and so on, in float64.

    >>> run_sums(np.array([1, 2, 3]), np.array([2, 0, 1]))
    array([3., 0., 3.])
    """
    if len(many) == 0:
        return np.empty(0)
    return np.where(many > 0, np.add.reduceat(np.append(values, 0), np.cumsum(many) - many, dtype=np.float64), 0.0)


def first_of_the_largest(values: np.ndarray, order: np.ndarray) -> int:
    """The position of the largest value; among equals the one with the smallest `order`."""
    equals = np.flatnonzero(values == values.max())
    return int(equals[order[equals].argmin()])


def largest_up_to_date(
    values: np.ndarray,
    known: np.ndarray,
    now: int,
    ties: np.ndarray,
    renew: Callable[[np.ndarray], np.ndarray],
    many: int,
    growth: int = 1,
) -> int:
    """The position of the largest of values that only ever fall, equals by `ties`: the lazy greedy of Minoux, 1978, in
    blocks.

    `known` says what each value is up to date with, so that an older one than `now` is a bound from above. The `many`
    largest (times `growth` each time) are renewed, in place, until the largest of all is; -inf is never.
    """
    while known[best := first_of_the_largest(values, ties)] < now:
        some = largest(values, many)
        some = np.union1d(some[(known[some] < now) & (values[some] > -np.inf)], best)
        values[some], known[some] = renew(some), now
        many *= growth
    return best
