"""How far a benchmark is: for whoever looks on, for trackers, and for those that failed, in the folders of their cells."""

import contextlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askless.bench.cell import Cell, cell_settings, finished, round_numbers, write_json
from askless.bench.compute import Trouble, await_result
from askless.bench.results import read_json
from askless.track import Event, Trail


@dataclass(frozen=True)
class Progress:
    """How a run goes: rounds and cells done and in all, the cells that failed, and the latest number in words.

    `all_rounds` and `all_cells` are the totals, and `cell_done` says whether a cell was finished just now. `part`: what is
    done of the rounds that are computed now, in rounds.

    >>> Progress(rounds=1, all_rounds=4, cells=0, all_cells=2, failed=0, latest="random 0: 62.0 %").all_rounds
    4
    """

    rounds: int
    all_rounds: int
    cells: int
    all_cells: int
    failed: int
    latest: str
    cell_done: bool = False
    part: float = 0.0


class Tally:
    """How far a run is: what is done is told to `progress` and to the trackers of `trail`, under `name` and the cell's; what
    failed is noted in its cell's folder."""

    def __init__(
        self, out: Path, cells: list[Cell], progress: Callable[[Progress], None] | None, trail: Trail, name: str
    ) -> None:
        self.out, self.progress, self.trail, self.name = out, progress, trail, name
        self.all_rounds, self.all_cells = sum(len(c.row.counts) for c in cells), len(cells)
        self.rounds = self.cells = self.failed = 0
        self.seen: dict[str, set[int]] = defaultdict(set)  # the rounds of a cell, by their numbers of labels
        self.parts: dict[str, float] = {}  # of the cells that are computed now, the share of the round that is done
        self.begun: set[str] = set()  # the cells of which the trackers have heard

    def tell(self, latest: str, cell_done: bool = False) -> None:
        if self.progress is not None:
            done = (self.rounds, self.all_rounds, self.cells, self.all_cells, self.failed)
            self.progress(Progress(*done, latest, cell_done, sum(self.parts.values())))

    def unfinished(self, cells: list[Cell]) -> list[Cell]:
        """Those that were not finished before."""
        todo = []
        for cell in cells:
            if finished(cell.place(self.out), *cell):
                self.rounds += len(cell.row.counts)
                self.cells += 1
            else:
                todo.append(cell)
        self.tell("")
        return todo

    def hear(self, cell: Cell, kind: str, content: Any) -> None:
        """What the engine has to say of a cell."""
        if kind == "told":
            name, *news = content
            hearers: dict[str, Callable[..., None]] = {"round": self.round, "step": self.step, "now": self.now}
            hearers[name](cell, *news)
        elif kind == "again":
            self.tell(f"{cell.title}: {content}; askless will retry it")
        elif kind == "lost":
            self.ended(cell, Trouble(content))
        else:
            if content is None:
                await_result(cell.place(self.out) / "result.json")
            self.ended(cell, content)

    def now(self, cell: Cell, what: str, share: float) -> None:
        self.parts[cell.name] = share
        self.tell(f"{cell.title}, {what}")

    def round(self, cell: Cell, numbers: dict[str, Any]) -> None:
        """A round is done; one reported twice, such as by a retried cell, counts once."""
        if numbers["labels"] not in self.seen[cell.name]:
            self.seen[cell.name].add(numbers["labels"])
            self.rounds += 1
            self.parts.pop(cell.name, None)
            self._started(cell)
            rest = {name: value for name, value in numbers.items() if name != "labels"}
            self.trail.tell(Event("round", self._run(cell), numbers["labels"], rest))
            accuracy = f": {100 * numbers['test_accuracy']:.1f} %" if "test_accuracy" in numbers else ""
            self.tell(f"{cell.title}, {numbers['labels']} labels{accuracy}")

    def step(self, cell: Cell, at: int, numbers: dict[str, float], last: bool) -> None:
        self._started(cell)
        self.trail.tell(Event("step", self._run(cell), at, numbers), last)

    def _run(self, cell: Cell) -> str:
        return f"{self.name}/{cell.name}"

    def _started(self, cell: Cell) -> None:
        if self.trail and cell.name not in self.begun:
            self.begun.add(cell.name)
            about = cell_settings(cell.row, cell.seed, cell.start_seed)
            self.trail.tell(Event("start", self._run(cell), about={**about, "method": cell.row.method}))

    def _rest_of(self, cell: Cell) -> None:
        """The rounds that this run did not report, such as those before an earlier one was killed."""
        place = cell.place(self.out)
        with contextlib.suppress(OSError, ValueError, KeyError):
            state = read_json(place / "result.json") | {"times": read_json(place / "times.json")}
            for k in range(len(cell.row.counts)):
                self.round(cell, round_numbers(cell.row, k, state))

    def ended(self, cell: Cell, trouble: Trouble | None) -> None:
        if self.trail and trouble is None:
            self._rest_of(cell)
        if cell.name in self.begun:
            self.trail.tell(Event("end", self._run(cell)))
        self.parts.pop(cell.name, None)
        self.rounds += len(cell.row.counts) - len(self.seen[cell.name])
        if trouble is None:
            self.cells += 1
            self.tell(f"{cell.title}: done", cell_done=True)
        else:
            self.failed += 1
            with contextlib.suppress(OSError):  # where nothing can be written any more, the reason is still told
                write_json(cell.place(self.out) / "failure.json", trouble._asdict())
            self.tell(f"{cell.title}: FAILED: {trouble.reason.splitlines()[0]}", cell_done=True)
