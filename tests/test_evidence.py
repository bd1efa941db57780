"""The evidence that is checked in: every run that the page names is there, whole, and says what it is."""

import csv
import importlib.util
import json
import re
from pathlib import Path

import pytest

from askless.acquire import NPC
from askless.bench import PRESETS, Benchmark, preset
from askless.bench import run as run_benchmark
from askless.bench.cell import finished
from askless.bench.report import write
from askless.bench.results import Record, cell_name, csv_text
from askless.learn import Auto

EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"
RUNS = sorted(p.name for p in EVIDENCE.iterdir() if p.is_dir())


def load(name):
    path = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marked():
    """What the page says is missing, or of an earlier method: {preset: state}."""
    table = (EVIDENCE / "README.md").read_text().partition("<!-- stale -->")[2].partition("<!-- end -->")[0]
    return dict(re.findall(r"^\| `([a-z0-9.]+)` \| (missing|computed before) \| \S.* \|$", table, re.MULTILINE))


def test_every_preset_has_its_evidence_or_is_named_as_missing():
    missing = {name for name, state in marked().items() if state == "missing"}
    assert set(RUNS) | missing == set(PRESETS), "compute the others, or list them in docs/evidence/README.md"
    assert not set(RUNS) & missing, "these are there: take them off the list"


def test_every_run_is_on_the_page():
    page = (EVIDENCE / "README.md").read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert (EVIDENCE / link).exists(), link
    for run in RUNS:
        assert f"({run}/report.html)" in page


@pytest.mark.parametrize("run", RUNS)
def test_the_numbers_of_a_run_are_of_the_present_method(run):
    path = EVIDENCE / run / "method.json"
    if marked().get(run) == "computed before":
        assert not path.exists(), f"{run} was computed again: take it off the list in docs/evidence/README.md"
    else:
        assert path.exists(), f"{run}: check it in by `python benchmarks/check_in.py`"
        changed = load("check_in").changes(json.loads(path.read_text()), preset(run, "small"))
        assert not changed, (
            f"{run} was computed with another method ({'; '.join(changed)}): compute it again, or list it as computed "
            "before in docs/evidence/README.md"
        )


@pytest.mark.parametrize(
    ("kind", "runs", "setting"),
    [(NPC, {"npc.table2", "npc.fig1", "race.logistic"}, "strategy"), (Auto, {"learners"}, "learner")],
)
def test_a_revised_strategy_or_learner_makes_its_numbers_old(monkeypatch, kind, runs, setting):
    monkeypatch.setattr(kind, "revision", 2, raising=False)
    for run in runs:
        method = json.loads((EVIDENCE / run / "method.json").read_text())
        [changed] = load("check_in").changes(method, preset(run, "small"))
        assert changed.startswith(f"{setting}: {kind.__name__}(")
        assert "revision=2" in changed
    method = json.loads((EVIDENCE / "dal.table1" / "method.json").read_text())
    assert not load("check_in").changes(method, preset("dal.table1", "small"))


def test_a_setting_that_came_later_had_its_default():
    check_in, plan = load("check_in"), preset("dal.table1", "small")
    method = check_in.present(plan)
    del method["settings"]["views"]
    assert not check_in.changes(method, plan)
    del method["settings"]["start"]
    assert check_in.changes(method, plan)[0].startswith("start: 0 -> ")


def test_a_run_is_checked_in_with_what_it_was_made_with(tmp_path, monkeypatch, capsys):
    check_in = load("check_in")
    row = preset("crc.fig1", "smoke").rows[0]
    plan = Benchmark(name="mine", title="Mine", rows=(row,), seeds=(0, 1))
    write(run_benchmark(plan, tmp_path / "out"), tmp_path / "out")
    (tmp_path / "evidence").mkdir()
    monkeypatch.setattr(check_in, "EVIDENCE", tmp_path / "evidence")
    monkeypatch.setattr("sys.argv", ["check_in.py", str(tmp_path / "out")])
    check_in.main()
    assert "method.json" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "evidence" / "mine").iterdir()} == {*check_in.FILES, "method.json"}
    method = json.loads((tmp_path / "evidence" / "mine" / "method.json").read_text())
    assert method == check_in.present(plan)


