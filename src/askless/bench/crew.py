"""Works through the cells of a benchmark, here or by workers elsewhere, and keeps account of how far that is."""

import contextlib
import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from askless.bench.cell import Cell, Stage, cell_settings, prepare, round_numbers, write_json
from askless.bench.plan import text_of
from askless.bench.results import CELLS
from askless.bench.worker import Trouble, attempt
from askless.features.frozen import Frozen
from askless.track import Event, Trail


@dataclass(frozen=True)
class Progress:
    """How a run goes: rounds and cells done and in all, the cells that failed, and the latest number in words."""

    rounds: int
    all_rounds: int
    cells: int
    all_cells: int
    failed: int
    latest: str
    cell_done: bool = False


class Account:
    """How far a run is: what is done is told to `progress` and to the trackers of `trail`, under `name` and the cell's; what
    failed is noted in its cell's folder."""

    def __init__(
        self,
        out: Path,
        cells: list[Cell],
        progress: Callable[[Progress], None] | None,
        trail: Trail | None = None,
        name: str = "",
    ) -> None:
        self.out, self.progress = out, progress
        self.trail, self.name = Trail(None) if trail is None else trail, name
        self.all_rounds, self.all_cells = sum(len(c.row.counts) for c in cells), len(cells)
        self.rounds = self.cells = self.failed = 0
        self.seen: dict[str, set[int]] = defaultdict(set)  # the rounds of a cell, by their numbers of labels
        self.begun: set[str] = set()  # the cells of which the trackers have heard

    def tell(self, latest: str, cell_done: bool = False) -> None:
        if self.progress is not None:
            done = (self.rounds, self.all_rounds, self.cells, self.all_cells, self.failed)
            self.progress(Progress(*done, latest, cell_done))

    def found(self, cell: Cell) -> None:
        """The cell was finished before."""
        self.rounds += len(cell.row.counts)
        self.cells += 1

    def round(self, cell: Cell, numbers: dict[str, Any]) -> None:
        """A round is done; one that is told twice, as by a cell that was tried again, counts once."""
        if numbers["labels"] not in self.seen[cell.name]:
            self.seen[cell.name].add(numbers["labels"])
            self.rounds += 1
            self._started(cell)
            rest = {name: value for name, value in numbers.items() if name != "labels"}
            self.trail.tell(Event("round", self._run(cell), numbers["labels"], rest))
            accuracy = f": {100 * numbers['test_accuracy']:.1f} %" if "test_accuracy" in numbers else ""
            self.tell(f"{cell.title}, {numbers['labels']} labels{accuracy}")

    def step(self, cell: Cell, at: int, numbers: dict[str, float], last: bool) -> None:
        self._started(cell)
        self.trail.tell(Event("step", self._run(cell), at, numbers), last)

    def _run(self, cell: Cell) -> str:
        return f"{self.name}/{cell.name}" if self.name else cell.name

    def _started(self, cell: Cell) -> None:
        if self.trail and cell.name not in self.begun:
            self.begun.add(cell.name)
            about = cell_settings(cell.row, cell.seed, cell.start_seed)
            self.trail.tell(Event("start", self._run(cell), about={**about, "method": cell.row.method}))

    def _rest_of(self, cell: Cell) -> None:
        """The rounds that nobody told of while the cell was computed, as the last one on Ray."""
        place = self.out / CELLS / cell.name
        with contextlib.suppress(OSError, ValueError, KeyError):
            state = json.loads((place / "result.json").read_text(encoding="utf-8"))
            state["times"] = json.loads((place / "times.json").read_text(encoding="utf-8"))
            for k in range(len(cell.row.counts)):
                self.round(cell, round_numbers(cell.row, k, state))

    def ended(self, cell: Cell, trouble: Trouble | None) -> None:
        if self.trail and trouble is None:
            self._rest_of(cell)
        if cell.name in self.begun:
            self.trail.tell(Event("end", self._run(cell)))
        self.rounds += len(cell.row.counts) - len(self.seen[cell.name])
        if trouble is None:
            self.cells += 1
            self.tell(f"{cell.title}: done", cell_done=True)
        else:
            self.failed += 1
            with contextlib.suppress(OSError):  # where nothing can be written any more, the reason is still told
                write_json(self.out / CELLS / cell.name / "failure.json", trouble._asdict())
            self.tell(f"{cell.title}: FAILED: {trouble.reason.splitlines()[0]}", cell_done=True)


class News(NamedTuple):
    """What became of a cell: a round is done (its numbers), a training step (what `Account.step` takes), it ended (the
    trouble, or None), or whoever computed it is lost (why)."""

    cell: Cell
    kind: Literal["round", "step", "end", "lost"]
    content: Any


class Hands(Protocol):
    """Workers elsewhere, each of whom computes one cell at a time."""

    def give(self, cell: Cell) -> None:
        """Gives the cell to one who has none, or to a new one."""

    def news(self) -> Iterable[News]:
        """What there is to tell, after waiting about a second for something."""

    def let_go(self) -> None:
        """No cell waits: those who have none may go."""


def hand_out(cells: list[Cell], hands: Hands, account: Account, *, workers: int, tries: int) -> None:
    """So many workers compute the cells; a cell whose worker is lost waits again behind the others, until it had its
    `tries`. It goes on where it was, as after a run that was killed."""
    waiting, busy = deque(cells), 0
    lost: Counter[str] = Counter()
    while waiting or busy:
        while waiting and busy < workers:
            hands.give(waiting.popleft())
            busy += 1
        if not waiting:
            hands.let_go()
        for cell, kind, content in hands.news():
            if kind == "round":
                account.round(cell, content)
                continue
            if kind == "step":
                account.step(cell, *content)
                continue
            busy -= 1
            if kind == "end":
                account.ended(cell, content)
                continue
            lost[cell.name] += 1
            if lost[cell.name] < tries:
                waiting.append(cell)
                account.tell(f"{cell.title}: {content}; it will be tried again")
            else:
                account.ended(cell, Trouble(content if tries == 1 else f"{content}; it was tried {tries} times"))


def here(cells: list[Cell], out: Path, threads: int, account: Account) -> None:
    """This process computes the cells, one after the other."""
    stage = Stage()
    for cell in cells:
        steps = partial(account.step, cell) if account.trail.rates else None
        account.ended(cell, attempt(cell, out, stage, threads, partial(account.round, cell), steps))


def embed(cells: list[Cell], account: Account) -> None:
    """What a frozen backbone must see once is embedded before the workers would each begin with it."""
    seen = set()
    for cell in cells:
        net = cell.row.net
        key = text_of((cell.row.data, net, cell.row.validation))
        if key not in seen and (isinstance(net, Frozen) or str(net).startswith("frozen:")):
            seen.add(key)
            try:
                _, views, _ = prepare(cell.row, lambda done, total: account.tell(f"embedding: {done} of {total} views"))
                views.test()
            except Exception:
                continue  # the cells that need it will say what is wrong
