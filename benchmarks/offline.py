"""Which items to label first, before anything is trained: infinitely wide networks against what else works at zero labels.

    python benchmarks/offline.py --out benchmarks/results/offline.json     # about three core minutes
    python benchmarks/offline.py --quick                                   # small: shows that it works
    python benchmarks/offline.py --docs      # only write the tables into docs/evidence/infinite.md

For each of ten seeds a pool is drawn, each way of choosing takes 10, 20 and 40 items at once from zero labels, and two
learners that need no training loop are given their labels: kernel ridge regression (with the wide CNN on digits, the wide
MLP on Fashion-MNIST) and label propagation on pixels. Pools and test images are the same for all ways, so differences are
paired.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from suite import HERE, PACKAGES, RESULTS, cpu

import askless as al
from askless.base.errors import InputError
from askless.base.files import write_whole
from askless.base.machine import cores, versions
from askless.bench.statistics import paired
from askless.kernels import InfiniteCNN, infinite
from askless.learn.propagation import neighbour_graph, predict_new, propagate
from askless.linalg.landmarks import partial_cholesky

PAGE = HERE.parent / "docs" / "evidence" / "infinite.md"
BUDGETS = (10, 20, 40)
DIM = 512  # features of a kernel
RIDGE = 1e-3  # of the mean of the kernel's diagonal
LEARNERS = {"ridge": "kernel ridge regression", "propagation": "label propagation"}


class Setting(NamedTuple):
    """Images that pools are drawn from, each with the kernels that are tried on them and a network left untrained."""

    title: str
    images: torch.Tensor  # (n, 1, H, W), around 0, of deviation 1; the last `test` of them are the test
    labels: np.ndarray
    test: int | None  # None: drawn again by each seed, `held` of them
    held: int
    pool: int
    kernels: dict[str, torch.Tensor]
    net: str


def standard(x: torch.Tensor) -> torch.Tensor:
    x = x.double()
    return (x - x.mean()) / x.std()


def digits(quick: bool) -> Setting:
    pool = al.data.digits(test=0)
    n = 300 if quick else len(pool)
    x, y = standard(pool.x[:n]), pool.labels[:n]
    kernels = {"wide MLP": infinite(x), "wide CNN": infinite(x, net=InfiniteCNN(stride=(2, 1)))}
    return Setting("digits", x, y, None, n // 5 if quick else 400, n - (n // 5 if quick else 400), kernels, "cnn-gap")


def fashion(quick: bool) -> Setting:
    source = al.data.load("fashion-mnist")
    assert source.test is not None
    rng = np.random.default_rng(0)
    n, test = (300, 100) if quick else (5000, 1000)
    some = np.sort(rng.choice(len(source), n, replace=False))
    x = standard(torch.cat([torch.as_tensor(source.x[some]), torch.as_tensor(source.test[0][:test])]))
    y = np.concatenate([source.labels[some], source.test[1][:test]])
    return Setting("Fashion-MNIST", x, y, test, test, n // 2 if quick else 2000, {"wide MLP": infinite(x)}, "mlp")


def draw(setting: Setting, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the pool and of the test images."""
    rng = np.random.default_rng([seed, 9])
    if setting.test is None:
        order = rng.permutation(len(setting.images))
        return order[setting.held :][: setting.pool], order[: setting.held]
    rest = len(setting.images) - setting.test
    return rng.choice(rest, setting.pool, replace=False), np.arange(rest, len(setting.images))


