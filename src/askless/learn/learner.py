"""One way to learn, with a network or without: a `Learner` makes of a pool and its labels something `Learnt`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from askless.acquire import Strategy
from askless.base.errors import InputError, some
from askless.base.rng import Seed
from askless.base.terminal import training_bar
from askless.data import Views
from askless.learn.observe import Sight
from askless.learn.ranks import these

Watch = Callable[[int, int, dict[str, float]], None]  # done, total, latest numbers
Inspect = Callable[[int, nn.Module], None]  # steps done, the network that would be used


class Task(NamedTuple):
    """A pool of `size` items as `views` shows them, of which those at `labelled` (L,) have `labels` (L,).

    `classes`: how many there are.

    >>> pool = al.data.two_moons(n=50)
    >>> task = al.learn.Task(al.data.views_for(pool), len(pool), np.array([0, 50]), np.array([0, 1]), classes=2)
    >>> task.checked().labelled
    array([ 0, 50])
    """

    views: Views
    size: int
    labelled: np.ndarray
    labels: np.ndarray
    classes: int

    def checked(self) -> "Task":
        """With int64 arrays: at least one label, inside the pool and the classes."""
        labelled, labels = check_labelled(self.labelled, self.labels, self.size, self.classes)
        return self._replace(labelled=labelled, labels=labels)


class Course(NamedTuple):
    """How a training in steps is to go; a learner without steps has no use for it.

    `validation` is (inputs as the network takes them, labels). With `checkpoint` the state is saved every `checkpoint_every`
    steps, and a training that finds its own checkpoint resumes exactly. `log` appends JSON lines; `watch(done,
    total, numbers)` is called as training goes, and `look(step, network)` before the first step, every `evaluate_every`
    steps and after the last one, with the network that would be used; `bar` shows a progress bar with the latest numbers.
    `blocks`: the equal parts that a batch is made in, see `Training.fit`.

    `device`: where to train.

    >>> pool = al.data.two_moons(n=50)
    >>> task = al.learn.Task(al.data.views_for(pool), len(pool), np.array([0, 50]), np.array([0, 1]), classes=2)
    >>> net = al.nets.make("linear", classes=2, shape=(2,))
    >>> course = al.learn.Course(watch=lambda done, total, numbers: print(done, "of", total))
    >>> learnt = al.Supervised(steps=2).fit(net, task, course=course)
    1 of 2
    2 of 2
    """

    validation: tuple[Tensor, Tensor] | None = None
    device: str | torch.device = "cpu"
    checkpoint: str | Path | None = None
    log: str | Path | None = None
    watch: Watch | None = None
    look: Inspect | None = None
    bar: bool = False
    blocks: int | None = None

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """A function (done, total, numbers) that calls `watch` and, in the first process, moves the bar."""
        shown = training_bar("training") if self.bar and these().is_first else nullcontext(None)
        with shown as move:

            def tell(done: int, total: int, numbers: dict[str, float]) -> None:
                for told in (move, self.watch):
                    if told is not None:
                        told(done, total, numbers)

            yield tell


class Learnt(Protocol):
    """What a learner has learnt on a pool.

    >>> pool = al.data.two_moons(n=50)
    >>> task = al.learn.Task(al.data.views_for(pool), len(pool), np.array([0, 50]), np.array([0, 1]), classes=2)
    >>> learnt = al.LabelPropagation().fit(al.nets.make("linear", classes=2, shape=(2,)), task)
    >>> learnt.predict_pool(np.array([0, 50])).argmax(axis=1)
    array([0, 1])
    """

    @property
    def model(self) -> nn.Module | None:
        """The trained network, in eval mode, if there is one."""

    @property
    def metrics(self) -> list[dict[str, float]]:
        """The log: one dict per measured step."""

    def as_network(self) -> nn.Module:
        """A separate network with the predictions of `predict_proba`, to export."""

    def predict_pool(self, at: np.ndarray | None = None) -> np.ndarray:
        """Class probabilities (n, C) of the pool's items, or of those at these positions."""

    def predict_proba(self, x: Tensor) -> np.ndarray:
        """Class probabilities (n, C) of items from outside, as prepared by the views."""

    def observe(self, strategy: Strategy, labelled: np.ndarray, labels: np.ndarray, sight: Sight) -> dict[str, Any]:
        """The arrays that the strategy uses, for all items of the pool."""


@runtime_checkable
class Learner(Protocol):
    """Options of a training scheme. `has_network`: whether it trains a network. It may have a `revision`, like a
    `Strategy`.

    >>> al.FixMatch().has_network, al.LabelPropagation().has_network
    (True, False)
    """

    @property
    def has_network(self) -> bool: ...

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        """Refuse items it cannot learn from, before any label is asked for."""

    def start(self, net: nn.Module, task: Task) -> Learnt:
        """The state before any training: this network as it is, or no prediction."""

    def fit(
        self, net: nn.Module, task: Task, *, seed: Seed = 0, before: Learnt | None = None, course: Course | None = None
    ) -> Learnt:
        """Learns from the labelled and the unlabelled items. `net` is the network to start from, trained in place; `before`
        what was learnt last of the same pool."""


def check_labelled(labelled: Any, labels: Any, size: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and labels as int64 arrays; at least one, inside the pool and the classes."""
    labelled, labels = np.asarray(labelled, dtype=np.int64), np.asarray(labels, dtype=np.int64)
    if len(labelled) == 0:
        raise InputError(
            "expected at least one labelled item to train on, got none; give an ActiveLearner labels with "
            "tell(positions, labels)"
        )
    if labelled.shape != labels.shape:
        raise InputError(f"expected one label per labelled item, {len(labelled)}, got {len(labels)}")
    if labelled.min() < 0 or labelled.max() >= size:
        outside = labelled[(labelled < 0) | (labelled >= size)]
        raise InputError(
            f"expected labelled positions from 0 to {size - 1}, got {some(outside)}; pass positions in the pool"
        )
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        raise InputError(
            f"expected labels from 0 to {classes - 1} for {classes} classes, got {labels[outside.argmax()]} for item "
            f"{labelled[outside.argmax()]}; add the class, or fix the label"
        )
    return labelled, labels
