"""What a benchmark is: rows x seeds, in plain Python."""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
import torch

from askless.acquire import Strategy, as_strategy, select
from askless.active.learner import ActiveLearner
from askless.active.prepare import Net
from askless.base import digest
from askless.base.errors import InputError, OptionError, unknown
from askless.base.options import Count, check_annotated, check_choice, check_count, is_whole_number
from askless.base.rng import stream
from askless.bench import figures
from askless.bench.papers import PaperRow
from askless.bench.results import cell_name
from askless.data import SOURCES, Pool, hold_out, load, long_tailed, subset
from askless.features.frozen import as_frozen
from askless.learn import Learner, as_learner

SCALES = ("full", "small", "smoke")
Start = Literal["balanced", "random", "first"]


@dataclass(frozen=True, kw_only=True)
class Data:
    """A pool by its name or path, `items` of it drawn at random; `tail` makes it long-tailed by this ratio.

    `test`: the number of test items, from the first (None: all). Of data without a test set, that many labelled items
    are drawn at random and held out, before anything else. The draws are the same for every row and every seed of a
    benchmark, so that these differ in nothing else.

    `options`: of the function that opens it.

    >>> Data(name="digits", items=60, test=50)()
    <Pool digits, 60 items: 60 image items of 1 x 8 x 8, 60 with a label, 10 classes, 50 for test>
    """

    name: str
    items: int | None = None
    test: Count | None = None
    tail: float | None = None
    options: dict[str, Any] = field(default_factory=dict)  # of `askless.data.load`

    def __post_init__(self) -> None:
        if self.name not in SOURCES and not Path(self.name).exists():
            raise OptionError(f"{unknown('data', self.name, SOURCES)}, or a path")
        check_annotated("Data", Data, vars(self))

    def __call__(self) -> Pool:
        pool = load(self.name, **self.options)
        if self.test is not None and pool.test is not None:
            pool = dataclasses.replace(pool, test=(pool.test[0][: self.test], pool.test[1][: self.test]))
        elif self.test is not None:
            pool = hold_out(pool, self.test)
        if self.tail is not None:
            pool = long_tailed(pool, self.tail)
        if self.items is not None:
            pool = subset(pool, self.items)
        return pool


class Sample(NamedTuple):
    """A number that a measure found; `x` places it within the round.

    `metric`: its name.

    >>> Sample("loss", 0.5, x=3.0)
    Sample(metric='loss', value=0.5, x=3.0)
    """

    metric: str
    value: float
    x: float | None = None


class Moment(NamedTuple):
    """What a measure may look at: the learner after a round's training, what that round asked for, the seed of the cell, and
    what was seen along the training. `keep` stores arrays beside the numbers; `scores` are the strategy's of what was asked
    for, None where it has none.

    `info`: what the strategy said of its choice.

    >>> def asked(moment):
    ...     return [Sample("asked", float(len(moment.asked)))]
    """

    learner: ActiveLearner
    asked: np.ndarray
    info: dict[str, Any]
    seed: int
    along: list[Sample]
    keep: Callable[[dict[str, np.ndarray]], None]
    scores: np.ndarray | None = None


class Measure(Protocol):
    """Looks at a trained network after each round.

    It gets a `Moment` and returns `Sample`s.

    >>> def labelled(moment):
    ...     return [Sample("labelled", float(len(moment.learner.labelled)))]
    """

    def __call__(self, moment: Moment) -> Sequence[Sample]: ...


class Along(Protocol):
    """Looks at a network while it is trained: before the first step, every `evaluate_every` steps, and after the last.

    It returns `Sample`s too.

    >>> def longest(learner, step, model):
    ...     return [Sample("longest", max(float(p.norm()) for p in model.parameters()), x=step)]
    """

    def __call__(self, learner: ActiveLearner, step: int, model: torch.nn.Module) -> Sequence[Sample]: ...


