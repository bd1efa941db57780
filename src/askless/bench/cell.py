"""One cell of a benchmark: one row with one seed, an ordinary ask / tell / fit answered by the oracle.

A cell has a folder of its own. After every round the learner is saved and then `progress.json`, which says where it is; so a
cell that was killed goes on with the round it was in, and one that is finished (`result.json`) is never computed again.
"""

import dataclasses
import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from askless import nets
from askless.acquire.albl import history_of
from askless.active.learner import ActiveLearner
from askless.active.prepare import Net, class_names, make_views
from askless.active.saving import plain_or_none
from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.base.rng import stream
from askless.bench.memory import measured_peak
from askless.bench.plan import Moment, Row, Sample, default_settings, settings, start_positions, text_of
from askless.bench.results import cell_name, read_json
from askless.data import Pool, subset, views_for

Report = Callable[[dict[str, Any]], None]
Steps = Callable[[int, dict[str, float], bool], None]  # steps of all rounds, the numbers, whether a training ends there
Prepared = tuple[Pool, Any, tuple[Any, np.ndarray] | None]


class Cell(NamedTuple):
    """A row with a seed, and the seed of its start where trials settled that."""

    row: Row
    seed: int
    start_seed: int | None = None

    @property
    def name(self) -> str:
        return cell_name(self.row.group, self.row.method, self.seed)

    @property
    def title(self) -> str:
        row = self.row
        return f"{row.group}, {row.method}, seed {self.seed}" if row.group else f"{row.method}, seed {self.seed}"


class Stage:
    """The data of a cell; kept for the next cell that uses the same."""

    def __init__(self) -> None:
        self.key = ""
        self.data: Any = None
        self.ready: Prepared | None = None

    def __call__(self, row: Row) -> Prepared:
        """The pool, its views, and what is held out of it for early stopping."""
        key = text_of((row.data, row.net, row.augment, row.views, row.validation))
        # Options that print the same are the same; two functions may have one name, such as <lambda>.
        same_data = row.data is self.data or dataclasses.is_dataclass(row.data)
        if self.ready is None or key != self.key or not same_data:
            self.key, self.data, self.ready = key, row.data, prepare(row)
        return self.ready


def prepare(row: Row, progress: Callable[[int, int], None] | None = None) -> Prepared:
    pool, held_out = row.data(), None
    if row.validation:
        order = stream(0, "validation").permutation(len(pool))
        held = np.sort(order[: row.validation])
        held_out = (pool.take(held), pool.labels[held])
        pool = subset(pool, np.sort(order[row.validation :]))
    own = None
    if not row.augment and pool.kind == "image":  # weak views are the images themselves
        own = views_for(dataclasses.replace(pool, flip=False), **{"padding": 0, **dict(row.views)})
    elif row.views:
        own = views_for(pool, **dict(row.views))
    return pool, make_views(pool, row.net, own, progress), held_out


def finished(folder: Path, row: Row, seed: int, start_seed: int | None = None) -> bool:
    """Whether the cell is done; an error where what is there, done or not, was made with other settings."""
    then = settings_there(folder)
    if then is not None:
        check_same(folder, then, cell_settings(row, seed, start_seed))
    return (folder / "result.json").exists()


def settings_there(folder: Path) -> dict[str, str] | None:
    """What the cell in this folder was made with, so far as there is something of it."""
    for path in (folder / "result.json", folder / "progress.json"):
        if path.exists():
            settings_then: dict[str, str] = read_json(path)["settings"]
            return settings_then
    return None


def cell_settings(row: Row, seed: int, start_seed: int | None) -> dict[str, str]:
    """What makes a cell; the start's own seed only where it is not the cell's."""
    return settings(row) | {"seed": str(seed)} | ({} if start_seed is None else {"start_seed": str(start_seed)})


