"""What is a label worth? What the next labels would bring a run, and what they cost."""

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

from askless.run.out.account import Outlook, Point
from askless.run.steps.advice import brings
from askless.run.steps.forecast import AHEAD, Ahead, forecast, too_early
from askless.run.steps.round_files import read_held
from askless.run.store.classes import final_class
from askless.run.store.items import readable_items
from askless.run.store.labels import labels_of_check_items, train_labels
from askless.run.store.progress import RunProgress

if TYPE_CHECKING:
    from askless.run.run import Run


def outlook_of(
    run: "Run", db: sqlite3.Connection, points: Sequence[Point], far: RunProgress, price: float | None
) -> Outlook:
    """The outlook of a run whose curve has these points, and that is so `far`. Cheap: from what each round said of the check
    items."""
    price = run.settings.price if price is None else price
    people, (ahead, why_not) = run.settings.annotators, _ahead(run, db, points)
    answers = people * (far.train.done + far.check.done) + far.second.done
    return Outlook(ahead, why_not, price, price * answers, people)


def _ahead(run: "Run", db: sqlite3.Connection, points: Sequence[Point]) -> tuple[list[Ahead], str]:
    """The forecast, or why there is none."""
    if not points or not points[-1].n:
        return [], "a forecast needs a model" if not points else f"a forecast needs labelled check {run.noun}s"
    last, truth, final = points[-1], labels_of_check_items(db), final_class(db)
    said = {point.round: read_held(run.folder, point.round) or {} for point in points}
    items = [item for item in truth if said[last.round].get(item, -1) >= 0]
    # A round that knew every item; of several with as many labels, the last one.
    rounds = {p.labels: said[p.round] for p in points if all(said[p.round].get(item, -1) >= 0 for item in items)}
    labels = [n for n in sorted(rounds) if n <= last.labels]
    if why_not := too_early(labels, len(items), run.noun):
        return [], why_not
    left = len(set(readable_items(db, "pool")) - set(train_labels(db)))
    within = [more for more in AHEAD if more <= left]
    if not within:
        return [], f"fewer than {AHEAD[0]} {run.noun}s are left to label"
    right = [[final[rounds[n][item]] == truth[item] for item in items] for n in labels]
    assert last.accuracy is not None
    assert last.worth is not None
    return forecast(labels, right, last.accuracy, last.worth, within), ""


def in_words(outlook: Outlook) -> list[str]:
    """Sentences for the terminal and the report.

    >>> from askless.run.steps.forecast import Ahead
    >>> row = Ahead(50, 0.9, 0.8, 1.0, 0.008, 0.002, 0.019)
    >>> for said in in_words(Outlook([row], price=0.08, spent=16.0)): print(said)
    50 more labels would bring about 0.8 points (0.2 to 1.9): accuracy 0.90 (0.80–1.00). They cost 4.00, 5.00 a point.
    The answers so far cost 16.00.
    """
    said = [f"No forecast yet: {outlook.why_not}."] if outlook.why_not else []
    for row in outlook.as_json()["ahead"]:
        text = (
            f"{row['labels']} more labels would bring {brings(row)}: accuracy {row['accuracy']:.2f} "
            f"({row['low']:.2f}–{row['high']:.2f})."
        )
        if outlook.price:
            per_point = "" if row["per_point"] is None else f", {row['per_point']:.2f} a point"
            text += f" They cost {row['cost']:.2f}{per_point}."
        said.append(text)
    return said + ([f"The answers so far cost {outlook.spent:.2f}."] if outlook.price else [])
