"""Kernels of infinitely wide networks: against closed forms, slow loops, 50 digits, wide networks and neural-tangents."""

import itertools
import json
import math
import weakref
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from askless.base.errors import InputError, OptionError
from askless.kernels import InfiniteCNN, InfiniteMLP, infinite, ntk
from askless.kernels.infinite import diagonal
from askless.linalg import gram_score
from askless.theory import wide_relu_kernel

ORACLE = json.loads(Path(__file__).with_name("neural_tangents.json").read_text())
CNNS = [
    InfiniteCNN(depth=1),
    InfiniteCNN(depth=3, sigma_w=1.3, sigma_b=0.4),
    InfiniteCNN(depth=2, kernel=2, padding=0, sigma_b=0.2),
    InfiniteCNN(depth=3, kernel=3, padding=2, stride=(2, 1, 2), sigma_b=0.1),
    InfiniteCNN(depth=2, readout="flatten"),
    InfiniteCNN(depth=3, kernel=3, padding=1, stride=(1, 2, 1), readout="flatten", sigma_w=1.2, sigma_b=0.3),
]


def close(a, b, tol=1e-12):
    torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), rtol=tol, atol=tol)


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# --- the short obvious way: a pair at a time, with arccos --------------------------------------------------------------


def relu_moments(p, q, c):
    """E[relu(u) relu(v)] and E[1(u > 0) 1(v > 0)] for variances p, q and covariance c."""
    root = math.sqrt(p * q)
    theta = math.acos(max(-1.0, min(1.0, c / root))) if root else 0.0
    return root * (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / (2 * math.pi), 0.5 - theta / (2 * math.pi)


def slow_mlp(net, x, y):
    """(nngp, ntk) of two vectors."""
    w, b, d = net.sigma_w**2, net.sigma_b**2, len(x)
    p, q, c = (w * float(u @ v) / d + b for u, v in ((x, x), (y, y), (x, y)))
    t = c
    for _ in range(net.depth):
        relu, step = relu_moments(p, q, c)
        p, q, c = w * p / 2 + b, w * q / 2 + b, w * relu + b
        t = c + w * step * t
    return c, t


def slow_cnn(net, x, y):
    """(nngp, ntk) of two images, over all pairs of pixels in dictionaries; a pixel outside is not in them."""
    w, b = net.sigma_w**2, net.sigma_b**2
    sides = x.shape[1:]

    def pixels(sides):
        return list(itertools.product(*(range(s) for s in sides)))

    def inner(u, v):
        return {
            (i, j): float(u[:, i[0], i[1]] @ v[:, j[0], j[1]]) / len(u) for i in pixels(sides) for j in pixels(sides)
        }

    xx, yy, xy = inner(x, x), inner(y, y), inner(x, y)
    t = dict.fromkeys(xy, 0.0)
    for conv in net.convolutions():
        after = [conv.side(s) for s in sides]

        def window(c, after=after, conv=conv):
            """The mean of c over the offsets of a window, the same for both pixels."""
            out = {}
            for i, j in itertools.product(pixels(after), repeat=2):
                total = 0.0
                for k in itertools.product(range(conv.kernel), repeat=2):
                    at = tuple(
                        tuple(s * conv.stride + o - conv.padding for s, o in zip(z, k, strict=True)) for z in (i, j)
                    )
                    total += c.get(at, 0.0)
                out[i, j] = total / conv.kernel**2
            return out

        xx, yy, xy, t = (window(c) for c in (xx, yy, xy, t))
        xx, yy, xy = ({ij: w * v + b for ij, v in c.items()} for c in (xx, yy, xy))
        t = {ij: xy[ij] + w * t[ij] for ij in t}
        sides = after
        moments = {(i, j): relu_moments(xx[i, i], yy[j, j], c) for (i, j), c in xy.items()}
        xx = {(i, j): relu_moments(xx[i, i], xx[j, j], c)[0] for (i, j), c in xx.items()}
        yy = {(i, j): relu_moments(yy[i, i], yy[j, j], c)[0] for (i, j), c in yy.items()}
        xy, t = {ij: m[0] for ij, m in moments.items()}, {ij: m[1] * t[ij] for ij, m in moments.items()}
    kept = [(i, j) for i, j in xy if net.readout == "gap" or i == j]
    nngp = w * sum(xy[ij] for ij in kept) / len(kept) + b
    return nngp, nngp + w * sum(t[ij] for ij in kept) / len(kept)


def slow(net, X, Y):
    pair = slow_mlp if isinstance(net, InfiniteMLP) else slow_cnn
    found = torch.tensor([[pair(net, x, y) for y in Y] for x in X], dtype=torch.float64)
    return found[..., 0], found[..., 1]


# --- closed forms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degrees", [0, 30, 60, 90, 135, 180])
def test_one_hidden_layer_is_the_arc_cosine_kernels(degrees):
    theta = math.radians(degrees)
    x = torch.tensor([[3.0, 0.0], [2 * math.cos(theta), 2 * math.sin(theta)]], dtype=torch.float64)
    order_0 = (math.pi - theta) / math.pi
    order_1 = 3 * 2 * (math.sin(theta) + (math.pi - theta) * math.cos(theta)) / math.pi
    net = InfiniteMLP(depth=1, sigma_w=1.0)  # two inputs: inner products are halved, and the kernels twice those here
    nngp, tangent = (float(infinite(x, net=net, kind=kind)[0, 1]) for kind in ("nngp", "ntk"))
    assert 4 * nngp == pytest.approx(order_1, abs=1e-12)
    assert 4 * tangent == pytest.approx(order_1 + 6 * math.cos(theta) * order_0, abs=1e-12)


def test_it_is_the_kernel_of_the_wide_network_of_the_theory():
    x = normal(6, 4)
    net = InfiniteMLP(depth=1, sigma_w=1.0)
    close(infinite(2 * x, net=net), torch.from_numpy(wide_relu_kernel(x.numpy(), layers="both")))  # 2 = sqrt(d)


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize(("sigma_w", "sigma_b"), [(2**0.5, 0.0), (1.5, 0.3)])
def test_deep_kernels_are_those_of_a_double_loop(depth, sigma_w, sigma_b):
    X, Y = normal(5, 3), normal(4, 3, seed=1)
    net = InfiniteMLP(depth=depth, sigma_w=sigma_w, sigma_b=sigma_b)
    nngp, tangent = slow(net, X, Y)
    close(infinite(X, Y, net=net, kind="nngp"), nngp)
    close(infinite(X, Y, net=net), tangent)


@pytest.mark.parametrize("net", CNNS, ids=repr)
def test_convolutional_kernels_are_those_of_a_loop_over_pixels(net):
    X, Y = normal(2, 2, 3, 4), normal(1, 2, 3, 4, seed=1)
    X[0, :, :2] = 0  # whole windows of zeros
    nngp, tangent = slow(net, X, Y)
    close(infinite(X, Y, net=net, kind="nngp"), nngp)
    close(infinite(X, Y, net=net), tangent)
    nngp, tangent = slow(net, Y, Y)
    close(infinite(Y, net=net, kind="nngp"), nngp)
    close(infinite(Y, net=net), tangent, 1e-7)  # arccos at 1


def test_a_window_as_large_as_the_image_makes_the_fully_connected_network():
    X = normal(5, 3, 4, 4)
    for readout in ("gap", "flatten"):
        net = InfiniteCNN(depth=1, kernel=4, padding=0, readout=readout, sigma_b=0.3)
        close(infinite(X, net=net), infinite(X, net=InfiniteMLP(depth=1, sigma_b=0.3)))


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: f"{case['inputs']} {case['options']}")
def test_neural_tangents_says_the_same(case):
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in case["options"].items()}
    x = torch.tensor(ORACLE["inputs"][case["inputs"]], dtype=torch.float64)
    net = (InfiniteMLP if case["inputs"] == "vectors" else InfiniteCNN)(**options)
    expected = {kind: torch.tensor(case[kind], dtype=torch.float64) for kind in ("nngp", "ntk")}
    close(infinite(x, net=net, kind="nngp"), expected["nngp"], 1e-13)
    # Copies and opposites (0 and 4 or 3, 1 and 5): there neural-tangents keeps 8 digits.
    apart = (x.flatten(1)[:, None] - x.flatten(1)).norm(dim=2).bool() & (x.flatten(1)[:, None] + x.flatten(1)).norm(
        dim=2
    ).bool()
    K = infinite(x, net=net)
    close(K[apart], expected["ntk"][apart], 1e-11)
    close(K, expected["ntk"], 1e-7)


