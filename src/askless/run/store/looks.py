"""How the classes look: the colour and the key that people chose for each. What nobody chose goes by number.

A choice is an event, and `meta` keeps what all of them come to.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from askless.base.errors import InputError
from askless.run.store.classes import note_action, shown_class, shown_classes
from askless.run.store.store import get_meta, once, record, set_meta

COLOURS = 8  # --mark-0 to --mark-7 of the page's and the report's style.css
KEYS = (*"1234567890", *(f"Shift+{digit}" for digit in "1234567890"))  # of the first classes that are shown


class Look(NamedTuple):
    """The number of a colour and a letter or digit; None and "" where nobody chose."""

    colour: int | None = None
    key: str = ""


def chosen_looks(db: sqlite3.Connection) -> dict[int, Look]:
    """What people chose, by class."""
    return {int(number): Look(*look) for number, look in get_meta(db, "looks", {}).items()}


def put_looks(db: sqlite3.Connection, looks: Mapping[int, Look]) -> None:
    set_meta(db, "looks", {number: look for number, look in looks.items() if look != Look()})


def colour_of(number: int, looks: Mapping[int, Look]) -> int:
    chosen = looks.get(number, Look()).colour
    return number % COLOURS if chosen is None else chosen


def keys_of(shown: Sequence[int], looks: Mapping[int, Look]) -> dict[int, str]:
    """The key of each of these classes: the chosen one, else the digit of its place, else a digit that is free.

    >>> keys_of([0, 1, 4], {0: Look(key="3"), 1: Look(key="d")})
    {0: '3', 1: 'd', 4: '1'}
    """
    found: dict[int, str] = {}
    for number in shown:
        key = looks.get(number, Look()).key
        if key and key not in found.values():  # two may have one where a class came back
            found[number] = key
    places = dict(zip(shown, KEYS, strict=False))
    for number, key in places.items():
        if number not in found and key not in found.values():
            found[number] = key
    free = (key for key in KEYS if key not in found.values())
    return {
        number: found.get(number) or next(free, "") if number in places else found.get(number, "") for number in shown
    }


def choose_look(
    db: sqlite3.Connection,
    request_id: str,
    annotator: str,
    number: int,
    colour: int | None,
    key: str | None,
    started: Mapping[str, int],
) -> int:
    """Gives a class a colour and a key; None leaves it as it is, and the key "" is that of its place. `started` has the keys
    that the run was started with, and their classes."""
    once(db, request_id, "class_look")
    shown_class(db, number)
    looks = chosen_looks(db)
    before = looks.get(number, Look())
    look = Look(before.colour if colour is None else colour, before.key if key is None else key.lower())
    if look.colour is not None and not 0 <= look.colour < COLOURS:
        raise InputError(f"expected a colour from 0 to {COLOURS - 1}, got {look.colour}")
    if look.key and not (len(look.key) == 1 and look.key.isalnum()):
        raise InputError(f"expected one letter or digit as the key of a class, got {look.key!r}")
    if look.key and look.key != before.key:
        refuse_taken(db, number, look.key, looks, started)
    payload = {"class": number, "before": before._asdict(), "after": look._asdict()}
    seq, _ = record(db, request_id, "class_look", annotator, payload)
    put_looks(db, {**looks, number: look})
    note_action(db, seq, annotator)
    return number


def refuse_taken(
    db: sqlite3.Connection, number: int, key: str, looks: Mapping[int, Look], started: Mapping[str, int]
) -> None:
    """An error where another class that is shown has the key."""
    names = {c.id: c.name for c in shown_classes(db)}
    given = {of: own for own, of in started.items() if not looks.get(of, Look()).key}
    taken = next((of for of, own in {**keys_of(list(names), looks), **given}.items() if own.lower() == key), number)
    if taken != number and taken in names:
        raise InputError(f"{key!r} is already the key of {names[taken]!r}; choose another one")


def undo_look(db: sqlite3.Connection, payload: dict[str, Any], again: bool) -> None:
    """Takes a choice back, or makes it again; an InputError where it was changed since."""
    was, to = (Look(**payload[name]) for name in (("before", "after") if again else ("after", "before")))
    c, looks = shown_class(db, payload["class"]), chosen_looks(db)
    if looks.get(c.id, Look()) != was:
        raise InputError(f"the class {c.name!r} has since been given another colour or key")
    if to.key and to.key != was.key:
        refuse_taken(db, c.id, to.key, looks, {})
    put_looks(db, {**looks, c.id: to})
