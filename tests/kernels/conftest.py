"""Small networks of every kind, in float64, with inputs; fixtures, since importlib mode has no sibling imports."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    """Pre-activation block with in-place activations and a strided shortcut."""

    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(i), nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(o), nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(i, o, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = F.leaky_relu(self.bn1(x), 0.1, inplace=True)
        return self.shortcut(h) + self.conv2(F.leaky_relu(self.bn2(self.conv1(h)), 0.1, inplace=True))


class Pool(nn.Module):
    """Mean over everything after the channels."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).mean(2)


class TokenMean(nn.Module):
    """(n, T, d) -> (n, d)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Attention(nn.Module):
    """Words, a transformer layer, the mean, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 4, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.words(x)).mean(1))


class UsedTwice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.head = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.again(torch.tanh(self.again(torch.tanh(self.first(x)))))))


class Tied(nn.Module):
    """Two layers, one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class TimeFirst(nn.Module):
    """(n, T, d) turned to (T, n, d), as recurrent nets like it."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.tokens(x.transpose(0, 1))).mean(0))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(4, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cell(x)[0][:, -1])


class Scaled(nn.Linear):
    """A linear layer that is not one."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class RawParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.odd, self.head = nn.Parameter(torch.ones(5)), Scaled(4, 5), nn.Linear(5, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.odd(x)) * self.scale)


class NotForVmap(nn.Module):
    """Looks at its numbers, which vmap refuses; and keeps a raw parameter, so that whole gradients are needed."""

    def __init__(self) -> None:
        super().__init__()
        self.shift, self.body, self.head = nn.Parameter(torch.zeros(4)), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x + self.shift)
        return self.head(h if float(h.detach().sum()) > 1e9 else torch.tanh(h))


class Gated(nn.Module):
    """Only some examples, told by their first number, pass through the expert."""

    def __init__(self) -> None:
        super().__init__()
        self.expert, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        routed = torch.nonzero(x[:, 0] > 0)[:, 0]
        if len(routed):
            x = x.clone().index_put((routed,), torch.tanh(self.expert(x[routed])))
        return self.head(x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 6), nn.ReLU(inplace=True), nn.Linear(6, 3))


def frozen() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    for parameter in (net[0].weight, net[0].bias, net[2].bias, net[4].weight):
        parameter.requires_grad_(False)
    return net


def two_names() -> nn.Module:
    """One block under three names, which torch.func.functional_call exchanges three times."""
    block = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh())
    return nn.Sequential(block, block, block, nn.Linear(4, 3))


def conv_bn() -> nn.Module:
    conv = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
    return nn.Sequential(*conv, nn.Conv2d(4, 5, (2, 1)), nn.BatchNorm2d(5), nn.ReLU(), Pool(), nn.Linear(5, 3))


def residual() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, 1, 1), Residual(3, 4, 2), Residual(4, 4, 1), nn.BatchNorm2d(4), Pool(), nn.Linear(4, 3)
    )


def grouped() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding="same", dilation=(1, 2)),
        nn.Tanh(),
        nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=4),
        nn.Tanh(),
        nn.Conv2d(4, 6, (2, 3), padding=(1, 2), dilation=2, groups=2, padding_mode="circular"),
        nn.GroupNorm(3, 6),
        nn.Conv2d(6, 6, 1, stride=(1, 2), groups=3),
        nn.Tanh(),
        Pool(),
        nn.Linear(6, 3),
    )


def conv1d() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 4, 4, stride=3, padding=2), nn.BatchNorm1d(4), nn.Tanh(), Pool(), nn.Linear(4, 3))


def conv3d() -> nn.Module:
    return nn.Sequential(nn.Conv3d(1, 2, 2, padding="valid"), nn.BatchNorm3d(2), nn.Tanh(), Pool(), nn.Linear(2, 3))


def norms() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Tanh(), nn.BatchNorm1d(6), nn.Linear(6, 3, bias=False))


def tokens() -> nn.Module:
    layers = [nn.Embedding(9, 4), nn.Linear(4, 6), nn.LayerNorm((5, 6)), nn.Tanh(), nn.Linear(6, 5)]
    return nn.Sequential(*layers, nn.LayerNorm(5), TokenMean(), nn.Linear(5, 3))


@dataclass(frozen=True)
class Case:
    """A network, and the names of the parameters that no layer rule can take."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    words: int = 0  # whole-number inputs below this
    other: set[str] = field(default_factory=set)


ATTENTION = {
    f"layer.self_attn.{name}" for name in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")
}
GRU = {f"cell.{name}_l0" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
CASES = {
    "linear": Case(lambda: nn.Linear(4, 3), (4,)),
    "mlp": Case(mlp, (2, 4)),
    "frozen parameters": Case(frozen, (4,)),
    "conv and batch norm": Case(conv_bn, (2, 6, 5)),
    "residual": Case(residual, (2, 7, 6)),
    "grouped conv": Case(grouped, (2, 7, 6)),
    "conv1d": Case(conv1d, (2, 11)),
    "conv3d": Case(conv3d, (1, 3, 4, 3)),
    "norms": Case(norms, (4,)),
    "tokens": Case(tokens, (5,), words=9),
    "attention": Case(Attention, (6,), words=7, other=ATTENTION),
    "used twice": Case(UsedTwice, (4,), other={"again.weight", "again.bias"}),
    "two names": Case(two_names, (4,), other={f"0.{i}.{name}" for i in (0, 1) for name in ("weight", "bias")}),
    "tied": Case(Tied, (4,), other={"first.weight", "first.bias", "second.bias"}),
    "time first": Case(TimeFirst, (2, 4), other={"tokens.weight", "tokens.bias"}),
    "recurrent": Case(Recurrent, (5, 4), other=GRU),
    "raw parameter": Case(
        RawParameter, (4,), other={"scale", "odd.weight", "odd.bias", "unused.weight", "unused.bias"}
    ),
    "not for vmap": Case(NotForVmap, (4,), other={"shift"}),
    "gated": Case(Gated, (4,), other={"expert.weight", "expert.bias"}),
}


@dataclass(frozen=True)
class Built:
    name: str
    model: nn.Module
    x: Tensor  # (6, ...)
    labels: Tensor  # (6,)
    other: set[str]


def build(name: str) -> Built:
    case = CASES[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = case.build().double()
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and tensor.ndim == 1:  # norms, biases and running statistics, none trivial
                tensor.data.uniform_(0.5, 2.0)
        shape = (6, *case.shape)
        x = torch.randint(case.words, shape) if case.words else torch.randn(shape, dtype=torch.float64)
        return Built(name, model.train(), x, torch.randint(3, (6,)), case.other)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Built:
    """Every network of the table, in training mode."""
    return build(request.param)


@pytest.fixture
def net() -> Callable[[str], Built]:
    """A network of the table by name."""
    return build
