"""`Stream`: choose from items that arrive in blocks and are seen once."""

import time
from typing import Any

import numpy as np

from askless.acquire.arrays import check_arrays, known_classes, plain_array, whole_numbers
from askless.acquire.askless import Askless
from askless.acquire.groups import Groups, alone, merged
from askless.acquire.random import Random
from askless.acquire.sampling import Draws
from askless.acquire.selecting import check_picks, with_probs
from askless.acquire.softmax import Softmax
from askless.acquire.strategy import Selection, Strategy, View, looks_at, uses_history
from askless.acquire.table import ARRAYS, BY_ROWS, Name, as_strategy
from askless.base.errors import InputError, OptionError
from askless.base.options import check_count, is_whole_number
from askless.base.rng import Seed, stream

UNLABELLED = -1
MARKS = ("label", "position", "key")  # held beside the arrays
DRAWN = 8  # one in this many of the memory is drawn at random to check the picks of askless


class Stream:
    """Choose from items that cannot be kept: `add` blocks of them, and ask for `picks` at any time.

    `memory` bounds the unlabelled items held between calls, each with its rows of the arrays that the strategy uses, and
    for `askless` one more row of features. Labelled items come on top. When the memory is full, the stream frees half of
    it (a quarter for `askless`). Items are numbered from 0 as they arrive; the division into blocks changes no pick.

    Until something is forgotten, picks are those of `select` on all items (except `random`, which draws differently). Then:

    - `askless` merges nearby items into groups (see `acquire/groups.py`) and covers the groups. An eighth of the memory is
      a random sample of all items seen and takes no part in choosing. So with 95 % probability
      the picks and the labelled items together cover at least `info["covered_at_least"]` of all items seen (the mean of
      max_s exp(-|x - s|^2 / h^2), all items counting alike), whatever the stream and its order. No batch covers more than
      1, so this also bounds the share of what the best batch covers.
    - Strategies that score each item separately (confidence, margin, entropy, EGL, dynamicAL, BALD) pick exactly what they
      would pick from the whole stream, except for the order of ties; random draws uniformly from it.
    - Other strategies repeatedly choose half of the memory from their earlier choice and the new items. That is an
      approximation: they do not know how many items a chosen one stands for.

    >>> stream = Stream("margin", budget=1, memory=2)
    >>> for probs in ([[0.9, 0.1], [0.6, 0.4]], [[0.8, 0.2]]):
    ...     stream.add(probs=probs)
    >>> stream.picks().indices
    array([1])
    """

    def __init__(
        self, strategy: Name | Strategy, budget: int, memory: int, *, seed: Seed = 0, classes: int | None = None
    ) -> None:
        self.strategy = as_strategy(strategy)
        name = self.strategy.name
        if uses_history(self.strategy):
            raise InputError(f"Stream: {name} learns from earlier picks, which a stream forgets; use another")
        if "kernel" in looks_at(self.strategy):
            raise InputError(f"Stream: {name} needs a kernel over all items, which a stream never has; use another")
        check_count("Stream", "budget", budget)
        if not is_whole_number(memory, 2 * budget):
            raise InputError(
                f"Stream: memory must be a whole number >= {2 * budget}, twice the budget, because the stream forgets up to "
                f"half of it at a time, got {memory!r}"
            )
        if classes is not None:
            check_count("Stream", "classes", classes)
        self.budget, self.memory, self.seed, self.classes = int(budget), int(memory), seed, classes
        self.seen = 0  # items so far
        self.told = 0  # answers so far
        self._rng, self._keys, self._lots = (stream(seed, name) for name in ("stream", "keys", "draws"))
        self._rows: dict[str, np.ndarray] = {}  # of the held items, in the order in which they came
        self._groups: Groups | None = None  # one for each of the first held items, once something is forgotten
        self._draws: Draws | None = None  # from all items in these groups

    def add(self, *, labels: Any = None, ids: Any = None, **arrays: Any) -> None:
        """Add the next items: arrays with a row each, named as in `select`, the same ones in every block.

        `labels` (b,): the class of each labelled item, which covers its neighbours and is never picked, and -1 for the
        others. `ids` (b,): names of the items, returned in `picks().info["ids"]`. A block may be empty.
        """
        if arrays and all(np.shape(array)[:1] == (0,) for array in arrays.values()):
            return
        block = self._checked(labels, ids, arrays)
        held = self._rows or {name: rows[:0] for name, rows in block.items()}
        waiting = block["label"] < 0
        while True:
            drawn = 0 if self._draws is None else len(self._draws.rows)
            room = self.memory - drawn - np.count_nonzero(held["label"] < 0)
            fits = int(np.searchsorted(np.cumsum(waiting), room, side="right"))
            held = self._rows = {name: np.concatenate([held[name], rows[:fits]]) for name, rows in block.items()}
            if fits == len(waiting):
                break
            self._forget()
            held, waiting = self._rows, waiting[fits:]
            block = {name: rows[fits:] for name, rows in block.items()}

    def picks(self, n: int | None = None) -> Selection:
        """The n items to label of all seen so far, best first, as positions in the stream; by default the rest of the
        budget. This changes nothing: continue with `add`, or `tell` the labels first."""
        start, left = time.perf_counter(), self.budget - self.told
        n = left if n is None else n
        if not is_whole_number(n, 0, left):
            raise InputError(f"n must be a whole number from 0 to {left}, the rest of the budget, got {n!r}")
        waiting = np.count_nonzero(self._rows["label"] < 0) if self._rows else 0
        if n > waiting or not self._rows:
            raise InputError(f"n = {n} exceeds the {waiting} unlabelled items seen so far; lower n or add more first")
        picks = self._choose(self._view(), int(n), stream(self.seed, "select"))
        info = {"strategy": self.strategy.name} | picks.info | {"seen": self.seen}
        if "id" in self._rows:
            info["ids"] = self._rows["id"][picks.indices].tolist()
        info["seconds"] = time.perf_counter() - start
        return Selection(self._rows["position"][picks.indices], picks.scores, info)

    def tell(self, positions: Any, labels: Any) -> None:
        """Label picked items: they are never picked again, cover their neighbours, and count towards the budget."""
        at, labels, left = (
            whole_numbers("positions", positions),
            whole_numbers("labels", labels),
            self.budget - self.told,
        )
        if len(at) != len(labels) or (labels < 0).any():
            raise InputError(f"labels: expected a whole number >= 0 for each of the {len(at)} positions, got {labels}")
        held = self._rows["position"][self._rows["label"] < 0] if self._rows else at[:0]
        if not np.isin(at, held).all() or len(np.unique(at)) < len(at) or len(at) > left:
            raise InputError(
                f"positions: expected distinct unlabelled items in memory, as picks() returns them, {left} at most, got {at}"
            )
        self._rows["label"][np.searchsorted(self._rows["position"], at)] = labels
        self.told += len(at)

    def held(self) -> dict[str, np.ndarray]:
        """The held items, a row each: copies of the arrays, `labels` (-1: none), `positions` and any `ids`."""
        names = {"label": "labels", "position": "positions", "id": "ids"}
        return {names.get(name, name): rows.copy() for name, rows in self._rows.items() if name != "key"}

    def renew(self, **arrays: Any) -> None:
        """Replace rows of the held items, in the order of `held`, by `arrays` of a newer model, such as `probs`.

        With `askless`, a merged item then weighs what the kept item of its group weighs. Features stay, because forgotten
        items were grouped by them.
        """
        known = {name: rows for name, rows in self._rows.items() if name in BY_ROWS}
        names = [name for name in known if name != "features"]
        if unknown := [name for name in arrays if name not in names]:
            raise OptionError(f"cannot renew {', '.join(unknown)}; expected {' or '.join(names) or 'nothing'}")
        view = check_arrays(self.strategy, dict.fromkeys(ARRAYS) | known | arrays, None, self.classes)
        new = {name: np.array(getattr(view, name)) for name in arrays}
        if wrong := [name for name in new if new[name].shape != known[name].shape]:
            got = ", ".join(f"{name} {new[name].shape}" for name in wrong)
            raise InputError(f"expected rows for the held items, {known[wrong[0]].shape}, got {got}")
        self._rows |= new
        if isinstance(self.strategy, Askless) and self._groups is not None:
            size = self._groups.size
            self._groups = self._groups._replace(weight=size * self.strategy.weights(self._view())[: len(size)])

    def _checked(self, labels: Any, ids: Any, arrays: dict[str, Any]) -> dict[str, np.ndarray]:
        """The rows of a block that are held: arrays, `label`, `position`, `key` (a random number) and perhaps `id`."""
        if unknown := [name for name in arrays if name not in BY_ROWS]:
            raise OptionError(
                f"unknown array {', '.join(unknown)}; a stream takes {', '.join(BY_ROWS)}, labels and ids"
            )
        view = check_arrays(self.strategy, dict.fromkeys(ARRAYS) | arrays, None, self.classes)
        names = {name for name in looks_at(self.strategy) if name in BY_ROWS and getattr(view, name) is not None}
        if isinstance(view.probs, Softmax):
            names = names - {"probs"} | {"logits"}
        block: dict[str, np.ndarray] = {name: getattr(view, name) for name in sorted(names)}
        label = np.full(view.N, UNLABELLED) if labels is None else whole_numbers("labels", labels)
        if len(label) != view.N or (label < UNLABELLED).any():
            got = f"{len(label)} of them, the least {label.min(initial=0)}"
            raise InputError(f"labels: expected a class, or -1, for each of the {view.N} items, got {got}")
        if ids is not None:
            block["id"] = plain_array("ids", ids).astype(object)
            if block["id"].shape != (view.N,):
                raise InputError(f"ids: expected one for each of the {view.N} items, got shape {block['id'].shape}")
        shapes, first = (
            {name: rows[name].shape[1:] for name in rows if name not in MARKS} for rows in (block, self._rows)
        )
        if self._rows and shapes != first:
            raise InputError(f"expected rows of the same shapes in every block, in the first {first}, got {shapes}")
        self.seen += view.N
        position = np.arange(self.seen - view.N, self.seen)
        return block | {"label": label, "position": position, "key": self._keys.random(view.N)}

    def _view(self) -> View:
        """The held items as a pool."""
        label = self._rows["label"]
        labelled, unlabelled = np.flatnonzero(label >= 0), np.flatnonzero(label < 0)
        arrays: dict[str, Any] = {name: rows for name, rows in self._rows.items() if name in BY_ROWS}
        classes = self.classes or known_classes(arrays, label[labelled])
        if "probs" in looks_at(self.strategy) and "probs" not in arrays and "logits" in arrays:
            arrays["probs"] = Softmax(arrays["logits"])
        return with_probs(
            View(len(label), labelled, unlabelled, label[labelled], classes=classes, **arrays), whole=True
        )

    def _choose(self, view: View, n: int, rng: np.random.Generator) -> Selection:
        """n of the held items."""
        if isinstance(self.strategy, Random):  # the smallest keys of the whole stream
            return Selection(view.unlabelled[np.argsort(self._rows["key"][view.unlabelled])[:n]])
        if isinstance(self.strategy, Askless) and self._groups is not None:
            draws = self._drawn(view["features"], stream(self.seed, "last draws"))
            picks = self.strategy.select_for(
                self._group(self.strategy, view), view, n, rng, draws.rows if len(draws.rows) else None
            )
        else:
            picks = self.strategy.select(view, n, rng)
        check_picks(self.strategy.name, picks, view, n)
        return picks

    def _group(self, strategy: Askless, view: View) -> Groups:
        """A group for each held item: items that came since something was forgotten have groups of their own."""
        known = 0 if self._groups is None else len(self._groups.size)
        new = alone(view["features"][known:], strategy.weights(view)[known:])
        return new if self._groups is None else self._groups.joined(new)

    def _drawn(self, features: np.ndarray, rng: np.random.Generator) -> Draws:
        """The draws once they know the items that came since something was forgotten."""
        known = 0 if self._groups is None else len(self._groups.size)
        many = min(self.memory // DRAWN, self.memory - 2 * self.budget)
        draws = self._draws or Draws(np.zeros((many, features.shape[1]), features.dtype), 0)
        return draws.after(features[known:], rng)

    def _forget(self) -> None:
        """Free half of the memory; a quarter for askless, which loses less the more groups it has."""
        view, keep = self._view(), self.memory // 2
        if isinstance(self.strategy, Askless):
            self._draws = self._drawn(view["features"], self._lots)
            keep = 3 * (self.memory - len(self._draws.rows)) // 4
            groups, fixed = self._group(self.strategy, view), self._rows["label"] >= 0
            directions = self.strategy.directions
            self._groups, stay = merged(groups, view["features"], fixed, keep, directions, self._rng)
        else:
            chosen = self._choose(view, keep, self._rng).indices
            stay = np.sort(np.concatenate([view.labelled, chosen]))
        self._rows = {name: rows[stay] for name, rows in self._rows.items()}
