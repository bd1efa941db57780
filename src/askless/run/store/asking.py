"""Who is asked what: tasks, the rounds and the budget that they come from, and the leases under which they are handed out.

Tasks are chosen items, in rounds, and check images, by the draw; the budget pays for both. One atomic statement takes a
lease, so no two people get the same item, whatever process they talk to.

While one round is asked, the next may be there as well, chosen ahead: its items are handed out when nothing else is to be
had, so that nobody waits for a training. Until somebody answers them they cost nothing: they are a reserve, and may be
withdrawn. `askless.run.store.rounds` makes and settles it.

Leases end by the wall clock, the only one that several processes and restarts share, and clocks jump. A lease is in force
while its end lies ahead, but by no more than twice its length: a clock that is set back prolongs a lease by ten minutes at
most. Who takes an item ends the leases that others let expire on it, so that none of them comes back when the clock does.
"""

import json
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from askless.base.errors import InputError
from askless.run.store.items import note_problem, note_skipped, noun
from askless.run.store.store import get_meta, record, set_meta
from askless.sources import Skipped

LEASE_SECONDS = 600.0
Extra = Literal["found", "accepted"]  # labels that nobody was asked for, see `askless.run.store.extra`
IN_FORCE = "expires > :now AND expires <= :latest"


class Task(NamedTuple):
    """`kind`: train (chosen in a round), check (drawn at random) or prior (labelled before, not asked); found or
    accepted, as in `askless.run.store.extra`."""

    item: int
    path: str
    kind: str
    round: int | None
    rank: int
    picked_by: str
    reason: str
    score: float | None
    state: str


TASK = (
    "SELECT t.item, i.path, t.kind, t.round, t.rank, t.picked_by, t.reason, t.score, t.state "
    "FROM task t JOIN item i ON i.id = t.item"
)
ADD = "INSERT INTO task (item, kind, round, rank, picked_by, reason, score, state) "
AHEAD = "coalesce(round, 0) IN (SELECT id FROM round WHERE state = 'ahead')"  # tasks of the round that is chosen ahead
RESERVE = f"(state = 'open' AND answers = 0 AND {AHEAD})"  # those that nobody has answered: they may be withdrawn
# What is handed out, by kind; `ahead` are the chosen ones of the round that is chosen ahead, `second` labelled ones of which
# a second opinion is wanted.
HANDED_OUT = {
    "second": "answers < wanted",
    "train": f"state = 'open' AND kind = 'train' AND NOT {AHEAD}",
    "ahead": f"state = 'open' AND kind = 'train' AND {AHEAD}",
    "check": "state = 'open' AND kind = 'check'",
}
OPEN = "(state = 'open' OR answers < wanted)"  # tasks that wait for an answer


def all_tasks(db: sqlite3.Connection) -> list[Task]:
    return [Task(*row) for row in db.execute(TASK)]


def open_tasks(db: sqlite3.Connection) -> list[Task]:
    """What is to be labelled now, chosen items first; nothing of what is chosen ahead."""
    which = f"state = 'open' AND NOT {AHEAD}"
    return [Task(*row) for row in db.execute(f"{TASK} WHERE {which} ORDER BY kind DESC, skips, round, rank")]


def tasks_of_round(db: sqlite3.Connection, number: int) -> list[Task]:
    return [Task(*row) for row in db.execute(f"{TASK} WHERE round = ? ORDER BY rank", (number,))]


def task_of(db: sqlite3.Connection, item: int) -> Task | None:
    row = db.execute(f"{TASK} WHERE t.item = ?", (item,)).fetchone()
    return None if row is None else Task(*row)


def asked_items(db: sqlite3.Connection, after: int = -1) -> list[int]:
    """All that was asked or labelled before; with `after`, what was chosen in later rounds."""
    which = "" if after < 0 else "WHERE round > ?"
    return [row[0] for row in db.execute(f"SELECT item FROM task {which} ORDER BY item", () if after < 0 else (after,))]


def is_anything_open(db: sqlite3.Connection) -> bool:
    """Whether anything waits for a label."""
    return db.execute("SELECT 1 FROM task WHERE state = 'open' LIMIT 1").fetchone() is not None


def is_batch_open(db: sqlite3.Connection) -> bool:
    """Whether a chosen item waits for a label; those chosen ahead keep no round open."""
    query = f"SELECT 1 FROM task WHERE state = 'open' AND {HANDED_OUT['train']} LIMIT 1"
    return db.execute(query).fetchone() is not None


