"""One cell of a benchmark: one row with one seed, an ordinary ask / tell / fit answered by the oracle.

A cell has a folder of its own. After every round the learner is saved and then `progress.json`, which says where it is; so a
killed cell resumes its round, and a finished one (`result.json`) is never computed again.
"""

import dataclasses
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from askless import nets
from askless.acquire import Selection
from askless.acquire.albl import history_of
from askless.active.learner import ActiveLearner
from askless.active.prepare import Net, class_names, make_views
from askless.active.saving import plain_or_none
from askless.base.errors import InputError, some
from askless.base.files import write_whole
from askless.base.rng import stream
from askless.bench.differ import differences
from askless.bench.memory import forget_peak, peak_mb
from askless.bench.oracle import Oracle
from askless.bench.plan import (
    Moment,
    Row,
    Sample,
    Successor,
    data_key,
    default_settings,
    settings,
    start_positions,
    text_of,
)
from askless.bench.results import CELLS, cell_name, read_json
from askless.data import Pool, subset, views_for
from askless.features.frozen import as_frozen

Report = Callable[[dict[str, Any]], None]
Steps = Callable[[int, dict[str, float], bool], None]  # steps of all rounds, the numbers, whether a training ends there
Within = Callable[[str, float], None]  # what a cell does now, and the share of its round that is done
Prepared = tuple[Pool, Any, tuple[Any, np.ndarray] | None]


class Cell(NamedTuple):
    """A row with a seed, and the seed of its start where trials settled that."""

    row: Row
    seed: int
    start_seed: int | None = None

    @property
    def name(self) -> str:
        return cell_name(self.row.group, self.row.method, self.seed)

    def place(self, out: Path) -> Path:
        """Its folder in that of the benchmark."""
        return out / CELLS / self.name

    @property
    def title(self) -> str:
        row = self.row
        return f"{row.group}, {row.method}, seed {self.seed}" if row.group else f"{row.method}, seed {self.seed}"


class Stage:
    """The data of cells, kept for later cells that use the same: those used last, while the items of all of them fit in
    `most` bytes; one pool is always kept. Views of images are made on `device`."""

    def __init__(self, most: int = 2**28, device: str = "cpu") -> None:
        self.most, self.device = most, device
        self.ready: dict[tuple[Any, ...], Prepared] = {}  # the one used last at the end

    def __call__(self, row: Row) -> Prepared:
        """The pool, its views, and what is held out of it for early stopping."""
        key = (data_key(row), text_of((row.net, row.augment, row.views, row.validation)))
        prepared = self.ready.pop(key, None) or prepare(row, device=self.device)
        self.ready[key] = prepared
        while len(self.ready) > 1 and sum(size(pool) for pool, _, _ in self.ready.values()) > self.most:
            del self.ready[next(iter(self.ready))]
        return prepared


def size(pool: Pool) -> float:
    """Bytes of the pool's items; of those that are not in one array nobody knows."""
    return float(getattr(pool.x, "nbytes", np.inf))


def prepare(row: Row, progress: Callable[[int, int], None] | None = None, device: str = "cpu") -> Prepared:
    pool, held_out = row.data(), None
    if row.validation:
        order = stream(0, "validation").permutation(len(pool))
        held = np.sort(order[: row.validation])
        held_out = (pool.take(held), pool.labels[held])
        pool = subset(pool, np.sort(order[row.validation :]))
    own, options = None, dict(row.views)
    if device != "cpu" and pool.kind == "image" and as_frozen(row.net) is None:
        options["device"] = device
    if not row.augment and pool.kind == "image":  # weak views are the images themselves
        own = views_for(dataclasses.replace(pool, flip=False), **{"padding": 0, **options})
    elif options:
        own = views_for(pool, **options)
    return pool, make_views(pool, row.net, own, progress), held_out


