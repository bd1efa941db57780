"""Logistic regression as scikit-learn has it, as a learner: what most studies on frozen features classify with."""

import warnings

import numpy as np
import torch
from sklearn import linear_model
from torch import Tensor, nn

from askless.base.options import options
from askless.base.rng import Seed
from askless.data import Views
from askless.kernels import features
from askless.learn.auto import linear_head
from askless.learn.learner import Course, Learnt, Task
from askless.learn.training import Fitted

UNSEEN = -20.0  # logit of a class without labels: those of the others sum to 0, so that its probability is below e^-20


@options
class LogisticRegression:
    """Sets the linear head of a network to scikit-learn's LogisticRegression, with its defaults, of the labelled items."""

    has_network = True
    embedded_views = (0, 0)

    def check_views(self, net: nn.Module, views: Views, size: int) -> None:
        linear_head(net, views.plain(torch.arange(min(size, 8))))

    def start(self, net: nn.Module, task: Task) -> Fitted:
        return Fitted(net, [], task.views, task.size)

    def fit(
        self, net: nn.Module, task: Task, *, seed: Seed = 0, before: Learnt | None = None, course: Course | None = None
    ) -> Fitted:
        task = task.checked()
        rows = task.views.plain(torch.from_numpy(task.labelled)).float()
        head = linear_head(net.cpu(), rows[:8])
        seen, slope, offset = softmax_regression(features(net, rows).numpy(), task.labels)
        with torch.no_grad():
            head.weight.zero_()[seen] = slope
            head.bias.fill_(UNSEEN)[seen] = offset
        return Fitted(net.eval(), [], task.views, task.size)


def softmax_regression(z: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """The classes of the labels (S,), and their slopes (S, d) and offsets (S,), fitted to rows z (n, d)."""
    seen = np.unique(labels)
    if len(seen) == 1:
        return torch.from_numpy(seen), torch.zeros(1, z.shape[1]), torch.zeros(1)
    model = linear_model.LogisticRegression()
    with warnings.catch_warnings():  # about its 100 iterations, and few labels of many classes
        warnings.simplefilter("ignore", UserWarning)
        model.fit(z, labels)
    slope, offset = torch.from_numpy(model.coef_).float(), torch.from_numpy(model.intercept_).float()
    if len(seen) == 2:  # scikit-learn then has the difference of the two
        slope, offset = torch.cat([-slope, slope]) / 2, torch.cat([-offset, offset]) / 2
    return torch.from_numpy(seen), slope, offset
