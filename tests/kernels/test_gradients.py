import logging

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from askless.base.errors import InputError, ModelError
from askless.kernels import gradient_sq_by_class, gradient_stats, loss_gradients
from askless.kernels.evaluation import differentiating
from askless.kernels.route import choose_route


def close(a, b, rtol=1e-8):
    torch.testing.assert_close(a, b, rtol=rtol, atol=1e-12)


def test_stats_are_those_of_plain_autograd(case):
    g, h = loss_gradients(case.model, case.x), loss_gradients(case.model, case.x[:4], case.labels[:4])
    stats = gradient_stats(case.model, case.x, against=(case.x[:4], case.labels[:4]), batch_size=4)
    close(stats.sq, g.square().sum(1))
    close(stats.dot, g @ h.sum(0))


def test_stats_take_given_labels_and_pseudo_labels_in_the_set_compared_with(case):
    g, h = loss_gradients(case.model, case.x, case.labels), loss_gradients(case.model, case.x)
    stats = gradient_stats(case.model, case.x, case.labels, against=(case.x, None))
    close(stats.sq, g.square().sum(1))
    close(stats.dot, g @ h.sum(0))


def test_sq_by_class_is_that_of_plain_autograd(case):
    expected = [loss_gradients(case.model, case.x, torch.full((6,), c)).square().sum(1) for c in range(3)]
    close(gradient_sq_by_class(case.model, case.x, batch_size=4), torch.stack(expected, dim=1))


def test_only_the_expected_parameters_go_without_a_rule(case, caplog):
    with differentiating(case.model):
        route = choose_route(case.model, case.x)
    assert set(route.other) == case.other
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_dots_with_the_set_itself_add_up_to_the_training_dynamics(net):
    case = net("residual")
    dot = gradient_stats(case.model, case.x, case.labels, against=(case.x, case.labels)).dot
    close(dot.sum(), loss_gradients(case.model, case.x, case.labels).sum(0).square().sum())


def test_an_empty_set_has_zero_dots(net):
    case = net("mlp")
    stats = gradient_stats(case.model, case.x, against=(case.x[:0], np.zeros(0, dtype=int)))
    assert stats.dot.tolist() == [0.0] * 6
    assert gradient_stats(case.model, case.x).dot is None


def test_one_linear_layer_worked_by_hand():
    net = nn.Linear(1, 2).double()
    net.weight.data.zero_(), net.bias.data.zero_()  # p = (1/2, 1/2), so |p - e_y|^2 = 1/2
    x = torch.tensor([[1.0], [2.0], [0.0]])
    assert gradient_stats(net, x).sq.tolist() == pytest.approx([1.0, 2.5, 0.5])
    assert gradient_stats(net, x, [0, 1, 0], against=(x[:1], [0])).dot.tolist() == pytest.approx([1.0, -1.5, 0.5])


@pytest.mark.parametrize("name", ["conv and batch norm", "residual", "grouped conv", "tokens", "attention"])
def test_float32_is_close_to_float64(net, name):
    case = net(name)
    exact = gradient_stats(case.model, case.x, case.labels, against=(case.x, case.labels))
    single = gradient_stats(case.model.float(), case.x, case.labels, against=(case.x, case.labels))
    close(single.sq, exact.sq, rtol=1e-4)
    assert single.sq.dtype == torch.float64
    assert (single.dot - exact.dot).abs().max() < 1e-4 * exact.sq.max()


