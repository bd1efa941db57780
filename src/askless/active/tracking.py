"""Sends the rounds and training steps of an `ActiveLearner` to its trackers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from askless.base.options import written
from askless.learn.learner import Watch
from askless.learn.ranks import these
from askless.track import Event, Tracker, Trail


def measured(loop: Any) -> dict[str, float]:
    """How accurate the model is, where that can be known: on held-out test items, and on items drawn at random."""
    numbers = {} if loop.pool.test is None else {"test_accuracy": loop.score()}
    if loop.random_share > 0 and (seen := loop.comparison()["random"])["n"]:
        numbers |= {"check_accuracy": 1 - seen["wrong"], "check_n": seen["n"]}
    return numbers


class Tracking:
    """Tells the trackers of a loop, on the first of processes that torch.distributed has joined; `loop` is the learner."""

    def __init__(self, loop: Any, track: Tracker | Sequence[Tracker] | None) -> None:
        self.loop, self.trail = loop, Trail(track)
        self.said: dict[str, float] = {}  # by the last ask, for the next round
        self.begun = False

    def asked(self, info: dict[str, Any], seconds: float) -> None:
        self.said = {name: float(v) for name, v in info.items() if isinstance(v, int | float | np.number)}
        self.said["select_seconds"] = seconds

    def steps(self, watch: Watch | None) -> Watch | None:
        """`watch`, and the trackers that receive training steps."""
        if not self.trail:
            return watch
        before = sum(int(r.get("step", 0)) for r in self.loop.rounds)

        def both(done: int, total: int, numbers: dict[str, float]) -> None:
            rest = {name: value for name, value in numbers.items() if name != "step"}
            self._tell(Event("step", at=before + done, numbers=rest), last=done == total)
            if watch is not None:
                watch(done, total, numbers)

        return both

    def fitted(self, seconds: float) -> None:
        """One event per fit: accuracy where it can be known, what the strategy said of its batch, seconds."""
        if not self.trail:
            return
        loop = self.loop
        numbers = {name: value for name, value in loop.rounds[-1].items() if name not in ("labels", "step")}
        numbers |= {name: value for name, value in self.said.items() if name not in ("labelled", "seconds")}
        numbers["fit_seconds"] = seconds
        numbers |= measured(loop)
        self.said = {}
        self._tell(Event("round", at=len(loop.labels), numbers=numbers))

    def _tell(self, event: Event, last: bool = False) -> None:
        if not these().is_first:
            return
        if not self.begun:
            self.begun, loop = True, self.loop
            net = loop.net if isinstance(loop.net, str) else type(loop.net).__name__
            about = {"strategy": loop.strategy.name, "learner": written(loop.learner), "net": net, "seed": loop.seed}
            about |= {"items": len(loop.pool), "classes": loop.classes}
            self.trail.tell(Event("start", about={name: str(v) for name, v in about.items()}))
        self.trail.tell(event, last)
