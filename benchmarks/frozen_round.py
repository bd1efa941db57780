"""One round of the page on frozen features: train the head, look at the pool, choose the next batch.

50,000 cached images of 1,280 features in a plain, a weak and two strong views, float16 in mapped files, 10 classes, 200
labels, and the page's defaults: FixMatch with 300 steps on a linear head, 20 picks by askless, by what the page calls
(`make_learner`, `fit`, `predict_pool`, `ask`). The page's worker has one torch thread; all cores are measured besides. The
floor is arithmetic that no round can do without: the head's products in training, forward and backward, on as many rows, and
the head on the whole pool once.
"""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from suite import Line, Other, arguments, compare, finish, seconds

from askless.active.learner import ActiveLearner
from askless.base.machine import cores
from askless.features.stored import PLAIN, ViewKey, augmented, mapped
from askless.learn import FixMatch
from askless.run.settings import Settings
from askless.run.steps.one_round import make_learner, run_pool

MOST = 10.0  # seconds
CLASSES = 10


def clustered(folder: Path, n: int, width: int) -> tuple[dict[ViewKey, Path], np.ndarray]:
    """Files with features (n, width) around ten centres: plain, and with noise in place of augmentation; and the classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (n,), generator=generator)
    plain = torch.randn(n, width, generator=generator).add_(torch.randn(CLASSES, width, generator=generator)[y])
    paths = {}
    for view, noise in zip((PLAIN, *augmented(weak=1, strong=2)), (0.0, 0.15, 0.5, 0.5), strict=True):
        paths[view] = folder / f"{view.kind}-{view.number}.npy"
        np.save(paths[view], (plain + noise * torch.randn(n, width, generator=generator)).half().numpy())
    return paths, y.numpy()


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


def floor(x: torch.Tensor, steps: int) -> None:
    """The head's products, and nothing else: FixMatch's batch in every step, and the pool once."""
    options = FixMatch()
    batch = x[: (1 + 2 * options.mu) * options.batch]
    W = torch.zeros(CLASSES, x.shape[1])
    for _ in range(steps):
        logits = batch @ W.T
        logits.T @ batch
    x @ W.T


def main() -> None:
    given = arguments(__doc__)
    n, width, labels = (2_000, 64, 40) if given.quick else (50_000, 1_280, 200)
    settings = Settings("x", net="frozen:efficientnet-lite0", steps=20 if given.quick else 300)
    with tempfile.TemporaryDirectory() as folder:
        measured(given, Path(folder), settings, n, width, labels)


def measured(given: Any, folder: Path, settings: Settings, n: int, width: int, labels: int) -> None:
    paths, y = clustered(folder, n, width)
    plain = mapped(paths.pop(PLAIN))
    base = run_pool(Plain(plain), settings, range(n), paths)
    x = base.ready(np.arange(n))
    known = {int(i): int(y[i]) for i in np.random.default_rng(0).choice(n, labels, replace=False)}
    learner = make_learner(base, settings, [str(c) for c in range(CLASSES)], known, None)
    lines = []
    for threads in (1, cores()):
        torch.set_num_threads(threads)
        rounds = [one_round(learner, settings.batch) for _ in range(1 if given.quick else 4)][-3:]  # the first warms up
        took = sorted(rounds, key=lambda parts: sum(parts.values()))[len(rounds) // 2]
        bare = compare({"floor": lambda: floor(x, settings.steps)}, 1 if given.quick else 3)["floor"]
        what = f"{n:,} features of {width:,}, {labels} labels, {settings.steps} steps, {settings.batch} picks"
        lines.append(
            Line(
                f"{what}: {'one thread, as the page has it' if threads == 1 else f'{threads} threads'}",
                sum(took.values()),
                floor=Other("the head's products", bare),
                most=MOST,
                note=", ".join(f"{name} {value:.2g} s" for name, value in took.items()),
            )
        )
    finish("frozen_round", lines, given)


if __name__ == "__main__":
    main()
