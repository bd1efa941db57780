"""The speed suite: its limits, its table in the docs, and that each of its scripts runs (slow)."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import askless as al
from askless import ActiveLearner, Supervised
from askless.base.errors import InputError

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def suite(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load("suite")


@pytest.fixture
def speed(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load("speed")


def test_a_line_holds_where_every_limit_is_kept(suite):
    Line, Other = suite.Line, suite.Other
    assert Line("a", 1.0).holds() is None
    assert Line("a", 1.0, floor=Other("b", 0.5)).holds() is None
    assert Line("a", 1.0, floor=Other("b", 0.5, 2.0)).holds() is True
    assert Line("a", 1.1, floor=Other("b", 0.5, 2.0)).holds() is False
    assert Line("a", 1.0, reference=Other("b", 10, 0.1), peer=Other("c", 10, 0.05)).holds() is False
    assert Line("a", 1.0, most=0.9).holds() is False


def test_ways_are_timed_in_turn_after_one_warm_up(suite):
    calls = []
    took = suite.compare({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3)
    assert calls == ["a", "b"] * 4
    assert set(took) == {"a", "b"}
    assert all(value >= 0 for value in took.values())


def test_every_result_is_of_a_full_run_and_of_a_script_of_the_suite(speed):
    for path in sorted(speed.RESULTS.glob("*.json")):
        record = json.loads(path.read_text())
        assert record["benchmark"] == path.stem
        assert (BENCHMARKS / f"{path.stem}.py").exists()
        assert not record.get("quick", False)
        assert {"processor", "cores", "load"} <= set(record["machine"])


def test_the_table_in_the_docs_is_that_of_the_results(speed):
    for name, shown in speed.shown_in_docs().items():
        assert shown == speed.TABLES[name](), f"{name}: run `python benchmarks/speed.py --docs`"


def test_ways_to_find_neighbours_become_a_row_each(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    graph = load("graph")
    exact = np.array([[1, 2], [0, 2], [0, 1]])
    assert graph.recall(exact[:, ::-1], exact) == 1
    assert graph.recall(np.array([[1, 5], [4, 5], [0, 1]]), exact) == pytest.approx(0.5)
    one = {"rows": "9 of a kind", "columns": 1280, "way": "ours", "threads": 1, "seconds": 2.0, "recall": 1, "gb": 0.1}
    table = graph.shown({"lines": [one, {**one, "threads": 2, "seconds": 1.25, "gb": 0.2}]})
    assert table.splitlines()[2:] == ["| 9 of a kind | 1,280 | ours | 2 | 1.25 | 1.000 | 0.2 |"]


def test_a_row_is_not_its_own_neighbour(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS / "peers"))
    libraries = load("peers/graph_libraries")
    found = libraries.without_itself(np.array([[0, 1, 2], [2, 1, 0], [0, 1, 3]]))  # the last one has not found itself
    assert found.tolist() == [[1, 2], [2, 0], [0, 1]]


def test_the_tables_of_choosing_offline_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    offline = load("offline")
    record = json.loads((offline.RESULTS / "offline.json").read_text())
    for title, shown in offline.shown_in_docs(list(record["settings"])).items():
        assert shown == offline.tables(record, title), f"{title}: run `python benchmarks/offline.py --docs`"


def test_the_tables_of_encoders_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    encoders = load("encoders")
    page = encoders.PAGE.read_text()
    record = json.loads((encoders.RESULTS / "encoders.json").read_text())
    assert encoders.renewed(page, record) == page, "run `python benchmarks/encoders.py --docs`"


def test_encoders_are_compared_on_the_same_draws(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    encoders = load("encoders")
    first, again = (encoders.measured("digits", ["raw@8", "tfidf", "raw@2"], 300, 2) for _ in range(2))
    assert [row["encoder"] for row in first] == ["raw@8", "raw@2"]  # words are not for images
    assert [row["accuracy"] for row in first] == [row["accuracy"] for row in again]
    assert first[0]["accuracy"]["200"] > first[1]["accuracy"]["200"] + 0.1
    assert "digits raw@8" in capsys.readouterr().out


@pytest.fixture
def outlooks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load("outlooks_adapt")


def test_the_tables_of_outlooks_are_those_of_the_results(outlooks):
    parts = json.loads(outlooks.OUT.read_text())["parts"]
    page = outlooks.PAGE.read_text()
    assert outlooks.renewed(page, parts) == page, "run `python benchmarks/outlooks_adapt.py --docs`"


@pytest.fixture
def outlook_of_modes(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load("outlooks_modes")


def test_the_tables_of_modes_are_those_of_the_results(outlook_of_modes):
    parts = json.loads(outlook_of_modes.OUT.read_text())["parts"]
    page = outlook_of_modes.PAGE.read_text()
    shown = outlook_of_modes.renewed(page, parts, outlook_of_modes.TABLES, outlook_of_modes.OUT.stem)
    assert shown == page, "run `python benchmarks/outlooks_modes.py --docs`"


def test_correlations_are_within_a_strategy_or_over_the_strategies(outlook_of_modes, monkeypatch):
    """Within a strategy the accuracy falls with the measure; from the first to the second it rises with it."""
    monkeypatch.setattr(outlook_of_modes, "STARTS", {"at once": (40,)})
    monkeypatch.setattr(outlook_of_modes, "STRATEGIES", {"a": "a", "b": "b"})
    rows = [
        {"data": "d", "start": "at once", "strategy": s, "seed": seed, "x": 10 * at + seed, "accuracy": 10 * at - seed}
        for at, s in enumerate("ab")
        for seed in range(3)
    ]
    assert outlook_of_modes.within(rows, "x", "accuracy", "d") == pytest.approx([-1, -1])
    assert outlook_of_modes.over(rows, "x", "accuracy", "d") == pytest.approx([1, 1, 1])
    assert np.isnan(outlook_of_modes.correlation(np.ones(3), np.arange(3)))


def test_labels_come_in_rounds_or_at_once(outlook_of_modes, monkeypatch):
    y = np.arange(60) % 3
    pool = al.data.as_pool(np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32) + y[:, None], y)
    monkeypatch.setattr(sys.modules["outlooks_adapt"], "pool_of", lambda name: pool)
    monkeypatch.setattr(outlook_of_modes, "STARTS", {"rounds": (4, 5), "at once": (6,)})
    assert len(outlook_of_modes.labelled("any", "rounds", "npc", 0)) == 3 + 4 + 5
    assert len(outlook_of_modes.labelled("any", "at once", "npc, swap", 0)) == 6


def test_a_slower_kernel_predicts_a_longer_horizon(outlooks):
    """Two clouds of labelled items: the nearer they are to each other, the slower the mode that tells them apart."""
    found = []
    for apart in (4.0, 1.0):
        x = np.array([[apart, 1.0], [-apart, 1.0]] * 10, dtype=np.float32)
        learner = ActiveLearner((x, np.array([0, 1] * 10)), net="linear", learner=Supervised(lr=0.01), classes=2)
        learner.tell(np.arange(6), [0, 1] * 3)
        found.append(outlooks.horizons(learner)["slowest"])
    assert 1 < found[0] < found[1] < outlooks.STEPS


def test_items_that_stay_with_their_class_look_certain(outlooks):
    seen = np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.6, 0.4], [0.6, 0.4]]])  # the second item changes its class
    assert outlooks.weighed(seen, "as it is").tolist() == [[0.6, 0.4], [0.6, 0.4]]
    assert outlooks.weighed(seen, "settled").tolist() == [[1.0, 0.0], [0.6, 0.4]]
    assert outlooks.weighed(seen, "averaged").tolist() == [[0.6, 0.4], [0.5, 0.5]]


def test_labels_come_as_often_as_their_class(outlooks):
    at = outlooks.as_often(np.array([0, 0, 1]), np.array([2.0, 3.0, 1.0]))
    assert at.tolist() == [0, 1, 2, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "npc_search",
        "gradients",
        "selection",
        "covering",
        "million",
        "scale",
        "fixmatch",
        "frozen_round",
        "embedding",
        "imports",
        "growth",
        "graph",
        "offline",
        "encoders",
        "stream",
    ],
)
def test_each_script_runs_at_small_sizes(name, speed):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--quick"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    heads = {
        "growth": "",
        "graph": "| rows | columns |",
        "offline": "| chosen by |",
        "encoders": "| encoder |",
        "stream": "| data |",
    }
    assert heads.get(name, "| what | ours |") in done.stdout


def test_what_ten_million_rows_took_becomes_a_table_with_an_estimate(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    scale = load("scale")
    timed = {"what": "margin, N = 10", "ours": 5.0, "unit": "s", "reference": {"name": "a tenth", "value": 1.5}}
    lines = [timed, {"what": "margin, peak memory", "ours": 1.04, "unit": "GB", "reference": None}]
    record = {"date": "today", "machine": {"processor": "P", "load": 1.0}, "threads": 1, "lines": lines}
    page = scale.renewed(f"before\n{scale.MARK}\nold\n<!-- end -->\nafter", record)
    assert page.startswith("before\n")
    assert page.endswith("<!-- end -->\nafter")
    assert "| margin | 1.5 | 5 | 1.04 | 6.5 |" in page
    assert "old" not in page


def test_the_table_of_ten_million_rows_is_that_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    scale = load("scale")
    page = scale.PAGE.read_text()
    record = json.loads((scale.RESULTS / "scale.json").read_text())
    assert scale.renewed(page, record) == page, "run `python benchmarks/scale.py --docs`"


def test_the_table_of_whole_runs_is_that_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    pipeline = load("pipeline")
    page = pipeline.PAGE.read_text()
    record = json.loads((pipeline.RESULTS / "pipeline.json").read_text())
    assert pipeline.renewed(page, record) == page, "run `python benchmarks/pipeline.py --docs`"


def test_the_table_of_waits_is_that_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    pace = load("labelling_pace")
    page = pace.PAGE.read_text()
    record = json.loads((pace.RESULTS / "labelling_pace.json").read_text())
    assert pace.renewed(page, record) == page, "run `python benchmarks/labelling_pace.py --docs`"


@pytest.fixture
def honest(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load("honest")


def test_the_table_of_simulated_runs_is_that_of_the_results(honest):
    page = honest.PAGE.read_text()
    record = json.loads((honest.RESULTS / "honest.json").read_text())
    assert honest.renewed(page, record) == page, "run `python benchmarks/honest.py --docs`"


def test_what_500_simulated_runs_said_was_true(honest):
    record = json.loads((honest.RESULTS / "honest.json").read_text())
    assert min(row["runs"] for row in record["rows"]) == 500
    for row in record["rows"]:
        assert row["all_looks"] >= 0.94
        assert row["last_look"] >= 0.94
        assert row["wilson_all_looks"] < 0.9  # which is why askless does not show it


def test_a_few_simulated_runs_hold_at_every_look_and_forecast_what_comes(honest):
    """Of 24 runs on the digits with two numbers of check items: at 94 % fewer than 19 are one in ten thousand."""
    rows = honest.measure(honest.digits(), 24, checks=(20, 40))
    assert [(row["check"], row["confidence"]) for row in rows][:3] == [(20, name) for name in honest.CONFIDENCE]
    for row in rows:
        assert row["all_looks"] >= 19 / 24
        assert row["last_look"] >= 19 / 24
        assert row["worth"] >= row["check"]
        assert row["gain_50"]["holds"] >= 15 / 24
        assert 0 < row["gain_50"]["said"] < row["gain_200"]["said"] < 0.1


@pytest.fixture
def tried(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load("tried")


def test_what_was_tried_tells_too_little_to_be_shown(tried):
    """Neither strata nor subsets narrow an interval; with a check item for four labels, few runs could show a saving."""
    rows = json.loads((BENCHMARKS / "results" / "tried.json").read_text())["rows"]
    assert [(row["data"], row["check"]) for row in rows] == [
        (name, n) for name in ("digits", "cifar10") for n in tried.CHECKS
    ]
    for row in rows:
        assert row["runs"] >= 200
        assert row["strata"]["width"] > row["regression"]["width"]
        for more in tried.AHEAD:
            assert row[f"subsets_{more}"]["width"] > 0.99 * row[f"rounds_{more}"]["width"]
        for m in tried.GIVEN:
            said = row[f"random_for_{m}"]
            assert said["holds"] >= 0.9 or row["check"] == 40
    few, enough = rows[3], rows[1::3]
    assert few["random_for_160"]["holds"] < 0.8
    assert all(row["random_for_360"]["shows_a_saving"] < 0.1 for row in enough)


def test_the_cost_in_random_labels_grows_with_what_the_model_has_right(tried):
    """Of 100 check items models of 25, 50, 75 and 90 others miss 100 / sqrt(m): 10.5 at 90, so 7 take twice as many."""
    sizes, item = np.array([25.0, 50.0, 75.0, 90.0]), np.arange(100) + 0.5
    rows = np.array([item > 100 / m**0.5 for m in sizes], float)
    costs = [tried.random_cost(sizes, rows, (item > missed).astype(float)) for missed in (20, 10.5, 7)]
    for low, about, high in costs:
        assert low <= about <= high
    assert costs[0][2] < 90
    assert costs[1][0] < 90 < costs[1][2]
    assert costs[0][1] < costs[1][1] < costs[2][1]


def test_a_curve_of_random_labels_from_check_items_is_that_of_random_labels(tried, honest):
    items = honest.digits()
    order = np.random.default_rng(0).permutation(len(items.y))
    sizes, rows = tried.random_curve(items, order[:100], np.random.default_rng(1))
    assert sizes.tolist() == [25, 50, 75, 90]
    expected = [
        np.mean([tried.right(items, order[100 + 90 * k :][: int(m)], order[1000:]).mean() for k in range(10)])
        for m in sizes
    ]
    assert np.abs(rows.mean(axis=1) - expected).max() < 0.1  # 2.5 standard deviations of 100 items


def test_runs_of_what_was_tried_become_a_row_for_each_number_of_check_items(tried, honest):
    items = honest.digits()
    rows = tried.summary(items, [tried.one_run(items, seed) for seed in range(2)])
    assert [row["check"] for row in rows] == list(tried.CHECKS)
    assert all(0 < row["strata"]["width"] < 0.5 for row in rows)


def test_the_ridge_classifier_of_the_simulation_is_that_of_sklearn(honest):
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)), rng.integers(0, 3, 40)
    weights, heat = honest.fitted(x, y, 3)
    rows = np.c_[x, np.ones(40)]
    theirs = [Ridge(alpha=a, fit_intercept=False).fit(rows, np.eye(3)[y]).coef_.T for a in honest.RIDGES]
    assert min(np.abs(weights - their).max() for their in theirs) < 1e-9
    assert heat in honest.HEATS


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return load("stream")


def rows_of(*ways):
    return [
        {"data": "mnist", "seed": seed, "way": way, "accuracy": value + seed / 100, "seconds": 1.0}
        for seed in range(3)
        for way, value in ways
    ]


def test_the_share_of_the_gain_by_hand(stream):
    record = {"rows": rows_of(("random", 0.1), ("pool", 0.3), ("passes", 0.25))}
    assert stream.share(record, "mnist", "passes") == pytest.approx((0.75, 0.75, 0.75))


def test_a_stream_record_of_another_size_is_not_resumed(stream, tmp_path):
    out = tmp_path / "stream.json"
    assert stream.resumed(out, stream.Size()) == []
    stream.write(stream.record_of(rows_of(("random", 0.1)), False, stream.Size()), out)
    assert stream.resumed(out, stream.Size()) == rows_of(("random", 0.1))
    with pytest.raises(InputError, match="choose another --out"):
        stream.resumed(out, stream.Size(memory=10))


def test_the_table_of_streams_is_that_of_the_results(stream):
    page = stream.PAGE.read_text()
    record = json.loads((stream.RESULTS / "stream.json").read_text())
    assert stream.renewed(page, record) == page, "run `python benchmarks/stream.py --docs`"


@pytest.mark.parametrize("way", ["passes", "passes, sorted", "one pass"])
def test_a_stream_keeps_nine_tenths_of_what_the_pool_gains(stream, way):
    """The published numbers: a memory of 1,000 for 50,000 items."""
    record = json.loads((stream.RESULTS / "stream.json").read_text())
    assert (record["size"]["memory"], record["size"]["pool"]) == (1000, 50_000)
    assert stream.share(record, "mnist", way)[0] >= 0.9
