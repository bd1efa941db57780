"""The account of a run, as plain data: `Account`, which the page and `askless status` show, and `Facts`, which the report
tells. `askless.run.out.gather` makes both; what they have in common is computed once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from askless.report.chart import Sign
from askless.run.out.claims import Standing
from askless.run.steps.advice import Advice
from askless.run.steps.forecast import LEVEL, Ahead
from askless.run.store.progress import RunProgress

Share = (
    Mapping[str, Any] | None
)  # n, correct, accuracy, low and high, as `intervals.share` or `estimate.estimate` gives it


@dataclass(frozen=True)
class Data:
    """What was labelled; `noun` is what one item is called. `pool` may be chosen from, `check` was drawn at random to
    measure with, `reserve` is held back."""

    source: str
    images: int
    pool: int
    check: int
    reserve: int = 0
    size: str = ""
    noun: str = "image"


@dataclass(frozen=True)
class Labels:
    """The answers: `spent` of `budget`; `labelled` + `unsure` = `spent`; `train` and `check` are what the labels are for."""

    budget: int
    spent: int
    labelled: int
    unsure: int
    train: int
    check: int
    minutes: float | None = None
    per_minute: float | None = None
    first_at: str = ""
    last_at: str = ""


@dataclass(frozen=True)
class Point:
    """A round: the model after `labels` training labels, and how it did on `n` check images (0: not measured). Of them it
    had `correct` right; `accuracy` with its interval is that of the whole collection, as certain as `worth` such images."""

    round: int
    labels: int
    n: int = 0
    correct: int = 0
    accuracy: float | None = None
    low: float | None = None
    high: float | None = None
    worth: float | None = None
    seconds: float | None = None
    change: float | None = None
    margin: float | None = None
    new_classes: list[str] = field(default_factory=list)

    @property
    def measured(self) -> Share:
        names = ("n", "correct", "accuracy", "low", "high", "worth")
        return {name: getattr(self, name) for name in names} if self.n else None


@dataclass(frozen=True)
class Outlook:
    """`ahead`: what the next labels would bring, none with the reason `why_not`. `price`: of one answer, 0 if unknown;
    `spent`: of those given; `people`: how many answer each item."""

    ahead: Sequence[Ahead] = ()
    why_not: str = ""
    price: float = 0.0
    spent: float = 0.0
    people: int = 1

    def as_json(self) -> dict[str, Any]:
        """`cost`: of the labels; `per_point`: of one point of accuracy, where they are expected to bring any."""
        rows = []
        for row in self.ahead:
            cost = row.labels * self.people * self.price
            rows.append({**row._asdict(), "cost": cost, "per_point": cost / (100 * row.gain) if row.gain > 0 else None})
        return {"level": LEVEL, "ahead": rows, "why_not": self.why_not, "price": self.price, "spent": self.spent}


@dataclass(frozen=True)
class Account:
    """How a run stands. `curve` has a point per trained round, `trained_at` when that was; `measure` is the last model's
    accuracy on the check images, None if not measured. `rate`: labels per minute, breaks left out, and the minutes left in
    the batch, None if unknown. `mix`: the share of the pool that the model gives to each class.
    `skipped`: how many files are left out, by the reason. `doubtful`: labels to look at again. `unsure_check`: check images
    without an agreed label. `outlook`: what more labels would bring. `training`: what the last training chose by itself.
    `claims`: how good predictions from elsewhere are. `disagreements`, `agreement` and `confused` are about items that
    several people answered."""

    progress: RunProgress
    curve: list[Point]
    trained_at: list[str]
    measure: Share
    advice: Advice
    rate: dict[str, float | None] | None
    mix: dict[int, float]
    skipped: dict[str, int]
    annotators: dict[str, int]
    doubtful: int
    unsure_check: int
    outlook: Outlook
    claims: list[Standing]
    disagreements: "Disagreements"
    agreement: "Agreement | None"
    confused: "list[Confused]"
    training: str = ""

    def as_json(self) -> dict[str, Any]:
        """What `askless status --json` prints and the page's /api/progress sends."""
        curve = [{**asdict(point), "at": at} for point, at in zip(self.curve, self.trained_at, strict=True)]
        for point in curve:
            del point["new_classes"]
        return {
            "progress": self.progress.as_json(),
            "curve": curve,
            "measure": self.measure,
            "advice": self.advice._asdict(),
            "rate": self.rate,
            "mix": [{"class": c, "share": share} for c, share in self.mix.items()],
            "skipped": self.skipped,
            "annotators": [{"annotator": name, "answers": n} for name, n in self.annotators.items()],
            "doubtful": self.doubtful,
            "unsure_check": self.unsure_check,
            "outlook": self.outlook.as_json(),
            "training": self.training,
            "claims": [asdict(one) for one in self.claims],
            "disagreements": asdict(self.disagreements),
            "agreement": None if self.agreement is None else asdict(self.agreement),
            "confused": [asdict(row) for row in self.confused],
        }


@dataclass(frozen=True)
class OfClass:
    """A class: labels to train on, check images, how many of the pool the model calls so, and how well it does. By its
    number it has its shape, and unless somebody chose another one its colour."""

    number: int
    colour: int
    name: str
    labels: int
    check: int = 0
    predicted: int | None = None
    precision: Share = None
    recall: Share = None

    @property
    def sign(self) -> Sign:
        return Sign(self.colour, self.number)


