"""Every learner goes by its name, and learns in one way."""

import copy

import numpy as np
import pytest

import askless as al
from askless.learn import LEARNERS, Learner, Task, Training, as_learner, make
from askless.learn.calibration import calibrated

x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
y = (x[:, 0] > 0).astype(np.int64)
STEPS = {"steps": 3, "batch": 8}


def made(name, **options):
    return make(name, **options | (STEPS if issubclass(LEARNERS[name], Training) else {}))


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_keeps_the_protocol(name):
    learner, views = made(name), al.data.views_for(al.data.as_pool(x))
    assert isinstance(learner, Learner)
    net = al.nets.make("linear", classes=2, shape=(4,), seed=0)
    task = Task(views, 40, np.arange(10), y[:10], 2)
    learner.check_views(net, views, 40)
    before = learner.start(calibrated(net, views, 40), task)
    learnt = learner.fit(copy.deepcopy(net), task, seed=1, before=before)
    assert (learnt.model is not None) == learner.has_network
    for seen in (before, learnt):
        assert seen.predict_pool().shape == (40, 2)
        np.testing.assert_allclose(seen.predict_pool(np.array([3, 5])), seen.predict_pool()[[3, 5]], atol=1e-6)
        np.testing.assert_allclose(seen.predict_proba(views.of(x)).sum(axis=1), 1, atol=1e-6)
    assert not np.allclose(before.predict_pool(), learnt.predict_pool())


@pytest.mark.parametrize("name", LEARNERS)
def test_a_loop_takes_a_learner_by_name(name):
    loop = al.ActiveLearner(x, learner=name, classes=2)
    assert loop.learner == make(name)


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(al.OptionError, match="unknown learner 'mean teacher'; did you mean 'mean-teacher'"):
        make("mean teacher")
    with pytest.raises(al.OptionError, match="unknown learner 'x'; the known ones are auto, fixmatch, supervised"):
        as_learner("x")
    for wrong in (al.FixMatch, 3, None):
        with pytest.raises(al.InputError, match="expected a learner such as FixMatch"):
            as_learner(wrong)
