"""Gradient numbers over all parameters, ||g_u||^2 and g_u . g_S of each image u: dynamicAL's, and EGL's for every class.

    python benchmarks/gradients.py            # WRN-28-2, ResNet-18 and VGG-11, 64 images of 32 pixels, about ten minutes
    python benchmarks/gradients.py --quick

Ours is a batch of `kernels.gradient_stats` with the route chosen and g_S there, and once the whole call with both. The floor
is a plain forward and backward pass of the same batch (EGL: one forward, C backward passes); the reference is vmap(grad) on
a quarter of the batch, times 4. The peer is BackPACK's BatchL2Grad, the norms alone (dots with g_S would take its BatchGrad,
batch x parameters numbers): its own ratio to the floor in its own process, times our floor. The numbers are compared too.

Memory is the peak of a process of its own (ours: the whole call, g_S and the choice of the route included; the floor: one
forward and backward pass) above that of a process that only makes network and batch; medians of three. BatchNorm is in
evaluation, its statistics those of a batch.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from suite import Line, Other, arguments, compare, finish, own_process, peak_gb, peer
from torch import Tensor, nn

from askless import kernels, nets
from askless.kernels.evaluation import differentiating
from askless.kernels.gradients import gradient_sum
from askless.kernels.layer_rules import given as numbers_of
from askless.kernels.logits import Labelling, cross_entropy, every_class, pseudo_label
from askless.kernels.one_pass import Sums
from askless.kernels.per_example import by_vmap
from askless.kernels.reference import trainable
from askless.kernels.route import Route, all_sums, choose_route

CLASSES = 10
LIMIT = 1.5
TITLES = {"wrn-28-2": "WRN-28-2", "resnet-18": "ResNet-18", "vgg-11": "VGG-11", "wrn-28-1": "WRN-28-1"}
FULL = ("wrn-28-2", "resnet-18", "vgg-11")


def prepared(name: str, n: int) -> tuple[nn.Module, Tensor]:
    """A network whose batch norms have seen a batch, in evaluation, and n images."""
    generator = torch.Generator().manual_seed(0)
    model = nets.make(name, classes=CLASSES, shape=(3, 32, 32), bn_momentum=1.0)
    with torch.no_grad():
        model.train()(torch.randn(8, 3, 32, 32, generator=generator))
    return model.eval(), torch.randn(n, 3, 32, 32, generator=generator)


def plain(model: nn.Module, x: Tensor) -> None:
    """A forward and a backward pass."""
    model.zero_grad(set_to_none=True)
    logits = model(x)
    cross_entropy(logits, logits.detach().argmax(1)).backward()


def plain_by_class(model: nn.Module, x: Tensor) -> None:
    """A forward pass and a backward pass for each class."""
    logits = model(x)
    for c in range(CLASSES):
        model.zero_grad(set_to_none=True)
        cross_entropy(logits, torch.full((len(x),), c)).backward(retain_graph=c < CLASSES - 1)


def ours(
    model: nn.Module, route: Route, x: Tensor, labelling: Labelling, along: Mapping[str, Tensor] | None
) -> Callable[[], Sums]:
    def way() -> Sums:
        with differentiating(model):
            return all_sums(model, route, x, labelling, along)

    return way


def mapped(model: nn.Module, x: Tensor, along: Mapping[str, Tensor]) -> Callable[[], Tensor]:
    rows = by_vmap(model, trainable(model), cross_entropy)
    G = torch.cat([g.flatten() for g in along.values()])
    with torch.no_grad():
        labels = model(x).argmax(1)
    return lambda: numbers_of(rows(x, labels), G)[0]


def times(name: str, n: int, repeats: int) -> list[Line]:
    model, x = prepared(name, n)
    with differentiating(model):
        route = choose_route(model, x)
        along = gradient_sum(model, x[: n // 2], None, classes=CLASSES, batch_size=n)
    assert not route.other, "a layer without a rule"
    both, few = ours(model, route, x, pseudo_label, along), max(2, n // 4)
    reference = mapped(model, x[:few], along)
    took = compare(
        {
            "floor": lambda: plain(model, x),
            "ours": both,
            "norms": ours(model, route, x, pseudo_label, None),
            "vmap": reference,
        },
        repeats,
    )
    sq = both().sq[:, 0]
    check(sq[:few], reference())
    floor, peers = took["floor"], backpack(name, model, x, sq, repeats)
    wide = Other("vmap(grad)", took["vmap"] * n / few)
    lines = [
        Line(
            f"{TITLES[name]}, {n} images, norms and dots",
            took["ours"],
            floor=Other("forward + backward", floor, LIMIT),
            reference=wide,
            peer=Other("BackPACK, norms alone", peers * floor) if peers else None,
        ),
        Line(
            f"{TITLES[name]}, {n} images, norms",
            took["norms"],
            floor=Other("forward + backward", floor, LIMIT),
            reference=wide,
            peer=Other("BackPACK", peers * floor) if peers else None,
        ),
    ]
    x = x[:few]
    took = compare(
        {"floor": lambda: plain_by_class(model, x), "ours": ours(model, route, x, every_class, None)},
        max(1, repeats // 2),
    )
    floor = Other(f"forward + {CLASSES} backward", took["floor"], LIMIT)
    lines.append(
        Line(f"{TITLES[name]}, {few} images, norms for all {CLASSES} classes (EGL)", took["ours"], floor=floor)
    )
    return lines


def check(sq: Tensor, exact: Tensor) -> None:
    """That these are the same numbers. In float32 a ReLU near zero turns now and then, worth a few thousandths."""
    off = (sq / exact - 1).abs()
    assert off.median() < 1e-4, off
    assert off.max() < 0.05, off


def whole_call(name: str, n: int, batch_size: int, repeats: int) -> Line:
    """`gradient_stats` from outside: the route's choice and check, g_S, and all batches."""
    model, x = prepared(name, n)
    S = x[:batch_size]

    def floor() -> None:
        for batch in (*x.split(batch_size), S):
            plain(model, batch)

    def call() -> None:
        kernels.gradient_stats(model, x, against=(S, None), batch_size=batch_size)

    took = compare({"floor": floor, "ours": call}, repeats)
    return Line(
        f"{TITLES[name]}, the whole call on {n} images, {len(S)} in S",
        took["ours"],
        floor=Other("forward + backward of both", took["floor"], LIMIT),
        note="with the choice of the route and its check against autograd, once a call",
    )


