"""How a preset is declared, and what the presets share: data, networks and trainings at each scale."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from askless.base.errors import OptionError, unknown
from askless.bench import papers
from askless.bench.plan import SCALES, Benchmark, Data, Row
from askless.features.frozen import Frozen
from askless.learn import DARP, FixMatch, Supervised


@dataclass(frozen=True)
class At:
    """A value by scale: full, small, smoke. A scale that is not given one has that of the larger scale."""

    full: Any
    small: Any = ...
    smoke: Any = ...

    def __post_init__(self) -> None:
        for larger, scale in itertools.pairwise(SCALES):
            if getattr(self, scale) is ...:
                object.__setattr__(self, scale, getattr(self, larger))


def at(scale: str, value: Any) -> Any:
    """The value at this scale, with all that it holds."""
    if isinstance(value, At):
        return at(scale, getattr(value, scale))
    if isinstance(value, dict):
        return {name: at(scale, v) for name, v in value.items()}
    return tuple(at(scale, v) for v in value) if type(value) is tuple else value


def by_scale(make: Callable[[str], Any]) -> At:
    return At(**{scale: make(scale) for scale in SCALES})


def text(*parts: str | At) -> At:
    """Sentences, one after the other; those that are empty at a scale are left out there."""
    return by_scale(lambda scale: " ".join(part for part in at(scale, parts) if part))


Fields = dict[str, Any]  # of a Row; any of them may be an At


def with_strategy(panel: Fields, given: Any) -> Fields:
    return panel | (given if isinstance(given, dict) else {"strategy": given})


def grid(
    panels: At | Fields | Sequence[Any],
    methods: At | Mapping[str, Any],
    fields: Callable[[Any, Any], At | Fields] = with_strategy,
) -> At:
    """Rows: every panel, or the one, with every method. A panel is the fields that its rows share, and a method a strategy
    or fields of its own; or both are whatever `fields` makes fields of."""
    return by_scale(
        lambda scale: tuple(
            {"method": name, **at(scale, fields(panel, given))}
            for panel in at(scale, (panels,) if isinstance(panels, dict) else panels)
            for name, given in at(scale, methods).items()
        )
    )


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A table or figure of a paper, or one of our own, as a benchmark at each scale.

    `rows` are fields of Rows; `seeds` are those at the full and small scales, and two at the smoke scale; `comparable`:
    whether the full scale is the paper's protocol. All others are those of `Benchmark`.
    """

    name: str
    title: str
    rows: At
    seeds: tuple[int, int] = (5, 5)
    protocol: str | At
    open_points: tuple[str, ...]
    claims: str = ""
    baseline: str | None = "random"
    metrics: tuple[str, ...] = ("test_accuracy", "pool_accuracy")
    figures: tuple[Fields, ...] = ({"kind": "curves"}, {"kind": "pool_curves"})
    layout: Literal["labels", "steps", "rounds", "ends"] = "labels"
    across: Literal["methods", "learners"] = "methods"
    comparable: bool = True
    area: Literal["labels", "log labels"] = "labels"
    oracle: str | None = None
    developed: tuple[str, ...] = ()

    def make(self, scale: str) -> Benchmark:
        if scale not in SCALES:
            raise OptionError(unknown("scale", scale, SCALES))
        same = [f.name for f in fields(self) if f.name not in ("rows", "seeds", "comparable")]
        return Benchmark(
            **{name: at(scale, getattr(self, name)) for name in same},
            rows=tuple(Row(**fields) for fields in at(scale, self.rows)),
            seeds=tuple(range(at(scale, At(*self.seeds, 2)))),
            scale=scale,
            comparable=self.comparable and scale == "full",
            paper=papers.rows(self.name),
            paper_source=papers.SOURCES.get(self.name, ""),
        )


# At the small scale: data that can be had by package name, cut to what 2 cores can train on.
CIFAR10 = Data(name="cifar10", items=5000, test=2000)
MNIST = Data(name="mnist", items=5000, test=2000)
FASHION = Data(name="fashion-mnist", items=5000, test=2000)
DIGITS = Data(name="digits")
# At the smoke scale: nothing to fetch, little to compute.
TINY = Data(name="digits", items=300, test=100)

# Below full scale every image is embedded once by EfficientNet-Lite0 in four views, and only a head is trained.
ON_CIFAR10: Fields = {
    "data": At(Data(name="cifar10"), CIFAR10, TINY),
    "net": At("wrn-28-2", Frozen(weak=1, strong=2), Frozen(backbone="raw", weak=1, strong=1)),
    "fresh": "new",
}

CURVES_AND_WINS = ({"kind": "curves"}, {"kind": "pool_curves"}, {"kind": "win_loss"})
BARS_AND_CURVES = ({"kind": "bars", "metrics": ["test_accuracy", "pool_accuracy"]}, {"kind": "curves"})

NEW_WEIGHTS = "First weights: drawn again in every round, from the seed and the number of labels."
POINTS = (  # of NPC and CRC
    "Score: (rank, smallest non-zero eigenvalue) in float64. The papers' smallest eigenvalue is zero for every "
    "candidate once there are more than d + 1 items.",
    "The head's bias belongs to the kernel: K = [phi, 1] [phi, 1]^T; rows are not normalised.",
    "Weights and views: the averaged network in eval mode on un-augmented images, for every strategy alike.",
    NEW_WEIGHTS,
)
CALIBRATED = (
    "BatchNorm of an untrained network: before it chooses, a pass over 1,024 items of the pool sets its statistics; "
    "with the initial 0 and 1 its outputs saturate."
)
YARDSTICK = "Random is not in the paper's table; it is added as the yardstick."
CIFAR100_DECAY = 1e-3  # of FixMatch on CIFAR-100; elsewhere 5e-4


def smoke(what: str) -> str:
    return f"300 digits, {what}: shows that everything runs, nothing more."


def fixmatch(
    *, darp: bool = False, every: int = 10, patience: int | None = None, epochs: int = 1024, weight_decay: float = 5e-4
) -> At:
    """FixMatch as in the papers: 2^20 steps of 64 + 7 x 64 images, or `epochs` of 1,024 steps with early stopping on the
    same cosine; a few hundred steps on frozen features."""

    def refine(every: int) -> DARP | None:
        return DARP(every=every) if darp else None

    return At(
        FixMatch(
            steps=epochs * 1024,
            horizon=2**20,
            weight_decay=weight_decay,
            darp=refine(every),
            patience=patience,
            evaluate_every=1024,
            checkpoint_every=1024,
        ),
        FixMatch(steps=300, darp=refine(20)),
        FixMatch(steps=10, batch=8, mu=2, darp=refine(5)),
    )


def adam(small_batch: int = 128, retrained: bool = False) -> At:
    """dynamicAL's training: Adam at .001, constant, no decay, no augmentation, until the training accuracy has been above
    .97 in more than 10 epochs (3 with the small scale's large batches), or where it is `retrained` in every round, above
    .99 once."""

    def training(steps: int, batch: int, epochs: int) -> Supervised:
        return Supervised(
            steps=steps,
            batch=batch,
            optimiser="adam",
            lr=0.001,
            weight_decay=0.0,
            schedule="constant",
            stop_accuracy=0.99 if retrained else 0.97,
            stop_epochs=0 if retrained else epochs,
        )

    return At(
        training(280 * 44, 128, 10), training(1200, small_batch, 3 if small_batch == 128 else 10), training(20, 32, 1)
    )
