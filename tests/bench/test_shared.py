"""Cells that another benchmark has computed are taken over where nothing but the panel's name differs."""

import json

import pytest

from askless import Supervised
from askless.bench import Benchmark, Data, Row, run
from askless.bench.shared import adopt


def rows(group="", steps=2, trials=None):
    common = {"data": Data(name="digits", items=60, test=20), "net": "linear", "start": 10, "trials": trials}
    learner = Supervised(steps=steps)
    return tuple(
        Row(method=m, strategy=m, group=group, learner=learner, counts=(10, 14), **common) for m in ("random", "margin")
    )


def benchmark(name, *made):
    return Benchmark(name=name, title=name, rows=made, seeds=(0, 1))


@pytest.fixture
def table(tmp_path):
    run(benchmark("table", *rows()), tmp_path / "table")
    return tmp_path / "table"


def test_a_figure_takes_the_cells_of_a_table_under_its_own_names(table, tmp_path):
    figure = benchmark("figure", *rows("as in the table"), *rows("longer", steps=3))
    assert adopt(figure, tmp_path / "figure", [table]) == 4
    assert not list((tmp_path / "figure" / "cells").glob("longer*"))
    taken = tmp_path / "figure" / "cells" / "as_in_the_table--margin--1" / "result.json"
    before = taken.read_bytes()
    run(figure, tmp_path / "figure")
    assert taken.read_bytes() == before  # not computed again
    original = json.loads((table / "cells" / "all--margin--1" / "result.json").read_text())

    assert json.loads(before)["records"] == original["records"]
    assert adopt(figure, tmp_path / "figure", [table]) == 0


def test_what_is_computed_anew_has_the_same_numbers(table, tmp_path):
    alone = run(benchmark("figure", *rows("as in the table")), tmp_path / "alone")
    adopt(benchmark("figure", *rows("as in the table")), tmp_path / "figure", [table])
    assert run(benchmark("figure", *rows("as in the table")), tmp_path / "figure").records == alone.records


def test_trials_come_along_for_every_panel(tmp_path):
    run(benchmark("table", *rows(trials=(2, "median"))), tmp_path / "table")
    figure = benchmark("figure", *rows("a", trials=(2, "median")), *rows("b", trials=(2, "median")))
    assert adopt(figure, tmp_path / "figure", [tmp_path / "table"]) == 2 * (4 + 2)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "figure").glob("cells/*/result.json")}
    run(figure, tmp_path / "figure")
    assert {path: path.stat().st_mtime_ns for path in times} == times
