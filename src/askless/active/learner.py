"""`ActiveLearner`: ask, tell, fit."""

import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from askless.acquire import Name, Selection, Strategy, as_strategy, select, uses_history
from askless.active.exporting import export_model
from askless.active.notebook import Batch, Labelling
from askless.active.prepare import (
    Net,
    check_device,
    check_network,
    check_passes,
    class_names,
    default_learner,
    default_net,
    first_network,
    make_views,
    net_in_full,
)
from askless.active.saving import Saved, SaveError, save
from askless.active.tracking import Tracking
from askless.active.worth import Surprise, compare, surprises
from askless.base.errors import AsklessError, InputError
from askless.base.options import Count, check_annotated, explained, is_whole_number
from askless.base.plain import in_order, short
from askless.base.rng import drawn_seed, stream
from askless.data import CachedViews, Pool, as_pool, rows
from askless.features.frozen import Frozen
from askless.learn import Course, Learner, Learnt, Task, as_learner
from askless.learn.calibration import calibrated
from askless.learn.learner import Inspect, Watch, check_labelled
from askless.learn.observe import Sight, without_bias
from askless.learn.ranks import these
from askless.learn.training import TrainingError
from askless.track import Tracker

logger = logging.getLogger(__name__)

SAVED_OPTIONS = ("seed", "fresh", "calibrate", "layers", "width", "head", "random_share", "device")


