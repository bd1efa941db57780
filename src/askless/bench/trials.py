"""Trials: short cells that settle which start all seeds of a row share."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from askless.bench.cell import Cell
from askless.bench.plan import Row
from askless.bench.results import read_json


def trial_key(row: Row) -> tuple[str, int]:
    return row.group, row.start


def trial_rows(rows: Sequence[Row]) -> list[Row]:
    """One row for each start that is settled by trials: only the start's labels, trained and measured."""
    found = {
        trial_key(row): replace(
            row, method=f"start {row.start}", strategy="random", counts=(row.start,), measures=(), along=(), value=()
        )
        for row in reversed(rows)
        if row.trials is not None
    }
    return list(found.values())


def chosen_start(out: Path, key: tuple[str, int], trials: list[Cell]) -> int | str:
    """The seed whose start came out median (or best), or why there is none."""
    mine = [c for c in trials if trial_key(c.row) == key]
    accuracy = {}
    for cell in mine:
        place = cell.place(out)
        if not (place / "result.json").exists():
            why = read_json(place / "failure.json")["reason"]
            return f"the trial {cell.name}, which settles the start, failed: {why}"
        records = read_json(place / "result.json")["records"]
        found = [r[4] for r in records if r[3] == "test_accuracy"]
        if not found:
            return f"the trial {cell.name}, which settles the start, needs data with test items"
        accuracy[cell.seed] = found[0]
    order = sorted(accuracy, key=lambda s: (accuracy[s], s))
    how = mine[0].row.trials[1]  # type: ignore[index]
    return order[-1] if how == "best" else order[(len(order) - 1) // 2]


def settle(out: Path, trials: list[Cell], cells: list[Cell]) -> tuple[list[Cell], list[tuple[Cell, str]]]:
    """The cells, each with the seed of its start where trials settled that; and those whose trials failed, with why."""
    starts = {key: chosen_start(out, key, trials) for key in {trial_key(c.row) for c in trials}}
    ready, startless = [], []
    for cell in cells:
        start = None if cell.row.trials is None else starts[trial_key(cell.row)]
        if isinstance(start, str):
            startless.append((cell, start))
        else:
            ready.append(cell._replace(start_seed=start))
    return ready, startless