def check_same(folder: Path, then: dict[str, str], now: dict[str, str]) -> None:
    for name in [*now, *(n for n in then if n not in now)]:
        was, is_now = (found.get(name, default_settings().get(name)) for found in (then, now))
        if was != is_now:
            raise InputError(
                f"{folder} was made with {name} = {was}, now it is {is_now}; use another folder, or remove this one"
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
) -> None:
    """Computes what is missing of a cell and writes `result.json` and `times.json`; `report` is told each round, `steps`
    each step of the trainings."""
    if finished(folder, row, seed, start_seed):
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "failure.json").unlink(missing_ok=True)
    now = cell_settings(row, seed, start_seed)
    pool, views, held_out = (Stage() if stage is None else stage)(row)
    progress = folder / "progress.json"
    if progress.exists():
        state = json.loads(progress.read_text(encoding="utf-8"))
        check_same(folder, state["settings"], now)
        own = plain_or_none(row.strategy) is None  # an object that is not saved with the learner
        given = {"strategy": row.strategy} if own else {}
        place = folder / f"learner-{state['rounds']}"
        net = network(row, pool)
        learner = ActiveLearner.load(place, pool=pool, net=net, learner=row.learner, views=views, **given)
        if state.get("memory"):  # an older askless has here what a strategy that is not saved remembered
            learner.asks = history_of(state["memory"])
    else:
        state = {"settings": now, "rounds": 0, "asked": [], "records": [], "times": [], "seconds": 0.0}
        learner = ActiveLearner(
            pool,
            net=network(row, pool),
            learner=row.learner,
            strategy=row.strategy,
            seed=seed,
            fresh=row.fresh,
            calibrate=row.calibrate,
            layers=row.layers,
            width=row.width,
            views=views,
        )
        start = start_positions(pool, row.start, row.start_by, seed if start_seed is None else start_seed)
        learner.tell(start, pool.labels[start])
        state["asked"].append(start.tolist())
    for k in range(state["rounds"], len(row.counts)):
        began = time.perf_counter()
        one_round(row, seed, learner, row.counts[k], held_out, folder, state, steps)
        state["seconds"] += time.perf_counter() - began
        state["rounds"] = k + 1
        if k + 1 < len(row.counts):
            learner.save(folder / f"learner-{k + 1}", pool=False)
            write_json(progress, state)
            shutil.rmtree(folder / f"learner-{k}", ignore_errors=True)
        if report is not None:
            report(round_numbers(row, k, state))
    learner.save(folder / "learner", pool=False)
    last = [row.learner_name, row.counts[-1], None, "cell_seconds", state["seconds"]]
    write_json(folder / "times.json", [*state["times"], last])
    write_json(folder / "result.json", {name: state[name] for name in ("settings", "asked", "records")})
    progress.unlink(missing_ok=True)
    shutil.rmtree(folder / f"learner-{len(row.counts) - 1}", ignore_errors=True)


def round_numbers(row: Row, k: int, state: dict[str, Any]) -> dict[str, Any]:
    """The number of labels of round k, what was measured of its training, and its seconds."""
    every = [*state["records"], *state["times"]]
    mine = [r for r in every if r[1] == row.counts[k] and r[0] == row.learner_name and r[2] is None]
    return {"labels": row.counts[k], **{r[3]: r[4] for r in mine}}


