"""Fully connected networks on flattened inputs; the linear one has no hidden layer."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from torch import Tensor, nn

from askless.errors import InputError
from askless.nets.checks import input_shape
from askless.options import check_count


class MLP(nn.Module):
    """Linear layers of `hidden` units with ReLU, then the head; features are the last hidden layer."""

    def __init__(self, shape: Any, classes: int, *, hidden: Sequence[int] = (128, 128)) -> None:
        super().__init__()
        if isinstance(hidden, str) or not isinstance(hidden, Sequence):
            raise InputError(f"mlp: expected hidden to be a sequence of sizes such as (128, 128), got {hidden!r}")
        for size in hidden:
            check_count("mlp", "every size in hidden", size)
        sizes = [prod(input_shape("mlp", shape)), *hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for i, o in pairwise(sizes):
            layers += [nn.Linear(i, o), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(sizes[-1], classes)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Linear(nn.Module):
    """The head alone, on the flattened input: logistic regression."""

    def __init__(self, shape: Any, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(prod(input_shape("linear", shape)), classes)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))
