"""One round of the page on frozen features: train the head, look at the pool, choose the next batch.

50,000 cached features of 1,280 numbers, 10 classes, 200 labels, and the page's defaults: FixMatch with 300 steps on a linear
head, 20 picks by NPC, by what the page calls (`make_learner`, `fit`, `predict_pool`, `ask`). The page's worker has one torch
thread; all cores are measured besides. The floor is arithmetic that no round can do without: the head's products in
training, forward and backward, on as many rows, and the head on the whole pool once.
"""

import numpy as np
import torch
from suite import Line, Other, arguments, compare, finish, seconds

from askless.active.learner import ActiveLearner
from askless.base.machine import cores
from askless.data import as_pool
from askless.features.frozen import standardisation
from askless.learn import FixMatch
from askless.run.settings import Settings
from askless.run.steps.training import Ground, make_learner

MOST = 10.0  # seconds
CLASSES = 10


def clustered(n: int, width: int) -> tuple[torch.Tensor, np.ndarray]:
    """Features (n, width) around ten centres, standardised as the page has them, and the class of each."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (n,), generator=generator)
    centres = torch.randn(CLASSES, width, generator=generator)
    x = torch.randn(n, width, generator=generator).add_(centres[y])
    mean, scale = standardisation(x)
    return x.sub_(mean).div_(scale), y.numpy()


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
    x, y = clustered(n, width)
    base = Ground(np.arange(n), as_pool(x, kind="features"), lambda at: x[at], None, None)
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