def finished(folder: Path, row: Row, seed: int, start_seed: int | None = None) -> bool:
    """Whether the cell is done; an error where what is there, done or not, was made with other settings."""
    check_same(folder, cell_settings(row, seed, start_seed))
    if (folder / "result.json").exists():
        tidy(folder)  # a kill may have come between the result and this
        return True
    return False


def tidy(folder: Path) -> None:
    """Removes what only an unfinished cell needs."""
    for path in [*folder.glob("learner-*"), folder / "training.pt", folder / "progress.json"]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def cell_settings(row: Row, seed: int, start_seed: int | None) -> dict[str, str]:
    """What makes a cell; the start's own seed only where it is not the cell's."""
    return settings(row) | {"seed": str(seed)} | ({} if start_seed is None else {"start_seed": str(start_seed)})


def check_same(folder: Path, now: dict[str, str], but: str = "") -> None:
    """An error where what there is of the cell was made with other settings; `but` is one that is not compared."""
    made = next((path for path in (folder / "result.json", folder / "progress.json") if path.exists()), None)
    then = now if made is None else read_json(made)["settings"]
    names = [name for name in dict.fromkeys([*now, *then]) if name != but]
    was, is_now = ({name: found.get(name, default_settings().get(name)) for name in names} for found in (then, now))
    if changed := differences(was, is_now):
        revised = any(re.search(r"\brevision\b", text) for text in changed)
        why = "; another revision of a method gives other results with the same options" if revised else ""
        raise InputError(
            f"{folder} was made with other settings (old → new): {some(changed, 5)}{why}; use another folder, or remove "
            "this one"
        )


def run_cell(
    row: Row,
    seed: int,
    folder: Path,
    *,
    start_seed: int | None = None,
    stage: Stage | None = None,
    report: Report | None = None,
    steps: Steps | None = None,
    device: str = "cpu",
    within: Within | None = None,
) -> None:
    """Computes what is missing of a cell on `device` and writes `result.json` and `times.json`; `report` receives each
    round, `steps` each step of the trainings, `within` what is done inside a round."""
    if finished(folder, row, seed, start_seed):
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "failure.json").unlink(missing_ok=True)
    experiment = Experiment(row, seed, folder, start_seed, stage or Stage(device=device), steps, device, within)
    for count in row.counts[experiment.state["rounds"] :]:
        began = time.perf_counter()
        batch = experiment.ask(count)
        along = experiment.train()
        experiment.measure(batch, along)
        experiment.value()
        experiment.keep(time.perf_counter() - began)
        if report is not None:
            report(round_numbers(row, experiment.state["rounds"] - 1, experiment.state))
    experiment.finish()


def round_numbers(row: Row, k: int, state: dict[str, Any]) -> dict[str, Any]:
    """The number of labels of round k, what was measured of its training, and its seconds."""
    every = [*state["records"], *state["times"]]
    mine = [r for r in every if r[1] == row.counts[k] and r[0] == row.learner_name and r[2] is None]
    return {"labels": row.counts[k], **{r[3]: r[4] for r in mine}}


