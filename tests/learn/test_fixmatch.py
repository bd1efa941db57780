"""FixMatch by hand on a batch of four, and its refinement by DARP."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from askless.base.errors import InputError
from askless.data import PlainViews, as_pool
from askless.learn import DARP, FixMatch, Task, fixmatch
from askless.learn.fixmatch import FixMatchLoss, Refinement
from askless.learn.material import Material
from askless.learn.ranks import ALONE


class Fixed:
    """Material with one labelled and three unlabelled items; views are known, and logits are read off them."""

    size = 3
    device = torch.device("cpu")
    ranks = ALONE

    def labelled(self, size):
        return torch.tensor([[2.0, 0.0]]), torch.tensor([0])

    def unlabelled(self, size):
        assert size == 3
        return torch.arange(3)

    def weak(self, items):
        return torch.tensor([[4.0, 0.0], [0.0, 5.0], [0.5, 0.0]])  # confident, confident, unsure

    def strong(self, items):
        return torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]])

    def class_counts(self, classes):
        return np.array([1.0, 0.0])


def test_the_loss_of_four_examples_by_hand():
    method = FixMatchLoss(FixMatch(batch=1, mu=3, tau=0.95, weight=2.0), nn.Identity(), Fixed(), 2)
    loss, numbers = method.loss(0)
    ce = lambda a, b: float(np.log1p(np.exp(b - a)))  # noqa: E731  cross entropy of logits (a, b) at the first
    labelled = ce(2.0, 0.0)
    # sigmoid(4) = .982 and sigmoid(5) = .993 pass .95, sigmoid(.5) = .62 does not; the sum is divided by all three.
    unlabelled = (ce(1.0, 0.0) + ce(0.0, 1.0)) / 3
    assert loss.item() == pytest.approx(labelled + 2.0 * unlabelled, rel=1e-6)
    assert numbers["kept"] == pytest.approx(2 / 3)
    assert numbers["labelled"] == pytest.approx(labelled, rel=1e-6)
    assert numbers["unlabelled"] == pytest.approx(unlabelled, rel=1e-6)


def test_temperature_sharpens_and_the_threshold_counts_itself():
    sharp = FixMatchLoss(FixMatch(batch=1, mu=3, temperature=0.1), nn.Identity(), Fixed(), 2).loss(0)[1]
    assert sharp["kept"] == 1
    edge = float(torch.sigmoid(torch.tensor(4.0)))
    assert FixMatchLoss(FixMatch(batch=1, mu=3, tau=edge), nn.Identity(), Fixed(), 2).loss(0)[1][
        "kept"
    ] == pytest.approx(2 / 3)


def test_no_gradient_flows_through_the_pseudo_labels():
    scale = nn.Parameter(torch.ones(()))

    class Scaled(nn.Module):
        def forward(self, x):
            return x * scale

    loss, _ = FixMatchLoss(FixMatch(batch=1, mu=3), Scaled(), Fixed(), 2).loss(0)
    (gradient,) = torch.autograd.grad(loss, scale)

    # By hand: d/ds CE(s * (a, b)) for the labelled and the two kept strong views; nothing from the weak ones.
    def slope(a, b, label):
        p = torch.softmax(torch.tensor([a, b]), 0)
        return float(p @ torch.tensor([a, b]) - (a if label == 0 else b))

    expected = slope(2.0, 0.0, 0) + (slope(1.0, 0.0, 0) + slope(1.0, 0.0, 1)) / 3
    assert float(gradient) == pytest.approx(expected, rel=1e-5)


def interleave(x, groups):
    """The order in which FixMatch's multi-device code mixes a batch (METHODS 1.2)."""
    return x.reshape(groups, -1, *x.shape[1:]).transpose(0, 1).reshape(x.shape)


def test_interleaving_is_a_permutation_that_leaves_the_loss_alone():
    # So on one device it is left out.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(15 * 4, 6, generator=generator, dtype=torch.float64)
    mixed = interleave(x, 15)
    assert torch.equal(interleave(mixed, 4), x)
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double().train()
    y = torch.randint(3, (60,), generator=generator)
    plain = F.cross_entropy(net(x), y)
    undone = F.cross_entropy(interleave(net(mixed), 4), y)
    assert plain.item() == pytest.approx(undone.item(), rel=1e-12)


def test_refinement_waits_for_the_warm_up_then_holds_its_solution_between_solves():
    refinement = Refinement(DARP(warm_up=0.5, every=3, alpha=float("inf")), 10, Fixed(), 2)
    q = torch.tensor([[0.99, 0.01], [0.98, 0.02], [0.97, 0.03]], dtype=torch.float64)
    items = torch.arange(3)
    target, mask = refinement(q, items, 4, 0.95)
    assert torch.equal(target, q)
    assert mask.all()
    first, _ = refinement(q, items, 5, 0.95)
    assert torch.allclose(first.sum(dim=0), torch.full((2,), 1.5, dtype=torch.float64))  # uniform over three items
    other = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
    stale, _ = refinement(other, items, 6, 0.95)
    assert torch.equal(stale, first)
    fresh, _ = refinement(other, items, 8, 0.95)
    assert not torch.equal(fresh, first)


@pytest.mark.parametrize(
    ("mask_on", "kept"), [("refined", [False, True]), ("original", [True, False]), ("both", [False, False])]
)
def test_the_mask_may_look_at_either_confidence(mask_on, kept):
    refinement = Refinement(DARP(warm_up=0.0, mask_on=mask_on), 10, Fixed(), 2)
    refinement.X = torch.tensor([[0.6, 0.4], [0.01, 0.99], [0.5, 0.5]], dtype=torch.float64)
    q = torch.tensor([[0.99, 0.01], [0.4, 0.6]])
    _, mask = refinement(q, torch.tensor([0, 1]), 1, 0.95)
    assert mask.tolist() == kept


def test_the_target_may_be_the_labelled_frequencies_or_counts():
    assert Refinement(DARP(), 10, Fixed(), 2).target is None
    assert Refinement(DARP(target="labelled"), 10, Fixed(), 2).target == pytest.approx([1.0, 0.0], abs=1e-9)
    assert Refinement(DARP(target=[3, 1]), 10, Fixed(), 2).target.tolist() == [3, 1]


def nearest_target(x, labelled, labels, classes):
    views = PlainViews(as_pool(np.asarray(x, dtype=np.float32)))
    task = Task(views, len(x), np.array(labelled), np.array(labels), classes)
    return Refinement(DARP(target="nearest"), 10, Material(task, 0, torch.device("cpu")), classes).target


def test_the_target_may_be_what_each_label_stands_for(monkeypatch):
    """A label in a group of four, one in a group of two, none of the third class: 4, 2 and 0 items, and one more each."""
    x = [[0.0], [0.1], [0.2], [0.3], [5.0], [5.1]]
    assert nearest_target(x, [1, 4], [0, 1], 3).tolist() == [5, 3, 1]
    monkeypatch.setattr(fixmatch, "TILE", 2)
    assert nearest_target(x, [1, 4], [0, 1], 3).tolist() == [5, 3, 1]


def test_what_labels_stand_for_needs_feature_vectors():
    with pytest.raises(
        InputError, match=r"'nearest' needs a pool of feature vectors, got items of shape \(1, 8, 8\); use"
    ):
        nearest_target(np.zeros((3, 1, 8, 8)), [0], [0], 2)
