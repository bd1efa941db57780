"""Predictions from elsewhere: the tables that `askless import --as NAME` reads, and what check items say of them."""

import math
import sqlite3
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.errors import InputError
from askless.base.intervals import share
from askless.run.out.answers import read_records
from askless.run.steps.measure import per_class
from askless.run.steps.trust import Trusted, bounds, needed, trusted
from askless.run.store.asking import Desk
from askless.run.store.claims import Claim, accept_claimed, accepted_claims, claims_of, names_of_claims, put_claims
from askless.run.store.classes import class_numbers, folded, shown_classes
from askless.run.store.extra import rest_items
from askless.run.store.items import item_numbers
from askless.run.store.labels import labels_of_check_items
from askless.run.store.store import once
from askless.sources.names import LABEL_NAMES, PATH_NAMES, label_text, pick_column, usual_column

if TYPE_CHECKING:
    from askless.run.run import Run

WANTED = 0.95  # the share to be right of what is accepted, unless somebody says otherwise
CONFIDENCE_NAMES = ("confidence", "probability", "prob", "score", "model_prob")


@dataclass(frozen=True)
class Standing:
    """What check items say of the claims of `name`. `measure` is the share that is right, `classes` the rows of
    `measure.per_class` with the `id` of each class, `levels` the same share from each confidence on: how many `claims` that
    are in all, how many `free` of them could be accepted, and `at_least` what share is right (95 % sure of all levels
    together). `accepted`: how many are by now. `needed`: the fewest check items that can show that `wanted` are right."""

    name: str
    claims: int
    accepted: int
    measure: dict[str, Any] | None
    classes: list[dict[str, Any]]
    levels: list[dict[str, Any]]
    wanted: float = WANTED
    needed: int = needed(WANTED)

    def to_accept(self) -> dict[str, Any] | None:
        """The level with the most claims of which the share WANTED is right; None where no level shows that."""
        return next((row for row in self.levels if row["at_least"] >= self.wanted), None)


def read_claims(path: Path) -> dict[str, tuple[str, float | None]]:
    """Path -> (class name, confidence or None) of a table that has columns for them; rows without a class are left out."""
    if not path.is_file():
        raise InputError(f"{path}: expected a table with the columns path and label, got no file")
    header, records = read_records(path)
    image, label = pick_column(header, PATH_NAMES, path), pick_column(header, LABEL_NAMES, path)
    column = usual_column(header, CONFIDENCE_NAMES)
    found: dict[str, tuple[str, float | None]] = {}
    for number, row in enumerate(records, 1):
        sure = row.get(column) if column else None
        try:
            confidence = None if sure is None or sure == "" else float(sure)
        except (ValueError, TypeError, OverflowError):
            confidence = math.nan
        if confidence is not None and not 0 <= confidence <= 1:
            raise InputError(f"{path}: row {number}: expected a {column} between 0 and 1, got {sure!r}")
        if name := label_text(row.get(label)):
            found[label_text(row.get(image))] = (name, confidence)
    if len({confidence is None for _, confidence in found.values()}) > 1:
        raise InputError(f"{path}: expected a {column} in every row that has a label, or in none; some rows have none")
    return found


def import_claims(run: "Run", name: str, given: dict[str, tuple[str, float | None]]) -> tuple[int, list[str]]:
    """Takes predictions under a name, in place of its earlier ones; how many, and the paths that the run does not have."""
    with run.store.change() as db:
        numbers, places = class_numbers(db), item_numbers(db)
        known = ", ".join(c.name for c in shown_classes(db)) or "none yet"
        strange = next((label for label, _ in given.values() if folded(label) not in numbers), None)
        if strange is not None:
            raise InputError(
                f"expected predictions of the run's classes, {known}, got {strange!r}; rename it in the file"
            )
        claims = {places[p]: Claim(numbers[folded(label)], c) for p, (label, c) in given.items() if p in places}
        put_claims(db, f"claims-{uuid.uuid4()}", name, claims)
    return len(claims), [path for path in given if path not in places]


def standings(db: sqlite3.Connection) -> list[Standing]:
    """What check items say of the claims under each name."""
    return [standing_of(db, name) for name in names_of_claims(db)]


