"""Computes some rows of a benchmark again and keeps the numbers of the others, as docs/evidence has them.

    python benchmarks/renew.py askless.scratch runs/askless.scratch --method askless
    askless bench run askless.scratch --out runs/askless.scratch      # computes what is missing, and reports on all

For a strategy or a training that changed: the others do not depend on it, since seeds and starts are shared, and on
one machine the same cell gives the same numbers to the last digit. `--method` names rows to compute again, `--group` groups
of rows (each may come several times), `--again` cells that are kept but computed all the same, as `random--0` for seed 0 of
random in every group: the run must give the numbers that were kept, which `--compare` then tells.
"""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

from askless.base.files import write_whole
from askless.bench import preset
from askless.bench.cell import cell_settings
from askless.bench.results import CELLS, cell_name

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
Key = tuple[str, str, int]


def kept(name: str) -> dict[Key, list[list[Any]]]:
    """The records of every cell of a run in docs/evidence."""
    found: dict[Key, list[list[Any]]] = {}
    with (EVIDENCE / name / "results.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            x = float(row["x"]) if row["x"] else None
            record = [row["learner"], int(row["labels"]), x, row["metric"], float(row["value"])]
            found.setdefault((row["group"], row["method"], int(row["seed"])), []).append(record)
    return found


def fill(name: str, out: Path, methods: list[str], groups: list[str], again: list[str]) -> int:
    """Writes the kept cells into the folder of a run; how many."""
    plan, old, count = preset(name, "small"), kept(name), 0
    for row in plan.rows:
        for seed in plan.seeds:
            key = (row.group, row.method, seed)
            if row.method in methods or row.group in groups or f"{row.method}--{seed}" in again or key not in old:
                continue
            whole = {"settings": cell_settings(row, seed, None), "asked": [], "records": old[key]}
            place = out / CELLS / cell_name(*key)
            place.mkdir(parents=True, exist_ok=True)
            data = json.dumps(whole).encode()
            write_whole(place / "result.json", lambda file, data=data: file.write(data))  # type: ignore[misc]
            count += 1
    return count


def compare(name: str, out: Path, methods: list[str], groups: list[str]) -> int:
    """Of the cells of the run that were computed there and that evidence has too: how many differ from it."""
    old, differing = kept(name), 0
    for key, records in old.items():
        place = out / CELLS / cell_name(*key)
        if key[0] in groups or key[1] in methods or not (place / "times.json").exists():
            continue
        now = json.loads((place / "result.json").read_text(encoding="utf-8"))["records"]
        same = sorted(map(str, now)) == sorted(map(str, records))
        differing += not same
        print(f"{place.name}: {'the same numbers' if same else 'OTHER NUMBERS'}")
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of a preset that docs/evidence has a run of")
    parser.add_argument("out", type=Path, help="the folder of the run")
    parser.add_argument("--method", action="append", default=[], help="a row to compute again")
    parser.add_argument("--group", action="append", default=[], help="a group whose rows to compute again")
    parser.add_argument("--again", action="append", default=[], help="METHOD--SEED to compute anyway")
    parser.add_argument("--compare", action="store_true", help="after the run: compare what was computed again")
    options = parser.parse_args()
    if options.compare:
        return compare(options.name, options.out, options.method, options.group)
    print(f"{fill(options.name, options.out, options.method, options.group, options.again)} cells are kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