def ways(
    setting: Setting, pool: np.ndarray, seed: int
) -> tuple[dict[str, Callable[[int], np.ndarray]], dict[str, float]]:
    """Ways of choosing n items of the pool, by name, and what the features of each kernel leave out."""
    x = setting.images[pool]
    pixels = x.flatten(1).numpy()
    net = al.nets.make(setting.net, classes=10, shape=tuple(x.shape[1:]), seed=seed)
    untrained = al.kernels.features(net, x.float())

    def by(strategy: Any, features: Any) -> Callable[[int], np.ndarray]:
        return lambda n: al.select(strategy, n, features=features, seed=seed).indices

    found: dict[str, Callable[[int], np.ndarray]] = {
        "random": lambda n: al.select("random", n, pool=len(pool), seed=seed).indices,
        "typiclust, pixels": by("typiclust", pixels),
        "askless, pixels": by("askless", pixels),
        f"npc, untrained {setting.net}": by("npc", untrained),
    }
    left = {}
    for name, whole in setting.kernels.items():
        K = whole[pool][:, pool]
        factor = partial_cholesky(K.diagonal(), partial(torch.select, K, 1), DIM)
        left[name] = factor.left
        for strategy in (al.NPC(bias=False), al.CRC(bias=False, group=5), al.TypiClust(), al.Askless()):
            found[f"{strategy.name}, {name}"] = by(strategy, factor.features)
    return found, left