def backpack(name: str, model: nn.Module, x: Tensor, sq: Tensor, repeats: int) -> float | None:
    """BackPACK's seconds / those of a plain forward and backward pass, both in its process, on the same numbers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        torch.save({"state": model.state_dict(), "x": x}, path)
        found = peer("gradients_backpack.py", name, str(path), str(repeats))
    if found is None:
        return None
    check(sq, torch.tensor(found["sq"], dtype=torch.float64))
    return found["seconds"] / found["floor"]


def memory(name: str, n: int, repeats: int) -> Line:
    parts = ("nothing", "plain", "ours")
    peaks: dict[str, list[float]] = {part: [] for part in parts}
    for _ in range(repeats):
        for part in parts:
            peaks[part].append(own_process("gradients.py", "--part", part, name, str(n))["gb"])
    gb = {part: statistics.median(found) for part, found in peaks.items()}
    return Line(
        f"{TITLES[name]}, {n} images, peak memory",
        gb["ours"] - gb["nothing"],
        "GB",
        floor=Other("forward + backward", gb["plain"] - gb["nothing"], LIMIT),
        note=f"both above the {gb['nothing']:.2f} GB of Python, torch, network and batch",
    )


def part(which: str, name: str, n: int) -> None:
    """What is measured in a process of its own."""
    model, x = prepared(name, n)
    if which == "plain":
        plain(model, x)
    elif which == "ours":
        kernels.gradient_stats(model, x, against=(x[: n // 2], None), batch_size=n)
    print(json.dumps({"gb": peak_gb()}))


def main() -> None:
    if sys.argv[1:2] == ["--part"]:
        return part(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    given = arguments(__doc__)
    names, n, repeats, processes = (("wrn-28-1",), 4, 1, 1) if given.quick else (FULL, 64, 5, 3)
    lines = [line for name in names for line in times(name, n, repeats)]
    lines.append(whole_call(names[0], 8 * n, n, max(1, repeats // 2)))
    lines += [memory(name, n, processes) for name in names]
    finish("gradients", lines, given, ("torch",))


if __name__ == "__main__":
    main()
