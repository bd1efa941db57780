"""One round of the page on frozen features: train the head, look at the pool, choose the next batch.

10,000 and 100,000 cached images of 1,280 features, float16 in a mapped file, 10 classes, 200 labels, and the page's
defaults: `auto` on a linear head, 20 picks by askless, by what the page calls (`make_learner`, `fit`, `predict_pool`,
`ask`), with one torch thread, as the page's worker has it. The first round finds the main directions of the pool and its
neighbours; a later one has 20 more labels and keeps what the round before knows of the pool, as in a run. Seconds are the
least of three. Each size runs in a process of its own, whose peak memory leaves out the pages of the mapped file, as in
million.py.

The floor is the arithmetic alone, all products that a round is made of: the head's in training, forward and backward, the
head on the whole pool once, and every item against those that are to be covered; in the first round also the pool's second
moments and its items against each other.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from million import Peak
from suite import Line, Other, arguments, compare, finish, own_process, seconds

from askless.acquire import Askless
from askless.active.learner import ActiveLearner
from askless.features.stored import mapped
from askless.learn import Auto
from askless.learn.linear import ITERATIONS
from askless.run.settings import Settings
from askless.run.steps.one_round import make_learner, run_pool

CLASSES, LABELS = 10, 200
LIMITS = {10_000: (5.0, 1.0), 100_000: (60.0, 2.5)}  # items -> seconds, GB
REPEATS = 3


def clustered(n: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows (n, width) around ten centres, and their classes (n,)."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (n,), generator=generator)
    centres = torch.randn(CLASSES, width, generator=generator)
    return torch.randn(n, width, generator=generator).add_(centres[y]), y


class Plain(NamedTuple):
    """The plain view, as `CachedItems` has it."""

    x: np.ndarray
    side: int = 128


def one_round(learner: ActiveLearner, n: int) -> dict[str, float]:
    """Seconds of its parts."""
    training, _ = seconds(learner.fit)
    looking, _ = seconds(learner.predict_pool)
    choosing, _ = seconds(lambda: learner.ask(n))
    return {"training": training, "predicting": looking, "looking and choosing": choosing}


def work(folder: Path) -> dict[str, Any]:
    """First and later rounds in this process: the parts of the fastest of each, the floors, and peak memory in GB."""
    torch.set_num_threads(1)
    x, y = mapped(folder / "x.npy"), np.load(folder / "y.npy")
    settings = Settings("x", net="frozen:efficientnet-lite0")
    order = np.random.default_rng(0).permutation(len(x))
    peak = Peak()
    peak.start()
    base = run_pool(Plain(x), settings, range(len(x)), {})
    names = [str(c) for c in range(CLASSES)]
    found: dict[str, list[dict[str, float]]] = {"first": [], "later": []}
    for _ in range(REPEATS):
        before = None
        for number, kind in enumerate(found):
            known = {int(i): int(y[i]) for i in order[: LABELS + number * settings.batch]}
            learner = make_learner(base, settings, names, known, None)
            learner.learnt = before
            found[kind].append(one_round(learner, settings.batch))
            before = learner.learnt
    gb = peak.stop()
    best = {kind: min(rounds, key=lambda parts: sum(parts.values())) for kind, rounds in found.items()}
    rows = base.ready(np.arange(len(x)))
    floors = compare({kind: lambda kind=kind: floor(rows, kind == "first") for kind in found}, REPEATS)
    return {"parts": best, "floors": floors, "gb": gb}


def floor(x: torch.Tensor, is_first: bool) -> None:
    """The products, and nothing else."""
    auto, askless = Auto(), Askless()
    few = x[: auto.items]
    z, W = few[:, : auto.directions].contiguous(), torch.zeros(CLASSES, x.shape[1])
    for _ in range(ITERATIONS):
        logits = W[:, : z.shape[1]] @ z.T
        logits @ z
    W @ x.T
    targets = x[: askless.targets, : askless.directions].T.contiguous()
    for part in x.split(256):
        part[:, : askless.directions] @ targets
    if is_first:
        few.T @ few
        for part in z.split(1024):
            part @ z.T


def main() -> None:
    given = arguments(__doc__)
    sizes, width = ((2_000,), 64) if given.quick else (tuple(LIMITS), 1_280)
    lines = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            x, y = clustered(n, width)
            np.save(Path(folder) / "x.npy", x.half().numpy())
            np.save(Path(folder) / "y.npy", y.numpy())
            del x
            result = own_process("frozen_round.py", "--work", folder)
        most, most_gb = LIMITS.get(n, (None, None))
        for kind, parts in result["parts"].items():
            lines.append(
                Line(
                    f"{n:,} features of {width:,}, {LABELS} labels, 20 picks: {kind} round",
                    sum(parts.values()),
                    floor=Other("the products", result["floors"][kind]),
                    most=most,
                    note=", ".join(f"{name} {value:.2g} s" for name, value in parts.items()),
                )
            )
        lines.append(Line(f"{n:,} features of {width:,}, peak memory", result["gb"], "GB", most=most_gb))
    finish("frozen_round", lines, given)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(work(Path(sys.argv[2]))))
    else:
        main()
