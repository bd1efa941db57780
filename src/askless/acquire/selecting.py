"""`select`: check the arrays, then let a strategy choose."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from askless.acquire.arrays import check_arrays
from askless.acquire.softmax import Softmax
from askless.acquire.strategy import Progress, Selection, Strategy, View
from askless.acquire.table import ARRAYS, Name, as_strategy
from askless.base.errors import AsklessError, InputError
from askless.base.options import check_count, explained, is_whole_number
from askless.base.plain import short
from askless.base.rng import Seed, drawn_seed, stream


@explained("select('npc', 20, features=X)", "; options of a strategy go into the strategy, as in NPC(draws=5000)")
def select(
    strategy: Name | Strategy,
    n: int,
    *,
    seed: Seed | None = 0,
    features: Any = None,
    probs: Any = None,
    probs_by_pass: Any = None,
    logits: Any = None,
    grad_sq: Any = None,
    grad_dot: Any = None,
    grad_sq_by_class: Any = None,
    kernel: Any = None,
    labelled: Any = None,
    labels: Any = None,
    pool: int | None = None,
    classes: int | None = None,
    history: Sequence[Selection] = (),
    max_memory: int = 2**28,
    progress: Progress | None = None,
) -> Selection:
    """The n items to label next, as positions in the pool, best first.

    `strategy`: a name or an object such as `NPC(draws=5000)`. Arrays, numpy or torch: `features` (N, d), `probs` (N, C),
    `probs_by_pass` (N, K, C), of K passes with dropout or K networks, `logits` (N, C), `grad_sq` (N,), `grad_dot` (N,),
    `grad_sq_by_class` (N, C), `kernel` (N, N) or an object such as `acquire.kernel.Kernel`, `labelled` (L,) positions,
    `labels` (L,).
    A strategy's `needs` lists the arrays it requires, its `wants` those it uses if given; of the others only the length is
    checked. If a strategy uses `probs` and only `logits` are given, probs are softmax(logits).
    `pool` is N if no array gives it (for "random"), `classes` is C, which "probcover" needs before there is a model.
    `history`: the selections so far, for a strategy that learns from them ("albl"). `max_memory` bounds the working memory
    in bytes, on top of the arrays and a few numbers per item. `progress(done, total)` is called now and then. The same
    seed on the same machine gives the same picks; seed=None draws one, recorded in `info`.

    >>> select("margin", 1, probs=[[0.9, 0.1], [0.6, 0.4]]).indices
    array([1])
    """
    given = dict(locals())  # as it was called
    chosen = as_strategy(strategy)
    arrays = {name: given[name] for name in ARRAYS}
    drawn = {} if seed is not None else {"seed": drawn_seed()}
    if classes is not None:
        check_count("select", "classes", classes)
    if not isinstance(history, list | tuple) or not all(isinstance(past, Selection) for past in history):
        raise InputError(
            f"history: expected a list of the selections so far, got {short(history)}; pass [first, second]"
        )
    view = check_arrays(chosen, arrays, pool, classes)
    if not is_whole_number(n, 0):
        raise InputError(
            f"n must be a whole number >= 0, got {short(n)}; pass the number of items to choose, such as 20"
        )
    if n > len(view.unlabelled):
        raise InputError(f"n = {n} exceeds the {len(view.unlabelled)} unlabelled items; lower n or add data")
    if not is_whole_number(max_memory, 1):
        raise InputError(f"max_memory must be a positive number of bytes, got {max_memory!r}")
    view = dataclasses.replace(view, history=tuple(history), max_memory=int(max_memory), progress=progress)
    view = with_probs(view, whole=not type(chosen).__module__.startswith("askless.acquire."))
    start = time.perf_counter()
    selection = chosen.select(view, int(n), stream(drawn["seed"] if seed is None else seed, "select"))
    check_picks(chosen.name, selection, view, int(n))
    info = {"strategy": chosen.name} | selection.info | {"seconds": time.perf_counter() - start} | drawn
    if view.features is not None and view.features.shape != np.shape(features) and hasattr(features, "nnz"):
        info["features"] = f"{features.shape[1]:,} sparse columns in {view.features.shape[1]} directions (SVD)"
    return dataclasses.replace(selection, info=info)


def with_probs(view: View, *, whole: bool) -> View:
    """Compute probabilities from logits once if they take at most half of the memory; the strategy gets the rest.

    Otherwise compute them by rows on access, which our own strategies support; `whole`, for a user's strategy, always
    gives an array.
    """
    if not isinstance(view.probs, Softmax):
        return view
    if view.probs.nbytes <= view.max_memory // 2:
        return dataclasses.replace(view, probs=np.asarray(view.probs), max_memory=view.max_memory - view.probs.nbytes)
    return dataclasses.replace(view, probs=np.asarray(view.probs)) if whole else view


def check_picks(name: str, selection: Selection, view: View, n: int) -> None:
    """Raise unless a strategy, ours or a user's, returns n distinct unlabelled positions."""
    if not isinstance(selection, Selection):
        raise AsklessError(
            f"the strategy {name} must return a Selection, got {short(selection)}; write return al.Selection(picks), with "
            "int64 positions in the pool"
        )
    picks = selection.indices
    if not isinstance(picks, np.ndarray) or picks.dtype != np.int64 or picks.shape != (n,):
        got = f"{picks.dtype} of shape {picks.shape}" if isinstance(picks, np.ndarray) else type(picks).__name__
        raise AsklessError(
            f"the strategy {name} must return int64 positions of shape ({n},), got {got}; write np.array(picks, np.int64)"
        )
    inside = (picks >= 0) & (picks < view.N)
    if len(np.unique(picks)) < n or not inside.all() or np.isin(picks, view.labelled).any():
        raise AsklessError(
            f"the strategy {name} must return distinct unlabelled positions of the pool, got {picks}; take them from "
            "view.unlabelled"
        )


__test__ = {"select": select}  # doctest does not see through `explained`