@dataclass(frozen=True, kw_only=True)
class Successor:
    """Another model for the labels of a row, in its `value`: a `learner` with a network of its own, which sees the same
    items by its own default views.

    `net` and `learner` as in `ActiveLearner`.

    >>> Successor(net="mlp", learner="supervised").learner
    Supervised()
    """

    net: Net
    learner: Learner  # or the name of one

    def __post_init__(self) -> None:
        object.__setattr__(self, "learner", as_learner(self.learner))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table: a strategy on data with a network, a training and a query plan.

    `start` labels come first (`start_by`: balanced over the classes, drawn at random, the pool's first, or chosen by a
    strategy that sees the items' numbers as features); then the strategy is asked up to each of `counts`, and the network
    is trained and measured at each of them. Where `start` is below counts[0] the first query is made by the untrained
    network; with `other_init`, by one of other first weights than those that are then trained.

    `value`: further trainings, by name, of the same labels: one set of acquisitions, valued by several learners, each from
    the same first weights, or by a `Successor` with another network. `trials`: of that many starts the one of median or
    best accuracy is taken for all seeds, as the papers do; without it every seed has its own start, the same for all
    methods. `fresh`, `calibrate`, `layers` and `width` as in ActiveLearner. Without `augment` the weak views are the images
    themselves; `views` are options of `data.views_for`, such as (("policy", "leedoyup"), ("padding", 2)), for networks that
    see the items themselves. `validation`: the number of pool items held out for early stopping. `net_options`: of a
    network by name, as in `nets.make`. `measures` look at each trained network, `along` at networks while they are trained.

    `method`: its name in tables. `group`: the panel. `net`, `learner` and `strategy` as in `ActiveLearner`;
    `learner_name`: that of tables.

    >>> data, learner = Data(name="digits", items=60, test=50), al.Supervised(steps=5)
    >>> row = Row(method="random", strategy="random", data=data, net="linear", learner=learner, counts=(10, 20))
    >>> row.strategy
    Random()
    """

    method: str
    strategy: str | Strategy
    data: Callable[[], Pool]
    net: Net
    learner: Learner  # or the name of one
    counts: tuple[int, ...]
    group: str = ""
    start: int = 0
    start_by: Start | Strategy = "balanced"
    trials: tuple[int, Literal["median", "best"]] | None = None
    other_init: bool = False
    fresh: bool | Literal["new"] = True
    calibrate: bool = True
    layers: Literal["last", "all"] = "last"
    width: Count = 512
    augment: bool = True
    learner_name: str = ""
    value: tuple[tuple[str, Learner | Successor], ...] = ()
    validation: int = 0
    net_options: tuple[tuple[str, Any], ...] = ()
    views: tuple[tuple[str, Any], ...] = ()
    measures: tuple[Measure, ...] = ()
    along: tuple[Along, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", as_strategy(self.strategy))
        object.__setattr__(self, "learner", as_learner(self.learner))
        counts = self.counts if isinstance(self.counts, tuple | list) else ()
        if not counts or list(counts) != sorted(set(counts)) or counts[0] < max(1, self.start):
            raise InputError(
                f"{self.method}: expected rising numbers of labels from the {self.start} at the start, got {self.counts}; "
                "write them as counts=(20, 40)"
            )
        if not callable(self.data):
            got = repr(self.data) if isinstance(self.data, str) else f"a {type(self.data).__name__}"
            raise InputError(
                f"{self.method}: expected data that can be called, such as Data(name='digits'), got {got}; save arrays with "
                "np.savez('mine.npz', X=x, y=y) for Data(name='mine.npz', test=300), or pass a function that makes a Pool"
            )
        check_annotated(self.method, Row, vars(self))
        if not hasattr(self.start_by, "select"):
            check_choice(self.method, "start_by", self.start_by, get_args(Start))
        if self.trials is not None:
            check_count(self.method, "trials", self.trials[0])
            check_choice(self.method, "trials", self.trials[1], ("median", "best"))
            if self.start < 1:
                raise InputError(f"{self.method}: expected a start with labels for the trials to settle, got start=0")
        if as_frozen(self.net) is not None:
            if not self.augment:
                raise InputError(
                    f"{self.method}: augment=False is for networks that see images; use Frozen(weak=0, strong=0)"
                )
            if self.views:
                raise InputError(
                    f"{self.method}: views= is for networks that see the items themselves, got {self.net}, whose views "
                    "are embedded first; use its own options, or another net"
                )
        others = [other.learner if isinstance(other, Successor) else other for _, other in self.value]
        stopped = [l for l in (self.learner, *others) if getattr(l, "patience", None) is not None]
        if stopped and not self.validation:
            raise InputError(f"{self.method}: a learner with patience needs validation=N items to hold out, got 0")
        if not self.learner_name:
            object.__setattr__(self, "learner_name", learner_name(self.learner))
        names = [self.learner_name, *(name for name, _ in self.value)]
        if len(set(names)) < len(names):
            raise InputError(f"{self.method}: expected learners of different names, got {', '.join(names)}")


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Rows x seeds, what they are for, and how they are shown.

    `figures`: pictures of the report, each {"kind": a name of `bench.figures.FIGURES`, ...its options}. `metrics`: those of
    the tables, the main one first. `layout` of those tables: "labels" method x number of labels, "steps" the same headed by
    query step, "rounds" round x method, "ends" one table of method x group at the last number of labels. `across`: what
    tables compare, methods, or the learners that value the same labels (`results.compared`). `comparable`:
    whether the protocol is the paper's own, so that the numbers may be set against `paper`. `area`: whether that under a
    curve is over the labels or their logarithm, in which every doubling counts alike. `oracle`: the method that looks at
    all labels, which is shown but not ranked. `developed`: the groups that a method was developed on, told from the others.

    `title`, `protocol`, `claims` and `open_points` are texts of the report. `rows` are computed with each of `seeds`;
    `baseline`: the method that the others are compared with. `scale`: a name for the size. `paper`: published numbers,
    from `paper_source`.

    >>> data, learner = Data(name="digits", items=60, test=50), al.Supervised(steps=5)
    >>> row = Row(method="random", strategy="random", data=data, net="linear", learner=learner, counts=(10, 20))
    >>> Benchmark(name="mine", title="Mine", rows=(row,), seeds=(0, 1)).baseline
    'random'
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    seeds: tuple[int, ...]
    scale: str = "small"
    protocol: str = ""
    open_points: tuple[str, ...] = ()
    baseline: str | None = "random"
    metrics: tuple[str, ...] = ("test_accuracy", "pool_accuracy")
    figures: tuple[dict[str, Any], ...] = ({"kind": "curves"}, {"kind": "pool_curves"})
    layout: Literal["labels", "steps", "rounds", "ends"] = "labels"
    across: Literal["methods", "learners"] = "methods"
    comparable: bool = False
    area: Literal["labels", "log labels"] = "labels"
    oracle: str | None = None
    developed: tuple[str, ...] = ()
    claims: str = ""
    paper: tuple[PaperRow, ...] = ()
    paper_source: str = ""

    def __post_init__(self) -> None:
        for spec in self.figures:
            figures.check_figure(spec)
        check_annotated(self.name, Benchmark, vars(self))
        if self.across == "learners":
            methods = list(dict.fromkeys(name for r in self.rows for name in (r.learner_name, *dict(r.value))))
        else:
            methods = list(dict.fromkeys(r.method for r in self.rows))
        if self.baseline not in (None, "random", *methods):
            raise InputError(f"{self.name}: expected a baseline among {', '.join(methods)}, got {self.baseline!r}")
        keys = [(r.group, r.method) for r in self.rows]
        if len(set(keys)) < len(keys) or not keys:
            raise InputError(
                f"{self.name}: expected rows with distinct (group, method), got {keys}; give each its own method="
            )
        folders: dict[str, tuple[str, str]] = {}
        for key in keys:
            if (other := folders.setdefault(cell_name(*key, 0), key)) != key:
                raise InputError(
                    f"{self.name}: expected (group, method) that differ in letters or digits, because they name the "
                    f"cells' folders, got {other} and {key}"
                )
        for a in self.rows:
            b = next(r for r in self.rows if r.trials and (r.group, r.start) == (a.group, a.start)) if a.trials else a
            if a.trials != b.trials:
                raise InputError(
                    f"{self.name}: expected one choice of trials for a start of {a.start} in {a.group or 'the one group'}, "
                    f"got {b.trials} and {a.trials}"
                )
        if not isinstance(self.seeds, tuple | list) or not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"{self.name}: expected distinct seeds, got {self.seeds}; write them as seeds=(0, 1)")


def learner_name(learner: Learner) -> str:
    """FixMatch with DARP is "fixmatch+darp", and so on."""
    darp = "+darp" if getattr(learner, "darp", None) is not None else ""
    return type(learner).__name__.lower() + darp


def default_settings() -> dict[str, str]:
    """What a cell of an older askless had, which lacks an option: the default, or what was done before there was one."""
    fields = [f for f in dataclasses.fields(Row) if f.default is not dataclasses.MISSING]
    return {f.name: text_of(f.default) for f in fields} | {"calibrate": "False"}


def settings(row: Row) -> dict[str, str]:
    """A row as text, which tells it from any other: what a finished cell was made with."""
    return {f.name: text_of(getattr(row, f.name)) for f in dataclasses.fields(row)}


def data_key(row: Row) -> Any:
    """Tells the data of rows apart: options that print the same are the same; two functions may have one name, such as
    <lambda>, so each is itself."""
    return text_of(row.data) if dataclasses.is_dataclass(row.data) else row.data


def text_of(value: Any) -> str:
    """A text that is the same in every process: options as they print, functions by their names, modules by their weights,
    other objects by what they hold."""
    if isinstance(value, torch.nn.Module):
        return f"{type(value).__qualname__} {digest.of_network(value)[:16]}"
    if isinstance(value, np.ndarray | torch.Tensor):  # long ones print with dots in the middle
        return f"array {digest.of_text(str(value.dtype), value.tolist())[:16]}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(text_of(v) for v in value))}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(text_of(v) for v in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k}: {text_of(v)}' for k, v in value.items())}}}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = [(f, getattr(value, f.name)) for f in dataclasses.fields(value) if f.repr]
        shown = [
            (f.name, v) for f, v in given if not (f.metadata.get("later") and v == f.metadata.get("before", f.default))
        ]
        shown += revision(value)
        return f"{type(value).__name__}({', '.join(f'{name}={text_of(v)}' for name, v in shown)})"
    if isinstance(value, functools.partial):
        return f"partial({text_of((value.func, *value.args, value.keywords))})"
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    if type(value).__repr__ is object.__repr__:  # which says where in memory it is
        return f"{type(value).__qualname__}({text_of(getattr(value, '__dict__', {}) | dict(revision(value)))})"
    return repr(value)


def revision(value: Any) -> list[tuple[str, int]]:
    """The `revision` of a strategy's or learner's class, where it is not the first: with the same options as before, it now
    chooses or learns otherwise."""
    number = getattr(type(value), "revision", 1)
    return [] if number == 1 or not is_whole_number(number) else [("revision", number)]


def start_positions(pool: Pool, n: int, by: Start | Strategy, seed: int) -> np.ndarray:
    """Positions (n,) of the items that are labelled before any question: as evenly over the classes as n allows, which
    class gets one more being drawn too; uniformly at random; the first items of the pool; or those that a strategy
    chooses, to which the numbers of an item are its features."""
    rng = stream(seed, f"start {by if isinstance(by, str) else by.name}")
    known = np.flatnonzero(pool.labels >= 0)
    if n > len(known):
        raise InputError(f"a start of {n} labels needs as many items with known labels, got {len(known)}")
    if not isinstance(by, str):
        rows = pool.take(torch.from_numpy(known)).flatten(1).float()
        return known[select(by, n, features=rows, seed=int(rng.integers(2**62))).indices]
    if by == "first":
        return known[:n]
    if by == "random":
        return rng.choice(known, n, replace=False)
    classes = rng.permutation(np.unique(pool.labels[known]))
    shuffled = {c: rng.permutation(known[pool.labels[known] == c]) for c in classes}
    order = [shuffled[c][i] for i in range(math.ceil(n / len(classes))) for c in classes if i < len(shuffled[c])]
    if len(order) < n:
        raise InputError(f"a balanced start of {n} labels needs {math.ceil(n / len(classes))} items of every class")
    return np.array(order[:n], dtype=np.int64)
