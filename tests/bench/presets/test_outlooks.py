"""The presets of outlooks: what differs within a group and between groups, and that they run."""

import dataclasses

import pytest

from askless.acquire import DynamicAL, TypiClust
from askless.bench import preset, run
from askless.bench.certain import Certain
from askless.bench.report import write
from askless.learn import FixMatch, Supervised

SCALES = ("full", "small", "smoke")
MODELS = {"linear head", "MLP", "CNN", "label propagation"}


def by_group(made):
    groups = dict.fromkeys(row.group for row in made.rows)
    return {g: {row.method: row for row in made.rows if row.group == g} for g in groups}


@pytest.mark.parametrize("scale", SCALES)
def test_dynamical_and_random_differ_in_the_strategy_alone(scale):
    for rows in by_group(preset("outlook.dynamical", scale)).values():
        strategies = {name: row.strategy for name, row in rows.items()}
        assert strategies.pop("random").name == "random"
        assert strategies == {"dynamical": DynamicAL(), "dynamical, certain": Certain(of=DynamicAL())}
        texts = {repr(dataclasses.replace(row, method="", strategy="random")) for row in rows.values()}
        assert len(texts) == 1
        row = rows["random"]
        assert dict(row.net_options)["dropout"] > 0, "UPS needs passes with dropout"
        assert row.start == row.counts[0], "the start itself is measured"


def test_every_setting_of_appendix_f_is_a_group():
    groups = by_group(preset("outlook.dynamical"))
    assert len(groups) == 8
    for group, rows in groups.items():
        row = rows["dynamical"]
        learner, network, start = group.split(", ")
        assert isinstance(row.learner, FixMatch if learner == "FixMatch" else Supervised)
        assert row.fresh == ("new" if network == "retrained" else False)
        assert row.start_by == (TypiClust() if start == "chosen start" else "random")
        assert (row.learner.optimiser, row.learner.lr, row.learner.schedule) == ("adam", 0.001, "constant")
    assert len(preset("outlook.dynamical").seeds) == 5


@pytest.mark.parametrize("scale", SCALES)
def test_every_set_of_labels_is_valued_by_the_same_four_models(scale):
    made = preset("outlook.successors", scale)
    models = {}
    for row in made.rows:
        assert {row.learner_name, *dict(row.value)} == MODELS
        mine = {row.learner_name: (row.net, row.learner)} | {n: (s.net, s.learner) for n, s in row.value}
        for name, model in mine.items():
            assert models.setdefault(name, model) == model
    for rows in by_group(made).values():
        choosers = ("linear head", "MLP", "CNN")
        assert set(rows) == {"random", *(f"{how} by {who}" for how in ("margin", "askless") for who in choosers)}
        assert all(rows[f"margin by {who}"].learner_name == who for who in choosers)
        assert len({(row.start, row.start_by, row.counts, row.fresh) for row in rows.values()}) == 1


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    made = dataclasses.replace(preset("outlook.successors", "smoke"), seeds=(0,))
    folder = tmp_path_factory.mktemp("successors")
    return run(made, folder, workers=1), folder


def test_the_start_is_worth_the_same_whoever_chooses_next(results):
    found, _ = results
    assert found.failures == []
    first = [r for r in found.records if (r.labels, r.metric) == (20, "test_accuracy")]
    assert {r.learner for r in first} == MODELS
    assert len({r.method for r in first}) == 7
    assert len({(r.learner, r.value) for r in first}) == 4, "a model of its own and a successor are one training"


def test_the_report_shows_what_the_labels_are_worth_to_each_model(results):
    found, folder = results
    write(found, folder)
    tables = (folder / "tables.md").read_text()
    assert "One set of acquisitions, several learners" in tables
    assert all(f"digits, {model}" in tables for model in MODELS)


def test_dynamical_runs(tmp_path):
    made = dataclasses.replace(preset("outlook.dynamical", "smoke"), seeds=(0,))
    found = run(made, tmp_path, workers=1)
    assert found.failures == []
    assert {r.metric for r in found.records} >= set(made.metrics)
    write(found, tmp_path)
    assert (tmp_path / "report.html").read_text().count("<figure>") == 2  # and wins and losses, of two seeds or more
