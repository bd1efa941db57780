"""Fully connected networks on flattened inputs; the linear one has no hidden layer."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from torch import Tensor, nn

from askless.base.errors import InputError
from askless.base.options import Share, check_annotated, check_count
from askless.nets.checks import Net, input_shape


class MLP(Net):
    """Linear layers of `hidden` units with ReLU, each followed by `dropout` where that is above 0; then the head. Features
    are the last hidden layer."""

    def __init__(self, shape: Any, classes: int, *, hidden: Sequence[int] = (128, 128), dropout: Share = 0.0) -> None:
        super().__init__()
        if isinstance(hidden, str) or not isinstance(hidden, Sequence):
            raise InputError(f"mlp: expected hidden to be a sequence of sizes such as (128, 128), got {hidden!r}")
        for size in hidden:
            check_count("mlp", "every size in hidden", size)
        check_annotated("mlp", MLP.__init__, locals())
        sizes = [prod(input_shape("mlp", shape)), *hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for i, o in pairwise(sizes):
            layers += [nn.Linear(i, o), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(sizes[-1], classes)


class Linear(Net):
    """The head alone, on the flattened input: logistic regression; `dropout` leaves out inputs."""

    def __init__(self, shape: Any, classes: int, *, dropout: Share = 0.0) -> None:
        super().__init__()
        check_annotated("linear", Linear.__init__, locals())
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.head = nn.Linear(prod(input_shape("linear", shape)), classes)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1) if self.dropout is None else self.dropout(x.flatten(1))