# --- where two items are equal, or nearly ------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 4])
def test_the_diagonal_is_exact(depth):
    x = normal(20, 7)
    sq = x.square().mean(1)
    K = infinite(x, net=InfiniteMLP(depth=depth))
    torch.testing.assert_close(K.diagonal(), 2 * (depth + 1) * sq, rtol=4e-15, atol=0)  # every layer adds the same
    close(diagonal(x, InfiniteMLP(depth=depth), "ntk", 2**20), K.diagonal(), 1e-15)


@pytest.mark.parametrize("net", CNNS, ids=repr)
def test_each_item_with_itself_is_the_diagonal(net):
    X = normal(3, 2, 4, 5)
    for kind in ("ntk", "nngp"):
        close(diagonal(X, net, kind, 2**20), infinite(X, net=net, kind=kind).diagonal(), 1e-14)


@pytest.mark.parametrize("net", [InfiniteMLP(depth=3, sigma_b=0.1), *CNNS], ids=repr)
def test_copies_have_equal_rows_and_add_no_rank(net):
    X = normal(4, 2, 4, 5)
    X = torch.cat([X, X[:2]])
    K = infinite(X, net=net)
    torch.testing.assert_close(K[:2], K[4:], rtol=1e-14, atol=0)
    values, vectors = torch.linalg.eigh(K)
    assert gram_score(vectors * values.clamp(min=0).sqrt()).rank == 4


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9])
def test_near_copies_differ_by_as_much_as_they_should(step):
    """K(x, x) - K(x, x'), which a computer that forms arccos(1 - tiny) gets wrong, against 60 digits."""
    from mpmath import mp, mpf

    x = normal(1, 3)
    x = torch.cat([x, x + step * normal(1, 3, seed=1)])
    net = InfiniteMLP(depth=3, sigma_w=1.5, sigma_b=0.2)
    with mp.workdps(60):
        w, b = mpf(1.5) ** 2, mpf(0.2) ** 2
        rows = [[mpf(v) for v in row.tolist()] for row in x]
        p, q, c = (
            w * sum(u * v for u, v in zip(rows[i], rows[j], strict=True)) / 3 + b for i, j in ((0, 0), (1, 1), (0, 1))
        )
        t, t_p, t_q = c, p, q
        for _ in range(3):
            theta = mp.acos(c / mp.sqrt(p * q))
            relu = mp.sqrt(p * q) * (mp.sin(theta) + (mp.pi - theta) * mp.cos(theta)) / (2 * mp.pi)
            p, q, c = w * p / 2 + b, w * q / 2 + b, w * relu + b
            t, t_p, t_q = c + w * t * (mp.pi - theta) / (2 * mp.pi), p + w * t_p / 2, q + w * t_q / 2
        expected, entry = float(t_p + t_q - 2 * t), float(t)
    K = infinite(x, net=net)
    assert float(K[0, 1]) == pytest.approx(entry, rel=1e-14)
    got = float(K[0, 0] + K[1, 1] - 2 * K[0, 1])
    assert got == pytest.approx(expected, rel=1e-6, abs=2e-14 * entry)


