"""Who is asked what: tasks are handed out under leases, each to one person at a time.

One atomic statement takes a lease, so no two people get the same item, whatever process they talk to.

Leases end by the wall clock, the only one that several processes and restarts share, and clocks jump. A lease is in force
while its end lies ahead, but by no more than twice its length: a clock that is set back prolongs a lease by ten minutes at
most. Who takes an item ends the leases that others let expire on it, so that none of them comes back when the clock does.
"""

import sqlite3
import time
from collections import Counter
from dataclasses import dataclass

LEASE_SECONDS = 600.0
IN_FORCE = "expires > :now AND expires <= :latest"


@dataclass(frozen=True)
class Desk:
    """One tab of one annotator's browser."""

    annotator: str
    tab: str


def clock() -> dict[str, float]:
    """The values of IN_FORCE."""
    return {"now": time.time(), "latest": time.time() + 2 * LEASE_SECONDS}


def is_in_force(expires: float) -> bool:
    at = clock()
    return at["now"] < expires <= at["latest"]


def next_item(db: sqlite3.Connection, desk: Desk, overlap: int, lease: bool = True) -> int | None:
    """The item that this tab is to show: the one it has, or a new one; None where nothing is to be had.

    Check images are mixed in so that their share of what is done keeps up with the chosen ones, and are all that is served
    while nothing is chosen yet. With `lease=False` nothing changes: it says what would come.
    """
    held = held_items(db, desk)
    if held:
        if lease:
            renew(db, desk)
        return held[0]
    for kind in kinds_in_order(db):
        query = FREE_TASK.format(more="")
        values = {"kind": kind, "annotator": desk.annotator, "tab": desk.tab, "overlap": overlap, **clock()}
        row = db.execute(f"{query} LIMIT 1", values).fetchone()
        if row is not None:
            if lease:
                take(db, desk, [row["item"]])
            return int(row["item"])
    return None


# Open tasks that this annotator may take: not answered by them, not in another tab of theirs, and wanted by fewer people
# than are to answer it. Skipped ones come last.
FREE_TASK = f"""
SELECT t.item FROM task t WHERE t.state = 'open' AND t.kind = :kind {{more}}
AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.item = t.item AND a.annotator = :annotator)
AND NOT EXISTS (
    SELECT 1 FROM lease l WHERE l.item = t.item AND l.annotator = :annotator AND l.tab <> :tab AND {IN_FORCE})
AND t.answers + (
    SELECT count(*) FROM lease l WHERE l.item = t.item AND l.annotator <> :annotator AND {IN_FORCE}
    AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.item = t.item AND a.annotator = l.annotator)) < :overlap
ORDER BY t.skips, t.round, t.rank"""


def kinds_in_order(db: sqlite3.Connection) -> tuple[str, str]:
    """Whether a chosen or a check image comes first now."""
    done = done_tasks(db)
    check, train = done["check"], done["train"]
    planned = db.execute("SELECT value FROM meta WHERE name = 'check'").fetchone()
    total = db.execute("SELECT value FROM meta WHERE name = 'budget'").fetchone()
    n_check, budget = (int(row[0]) if row is not None else 0 for row in (planned, total))
    behind = check * max(budget - n_check, 1) < train * n_check
    return ("check", "train") if behind else ("train", "check")


def done_tasks(db: sqlite3.Connection) -> Counter[str]:
    """How many tasks of each kind are done."""
    return Counter(dict(db.execute("SELECT kind, sum(n) FROM tally WHERE state = 'done' GROUP BY kind").fetchall()))


def held_items(db: sqlite3.Connection, desk: Desk) -> list[int]:
    """Open tasks that are leased to this tab, in the order in which they were taken."""
    rows = db.execute(
        "SELECT l.item FROM lease l JOIN task t ON t.item = l.item "
        f"WHERE annotator = :annotator AND tab = :tab AND {IN_FORCE} "
        "AND t.state = 'open' AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.item = l.item AND a.annotator = l.annotator) "
        "ORDER BY l.taken, t.skips, t.round, t.rank",
        {"annotator": desk.annotator, "tab": desk.tab, **clock()},
    )
    return [row["item"] for row in rows]


