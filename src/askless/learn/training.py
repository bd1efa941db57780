"""One training loop for every learner; a learner is a set of options and a loss."""

import copy
import dataclasses
import hashlib
import json
import math
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from askless.acquire import Strategy
from askless.base import digest
from askless.base.errors import AsklessError, InputError, ModelError
from askless.base.options import Count, NotNegative, Share, check_count, options
from askless.base.rng import Seed, stream
from askless.data import Views
from askless.kernels import features
from askless.kernels.logits import probabilities
from askless.learn import checkpoint as checkpoints
from askless.learn.ema import Average
from askless.learn.learner import Course, Learnt, Task
from askless.learn.log import Log
from askless.learn.material import Material
from askless.learn.observe import Sight, observe
from askless.learn.ranks import Ranks, these
from askless.learn.rate import admissible_rate
from askless.learn.schedule import Schedule, rate_at

Optimiser = Literal["sgd", "adam"]
KEEP_EVERY = 50  # steps between copies of the last good weights
KEPT = ("step", "metrics", "best", "since_best", "best_state", "lr", "numbers")  # of a training, in its checkpoint


class TrainingError(AsklessError):
    """Training had to stop; the network holds the last good weights, and so does `model`, the one that would be used.

    >>> isinstance(TrainingError("the loss is not finite"), al.AsklessError)
    True
    """

    model: nn.Module | None = None


class Method:
    """The loss of one training, with what it remembers between steps.

    >>> class Sum(Method):
    ...     def loss(self, step):
    ...         return torch.zeros(()), {"loss": 0.0}
    >>> Sum().finished(step=1)
    False
    """

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        """The loss of this step's batch, and numbers to log."""
        raise NotImplementedError

    def after_step(self, step: int) -> None:
        """Called when the optimiser has moved."""

    def finished(self, step: int) -> bool:
        """Whether training may stop before its last step."""
        return False

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


