"""Training on the labelled items only: the yardstick."""

from torch import Tensor, nn
from torch.nn import functional as F

from askless.learn.material import Material
from askless.learn.training import Method, Training
from askless.options import options


@options
class Supervised(Training):
    """Cross entropy on weak views of the labelled items."""

    def method(self, net: nn.Module, material: Material, classes: int) -> "SupervisedLoss":
        return SupervisedLoss(self, net, material)


class SupervisedLoss(Method):
    def __init__(self, options: Supervised, net: nn.Module, material: Material) -> None:
        self.options, self.net, self.material = options, net, material

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        x, y = self.material.labelled(self.options.batch)
        loss = F.cross_entropy(self.net(x), y)
        return loss, {}
