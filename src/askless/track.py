"""Trackers: log the events of a loop to a file of JSON lines, TensorBoard, MLflow or Weights & Biases.

A tracker is any callable that takes an `Event`. It may have `every`, the number of training steps between two events it
receives, and `close`. A tracker that fails is dropped with a note on standard error: labels and training never depend on
it. A tracker imports its package at the first event.
"""

import atexit
import contextlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from askless.base.errors import AsklessError, InputError, OptionError
from askless.base.options import is_whole_number

__all__ = ["Event", "JSONLines", "MLflow", "TensorBoard", "WandB", "make"]

EVERY = 100  # steps, of a tracker that does not say


class Event(NamedTuple):
    """An event of a loop. `run` names the loop: empty if there is only one, the cell in a benchmark.

    "start": `about` describes the loop, with its `id` if it can resume; a "start" ends an earlier loop of that name.
    "step": `numbers` of the training after `at` steps, counting those of earlier rounds. "round": `numbers` after training
    on `at` labels. "end": the run has ended.

    >>> told = []
    >>> learner = al.ActiveLearner(al.data.two_moons(n=50), track=told.append)
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> told[0].kind, told[-1].kind, told[-1].at
    ('start', 'round', 4)
    """

    kind: Literal["start", "step", "round", "end"]
    run: str = ""
    at: int = 0
    numbers: Mapping[str, float] = {}
    about: Mapping[str, str] = {}


Tracker = Callable[[Event], None]


# --- the trackers -------------------------------------------------------------------------------------------------------


class JSONLines:
    """One line of JSON per event, added to the file at `path`; always available.

    {"event": "round", "run": "", "labels": 40, "test_accuracy": 0.81, ..., "time": 1767225600.0}

    `every`: training steps between two lines.

    >>> learner = al.ActiveLearner(al.data.two_moons(n=50), track=al.track.JSONLines("log.jsonl"))
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> json.loads(Path("log.jsonl").read_text().splitlines()[-1])["labels"]
    4
    """

    def __init__(self, path: str | Path, *, every: int = EVERY) -> None:
        self.path, self.every = Path(path), check_every(every)

    def __call__(self, event: Event) -> None:
        place = {"round": {"labels": event.at}, "step": {"step": event.at}}.get(event.kind, {})
        line = {"event": event.kind, "run": event.run, **place, **event.about, **event.numbers, "time": time.time()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({k: finite_or_none(v) for k, v in line.items()}) + "\n")

    def close(self) -> None:
        """Nothing to do: every line closes the file."""


