"""Training on the labelled items only: the yardstick."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from askless.base.options import CountOrZero, Share, options
from askless.learn.material import Material
from askless.learn.training import Method, Training


@options
class Supervised(Training):
    """Cross entropy on weak views of the labelled items.

    `stop_accuracy`: training ends before its last step once the items were right more often than this, as they came in
    training, in more than `stop_epochs` epochs (dynamicAL queries after 10 epochs above .97).

    >>> pool = al.data.two_moons(n=50)
    >>> learner = al.ActiveLearner(pool, learner=al.Supervised(steps=5), net="mlp", seed=0)
    >>> _ = learner.start_balanced(2)
    >>> _ = learner.fit()
    >>> learner.predict_pool().shape
    (100, 2)
    """

    stop_accuracy: Share | None = None
    stop_epochs: CountOrZero = 10

    def method(self, net: nn.Module, material: Material, classes: int) -> "SupervisedLoss":
        return SupervisedLoss(self, net, material)


class SupervisedLoss(Method):
    def __init__(self, options: Supervised, net: nn.Module, material: Material) -> None:
        self.options, self.net, self.material, self.ranks = options, net, material, material.ranks
        self.epoch = -(-len(material.plain_labels()) // (self.ranks.world * options.batch))  # steps
        self.right = self.seen = 0  # in this epoch
        self.above = 0  # epochs whose accuracy was above the mark

    def loss(self, step: int) -> tuple[Tensor, dict[str, float]]:
        x, y = self.material.labelled(self.options.batch)
        logits = self.net(x)
        if self.options.stop_accuracy is not None:
            self.right += self.ranks.total(int((logits.detach().argmax(dim=1) == y).sum()))
            self.seen += self.ranks.world * len(y)
        return F.cross_entropy(logits, y), {}

    def finished(self, step: int) -> bool:
        mark = self.options.stop_accuracy
        if mark is None or step % self.epoch:
            return False
        self.above += self.right > mark * self.seen
        self.right = self.seen = 0
        return self.above > self.options.stop_epochs

    def state_dict(self) -> dict[str, Any]:
        return {"right": self.right, "seen": self.seen, "above": self.above}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.right, self.seen, self.above = state["right"], state["seen"], state["above"]
