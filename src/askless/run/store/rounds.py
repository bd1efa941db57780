"""How a batch comes out: the round that is asked, and the one that is chosen ahead of its model so that nobody waits for it.

While round k is asked, its model chooses a reserve as well: round k + 1, ahead. People get items of it when nothing else is
to be had, as while the next model trains. Once that model has chosen, the round is asked: what was answered meanwhile, or is
on somebody's screen, stays and counts; the rest becomes the reserve of the round after it, until a new one is chosen.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from askless.run.store.asking import (
    ADD,
    AHEAD,
    IN_FORCE,
    Pick,
    asked_items,
    clock,
    current_round,
    left_to_choose,
    reserve_items,
    trim_reserve,
    withdraw,
)
from askless.run.store.store import now, payload_of, record, set_meta


def round_size(kept: int, batch: int) -> int:
    """How many items a round has of which `kept` were answered ahead: a batch, but half of one at least is chosen by the
    new model.

    >>> [round_size(kept, 20) for kept in (0, 7, 10, 18, 42)]
    [20, 20, 20, 28, 52]
    """
    return kept + max(batch - kept, (batch + 1) // 2)


class Ahead(NamedTuple):
    """What is chosen ahead: `kept` items that stay, answered or on a screen, and `loose` ones that may be chosen again.
    `left`: how many may be chosen besides the kept ones."""

    kept: list[int]
    loose: list[int]
    left: int


def chosen_ahead(db: sqlite3.Connection) -> Ahead:
    on_screen = {row[0] for row in db.execute(f"SELECT item FROM lease WHERE {IN_FORCE}", clock())}
    loose = [item for item in reserve_items(db) if item not in on_screen]
    everything = [row[0] for row in db.execute(f"SELECT item FROM task WHERE {AHEAD} ORDER BY rank, item")]
    held = len(reserve_items(db)) - len(loose)
    return Ahead([item for item in everything if item not in set(loose)], loose, max(0, left_to_choose(db) - held))


def is_ahead(db: sqlite3.Connection) -> bool:
    """Whether a round waits, begun perhaps, for the model that is to choose the rest of it."""
    return db.execute("SELECT 1 FROM round WHERE state = 'ahead'").fetchone() is not None


def lacks_reserve(db: sqlite3.Connection) -> bool:
    """Whether the model that chose the present batch has chosen nothing ahead yet, and may."""
    return payload_of(db, f"worker/ahead-{current_round(db) + 1}") is None and left_to_choose(db) > 0


def keep_ahead(
    db: sqlite3.Connection, picks: Sequence[Pick], picked_by: str, seconds: float, info: dict[str, Any], batch: int
) -> int:
    """Puts the picks in the place of the reserve there was, for the round after the present one; how many. `batch` is how
    many items that round is to have."""
    number = current_round(db) + 1
    kept, loose, left = chosen_ahead(db)
    for item in loose:
        withdraw(db, item)
    taken = set(asked_items(db))
    new = [pick for pick in picks if pick.item not in taken][:left]
    put_round(db, number, picked_by, seconds, "ahead")
    add_tasks(db, number, new, picked_by, after=len(kept))
    drop_if_empty(db, number)
    set_meta(db, "batch", batch)
    record(
        db, f"worker/ahead-{number}", "ahead", "worker", {"round": number, "items": [p.item for p in new], "info": info}
    )
    return len(new)


def ask_round(
    db: sqlite3.Connection, number: int, picks: Sequence[Pick], picked_by: str, seconds: float, info: dict[str, Any]
) -> int:
    """Asks for the picks as a new round, in their order, after what was answered ahead, and returns how many it has. Labels
    may have come in from elsewhere, or the budget been lowered, while they were chosen: picks that are asked or labelled
    already, or exceed the budget, are left out."""
    kept, loose, _ = chosen_ahead(db)
    if loose:
        put_round(db, number + 1, picked_by, 0.0, "ahead")
        marks = ", ".join(map(str, loose))
        db.execute(f"UPDATE task SET round = ? WHERE item IN ({marks})", (number + 1,))
    put_round(db, number, picked_by, seconds, "asking")
    db.executemany("UPDATE task SET rank = ? WHERE item = ?", list(enumerate(kept, start=1)))
    taken = set(asked_items(db)).difference(loose)
    new = [pick for pick in picks if pick.item not in taken][: left_to_choose(db)]
    for pick in new:
        if pick.item in loose:
            withdraw(db, pick.item)
    add_tasks(db, number, new, picked_by, after=len(kept))
    if not kept and not new:  # the next look at the run says what is left to be chosen
        for item in loose:
            withdraw(db, item)
    trim_reserve(db)
    drop_if_empty(db, number)
    drop_if_empty(db, number + 1)
    if not kept and not new:
        return 0
    waiting = reserve_items(db)
    payload = {"round": number, "items": [*kept, *(pick.item for pick in new)], "info": info}
    record(db, f"worker/round-{number}", "round", "worker", payload | ({"ahead": waiting} if waiting else {}))
    return len(kept) + len(new)


def put_round(db: sqlite3.Connection, number: int, strategy: str, seconds: float, state: str) -> None:
    db.execute(
        "INSERT OR REPLACE INTO round (id, strategy, made_at, seconds, state) VALUES (?, ?, ?, ?, ?)",
        (number, strategy, now(), seconds, state),
    )


def add_tasks(db: sqlite3.Connection, number: int, picks: Sequence[Pick], picked_by: str, after: int) -> None:
    """Asks for the picks in a round, ranked after the given number of others."""
    db.executemany(
        f"{ADD}VALUES (?, 'train', ?, ?, ?, ?, ?, 'open')",
        [(p.item, number, rank, picked_by, p.reason, p.score) for rank, p in enumerate(picks, start=after + 1)],
    )


def drop_if_empty(db: sqlite3.Connection, number: int) -> None:
    """Forgets a round that nothing was asked in."""
    db.execute("DELETE FROM round WHERE id = ? AND id NOT IN (SELECT coalesce(round, 0) FROM task)", (number,))
