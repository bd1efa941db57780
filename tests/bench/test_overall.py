"""The tables over all groups, against numbers worked out by hand."""

import numpy as np
import pytest

from askless.bench.overall import overall_tables
from askless.bench.panels import panel, scores, win_loss
from askless.bench.results import Record, Results

GROUPS = ["one", "two", "three"]


def made(values, labels=(10, 20), seeds=range(1), **about):
    """Results of {(group, method): accuracy, or a function of (seed, labels)}."""
    records = [
        Record(g, m, s, "", n, None, "test_accuracy", v(s, n) if callable(v) else v)
        for (g, m), v in values.items()
        for s in seeds
        for n in labels
    ]
    about = {"groups": GROUPS, "metrics": ["test_accuracy"], "baseline": "a"} | about
    return Results(about | {"methods": list(dict.fromkeys(m for _, m in values))}, records)


def cells(table, name):
    return next([c.text for c in row] for row in table.rows if row[0].text == name)


def column(table, head):
    at = table.head.index(head)
    return {row[0].text: row[at].text for row in table.rows}


def test_all_groups_together_by_hand():
    """Three groups of one seed: b is 10, 20 and 30 points above a, 20 ± 4.303 * 10 / sqrt(3) points."""
    levels = {"one": 0.5, "two": 0.4, "three": 0.3}
    values = {(g, m): v if m == "a" else 0.6 for g, v in levels.items() for m in "ab"}
    table, by_group = overall_tables(made(values))  # two counts have no thirds
    assert cells(table, "a") == ["a", "2.00", "40.0", "–", "–", "–", "–"]
    assert cells(table, "b") == ["b", "1.00", "60.0", "+20.0 ± 24.8", "+10.0 (one)", "+30.0 (three)", "0 / 0"]
    assert "With 1 seeds none of 1 comparisons can be significant" in table.note
    assert cells(by_group, "two") == ["two", "40.0", "2", "b +20.0", "–", "0"]
    fewer = {key: v for key, v in values.items() if key[0] != "two"}
    assert overall_tables(made(fewer)) == []
    assert overall_tables(made(values, baseline=None)) == []


def race(**about):
    """Ten seeds of four counts, of which the first is a shared start. At 20, 30 and 40 labels a has 70, 80 and 90 %, b 10
    points less, the same and 10 more; random 50, 60 and 68; the oracle 90, 90 and 95."""
    curves = {
        "a": {20: 0.7, 30: 0.8, 40: 0.9},
        "b": {20: 0.6, 30: 0.8, 40: 1.0},
        "random": {20: 0.5, 30: 0.6, 40: 0.68},
        "oracle": {20: 0.9, 30: 0.9, 40: 0.95},
    }

    def value(method):
        return lambda seed, n: curves[method].get(n, 0.4) + 0.001 * seed

    values = {(g, m): value(m) for g in GROUPS for m in curves}
    return made(values, labels=(10, 20, 30, 40), seeds=range(10), oracle="oracle", **about)


def test_groups_in_which_no_method_differs_have_no_thirds():
    """Two steps of training leave every method with the network of the start."""
    values = {(g, m): 0.5 for g in GROUPS for m in "ab"}
    assert all(not part.labels for part in panel(made(values), "test_accuracy", "one").thirds())
    assert len(overall_tables(made(values))) == 2


def test_thirds_are_those_of_the_labels_without_the_shared_start():
    low, middle, high = panel(race(), "test_accuracy", "one").thirds()
    assert (low.labels, middle.labels, high.labels) == ((20,), (30,), (40,))
    _, thirds, _ = overall_tables(race())
    assert thirds.head == ("method", "low: 20 labels", "middle: 30 labels", "high: 40 labels")
    assert cells(thirds, "b") == ["b", "+10.00 ± 0.00*", "+0.00 ± 0.00", "-10.00 ± 0.00*"]
    assert cells(thirds, "random") == ["random", "+20.00 ± 0.00*", "+20.00 ± 0.00*", "+22.00 ± 0.00*"]
    assert "oracle" not in column(thirds, "method").values()
    assert "Holm-corrected for all 6 comparisons" in thirds.note


def test_the_oracle_is_a_ceiling_that_is_not_ranked():
    """Areas of 10 to 40 labels: a (55 + 75 + 85) / 3 = 71.7, b 70, random 54.7, the oracle 82.5; so a closes 17 of 27.8
    points. Of 40 labels a comes to random's 68 % at 10 + 10 * 28 / 30 = 19.3, b at 24, the oracle at 15.6."""
    standing, _, by_group = overall_tables(race())
    assert list(column(standing, "mean rank")) == ["oracle", "a", "b", "random"]  # by rank
    assert column(standing, "mean rank") == {"a": "1.00", "b": "2.00", "random": "3.00", "oracle": "–"}
    assert column(standing, "of the oracle's gap") == {"a": "61 %", "b": "55 %", "random": "0 %", "oracle": "100 %"}
    assert column(standing, "labels for random's end") == {
        "a": "48 %",
        "b": "60 %",
        "random": "100 %",
        "oracle": "39 %",
    }
    assert column(standing, "groups above / below a") == {"a": "–", "b": "0 / 3", "random": "0 / 3", "oracle": "–"}
    assert column(by_group, "% of the oracle's gap") == dict.fromkeys(GROUPS, "61")
    assert scores(race(), "test_accuracy")[1] == ["a", "b", "random"]
    assert win_loss(race(), "test_accuracy")[0] == ["a", "b", "random"]


def test_groups_of_development_are_told_from_those_reported_once():
    tables = overall_tables(race(developed=["two"]))
    assert [t.title.partition(":")[0] for t in tables[::2]] == [
        "All groups together",
        "Groups that a was developed on",
        "Groups reported once",
        "Group by group",
    ]
    assert column(tables[-1], "kind") == {"one": "reported once", "two": "development", "three": "reported once"}


def test_an_area_over_logarithms_counts_every_doubling_alike():
    values = {(g, m): (lambda s, n: n / 80) for g in GROUPS for m in "ab"}
    linear, log = (made(values, labels=(10, 20, 80), area=area) for area in ("labels", "log labels"))
    # 1/8, 1/4, 1: linear (10 * 3/16 + 60 * 5/8) / 70; by doublings (1 * 3/16 + 2 * 5/8) / 3
    assert panel(linear, "test_accuracy", "one").areas() == pytest.approx(np.full((2, 1), 39.375 / 70))
    assert panel(log, "test_accuracy", "one").areas() == pytest.approx(np.full((2, 1), 1.4375 / 3))


def test_a_group_that_is_not_finished_leaves_the_seeds_that_all_have():
    whole = race()
    late = Results(whole.about, [r for r in whole.records if r.group != "two" or r.seed < 8])
    standing, thirds, _ = overall_tables(late)
    assert cells(thirds, "b")[1] == "+10.00 ± 0.00*"
    assert "nan" not in str([standing.rows, thirds.rows])
    without = Results(whole.about, [r for r in whole.records if r.method != "oracle" or r.group == "one"])
    assert column(overall_tables(without)[0], "of the oracle's gap")["a"] == "61 %"
    assert "nan" not in str([table.rows for table in overall_tables(without)])