@pytest.mark.parametrize("run", RUNS)
def test_a_run_has_its_seeds_its_numbers_and_its_warning(run):
    with (EVIDENCE / run / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    cells = {(r["group"], r["method"]): set() for r in rows}
    for r in rows:
        cells[r["group"], r["method"]].add(r["seed"])
    made = PRESETS[run].make("small")
    least = min(len(made.seeds), 10)
    assert all(len(seeds) >= least for seeds in cells.values())
    assert set(cells) == {(row.group, row.method) for row in made.rows}
    report = (EVIDENCE / run / "report.html").read_text()
    assert f"askless bench run {run} --scale small" in report
    assert "Scaled down" in report or run.startswith(("askless", "learners", "race", "outlook"))  # of no paper
    assert "http" not in re.sub(r"data:image/png;base64,[^\"]+", "", report)


def test_what_holds_names_tests_and_pages_that_exist():
    page = (EVIDENCE / "claims.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) > 20
    for file, test in named:
        assert f"def {test}(" in (EVIDENCE.parents[1] / file).read_text(), f"{file}::{test}"
    for name in PRESETS:
        if name.startswith(("npc.", "crc.", "dal.")):
            assert f"`{name}`" in page, f"{name} has no row"


def test_what_holds_counts_its_verdicts():
    page, verdicts = (EVIDENCE / "claims.md").read_text(), [[], [], []]
    for found, part in zip(verdicts, page.split("\n## ")[3:], strict=True):
        rows = [line.split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
        assert all(len(row) == 5 for row in rows), "five columns, and no bar inside a cell"
        found += [row[2] for row in rows]
    kinds = ("holds", "does not hold", "undecided", "being computed", "not run")
    assert {v for found in verdicts for v in found} <= set(kinds)
    for name, found in zip(("NPC", "CRC", "dynamicAL"), verdicts, strict=True):
        line = f"| {name} | {len(found)} | {' | '.join(str(found.count(kind)) for kind in kinds)} |"
        assert line in page, f"expected this line in claims.md: {line}"


def test_paired_differences_are_those_of_the_tables():
    paired = load("paired")
    lines = paired.differences(paired.results_of("npc.table2"), "test_accuracy", end=False)
    assert " fixmatch+darp: npc - random -0.72 ± 2.76" in lines
    assert "| npc | 73.5 ± 2.3 (5) | -0.7 ± 2.8 |" in (EVIDENCE / "npc.table2" / "tables.md").read_text()
    at_end = paired.differences(paired.results_of("npc.table2"), "test_accuracy", end=True)
    assert " fixmatch+darp: albl - random -2.12 ± 1.69 *" in at_end  # ALBL has a mark there, too
    slope, fall = paired.slopes(paired.results_of("crc.fig3"))
    assert slope.endswith("+0.05 ± 0.13")
    assert fall.endswith("+3.32 ± 0.18 *")


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


def test_labels_are_told_apart_by_whether_their_own_model_learns_from_them(tmp_path):
    own_tables = load("own_tables")
    worth = {  # (method, learner): accuracy of two seeds
        ("random", "A"): (0.5, 0.6), ("random", "B"): (0.4, 0.4),
        ("margin by A", "A"): (0.6, 0.7), ("margin by A", "B"): (0.3, 0.4),
        ("margin by B", "A"): (0.5, 0.8), ("margin by B", "B"): (0.7, 0.7),
    }  # fmt: skip
    records = [
        Record("digits", method, seed, learner, 20, None, "test_accuracy", value)
        for (method, learner), values in worth.items()
        for seed, value in enumerate(values)
    ]
    (tmp_path / "results.csv").write_text(csv_text(records))
    lines = own_tables.by_successor(tmp_path / "results.csv").splitlines()
    assert lines[2] == "| digits | random | 55.0 | 40.0 |"
    assert lines[3].startswith("| digits | margin by A | ***+10.0 ± 0.0*** | -5.0 ± 63.5 |")
    (line,) = own_tables.own_and_others(tmp_path / "results.csv").splitlines()[2:]
    # seeds of own: (10 + 30) / 2, (10 + 30) / 2; of another: (-10 + 0) / 2, (0 + 20) / 2
    assert line == "| digits | margin | **+20.0 ± 0.0** | +2.5 ± 95.3 | -17.5 ± 95.3 | 0 : 0 of 2 |"


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