def take(db: sqlite3.Connection, desk: Desk, items: list[int], first: bool = False) -> None:
    """Leases these items to the tab; `first` puts them before what it has. Leases that others let expire end."""
    db.executemany(
        f"UPDATE lease SET expires = 0 WHERE item = :item AND annotator <> :annotator AND NOT ({IN_FORCE})",
        [{"item": item, "annotator": desk.annotator, **clock()} for item in items],
    )
    edge = db.execute(
        f"SELECT {'min' if first else 'max'}(taken) FROM lease WHERE annotator = ? AND tab = ?",
        (desk.annotator, desk.tab),
    ).fetchone()[0]
    place = (edge or 0) + (-1 if first else 1)
    db.executemany(
        "INSERT INTO lease (item, annotator, tab, expires, taken) VALUES (?, ?, ?, ?, ?) ON CONFLICT (item, annotator) "
        "DO UPDATE SET tab = excluded.tab, expires = excluded.expires, taken = excluded.taken",
        [(item, desk.annotator, desk.tab, time.time() + LEASE_SECONDS, place) for item in items],
    )


def renew(db: sqlite3.Connection, desk: Desk) -> float:
    """All that this tab holds, for ten more minutes. What has expired is not renewed: somebody else may have it."""
    until = time.time() + LEASE_SECONDS
    values = {"until": until, "annotator": desk.annotator, "tab": desk.tab, **clock()}
    db.execute(f"UPDATE lease SET expires = :until WHERE annotator = :annotator AND tab = :tab AND {IN_FORCE}", values)
    return until


def release(db: sqlite3.Connection, desk: Desk) -> None:
    """Gives back what this tab holds."""
    end_leases(db, "annotator = ? AND tab = ?", (desk.annotator, desk.tab))


def end_leases(db: sqlite3.Connection, which: str, values: tuple[str | int, ...]) -> None:
    """Ends leases; where the model's suggestion was shown with an item, that stays known for when it comes again."""
    db.execute(f"DELETE FROM lease WHERE shown = 'none' AND {which}", values)
    db.execute(f"UPDATE lease SET expires = 0, tab = '' WHERE {which}", values)


def end_surplus(db: sqlite3.Connection, item: int, wanted: int) -> None:
    """Ends leases on an item for which only so many answers are still wanted: somebody may have answered it who did not
    have it, as by an import. Those that were renewed last stay."""
    rows = db.execute(
        "SELECT annotator FROM lease WHERE item = ? AND expires > 0 ORDER BY expires DESC, taken LIMIT -1 OFFSET ?",
        (item, max(wanted, 0)),
    ).fetchall()
    for row in rows:
        end_leases(db, "item = ? AND annotator = ?", (item, row["annotator"]))


def take_batch(db: sqlite3.Connection, desk: Desk, overlap: int, n: int) -> list[int]:
    """Open items of the current batch for the grid, up to n with those that the tab has already; check images only where
    no chosen one is to be had."""
    held = held_items(db, desk)
    kind_of = {item: db.execute("SELECT kind FROM task WHERE item = ?", (item,)).fetchone()[0] for item in held}
    for kind in ("train", "check"):
        mine = [item for item in held if kind_of[item] == kind][:n]
        more = "" if not mine else f"AND t.item NOT IN ({', '.join(map(str, mine))})"
        values = {"kind": kind, "annotator": desk.annotator, "tab": desk.tab, "overlap": overlap, **clock()}
        rows = db.execute(f"{FREE_TASK.format(more=more)} LIMIT {n - len(mine)}", values)
        free = [row["item"] for row in rows]
        take(db, desk, free)
        if mine or free:
            return mine + free
    return []


def answered_but_open(db: sqlite3.Connection, desk: Desk) -> int:
    """How many open items this person has answered: others are to answer them, too."""
    query = "SELECT count(*) FROM task t JOIN answer a ON a.item = t.item WHERE t.state = 'open' AND a.annotator = ?"
    return int(db.execute(query, (desk.annotator,)).fetchone()[0])


def holders(db: sqlite3.Connection, desk: Desk) -> dict[str, int]:
    """Who else has how many open items."""
    rows = db.execute(
        f"SELECT l.annotator, count(*) FROM lease l JOIN task t ON t.item = l.item WHERE t.state = 'open' AND {IN_FORCE} "
        "AND (l.annotator <> :annotator OR l.tab <> :tab) GROUP BY l.annotator",
        {"annotator": desk.annotator, "tab": desk.tab, **clock()},
    )
    return {row[0]: row[1] for row in rows}