def test_weights_used_behind_a_layers_back_are_found_and_done_exactly(caplog):
    class Sly(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.head(torch.tanh(F.linear(torch.tanh(self.body(x)), self.body.weight)))

    torch.manual_seed(0)
    model, x = Sly().double(), torch.randn(5, 4)
    g = loss_gradients(model, x)
    stats = gradient_stats(model, x, against=(x, None))
    close(stats.sq, g.square().sum(1))
    close(stats.dot, g @ g.sum(0))
    assert "disagree with autograd" in caplog.text


@pytest.fixture
def all_ways():
    """Every number of these examples in batches of four, with given and pseudo labels, against plain autograd."""

    def check(model, x, labels):
        g, h = loss_gradients(model, x, labels), loss_gradients(model, x)
        stats = gradient_stats(model, x, labels, against=(x, None), batch_size=4)
        close(stats.sq, g.square().sum(1))
        close(stats.dot, g @ h.sum(0))
        stats = gradient_stats(model, x, against=(x[:5], labels[:5]), batch_size=4)
        close(stats.sq, h.square().sum(1))
        close(stats.dot, h @ g[:5].sum(0))
        expected = [loss_gradients(model, x, torch.full((len(x),), c)).square().sum(1) for c in range(3)]
        close(gradient_sq_by_class(model, x, batch_size=4), torch.stack(expected, dim=1))

    return check


@pytest.mark.parametrize("routed", [0, 1, 2, 3])
@pytest.mark.parametrize("seen", [True, False])
def test_an_expert_that_gets_some_rows_of_a_later_batch_is_done_exactly(net, all_ways, caplog, routed, seen):
    model = net("gated").model
    x = torch.randn(100, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[:, 0] = 1.0  # to the expert
    at = [19, 39, 59, 79] if seen else [4, 5, 6, 7]  # among the examples of the self-check, or in the second batch only
    x[at[routed:], 0] = -1.0
    all_ways(model, x, torch.arange(100) % 3)
    if not seen:
        assert "the layer of expert.weight, expert.bias did not run once over all 4 examples of a batch" in caplog.text
        assert len(caplog.records) == 3  # once in each call: the further batches take the exact route at once


@pytest.mark.parametrize("n", [2, 3, 4, 9])
@pytest.mark.parametrize(
    "order",
    [
        lambda x: x[:, 0].argsort(),
        lambda x: x[:, 0].argsort(descending=True),
        lambda x: torch.arange(len(x)).flip(0),
        lambda x: torch.arange(len(x)).roll(1),
    ],
    ids=["up", "down", "flip", "roll"],
)
def test_a_network_that_reorders_its_examples_is_done_exactly(all_ways, caplog, order, n):
    class Reorders(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x):
            at = order(x)
            return self.head(torch.tanh(self.body(x[at]))[at.argsort()])

    torch.manual_seed(0)
    model, x = Reorders().double(), torch.randn(n, 4, dtype=torch.float64)
    for examples in (x, x[x[:, 0].argsort()]):
        caplog.clear()
        all_ways(model, examples, torch.arange(n) % 3)
        assert "disagree with autograd" in caplog.text


@pytest.mark.parametrize("times", [0, 2])
def test_a_layer_that_one_batch_runs_twice_or_not_at_all_is_done_exactly(caplog, times):
    class Moody(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            for _ in range(int(x[0, 0])):  # the same for all examples of a batch below
                x = torch.tanh(self.body(x))
            return self.head(x)

    torch.manual_seed(0)
    model, x, labels = Moody().double(), torch.randn(101, 4, dtype=torch.float64), torch.arange(101) % 3
    x[:, 0] = 1.0
    x[4:8, 0] = times
    g = loss_gradients(model, x, labels)
    stats = gradient_stats(model, x, labels, against=(x, labels), batch_size=4)
    close(stats.sq, g.square().sum(1))
    close(stats.dot, g @ g.sum(0))
    assert "did not run once" in caplog.text


def test_layers_behind_a_cut_have_no_gradient():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.neck, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

        def forward(self, x):
            with torch.no_grad():
                h = self.body(x)
            return self.head(self.neck(h).detach())

    model, x = Cut().double(), torch.randn(4, 4)
    close(gradient_stats(model, x).sq, loss_gradients(model, x).square().sum(1))


def test_a_confident_network_does_not_raise_a_false_alarm(caplog):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 4))
    model[2].weight.data.mul_(100)
    gradient_stats(model, torch.randn(300, 5))
    assert not caplog.records


def test_weight_norm_and_hooks_that_change_outputs_are_handled():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))).double()
    model[0].register_forward_hook(lambda layer, args, output: 3 * output)
    x = torch.randn(4, 4)
    close(gradient_stats(model, x).sq, loss_gradients(model, x).square().sum(1))
    with differentiating(model):
        route = choose_route(model, x)
    assert set(route.other) == {f"2.parametrizations.weight.original{i}" for i in (0, 1)}


def test_looping_is_logged_where_vmap_fails(net, caplog):
    caplog.set_level(logging.INFO)
    case = net("not for vmap")
    gradient_stats(case.model, case.x)
    assert "vmap cannot take this model" in caplog.text


@pytest.mark.parametrize("flat", ["flatten", "view"])
def test_images_go_channels_last_through_networks_that_can_take_it(caplog, flat):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 3 * 3, 3)

        def forward(self, x):
            layouts.add(x.is_contiguous())
            h = torch.tanh(self.body(x))
            return self.head(h.view(len(x), -1) if flat == "view" else h.flatten(1))

    caplog.set_level(logging.INFO)
    torch.manual_seed(0)
    layouts = set()
    model, x = Net().double(), torch.randn(7, 3, 5, 5, dtype=torch.float64)
    g = loss_gradients(model, x)
    layouts.clear()
    stats = gradient_stats(model, x, against=(x, None), batch_size=4)
    close(stats.sq, g.square().sum(1))
    close(stats.dot, g @ g.sum(0))
    assert False in layouts
    with differentiating(model):
        assert choose_route(model, x).channels_last == (flat != "view")
    assert ("cannot take channels last" in caplog.text) == (flat == "view")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], "expected 6 whole-number labels, one per example, got torch.int64 of shape \\(2,\\)"),
        ([0.0] * 6, "got torch.float64"),
        ([0, 1, 2, 3, 0, 1], "expected labels in 0..2, the model's classes, got 0..3"),
    ],
)
def test_labels_that_do_not_fit_are_refused(net, labels, message):
    case = net("mlp")
    with pytest.raises(InputError, match=message):
        gradient_stats(case.model, case.x, labels)


def test_a_set_to_compare_with_that_is_no_pair_is_refused(net):
    case = net("mlp")
    with pytest.raises(InputError, match=r"expected against=\(xs, ys\), got Tensor"):
        gradient_stats(case.model, case.x, against=case.x[:2])


def test_models_without_two_logits_or_anything_to_train_are_refused(net):
    with pytest.raises(ModelError, match="a logit for each class, got a single one"):
        gradient_stats(nn.Linear(4, 1), torch.randn(3, 4))
    with pytest.raises(ModelError, match="trainable parameters, got none"):
        gradient_stats(nn.Linear(4, 2).requires_grad_(False), torch.randn(3, 4))
    with pytest.raises(ModelError, match=r"logits \(n, classes\), got shape \(2, 2, 2\)"):
        gradient_stats(nn.Linear(4, 2), torch.randn(3, 2, 4))