class TensorBoard:
    """Curves `round/...` over labels and `train/...` over steps, in a folder per run below `folder`. The folder has the
    run's name and continues an existing one; further loops of the same name get a number.

    `every`: training steps between two points. Without the package it raises AsklessError.

    >>> al.ActiveLearner(pool, track=al.track.TensorBoard("logs"))  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, *, every: int = EVERY) -> None:
        require("tensorboard")
        self.folder, self.every = Path(folder), check_every(every)
        self.writers: dict[str, Any] = {}
        self.loops: Counter[str] = Counter()  # how many have begun under a name

    def __call__(self, event: Event) -> None:
        from torch.utils.tensorboard import SummaryWriter

        if event.kind in ("start", "end") and event.run in self.writers:
            self.writers.pop(event.run).close()
        if event.kind == "end":
            return
        self.loops[event.run] += event.kind == "start"
        if event.run not in self.writers:
            number = self.loops[event.run]
            name = event.run if number <= 1 else f"{event.run or 'loop'}-{number}"
            self.writers[event.run] = SummaryWriter(str(self.folder / name))
        writer = self.writers[event.run]
        for name, value in named(event).items():
            writer.add_scalar(name, value, event.at)
        if event.about:
            writer.add_text("about", "\n".join(f"- {name}: {text}" for name, text in event.about.items()))
        writer.flush()

    def close(self) -> None:
        for run in list(self.writers):
            self(Event("end", run))


class MLflow:
    """An MLflow run per run, in `experiment` of the store at `uri`: a server's address, or an SQLite file. A loop with an
    id resumes the run that has the id as its tag. Runs end with their loop, at `close`, or with Python.

    `every`: training steps between two points. Without the package it raises AsklessError.

    >>> al.ActiveLearner(pool, track=al.track.MLflow("runs.db"))  # doctest: +SKIP
    """

    def __init__(self, uri: str | Path, *, experiment: str = "askless", every: int = EVERY) -> None:
        require("mlflow")
        self.uri, self.experiment, self.every = str(uri), experiment, check_every(every)
        if "://" not in self.uri:
            self.uri = f"sqlite:///{Path(self.uri).resolve()}"
        self.client: Any = None
        self.runs: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        try:
            self._tell(event)
        except Exception:
            self.runs.clear()  # a store that is gone is not waited for again, not even when Python ends
            raise

    def _tell(self, event: Event) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        if event.kind in ("start", "end") and event.run in self.runs:
            self.client.set_terminated(self.runs.pop(event.run))
        if event.kind == "end":
            return
        if self.client is None:
            self.client = MlflowClient(tracking_uri=self.uri)
            atexit.register(self._leave)
        if event.run not in self.runs:
            self.runs[event.run] = self._find_or_make(event)
        run = self.runs[event.run]
        now = int(1000 * time.time())
        metrics = [Metric(name, float(value), now, event.at) for name, value in named(event).items()]
        there = self.client.get_run(run).data.params if event.about else {}  # which never change
        params = [Param(name, text[:500]) for name, text in event.about.items() if name not in there]
        self.client.log_batch(run, metrics=metrics, params=params)

    def _find_or_make(self, event: Event) -> str:
        """The MLflow run that this loop resumes, by its id, or a new one."""
        known = self.client.get_experiment_by_name(self.experiment)
        place = self.client.create_experiment(self.experiment) if known is None else known.experiment_id
        loop = event.about.get("id", "")
        found = self.client.search_runs([place], f"tags.`askless.id` = '{loop}'", max_results=1) if loop else []
        if found:
            self.client.update_run(found[0].info.run_id, status="RUNNING")
            return str(found[0].info.run_id)
        tags = {"askless.run": event.run} | ({"askless.id": loop} if loop else {})
        return str(self.client.create_run(place, run_name=event.run or "askless", tags=tags).info.run_id)

    def _leave(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def close(self) -> None:
        for run in list(self.runs):
            self(Event("end", run))


class WandB:
    """A Weights & Biases run per run, in `project`; offline by default: `wandb sync` uploads the files below `folder`. A
    loop with an id resumes the run of that id.

    `mode`: "online" sends at once. `every`: training steps between two points. Without the package it raises AsklessError.

    >>> al.ActiveLearner(pool, track=al.track.WandB("mine"))  # doctest: +SKIP
    """

    def __init__(
        self,
        project: str = "askless",
        *,
        folder: str | Path = ".",
        mode: Literal["offline", "online"] = "offline",
        every: int = EVERY,
    ) -> None:
        require("wandb")
        if mode not in ("offline", "online"):
            raise OptionError(f"WandB: mode must be offline or online, got {mode!r}")
        self.project, self.folder, self.mode, self.every = project, Path(folder), mode, check_every(every)
        self.runs: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        import wandb

        if event.kind in ("start", "end") and event.run in self.runs:
            self.runs.pop(event.run).finish()
        if event.kind == "end":
            return
        if event.run not in self.runs:
            self.folder.mkdir(parents=True, exist_ok=True)
            loop = event.about.get("id") or None
            run: Any = wandb.init(
                project=self.project,
                name=event.run or None,
                id=loop,
                resume="allow" if loop else None,
                dir=str(self.folder.resolve()),  # its own process may be at home elsewhere
                mode=self.mode,
                reinit="create_new",
                settings=wandb.Settings(silent=True),
            )
            # Its own step may only grow: rounds are drawn over labels, training over steps.
            for axis, names in (("labels", "round/*"), ("step", "train/*")):
                run.define_metric(axis)
                run.define_metric(names, step_metric=axis)
            self.runs[event.run] = run
        run = self.runs[event.run]
        if event.about:
            run.config.update(dict(event.about), allow_val_change=True)
        if event.numbers:
            run.log({"labels" if event.kind == "round" else "step": event.at, **named(event)})

    def close(self) -> None:
        for run in list(self.runs):
            self(Event("end", run))


KINDS = {"jsonl": JSONLines, "tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def make(text: str) -> "JSONLines | TensorBoard | MLflow | WandB":
    """The tracker that a command line names: jsonl:FILE, tensorboard:FOLDER, mlflow:FILE or mlflow:URI, or wandb:PROJECT.

    >>> make("jsonl:rounds.jsonl").path.name
    'rounds.jsonl'
    """
    kind, _, place = text.partition(":")
    if kind not in KINDS or not place:
        raise OptionError(
            f"track: expected jsonl:FILE, tensorboard:FOLDER, mlflow:FILE or mlflow:URI, or wandb:PROJECT, got {text!r}"
        )
    return KINDS[kind](place)


def settled(text: str) -> str:
    """The same tracker with absolute paths, so that any process can make it; an error if it cannot be made here."""
    made = make(text)
    if isinstance(made, JSONLines):
        return f"jsonl:{made.path.resolve()}"
    if isinstance(made, TensorBoard):
        return f"tensorboard:{made.folder.resolve()}"
    return f"mlflow:{made.uri}" if isinstance(made, MLflow) else text


# --- telling them -------------------------------------------------------------------------------------------------------


class Trail:
    """All trackers of a loop. A tracker that fails never stops the loop."""

    def __init__(self, trackers: Tracker | Iterable[Tracker] | None) -> None:
        given: list[Tracker] = [] if trackers is None else [trackers] if callable(trackers) else list(trackers)
        for tracker in given:
            if not callable(tracker):
                raise InputError(f"track: expected trackers such as track.JSONLines('rounds.jsonl'), got {tracker!r}")
        self.trackers = given

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Trail":
        """Trackers from their texts (see `make`), without those that cannot be made, such as for a missing package."""
        made: list[Tracker] = []
        for text in texts:
            try:
                made.append(make(text))
            except AsklessError as error:
                say(f"{error}; tracking continues without {text.partition(':')[0]}")
        return cls(made)

    def __bool__(self) -> bool:
        return bool(self.trackers)

    @property
    def rates(self) -> tuple[int, ...]:
        """The numbers of steps between two events, over all trackers."""
        return tuple(sorted({rate_of(tracker) for tracker in self.trackers} - {0}))

    def tell(self, event: Event, last: bool = False) -> None:
        """Send an event to all trackers, or a training step (`last`: the last one) to those due. Numbers become plain."""
        plain = {name: float(value) for name, value in event.numbers.items() if is_number(value)}
        event = event._replace(numbers=plain)
        for tracker in list(self.trackers):
            if event.kind == "step" and not due((rate_of(tracker),), event.at, last):
                continue
            self._try(tracker, partial(tracker, event))

    def close(self) -> None:
        for tracker in list(self.trackers):
            self._try(tracker, getattr(tracker, "close", lambda: None))

    def _try(self, tracker: Tracker, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:
            self.trackers.remove(tracker)
            what = f"{type(tracker).__name__} failed ({type(error).__name__}: {error})"
            say(f"{what}; tracking continues without it, and nothing else is lost")


def say(text: str) -> None:
    from askless.base.terminal import visible

    with contextlib.suppress(Exception):  # standard error may be gone too
        print(visible(f"note: {text}"), file=sys.stderr, flush=True)


def due(rates: Iterable[int], at: int, last: bool) -> bool:
    """Whether a training step is due at one of these rates; the last step of a training always is."""
    return any(rate and (last or at % rate == 0) for rate in rates)


def rate_of(tracker: Tracker) -> int:
    return int(getattr(tracker, "every", EVERY))


def named(event: Event) -> dict[str, float]:
    """The numbers under the names of their curves: round/test_accuracy, train/loss."""
    return {f"{'round' if event.kind == 'round' else 'train'}/{name}": v for name, v in event.numbers.items()}


def is_number(value: object) -> bool:
    return isinstance(value, int | float) or (hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0)


def finite_or_none(value: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_every(every: int) -> int:
    if not is_whole_number(every, 0):
        raise InputError(f"every: expected a whole number of steps, 0 for none, got {every!r}")
    return every


def require(package: str) -> None:
    if find_spec(package) is None:
        raise AsklessError(
            f"{package} is not installed; run `pip install 'askless[{package}]'`, or use track.JSONLines"
        )
