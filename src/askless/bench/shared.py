"""Cells that another benchmark has computed: figures of the papers that plot tables need no training of their own."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from askless.bench.cell import Cell, cell_settings, write_json
from askless.bench.plan import Benchmark
from askless.bench.results import CELLS, read_json
from askless.bench.trials import trial_rows

# What may differ: the name of the panel, and the seed of a start that trials settle, which come along.
FREE = ("group", "start_seed")


def cells_of(benchmark: Benchmark) -> list[Cell]:
    """Every cell of a benchmark, those of the trials first."""
    trials = [Cell(row, seed) for row in trial_rows(benchmark.rows) for seed in range(row.trials[0])]  # type: ignore[index]
    return [*trials, *(Cell(row, seed) for row in benchmark.rows for seed in benchmark.seeds)]


def same_but_group(settings: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in settings.items() if name not in FREE))


def adopt(benchmark: Benchmark, out: Path, others: Iterable[Path]) -> int:
    """Copies into `out` the finished cells of other benchmarks' folders that have the same settings, under the name that
    their panel has here; how many. Nothing that is there is touched."""
    wanted: dict[Any, list[tuple[Path, str]]] = {}
    for cell in cells_of(benchmark):
        settings = cell_settings(cell.row, cell.seed, None)
        wanted.setdefault(same_but_group(settings), []).append((cell.place(out), settings["group"]))
    count = 0
    for result in sorted(path for other in others for path in (other / CELLS).glob("*/result.json")):
        content = read_json(result)
        for place, group in wanted.get(same_but_group(content["settings"]), ()):
            if not place.exists():
                shutil.copytree(result.parent, place, ignore=shutil.ignore_patterns("result.json", ".lock"))
                renamed = content | {"settings": content["settings"] | {"group": group}}
                write_json(place / "result.json", renamed)  # last: then the cell is whole
                count += 1
    return count