def count_chosen(db: sqlite3.Connection) -> int:
    """How many items were chosen, without the reserve."""
    return int(db.execute(f"SELECT count(*) FROM task WHERE kind = 'train' AND NOT {RESERVE}").fetchone()[0])


def count_second(db: sqlite3.Connection, given: bool = False) -> int:
    """How many second opinions were asked for, or `given`; each is paid by the budget."""
    which = " AND answers >= wanted" if given else ""
    return int(db.execute(f"SELECT count(*) FROM task WHERE wanted > 0{which}").fetchone()[0])


def upcoming(db: sqlite3.Connection, item: int | None, at: float, n: int) -> list[int]:
    """A few items that nobody has and that are likely to come next: n chosen ones, and a check image."""
    found = []
    for kind, most in (("train", n), ("check", 1)):
        found += db.execute(
            "SELECT item FROM task t WHERE state = 'open' AND kind = ? AND item <> ? "
            "AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.item = t.item AND l.expires > ?) "
            f"ORDER BY {AHEAD}, skips, round, rank LIMIT ?",
            (kind, -1 if item is None else item, at, most),
        ).fetchall()
    return [row[0] for row in found][: n + 1]


# --- rounds --------------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """A batch; `seconds` is how long it took to choose. `state`: ahead (chosen for when the one before is used up), asking,
    or closed."""

    id: int
    strategy: str
    made_at: str
    seconds: float
    state: str


class Pick(NamedTuple):
    item: int
    reason: str
    score: float | None


def all_rounds(db: sqlite3.Connection) -> list[Round]:
    """Those that were asked; not the one that is chosen ahead."""
    query = "SELECT id, strategy, made_at, seconds, state FROM round WHERE state <> 'ahead' ORDER BY id"
    return [Round(*row) for row in db.execute(query)]


def current_round(db: sqlite3.Connection) -> int:
    """The last round that was asked, 0 before the first; the one that is chosen ahead comes after it."""
    return int(db.execute("SELECT coalesce(max(id), 0) FROM round WHERE state <> 'ahead'").fetchone()[0])


def is_asking(db: sqlite3.Connection) -> bool:
    """Whether a round is not closed yet."""
    return db.execute("SELECT 1 FROM round WHERE state = 'asking'").fetchone() is not None


def close_rounds(db: sqlite3.Connection) -> None:
    db.execute("UPDATE round SET state = 'closed' WHERE state = 'asking'")


def withdraw_batch(db: sqlite3.Connection, request_id: str, annotator: str) -> int:
    """Closes the batch: what is open of it is withdrawn (and may be chosen again); how many that were. What was chosen ahead
    stays, to be labelled while the model trains."""
    batch = f"state = 'open' AND {HANDED_OUT['train']}"
    items = [row[0] for row in db.execute(f"SELECT item FROM task WHERE {batch}")]
    record(db, request_id, "train_now", annotator, {"withdrawn": items})
    db.execute(f"DELETE FROM lease WHERE item IN (SELECT item FROM task WHERE {batch})")
    db.execute(f"DELETE FROM task WHERE {batch} AND answers = 0")
    db.execute(f"UPDATE task SET state = 'done' WHERE {batch}")
    return len(items)


# --- the budget, and the check images that it pays for ---------------------------------------------------------------------


class Plan(NamedTuple):
    """The budget, and how much of it goes into check images."""

    budget: int
    check: int


def plan(db: sqlite3.Connection) -> Plan:
    return Plan(int(get_meta(db, "budget", 0)), int(get_meta(db, "check", 0)))


def left_to_choose(db: sqlite3.Connection) -> int:
    """How many items may still be chosen, those of the reserve among them."""
    free = db.execute(
        "SELECT count(*) FROM item WHERE split = 'pool' AND problem IS NULL "
        f"AND id NOT IN (SELECT item FROM task WHERE NOT {RESERVE})"
    ).fetchone()[0]
    return max(0, min(left_to_pay(db), free))


def set_budget(db: sqlite3.Connection, request_id: str, annotator: str, budget: int, wanted: int) -> None:
    """A larger or smaller budget, of which `wanted` go into check images, as far as there are any held out."""
    chosen = count_chosen(db) + count_second(db)
    measured = db.execute("SELECT count(*) FROM task WHERE kind = 'check' AND answers > 0").fetchone()[0]
    if budget < chosen + measured:
        raise InputError(
            f"the budget cannot be below the {chosen + measured} {noun(get_meta(db, 'kind'))}s already labelled or "
            "chosen"
        )
    old, check = plan(db)
    record(db, request_id, "budget", annotator, {"before": old, "after": budget})
    wanted = max(measured, min(wanted, budget - chosen))
    check += draw_more(db, wanted - check) if wanted > check else -draw_fewer(db, check - wanted)
    set_meta(db, "budget", budget)
    set_meta(db, "check", check)
    trim_reserve(db)


def reserve_items(db: sqlite3.Connection) -> list[int]:
    """What is chosen ahead and nobody has answered, in its order."""
    return [row[0] for row in db.execute(f"SELECT item FROM task WHERE {RESERVE} ORDER BY rank, item")]


def trim_reserve(db: sqlite3.Connection) -> None:
    """Withdraws what the budget does not pay for any more of the items chosen ahead, the last first."""
    for item in reserve_items(db)[left_to_choose(db) :]:
        withdraw(db, item)


def draw_fewer(db: sqlite3.Connection, n: int) -> int:
    """Puts n open check images back into the reserve, the last of the draw first; how many there were."""
    rows = db.execute(
        "SELECT t.item FROM task t JOIN item i ON i.id = t.item WHERE t.kind = 'check' AND t.state = 'open' "
        "AND t.answers = 0 ORDER BY i.place DESC LIMIT ?",
        (n,),
    ).fetchall()
    for row in rows:
        withdraw(db, row["item"])
        db.execute("UPDATE item SET split = 'reserve' WHERE id = ?", (row["item"],))
    return len(rows)


def draw_more(db: sqlite3.Connection, n: int) -> int:
    """Makes the next n held-out items check images, in the order of the draw; how many there were."""
    reserve = "SELECT id FROM item WHERE split = 'reserve' AND problem IS NULL ORDER BY place LIMIT ?"
    drawn = db.execute(f"UPDATE item SET split = 'check' WHERE id IN ({reserve})", (n,)).rowcount
    forget_drawn(db)
    ask_check_images(db)
    return drawn


def forget_drawn(db: sqlite3.Connection) -> None:
    """Drops the labels that nobody was asked for of items that are check images now: their answers must owe nothing to the
    model."""
    both = "task t JOIN item i ON i.id = t.item"
    query = f"SELECT t.item FROM {both} WHERE i.split = 'check' AND t.kind IN ('found', 'accepted')"
    items = [row[0] for row in db.execute(query)]
    if items:
        record(db, f"worker/asked_afresh-{secrets.token_hex(8)}", "asked_afresh", "worker", {"items": items})
    for item in items:
        db.execute("DELETE FROM answer WHERE item = ?", (item,))
        withdraw(db, item)


def ask_check_images(db: sqlite3.Connection) -> None:
    """Asks for every item that was drawn as a check image; what is labelled already counts as one."""
    db.execute(
        f"{ADD}SELECT id, 'check', NULL, place, 'random', ?, NULL, 'open' FROM item WHERE split = 'check' "
        "AND (problem IS NULL OR id IN (SELECT item FROM answer)) "
        "ON CONFLICT (item) DO UPDATE SET kind = 'check' WHERE kind <> 'check'",
        (f"random check {noun(get_meta(db, 'kind'))}",),
    )


def add_extra(db: sqlite3.Connection, item: int, kind: Extra, claims: str | None = None) -> bool:
    """Makes room for a label that nobody was asked for; False where the item is asked or labelled already. `claims`: whose
    prediction is accepted."""
    added = f"{ADD}VALUES (?, ?, NULL, 0, ?, ?, NULL, 'done') ON CONFLICT DO NOTHING"
    return db.execute(added, (item, kind, *why_extra(kind, claims))).rowcount == 1


def why_extra(kind: Extra, claims: str | None) -> tuple[str, str]:
    """By whom and why there is a label that nobody was asked for."""
    if kind == "found":
        return "search", "found by a person"
    return ("model", "accepted in the grid of a class") if claims is None else (claims, "an accepted prediction")


def set_extra(db: sqlite3.Connection, item: int, seq: int) -> None:
    """Makes a label that nobody was asked for what the event that gave it says: an accepted one that a person changed is
    found, until that is undone."""
    event = db.execute("SELECT kind, payload FROM event WHERE seq = ?", (seq,)).fetchone()
    payload = json.loads(event["payload"])
    if event["kind"] == "redo":
        return set_extra(db, item, payload["seq"])
    given = dict(zip(payload.get("items", ()), extra_kinds(payload), strict=True)).get(item)
    own: Extra | None = "found" if event["kind"] in ("label", "unsure", "change") else None
    kind = given or own
    if kind is not None:
        values = (kind, *why_extra(kind, payload.get("claims")), item)
        which = "item = ? AND kind IN ('found', 'accepted')"
        db.execute(f"UPDATE task SET kind = ?, picked_by = ?, reason = ? WHERE {which}", values)


def forget_extra(db: sqlite3.Connection, item: int) -> bool:
    """Withdraws an item that nobody was asked about once it has no answer left; whether it did."""
    which = "item = ? AND kind IN ('found', 'accepted') AND item NOT IN (SELECT item FROM answer)"
    gone = db.execute(f"SELECT 1 FROM task WHERE {which}", (item,)).fetchone() is not None
    if gone:
        withdraw(db, item)
    return gone


def extra_kinds(payload: dict[str, Any]) -> list[Extra | None]:
    """Of what kind the labels of an event are that nobody was asked for, None for the others; events of earlier versions
    list those that were found."""
    if payload.get("accepted") is True:  # an import
        return ["accepted" for _ in payload["items"]]
    found = payload.get("found", ())
    return payload.get("kinds") or ["found" if item in found else None for item in payload.get("items", ())]


def withdraw(db: sqlite3.Connection, item: int) -> None:
    """Does not ask for an item any more."""
    db.execute("DELETE FROM lease WHERE item = ?", (item,))
    db.execute("DELETE FROM task WHERE item = ?", (item,))


def ask_second(db: sqlite3.Connection, items: Sequence[int], most: int) -> list[int]:
    """Asks one more person about labelled items, the first first: as many as are paid for, `most` in all.
    What was asked before, and nobody has answered or has on the screen, is withdrawn. Those that are asked for now."""
    idle = f"NOT EXISTS (SELECT 1 FROM lease l WHERE l.item = t.item AND {IN_FORCE})"
    for row in db.execute(f"SELECT item FROM task t WHERE wanted > answers AND {idle}", clock()).fetchall():
        withdraw_second(db, row["item"])
    free = min(most - count_second(db), left_to_pay(db))
    fit = (
        "SELECT item FROM task JOIN item i ON i.id = item WHERE item = ? AND i.split = 'pool' AND i.problem IS NULL "
        "AND kind IN ('train', 'prior', 'found') AND state = 'done' AND wanted = 0 AND answers = 1"
    )
    asked = [item for item in items if db.execute(fit, (item,)).fetchone()][: max(free, 0)]
    if asked:
        db.executemany("UPDATE task SET wanted = 2 WHERE item = ?", [(item,) for item in asked])
        record(db, f"worker/second-{secrets.token_hex(8)}", "second", "worker", {"items": asked})
        trim_reserve(db)
    return asked


def withdraw_second(db: sqlite3.Connection, item: int) -> None:
    """Does not ask for a second opinion any more; one that was given stays."""
    if db.execute("UPDATE task SET wanted = 0 WHERE item = ? AND wanted > answers", (item,)).rowcount:
        end_leases(db, "item = ?", (item,))


def waiting_for_second(db: sqlite3.Connection) -> set[int]:
    """Labelled items whose label stays unseen until somebody else has answered."""
    return {row[0] for row in db.execute("SELECT item FROM task WHERE wanted > answers")}


def left_to_pay(db: sqlite3.Connection) -> int:
    """What is left of the budget for answers, with what the reserve holds."""
    budget, check = plan(db)
    return budget - check - count_chosen(db) - count_second(db)


def lose_item(db: sqlite3.Connection, item: int, reason: str) -> list[Skipped]:
    """An item that cannot be read: nobody is asked about it, and another check image takes its place. All that is skipped
    now, [] where it was known."""
    found = note_problem(db, item, reason)
    if found is None:
        return []
    path, split = found
    record(db, f"worker/unreadable-{item}", "unreadable", "worker", {"reason": reason}, item)
    withdraw_second(db, item)
    if not db.execute("SELECT 1 FROM answer WHERE item = ?", (item,)).fetchone():
        withdraw(db, item)
        if split == "check" and not draw_more(db, 1):
            set_meta(db, "check", plan(db).check - 1)
    return note_skipped(db, [Skipped(path, "unreadable", reason)])


# --- leases ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Desk:
    """One tab of one annotator's browser."""

    annotator: str
    tab: str