def standing_of(db: sqlite3.Connection, name: str) -> Standing:
    claims, truth, free = shown_claims(db, name), labels_of_check_items(db), rest_items(db)
    names = {c.id: c.name for c in shown_classes(db)}
    both = [item for item in truth if item in claims]
    said, true = [claims[item].label for item in both], [truth[item] for item in both]
    right = np.array(said) == np.array(true)
    sure, everywhere = confidences(claims, both)
    waiting = confidences(claims, [item for item in free if item in claims])[0]
    rows = []
    for one in bounds(everywhere, sure, right):
        many = {"claims": int((everywhere >= one.confidence).sum()), "free": int((waiting >= one.confidence).sum())}
        measured = share(one.correct, one.n) or {"n": 0}
        rows.append({"confidence": one.confidence, **many, **measured, "at_least": one.low})
    classes = [{**row, "id": row["class"], "class": names[row["class"]]} for row in per_class(said, true, list(names))]
    accepted = accepted_claims(db).get(name, Counter()).total()
    return Standing(name, len(claims), accepted, share(int(right.sum()), len(both)), classes, rows)


def shown_claims(db: sqlite3.Connection, name: str) -> dict[int, Claim]:
    """The claims of classes that are shown: one that was taken back is nothing to accept."""
    shown = {c.id for c in shown_classes(db)}
    return {item: claim for item, claim in claims_of(db, name).items() if claim.label in shown}


def trusted_claims(db: sqlite3.Connection, name: str, wanted: float) -> tuple[Trusted, dict[int, int]]:
    """The claims of which at least the share `wanted` is right, as check items show with 95 % certainty: item -> class."""
    if not 0 < wanted < 1:
        raise InputError(f"expected a share between 0 and 1, such as 0.95, got {wanted}")
    claims, truth = shown_claims(db, name), labels_of_check_items(db)
    both = [item for item in truth if item in claims]
    sure, everywhere = confidences(claims, both)
    found = trusted(bounds(everywhere, sure, np.array([claims[i].label == truth[i] for i in both], bool)), wanted)
    if found is None:
        raise InputError(
            f"{name}: {len(both)} check items cannot show that {wanted:.0%} of any of its predictions are right (that takes "
            f"at least {needed(wanted)}, all right); label more check items, or ask for less"
        )
    return found, {i: c.label for i, c in claims.items() if c.confidence is None or c.confidence >= found.confidence}


def accept_claims(db: sqlite3.Connection, desk: Desk, request_id: str, name: str, wanted: float) -> tuple[Trusted, int]:
    """Accepts what `trusted_claims` gives for every item without a label, as one step of undo; how many."""
    once(db, request_id, "accepted")
    found, claims = trusted_claims(db, name, wanted)
    free = {*rest_items(db)}
    labels = {item: label for item, label in claims.items() if item in free}
    return found, len(accept_claimed(db, desk, request_id, name, found.confidence, labels)) if labels else 0


def confidences(claims: dict[int, Claim], items: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Of these items and of all; without confidences every claim is as sure as the others."""
    one = {item: 1.0 if claim.confidence is None else claim.confidence for item, claim in claims.items()}
    return np.array([one[item] for item in items], np.float64), np.array(list(one.values()), np.float64)


def in_a_sentence(found: Standing) -> str:
    """For the terminal and the report.

    >>> measure = {"n": 40, "correct": 36, "accuracy": 0.9, "low": 0.77, "high": 0.96}
    >>> said = in_a_sentence(Standing("gpt", 900, 0, measure, [], [{"at_least": 0.96, "free": 700}]))
    >>> print(said)  # doctest: +ELLIPSIS
    gpt: right on 36 of 40 (90 %; 95 % interval 77 to 96) check items; 700 of 900 predictions could be ...
    >>> in_a_sentence(Standing("gpt", 900, 20, None, [], []))
    'gpt: not measured, because none of 900 predictions is for a labelled check item; 20 are accepted.'
    """
    said = f"not measured, because none of {found.claims:,} predictions is for a labelled check item"
    if found.measure is not None:
        level = found.to_accept()
        could = f"no group of {found.claims:,} predictions is shown to be {_percent(found.wanted)} right"
        if level is not None:
            free = f"{level['free']:,} of {found.claims:,} predictions"
            could = f"{free} could be accepted, at least {_percent(found.wanted)} right"
        elif found.measure["n"] < found.needed:
            could += f", which takes {found.needed} check items"
        said = f"right on {right_of(found.measure)} check items; {could}"
    return f"{found.name}: {said}{f'; {found.accepted:,} are accepted' if found.accepted else ''}."


def right_of(share: dict[str, Any]) -> str:
    """
    >>> right_of({"n": 40, "correct": 36, "accuracy": 0.9, "low": 0.77, "high": 0.96})
    '36 of 40 (90 %; 95 % interval 77 to 96)'
    """
    low, high = (round(100 * share[name]) for name in ("low", "high"))
    return f"{share['correct']} of {share['n']} ({_percent(share['accuracy'])}; 95 % interval {low} to {high})"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"
