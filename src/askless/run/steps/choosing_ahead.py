"""The step `choosing ahead`: what people get once the batch is used up, while the next model trains."""

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from askless.run.out.gather import pace
from askless.run.steps.one_round import Chooser, chooser_of
from askless.run.store.asking import all_rounds, asked_items, current_round, tasks_of_round
from askless.run.store.fits import all_fits
from askless.run.store.rounds import chosen_ahead, keep_ahead

if TYPE_CHECKING:
    from askless.run.run import Report, Run

MOST = 5  # batches in the reserve
MARGIN = 1.5  # times what the last training took


def choose_ahead(run: "Run", report: "Report") -> None:
    """Keeps a reserve for the round after the one that is asked. The same model chooses it, once the batch is out and as if
    all of that were labelled: the batch is what it would be without a reserve, and the reserve does not repeat it."""
    report("choosing ahead", "Choosing what to label while the model trains", 0, 1)
    begun = time.perf_counter()
    with run.store.look() as db:
        number, (_, loose, left) = current_round(db), chosen_ahead(db)
        batch = [task.item for task in tasks_of_round(db, number)]
        asked = set(asked_items(db)).difference(loose)
        fit = next(reversed(all_fits(db).values()), None)
        seconds = None if fit is None else fit.seconds + all_rounds(db)[-1].seconds
        n = min(reserve_size(run.settings.batch, pace(db), seconds), left)
    chooser = chooser_of(run, number - 1)
    cover(chooser, batch)
    picks, info = chooser.next_batch(n, asked)
    by = chooser.learner.strategy.name
    with run.store.change() as db:
        keep_ahead(db, picks, by, time.perf_counter() - begun, info, run.settings.batch)
    report("choosing ahead", f"Chosen ahead by {by}", 1, 1)


def reserve_size(batch: int, per_minute: float | None, seconds: float | None) -> int:
    """How many items are kept for a training of this many seconds, choosing included, at this pace: a batch at least, and at
    most `MOST`; that many before anything has been measured.

    >>> reserve_size(20, 120.0, 21.0)  # two a second
    63
    >>> reserve_size(20, 30.0, 5.0), reserve_size(20, 120.0, 600.0), reserve_size(20, None, None)
    (20, 100, 100)
    """
    if per_minute is None or seconds is None:
        return MOST * batch
    return min(max(batch, math.ceil(MARGIN * per_minute / 60 * seconds)), MOST * batch)


def cover(chooser: Chooser, items: list[int]) -> None:
    """Lets the chooser take these items for labelled, with the classes that its model expects. It is not to be saved then:
    what a strategy learns from its batches, it learns from true labels."""
    learner, places = chooser.learner, chooser.base.positions()
    learner.asks = list(learner.history)
    new = [places[item] for item in items if item in places and places[item] not in learner.labels]
    expected = learner.predict_pool()[new].argmax(axis=1) if chooser.fitted else np.zeros(len(new), np.int64)
    learner.labels |= dict(zip(new, expected.tolist(), strict=True))