@dataclass(frozen=True)
class Shown:
    """An image (or the beginning of a text) on the page, and what is said below it."""

    item: int
    path: str
    label: str = ""
    reason: str = ""
    model_label: str = ""
    model_prob: float | None = None
    score: float | None = None
    text: str = ""


@dataclass(frozen=True)
class Mistake:
    """Check images of class number `truth` that the model calls number `predicted`."""

    truth: int
    predicted: int
    examples: list[Shown]


@dataclass(frozen=True)
class Batch:
    """What was asked for in a round, in the order of the ranks."""

    round: int
    picked_by: str
    items: list[Shown]
    seconds: float | None = None


@dataclass(frozen=True)
class Map:
    """Every item in two dimensions, from 0 to 1, or None; its class or -1; its round, or 0 where it was not chosen."""

    points: Sequence[Sequence[float] | None]
    labels: Sequence[int]
    rounds: Sequence[int]
    method: str = ""


@dataclass(frozen=True)
class Chosen:
    """How the images were chosen."""

    strategy: str
    parameters: dict[str, Any]
    seed: int
    batches: list[Batch]
    map: Map | None = None


@dataclass(frozen=True)
class Problems:
    """What is wrong with the data: (path, reason) for files left out, groups of paths for copies."""

    unreadable: list[tuple[str, str]] = field(default_factory=list)
    outside: list[tuple[str, str]] = field(default_factory=list)
    duplicates: list[list[str]] = field(default_factory=list)
    near_check: int = 0
    suspicious: list[Shown] = field(default_factory=list)
    replaced: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Person:
    name: str
    answers: int
    unsure: int = 0
    median_seconds: float | None = None
    per_minute: float | None = None


@dataclass(frozen=True)
class Agreement:
    """Several people on the same `items`: the share of equal labels of all pairs, Krippendorff's alpha with its 95 %
    interval and, of exactly two people, Cohen's kappa. `second`: how many second opinions are among them."""

    items: int
    people: int
    same: Share
    kappa: float | None
    alpha: float | None = None
    low: float | None = None
    high: float | None = None
    second: int = 0


@dataclass(frozen=True)
class Confused:
    """Of the items that `person` gave the class `label`, `items` have an answer by others or a decision: `same` of them that
    class too, and otherwise `instead` most often, `times` times."""

    person: str
    label: int
    items: int
    same: int
    instead: int | None = None
    times: int = 0


@dataclass(frozen=True)
class Disagreements:
    """Items on which people differ and that nobody has decided: `open` ones, of which some are `without_majority`."""

    open: int = 0
    without_majority: int = 0


@dataclass(frozen=True)
class Suggestions:
    """The model's suggestions: the mode now, how many labels were given with which, and whether they sway people.

    `accepted`: the labels given after a suggestion that are what it said. `with_it` and `without`: how often the label is
    what the model thought at that time, where the annotator saw that and where not.
    """

    mode: str = "off"
    shown: dict[str, int] = field(default_factory=dict)
    accepted: Share = None
    with_it: Share = None
    without: Share = None


@dataclass(frozen=True)
class Process:
    """How the labels were made."""

    people: list[Person]
    median_seconds: float | None = None
    undone: int = 0
    changed: int = 0
    skipped: int = 0
    bulk: int = 0
    disagreements: Disagreements = field(default_factory=Disagreements)
    agreement: Agreement | None = None
    confused: list[Confused] = field(default_factory=list)
    suggestions: Suggestions = field(default_factory=Suggestions)


@dataclass(frozen=True)
class Accepted:
    """The labels of a class, or of all, that people accepted in a grid of the model's: the share that they took out of what
    they saw, the share right of the check items that the model is as sure of, how many are expected to be wrong still, and
    with 95 % confidence at most."""

    name: str
    labels: int
    removed: Share
    check: Share
    wrong: float | None
    most: int | None


@dataclass(frozen=True)
class Model:
    """The model card; `chose`: what its training chose by itself, in words."""

    architecture: str
    learner: str
    weights: str
    sha256: str
    preprocessing: dict[str, Any]
    classes: list[str]
    labelled: int
    unlabelled: int
    versions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)
    chose: str = ""


@dataclass(frozen=True)
class FileFact:
    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Facts:
    """All that the report tells; plain data. `measure` is the last model's accuracy on the check images, None if not
    measured; `calibration` how far its word is from what comes true on them, as `measure.calibration` gives it; `baseline`
    what always naming the most common class would score. `confusion` has a row for each true class and a column for each
    predicted one, in the order of `classes`."""

    name: str
    made_at: str
    command: str
    data: Data
    labels: Labels
    advice: Advice
    curve: list[Point]
    classes: list[OfClass]
    chosen: Chosen
    process: Process
    measure: Share = None
    calibration: Share = None
    baseline: float | None = None
    target: float | None = None
    confusion: list[list[int]] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    accepted: list[Accepted] = field(default_factory=list)
    model: Model | None = None
    files: list[FileFact] = field(default_factory=list)
    outlook: Outlook = field(default_factory=Outlook)
    claims: list[Standing] = field(default_factory=list)