# --- what every kernel is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", [InfiniteMLP(depth=1), InfiniteMLP(depth=4, sigma_b=0.5), *CNNS], ids=repr)
def test_kernels_are_symmetric_positive_semidefinite_and_do_not_depend_on_the_order(net):
    X = normal(9, 2, 4, 5)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    for kind in ("ntk", "nngp"):
        K = infinite(X, net=net, kind=kind)
        assert torch.equal(K, K.T)
        assert torch.linalg.eigvalsh(K)[0] > -1e-13 * K.trace()
        close(infinite(X[order], net=net, kind=kind), K[order][:, order], 1e-13)


@pytest.mark.parametrize("net", [InfiniteMLP(), InfiniteCNN(), InfiniteCNN(readout="flatten")], ids=repr)
def test_without_biases_a_scale_of_the_items_is_one_of_the_kernel(net):
    X, Y = normal(3, 1, 4, 4), normal(4, 1, 4, 4, seed=1)
    close(infinite(3 * X, 0.5 * Y, net=net), 1.5 * infinite(X, Y, net=net), 1e-13)
    close(infinite(1e-120 * X, net=net), 1e-240 * infinite(X, net=net), 1e-13)


def test_gap_does_not_mind_where_things_stand_and_flatten_does():
    X = torch.zeros(3, 1, 9, 9, dtype=torch.float64)
    X[0, 0, 3:5, 3:5] = X[1, 0, 5:7, 4:6] = normal(2, 2)
    X[2, 0, 3:5, 3:5] = normal(2, 2, seed=1)
    K = infinite(X, net=InfiniteCNN(depth=2))
    close(K[0, 1], K[0, 0], 1e-14)
    K = infinite(X, net=InfiniteCNN(depth=2, readout="flatten"))
    assert K[0, 1] < 0.9 * K[0, 0]