class ActiveLearner:
    """The active learning loop: a pool, a network, a learner and a strategy.

    `pool`: a Pool, an array, or any torch Dataset. `net`: a name of `askless.nets`; "frozen:BACKBONE" or `Frozen(...)`,
    which embeds every image once and trains only a head; any module that ends in a linear layer (every training starts
    from its current weights); or a function that makes one from a seed; by default "small-cnn" for images, "linear" for
    vectors and "waves" for vectors of at most 64 numbers. `learner`: Auto or LabelPropagation on features, FixMatch,
    Supervised, MeanTeacher or PiModel on anything, as an object or by name, such as "label-propagation"; by default Auto
    for a linear head, else FixMatch. `strategy`: a name or an object. `classes`: their number or names; by default those
    of the pool.

    `seed`: None draws one, which is kept and saved. `fresh`: True starts every `fit` from the first weights, "new" draws
    new ones from the seed and the number of labels (as in the NPC and CRC papers), False continues from the last ones (as
    dynamicAL does). `layers="all"` shows strategies the gradients of the whole network: those that need features get a
    random projection of every logit's gradient to about `width` numbers, without a second bias, and `CRC(by="kernel")`
    the exact kernel. `random_share`: the share of every batch drawn at random, so that `comparison()` can say whether
    chosen items were worth more. `views`: how training sees images; by default `askless.data.views_for`.
    `progress(done, total)` receives the progress of embedding; `track`, one or several trackers of `askless.track`,
    receive rounds and trainings.

    Before the first `fit` the strategy sees the untrained network (or the frozen features), so a cold start needs no
    labels. `calibrate`: BatchNorm layers that have seen no data get the pool's statistics for this. With their initial 0
    and 1 the outputs of a deep network saturate, and strategies that use them choose by noise.

    `device`: where the network trains and looks, as torch names it. A bad argument raises InputError; labels for an
    unknown position or class raise it too, and none of them is kept.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, learner=al.LabelPropagation(), seed=0)
    >>> batch = learner.ask(4)
    >>> learner.tell(batch, pool.labels[batch])
    >>> _ = learner.fit()
    >>> learner.predict(pool.x[:3]).shape
    (3,)
    """

    @explained("ActiveLearner((X, y), classes=10)")
    def __init__(
        self,
        pool: Any,
        *,
        net: Net | None = None,
        learner: str | Learner | None = None,
        strategy: Name | Strategy = "askless",
        classes: int | Sequence[str] | None = None,
        seed: int | None = 0,
        fresh: bool | Literal["new"] = True,
        calibrate: bool = True,
        layers: Literal["last", "all"] = "last",
        width: Count = 512,
        head: str | None = None,
        random_share: float = 0.0,
        views: Any = None,
        device: str = "cpu",
        progress: Callable[[int, int], None] | None = None,
        track: Tracker | Sequence[Tracker] | None = None,
    ) -> None:
        self.pool: Pool = as_pool(pool)
        self.class_names = class_names(classes, self.pool)
        self.are_classes_known = True  # False: a strategy is not told how many there are
        seed = drawn_seed() if seed is None else seed
        stream(seed, "check")  # refuses what is not a seed
        self.seed = int(seed)
        self.strategy: Strategy = as_strategy(strategy)
        check_annotated("ActiveLearner", ActiveLearner.__init__, locals())
        if fresh == "new" and isinstance(net, nn.Module):
            raise InputError(
                "fresh='new' draws new weights for every fit, but a module only has its own; pass a function that makes it, "
                "such as net=lambda seed: MyNet(), the name of a network, or fresh=True"
            )
        check_device(device)
        self.fresh, self.calibrate = fresh, calibrate
        self.layers, self.width, self.head, self.device = layers, int(width), head, device
        if not 0 <= random_share < 1:
            raise InputError(f"random_share must be a number from 0 to below 1, got {random_share!r}")
        self.random_share = random_share
        self.net: Net = net_in_full(default_net(self.pool) if net is None else net)
        self.learner = as_learner(default_learner(self.net, self.pool) if learner is None else learner)
        self.own_views = views is not None
        self.views = make_views(self.pool, self.net, views, progress)
        self.first_network = first_network(self.pool, self.net, self.views, len(self.class_names), self.seed)
        if self.learner.has_network:
            check_network(self.first_network, self.views, self.classes)
        self.learner.check_views(self.first_network, self.views, len(self.pool))
        check_passes(self.strategy, self.first_network if self.learner.has_network else None, self.views)
        self.learnt: Learnt | None = None
        self.labels: dict[int, int] = {}
        self.rounds: list[dict[str, Any]] = []
        self.asks: list[Selection] = []  # what the strategy chose, in the order of the asks; see `history`
        self.skipped: set[int] = set()  # in `label`, which does not ask for them again
        self.batch: Batch | None = None  # the last one of `label`
        self._asked: dict[int, str] = {}  # position -> "chosen" or "random", with random_share
        self._surprises: list[Surprise] = []
        self.tracking = Tracking(self, track)

    def __repr__(self) -> str:
        net = self.net if isinstance(self.net, str | Frozen) else type(self.net).__name__
        return (
            f"<ActiveLearner on {self.pool.name}: {len(self.labels)} of {len(self.pool)} items labelled, {self.classes} "
            f"classes, {self.learner} on {net}, by {self.strategy}>"
        )

    # --- what is known ---------------------------------------------------------------------------------------------

    @property
    def classes(self) -> int:
        return len(self.class_names)

    @property
    def labelled(self) -> np.ndarray:
        """Positions (L,) of the labelled items, in the order of `tell`."""
        return np.array(list(self.labels), dtype=np.int64)

    @property
    def known_labels(self) -> np.ndarray:
        """Their labels (L,)."""
        return np.array(list(self.labels.values()), dtype=np.int64)

    @property
    def history(self) -> tuple[Selection, ...]:
        """The selections so far of which at least one item got a label."""
        return tuple(past for past in self.asks if any(i in self.labels for i in past.indices.tolist()))

    @property
    def is_fitted(self) -> bool:
        return self.learnt is not None

    @property
    def model(self) -> nn.Module | None:
        """The trained network; None before the first `fit`, or if the learner has none."""
        return None if self.learnt is None else self.learnt.model

    @property
    def task(self) -> Task:
        """The training task."""
        return Task(self.views, len(self.pool), self.labelled, self.known_labels, self.classes)

    # --- ask, tell, fit --------------------------------------------------------------------------------------------

    @explained("ask(20)")
    def ask(self, n: int, *, exclude: Sequence[int] = ()) -> Selection:
        """The n items to label next, best first. Asking again before `tell` gives the same answer. Unlabelled items in
        `exclude`, such as those people were unsure about, are left out as if the pool did not contain them. Items of the
        `random_share` come last, with NaN as score, because no strategy chose them."""
        began = time.perf_counter()
        seed = int(stream(self.seed, f"ask {len(self.labels)}").integers(2**62))
        there = self._askable(n, exclude)
        place = np.full(len(self.pool), -1)  # of each item among those that are there
        place[there] = np.arange(len(there))
        common: dict[str, Any] = {"seed": seed, "labelled": place[self.labelled], "pool": len(there)}
        # The fraction that is left over is drawn by chance, so that single questions get their share too.
        share = self.random_share * n
        n_random = int(share) + int(stream(seed, "share").random() < share - int(share))
        # Random items first, from all that are unlabelled: what they tell of the model is then unbiased.
        extra = there[select("random", n_random, **common).indices]

        arrays = self.observe()
        if len(there) < len(self.pool):
            arrays = {name: a if name == "labels" else a[there] for name, a in arrays.items()}
        bare = self.layers == "all" and self.learner.has_network
        picks = select(
            without_bias(self.strategy) if bare else self.strategy,
            n,
            classes=self.classes if self.are_classes_known else None,
            history=[replace(past, indices=place[past.indices]) for past in self.history],
            **common,
            **arrays,
        )
        picks = replace(picks, indices=there[picks.indices])
        self.asks = [*self.history, picks]
        if self.random_share > 0:
            picks = with_extra(picks, extra, n)
            self._asked |= dict.fromkeys(picks.indices.tolist(), "chosen") | dict.fromkeys(extra.tolist(), "random")
        info = {**picks.info, "labelled": len(self.labels)}
        self.tracking.asked(info, time.perf_counter() - began)
        return replace(picks, info=info, pool=self.pool)

    def _askable(self, n: int, exclude: Sequence[int]) -> np.ndarray:
        """Positions of the pool without `exclude`, ascending; n of them are unlabelled."""
        if not is_whole_number(n, 0):
            raise InputError(
                f"n must be a whole number >= 0, got {short(n)}; pass the number of items to choose, such as 20"
            )
        out = np.setdiff1d(rows.positions(exclude, len(self.pool), "exclude"), self.labelled)
        free = len(self.pool) - len(self.labels) - len(out)
        if n > free:
            raise InputError(f"n = {n} exceeds the {free} unlabelled items; lower n or add data")
        return np.setdiff1d(np.arange(len(self.pool)), out)

    def observe(self) -> dict[str, Any]:
        """The arrays that the strategy needs or wants, from the trained network; before the first fit only those it needs,
        from the untrained one."""
        learnt = self.learnt
        if learnt is None:
            net = calibrated(self.first_network, self.views, len(self.pool)) if self.calibrate else self.first_network
            learnt = self.learner.start(net, self.task)
        sight = Sight(self.layers, self.width, self.head, self.seed)
        seen = learnt.observe(self.strategy, self.labelled, self.known_labels, sight)
        if self.is_fitted:
            return seen
        needed = {*self.strategy.needs, *(["labels"] if uses_history(self.strategy) and self.history else [])}
        return {name: array for name, array in seen.items() if name in needed}

    @explained("tell(batch, labels)")
    def tell(self, indices: Any, labels: Any, *, replace: bool = False) -> None:
        """Add labels (numbers or class names) for these positions: all of them or, on an error, none.

        With `replace` an earlier label may be changed.
        """
        if isinstance(indices, set | frozenset):
            raise InputError("expected positions in the order of their labels, got a set; pass a list")
        positions = np.atleast_1d(np.asarray(in_order("indices", indices)))
        if positions.dtype.kind == "b":
            raise InputError("expected positions, got a mask; pass np.flatnonzero(mask)")
        if positions.dtype.kind in "US":
            raise InputError(f"expected positions first, got {str(positions[0])!r}; write tell(positions, labels)")
        numbers = self._numbers(labels)
        if len(positions) != len(numbers):
            raise InputError(
                f"expected one label per item, {len(positions)}, got {len(numbers)}; leave out the items without one"
            )
        if len(positions) == 0:
            return
        if positions.ndim != 1 or numbers.ndim != 1:
            raise InputError(f"expected positions and labels with one axis, got {positions.shape} and {numbers.shape}")
        if positions.dtype.kind not in "iu":
            raise InputError(
                f"expected positions as whole numbers, got dtype {positions.dtype}; pass np.array(positions, dtype=int)"
            )
        check_labelled(positions, numbers, len(self.pool), self.classes)
        new: dict[int, int] = {}
        for i, y in zip(positions.tolist(), numbers.tolist(), strict=True):
            if new.get(i, y) != y:
                raise InputError(f"item {i} appears twice with different labels; nothing was stored; pass it once")
            before = None if replace else self.labels.get(i)
            if before is not None and before != y:
                raise InputError(
                    f"item {i} already has the label {self.class_names[before]!r}, got {self.class_names[y]!r}; nothing "
                    "was stored; pass replace=True to change it"
                )
            new[i] = y
        # How the present model does on labels that are just coming in, before it is trained on them.
        fresh = [i for i in new if i in self._asked and i not in self.labels]
        if fresh and self.learnt is not None:
            probs = self.learnt.predict_pool(np.array(fresh))
            self._surprises += surprises(fresh, [new[i] for i in fresh], [self._asked[i] for i in fresh], probs)
        self.labels |= new
        self.skipped -= new.keys()

    @explained("label(20)")
    def label(self, n: int = 20) -> Any:
        """A widget for Jupyter that shows the n items to label next, one at a time with the reason, and a button for each
        class. Make it the last line of a cell; it needs `pip install 'askless[notebook]'`.

            learner.label(20)

        Every click is told to this learner at once: run the cell again, and the batch resumes at the item it had reached,
        without losing an answer. A new batch is asked for after the last item, or with another n. Skipped items are in
        `skipped` and do not come back. Undo takes back answers of the batch that no `fit` has used. After the last item a
        button trains, says how accurate the model is (where the pool has a test, or with `random_share`) and shows the
        next batch. Make the learner in a cell of its own, since a new learner has no labels; `save` keeps them on disk.
        """
        if not is_whole_number(n, 1):
            raise InputError(f"n must be a whole number >= 1, got {short(n)}; pass how many items to show, as 20")
        return Labelling(self, n).box

    def can_forget(self, i: int) -> bool:
        """Whether item i is skipped, or has a label that no training has used."""
        used = self.rounds[-1]["labels"] if self.rounds else 0
        return i in self.skipped or i in self.labelled[used:]

    def forget(self, i: int) -> None:
        """Takes back the answer to item i."""
        if not self.can_forget(i):
            raise InputError(
                f"expected an item with an answer that no training has used, got {i}; change a label by "
                "tell([i], [label], replace=True)"
            )
        self.skipped.discard(i)
        self.labels.pop(i, None)
        self._surprises = [s for s in self._surprises if s.item != i]

    def fit(
        self,
        *,
        checkpoint: str | Path | None = None,
        log: str | Path | None = None,
        validation: tuple[Any, Any] | None = None,
        watch: Watch | None = None,
        look: Inspect | None = None,
        bar: bool = False,
        blocks: int | None = None,
    ) -> Learnt:
        """Train on the labelled items and the rest of the pool, and use the trained model from then on.

        With `checkpoint` a killed training resumes where it stopped, bit for bit. `bar` shows a progress bar; `log`,
        `validation`, `watch`, `look` and `blocks` are those of `askless.learn.Course`. Processes joined by
        torch.distributed share the training and end with the same network: all of them must make the same calls.
        """
        began = time.perf_counter()
        if len(seen := set(self.labels.values())) == 1:
            logger.warning(
                "all labels so far are of the class %r, so the model knows no other and predicts it with certainty; label "
                "an item of another class before you use its probabilities",
                self.class_names[seen.pop()],
            )
        held_out = None
        if validation is not None:
            if not isinstance(validation, tuple | list) or len(validation) != 2:
                raise InputError(f"validation: expected a pair (x, y), got {short(validation)}; pass validation=(x, y)")
            x = torch.cat(list(self._outside(validation[0])))
            held_out = (x, torch.from_numpy(self._targets(validation[1], len(x))))
        watch = self.tracking.steps(watch)
        course = Course(held_out, self.device, checkpoint, log, watch, look, bar, blocks)
        seed = int(stream(self.seed, f"fit {len(self.labels)}").integers(2**62))
        check_device(self.device, there=True)
        try:
            self.learnt = self.learner.fit(self._start(), self.task, seed=seed, before=self.learnt, course=course)
        except TrainingError as stopped:
            if stopped.model is not None:  # the last good weights
                self.learnt = self.learner.start(stopped.model, self.task)
            raise
        metrics = self.learnt.metrics
        self.rounds.append({"labels": len(self.labels), **(metrics[-1] if metrics else {})})
        self.tracking.fitted(time.perf_counter() - began)
        return self.learnt

    def _start(self) -> nn.Module:
        """The network from which the next training starts."""
        if self.fresh == "new":
            drawn = int(stream(self.seed, f"init {len(self.labels)}").integers(2**62))
            return first_network(self.pool, self.net, self.views, self.classes, drawn)
        return copy.deepcopy(self.first_network if self.fresh or self.model is None else self.model)

    def start_balanced(self, per_class: int = 1) -> np.ndarray:
        """The balanced start of the papers, for benchmarks: label `per_class` random items of each class from the pool's
        known labels. Returns their positions."""
        rng = stream(self.seed, "balanced start")
        picks = []
        for c in range(self.classes):
            known = np.flatnonzero(self.pool.labels == c)
            if len(known) < per_class:
                raise InputError(
                    f"a balanced start needs {per_class} items of class {self.class_names[c]!r} with known labels in the "
                    f"pool, got {len(known)}"
                )
            picks.append(rng.choice(known, per_class, replace=False))
        positions = np.concatenate(picks)
        self.tell(positions, self.pool.labels[positions])
        return positions

    # --- use -------------------------------------------------------------------------------------------------------

    def predict_proba(self, x: Any) -> np.ndarray:
        """Class probabilities (n, C) of items from outside the pool."""
        return self._proba(self._outside(x))

    def predict(self, x: Any) -> np.ndarray:
        """The most probable class (n,), as a number."""
        return self.predict_proba(x).argmax(axis=1)

    def predict_pool(self) -> np.ndarray:
        """Class probabilities (N, C) of every item of the pool."""
        return self._trained().predict_pool()

    def predict_test(self) -> np.ndarray:
        """Class probabilities (n, C) of the pool's held-out test items."""
        return self._proba(self.test_items())

    def test_items(self) -> Iterator[Tensor]:
        """The pool's held-out test items as inputs of the network, some hundreds at a time."""
        if self.pool.test is None:
            raise InputError("score needs items with known labels, but the pool has no held-out test set; pass x and y")
        ready = self.views.test() if isinstance(self.views, CachedViews) else None
        yield from self._outside(self.pool.test[0]) if ready is None else ready.split(512)

    def score(self, x: Any = None, y: Any = None) -> float:
        """Accuracy on (x, y), by default on the pool's held-out test items."""
        if x is None:
            return float((self.predict_test().argmax(axis=1) == self.pool.test[1]).mean())
        if y is None:
            raise InputError("score needs the labels y of the items x")
        predicted = self.predict(x)
        return float((predicted == self._targets(y, len(predicted))).mean())

    def comparison(self) -> dict[str, Any]:
        """Whether the chosen items were worth more than random ones (with `random_share`).

        Compares the model's predictions for each item before training on it: the share that was wrong, and the mean -log
        probability of the label. The accuracy on the random ones is an unbiased measure of the model so far.
        """
        if self.random_share == 0:
            raise InputError("nothing was drawn at random; create the learner with random_share, such as 0.2")
        return compare(self._surprises)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _proba(self, parts: Iterator[Tensor]) -> np.ndarray:
        learnt = self._trained()
        return np.concatenate([learnt.predict_proba(part) for part in parts])

    def _trained(self) -> Learnt:
        if self.learnt is None:
            raise AsklessError("the learner has not been trained yet; tell it some labels and call fit()")
        return self.learnt

    def _targets(self, y: Any, n: int) -> np.ndarray:
        """Labels of n items from outside as class numbers (n,)."""
        numbers = self._numbers(y)
        if numbers.shape != (n,):
            raise InputError(f"expected one label per item, shape ({n},), got {numbers.shape}")
        if n and (numbers.min() < 0 or numbers.max() >= self.classes):
            raise InputError(f"expected labels from 0 to {self.classes - 1}, got {numbers.min()} to {numbers.max()}")
        return numbers

    def _outside(self, x: Any) -> Iterator[Tensor]:
        """Outside items as inputs of the network, some hundreds at a time if they can be sliced."""
        if isinstance(x, np.ndarray | Tensor) and x.ndim == len(self.pool.shape) + 1 and len(x) > 0:
            for i in range(0, len(x), 512):
                yield self.views.of(x[i : i + 512])
        else:
            yield self.views.of(x)

    def _numbers(self, labels: Any) -> np.ndarray:
        """Labels as class numbers; names are looked up."""
        given = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
        given = np.atleast_1d(given)
        if given.ndim == 2 and given.shape[1] > 1:
            raise InputError(f"expected one class per item, got shape {given.shape}; pass labels.argmax(axis=1)")
        if given.dtype.kind == "O" and any(label is None for label in given.flat):
            raise InputError("expected a class for every item, got None; leave out the items without an answer")
        if given.dtype.kind == "O" and all(isinstance(name, str) for name in given.flat):
            given = given.astype(str)  # a column of names, as pandas has them
        if given.dtype.kind == "U":
            unknown = [str(name) for name in given if str(name) not in self.class_names]
            if unknown:
                raise InputError(f"unknown class {unknown[0]!r}; the classes are {', '.join(self.class_names)}")
            return np.array([self.class_names.index(str(name)) for name in given], dtype=np.int64)
        if len(given) and given.dtype.kind not in "iu":
            raise InputError(
                f"expected labels as class numbers or names, got dtype {given.dtype}; pass np.array(labels, dtype=int)"
            )
        return given.astype(np.int64)

    # --- on disk ---------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path, *, pool: bool = True) -> Path:
        """Save everything into `folder`; an interrupted save leaves the earlier one intact. Without `pool` its items are
        left out, and you pass them to `load` again. Of processes joined by torch.distributed only the first one writes;
        the others continue at once."""
        if not these().is_first:
            return Path(folder)
        return save(
            Path(folder),
            self.pool if pool else None,
            {"net": self.net, "learner": self.learner, "strategy": self.strategy},
            {"first": self.first_network, "model": self.model},
            {
                **{name: getattr(self, name) for name in SAVED_OPTIONS},
                "classes": list(self.class_names),
                "labels": [[i, y] for i, y in self.labels.items()],
                "rounds": self.rounds,
                "asked": [[i, how] for i, how in self._asked.items()],
                "surprises": [list(s) for s in self._surprises],
                "asks": [ask.as_plain() for ask in self.asks] if uses_history(self.strategy) else [],
                "fitted": self.rounds[-1]["labels"] if self.is_fitted and self.model is None else None,
                "skipped": sorted(self.skipped),
                "own_views": self.own_views,
                "items": len(self.pool),
            },
        )

    def export(self, folder: str | Path, *, to: str = "model", overwrite: bool = False) -> Path:
        """Export the trained model as a portable folder: weights as safetensors or, with `to="onnx"`, the model as ONNX,
        checked against the network before it is written; preprocessing, classes, and a card with the accuracy on the
        pool's held-out test items, if any. `askless.load` and `askless predict` use it.

        A folder that exists is an error without `overwrite`.
        """
        return export_model(self, folder, to, overwrite)

    @classmethod
    def load(
        cls, folder: str | Path, pool: Any = None, *, before: Learnt | None = None, **given: Any
    ) -> "ActiveLearner":
        """Load a saved learner. Pass again what cannot be saved as data (your own module, Dataset, strategy or views) and a
        pool that was left out: `load(folder, my_dataset, net=my_module)`. A learner without a network trains again, faster
        with `before`, what it learnt earlier on the same pool."""
        saved = Saved(Path(folder))
        pool = saved.pool() if pool is None else pool
        for name in ("net", "learner", "strategy"):
            if name not in given:
                given[name] = saved.option(name)
        # What an older askless did, which saved none of these.
        older: dict[str, Any] = {"calibrate": False, "width": 512, "skipped": []}
        plain = older | saved.plain
        if plain["own_views"] and "views" not in given:
            raise SaveError(f"{folder}: the views were your own object, which is not saved; pass load(..., views=...)")
        options = {name: plain[name] for name in (*SAVED_OPTIONS, "classes") if name not in given}
        learner = cls(pool, **options, **given)
        if len(learner.pool) != plain["items"]:
            raise SaveError(
                f"{folder}: expected the pool of {plain['items']} items that was saved, got {len(learner.pool)}"
            )
        saved.load_into(learner.first_network, "first")
        learner.labels = {int(i): int(y) for i, y in plain["labels"]}
        if saved.has_network("model"):
            model = saved.load_into(copy.deepcopy(learner.first_network), "model").eval()
            learner.learnt = learner.learner.start(model, learner.task)
        elif (L := plain["fitted"]) is not None:  # from the labels of that time
            then = learner.task._replace(labelled=learner.labelled[:L], labels=learner.known_labels[:L])
            learner.learnt = learner.learner.fit(learner.first_network, then, before=before)
        learner.asks = saved.asks()
        learner.skipped = set(plain["skipped"])
        learner._asked = {int(i): how for i, how in plain["asked"]}
        learner._surprises = [Surprise(*s) for s in plain["surprises"]]
        learner.rounds = plain["rounds"]
        return learner


def with_extra(picks: Selection, extra: np.ndarray, n: int) -> Selection:
    """The first picks that are not among the extra ones, and then those: n in all."""
    keep = np.flatnonzero(~np.isin(picks.indices, extra))[: n - len(extra)]
    scores = None if picks.scores is None else np.concatenate([picks.scores[keep], np.full(len(extra), np.nan)])
    of_each = {k: [v[i] for i in keep] for k, v in picks.info.items() if isinstance(v, list) and len(v) == n}
    info = {**picks.info, **of_each, "random": extra.tolist()}
    return Selection(np.concatenate([picks.indices[keep], extra]), scores, info)
