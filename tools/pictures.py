"""The pictures of README.md and docs/theory.md, as small SVG files in docs/pictures.

    python tools/pictures.py                 # all of them, a minute
    python tools/pictures.py curve           # this one

`curve` is drawn from docs/evidence; the others are computed here, on the digits, in float64 with fixed seeds.
"""

import argparse
import importlib.util
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import torch
from torch import Tensor, nn

import askless as al
from askless.bench.statistics import aubc, labels_to_target

matplotlib.use("svg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
STYLE = {
    **{"svg.fonttype": "none", "svg.hashsalt": "askless", "font.family": "sans-serif", "font.size": 10},
    **{
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "lines.linewidth": 1.6,
    },
}
OWN, GREY = "#0b6e4f", "#777777"


def curve() -> plt.Figure:
    """Test accuracy against labels of askless, its best rival and random: CIFAR-10, frozen features, logistic regression."""
    spec = importlib.util.spec_from_file_location("own_tables", ROOT / "benchmarks" / "own_tables.py")
    assert spec is not None
    assert spec.loader is not None
    own_tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own_tables)
    curves, counts = own_tables.read(ROOT / "docs" / "evidence" / "race.standardised" / "results.csv")
    [(group, found)] = curves.items()
    labels, mean = counts[group], {name: 100 * curve.mean(axis=0) for name, curve in found.items()}
    rival = max(mean.keys() - {"askless", "random", "oracle"}, key=lambda name: aubc(labels, mean[name]))
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    styles = {"askless": (OWN, "-", 2.6), rival: ("#b5651d", "-", 1.6), "random": (GREY, "--", 1.6)}
    for name, (colour, style, width) in styles.items():
        axes.plot(labels, mean[name], color=colour, linestyle=style, linewidth=width, label=name)
    last, reached = int(labels[-1]), mean["random"][-1].item()
    at = labels_to_target(labels, mean["askless"], reached)
    axes.plot([at, last], [reached, reached], color="black", linewidth=0.8, marker="o", markersize=4)
    axes.annotate(
        f"{reached:.1f} %: {at:.0f} labels instead of {last}", (at, reached), (at + 2, reached - 1.8), fontsize=9
    )
    axes.set(xlabel="labels", ylabel="test accuracy, %")
    axes.legend(frameon=False, loc="lower right")
    return figure


def digits(n: int) -> tuple[Tensor, Tensor]:
    """The first n digits as float64 vectors of unit length, and their labels."""
    pool = al.data.digits()
    x = pool.take(np.arange(n)).reshape(n, -1).double()
    return x / x.norm(dim=1, keepdim=True), torch.from_numpy(pool.labels[:n])


def features(x: Tensor, d: int = 64) -> np.ndarray:
    """What the last layer of an untrained network of width d sees."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(x.shape[1], d, generator=generator, dtype=torch.float64)
    return (x @ w).relu().numpy()


def spectrum() -> plt.Figure:
    """Eigenvalues of the kernel over batches of 40: random ones, the best of 1,000, and NPC's exchange."""
    x, _ = digits(1000)
    F = features(x)
    rng = np.random.default_rng(0)

    def eigenvalues(batch: np.ndarray) -> np.ndarray:
        phi = np.hstack([F[batch], np.ones((len(batch), 1))])
        return np.linalg.eigvalsh(phi @ phi.T)[::-1]

    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    rank = np.arange(1, 41)
    for k in range(20):
        found = eigenvalues(rng.choice(1000, 40, replace=False))
        axes.semilogy(rank, found, color=GREY, alpha=0.35, linewidth=0.8, label="20 random batches" if k == 0 else None)
    for label, strategy, colour in (
        ("NPC: best of 1,000", al.NPC(draws=1000), "#2f6db3"),
        ("NPC by exchange", al.NPC(search="swap"), OWN),
    ):
        picks = al.select(strategy, 40, features=F, seed=0)
        axes.semilogy(rank, eigenvalues(picks.indices), color=colour, label=label)
    axes.set(xlabel="eigenvalue number", ylabel="eigenvalue of K")
    axes.legend(frameon=False)
    return figure