def clock() -> dict[str, float]:
    """The values of IN_FORCE."""
    return {"now": time.time(), "latest": time.time() + 2 * LEASE_SECONDS}


def next_item(db: sqlite3.Connection, desk: Desk, overlap: int, lease: bool = True, ahead: bool = True) -> int | None:
    """The item that this tab is to show: the one it has, or a new one; None where nothing is to be had.

    Check images are mixed in so that their share of what is done keeps up with the chosen ones, and are all that is served
    while nothing is chosen yet; what is chosen ahead comes, with `ahead`, when nothing else is left. Second opinions come
    first, so that the next training has them. With `lease=False` nothing changes: it says what would come.
    """
    held = held_items(db, desk)
    if held:
        if lease:
            renew(db, desk)
        return held[0]
    skipped = just_skipped(db, desk)
    for but in (skipped, []) if skipped else ([],):
        for kind in ("second", *kinds_in_order(db), *(["ahead"] if ahead else [])):
            if free := free_items(db, desk, kind, overlap, 1, but):
                if lease:
                    take(db, desk, free)
                return free[0]
    return None


def just_skipped(db: sqlite3.Connection, desk: Desk) -> list[int]:
    """The item that was the last thing this person did, where they skipped it: it comes after at least one other."""
    last = "(SELECT max(seq) FROM action WHERE annotator = ? AND state = 'done')"
    rows = db.execute(f"SELECT item FROM event WHERE kind = 'skip' AND seq = {last}", (desk.annotator,))
    return [row["item"] for row in rows]