# --- wide networks -----------------------------------------------------------------------------------------------------


class Wide(nn.Module):
    """sigma_w W a / sqrt(fan in) + sigma_b b, as a linear layer or a convolution."""

    def __init__(self, i, o, net, conv, draw):
        super().__init__()
        self.net, self.conv = net, conv
        shape = (o, i) if conv is None else (o, i, conv.kernel, conv.kernel)
        self.w = nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=draw))
        self.b = nn.Parameter(torch.randn(o, dtype=torch.float64, generator=draw))

    def forward(self, x):
        w, b = self.net.sigma_w / self.w[0].numel() ** 0.5 * self.w, self.net.sigma_b * self.b
        return F.linear(x, w, b) if self.conv is None else F.conv2d(x, w, b, self.conv.stride, self.conv.padding)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))


def wide(net, x, width, seed, outputs=1):
    draw = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    convolutions = net.convolutions() or [None] * net.depth
    before = x[0].numel() if isinstance(net, InfiniteMLP) else x.shape[1]
    for conv in convolutions:
        layers += [Wide(before, width, net, conv, draw), nn.ReLU()]
        before = width
    if isinstance(net, InfiniteCNN):
        layers.append(Mean() if net.readout == "gap" else nn.Flatten())
        before = nn.Sequential(*layers)(x[:1]).shape[1]
    return nn.Sequential(*layers, Wide(before, outputs, net, None, draw))


@pytest.mark.own_seed(
    "of 60 draws the slope has a standard deviation of 0.1; 240 would make it 0.03, in four times the time"
)
@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (InfiniteMLP(depth=2, sigma_w=1.4, sigma_b=0.3), (5,)),
        (InfiniteCNN(depth=2, sigma_w=1.4, sigma_b=0.3), (1, 4, 4)),
        (InfiniteCNN(depth=2, stride=(2, 1), readout="flatten"), (2, 4, 4)),
    ],
    ids=["mlp", "gap", "flatten"],
)
def test_networks_come_to_it_as_one_over_the_root_of_their_width(net, shape):
    x, draws = normal(5, *shape), 60
    K = infinite(x, net=net)
    off = []
    for width in (16, 64):
        found = torch.stack([ntk(wide(net, x, width, seed), x, layers="all") for seed in range(draws)])
        off.append(float((found - K).square().mean().sqrt() / K.square().mean().sqrt()))
    assert math.log(off[1] / off[0], 4) == pytest.approx(-0.5, abs=0.15), off
    assert off[1] < 0.35
    assert float((found.mean(0) - K).norm() / K.norm()) < 2 * off[1] / draws**0.5  # what is left is chance, not a bias


def test_outputs_of_networks_have_the_nngp_as_their_covariance():
    x = normal(4, 1, 4, 4)
    net = InfiniteCNN(depth=2, sigma_w=1.4, sigma_b=0.3)
    with torch.no_grad():
        outputs = torch.cat([wide(net, x, 64, seed, outputs=500)(x) for seed in range(30)], dim=1)  # (n, draws)
    found, K = outputs @ outputs.T / outputs.shape[1], infinite(x, net=net, kind="nngp")
    assert float((found - K).norm() / K.norm()) < 0.1