@options
class Training:
    """Options that every learner has.

    `batch`: labelled items per step; where several processes share the training, per step and process.
    `horizon`: the cosine's length where it is not `steps` (CRC stops early on a longer cosine). `ema`: decay of the averaged
    network, which is then the one used; None uses the live one. `kernel_rate` lowers `lr` to what the labelled items'
    last-layer kernel admits (`learn.rate`). Weight decay spares BatchNorm and biases. With validation data the network is
    measured every `evaluate_every` steps, and with `patience` training stops after that many measures without a gain and
    returns the best. `autocast` computes in bfloat16 (slower on most CPUs), `compile` uses torch.compile.

    `optimiser` takes `lr`, `momentum` (SGD alone) and `weight_decay`; `schedule`: how the rate falls over the `steps`.
    With `ema_warm_up` the average forgets its first steps sooner. A checkpoint is written every `checkpoint_every` steps,
    if one is asked for.

    >>> al.Supervised(steps=20, schedule="constant").horizon_steps
    20
    """

    steps: Count = 1000
    batch: Count = 64
    optimiser: Optimiser = "sgd"
    lr: NotNegative = 0.03
    momentum: Share = 0.9
    weight_decay: NotNegative = 5e-4
    schedule: Schedule = "cosine"
    horizon: Count | None = None
    ema: Share | None = None
    ema_warm_up: bool = True
    kernel_rate: bool = False
    evaluate_every: Count = 100
    patience: Count | None = None
    checkpoint_every: Count = 200
    autocast: bool = False
    compile: bool = False

    has_network = True
    embedded_views = (1, 0)  # how many weak and strong ones a run embeds for it, where its backbone is frozen

    @property
    def horizon_steps(self) -> int:
        return self.horizon or self.steps

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        """Refuses views of a pool of `size` items that this training could learn nothing from."""

    def method(self, net: nn.Module, material: Material, classes: int) -> Method:
        raise NotImplementedError

    def start(self, net: nn.Module, task: Task) -> "Fitted":
        return Fitted(net, [], task.views, task.size)

    def fit(
        self, net: nn.Module, task: Task, *, seed: Seed = 0, before: Learnt | None = None, course: Course | None = None
    ) -> "Fitted":
        """Trains `net` in place.

        Where torch.distributed is initialised its processes share the training: all call this with the same arguments, but
        for the device, and get the same network and numbers. Rank 0 reads and writes the files; `watch` and `look` are
        called on all. A batch is made in `blocks` equal parts, by default one per process, whose views are drawn from one
        generator each: W processes with batches of B do what one process does with a batch of W B and blocks=W (but for
        dropout, which draws from a generator per process).
        """
        return train(net, self, task, seed, course)


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A trained network, in eval mode (a `Learnt`); the log, one dict per measured step; and the pool."""

    model: nn.Module
    metrics: list[dict[str, float]]
    views: Views
    size: int

    def __repr__(self) -> str:
        loss = f", loss {self.metrics[-1]['loss']:.3g}" if self.metrics and "loss" in self.metrics[-1] else ""
        return f"<{type(self).__name__} {type(self.model).__name__}: {self.size} items{loss}>"

    def as_network(self) -> nn.Module:
        return copy.deepcopy(self.model)

    def predict_pool(self, at: np.ndarray | None = None) -> np.ndarray:
        positions = torch.arange(self.size) if at is None else torch.as_tensor(at)
        return np.concatenate([self.predict_proba(self.views.plain(part)) for part in positions.split(512)])

    def predict_proba(self, x: Tensor) -> np.ndarray:
        return probabilities(self.model, x)

    def observe(self, strategy: Strategy, labelled: np.ndarray, labels: np.ndarray, sight: Sight) -> dict[str, Any]:
        return observe(self.model, self.views, self.size, strategy, labelled, labels, sight)


def train(net: nn.Module, learner: Training, task: Task, seed: Seed, course: Course | None) -> Fitted:
    task, course = task.checked(), course or Course()
    validation, look = course.validation, course.look
    if not any(p.requires_grad for p in net.parameters()):
        raise ModelError(
            "expected a network with parameters to train, got one whose parameters are all frozen; set requires_grad on "
            "those of its last layer at least"
        )
    ranks = these()
    blocks = check_blocks(course.blocks, learner.batch, ranks, seed)
    device = torch.device(course.device)
    net.to(device)
    learner.check_views(net, task.views, task.size)
    material = Material(task, seed, device, ranks, blocks)
    if learner.patience is not None and validation is None:
        raise InputError(f"patience={learner.patience} needs validation=(x, y); pass it, or leave patience out")
    settings = settings_of(net, learner, task, material, seed)
    path = None if course.checkpoint is None else Path(course.checkpoint)
    measured = None if validation is None else len(validation[1])
    ranks.check_alike(settings | {"validation": measured, "checkpoint": path is not None})
    run = _Run(net, learner, material, task.classes, seed)
    saved = None if path is None else ranks.first(lambda: checkpoints.read(path) if path.exists() else None)
    # A finished training may be followed by another.
    ended = saved is None or ((saved["step"] >= saved["steps"] or saved["finished"]) and saved["settings"] != settings)
    if path is not None and saved is not None and not ended:
        checkpoints.check_settings(path, saved["settings"], settings)
        run.load_state_dict(saved)
    written = Log(course.log, after=run.step) if ranks.is_first else Log(None)
    # Dropout and the like draw from torch's global generator: it is put aside, and seeded for this training.
    with torch.random.fork_rng(devices=[]), course.watched() as watch:
        torch.random.set_rng_state(run.global_state)
        if look is not None and run.step == 0:
            look(0, run.used)
        while run.step < learner.steps and not run.stopped:
            numbers = run.one_step()
            run.finished = run.method.finished(run.step)
            last = run.step == learner.steps or run.finished
            due = run.step % learner.evaluate_every == 0 or last
            if due:
                if validation is not None:
                    numbers["validation"] = run.validate(*validation)
                run.metrics.append(numbers)
                written.add(numbers)
                if look is not None:
                    look(run.step, run.used)
            watch(run.step, learner.steps, numbers)
            if path is not None and (run.step % learner.checkpoint_every == 0 or last or run.stopped):
                run.global_state = torch.random.get_rng_state()
                run.stop_unless_finite()
                state = run.state_dict() | {"settings": settings, "steps": learner.steps}
                ranks.first(partial(checkpoints.write, path, state))
    run.stop_unless_finite()
    return Fitted(run.result(), run.metrics, task.views, task.size)


class _Run:
    """One training under way: everything that a checkpoint must hold."""

    def __init__(self, net: nn.Module, learner: Training, material: Material, classes: int, seed: Seed) -> None:
        self.net, self.learner, self.material = net, learner, material
        self.ranks = ranks = material.ranks
        self.lr = learner.lr
        self.numbers: dict[str, float] = {}
        if learner.kernel_rate:
            self._cap_rate()
        self.average = Average(net, learner.ema, learner.ema_warm_up) if learner.ema is not None else None
        forward: Any = torch.compile(net) if learner.compile else net
        self.method = learner.method(ranks.wrap(forward), material, classes)
        self.optimiser = make_optimiser(net, learner)
        self.step, self.finished = 0, False
        self.metrics: list[dict[str, float]] = []
        self.best, self.since_best = -math.inf, 0
        self.best_state: dict[str, Tensor] | None = None
        self.good = self._copy()
        start = int(stream(seed, f"global {ranks.rank}" if ranks.rank else "global").integers(2**62))
        self.global_state = torch.Generator().manual_seed(start).get_state()

    @property
    def used(self) -> nn.Module:
        """The network that is evaluated and returned."""
        return self.net if self.average is None else self.average.model

    @property
    def stopped(self) -> bool:
        return self.finished or (self.learner.patience is not None and self.since_best >= self.learner.patience)

    def one_step(self) -> dict[str, float]:
        rate = rate_at(self.step, schedule=self.learner.schedule, lr=self.lr, horizon=self.learner.horizon_steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.net.train()
        half = torch.autocast(self.material.device.type, torch.bfloat16, enabled=self.learner.autocast)
        with self.ranks.whole_batch(), half:
            loss, numbers = self.method.loss(self.step)
        numbers = self.ranks.mean({"loss": loss.item(), **numbers})
        value = numbers.pop("loss")
        if not math.isfinite(value):
            self._stop_at_last_good(f"the loss became {value} at step {self.step}")
        if not loss.requires_grad:
            raise ModelError(
                "expected outputs that depend on the network's trainable parameters, got some that do not; set "
                "requires_grad on those of its last layer, and detach nothing after them"
            )
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.net, self.step)
        self.method.after_step(self.step)
        self.step += 1
        if self.step % KEEP_EVERY == 0 and self.is_finite():
            self.good = self._copy()
        return {"step": self.step, "loss": value, "lr": rate, **numbers, **self.numbers}

    def validate(self, x: Tensor, y: Tensor) -> float:
        """Accuracy of the used network; counts towards early stopping."""
        x_here, y_here = self.ranks.mine(x), self.ranks.mine(y)
        right = int((probabilities(self.used, x_here).argmax(axis=1) == y_here.numpy()).sum()) if len(y_here) else 0
        accuracy = self.ranks.total(right) / max(len(y), 1)
        if accuracy > self.best:
            self.best, self.since_best = accuracy, 0
            if self.learner.patience is not None:
                self.best_state = copy.deepcopy(self.used.state_dict())
        else:
            self.since_best += 1
        return accuracy

    def result(self) -> nn.Module:
        model = copy.deepcopy(self.used)
        if self.best_state is not None:
            model.load_state_dict(self.best_state)
        for mine, theirs in zip(model.parameters(), self.net.parameters(), strict=True):
            mine.requires_grad_(theirs.requires_grad)  # the averaged copy has none
        self.ranks.align(model)
        return model.eval()

    def state_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in KEPT},
            "net": self.net.state_dict(),
            "average": None if self.average is None else self.average.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "method": self.method.state_dict(),
            "material": self.material.state_dict(),
            "finished": self.stopped,
            "global_state": self.ranks.gather(self.global_state[None]),  # (W, state)
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        for name in (*KEPT, "finished"):
            setattr(self, name, saved[name])
        states = torch.atleast_2d(saved["global_state"])
        if self.ranks.rank < len(states):  # with more processes than before, the new ones start from scratch
            self.global_state = states[self.ranks.rank].clone()
        self.net.load_state_dict(saved["net"])
        if self.average is not None:
            self.average.model.load_state_dict(saved["average"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.method.load_state_dict(saved["method"])
        self.material.load_state_dict(saved["material"])
        self.good = self._copy()

    def _cap_rate(self) -> None:
        momentum = self.learner.momentum if self.learner.optimiser == "sgd" else 0.0
        admits = self.ranks.first(lambda: admissible_rate(features(self.net, self.material.plain_labelled()), momentum))
        self.lr = min(self.lr, admits.lr)
        self.numbers = {"kernel_" + name: value for name, value in admits._asdict().items()}

    def _copy(self) -> tuple[int, dict[str, Tensor], dict[str, Tensor] | None]:
        """The step, and the weights of the live and of the averaged network."""
        average = None if self.average is None else copy.deepcopy(self.average.model.state_dict())
        return self.step, copy.deepcopy(self.net.state_dict()), average

    def is_finite(self) -> bool:
        """Whether every number of the live and of the averaged network is one, on all ranks."""
        nets = [self.net] if self.average is None else [self.net, self.average.model]
        tensors = [t for net in nets for t in net.state_dict().values() if t.is_floating_point()]
        return self.ranks.every(all(bool(t.isfinite().all()) for t in tensors))

    def stop_unless_finite(self) -> None:
        if not self.is_finite():
            self._stop_at_last_good(f"the weights were no longer finite after step {self.step}")

    def _stop_at_last_good(self, what: str) -> NoReturn:
        step, net, average = self.good
        self.net.load_state_dict(net)
        if self.average is not None and average is not None:
            self.average.model.load_state_dict(average)
        stop = TrainingError(
            f"{what}; the network keeps its weights of step {step}; lower lr (now {self.lr:g}), or set kernel_rate=True"
        )
        stop.model = copy.deepcopy(self.used).eval()
        raise stop


def make_optimiser(net: nn.Module, learner: Training) -> torch.optim.Optimizer:
    """SGD with Nesterov momentum, or Adam; weight decay on matrices and kernels only, never on biases or norm layers."""
    decayed = [p for p in net.parameters() if p.requires_grad and p.ndim > 1]
    plain = [p for p in net.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": learner.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    groups = [g for g in groups if g["params"]]
    if learner.optimiser == "adam":
        return torch.optim.Adam(groups, lr=learner.lr)
    return torch.optim.SGD(groups, lr=learner.lr, momentum=learner.momentum, nesterov=learner.momentum > 0)


def check_blocks(blocks: int | None, batch: int, ranks: Ranks, seed: Seed) -> int:
    """How many blocks a batch of all ranks has: each rank makes as many, all of the same size."""
    blocks = ranks.world if blocks is None else blocks
    check_count("fit", "blocks", blocks)
    if blocks % ranks.world:
        raise InputError(
            f"blocks: expected a multiple of the number of processes, {ranks.world}, got {blocks}; start a number of "
            f"processes that divides {blocks}, or change blocks"
        )
    if batch * ranks.world % blocks:
        raise InputError(
            f"blocks: expected a number that divides the {batch * ranks.world} labelled items of a step (batch={batch}, "
            f"processes: {ranks.world}), got {blocks}; change batch or blocks"
        )
    if ranks.world > 1 and isinstance(seed, np.random.Generator):
        raise InputError(
            f"seed: expected a whole number, the same on all {ranks.world} processes, got a Generator; pass a number"
        )
    return blocks


def settings_of(net: nn.Module, learner: Training, task: Task, material: Material, seed: Seed) -> dict[str, Any]:
    """What makes a training this training and no other, as plain values; of the pool, the labelled items and a sample.

    The batch is that of all processes together: how many share it is no part of the description, the blocks are.
    """
    options = dataclasses.asdict(learner) | {"batch": material.ranks.world * learner.batch}
    return {
        "learner": type(learner).__name__,
        "options": json.dumps(options, default=lambda value: np.asarray(value).tolist(), sort_keys=True),
        "pool size": task.size,
        "pool": material.fingerprint(),
        "classes": task.classes,
        "labelled": hashlib.sha256(task.labelled.tobytes() + task.labels.tobytes()).hexdigest(),
        "first weights": digest.of_network(net),
        "seed": seed if isinstance(seed, int) else repr(seed),
        **({"blocks": material.blocks} if material.blocks > 1 else {}),
    }