def ridge(K: torch.Tensor, pool: np.ndarray, test: np.ndarray, picks: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Predictions for the test items by kernel ridge regression on one-hot labels."""
    L = pool[picks]
    Y = torch.from_numpy(np.eye(10)[y[L]])
    middle = Y.mean(0)
    A = K[L][:, L]
    weights = torch.linalg.solve(A + RIDGE * A.diagonal().mean() * torch.eye(len(L)), Y - middle)
    return (K[test][:, L] @ weights + middle).argmax(1).numpy()


def one_seed(setting: Setting, seed: int) -> tuple[list[dict[str, Any]], dict[str, float]]:
    pool, test = draw(setting, seed)
    pixels, y = setting.images.flatten(1).numpy(), setting.labels
    graph = neighbour_graph(pixels[pool])
    judge = setting.kernels[list(setting.kernels)[-1]]
    rows = []
    choosing, left = ways(setting, pool, seed)
    for way, choose in choosing.items():
        for n in BUDGETS:
            start = time.process_time()
            picks = choose(n)
            took = time.process_time() - start
            probs = propagate(graph, picks, y[pool[picks]], 10)
            spread = predict_new(pixels[pool], probs, pixels[test]).argmax(1)
            rows.append(
                {
                    "data": setting.title,
                    "seed": seed,
                    "way": way,
                    "labels": n,
                    "classes": len(np.unique(y[pool[picks]])),
                    "ridge": float((ridge(judge, pool, test, picks, y) == y[test]).mean()),
                    "propagation": float((spread == y[test]).mean()),
                    "seconds": round(took, 3),
                }
            )
    return rows, left


def run(quick: bool, out: Path | None) -> None:
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    notes: dict[str, Any] = {}
    seeds = range(2 if quick else 10)
    for make in (digits, fashion):
        start = time.process_time()
        try:
            setting = make(quick)
        except InputError as error:  # data that are not here
            if not quick:
                raise
            print(error, file=sys.stderr)
            continue
        notes[setting.title] = {
            "pool": setting.pool,
            "test": setting.held,
            "judge": list(setting.kernels)[-1],
            "kernel seconds": round(time.process_time() - start, 1),
        }
        for seed in seeds:
            found, left = one_seed(setting, seed)
            rows += found
            notes[setting.title]["left"] = {name: float(f"{share:.2g}") for name, share in left.items()}
            print(f"{setting.title}, seed {seed}: {time.process_time() - start:.0f} s", file=sys.stderr, flush=True)
    record = {
        "benchmark": "offline",
        "date": datetime.now(timezone.utc).date().isoformat(),
        "quick": quick,
        "machine": {"processor": cpu(), "cores": cores(), "load": round(os.getloadavg()[0], 1)},
        "threads": 1,
        "versions": versions(PACKAGES),
        "settings": notes,
        "rows": rows,
    }
    for title in notes:
        print(f"{title}\n\n{tables(record, title)}\n")
    if out is not None:
        text = json.dumps(record, indent=None).replace('{"data"', '\n{"data"') + "\n"
        write_whole(out, lambda file: file.write(text.encode()))


def values(record: dict[str, Any], title: str, way: str, labels: int, what: str) -> np.ndarray:
    """One number for each seed."""
    wanted = (title, way, labels)
    return np.array([row[what] for row in record["rows"] if (row["data"], row["way"], row["labels"]) == wanted])


def difference(record: dict[str, Any], title: str, way: str, other: str, labels: int, what: str) -> str:
    """Percentage points, bold where the 95 % interval excludes 0."""
    gap = paired(*(100 * values(record, title, w, labels, what) for w in (way, other)))
    words = f"{gap.mean:+.1f} ± {gap.half:.1f}"
    return f"**{words}**" if gap.clear else words


def against_random(record: dict[str, Any], title: str) -> str:
    """Ways in rows; classes seen, and the accuracy of each learner with its difference from random."""
    head = [
        "chosen by",
        *(f"classes, {n}" for n in BUDGETS),
        *(f"{LEARNERS[k]}, {n}" for k in LEARNERS for n in BUDGETS),
    ]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for way in dict.fromkeys(row["way"] for row in record["rows"] if row["data"] == title):
        cells = [way, *(f"{values(record, title, way, n, 'classes').mean():.1f}" for n in BUDGETS)]
        for what in LEARNERS:
            for n in BUDGETS:
                cell = f"{100 * values(record, title, way, n, what).mean():.1f}"
                if way != "random":
                    cell += f" ({difference(record, title, way, 'random', n, what)})"
                cells.append(cell)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def head_to_head(record: dict[str, Any], title: str) -> str:
    """What the kernel adds: its ways of choosing minus the same, or TypiClust, without it."""
    ways = list(dict.fromkeys(row["way"] for row in record["rows"] if row["data"] == title))
    untrained = next(way for way in ways if "untrained" in way)
    pairs = [(f"npc, {kernel}", untrained) for kernel in record["settings"][title]["left"]]
    for kernel in record["settings"][title]["left"]:
        pairs += [(f"npc, {kernel}", "typiclust, pixels"), (f"typiclust, {kernel}", "typiclust, pixels")]
        pairs += [(f"askless, {kernel}", "askless, pixels")]
    head = ["difference", *(f"{LEARNERS[k]}, {n}" for k in LEARNERS for n in BUDGETS)]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    for way, other in pairs:
        cells = [difference(record, title, way, other, n, what) for what in LEARNERS for n in BUDGETS]
        lines.append(f"| ({way}) − ({other}) | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables(record: dict[str, Any], title: str) -> str:
    return f"{against_random(record, title)}\n\n{head_to_head(record, title)}"


def mark(title: str, which: str) -> str:
    return f"<!-- {title} from benchmarks/results/offline.json: {which} -->"


def shown_in_docs(titles: list[str]) -> dict[str, str]:
    """Each table as docs/evidence/infinite.md has it."""
    text = PAGE.read_text(encoding="utf-8")
    return {title: text.split(mark(title, "begin"))[1].split(mark(title, "end"))[0].strip() for title in titles}


def write_docs(record: dict[str, Any]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for title in record["settings"]:
        before, rest = text.split(mark(title, "begin"))
        after = rest.split(mark(title, "end"))[1]
        text = f"{before}{mark(title, 'begin')}\n\n{tables(record, title)}\n\n{mark(title, 'end')}{after}"
    write_whole(PAGE, lambda file: file.write(text.encode()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small pools and two seeds: shows that it works")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--docs", action="store_true", help="only write the tables into docs/evidence/infinite.md")
    given = parser.parse_args()
    if given.docs:
        write_docs(json.loads((RESULTS / "offline.json").read_text()))
    else:
        run(given.quick, given.out)


if __name__ == "__main__":
    main()
