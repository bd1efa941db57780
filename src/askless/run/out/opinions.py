"""What several people make of the same items, for the page, `askless status` and the report: how far they agree, where each
of them says what the others do not, and how many disagreements are open."""

import sqlite3
from itertools import combinations

import numpy as np

from askless.base.intervals import share
from askless.run.out.account import Agreement, Confused, Disagreements
from askless.run.steps.agreement import MISSING, confusion_of, krippendorff, what_others_say
from askless.run.steps.measure import cohens_kappa
from askless.run.store.asking import count_second
from askless.run.store.classes import final_class
from askless.run.store.deciding import decisions
from askless.run.store.labels import Answer, disagreements

Given = dict[int, dict[str, int]]  # item -> person -> class, of items that several people gave a class


def given_classes(db: sqlite3.Connection, answered: list[Answer]) -> Given:
    """The classes that people gave, with merged ones as one; neither unsure answers nor the model's word."""
    final, given = final_class(db), Given()
    for row in answered:
        if row.label is not None and row.kind != "accepted":
            given.setdefault(row.item, {})[row.annotator] = final[row.label]
    return given


def agreement_of(db: sqlite3.Connection, given: Given) -> Agreement | None:
    """How far people agree on the items that two or more of them gave a class; None where there is none."""
    several = [of for _, of in sorted(given.items()) if len(of) > 1]
    people = sorted({name for of in several for name in of})
    if not several:
        return None
    answers = np.array([[of.get(name, MISSING) for name in people] for of in several])
    pairs = [(a, b) for of in several for a, b in combinations([of[name] for name in sorted(of)], 2)]
    kappa = cohens_kappa(*zip(*pairs, strict=True)) if len(people) == 2 else None
    found = krippendorff(answers)
    same = share(sum(a == b for a, b in pairs), len(pairs))
    return Agreement(
        found.items, len(people), same, kappa, found.alpha, found.low, found.high, count_second(db, given=True)
    )


def confused(db: sqlite3.Connection, given: Given) -> list[Confused]:
    """For each person and each class they gave: what the others say of these items, or what was decided."""
    final = final_class(db)
    settled = {i: final[one.label] for i, one in decisions(db).items() if one.label is not None}
    rows = []
    for name in sorted({name for of in given.values() for name in of}):
        own = {item: of[name] for item, of in given.items() if name in of}
        rows += [Confused(name, *row) for row in confusion_of(own, what_others_say(given, settled, name))]
    return rows


def count_disagreements(db: sqlite3.Connection) -> Disagreements:
    found = disagreements(db)
    return Disagreements(len(found), sum(one.conflict for one in found))
