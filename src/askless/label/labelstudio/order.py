"""A run -> predictions whose scores put Label Studio's uncertainty sampling, lowest score first, into our order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from askless.label.labelstudio.batch import batch
from askless.label.labelstudio.exchange import shows_guesses
from askless.label.labelstudio.tasks import Control, Guess, guessed
from askless.run.steps.round_files import last_predictions
from askless.run.store.asking import current_round
from askless.run.store.classes import class_names
from askless.run.store.items import held_out_items
from askless.run.store.store import get_meta

if TYPE_CHECKING:
    from askless.run import Run

LAST = 1.0  # the score of what is not of this run


def order_version(run: "Run") -> str:
    """One name for the order of each round: Label Studio asks again, and orders anew, when it changes."""
    with run.store.look() as db:
        return f"askless-{str(get_meta(db, 'run'))[:8]}-order-{current_round(db):03d}"


def predictions_of(
    run: "Run", items: Sequence[int | None], control: Control, version: str | None = None
) -> list[dict[str, Any]]:
    """One prediction for each item; None is an item of another run.

    The batch has the scores rank / (2 (n + 1)) < 1/2 for its ranks 1..n, every other item (1 + p) / 2 >= 1/2, where p is
    the probability of the model's guess, or 1/2 where there is none. The guess itself is in the result only where the
    run shows guesses, and never for check items: an empty result orders a task and says nothing.
    """
    version = version or order_version(run)
    asked = batch(run, guesses=False)
    place = {each.item: each.rank / (2 * (len(asked) + 1)) for each in asked}
    with run.store.look() as db:
        names, said = class_names(db), last_predictions(db, run.folder)
        silent = held_out_items(db) if shows_guesses(run) else None  # None: all
    out = []
    for item in items:
        best = None if item is None or said is None else said.best(item)
        guess = None if best is None else Guess(names[best[0]], best[1])
        score = LAST if item is None else place.get(item, (1 + (0.5 if guess is None else guess.prob)) / 2)
        shown = guess if silent is not None and item not in silent else None
        if shown is not None and control.choices and shown.label not in control.choices:
            shown = None  # Label Studio refuses a choice that the project does not have
        out.append({"model_version": version, "score": score, "result": guessed(shown, control)})
    return out
