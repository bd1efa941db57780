"""The race: who takes part, on what, and that every strategy works under every classifier."""

import dataclasses

import pytest

from askless.acquire import STRATEGIES
from askless.bench import preset, run
from askless.bench.logistic import LogisticRegression
from askless.bench.presets import race
from askless.bench.presets.pools import Rotated
from askless.bench.report import write
from askless.data.fetch import DATA_SETS
from askless.learn import Auto, Supervised

RACES = ("race.logistic", "race.head", "race.auto")
MANY_CLASSES = {"R52", "20 Newsgroups", "letter"}
SIZES = {"groceries": 732, "digits": 1397}
EVERYONE = {*STRATEGIES} - {"bald", "batchbald"}


def by_group(made):
    groups = dict.fromkeys(row.group for row in made.rows)
    return {g: {row.method: row for row in made.rows if row.group == g} for g in groups}


def innermost(data):
    """The data that wrappers prepare."""
    while hasattr(data, "of"):
        data = data.of
    return data.data


@pytest.mark.parametrize("name", [p.name for p in race.PRESETS])
@pytest.mark.parametrize("scale", ["full", "small"])
def test_nothing_but_the_strategy_differs_within_a_group(name, scale):
    made = preset(name, scale)
    assert made.baseline == "askless"
    for rows in by_group(made).values():
        assert {"askless", "random", "margin", "badge"} <= set(rows)
        shared = [(r.data, r.net, r.learner, r.counts, r.start, r.start_by) for r in rows.values()]
        assert all(s == shared[0] for s in shared)
        assert len(shared[0][3]) >= 4  # a third each, beside the start


@pytest.mark.parametrize("name", RACES)
def test_the_race_has_many_pools_some_of_many_classes_and_twenty_seeds(name):
    made = preset(name)
    assert (made.area, len(made.seeds)) == ("log labels", 20)
    pools = {group.rpartition(", ")[0] for group in by_group(made)}
    assert len(pools) >= 10
    assert pools >= MANY_CLASSES
    ways = ("ours", "PCA") if name == "race.logistic" else ("ours",)
    assert set(by_group(made)) == {f"{pool}, {way}" for pool in pools for way in ways}
    assert all((row.start, row.start_by) == (10, "random") for row in made.rows)


def test_every_strategy_that_a_linear_head_has_arrays_for_takes_part():
    def methods(name, scale):
        return {row.method for row in preset(name, scale).rows}

    assert all(methods(name, "full") == EVERYONE | {"oracle"} for name in RACES)
    assert methods("race.logistic", "small") == (EVERYONE | {"oracle"}) - {"bait"}
    assert methods("race.budgets", "small") == EVERYONE - {"bait"}
    assert methods("race.standardised", "small") == EVERYONE
    assert methods("race.head", "small") == EVERYONE - {"bait", "probcover", "lookahead", "npc", "refine"}
    assert "bait" in methods("race.bait", "small")
    learners = [preset(name, "full").rows[0].learner for name in RACES]
    assert [type(learner) for learner in learners] == [LogisticRegression, Supervised, Auto]


@pytest.mark.parametrize("scale", ["full", "small"])
def test_pca_is_of_the_columns_that_the_encoder_gives(scale):
    """Standardised main directions would be noise as loud as the first of them."""
    for rows in by_group(preset("race.logistic", scale)).values():
        data = rows["askless"].data
        assert not isinstance(getattr(data, "of", None), Rotated)


@pytest.mark.parametrize("scale", ["full", "small"])
def test_pools_come_by_package_name_and_at_most_half_of_them_is_asked_for(scale):
    made = preset("race.logistic", scale)
    inner = {row.group: innermost(row.data) for row in made.rows}
    assert all(data.name == "digits" or DATA_SETS[data.name].from_package is not None for data in inner.values())
    assert set(made.developed) < set(inner)
    if scale == "small":
        assert all(row.counts[-1] <= SIZES.get(inner[row.group].name, race.ITEMS) / 2 for row in made.rows)
        assert {row.counts[-1] for row in made.rows} == {320, 640}


def test_the_tables_on_cifar10_ask_as_the_issue_has_it():
    budgets, standardised = preset("race.budgets").rows[0], preset("race.standardised").rows[0]
    assert (budgets.start, budgets.counts) == (0, (100, 200, 400, 800, 1500, 2500))
    assert (standardised.start, standardised.start_by) == (10, "balanced")
    assert standardised.counts == (10, 30, 50, 70, 90)
    assert standardised.data.of == budgets.data
    assert len(preset("race.budgets").seeds) == len(preset("race.standardised").seeds) == 10


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("race.logistic", ()),
        ("race.head", ("askless", "badge", "lookahead", "alfamix", "oracle")),
        ("race.auto", ("askless", "random", "lookahead")),
        ("race.bait", ("askless", "bait")),
        ("race.budgets", ("askless", "margin", "refine")),
        ("race.standardised", ("askless", "typiclust")),
    ],
)
def test_it_runs(name, some, tmp_path):
    made = preset(name, "smoke")
    first = made.rows[0].group
    rows = tuple(r for r in made.rows if r.group == first and (not some or r.method in some))
    results = run(dataclasses.replace(made, rows=rows, seeds=(0,)), tmp_path)
    assert results.failures == []
    assert {r.method for r in results.records} == {r.method for r in rows}
    write(results, tmp_path)
    assert "askless" in (tmp_path / "tables.md").read_text()