# --- tiles and the door ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", [InfiniteMLP(), *CNNS], ids=repr)
def test_tiles_of_any_size_give_the_same_kernel(net, monkeypatch):
    X, Y = normal(7, 2, 4, 5), normal(4, 2, 4, 5, seed=1)
    K, K2 = infinite(X, net=net), infinite(X, Y, net=net)
    for tile in (1, 2000):
        monkeypatch.setattr(import_module("askless.kernels.infinite"), "TILE", tile)
        told = []
        close(infinite(X, net=net, progress=lambda done, total: told.append((done, total))), K, 1e-14)  # noqa: B023
        close(infinite(X, Y, net=net), K2, 1e-14)
        assert told[-1] == (28, 28)
        assert [done for done, _ in told] == sorted(done for done, _ in told)


class Held(TorchDispatchMode):
    """The largest number of bytes of tensors that lived at once inside."""

    def __init__(self):
        super().__init__()
        self.owners: dict[int, int] = {}
        self.now = self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key, size = storage.data_ptr(), storage.nbytes()
                if not self.owners.get(key):
                    self.owners[key] = 0
                    self.now += size
                    self.most = max(self.most, self.now)
                self.owners[key] += 1
                weakref.finalize(tensor, self.gone, key, size)
        return out

    def gone(self, key, size):
        self.owners[key] -= 1
        if not self.owners[key]:
            self.now -= size


@pytest.mark.parametrize("max_memory", [2**20, 2**23])
@pytest.mark.parametrize(
    "net", [InfiniteMLP(), InfiniteCNN(), InfiniteCNN(stride=(2, 1)), InfiniteCNN(readout="flatten")], ids=repr
)
def test_memory_stays_below_what_was_allowed(net, max_memory):
    X = normal(12, 1, 6, 6) if net == InfiniteCNN() else normal(60, 1, 6, 6)
    X[1::2] = X[::2] + 1e-9  # near ones are computed twice
    with Held() as held:
        infinite(X, net=net, max_memory=max_memory)
    beside = len(X) ** 2 * 8 + 2 * X.numel() * 8
    assert held.most <= max_memory + beside
    assert held.most > 2000


def test_arrays_lists_of_items_and_whole_numbers_are_taken():
    x = normal(4, 6)
    K = infinite(x)
    close(infinite(x.numpy()), K, 0)
    close(infinite([(row, 1) for row in x]), K, 0)
    close(infinite(np.array([[1, 2], [3, 5]], dtype=np.uint8)), infinite(torch.tensor([[1.0, 2.0], [3.0, 5.0]])), 0)
    close(infinite(normal(4, 1, 2, 3)), infinite(normal(4, 1, 2, 3).flatten(1)), 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: infinite(normal(3, 4), net=nn.Linear(4, 2)), r"expected InfiniteMLP.*got Linear.*kernels\.ntk"),
        (lambda: infinite(normal(3, 4), net=InfiniteCNN()), r"expected images.*got items of shape \(4,\)"),
        (lambda: infinite(normal(3, 1, 2, 2), net=InfiniteCNN(padding=0)), r"layer 1 leaves none"),
        (lambda: infinite(normal(3)), r"shape \(N, d\)"),
        (lambda: infinite(normal(0, 4)), "at least one example"),
        (lambda: infinite(normal(3, 4), normal(3, 5)), r"expected items of shape \(4,\), as in x, got \(5,\)"),
        (lambda: infinite(torch.tensor([[1.0], [math.nan]])), "finite numbers, got NaN or infinity in item 1"),
        (lambda: infinite(normal(2, 1, 64, 64), net=InfiniteCNN()), r"one pair of images to fit.*readout=\"flatten\""),
        (lambda: infinite(normal(2, 3), max_memory=0), "max_memory must be"),
        (lambda: infinite(normal(2, 3), kind="kernel"), "kind must be one of ntk, nngp"),
        (lambda: InfiniteMLP(depth=0), "depth must be a whole number >= 1"),
        (lambda: InfiniteMLP(sigma_w=0), "0 < sigma_w"),
        (lambda: InfiniteCNN(readout="max"), "readout must be one of gap, flatten"),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_unknown_options_are_named():
    with pytest.raises(OptionError, match="one stride for each of 2 layers"):
        InfiniteCNN(depth=2, stride=(1, 2, 1))
    with pytest.raises(OptionError, match="its options are depth, sigma_w, sigma_b"):
        InfiniteMLP(width=3)
