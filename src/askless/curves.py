"""Learning curves of strategies on a pool whose labels are known, paired by seed, in worker processes."""

import multiprocessing
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import t as student_t

from askless.acquire import Strategy
from askless.active import ActiveLearner, Net
from askless.data import Pool
from askless.learn import LabelPropagation, Training

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Plan:
    """What is the same for all strategies: the pool (a function that makes it, so that a process can), the network, the
    training, and the numbers of labels at which the network is trained, the first of them a balanced start."""

    source: Callable[[], Pool]
    net: Net
    learner: Training | LabelPropagation
    counts: tuple[int, ...]


class Curve(NamedTuple):
    """One strategy with one seed: accuracy (of 1) at each number of labels on the test items and on the pool, what was asked
    for in each round (the start first), and seconds in all."""

    strategy: str
    seed: int
    test: tuple[float, ...]
    pool: tuple[float, ...]
    asked: tuple[tuple[int, ...], ...]
    seconds: float


def run(
    plan: Plan, name: str, strategy: str | Strategy, seed: int, tick: Callable[[], None] | None = None
) -> tuple[Curve, ActiveLearner]:
    """One strategy with one seed; start and first weights depend on the seed alone. `tick` is called after each training."""
    started = time.perf_counter()
    pool = plan.source()
    learner = ActiveLearner(pool, net=plan.net, learner=plan.learner, strategy=strategy, seed=seed)
    asked = [tuple(learner.start_balanced(plan.counts[0] // learner.classes).tolist())]
    test, on_pool = [], []
    for count in plan.counts:
        if count > len(learner.labelled):
            batch = learner.ask(count - len(learner.labelled))
            learner.tell(batch.indices, pool.labels[batch.indices])
            asked.append(tuple(batch.indices.tolist()))
        learner.fit()
        test.append(learner.score())
        on_pool.append(float((learner.predict_pool().argmax(axis=1) == pool.labels).mean()))
        if tick is not None:
            tick()
    seconds = time.perf_counter() - started
    return Curve(name, seed, tuple(test), tuple(on_pool), tuple(asked), seconds), learner


def compare(
    plan: Plan,
    strategies: dict[str, str | Strategy],
    seeds: Sequence[int],
    *,
    workers: int = 2,
    progress: Progress | None = None,
    finished: Callable[[Curve], None] | None = None,
) -> list[Curve]:
    """Every strategy with every seed, in `workers` processes of one torch thread each; `finished` is told each curve."""
    cells = [(name, seed) for seed in seeds for name in strategies]
    total, done = len(cells) * len(plan.counts), 0
    curves = []
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(workers, mp_context=context) as executor:
        ticks = manager.Queue()
        waiting = [executor.submit(_cell, plan, name, strategies[name], seed, ticks) for name, seed in cells]
        while waiting:
            try:
                ticks.get(timeout=0.5)
                done += 1
                if progress is not None:
                    progress(done, total)
            except queue.Empty:
                pass
            for future in [f for f in waiting if f.done()]:
                waiting.remove(future)
                curves.append(future.result())
                if finished is not None:
                    finished(curves[-1])
    return sorted(curves, key=lambda c: cells.index((c.strategy, c.seed)))


def _cell(plan: Plan, name: str, strategy: str | Strategy, seed: int, ticks: Any) -> Curve:
    torch.set_num_threads(1)
    return run(plan, name, strategy, seed, lambda: ticks.put(1))[0]


def accuracies(curves: Sequence[Curve], name: str, on: str = "test") -> np.ndarray:
    """(seeds, label counts) in %."""
    return 100 * np.array([getattr(c, on) for c in sorted(curves, key=lambda c: c.seed) if c.strategy == name])


def gain(curves: Sequence[Curve], name: str, over: str = "random", on: str = "test") -> tuple[float, float]:
    """Mean over seeds of the curve's mean minus that of `over`, in points, and half of its 95 % interval (paired)."""
    difference = (accuracies(curves, name, on) - accuracies(curves, over, on)).mean(axis=1)
    if len(difference) < 2:
        return float(difference.mean()), float("nan")
    half = student_t.ppf(0.975, len(difference) - 1) * difference.std(ddof=1) / np.sqrt(len(difference))
    return float(difference.mean()), float(half)


def mean_and_spread(curves: Sequence[Curve], name: str, on: str = "test") -> list[str]:
    """ "mean ± standard deviation" over seeds at each number of labels."""
    a = accuracies(curves, name, on)
    spread = a.std(axis=0, ddof=1) if len(a) > 1 else np.zeros(a.shape[1])
    return [f"{m:.1f} ± {s:.1f}" for m, s in zip(a.mean(axis=0), spread, strict=True)]
