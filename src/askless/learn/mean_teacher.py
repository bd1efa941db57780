"""Mean Teacher (Tarvainen & Valpola, NeurIPS 2017), in the form of Oliver et al. (2018)."""

from typing import Any

from torch import Tensor, nn

from askless.base.options import NotNegative, Share, options
from askless.learn.batchnorm import statistics_kept
from askless.learn.consistency import Consistency, consistency_loss
from askless.learn.ema import Average
from askless.learn.material import Material
from askless.learn.ranks import unwrapped
from askless.learn.training import Method


@options
class MeanTeacher(Consistency):
    """The target is the averaged network, kept in train mode: decay min(1 - 1 / (t + 1), .95) after step t = 1, 2, ...

    `weight`: of the unlabelled items, which rises over a share `ramp` of the steps. `teacher`: the largest decay of the
    average.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, learner=al.MeanTeacher(steps=5), net="mlp", seed=0)
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> learner.predict_pool().shape
    (100, 2)
    """

    lr: NotNegative = 4e-4
    weight: NotNegative = 8.0
    teacher: Share = 0.95

    def method(self, net: nn.Module, material: Material, classes: int) -> "MeanTeacherLoss":
        return MeanTeacherLoss(self, net, material)


class MeanTeacherLoss(Method):
    def __init__(self, options: MeanTeacher, net: nn.Module, material: Material) -> None:
        self.options, self.net, self.material = options, net, material
        self.teacher = Average(unwrapped(net), options.teacher, warm_up=False)
        self.teacher.model.train()

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        with statistics_kept(self.teacher.model):
            return consistency_loss(self.net, self.teacher.model, self.material, self.options, step)

    def after_step(self, step: int) -> None:
        self.teacher.decay = min(1 - 1 / (step + 2), self.options.teacher)  # `step` counts from 0
        self.teacher.update(self.net, step)

    def state_dict(self) -> dict[str, Any]:
        return self.teacher.model.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.teacher.model.load_state_dict(state)
