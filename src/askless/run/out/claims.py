"""Predictions from elsewhere: the tables that `askless import --as NAME` reads, and what check items say of them."""

import math
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from askless.base.errors import InputError
from askless.base.intervals import share
from askless.run.out.answers import read_records
from askless.run.steps.measure import per_class
from askless.run.steps.trust import Trusted, levels, needed, trusted
from askless.run.store.asking import Desk
from askless.run.store.claims import Claim, claims_of, put_claims
from askless.run.store.classes import class_numbers, folded, shown_classes
from askless.run.store.extra import label_extra, rest_items
from askless.run.store.items import item_numbers
from askless.run.store.labels import labels_of_check_items
from askless.sources.names import LABEL_NAMES, PATH_NAMES, label_text, pick_column, usual_column

if TYPE_CHECKING:
    from askless.run.run import Run

CONFIDENCE_NAMES = ("confidence", "probability", "prob", "score", "model_prob")


@dataclass(frozen=True)
class Standing:
    """What check items say of the claims of `name`. `measure` is the share that is right, `classes` the rows of
    `measure.per_class`, `levels` the same share from each confidence on, with how many `claims` that are in all."""

    name: str
    claims: int
    measure: dict[str, Any] | None
    classes: list[dict[str, Any]]
    levels: list[dict[str, Any]]


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


def standing_of(run: "Run", name: str) -> Standing:
    """What check items say of the claims under this name."""
    with run.store.look() as db:
        claims, truth = claims_of(db, name), labels_of_check_items(db)
        names = {c.id: c.name for c in shown_classes(db)}
    both = [item for item in truth if item in claims and truth[item] in names and claims[item].label in names]
    said, true = [claims[item].label for item in both], [truth[item] for item in both]
    right = np.array(said) == np.array(true)
    sure, everywhere = confidences(claims, both)
    rows = []
    for least in levels(everywhere) if len(everywhere) else []:
        measured = share(int(right[sure >= least].sum()), int((sure >= least).sum()))
        rows.append({"confidence": least, "claims": int((everywhere >= least).sum()), **(measured or {"n": 0})})
    classes = [{**row, "class": names[row["class"]]} for row in per_class(said, true, list(names))]
    return Standing(name, len(claims), share(int(right.sum()), len(both)), classes, rows)


def trusted_claims(run: "Run", name: str, wanted: float) -> tuple[Trusted, dict[int, int]]:
    """The claims of which at least the share `wanted` is right, as check items show with 95 % certainty: item -> class."""
    if not 0 < wanted < 1:
        raise InputError(f"expected a share between 0 and 1, such as 0.95, got {wanted}")
    with run.store.look() as db:
        claims, truth = claims_of(db, name), labels_of_check_items(db)
    both = [item for item in truth if item in claims]
    sure, everywhere = confidences(claims, both)
    found = (
        trusted(everywhere, sure, np.array([claims[i].label == truth[i] for i in both], bool), wanted)
        if claims
        else None
    )
    if found is None:
        raise InputError(
            f"{name}: {len(both)} check items cannot show that {wanted:.0%} of any of its predictions are right (that takes "
            f"at least {needed(wanted)} that are all right); label more check items, or ask for less"
        )
    return found, {i: c.label for i, c in claims.items() if c.confidence is None or c.confidence >= found.confidence}


def accept_claims(run: "Run", name: str, wanted: float) -> tuple[Trusted, int]:
    """Accepts what `trusted_claims` gives for every item without a label, as one event; how many that were."""
    found, claims = trusted_claims(run, name, wanted)
    with run.store.change() as db:
        free = {*rest_items(db)}
        labels = {item: label for item, label in claims.items() if item in free}
        if labels:
            label_extra(db, Desk(name, "claims"), f"accept-{uuid.uuid4()}", labels, "accepted")
    run.write_views()
    return found, len(labels)


def confidences(claims: dict[int, Claim], items: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Of these items and of all; without confidences every claim is as sure as the others."""
    one = {item: 1.0 if claim.confidence is None else claim.confidence for item, claim in claims.items()}
    return np.array([one[item] for item in items], np.float64), np.array(list(one.values()), np.float64)