class Experiment:
    """A cell while it is computed: its learner, and its `state`, which is all that is known of it so far."""

    def __init__(
        self,
        row: Row,
        seed: int,
        folder: Path,
        start_seed: int | None,
        stage: Stage,
        steps: Steps | None,
        device: str = "cpu",
        within: Within | None = None,
    ) -> None:
        self.row, self.seed, self.folder, self.steps = row, seed, folder, steps
        self.device, self.within = device, within
        self.stage = stage
        self.pool, self.views, self.held_out = stage(row)
        self.net = network(row, self.pool)
        # A strategy that is not saved with the learner is passed again.
        self.strategy = row.strategy.judged_by(self.worth) if isinstance(row.strategy, Oracle) else row.strategy
        own: dict[str, Any] = {"strategy": self.strategy} if plain_or_none(self.strategy) is None else {}
        self.progress, self.count = folder / "progress.json", 0  # labels of the round
        if self.progress.exists():
            self.state = read_json(self.progress)
            self.learner = ActiveLearner.load(
                self.place(self.state["rounds"]),
                pool=self.pool,
                net=self.net,
                learner=row.learner,
                views=self.views,
                device=device,
                **own,
            )
            if self.state.get("memory"):  # an older askless has here what a strategy that is not saved remembered
                self.learner.asks = history_of(self.state["memory"])
            return
        start = start_positions(self.pool, row.start, row.start_by, seed if start_seed is None else start_seed)
        self.learner = self.new_learner(seed, row.learner, self.strategy)
        self.learner.tell(start, self.pool.labels[start])
        self.state = {"settings": cell_settings(row, seed, start_seed), "rounds": 0, "asked": [start.tolist()]}
        self.state |= {"records": [], "times": [], "seconds": 0.0}

    def new_learner(self, seed: int, learner: Any, strategy: Any) -> ActiveLearner:
        net, views = self.net, self.views
        if isinstance(learner, Successor):
            net, learner = learner.net, learner.learner
            views = self.stage(seen_by(self.row, net))[1]
        options = {name: getattr(self.row, name) for name in ("fresh", "calibrate", "layers", "width")}
        return ActiveLearner(
            self.pool,
            net=net,
            learner=learner,
            strategy=strategy,
            seed=seed,
            views=views,
            device=self.device,
            **options,
        )

    def now(self, what: str, share: float = 0.0) -> None:
        if self.within is not None:
            self.within(f"round {self.state['rounds'] + 1} of {len(self.row.counts)}, {what}", share)

    def place(self, rounds: int) -> Path:
        return self.folder / f"learner-{rounds}"

    def record(self, metric: str, value: float, x: float | None = None, learner: str = "") -> None:
        self.state["records"].append([learner or self.row.learner_name, self.count, x, metric, float(value)])

    def clock(self, metric: str, value: float, learner: str = "") -> None:
        self.state["times"].append([learner or self.row.learner_name, self.count, None, metric, float(value)])

    def ask(self, count: int) -> Selection:
        """Asks up to `count` labels, which the oracle answers."""
        self.count, n = count, count - len(self.learner.labels)
        if not n:
            return Selection(np.empty(0, dtype=np.int64))
        forget_peak()
        self.now("choosing")
        began = time.perf_counter()
        batch = self.asker().ask(n)
        seconds, peak = time.perf_counter() - began, peak_mb()
        self.learner.tell(batch.indices, self.pool.labels[batch.indices])
        self.state["asked"].append(batch.indices.tolist())
        self.clock("select_seconds", seconds)
        self.clock("peak_memory_mb", peak)
        for metric in ("lambda_min", "rank"):
            if metric in batch.info:
                self.record(metric, batch.info[metric])
        return batch

    def asker(self) -> ActiveLearner:
        """Who is asked: the learner, or before any training, with `other_init`, one of other first weights."""
        if not self.row.other_init or self.learner.is_fitted:
            return self.learner
        other = int(stream(self.seed, "other init").integers(2**62))
        asker = self.new_learner(other, self.row.learner, self.strategy)
        asker.labels = dict(self.learner.labels)
        return asker

    def train(self) -> list[Sample]:
        """One training, which a killed cell takes up again where it was (unless something is measured along it)."""
        along: list[Sample] = []
        began = time.perf_counter()
        before = sum(int(r.get("step", 0)) for r in self.learner.rounds)
        checkpoint = None if self.row.along else self.folder / "training.pt"

        def look(step: int, model: torch.nn.Module) -> None:
            for measure in self.row.along:
                along.extend(measure(self.learner, step, model))

        def watch(done: int, total: int, numbers: dict[str, float]) -> None:
            self.now(f"training step {done:,} of {total:,}", done / max(total, 1))
            if self.steps is not None:
                self.steps(before + done, {name: v for name, v in numbers.items() if name != "step"}, done == total)

        self.now("training")
        self.learner.fit(
            checkpoint=checkpoint,
            look=look if self.row.along else None,
            watch=None if self.steps is None and self.within is None else watch,
            **self.stopped_by(self.row.learner),
        )
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        self.clock("fit_seconds", time.perf_counter() - began)
        return along

    def stopped_by(self, learner: Any) -> dict[str, Any]:
        """What early stopping looks at, for a learner that has it."""
        return {} if getattr(learner, "patience", None) is None else {"validation": self.held_out}

    def measure(self, batch: Selection, along: list[Sample]) -> None:
        self.record("class_coverage", len(set(self.learner.labels.values())) / self.learner.classes)
        self.accuracy(self.learner, self.row.learner_name)
        moment = Moment(self.learner, batch.indices, batch.info, self.seed, along, self.keep_arrays, batch.scores)
        for sample in along:
            self.record(*sample)
        self.look(moment, self.row.learner_name)

    def look(self, moment: Moment, name: str) -> None:
        for measure in self.row.measures:
            for sample in measure(moment):
                self.record(*sample, learner=name)

    def keep_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        write_whole(self.folder / f"arrays-{self.count}.npz", lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    def value(self) -> None:
        """What the same labels are worth to other trainings."""
        for name, other in self.row.value:
            judge = self.new_learner(self.seed, other, "random")
            judge.labels = dict(self.learner.labels)
            self.now(f"training {name} on the same labels", 1.0)
            began = time.perf_counter()
            judge.fit(**self.stopped_by(judge.learner))
            self.clock("fit_seconds", time.perf_counter() - began, learner=name)
            self.accuracy(judge, name)
            nothing = np.empty(0, dtype=np.int64)
            self.look(Moment(judge, nothing, {}, self.seed, [], self.keep_arrays), name)

    def worth(self, batch: np.ndarray) -> tuple[float, ...]:
        """What an oracle knows: how well the learner will do with the labels of this batch."""
        judge = self.new_learner(self.seed, self.row.learner, "random")
        judge.labels = self.learner.labels | dict(zip(batch.tolist(), self.pool.labels[batch].tolist(), strict=True))
        judge.fit(**self.stopped_by(self.row.learner))
        return tuple(self.accuracies(judge).values())

    def accuracy(self, learner: ActiveLearner, name: str) -> None:
        for metric, value in self.accuracies(learner).items():
            self.record(metric, value, learner=name)

    def accuracies(self, learner: ActiveLearner) -> dict[str, float]:
        known = self.pool.labels >= 0
        right = learner.predict_pool().argmax(axis=1) == self.pool.labels
        test = {} if self.pool.test is None else {"test_accuracy": learner.score()}
        return test | {"pool_accuracy": float(right[known].mean())}

    def keep(self, seconds: float) -> None:
        """A round is done; if it is not the last, the next can begin here after a kill."""
        state = self.state
        state["seconds"] += seconds
        state["rounds"] += 1
        if state["rounds"] < len(self.row.counts):
            self.learner.save(self.place(state["rounds"]), pool=False)
            write_json(self.progress, state)
            shutil.rmtree(self.place(state["rounds"] - 1), ignore_errors=True)

    def finish(self) -> None:
        self.learner.save(self.folder / "learner", pool=False)
        last = [self.row.learner_name, self.row.counts[-1], None, "cell_seconds", self.state["seconds"]]
        write_json(self.folder / "times.json", [*self.state["times"], last])
        write_json(self.folder / "result.json", {name: self.state[name] for name in ("settings", "asked", "records")})
        tidy(self.folder)


def seen_by(row: Row, net: Net) -> Row:
    """The row of another network, with that network's own views."""
    return dataclasses.replace(row, net=net, net_options=(), views=(), augment=True)


def network(row: Row, pool: Pool) -> Net:
    """The row's network; one with options as a function that makes it from a seed."""
    if not row.net_options or not isinstance(row.net, str):
        return row.net
    name, classes, options = row.net, len(class_names(None, pool)), dict(row.net_options)
    return lambda seed: nets.make(name, classes=classes, shape=pool.shape, seed=seed, **options)


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content).encode()
    write_whole(path, lambda file: file.write(text))
