"""The evidence that is checked in: every run that the page names is there, whole, and says what it is."""

import csv
import importlib.util
import json
import re
from pathlib import Path

import pytest

from askless.bench import PRESETS, preset
from askless.bench.cell import finished
from askless.bench.results import cell_name

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
RUNS = sorted(p.name for p in EVIDENCE.iterdir() if p.is_dir())
OWN = {f"askless.{name}" for name in ("frozen", "zero", "unseen", "scratch", "ablation")}
WANTED = (
    OWN
    | {"learners", *(f"race.{name}" for name in ("logistic", "head", "auto", "budgets", "bait", "standardised"))}
    | {"npc.table1", "npc.table3", "crc.table2", "crc.table3", "dal.table1"}
    | {f"dal.fig{n}" for n in (1, 2, 4, 5)}
)


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
    ours = run.startswith(("askless", "learners", "race"))  # of no paper
    tenfold = (ours or run.startswith(("npc", "crc"))) and run != "askless.scratch"
    least = 3 if run == "crc.fig1" else 10 if tenfold else 5
    assert all(len(seeds) >= least for seeds in cells.values())
    made = PRESETS[run].make("small")
    assert set(cells) == {(row.group, row.method) for row in made.rows}
    report = (EVIDENCE / run / "report.html").read_text()
    assert f"askless bench run {run} --scale small" in report
    assert "Scaled down" in report or ours
    assert "http" not in re.sub(r"data:image/png;base64,[^\"]+", "", report)


def load(name):
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_our_own_strategy_are_those_of_its_runs():
    own_tables = load("own_tables")
    pages = [path.read_text() for path in own_tables.PAGES]
    assert {name for page in pages for name in re.findall(r"<!-- table: ([a-z ]+) -->", page)} == set(own_tables.TABLES)
    for page in pages:
        assert own_tables.renewed(page, EVIDENCE) == page, "run `python benchmarks/own_tables.py --docs`"
    page = own_tables.METHODS.read_text()
    assert own_tables.with_numbers(page, EVIDENCE) == page, "run `python benchmarks/own_tables.py --docs`"


def test_a_row_of_the_methods_without_numbers_gets_them():
    own_tables = load("own_tables")
    page = "| name | paper | needs | cost | when not to use it |\n|---|---|---|---|---|\n"
    page += "| [`askless`](a.md) | a | b | c | d |\n| `new` | a | b | c | d |\n\nafter | it\n"
    found = own_tables.with_numbers(page, EVIDENCE)
    head, rule, own, new, *rest = found.splitlines()
    assert head == "| name | paper | needs | cost | our numbers | when not to use it |"
    assert rule.count("---") == 6
    assert re.fullmatch(r"\| \[`askless`\]\(a.md\) \| a \| b \| c \| \*\*\+\d.* · \d+\.\d \| d \|", own)
    assert new == "| `new` | a | b | c | – | d |"
    assert rest == ["", "after | it"]
    assert own_tables.with_numbers(found, EVIDENCE) == found


def test_some_rows_of_a_run_can_be_computed_anew_beside_the_others(tmp_path, capsys):
    renew = load("renew")
    assert renew.fill("askless.scratch", tmp_path, ["askless"], [], ["random--0"]) == 2 * (10 * 5 - 5 - 1)
    plan = preset("askless.scratch", "small")
    todo = [
        (row.method, seed)
        for row in plan.rows
        for seed in plan.seeds
        if not finished(tmp_path / "cells" / cell_name(row.group, row.method, seed), row, seed)
    ]
    assert sorted(set(todo)) == [*(("askless", seed) for seed in range(5)), ("random", 0)]
    assert len(todo) == 2 * 6

    # margin with seed 0 is computed again on both: once to the same numbers, once to others
    for group, value in (("digits", None), ("Fashion-MNIST", 0.5)):
        place = tmp_path / "cells" / cell_name(group, "margin", 0)
        result = json.loads((place / "result.json").read_text())
        if value is not None:
            result["records"][0][-1] = value
        (place / "result.json").write_text(json.dumps(result))
        (place / "times.json").write_text("[]")
    assert renew.compare("askless.scratch", tmp_path, ["askless"], []) == 1
    assert renew.compare("askless.scratch", tmp_path, ["askless"], ["Fashion-MNIST"]) == 0
    assert renew.fill("askless.scratch", tmp_path / "group", [], ["digits"], []) == 10 * 5
    assert sorted(set(capsys.readouterr().out.splitlines())) == [
        "Fashion-MNIST--margin--0: OTHER NUMBERS",
        "digits--margin--0: the same numbers",
    ]
