"""The Pi-model (Laine & Aila, ICLR 2017), in the form of Oliver et al. (2018)."""

from torch import Tensor, nn

from askless.base.options import NotNegative, options
from askless.learn.batchnorm import statistics_kept
from askless.learn.consistency import Consistency, consistency_loss
from askless.learn.material import Material
from askless.learn.ranks import unwrapped
from askless.learn.training import Method


@options
class PiModel(Consistency):
    """The target is a second stochastic pass of the same network.

    `weight`: of the unlabelled items, which rises over a share `ramp` of the steps.

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, learner=al.PiModel(steps=5), net="mlp", seed=0)
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> learner.predict_pool().shape
    (100, 2)
    """

    lr: NotNegative = 3e-4
    weight: NotNegative = 20.0

    def method(self, net: nn.Module, material: Material, classes: int) -> "PiModelLoss":
        return PiModelLoss(self, net, material)


class PiModelLoss(Method):
    def __init__(self, options: PiModel, net: nn.Module, material: Material) -> None:
        self.options, self.net, self.material = options, net, material

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        return consistency_loss(self.net, self._second_pass, self.material, self.options, step)

    def _second_pass(self, x: Tensor) -> Tensor:
        with statistics_kept(self.net):
            return unwrapped(self.net)(x)  # no gradient, so nothing to share
