"""What the presets share: data, networks and trainings at each scale, and how a preset is described."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from askless.active.prepare import Net
from askless.base.errors import OptionError, unknown
from askless.bench import papers
from askless.bench.plan import SCALES, Benchmark, Data
from askless.features.frozen import Frozen
from askless.learn import DARP, FixMatch, Supervised

T = TypeVar("T")

# At the small scale: data that can be had by package name, cut to what 2 cores can train on.
CIFAR10 = Data(name="cifar10", items=5000, test=2000)
MNIST = Data(name="mnist", items=5000, test=2000)
FASHION = Data(name="fashion-mnist", items=5000, test=2000)
DIGITS = Data(name="digits")
# At the smoke scale: nothing to fetch, little to compute.
TINY = Data(name="digits", items=300, test=100)

# Every image is embedded once by EfficientNet-Lite0 in four views; only a head is trained.
FROZEN = Frozen(weak=1, strong=2)
FROZEN_SMOKE = Frozen(backbone="raw", weak=1, strong=1)

RANKS = (
    "Score: (rank, smallest non-zero eigenvalue) in float64. The papers' smallest eigenvalue is zero for every "
    "candidate once there are more than d + 1 items."
)
LOOKS = "Weights and views: the averaged network in eval mode on un-augmented images, for every strategy alike."
BIAS = "The head's bias belongs to the kernel: K = [phi, 1] [phi, 1]^T; rows are not normalised."
LAST_VALUE = (
    "The accuracy is that of the last network of a round; the authors' code reports the best on the test images, "
    "which is kept beside it at full scale as max_in_round."
)
NEW_WEIGHTS = "First weights: drawn again in every round, from the seed and the number of labels."
CALIBRATED = (
    "BatchNorm of an untrained network: before it is asked, its statistics are set by a pass over 1,024 items of the pool; "
    "with the initial 0 and 1 its outputs saturate."
)
CIFAR100_DECAY = 1e-3  # of FixMatch on CIFAR-100; elsewhere 5e-4
NO_TEST = "Training ends by the training accuracy alone; the authors' code also looks at the test accuracy."


@dataclass(frozen=True)
class Preset:
    """A table or figure of a paper: `make(scale)` is the benchmark that replicates it."""

    name: str
    what: str
    make: Callable[[str], Benchmark]


def at(scale: str, *, full: T, small: T, smoke: T) -> T:
    """The one for this scale."""
    if scale not in SCALES:
        raise OptionError(unknown("scale", scale, SCALES))
    return {"full": full, "small": small, "smoke": smoke}[scale]


def net_at(scale: str, *, full: Net, small: Net, smoke: Net) -> Net:
    return at(scale, full=full, small=small, smoke=smoke)


def seeds(scale: str, *, full: int, small: int) -> tuple[int, ...]:
    return tuple(range(at(scale, full=full, small=small, smoke=2)))


def paper(name: str) -> dict[str, object]:
    """The printed numbers of a preset, as fields of a Benchmark."""
    return {"paper": tuple(papers.rows(name)), "paper_source": papers.SOURCES[name]} if name in papers.SOURCES else {}


def fixmatch(
    scale: str,
    *,
    darp: bool,
    every: int = 10,
    patience: int | None = None,
    epochs: int = 1024,
    weight_decay: float = 5e-4,
) -> FixMatch:
    """FixMatch as in the papers: 2^20 steps of 64 + 7 x 64 images, or `epochs` of 1,024 steps with early stopping on the
    same cosine; a few hundred steps on frozen features."""
    refine = DARP(every=at(scale, full=every, small=20, smoke=5)) if darp else None
    if scale == "full":
        return FixMatch(
            steps=epochs * 1024,
            horizon=2**20,
            weight_decay=weight_decay,
            darp=refine,
            patience=patience,
            evaluate_every=1024,
            checkpoint_every=1024,
        )
    if scale == "small":
        return FixMatch(steps=300, darp=refine)
    return FixMatch(steps=10, batch=8, mu=2, darp=refine)


def adam(scale: str, small_batch: int = 128, retrained: bool = False) -> Supervised:
    """dynamicAL's training: Adam at .001, constant, no decay, no augmentation, until the training accuracy has been above
    .97 in more than 10 epochs (3 with the small scale's large batches), or where it is `retrained` in every round, above
    .99 once."""
    epochs = at(scale, full=10, small=3 if small_batch == 128 else 10, smoke=1)
    return Supervised(
        steps=at(scale, full=280 * 44, small=1200, smoke=20),
        batch=at(scale, full=128, small=small_batch, smoke=32),
        optimiser="adam",
        lr=0.001,
        weight_decay=0.0,
        schedule="constant",
        stop_accuracy=0.99 if retrained else 0.97,
        stop_epochs=0 if retrained else epochs,
    )