def free_items(
    db: sqlite3.Connection, desk: Desk, kind: str, overlap: int, n: int, but: Sequence[int] = ()
) -> list[int]:
    """Up to n open tasks that this annotator may take: not answered by them, not in another tab of theirs, and wanted by
    fewer people than are to answer it. Skipped ones come last. `kind` is one of `HANDED_OUT`."""
    rows = db.execute(
        f"""SELECT t.item FROM task t WHERE {HANDED_OUT[kind]}
        AND t.item NOT IN ({", ".join(map(str, but))})
        AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.item = t.item AND a.annotator = :annotator)
        AND NOT EXISTS (
            SELECT 1 FROM lease l WHERE l.item = t.item AND l.annotator = :annotator AND l.tab <> :tab AND {IN_FORCE})
        AND t.answers + (
            SELECT count(*) FROM lease l WHERE l.item = t.item AND l.annotator <> :annotator AND {IN_FORCE}
            AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.item = t.item AND a.annotator = l.annotator))
        < max(:overlap, t.wanted)
        ORDER BY t.skips, t.round, t.rank LIMIT :n""",
        {"annotator": desk.annotator, "tab": desk.tab, "overlap": overlap, "n": n, **clock()},
    )
    return [row["item"] for row in rows]


def kinds_in_order(db: sqlite3.Connection) -> tuple[str, str]:
    """Whether a chosen or a check image comes first now."""
    done = done_tasks(db)
    check, train = done["check"], done["train"]
    budget, n_check = plan(db)
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
        f"AND {OPEN} AND NOT EXISTS (SELECT 1 FROM answer a WHERE a.item = l.item AND a.annotator = l.annotator) "
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
    """Ends leases on an item for which only this many answers are still wanted: somebody may have answered it who did not
    have it, as by an import. Those that were renewed last stay."""
    rows = db.execute(
        "SELECT annotator FROM lease WHERE item = ? AND expires > 0 ORDER BY expires DESC, taken LIMIT -1 OFFSET ?",
        (item, max(wanted, 0)),
    ).fetchall()
    for row in rows:
        end_leases(db, "item = ? AND annotator = ?", (item, row["annotator"]))


def take_batch(db: sqlite3.Connection, desk: Desk, overlap: int, n: int) -> list[int]:
    """Open items of the current batch for the grid, up to n with those that the tab has already; those chosen ahead, and
    then check images, only where nothing else is to be had."""
    held = held_items(db, desk)
    handed_out = f"SELECT iif(kind = 'train' AND {AHEAD}, 'ahead', kind) FROM task WHERE item = ?"
    kind_of = {item: db.execute(handed_out, (item,)).fetchone()[0] for item in held}
    for kind in ("train", "ahead", "check"):
        mine = [item for item in held if kind_of[item] == kind][:n]
        free = free_items(db, desk, kind, overlap, n - len(mine), but=mine)
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
