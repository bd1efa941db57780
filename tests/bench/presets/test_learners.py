"""The preset `learners`: what is compared, on what, and that it runs."""

import dataclasses

import pytest

from askless.bench import preset, run
from askless.bench.report import write
from askless.bench.results import compared
from askless.data.fetch import DATA_SETS
from askless.learn import Auto

LEARNERS = {"auto", "label propagation", "supervised", "fixmatch", "fixmatch+darp"}
LEARNERS |= {"mean teacher", "pi-model"}


def test_every_learner_gets_the_labels_of_every_pool():
    made = preset("learners")
    assert (made.baseline, made.across, len(made.seeds)) == ("auto", "learners", 10)
    assert {row.method for row in made.rows} == {"random labels", "chosen labels"}
    pools = {(row.data.data.name, row.data.data.tail) for row in made.rows}
    assert len(pools) == 8
    assert all(name == "digits" or DATA_SETS[name].from_package is not None for name, _ in pools)
    whole = preset("learners", "full").rows
    assert len({(row.data.data.name, row.data.data.tail) for row in whole}) == 13
    for row in made.rows:
        assert {row.learner_name, *dict(row.value)} == LEARNERS
        assert row.learner == Auto()
        assert row.start == 0


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    made = dataclasses.replace(preset("learners", "smoke"), seeds=(0,))
    folder = tmp_path_factory.mktemp("learners")
    return run(made, folder, workers=1), folder


def test_it_runs_and_compares_learners(results):
    found, folder = results
    assert found.failures == []
    turned = compared(found)
    assert {r.method for r in turned.records} == LEARNERS
    assert {r.group for r in turned.records} == {"digits, random labels", "digits, chosen labels"}
    assert {r.metric for r in turned.records} >= {"unlabelled_accuracy", "test_accuracy", "calibration_error"}
    assert {r.method for r in turned.times if r.metric == "fit_seconds"} == LEARNERS
    write(found, folder)
    tables = (folder / "tables.md").read_text()
    assert "AUBC minus auto, points" in tables
    assert "One set of acquisitions" not in tables
    assert "random labels" in (folder / "results.csv").read_text()  # the numbers as they were measured
