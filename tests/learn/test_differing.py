"""Views that never differ: what learns from unlabelled items refuses them, and vectors have views that do."""

import numpy as np
import pytest
import torch
from torch import nn

import askless as al
from askless.base.errors import InputError
from askless.learn import Task
from askless.learn.differing import passes_differ

LEARNERS = [al.PiModel(steps=3, batch=4), al.MeanTeacher(steps=3, batch=4), al.FixMatch(steps=3, batch=4, mu=2)]
each_learner = pytest.mark.parametrize("learner", LEARNERS, ids=lambda o: type(o).__name__)


class Same:
    """Every view is the item itself."""

    def __init__(self, views):
        self.views = views

    def __len__(self):
        return len(self.views)

    def plain(self, indices):
        return self.views.plain(indices)

    def weak(self, indices, generator):
        return self.plain(indices)

    strong = weak


@each_learner
def test_views_that_never_differ_are_refused(learner, views, labelled, make_net):
    with pytest.raises(InputError, match=r"needs views that differ: .* would teach nothing; use views with noise"):
        learner.fit(make_net(), Task(Same(views), len(views), *labelled, 2))


@each_learner
def test_a_network_with_dropout_differs_by_itself(learner, views, labelled, make_net):
    learner.fit(make_net(dropout=0.5), Task(Same(views), len(views), *labelled, 2))


def test_supervised_training_needs_no_second_view(views, labelled, make_net):
    al.Supervised(steps=2, batch=4).fit(make_net(), Task(Same(views), len(views), *labelled, 2))


def test_the_look_at_the_network_leaves_it_as_it_was(make_net):
    net = nn.utils.parametrizations.spectral_norm(make_net(dropout=0.5)[0])
    net = nn.Sequential(net, *make_net(dropout=0.5)[1:]).train()
    net[1].eval()  # as one who freezes its statistics does
    before = {name: t.clone() for name, t in net.state_dict().items()}
    state = torch.random.get_rng_state()
    assert passes_differ(net, torch.ones(1, 4))
    assert not passes_differ(make_net(), torch.ones(1, 4))
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (net.training, net[1].training) == (True, False)


def points():
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    return al.data.as_pool((x, (x[:, 0] > 0).astype(int)))


@each_learner
def test_the_loop_refuses_before_any_label_is_asked_for(learner):
    with pytest.raises(InputError, match=f"{type(learner).__name__} needs views that differ"):
        al.ActiveLearner(points(), net="mlp", learner=learner, views=Same(al.data.PlainViews(points())))


@each_learner
def test_unlabelled_vectors_teach_something(learner):
    """Their loss was exactly 0 for the Pi-model, and the weights those of supervised training."""
    trained = []
    for weight in (learner.weight, 0.0):
        options = {**vars(learner), "weight": weight, "steps": 10, **({"tau": 0.0} if hasattr(learner, "tau") else {})}
        loop = al.ActiveLearner(points(), net="mlp", learner=type(learner)(**options), seed=0)
        loop.tell(range(8), loop.pool.labels[:8])
        numbers = loop.fit().metrics[-1]
        assert numbers["unlabelled"] > 0
        trained.append(torch.cat([p.detach().flatten() for p in loop.model.parameters()]))
    assert not torch.equal(*trained)


@each_learner
def test_rows_of_a_scikit_learn_classifier_teach_something(learner):
    X, y = points().x.numpy(), points().labels.copy()
    y[8:] = -1
    seen = []
    for weight in (learner.weight, 0.0):
        options = {**vars(learner), "weight": weight, "steps": 10, **({"tau": 0.0} if hasattr(learner, "tau") else {})}
        seen.append(al.ActiveClassifier(type(learner)(**options)).fit(X, y).predict_proba(X))
    assert not np.array_equal(*seen)


def test_one_weak_view_of_a_frozen_backbone_is_not_enough_for_two(tmp_path):
    pool = al.data.subset(al.data.digits(), 30)
    one, two = (al.Frozen(backbone="raw", weak=weak, strong=1, cache=tmp_path) for weak in (1, 2))
    with pytest.raises(InputError, match=r"two weak views .*Frozen\(weak=2, strong=2\)"):
        al.ActiveLearner(pool, net=one, learner=al.PiModel(steps=1))
    for few in (3, 30):  # two draws of one of two views are often equal
        al.ActiveLearner(al.data.subset(pool, few), net=two, learner=al.PiModel(steps=1), classes=10)
    al.ActiveLearner(pool, net=one, learner=al.FixMatch(steps=1))
    with pytest.raises(InputError, match="the weak and the strong view of an item are equal"):
        al.ActiveLearner(pool, net=al.Frozen(backbone="raw", weak=0, strong=0), learner=al.FixMatch(steps=1))


def test_a_dataset_that_draws_its_own_views_is_taken():
    class Drawn(torch.utils.data.Dataset):
        def __init__(self):
            self.generator = torch.Generator().manual_seed(0)

        def __len__(self):
            return 10

        def __getitem__(self, i):
            return torch.full((3,), float(i)) + torch.rand(3, generator=self.generator)

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    al.ActiveLearner(Drawn(), net=net, learner=al.PiModel(steps=1), classes=2)