def one_round(
    row: Row,
    seed: int,
    learner: ActiveLearner,
    count: int,
    held_out: tuple[Any, Any] | None,
    folder: Path,
    state: dict[str, Any],
    steps: Steps | None = None,
) -> None:
    """Asks up to `count` labels, trains, measures; adds to `state`."""
    pool, name = learner.pool, row.learner_name

    def record(metric: str, value: float, x: float | None = None, learner_name: str = name) -> None:
        state["records"].append([learner_name, count, x, metric, float(value)])

    def clock(metric: str, value: float) -> None:
        state["times"].append([name, count, None, metric, float(value)])

    asked, scores, info = np.empty(0, dtype=np.int64), None, {}
    if count > len(learner.labels):
        began = time.perf_counter()
        with measured_peak() as peak:
            batch = first_asker(row, seed, learner).ask(count - len(learner.labels))
        clock("select_seconds", time.perf_counter() - began)
        clock("peak_memory_mb", peak.mb)
        asked, scores, info = batch.indices, batch.scores, batch.info
        learner.tell(asked, pool.labels[asked])
        state["asked"].append(asked.tolist())
        for metric in ("lambda_min", "rank"):
            if metric in info:
                record(metric, info[metric])
    along: list[Sample] = []
    began = time.perf_counter()
    train(row, learner, held_out, folder, along, steps)
    clock("fit_seconds", time.perf_counter() - began)
    record("class_coverage", len(set(learner.labels.values())) / learner.classes)
    measure_accuracy(learner, lambda metric, value: record(metric, value))
    for sample in along:
        record(*sample)

    def keep(arrays: dict[str, np.ndarray]) -> None:
        write_whole(folder / f"arrays-{count}.npz", lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    moment = Moment(learner, asked, info, seed, along, keep, scores)
    for measure in row.measures:
        for sample in measure(moment):
            record(*sample)
    for other_name, other in row.value:
        judge = ActiveLearner(
            pool,
            net=network(row, pool),
            learner=other,
            strategy="random",
            seed=seed,
            fresh=row.fresh,
            views=learner.views,
        )
        judge.labels = dict(learner.labels)
        judge.fit(**stopped_by(other, held_out))
        measure_accuracy(judge, lambda metric, value, n=other_name: record(metric, value, learner_name=n))  # type: ignore[misc]


def train(
    row: Row, learner: ActiveLearner, held_out: Any, folder: Path, along: list[Sample], steps: Steps | None = None
) -> None:
    """One training, which a killed cell takes up again where it was (unless something is measured along it)."""
    checkpoint = None if row.along else folder / "training.pt"

    def look(step: int, model: torch.nn.Module) -> None:
        for measure in row.along:
            along.extend(measure(learner, step, model))

    before = sum(int(r.get("step", 0)) for r in learner.rounds)

    def watch(done: int, total: int, numbers: dict[str, float]) -> None:
        if steps is not None:
            steps(before + done, {name: v for name, v in numbers.items() if name != "step"}, done == total)

    learner.fit(
        checkpoint=checkpoint,
        look=look if row.along else None,
        watch=None if steps is None else watch,
        **stopped_by(row.learner, held_out),
    )
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)


def stopped_by(learner: Any, held_out: Any) -> dict[str, Any]:
    """What early stopping looks at, for a learner that has it."""
    return {} if getattr(learner, "patience", None) is None else {"validation": held_out}


def first_asker(row: Row, seed: int, learner: ActiveLearner) -> ActiveLearner:
    """Who is asked: the learner, or before any training, with `other_init`, one of other first weights."""
    if not row.other_init or learner.is_fitted:
        return learner
    other = int(stream(seed, "other init").integers(2**62))
    same = {
        "net": network(row, learner.pool),
        "learner": row.learner,
        "strategy": row.strategy,
        "calibrate": row.calibrate,
        "layers": row.layers,
        "width": row.width,
    }
    asker = ActiveLearner(learner.pool, seed=other, views=learner.views, **same)  # type: ignore[arg-type]
    asker.labels = dict(learner.labels)
    return asker


def measure_accuracy(learner: ActiveLearner, record: Callable[[str, float], None]) -> None:
    if learner.pool.test is not None:
        record("test_accuracy", learner.score())
    known = learner.pool.labels >= 0
    right = learner.predict_pool().argmax(axis=1) == learner.pool.labels
    record("pool_accuracy", float(right[known].mean()))


def network(row: Row, pool: Pool) -> Net:
    """The row's network; one with options as a function that makes it from a seed."""
    if not row.net_options or not isinstance(row.net, str):
        return row.net
    classes = len(class_names(None, pool))
    return partial(make_network, row.net, classes, pool.shape, row.net_options)


def make_network(
    name: str, classes: int, shape: tuple[int, ...], options: tuple[tuple[str, Any], ...], seed: int
) -> torch.nn.Module:
    return nets.make(name, classes=classes, shape=shape, seed=seed, **dict(options))


def write_json(path: Path, content: Any) -> None:
    text = json.dumps(content).encode()
    write_whole(path, lambda file: file.write(text))
