"""The race: who takes part, on what, and that every strategy works under every classifier."""

import dataclasses

import pytest

from askless.acquire import STRATEGIES
from askless.bench import preset, run
from askless.bench.logistic import LogisticRegression
from askless.bench.presets import race
from askless.bench.report import write
from askless.data.fetch import DATA_SETS
from askless.learn import Auto, Supervised

NAMES = [p.name for p in race.PRESETS]
MANY_CLASSES = {"R52", "20 Newsgroups", "letter"}


def by_group(made):
    groups = dict.fromkeys(row.group for row in made.rows)
    return {g: {row.method: row for row in made.rows if row.group == g} for g in groups}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_the_strategy_differs_within_a_group(name):
    made = preset(name)
    assert (made.baseline, made.oracle, made.area, len(made.seeds)) == ("askless", "oracle", "log labels", 20)
    pools = {group.rpartition(", ")[0] for group in by_group(made)}
    assert len(pools) >= 10
    assert len(pools & MANY_CLASSES) >= 2
    assert set(by_group(made)) == {f"{pool}, {way}" for pool in pools for way in ("ours", "PCA")}
    for rows in by_group(made).values():
        assert {"askless", "random", "margin", "badge"} <= set(rows)
        shared = [(r.data, r.net, r.learner, r.counts, r.start, r.start_by) for r in rows.values()]
        assert all(s == shared[0] for s in shared)
        assert shared[0][4:] == (10, "random")
        assert len(shared[0][3]) >= 4  # the start, and a third each


def test_every_strategy_that_a_linear_head_has_arrays_for_takes_part():
    everyone = {*STRATEGIES, "oracle"} - {"bald", "batchbald"}
    assert {row.method for name in NAMES for row in preset(name).rows} == everyone
    assert all({row.method for row in preset(name, "full").rows} == everyone for name in NAMES)
    learners = [preset(name, "full").rows[0].learner for name in NAMES]
    assert [type(learner) for learner in learners] == [LogisticRegression, Supervised, Auto, LogisticRegression]


@pytest.mark.parametrize("scale", ["full", "small"])
def test_pools_come_by_package_name_and_at_most_half_of_them_is_asked_for(scale):
    made = preset("race.logistic", scale)
    inner = {row.group: getattr(row.data, "of", row.data).data for row in made.rows}
    assert all(data.name == "digits" or DATA_SETS[data.name].from_package is not None for data in inner.values())
    assert set(made.developed) < set(inner)
    if scale == "small":
        sizes = {"groceries": 732, "digits": 1397}
        assert all(row.counts[-1] <= sizes.get(inner[row.group].name, 3000) / 2 for row in made.rows)
        assert max(row.counts[-1] for row in made.rows) == 1500


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("race.low", ()),
        ("race.head", ()),
        ("race.auto", ("askless", "random", "bait", "lookahead", "alfamix", "oracle")),
    ],
)
def test_it_runs(name, some, tmp_path):
    made = preset(name, "smoke")
    rows = tuple(r for r in made.rows if r.group.endswith("ours") and (not some or r.method in some))
    results = run(dataclasses.replace(made, rows=rows, seeds=(0,)), tmp_path)
    assert results.failures == []
    assert {r.method for r in results.records} == {r.method for r in rows}
    write(results, tmp_path)
    assert "oracle" in (tmp_path / "tables.md").read_text()
