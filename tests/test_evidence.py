"""The evidence that is checked in: every run that the page names is there, whole, and says what it is."""

import csv
import re
from pathlib import Path

import pytest

from askless.bench import PRESETS

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
RUNS = sorted(p.name for p in EVIDENCE.iterdir() if p.is_dir())
WANTED = {"npc.table1", "npc.table3", "crc.table2", "crc.table3", "dal.table1"} | {f"dal.fig{n}" for n in (1, 2, 4, 5)}


def test_every_wanted_run_is_there_and_on_the_page():
    page = (EVIDENCE / "README.md").read_text()
    assert set(RUNS) >= WANTED
    assert set(RUNS) <= set(PRESETS)
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert (EVIDENCE / link).exists(), link
    for run in RUNS:
        assert f"({run}/report.html)" in page


@pytest.mark.parametrize("run", RUNS)
def test_a_run_has_its_seeds_its_numbers_and_its_warning(run):
    with (EVIDENCE / run / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = {(r["group"], r["method"]): set() for r in rows}
    for r in rows:
        cells[r["group"], r["method"]].add(r["seed"])
    least = 3 if run == "crc.fig1" else 10 if run.startswith(("npc", "crc")) else 5
    assert all(len(seeds) >= least for seeds in cells.values())
    made = PRESETS[run].make("small")
    assert set(cells) == {(row.group, row.method) for row in made.rows}
    report = (EVIDENCE / run / "report.html").read_text()
    assert f"askless bench run {run} --scale small" in report
    assert "Scaled down" in report
    assert "http" not in re.sub(r"data:image/png;base64,[^\"]+", "", report)
