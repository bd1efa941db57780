"""The tables of our own strategy: what is compared, on what, and that they run."""

import dataclasses

import numpy as np
import pytest
import torch

from askless import Askless
from askless.bench import Data, preset, run
from askless.bench.presets import own
from askless.learn import FixMatch

OTHERS = {"random", "margin", "badge", "coreset", "typiclust", "npc", "crc", "dynamical", "albl"}
TINY = own.Embedded(data=Data(name="digits", items=200, test=50), backbone="raw")


def of(name, scale="small"):
    made = preset(name, scale)
    groups = list(dict.fromkeys(r.group for r in made.rows))
    return made, {g: {r.method: r for r in made.rows if r.group == g} for g in groups}


def test_from_scratch_all_strategies_have_one_set_of_options():
    made, groups = of("askless.scratch")
    assert made.baseline == "random"
    for rows in groups.values():
        assert set(rows) == {"askless", *OTHERS}
        assert rows["askless"].strategy == Askless()
        same = [
            (r.data, r.net, r.learner, r.start, r.counts, r.start_by) for r in rows.values()
        ]  # nothing but the strategy differs
        assert all(s == same[0] for s in same)


def test_from_scratch_there_are_five_seeds():
    made, groups = of("askless.scratch")
    assert len(made.seeds) == 5
    assert set(groups) == {"digits", "Fashion-MNIST"}
    assert {(r.net, type(r.learner)) for rows in groups.values() for r in rows.values()} == {("small-cnn", FixMatch)}


def test_the_ablation_changes_one_thing_at_a_time():
    made, groups = of("askless.ablation")
    assert made.baseline == "askless"
    for rows in groups.values():
        for row in rows.values():
            if isinstance(row.strategy, Askless) and row.method != "askless":
                changed = [f.name for f in dataclasses.fields(Askless) if getattr(row.strategy, f.name) != f.default]
                assert len(changed) == 1


def test_images_become_features_once_for_pool_and_test():
    pool = TINY()
    assert (pool.kind, pool.x.shape, pool.test[0].shape) == ("features", (200, 64), (50, 64))
    assert pool.x.mean(dim=0) == pytest.approx(torch.zeros(64), abs=1e-3)
    tail = dataclasses.replace(TINY, tail=10)()
    assert np.bincount(tail.labels).max() > 5 * np.bincount(tail.labels).min()
    copies = dataclasses.replace(TINY, times=3)()
    assert len(copies) == 600
    assert (copies.labels[:200] == copies.labels[400:]).all()


@pytest.mark.parametrize("name", ["askless.scratch", "askless.ablation"])
def test_it_runs(name, tmp_path):
    made, groups = of(name, "smoke")
    made = dataclasses.replace(made, seeds=(0,), rows=tuple(r for r in made.rows if r.group == list(groups)[-1]))
    results = run(made, tmp_path, workers=1)
    assert results.failures == []
    assert {r.method for r in results.records} == {r.method for r in made.rows}
