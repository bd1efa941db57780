"""Mean Teacher and the Pi-model: by hand, and what each takes as its target."""

import math
from pathlib import Path

import pytest
import torch
from torch import nn

import askless.learn
from askless.learn import MeanTeacher, PiModel, Task
from askless.learn.batchnorm import statistics_kept
from askless.learn.consistency import consistency_loss
from askless.learn.material import Material
from askless.learn.mean_teacher import MeanTeacherLoss
from askless.learn.pi_model import PiModelLoss


class Fixed:
    def labelled(self, size):
        return torch.tensor([[2.0, 0.0]]), torch.tensor([1])

    def unlabelled(self, size):
        return torch.arange(1)

    def weak(self, items):
        return torch.tensor([[1.0, 0.0]])


def test_both_terms_are_means_over_labelled_and_unlabelled_items_together():
    options = PiModel(batch=1, weight=20.0, ramp=1.0, steps=10)
    target = lambda x: torch.tensor([[0.0, 0.0], [0.0, 0.0]])  # noqa: E731
    loss, numbers = consistency_loss(nn.Identity(), target, Fixed(), options, step=10)
    ce = math.log(1 + math.exp(2.0))
    p = 1 / (1 + math.exp(-1.0))
    mse = ((p - 0.5) ** 2 + (1 - p - 0.5) ** 2) / 2
    assert loss.item() == pytest.approx(ce / 2 + 20.0 * mse / 2, rel=1e-6)
    assert numbers["consistency_weight"] == 20.0


def test_the_weight_ramps_up_as_exp_of_minus_five_times_the_square():
    options = MeanTeacher(weight=8.0, ramp=0.4, steps=500_000)
    assert options.weight_at(0) == pytest.approx(8 * math.exp(-5))
    assert options.weight_at(100_000) == pytest.approx(8 * math.exp(-5 * 0.25))
    assert options.weight_at(200_000) == options.weight_at(400_000) == 8.0


def material(views, labelled):
    return Material(Task(views, len(views), *labelled, 2), seed=0, device=torch.device("cpu"))


def test_the_teacher_is_the_average_of_the_student_in_train_mode(views, labelled, make_net):
    net = make_net()
    method = MeanTeacherLoss(MeanTeacher(batch=4), net, material(views, labelled))
    assert method.teacher.model.training
    with torch.no_grad():
        net[0].weight.add_(1.0)
    before = method.teacher.model[0].weight.clone()
    method.after_step(0)  # decay 1/2: halfway to the student
    assert torch.allclose(method.teacher.model[0].weight, before + 0.5, atol=1e-5)
    with torch.no_grad():
        net[0].weight.add_(0.5)
    method.after_step(99)  # decay .95, and the student is 1 ahead
    assert torch.allclose(method.teacher.model[0].weight, before + 0.5 + 0.05, atol=1e-5)


def test_the_teachers_first_decays_are_those_of_a_counter_that_starts_at_one(views, labelled, make_net):
    net = make_net()
    method = MeanTeacherLoss(MeanTeacher(batch=4), net, material(views, labelled))
    decays = []
    for step in (0, 1, 2, 17, 18, 19, 500):
        method.after_step(step)
        decays.append(method.teacher.decay_at(step))
    assert decays == pytest.approx([1 / 2, 2 / 3, 3 / 4, 18 / 19, 0.95, 0.95, 0.95])


def test_extra_passes_leave_the_running_statistics_alone(views, labelled, make_net):
    net = make_net()
    for make in (
        lambda: PiModelLoss(PiModel(batch=4), net, material(views, labelled)),
        lambda: MeanTeacherLoss(MeanTeacher(batch=4), net, material(views, labelled)),
    ):
        method = make()
        before = int(net[1].num_batches_tracked)
        method.loss(0)
        assert int(net[1].num_batches_tracked) == before + 1
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    mean = net[1].running_mean.clone()
    with statistics_kept(net):
        inside = net.train()(x)
    assert torch.equal(mean, net[1].running_mean)
    assert torch.allclose(inside, net(x))
    assert not torch.equal(mean, net[1].running_mean)


def test_the_two_files_differ_only_where_the_papers_differ():
    folder = Path(askless.learn.__file__).parent
    one, two = ((folder / f"{name}.py").read_text().splitlines() for name in ("mean_teacher", "pi_model"))
    assert len(one) < 60
    assert len(two) < 60
    shared = set(one) & set(two)
    assert any("consistency_loss" in line for line in shared)