def dynamics(width: tuple[int, ...] = (64, 4096)) -> plt.Figure:
    """Training loss of a two-layer network on 60 digits, and what its first kernel predicts, for a narrow and a wide one."""
    x, labels = digits(60)
    Y = torch.from_numpy(al.theory.one_hot(labels, 10))
    steps = 120
    figure, axes = plt.subplots(1, len(width), figsize=(6.8, 3.0), sharey=True)
    for axis, m in zip(axes, width, strict=True):
        net = wide(x.shape[1], m)
        K = al.kernels.ntk(net, x, layers="all").numpy() / 10
        eta = 1 / al.theory.spectrum(K).lambda_max
        start = (net(x).detach() - Y).numpy()
        values, vectors = np.linalg.eigh(K)
        modes = vectors.T @ start
        t = np.arange(steps + 1)
        predicted = [float(0.5 * (((1 - eta * values) ** k)[:, None] * modes).__pow__(2).sum()) for k in t]
        axis.semilogy(t, descend(net, x, Y, eta, steps), color=OWN, label="trained")
        axis.semilogy(t, predicted, color="black", linestyle=":", label="predicted by K at the start")
        axis.set(xlabel="step", title=f"{m} hidden units")
    axes[0].set(ylabel="training loss")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


class Scaled(nn.Module):
    """f(x) = a . relu(w x) sqrt(2 / m), weights from N(0, 1), so that the kernel does not depend on the width m."""

    def __init__(self, d: int, m: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.w = nn.Linear(d, m, bias=False, dtype=torch.float64)
        self.head = nn.Linear(m, 10, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.w.weight.normal_(generator=generator)
            self.head.weight.normal_(generator=generator)
        self.scale = (2 / m) ** 0.5

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.w(x).relu() * self.scale)


def wide(d: int, m: int) -> Scaled:
    return Scaled(d, m)


def descend(net: nn.Module, x: Tensor, Y: Tensor, eta: float, steps: int) -> list[float]:
    """The loss 1/2 |f - Y|^2 before each of `steps` steps of gradient descent, and after the last."""
    losses = []
    for _ in range(steps + 1):
        loss = 0.5 * (net(x) - Y).square().sum()
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for p, g in zip(net.parameters(), gradients, strict=True):
                p -= eta * g
    return losses


def alignment() -> plt.Figure:
    """Alignment against the generalisation bound: the digits' labels, and the same labels shuffled more and more."""
    x, labels = digits(150)
    K = al.kernels.ntk(wide(x.shape[1], 1024), x, layers="all").numpy() / 10
    rng = np.random.default_rng(0)
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    shares = (0.0, 0.1, 0.25, 0.5, 1.0)
    for share, colour in zip(shares, plt.get_cmap("viridis")(np.linspace(0, 0.85, len(shares))), strict=True):
        points = []
        for _ in range(1 if share == 0 else 12):
            y = labels.numpy().copy()
            some = rng.permutation(len(y))[: round(share * len(y))]
            y[some] = y[rng.permutation(some)]
            Y = al.theory.one_hot(y, 10)
            points.append((al.theory.alignment(K, Y), al.theory.generalisation_bound(K, Y)))
        a, b = np.array(points).T
        size = 60 if share == 0 else 16
        axes.scatter(
            a, b, s=size, color=colour, label=f"{share:.0%} of the labels shuffled" if share else "true labels"
        )
    axes.set(xlabel="alignment A", ylabel="generalisation bound B")
    axes.legend(frameon=False, fontsize=8)
    return figure


MADE: dict[str, Callable[[], plt.Figure]] = {
    "curve": curve,
    "spectrum": spectrum,
    "dynamics": dynamics,
    "alignment": alignment,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MADE)}; default: all")
    PICTURES.mkdir(exist_ok=True)
    for name in parser.parse_args().names or MADE:
        with plt.rc_context(STYLE):
            figure = MADE[name]()
            figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight", facecolor="white")
            plt.close(figure)
        print(f"docs/pictures/{name}.svg: {(PICTURES / f'{name}.svg').stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
